//! Packets that wait for an SA to be negotiated, each policy's in the order of arrival.

use forward::HoldQueue;
use io::Packet;
use outcome::{DropReason, Outcome};
use wire::Headers;

use crate::event::Event;
use crate::model::Origin;
use crate::out::{AnyOut, Out, hold};
use crate::resolve::{SaWait, has_sa};
use crate::view::View;

/// A packet that waits for an SA.
pub(super) struct HeldForSa {
    pub(super) packet: Packet,
    pub(super) origin: Origin,
    /// When this one's time is up, the owner of the policy is asked again.
    pub(super) asks: bool,
}

/// Waiting packets, to be resolved again.
pub(super) struct SaQueue(HoldQueue<SaWait, HeldForSa>);

impl SaQueue {
    pub(super) fn new(workers: usize) -> SaQueue {
        SaQueue(HoldQueue::new(hold::limits(WAIT_NS, workers)))
    }

    /// There is no SA yet: the owner of the policy is asked for one, and the packet waits.
    ///
    /// Asked when the first packet comes, and again each time that a packet has waited in vain
    /// since the last time: also while more of them come all the time.
    pub(super) fn hold(
        &mut self,
        (view, out): (&View, &mut Out),
        packet: Packet,
        h: &Headers,
        (origin, key): (Origin, SaWait),
    ) {
        let asks = self.0.len_of(&key) == 0;
        match self.0.push(key, HeldForSa { packet, origin, asks }, view.now.ns) {
            Ok(_) => {
                out.counters.count(Outcome::Held, 1);
                if asks {
                    acquire(out, &key, h);
                }
            }
            Err(refused) => out.drop(refused.into_packet().packet, DropReason::OutNoState),
        }
    }

    /// True if no packet waits for an SA.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// SAs that packets wait for.
    pub(super) fn keys(&self) -> impl Iterator<Item = &SaWait> {
        self.0.keys()
    }

    /// True if the first packet that waits there can go on.
    pub(super) fn is_ready(&self, view: &View, key: &SaWait) -> bool {
        let front = self.0.front(key);
        front.is_some_and(|held| has_sa(view, held.packet.data(), held.origin))
    }

    /// Takes the first packet out that can go on.
    pub(super) fn pop_ready(&mut self, view: &View, key: &SaWait) -> Option<HeldForSa> {
        if self.is_ready(view, key) { self.0.pop(key) } else { None }
    }

    /// Drops what has waited for an SA in vain.
    pub(super) fn expire(&mut self, out: &mut Out, now_ns: u64) {
        while let Some((key, held)) = self.0.pop_expired(now_ns) {
            out.released(1);
            out.drop(held.packet, DropReason::HoldTimeout);
            if held.asks {
                self.ask_again(out, &key);
            }
        }
    }

    /// Asks again, as the packet that had asked is gone, and others wait: for the first, and again when the
    /// last has waited as long.
    pub(super) fn ask_again(&mut self, out: &mut Out, key: &SaWait) {
        let front = self.0.front(key);
        let Some(Ok(h)) = front.map(|held| wire::parse_ip(held.packet.data())) else {
            return;
        };
        if let Some(last) = self.0.back_mut(key) {
            last.asks = true;
            acquire(out, key, &h);
        }
    }

    /// Takes over what waits in another queue, counted as held here already, and drops what there
    /// is no room for.
    pub(super) fn adopt(&mut self, from: &mut SaQueue, out: &mut Out, now_ns: u64) {
        while let Some((key, held)) = from.0.pop_any() {
            if let Err(refused) = self.0.push(key, held, now_ns) {
                out.released(1);
                out.drop(refused.into_packet().packet, DropReason::OutNoState);
            }
        }
    }

    /// Drops all that waits for an SA.
    pub(super) fn drop_waiting(&mut self, out: &mut Out) {
        while let Some((_, held)) = self.0.pop_any() {
            out.released(1);
            out.drop(held.packet, DropReason::TransmitDown);
        }
    }
}

fn acquire(out: &mut Out, key: &SaWait, h: &Headers) {
    out.counters.work.acquires.add(1);
    out.reports.offer(Event::Acquire { policy: key.policy, cpu: None, flow: *h });
}

/// How long a packet may wait for an SA to be negotiated.
const WAIT_NS: u64 = 5_000_000_000;
