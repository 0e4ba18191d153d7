//! Packets that wait for an SA to be negotiated.

use arrayvec::ArrayVec;
use io::Packet;
use outcome::{DropReason, Outcome};
use wire::Headers;

use crate::burst::Path;
use crate::event::Event;
use crate::model::Origin;
use crate::out::hold::KEYS_AT_ONCE;
use crate::out::{AnyOut, Out};
use crate::resolve::SaWait;
use crate::slow::Slow;
use crate::slow::sa_queue::HeldForSa;

impl Slow {
    /// There is no SA yet: the owner of the policy is asked for one, and the packet waits.
    ///
    /// Asked when the first packet comes, and again each time that a packet has waited in vain
    /// since the last time: also while more of them come all the time.
    pub(super) fn hold(
        &mut self,
        path: &mut Path,
        packet: Packet,
        h: &Headers,
        origin: Origin,
        key: SaWait,
    ) {
        let (queue, out) = (&mut self.waiting.0, &mut path.exec.out);
        let asks = queue.len_of(&key) == 0;
        match queue.push(key, HeldForSa { packet, origin, asks }, path.view.now.ns) {
            Ok(_) => {
                out.counters.count(Outcome::Held, 1);
                if asks {
                    acquire(out, &key, h);
                }
            }
            Err(refused) => out.drop(refused.into_packet().packet, DropReason::OutNoState),
        }
    }

    /// True if packets wait for an SA.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.0.is_empty()
    }

    /// Drops what has waited for an SA in vain.
    pub(crate) fn expire(&mut self, path: &mut Path) {
        while let Some((key, waiting)) = self.waiting.0.pop_expired(path.view.now.ns) {
            path.exec.out.released(1);
            path.exec.out.drop(waiting.packet, DropReason::HoldTimeout);
            if waiting.asks {
                self.acquire_again(&mut path.exec.out, &key);
            }
        }
    }

    /// Asks again, as the packet that had asked is gone, and others wait: for the first, and again when the
    /// last has waited as long.
    fn acquire_again(&mut self, out: &mut Out, key: &SaWait) {
        let front = self.waiting.0.front(key);
        let Some(Ok(h)) = front.map(|waiting| wire::parse_ip(waiting.packet.data())) else {
            return;
        };
        if let Some(last) = self.waiting.0.back_mut(key) {
            last.asks = true;
            acquire(out, key, &h);
        }
    }

    /// Sends on what waited for SAs that are there now, each SA's in the order of arrival.
    ///
    /// A packet that still has none stays where it is, and those behind it wait with it: what is
    /// taken out does not come back in this round, so this ends.
    pub(super) fn retry(&mut self, path: &mut Path) {
        loop {
            let (queue, view) = (&self.waiting, &path.view);
            let ready = queue.0.keys().filter(|key| queue.is_ready(view, key));
            let mut ready: ArrayVec<SaWait, KEYS_AT_ONCE> =
                ready.take(KEYS_AT_ONCE).copied().collect();
            if ready.is_empty() {
                return;
            }
            // So that the order is the same whenever the same happens.
            ready.sort_unstable();
            for key in &ready {
                self.retry_key(path, key);
            }
        }
    }

    fn retry_key(&mut self, path: &mut Path, key: &SaWait) {
        let mut asked = false;
        while self.waiting.is_ready(&path.view, key) {
            let Some(waiting) = self.waiting.0.pop(key) else { break };
            let HeldForSa { packet, origin, asks } = waiting;
            asked |= asks;
            path.exec.out.released(1);
            match wire::parse_ip(packet.data()) {
                Ok(h) => self.resolve_again(path, packet, &h, origin, None),
                Err(error) => path.exec.out.drop(packet, error.into()),
            }
        }
        // What that SA does not carry needs another one.
        if asked {
            self.acquire_again(&mut path.exec.out, key);
        }
    }

    /// Takes over what waits in another slow path, counted as held here already, and drops what there
    /// is no room for.
    pub(crate) fn adopt(&mut self, from: &mut Slow, out: &mut Out, now_ns: u64) {
        while let Some((key, waiting)) = from.waiting.0.pop_any() {
            if let Err(refused) = self.waiting.0.push(key, waiting, now_ns) {
                out.released(1);
                out.drop(refused.into_packet().packet, DropReason::OutNoState);
            }
        }
    }

    /// Drops all that waits for an SA.
    pub(crate) fn drop_waiting(&mut self, out: &mut Out) {
        while let Some((_, waiting)) = self.waiting.0.pop_any() {
            out.released(1);
            out.drop(waiting.packet, DropReason::TransmitDown);
        }
    }
}

fn acquire(out: &mut Out, key: &SaWait, h: &Headers) {
    out.counters.work.acquires.add(1);
    out.reports.offer(Event::Acquire { policy: key.policy, cpu: None, flow: *h });
}
