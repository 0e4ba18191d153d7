//! The only exit: every packet leaves the stages through it, and is counted there.
//!
//! | exit | a packet is |
//! | --- | --- |
//! | [`Out`], of a worker | sent by a port, handed to Linux or another worker, held, or ended with a reason |
//! | [`HelperOut`], of a helper | noted in the burst at hand, for the worker to do one of these |

pub(crate) mod any;
pub(crate) mod batch;
mod dress;
pub(crate) mod dressed;
pub(crate) mod fragment;
pub(crate) mod hand_over;
pub(crate) mod helper;
pub(crate) mod hold;
pub(crate) mod late;
pub(crate) mod neighbour;
pub(crate) mod overlays;
pub(crate) mod peers;
pub(crate) mod ports;
pub(crate) mod put_off;
pub(crate) mod reports;
pub(crate) mod segments;
mod to_neighbour;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use esp::IvSource;
use io::{Frame, FramePool, Packet};
use outcome::{DropReason, Outcome};
use wire::Span;

pub(crate) use any::AnyOut;
pub(crate) use helper::HelperOut;
pub(crate) use reports::Reports;

use crate::capture::Taps;
use crate::counters::Counters;
use crate::event::Event;
use crate::latency::Sampler;
use crate::model::{
    Arrived, Between, FIRST_VLAN_SLOT, Handed, Ingress, Meta, NextHop, Parcel, Towards, slots,
};
use crate::view::View;
use dress::Dress;
use dressed::send_dressed;
use fragment::fragment;
use late::Late;
use neighbour::NeighbourQueue;
use peers::Peers;
use ports::{Ports, Sent};

/// Ports, frames, counters and reports of one worker.
pub(crate) struct Out {
    pub(crate) counters: Arc<Counters>,
    pub(crate) pool: FramePool,
    pub(crate) ports: Ports,
    pub(crate) reports: Reports,
    /// Packets that wait for a neighbour.
    pub(crate) neighbours: NeighbourQueue,
    /// Packets that wait for this worker to know of what has changed.
    pub(crate) late: Late,
    /// The other workers, if there are any.
    pub(crate) peers: Option<Peers>,
    /// Recorders of packets, during captures.
    pub(crate) taps: Option<Box<Taps>>,
    /// Measures how long packets are here.
    pub(crate) sampler: Sampler,
    /// Tables that frames are dressed by.
    dress: Dress,
    /// Packets that have left a step of SRv6, and go on when the burst is done.
    pub(crate) between: Between,
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
        let (late, peers, taps) = (Late::new(), None, None);
        let (sampler, between) = (Sampler::default(), Between::default());
        let dress = Dress::new(next_lane());
        Out {
            counters,
            pool,
            ports,
            reports,
            neighbours,
            late,
            peers,
            taps,
            sampler,
            dress,
            between,
        }
    }

    /// Ends a packet whose bytes are in another one now.
    #[inline(always)]
    pub(crate) fn consume(&mut self, packet: Packet) {
        if self.taps.is_some() || self.sampler.is_waiting() {
            return self.end(packet, Outcome::Consumed);
        }
        self.counters.count(Outcome::Consumed, 1);
        self.pool.put_packet(packet);
    }

    /// Queues a frame for one queue of a port, by the port's slot, at whichever worker: queue `q` of a port is the
    /// `q / n`th of worker `q % n`.
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
        if slot >= FIRST_VLAN_SLOT {
            return send_dressed(self, slot, packet);
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
        let leaves_by = |packet: &Packet| self.dress.vlans.sent_by(port, packet);
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

impl AsMut<Out> for Out {
    fn as_mut(&mut self) -> &mut Out {
        self
    }
}

impl AnyOut for Out {
    #[inline(always)]
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    fn reports(&mut self) -> &mut Reports {
        &mut self.reports
    }

    #[inline(always)]
    fn taps(&mut self) -> Option<&mut Taps> {
        self.taps.as_deref_mut()
    }

    fn dress(&self) -> &Dress {
        &self.dress
    }

    fn dress_mut(&mut self) -> &mut Dress {
        &mut self.dress
    }

    #[cold]
    fn end(&mut self, packet: Packet, outcome: Outcome) {
        if let Some(taps) = &mut self.taps {
            taps.ended(&packet, outcome);
        }
        self.sampler.ended(&packet);
        self.counters.count(outcome, 1);
        self.pool.put_packet(packet);
    }

    /// Queues it; a full queue is sent first.
    #[inline]
    fn send(&mut self, slot: usize, packet: Packet) {
        match self.ports.queue_with_room(slot) {
            // There is room.
            Some(queue) => {
                let _ = queue.try_push(packet);
            }
            None => self.send_full(slot, packet.frame, packet.span),
        }
    }

    /// Holds it until Linux has found the neighbour.
    fn send_to(&mut self, view: &View, packet: Packet, towards: Towards) {
        self.send_to_neighbour(view, packet, towards);
    }

    #[cold]
    #[inline(never)]
    fn send_sealed_to(&mut self, view: &View, packet: Packet, to: &NextHop, ivs: &mut IvSource) {
        let next = to.towards();
        if packet.span.len <= to.mtu {
            return self.send_to(view, packet, next);
        }
        match wire::parse_ip(packet.data()) {
            Ok(h) => {
                let ident = ivs.random() as u32;
                fragment(self, packet, &h, (to.mtu, ident), |out: &mut Out, piece, _| {
                    out.send_to(view, piece, next);
                });
            }
            Err(error) => self.drop(packet, error.into()),
        }
    }

    fn give_to_linux(&mut self, packet: Packet) {
        match self.ports.private() {
            Some(slot) => self.send(slot, packet),
            None if self.is_served() => self.hand(FIRST, Handed::Frame(packet, None)),
            None => self.drop(packet, DropReason::LinuxFull),
        }
    }

    fn hand(&mut self, to: usize, handed: Handed) {
        self.send_parcel(to, Parcel { handed, judging: None });
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&mut self, view: &View, to: usize, packet: Packet, meta: &Meta) {
        if let Some(peers) = &mut self.peers {
            peers.note_handed(to);
        }
        self.hand(to, Handed::Arrived(Arrived::new(&view.reader, packet, meta)));
    }

    #[cold]
    fn put_off(&mut self, view: &View, packet: Packet, meta: &Meta) {
        if !view.reader.is_behind() || self.late.is_full() {
            return self.drop(packet, DropReason::InNoState);
        }
        self.keep_late(Arrived::new(&view.reader, packet, meta));
    }

    /// Drops it: there is nobody else. A worker has frames for what a helper leaves for want of one.
    #[cold]
    fn leave(&mut self, _view: &View, packet: Packet, _meta: &Meta) {
        self.drop(packet, DropReason::InDeflateTooLong);
    }

    fn keep_wrapped(&mut self, packet: Packet, ingress: Ingress) {
        self.between.push_wrapped(packet, ingress);
    }
}

/// The next thread's lane.
static LANE: AtomicUsize = AtomicUsize::new(0);

/// A lane of a thread's own.
pub(crate) fn next_lane() -> usize {
    LANE.fetch_add(1, Relaxed)
}

/// The worker that has the first queue of every interface.
const FIRST: usize = 0;
