//! The third pass of a packet whose flow has a plan: what the plan says, and nothing is looked up.
//!
//! Whatever is not as it was when the plan was made (an SA that is gone, a limit that was reached,
//! a packet that is too long, a TTL that ends here) goes the full way, which knows what to do.

use core::sync::atomic::Ordering::Relaxed;

use esp::{Mode, Sa};
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{SaEntry, WorkerIndex};
use wire::Headers;

use crate::ingress::Head;
use crate::plan::{Action, Adjacency, Plan, Seal};
use crate::sealing::Exit;
use crate::worker::Worker;

impl Worker {
    /// Moves a packet on: by its flow's plan, or by all the look-ups. `held` is the SA that it was
    /// decrypted by, where that may have been removed since.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        packet: Packet,
        head: &Result<Head, Outcome>,
        held: Option<&SaEntry<Sa>>,
    ) {
        let head = match head {
            Ok(head) => head,
            Err(outcome) => return self.end(packet, *outcome),
        };
        if self.is_own_esp(head) {
            return match self.is_possible_source(&head.h, true) {
                true => self.esp(packet, &head.h, head.key.ingress.ifindex, None),
                false => self.drop_packet(packet, DropReason::MartianSource),
            };
        }
        let reader = &self.reader;
        let plan = head
            .place
            .and_then(|place| self.flows.at(place, &head.key, |stamp| reader.holds(stamp)));
        let Some(plan) = plan.filter(|_| head.has_flow) else {
            return self.enter_anew(packet, head, held);
        };
        let (h, wall_s) = (&head.h, self.now.wall_s);
        match plan.action {
            Action::Seal(seal) => match is_sealed_by(&self.reader, &seal, &packet, h) {
                true => {
                    count(plan, h, wall_s);
                    self.seal(packet, h, &seal);
                }
                false => self.enter_anew(packet, head, held),
            },
            Action::OpenBare => self.esp(packet, h, head.key.ingress.ifindex, None),
            Action::OpenUdp => self.udp_encapsulated(packet, h, head.key.ingress.ifindex),
            Action::ToLinux => {
                count(plan, h, wall_s);
                self.give_to_linux(packet);
            }
            Action::Forward { adjacency, mtu, is_hop } => {
                if h.total_len > mtu || is_hop && h.ttl <= 1 {
                    return self.enter_anew(packet, head, held);
                }
                count(plan, h, wall_s);
                self.forward(packet, h, adjacency, is_hop);
            }
        }
    }

    /// Protects a packet.
    #[inline(always)]
    fn seal(&mut self, mut packet: Packet, h: &Headers, seal: &Seal) {
        if seal.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.drop_packet(packet, DropReason::MalformedIp);
        }
        self.gather(packet, h, seal.sa, seal.mtu.into(), Exit::Ready(seal.adjacency));
    }

    /// Sends a packet on in clear.
    #[inline(always)]
    fn forward(&mut self, mut packet: Packet, h: &Headers, adjacency: Adjacency, is_hop: bool) {
        if is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
            return self.drop_packet(packet, DropReason::MalformedIp);
        }
        self.counters.work.forwarded_clear.add(1);
        let span = packet.span;
        match adjacency.frame(packet.frame.bytes_mut(), span) {
            Some(frame) => {
                packet.span = frame;
                self.enqueue(adjacency.slot.into(), packet);
            }
            None => self.drop_packet(packet, DropReason::OutNoRoom),
        }
    }
}

/// Whether the plan's SA is still the one for this packet, and the packet can go as it is.
#[inline]
fn is_sealed_by(
    reader: &policy::Reader<esp::Sa>,
    seal: &Seal,
    packet: &Packet,
    h: &Headers,
) -> bool {
    let Some(sa) = reader.sa(seal.sa) else { return false };
    let cells = sa.esp.cells();
    let fits = match seal.longest {
        0 => {
            let len = sa.esp.sealed_len_of(packet.data(), h);
            sa.esp.params().mode == Mode::Transport
                && len.is_ok_and(|len| len <= usize::from(seal.mtu))
        }
        longest => h.total_len <= longest,
    };
    fits && sa.state() == seal.state
        && sa.is_below_alarms(cells.bytes().load(Relaxed), cells.packets().load(Relaxed))
        && (!seal.is_hop || h.ttl > 1)
}

/// Counts a packet with the policies that allowed it.
#[inline]
fn count(plan: &Plan, h: &Headers, now_s: u64) {
    for policy in plan.policies() {
        policy.count(WorkerIndex::FIRST, 1, u64::from(h.total_len), now_s);
    }
}
