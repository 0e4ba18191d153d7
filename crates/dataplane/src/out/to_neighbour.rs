//! Packets to a neighbour: sent, or held until Linux has found it.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use forward::{Held, Resolution};
use io::Packet;
use outcome::{DropReason, Outcome};
use wire::Span;
use wire::ethernet::{HEADER_LEN, emit_untagged};

use crate::event::Event;
use crate::model::{Towards, keeping_dei};
use crate::out::any::ether_type;
use crate::out::dressed::send_dressed;
use crate::out::hold::KEYS_AT_ONCE;
use crate::out::neighbour::{NeighbourQueue, Waiting};
use crate::out::{AnyOut, Out};
use crate::view::View;

impl Out {
    /// Sends an IP packet to a neighbour, or holds it until Linux has found the neighbour.
    pub(super) fn send_to_neighbour(&mut self, view: &View, mut packet: Packet, towards: Towards) {
        let Towards { ifindex, addr, keeps_dei } = towards;
        let interface = view.topology.interfaces.get(&ifindex);
        let Some((slot, interface)) = interface.filter(|i| i.up).and_then(|i| Some((i.port?, i)))
        else {
            return match self
                .dress
                .segments
                .slot(ifindex)
                .zip(packet.span.start.checked_sub(HEADER_LEN))
            {
                Some((slot, start)) => {
                    packet.span = Span { start, len: packet.span.len + HEADER_LEN };
                    send_dressed(self, slot.into(), packet);
                }
                None => self.drop(packet, DropReason::TransmitDown),
            };
        };
        let neighbour = match view.neighbours.resolve(ifindex, addr) {
            Resolution::Resolved { mac, confirm } => {
                // Linux sees none of our packets: without a hint it would let the entry age.
                if confirm {
                    self.reports.confirm_neighbour(ifindex, addr, view.now.ns);
                }
                mac
            }
            Resolution::Unknown => {
                return self.hold_for_neighbour(view, packet, towards, true);
            }
            Resolution::Pending => {
                return self.hold_for_neighbour(view, packet, towards, false);
            }
            Resolution::Failed => {
                self.reports.confirm_neighbour(ifindex, addr, view.now.ns);
                return self.drop(packet, DropReason::NeighbourFailed);
            }
        };
        let Some(ether_type) = ether_type(&packet) else {
            return self.drop(packet, DropReason::MalformedIp);
        };
        let Some(start) = packet.span.start.checked_sub(HEADER_LEN) else {
            return self.drop(packet, DropReason::OutNoRoom);
        };
        packet.span = Span { start, len: packet.span.len + HEADER_LEN };
        if emit_untagged(packet.data_mut(), neighbour, interface.mac, ether_type).is_err() {
            return self.drop(packet, DropReason::OutNoRoom);
        }
        self.send(if keeps_dei { keeping_dei(slot) } else { slot }, packet);
    }

    /// Holds a packet. The first asks for the neighbour at once; the others, as often as the limit
    /// allows, while Linux shows no sign of having heard.
    pub(super) fn hold_for_neighbour(
        &mut self,
        view: &View,
        packet: Packet,
        towards: Towards,
        is_unknown: bool,
    ) {
        let Towards { ifindex, addr, keeps_dei } = towards;
        let waiting = Waiting { packet, keeps_dei };
        match self.neighbours.0.push((ifindex, addr), waiting, view.now.ns) {
            Ok(place) => {
                self.counters.count(Outcome::Held, 1);
                if place == Held::First {
                    self.reports.offer(Event::Resolve { ifindex, ip: addr });
                } else if is_unknown {
                    self.reports.confirm_neighbour(ifindex, addr, view.now.ns);
                }
            }
            Err(refused) => self.drop(refused.into_packet().packet, DropReason::HoldQueueFull),
        }
    }

    /// Sends on what waited for neighbours that are there now, or are known to be gone.
    pub(crate) fn retry_neighbours(&mut self, view: &View) {
        loop {
            let is_settled = |key: &&(u32, IpAddr)| {
                let resolution = view.neighbours.resolve(key.0, key.1);
                matches!(resolution, Resolution::Resolved { .. } | Resolution::Failed)
            };
            let waiting = self.neighbours.0.keys();
            let mut settled: ArrayVec<(u32, IpAddr), KEYS_AT_ONCE> =
                waiting.filter(is_settled).take(KEYS_AT_ONCE).copied().collect();
            if settled.is_empty() {
                return;
            }
            // So that the order is the same whenever the same happens.
            settled.sort_unstable();
            for key @ (ifindex, addr) in settled {
                while let Some(Waiting { packet, keeps_dei }) = self.neighbours.0.pop(&key) {
                    self.released(1);
                    self.send_to(view, packet, Towards { ifindex, addr, keeps_dei });
                }
            }
        }
    }

    /// Drops what has waited for a neighbour in vain.
    pub(crate) fn expire_neighbours(&mut self, now_ns: u64) {
        while let Some((_, waiting)) = self.neighbours.0.pop_expired(now_ns) {
            self.released(1);
            self.drop(waiting.packet, DropReason::HoldTimeout);
        }
    }

    /// Takes over what waits in another queue, counted as held here already, and drops what there is
    /// no room for.
    pub(crate) fn adopt_neighbours(&mut self, from: &mut NeighbourQueue, now_ns: u64) {
        while let Some((key, waiting)) = from.0.pop_any() {
            if let Err(refused) = self.neighbours.0.push(key, waiting, now_ns) {
                self.released(1);
                self.drop(refused.into_packet().packet, DropReason::HoldQueueFull);
            }
        }
    }

    /// Drops all that waits for a neighbour.
    pub(crate) fn drop_waiting_for_neighbours(&mut self) {
        while let Some((_, waiting)) = self.neighbours.0.pop_any() {
            self.released(1);
            self.drop(waiting.packet, DropReason::TransmitDown);
        }
    }
}
