//! Rate limits of flows: what their plans have no room for, and what a worker has of limiters.
//!
//! A plan says where it stands here ([`RateSlot`]); each place of the flow cache has one. What is done to a packet that
//! passes stands there too.

use std::sync::Arc;

use esp::Sa;
use io::Packet;
use limit::{Level, Meters, Passed, Path};
use policy::{Reader, WorkerIndex};
use wire::Fields;

use crate::flows::Details;
use crate::flows::plan::Action;
use crate::rate_limit::RateRules;
use crate::resolve::RateLimit;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateSlot {
    place: u32,
    serial: u32,
}

/// An entry.
struct Kept {
    serial: u32,
    beneath: Action,
    path: Path,
    key: u64,
}

/// The entries of one thread, and its side of the limiters. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Rates {
    places: Vec<Option<Kept>>,
    serial: u32,
    state: State,
    rules: Arc<RateRules>,
    /// The rule whose leases go back next.
    resting: usize,
}

/// The worker's side of the limiters.
#[derive(Default)]
struct State {
    /// Of limiters of which each flow, or each tunnel, has buckets of its own.
    meters: Vec<(Level, Meters)>,
}

impl Rates {
    /// Keeps what is done to the packets of the flow at a place of the flow cache, which has so many.
    pub(crate) fn keep(
        &mut self,
        (place, places): (usize, usize),
        beneath: Action,
        limit: &RateLimit,
    ) -> Option<RateSlot> {
        if self.places.is_empty() {
            self.places.resize_with(places, || None);
        }
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        let RateLimit { path, key, .. } = limit;
        let kept = Kept { serial, beneath, path: path.clone(), key: *key };
        *self.places.get_mut(place)? = Some(kept);
        Some(RateSlot { place: place as u32, serial })
    }

    fn kept(&self, slot: RateSlot) -> Option<&Kept> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }

    /// Has a packet pass by a plan, and says what is done to it then; none if it does not pass.
    pub(crate) fn pass_by_plan(
        &mut self,
        slot: RateSlot,
        h: Fields,
        now_ns: u64,
    ) -> Option<(Action, Passed)> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        if kept.serial != slot.serial {
            return None;
        }
        let passed = self.state.pass((&kept.path, kept.key), h, now_ns)?;
        Some((kept.beneath, passed))
    }

    /// Has a packet pass by a decision.
    pub(crate) fn pass(&mut self, limit: &RateLimit, h: Fields, now_ns: u64) -> Option<Passed> {
        self.state.pass((&limit.path, limit.key), h, now_ns)
    }

    /// Gives back what is leased of some limiters, in turn: the worker has nothing to do.
    #[inline(always)]
    pub(crate) fn rest(&mut self, worker: WorkerIndex) {
        if !self.rules.is_empty() {
            self.give_some_back(worker);
        }
    }

    #[inline(never)]
    fn give_some_back(&mut self, worker: WorkerIndex) {
        let rules = self.rules.rules();
        let from = if self.resting < rules.len() { self.resting } else { 0 };
        self.resting = from + RESTING_AT_ONCE;
        let some = rules.iter().skip(from).take(RESTING_AT_ONCE);
        some.for_each(|rule| rule.limiter.give_back(worker.get()));
    }

    /// There may be other limiters.
    pub(crate) fn begin_epoch(&mut self, rules: &Arc<RateRules>, worker: WorkerIndex) {
        if Arc::ptr_eq(&self.rules, rules) {
            return;
        }
        let old = core::mem::replace(&mut self.rules, Arc::clone(rules));
        let mut next = rules.rules().iter();
        for rule in old.rules() {
            // Mostly all but one are the same, in the same place.
            let is_same = next.next().is_some_and(|next| next.limiter.is_same(&rule.limiter));
            if !is_same {
                rule.limiter.give_back(worker.get());
            }
        }
        self.state.meters.retain(|(level, _)| rules.has(level));
    }
}

impl State {
    fn pass(&mut self, (path, key): (&Path, u64), h: Fields, now_ns: u64) -> Option<Passed> {
        let (len, dscp) = (usize::from(h.total_len()), h.traffic_class() >> 2);
        let own = match path.leaf() {
            Some(leaf) if path.is_each() => {
                let at = self.meters.iter().position(|(level, _)| level.is_like(leaf));
                let at = at.unwrap_or_else(|| {
                    self.meters.push((leaf.clone(), Meters::new(MOST_METERS)));
                    self.meters.len() - 1
                });
                let (level, meters) = self.meters.get_mut(at)?;
                meters.of(key, level.settings(), now_ns)
            }
            _ => None,
        };
        path.pass(own, (len, dscp), now_ns).ok()
    }
}

impl Details {
    /// Whether a plan with a limit holds for a packet.
    #[inline(never)]
    pub(crate) fn holds_beneath_limit(
        &self,
        reader: &Reader<Sa>,
        slot: RateSlot,
        packet: &Packet,
        h: Fields,
    ) -> bool {
        let kept = self.rates.kept(slot);
        kept.is_some_and(|kept| kept.beneath.holds(reader, self, packet, h))
    }
}

/// Flows, or tunnels, that have buckets of their own at a time, for each limiter and worker: 512 KiB.
const MOST_METERS: usize = 1 << 14;

/// Limiters of which an idle round gives leases back.
const RESTING_AT_ONCE: usize = 64;
