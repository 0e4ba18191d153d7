//! The only exit: every packet leaves the stages through [`Out`], and is counted there.
//!
//! A packet is sent by a port, handed to Linux, held, or ended with a reason. On a helper, which has
//! no ports, what becomes of a packet is noted in the burst at hand, for the worker to carry out.

pub(crate) mod batch;
pub(crate) mod fragment;
pub(crate) mod hand_over;
pub(crate) mod hold;
pub(crate) mod late;
pub(crate) mod neighbour;
pub(crate) mod peers;
pub(crate) mod ports;
pub(crate) mod put_off;
pub(crate) mod reports;
pub(crate) mod segments;
mod to_neighbour;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use io::{Frame, FramePool, Packet};
use outcome::{DropReason, Outcome};
use wire::Span;
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};

pub(crate) use reports::Reports;

use crate::capture::Taps;
use crate::counters::Counters;
use crate::event::Event;
use crate::latency::Sampler;
use crate::model::{Between, FIRST_VLAN_SLOT, Handed, is_headend, slots};
use crate::tables::segments::Segments;
use crate::tables::vlan::Vlans;
use batch::Batch;
use late::Late;
use neighbour::NeighbourQueue;
use peers::Peers;
use ports::{Ports, Sent};

/// Ports, frames, counters and reports of one thread.
pub(crate) struct Out {
    pub(crate) counters: Arc<Counters>,
    pub(crate) pool: FramePool,
    pub(crate) ports: Ports,
    pub(crate) reports: Reports,
    /// Packets that wait for a neighbour.
    pub(crate) neighbours: NeighbourQueue,
    /// Packets that wait for this thread to know of what has changed.
    pub(crate) late: Late,
    /// The other workers, if there are any.
    pub(crate) peers: Option<Peers>,
    /// The helpers' burst at hand, in which the fate of its packets is noted.
    pub(crate) batch: Option<Box<Batch>>,
    /// Recorders of packets, during captures.
    pub(crate) taps: Option<Box<Taps>>,
    /// Measures how long packets are here.
    pub(crate) sampler: Sampler,
    /// The VLANs of ports, as of the view.
    pub(crate) vlans: Arc<Vlans>,
    /// Headends, as of the view.
    pub(crate) segments: Segments,
    /// Packets that have left a step of SRv6, and go on when the burst is done.
    pub(crate) between: Between,
    /// Where this thread counts VLANs' frames.
    pub(crate) lane: usize,
}

impl Out {
    /// Without ports, and without others.
    pub(crate) fn new(
        counters: Arc<Counters>,
        pool: FramePool,
        reports: Reports,
        neighbours: NeighbourQueue,
    ) -> Out {
        let ports = Ports::new();
        let (late, peers, batch, taps) = (Late::new(), None, None, None);
        let (sampler, vlans) = (Sampler::default(), Arc::default());
        let (segments, between) = (Segments::default(), Between::default());
        let lane = LANE.fetch_add(1, Relaxed);
        Out {
            counters,
            pool,
            ports,
            reports,
            neighbours,
            late,
            peers,
            batch,
            taps,
            sampler,
            vlans,
            segments,
            between,
            lane,
        }
    }

    /// Ends a packet by dropping it.
    pub(crate) fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.end(packet, reason.into());
    }

    /// Ends a packet.
    #[cold]
    pub(crate) fn end(&mut self, packet: Packet, outcome: Outcome) {
        if let Some(batch) = &mut self.batch {
            return batch.end(packet, outcome);
        }
        if let Some(taps) = &mut self.taps {
            taps.ended(&packet, outcome);
        }
        self.sampler.ended(&packet);
        self.counters.count(outcome, 1);
        self.pool.put_packet(packet);
    }

    /// Ends a packet whose bytes are in another one now.
    #[inline(always)]
    pub(crate) fn consume(&mut self, packet: Packet) {
        if self.batch.is_some() || self.taps.is_some() || self.sampler.is_waiting() {
            return self.end(packet, Outcome::Consumed);
        }
        self.counters.count(Outcome::Consumed, 1);
        self.pool.put_packet(packet);
    }

    /// Hands an IP packet to Linux, through the private interface.
    pub(crate) fn give_to_linux(&mut self, packet: Packet) {
        let private = match &self.batch {
            Some(batch) => batch.private.map(usize::from),
            None => self.ports.private(),
        };
        match private {
            Some(slot) => self.send(slot, packet),
            None if self.is_served() => self.hand(FIRST, Handed::Frame(packet, None)),
            None => self.drop(packet, DropReason::LinuxFull),
        }
    }

    /// Gives a packet back to Linux as received by the interface that it came in by. Its Ethernet
    /// header still stands in front of it: nothing was written there since.
    pub(crate) fn give_back(&mut self, mut packet: Packet, tag: u16) {
        match io::tun::back::tag(&mut packet, tag) {
            true => self.give_to_linux(packet),
            // A port leaves more room than that in front of each frame.
            false => self.drop(packet, DropReason::OutNoRoom),
        }
    }

    /// Hands an IP packet to Linux with the mark, and as received by the interface, that a tag stands
    /// for.
    pub(crate) fn give_marked(&mut self, mut packet: Packet, tag: u16) {
        // Nobody reads the addresses: Linux takes the header off.
        let none = wire::MacAddr([0; 6]);
        let header = packet.span.start.checked_sub(HEADER_LEN);
        let written = ether_type(&packet).zip(header).is_some_and(|(ether_type, start)| {
            let header = packet.buffer_mut().get_mut(start..).unwrap_or_default();
            emit_untagged(header, none, none, ether_type).is_ok()
        });
        match written && io::tun::back::tag(&mut packet, tag) {
            true => self.give_to_linux(packet),
            false => self.drop(packet, DropReason::OutNoRoom),
        }
    }

    /// Queues a frame for a port; a full queue is sent first.
    #[inline]
    pub(crate) fn send(&mut self, slot: usize, packet: Packet) {
        if let Some(batch) = &mut self.batch
            && slot < FIRST_VLAN_SLOT
        {
            return batch.send(slot, packet.frame, packet.span);
        }
        match self.ports.queue_with_room(slot) {
            // There is room.
            Some(queue) => {
                let _ = queue.try_push(packet);
            }
            None => self.send_full(slot, packet.frame, packet.span),
        }
    }

    /// Queues a frame for one queue of a port, by the port's slot, at whichever worker: queue `q` of a port is the
    /// `q / n`th of worker `q % n`. Not for helpers.
    pub(crate) fn send_by_queue(&mut self, (port, queue): (usize, usize), packet: Packet) {
        let (worker, workers) = self.peers.as_ref().map_or((0, 1), |p| (p.worker(), p.workers()));
        let (home, turn) = (queue % workers.max(1), queue / workers.max(1));
        let Some(slot) = slots::of_turn(port, turn) else {
            return self.drop(packet, DropReason::TransmitDown);
        };
        match home == worker {
            true => self.send(slot, packet),
            // As all slots of queues it fits.
            false => self.hand(home, Handed::Frame(packet, Some(slot as u16))),
        }
    }

    #[cold]
    #[inline(never)]
    fn send_full(&mut self, slot: usize, frame: Frame, span: Span) {
        let packet = Packet { frame, span };
        if is_headend(slot) {
            return self.send_to_segments(slot, packet);
        }
        if slot >= FIRST_VLAN_SLOT {
            return self.send_tagged(slot, packet);
        }
        self.transmit(slot);
        if let Some(queue) = self.ports.queue_with_room(slot) {
            let _ = queue.try_push(packet);
        } else if self.ports.get_mut(slot).is_some() {
            self.drop(packet, DropReason::TransmitFull);
        } else if self.is_served() {
            // As all slots of queues it fits.
            self.hand(FIRST, Handed::Frame(packet, Some(slot as u16)));
        } else {
            self.drop(packet, DropReason::TransmitDown);
        }
    }

    /// Tags a frame of a VLAN, and queues it for the VLAN's port.
    fn send_tagged(&mut self, slot: usize, mut packet: Packet) {
        let Some(vlan) = self.vlans.at(slot) else {
            return self.drop(packet, DropReason::TransmitDown);
        };
        if !vlan.tag(&mut packet, slot) {
            return self.drop(packet, DropReason::OutNoRoom);
        }
        vlan.counters.sent(self.lane, packet.span.len);
        self.send(vlan.port_slot, packet);
    }

    /// True if the first worker sends for this one: it has a queue of every interface.
    fn is_served(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.worker() != FIRST)
    }

    /// Sends what is queued for a port.
    pub(crate) fn transmit(&mut self, slot: usize) {
        if self.taps.is_some() || self.sampler.is_waiting() {
            return self.transmit_watched(slot);
        }
        let sent = self.ports.transmit(slot, &mut self.pool);
        self.count_sent(sent);
    }

    /// [`Out::transmit`], with a record of what is sent, or with a look for the packet that is measured.
    #[cold]
    #[inline(never)]
    fn transmit_watched(&mut self, slot: usize) {
        let place = self.ports.get_mut(slot);
        let (port, is_linux) =
            place.as_ref().map_or((0, false), |p| (p.ifindex, p.kind.is_linux()));
        let queue = place.map(|place| place.queue.as_slice()).unwrap_or_default();
        let came_ns = self.sampler.leaving(queue);
        let leaves_by = |packet: &Packet| self.vlans.sent_by(port, packet);
        let frames = self.taps.as_mut().map(|taps| taps.leaving(queue, is_linux, leaves_by));
        let sent = self.ports.transmit(slot, &mut self.pool);
        if let (Some(taps), Some(frames)) = (&mut self.taps, frames) {
            // Which of them the device refused it does not say.
            let taken = (sent.sent + sent.refused) as usize;
            taps.left(&frames, is_linux, (taken, sent.reason()));
        }
        // One that the device refused has not left, and which those are it does not say.
        if let Some(came_ns) = came_ns.filter(|_| sent.refused + sent.left == 0) {
            let ns = self.reports.clock_ns().saturating_sub(came_ns);
            self.counters.latency.observe(ns);
        }
        self.count_sent(sent);
    }

    #[inline(always)]
    fn count_sent(&mut self, sent: Sent) {
        let done = if sent.is_linux { Outcome::ToLinux } else { Outcome::Transmitted };
        if sent.sent + sent.refused + sent.left > 0 {
            let reason = sent.reason();
            self.counters.count(done, sent.sent);
            self.counters.count(Outcome::Dropped(sent.full()), sent.refused);
            self.counters.count(Outcome::Dropped(reason), sent.left);
        }
        if let Some(ifindex) = sent.gone {
            self.lose_port(ifindex);
        }
    }

    /// Tells captures the packets that were recorded in a round.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_tapped_round(&mut self) {
        if self.taps.as_mut().is_some_and(|taps| !taps.end_round()) {
            self.taps = None;
        }
    }

    /// Sends what is queued for every port.
    pub(crate) fn transmit_all(&mut self) {
        let mut place = 0;
        while let Some(slot) = self.ports.slot_at(place) {
            self.transmit(slot);
            place += 1;
        }
    }

    /// Drops every port of an interface, and what is queued there.
    pub(crate) fn remove_ports(&mut self, ifindex: u32) {
        let queued = self.ports.remove(ifindex, &mut self.pool);
        self.counters.count(Outcome::Dropped(DropReason::TransmitDown), queued);
    }

    /// The interface of a port is gone: closes its ports and reports it.
    pub(crate) fn lose_port(&mut self, ifindex: u32) {
        self.remove_ports(ifindex);
        self.reports.send(Event::PortGone { ifindex });
    }

    /// A held packet goes on; it will end in another way.
    pub(crate) fn released(&self, n: u64) {
        self.counters.released(n);
    }
}

/// The next thread's lane.
static LANE: AtomicUsize = AtomicUsize::new(0);

/// The worker that has the first queue of every interface.
const FIRST: usize = 0;

/// The EtherType by the packet's version field.
fn ether_type(packet: &Packet) -> Option<EtherType> {
    match packet.data().first()? >> 4 {
        4 => Some(EtherType::IPV4),
        6 => Some(EtherType::IPV6),
        _ => None,
    }
}
