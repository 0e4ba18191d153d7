//! The third pass of a packet whose flow has a plan: what the plan says, and nothing is looked up.
//!
//! Whatever is not as it was when the plan was made (an SA that is gone, a limit that was reached,
//! a packet that is too long, a TTL that ends here) goes the full way, which knows what to do.

use core::sync::atomic::Ordering::Relaxed;

use esp::{Mode, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{SaEntry, WorkerIndex};
use wire::Brief;

use crate::counters::Work;
use crate::ingress::Head;
use crate::plan::{Action, Plan, Seal};
use crate::sealing::Exit;
use crate::worker::Worker;

impl Worker {
    /// The third pass of any packet, see [`Worker::enter`].
    #[inline(never)]
    pub(crate) fn enter_any(&mut self, packet: Packet, head: &Head, held: Option<&SaEntry<Sa>>) {
        match head.is_own_esp {
            true => self.enter_own_esp(packet, head),
            false => self.enter(packet, head, held),
        }
    }

    /// The third pass of bare ESP for this host, as its destination alone tells.
    #[inline(always)]
    pub(crate) fn enter_own_esp(&mut self, packet: Packet, head: &Head) {
        if let Some(outcome) = head.end {
            return self.end(packet, outcome);
        }
        if self.has_left {
            return self.leave(packet, head);
        }
        match self.is_known_source(&head.digest.flow) {
            true => self.esp_here(packet, head, None),
            false => self.drop_packet(packet, DropReason::MartianSource),
        }
    }

    /// Moves a packet on, by its flow's plan or by all the look-ups, that is not
    /// [ESP for this host](Worker::enter_own_esp). `held` is the SA that it was decrypted by, where
    /// that may have been removed since.
    #[inline(always)]
    pub(crate) fn enter(&mut self, packet: Packet, head: &Head, held: Option<&SaEntry<Sa>>) {
        if let Some(outcome) = head.end {
            return self.end(packet, outcome);
        }
        if self.has_left {
            return self.leave(packet, head);
        }
        // The plan is borrowed while it is followed, so there is room before.
        if self.sealing.is_full() {
            self.seal_gathered();
        }
        let reader = &self.reader;
        let Some(place) = head.place.filter(|_| head.has_flow) else {
            return self.enter_anew(packet, head, held);
        };
        let Some(plan) = self.flows.at(place, &head.key(), |stamp| reader.holds(stamp)) else {
            return self.enter_anew(packet, head, held);
        };
        let (h, wall_s) = (head.digest.brief, self.now.wall_s);
        match &plan.action {
            Action::Seal(seal) => {
                let Some(sa) = reader.sa(seal.sa) else {
                    return self.enter_anew(packet, head, held);
                };
                if !is_sealed_by(sa, seal, &packet, h) {
                    return self.enter_anew(packet, head, held);
                }
                count(&self.counters.work, plan, h, wall_s);
                let mut packet = packet;
                if seal.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
                    return self.drop_packet(packet, DropReason::MalformedIp);
                }
                let exit = Exit::Ready(&seal.adjacency);
                let gathered =
                    self.sealing.gather(packet, h, (seal.sa, sa), seal.mtu.into(), exit, wall_s);
                if let Err((packet, reason)) = gathered {
                    self.drop_packet(packet, reason);
                }
            }
            Action::OpenBare => self.esp(packet, head, None),
            Action::OpenUdp => self.udp_encapsulated(packet, head),
            Action::ToLinux => {
                count(&self.counters.work, plan, h, wall_s);
                self.give_to_linux(packet);
            }
            Action::BackToLinux { tag } => {
                count(&self.counters.work, plan, h, wall_s);
                let tag = *tag;
                self.give_back(packet, tag);
            }
            Action::Forward { adjacency, mtu, is_hop } => {
                if h.total_len() > *mtu || *is_hop && h.ttl() <= 1 {
                    return self.enter_anew(packet, head, held);
                }
                count(&self.counters.work, plan, h, wall_s);
                let mut packet = packet;
                if *is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
                    return self.drop_packet(packet, DropReason::MalformedIp);
                }
                self.counters.work.forwarded_clear.add(1);
                let (slot, span) = (adjacency.slot, packet.span);
                match adjacency.frame(packet.frame.bytes_mut(), span) {
                    Some(frame) => {
                        packet.span = frame;
                        self.enqueue(slot.into(), packet);
                    }
                    None => self.drop_packet(packet, DropReason::OutNoRoom),
                }
            }
        }
    }
}

/// Whether the plan's SA is still the one for this packet, and the packet can go as it is.
#[inline(always)]
fn is_sealed_by(sa: &SaEntry<Sa>, seal: &Seal, packet: &Packet, h: Brief) -> bool {
    let cells = sa.esp.cells();
    let fits = match seal.longest {
        0 => {
            let len = sa.esp.sealed_len_of(packet.data(), h);
            sa.esp.params().mode == Mode::Transport
                && len.is_ok_and(|len| len <= usize::from(seal.mtu))
        }
        longest => h.total_len() <= longest,
    };
    fits && sa.state() == seal.state
        && sa.is_below_alarms(cells.bytes().load(Relaxed), cells.packets().load(Relaxed))
        && (!seal.is_hop || h.ttl() > 1)
}

/// Counts a packet that goes by a plan, also with the policies that allowed it.
#[inline(always)]
fn count(work: &Work, plan: &Plan, h: Brief, now_s: u64) {
    work.flow_hits.add(1);
    for tally in plan.tallies() {
        tally.count(WorkerIndex::FIRST, 1, u64::from(h.total_len()), now_s);
    }
}
