//! Packets that wait for a neighbour, ready but for the Ethernet header.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use forward::{Held, HoldLimits, HoldQueue, Resolution};
use io::Packet;
use outcome::{DropReason, Outcome};

use crate::event::Event;
use crate::model::Towards;
use crate::out::hold::{self, KEYS_AT_ONCE};
use crate::out::out::Out;
use crate::view::View;

/// How long a packet may wait for a neighbour, as Linux's three solicitations take.
const WAIT_NS: u64 = 3_000_000_000;

/// Waiting packets by egress interface and next hop.
pub(crate) struct NeighbourQueue(HoldQueue<(u32, IpAddr), Waiting>);

/// One of them.
struct Waiting {
    packet: Packet,
    /// As of [`Towards`].
    keeps_dei: bool,
}

impl NeighbourQueue {
    pub(crate) fn new(workers: usize) -> NeighbourQueue {
        NeighbourQueue(HoldQueue::new(hold::limits(WAIT_NS, workers)))
    }

    /// One on a helper, where no packet waits.
    pub(crate) fn none() -> NeighbourQueue {
        NeighbourQueue(HoldQueue::new(HoldLimits { per_key: 0, total: 0, timeout_ns: 0 }))
    }
}

impl Out {
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
