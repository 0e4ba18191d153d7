//! Rate limits of flows: what their plans have no room for, and what a worker has of limiters.
//!
//! A plan says where it stands here ([`RateSlot`]); each place of the flow cache has one. What is done to a packet that
//! passes stands there too.

use std::sync::Arc;

use limit::{Hold, Level, LimitPath, Meter, Meters, Passed, Place, Visit};
use mem::Cache;
use policy::WorkerIndex;
use wire::Fields;

use crate::features::limit::grant::Grant;
use crate::features::limit::queues::{Dequeued, LimitQueues};
use crate::model::{Action, RateLimit, RateSlot};
use crate::tables::rate_rules::RateRules;

/// An entry of the table.
struct FlowLimit {
    serial: u32,
    beneath: Action,
    path: LimitPath,
    key: u64,
    dscp: Option<u8>,
}

/// The entries of one thread, and its side of the limiters. They take memory with the first one.
#[derive(Default)]
pub(crate) struct Rates {
    places: Vec<Option<FlowLimit>>,
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
    /// Packets that wait for tokens; made for the first one.
    queues: Option<Box<LimitQueues>>,
    /// The homes that are this worker for this round, each once.
    holds: Vec<Hold>,
}

/// Why a packet does not pass here and now.
pub(crate) enum Stop {
    /// The packet never passes.
    Refused,
    /// There are no tokens for it yet; at this time there are, if nobody else takes them.
    Until(u64),
    /// This worker is the home of its limiters: the packet has to go there.
    Elsewhere(usize, Visit),
}

impl From<limit::Stop> for Stop {
    fn from(stop: limit::Stop) -> Stop {
        match stop {
            limit::Stop::Refused(_) => Stop::Refused,
            limit::Stop::Until(ns) => Stop::Until(ns),
        }
    }
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
        let RateLimit { path, key, dscp } = limit;
        let kept = FlowLimit { serial, beneath, path: path.clone(), key: *key, dscp: *dscp };
        *self.places.get_mut(place)? = Some(kept);
        Some(RateSlot { place: place as u32, serial })
    }

    fn kept(&self, slot: RateSlot) -> Option<&FlowLimit> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        (kept.serial == slot.serial).then_some(kept)
    }

    /// Has a packet pass by a plan, and says what is done to it then. `grant`: tokens that it has already.
    ///
    /// # Errors
    /// It does not pass, or has to wait.
    #[inline]
    pub(crate) fn pass_by_plan(
        &mut self,
        slot: RateSlot,
        h: Fields,
        now_ns: u64,
        grant: Option<Grant>,
    ) -> Result<(Action, Passed), Stop> {
        let kept = self.places.get(slot.place as usize).and_then(Option::as_ref);
        let kept = kept.filter(|kept| kept.serial == slot.serial).ok_or(Stop::Refused)?;
        let passed = self.state.pass((&kept.path, kept.key), h, now_ns, grant)?;
        Ok((kept.beneath, passed))
    }

    /// Has a packet pass by a decision. `grant`: tokens that it has already.
    ///
    /// # Errors
    /// It does not pass, or has to wait.
    pub(crate) fn pass(
        &mut self,
        limit: &RateLimit,
        h: Fields,
        now_ns: u64,
        grant: Option<Grant>,
    ) -> Result<Passed, Stop> {
        self.state.pass((&limit.path, limit.key), h, now_ns, grant)
    }

    /// Action for a packet that passes by a plan. `None` if the plan is not for the packet's DSCP.
    pub(crate) fn beneath(&self, slot: RateSlot, h: Fields) -> Option<&Action> {
        let kept = self.kept(slot)?;
        let is_meant = kept.dscp.is_none_or(|dscp| h.traffic_class() >> 2 == dscp);
        is_meant.then_some(&kept.beneath)
    }

    /// Prefetches an entry.
    #[inline]
    pub(crate) fn prefetch(&self, cache: Cache, slot: RateSlot) {
        if let Some(kept) = self.places.get(slot.place as usize) {
            mem::prefetch_all_into(cache, kept);
        }
    }

    /// Prefetches the lane that it leads to, once it is near itself.
    #[inline]
    pub(crate) fn prefetch_lane(&self, cache: Cache, slot: RateSlot) {
        if let Some(lane) = self.kept(slot).and_then(|kept| kept.path.lane()) {
            mem::prefetch_into(cache, lane);
        }
    }

    /// The queue of a plan's limit; `most` packets have room in all queues.
    pub(crate) fn queue_of(&mut self, slot: RateSlot, most: usize) -> Option<u32> {
        let kept = self.places.get(slot.place as usize)?.as_ref()?;
        let queues = self.state.queues.get_or_insert_with(|| Box::new(LimitQueues::new(most)));
        queues.place(&kept.path)
    }

    /// The queue of a limit.
    pub(crate) fn queue_for(&mut self, limit: &RateLimit, most: usize) -> Option<u32> {
        let queues = self.state.queues.get_or_insert_with(|| Box::new(LimitQueues::new(most)));
        queues.place(&limit.path)
    }

    /// All queues, since something has waited.
    pub(crate) fn queues(&mut self) -> Option<&mut LimitQueues> {
        self.state.queues.as_deref_mut()
    }

    /// There are other ones with the next packet that waits.
    pub(crate) fn forget_queues(&mut self) {
        self.state.queues = None;
    }

    /// True once a packet has waited for tokens.
    #[inline(always)]
    pub(crate) fn has_queues(&self) -> bool {
        self.state.queues.is_some()
    }

    /// When something that waits may have tokens; none if nothing waits.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.state.queues.as_ref().and_then(|queues| queues.due_ns())
    }

    /// True if a packet that waits may have tokens.
    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.has_queues() && self.due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// The next packet that waits no longer.
    pub(crate) fn next_waited(&mut self, now_ns: u64) -> Option<Dequeued> {
        self.state.queues.as_mut()?.next(now_ns)
    }

    /// The round ends: other workers may become homes.
    #[inline(always)]
    pub(crate) fn end_round(&mut self) {
        if !self.state.holds.is_empty() {
            self.state.holds.clear();
        }
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
        // No packet finds that there is no room.
        self.state.holds.reserve(rules.rules().len());
        self.state.meters.retain(|(level, _)| rules.has(level));
        if let Some(queues) = &mut self.state.queues {
            queues.follow(&old, rules, worker.get());
        }
    }
}

impl State {
    #[inline(always)]
    fn pass(
        &mut self,
        (path, key): (&LimitPath, u64),
        h: Fields,
        now_ns: u64,
        grant: Option<Grant>,
    ) -> Result<Passed, Stop> {
        let packet = (usize::from(h.total_len()), h.traffic_class() >> 2);
        match path.is_special() {
            false => path.pass(None, packet, now_ns).map_err(|_| Stop::Refused),
            true => self.pass_specially((path, key), packet, now_ns, grant),
        }
    }

    #[inline(never)]
    fn pass_specially(
        &mut self,
        (path, key): (&LimitPath, u64),
        packet: (usize, u8),
        now_ns: u64,
        grant: Option<Grant>,
    ) -> Result<Passed, Stop> {
        let leaf = path.leaf().ok_or(Stop::Refused)?;
        if let Some(passed) = grant.and_then(|grant| grant.of(leaf.id())) {
            return Ok(passed);
        }
        match path.come() {
            Some(Place::There(home, visit)) => return Err(Stop::Elsewhere(home, visit)),
            Some(Place::Held(hold)) => self.holds.push(hold),
            Some(Place::Here) | None => {}
        }
        if path.queue().is_some() {
            if self.queues.as_ref().is_some_and(|queues| queues.has_waiting(path)) {
                return Err(Stop::Until(now_ns));
            }
            return path.pass_or_wait(packet, now_ns).map_err(Stop::from);
        }
        let own = match path.is_each() {
            true => Some(self.meter((leaf, key), now_ns).ok_or(Stop::Refused)?),
            false => None,
        };
        path.pass(own, packet, now_ns).map_err(|_| Stop::Refused)
    }

    /// The buckets that a flow, or a tunnel, has for itself.
    fn meter(&mut self, (leaf, key): (&Level, u64), now_ns: u64) -> Option<&mut Meter> {
        let at = self.meters.iter().position(|(level, _)| level.is_like(leaf));
        let at = at.unwrap_or_else(|| {
            self.meters.push((leaf.clone(), Meters::new(MOST_METERS)));
            self.meters.len() - 1
        });
        let (level, meters) = self.meters.get_mut(at)?;
        meters.of(key, level.settings(), now_ns)
    }
}

/// Flows, or tunnels, that have buckets of their own at a time, for each limiter and worker: 512 KiB.
const MOST_METERS: usize = 1 << 14;

/// Limiters of which an idle round gives leases back.
const RESTING_AT_ONCE: usize = 64;
