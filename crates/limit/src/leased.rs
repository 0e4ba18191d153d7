//! A limiter that workers share: each leases tokens ahead, and draws on its lease.

use std::sync::Arc;

use crate::colour::Which;
use crate::home::Home;
use crate::lane::{Counts, Lane};
use crate::lanes::{LaneRef, Lanes};
use crate::meter::depth;
use crate::pool::Spill;
use crate::sync::Relaxed;
use crate::waits::{Waited, Waits};
use crate::{CLASSES, Colour, Fill, PARTS, Pool, Settings, Sharing, Unit};

/// A value with cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The second bucket.
#[derive(Debug)]
enum Second {
    None,
    Clocked(Apart<Pool>),
    Spill(Apart<Spill>),
}

/// How a bucket is shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    rate: u64,
    /// The most that a worker keeps, in parts of tokens, less than a nanosecond's tokens aside; 0 if each packet draws
    /// from the pool.
    quantum: u64,
    quantum_ns: u64,
    depth_ns: u64,
    /// True if the rest of a nanosecond stays with the worker.
    keeps: bool,
}

impl Share {
    /// Among so many workers; if one has all of it at a time, there is nothing to be leased.
    fn of(settings: &Settings, fill: Fill, (workers, is_leased): (u64, bool)) -> Share {
        let rate = fill.rate.max(1);
        // So long that no clock reaches it.
        let all_ns = (depth(fill) / rate).min(1 << 61);
        let longest_ns = if is_leased { LONGEST_LEASE_NS } else { 0 };
        let quantum_ns = (all_ns / (SHARE * workers)).min(longest_ns);
        let worth = match settings.unit {
            Unit::Bits => WORTH_BITS * PARTS,
            Unit::Packets => WORTH_PACKETS * PARTS,
        };
        // No longer than the bucket: below 2^63.
        if quantum_ns * rate >= worth {
            let depth_ns = all_ns.saturating_sub(workers * (quantum_ns + 1));
            return Share { rate, quantum: quantum_ns * rate, quantum_ns, depth_ns, keeps: true };
        }
        let keeps = settings.keeps_fractions(fill.rate);
        let depth_ns = if keeps { all_ns.saturating_sub(workers) } else { all_ns };
        Share { rate, quantum: 0, quantum_ns: 0, depth_ns, keeps }
    }
}

/// State of a limiter that all workers share.
#[derive(Debug)]
struct State {
    settings: Settings,
    shares: [Share; 2],
    lanes: Box<[LaneRef]>,
    /// Counted by workers that there are no more.
    before: Counts,
    /// Lanes of before, when workers shared it in another way: some may still count there.
    retired: Box<[LaneRef]>,
    first: Apart<Pool>,
    second: Second,
}

impl State {
    fn new(
        settings: Settings,
        (lanes, before, retired): (Box<[LaneRef]>, Counts, Box<[LaneRef]>),
        levels: [u64; 2],
        (is_leased, now_ns): (bool, u64),
    ) -> State {
        let among = (lanes.len() as u64, is_leased);
        let first = Share::of(&settings, settings.first(), among);
        let [first_level, second_level] = levels;
        let pool =
            |share: Share, level: u64| Apart(Pool::new(share.depth_ns, level / share.rate, now_ns));
        let (share, second) = match settings.second() {
            None => (Share::default(), Second::None),
            Some(fill) => {
                let share = Share::of(&settings, fill, among);
                let second = match settings.overflows() {
                    true => {
                        Second::Spill(Apart(Spill::new(share.depth_ns, second_level / share.rate)))
                    }
                    false => Second::Clocked(pool(share, second_level)),
                };
                (share, second)
            }
        };
        let (shares, first) = ([first, share], pool(first, first_level));
        State { settings, shares, lanes, before, retired, first, second }
    }

    #[inline(always)]
    const fn share(&self, which: Which) -> &Share {
        match which {
            Which::First => &self.shares[0],
            Which::Second => &self.shares[1],
        }
    }

    /// Takes time of a bucket, not less than `least_ns`.
    fn draw(&self, which: Which, least_ns: u64, want_ns: u64, now_ns: u64) -> Option<u64> {
        match (which, &self.second) {
            (Which::First, second) => {
                let taken = self.first.0.take(least_ns, want_ns, now_ns)?;
                if let Second::Spill(spill) = second {
                    spill.0.add(taken.overflow_ns);
                }
                Some(taken.ns)
            }
            (Which::Second, Second::None) => None,
            (Which::Second, Second::Clocked(pool)) => {
                pool.0.take(least_ns, want_ns, now_ns).map(|taken| taken.ns)
            }
            (Which::Second, Second::Spill(spill)) => {
                spill.0.add(self.first.0.overflow(now_ns));
                spill.0.take(least_ns, want_ns)
            }
        }
    }

    fn give_back(&self, which: Which, ns: u64) {
        match (which, &self.second) {
            (Which::First, _) => self.first.0.give_back(ns),
            (Which::Second, Second::None) => {}
            (Which::Second, Second::Clocked(pool)) => pool.0.give_back(ns),
            (Which::Second, Second::Spill(spill)) => spill.0.give_back(ns),
        }
    }

    /// Gives back what a worker holds beyond `keep` parts of tokens.
    fn return_above(&self, lane: &Lane, which: Which, keep: u64) {
        let (held, share) = (lane.held(which), self.share(which));
        let above = held.load(Relaxed).saturating_sub(keep);
        let ns = above.checked_div(share.rate).unwrap_or(0);
        if ns > 0 {
            // First from here, then there: no token is in both.
            held.store(held.load(Relaxed) - ns * share.rate, Relaxed);
            self.give_back(which, ns);
        }
    }

    /// Levels of both buckets, without leases.
    fn levels(&self, now_ns: u64) -> [u64; 2] {
        let second = match &self.second {
            Second::None => 0,
            Second::Clocked(pool) => pool.0.level_ns(now_ns),
            Second::Spill(spill) => spill.0.level_ns(),
        };
        let [of_first, of_second] = &self.shares;
        [self.first.0.level_ns(now_ns) * of_first.rate, second * of_second.rate]
    }
}

/// A limiter that workers share.
#[derive(Clone, Debug)]
pub struct Limiter {
    name: Arc<str>,
    parent: Option<Arc<Limiter>>,
    /// Each flow, or each tunnel, has buckets of its own.
    is_each: bool,
    /// Of each worker, and of those that there are no more.
    waits: Box<[Arc<Waits>]>,
    /// Home of the hierarchy's buckets, where one worker has them at a time.
    home: Option<Arc<Home>>,
    state: Arc<State>,
}

impl Limiter {
    /// A limiter with full buckets, for so many workers.
    pub fn new(
        name: &str,
        settings: Settings,
        parent: Option<Arc<Limiter>>,
        at: (usize, u64),
    ) -> Limiter {
        Limiter::among(&mut Lanes::default(), name, settings, parent, at)
    }

    /// The same with lanes beside those of other limiters.
    pub fn among(
        beside: &mut Lanes,
        name: &str,
        settings: Settings,
        parent: Option<Arc<Limiter>>,
        (workers, now_ns): (usize, u64),
    ) -> Limiter {
        let home = home_for(&settings, parent.as_deref(), None);
        let lanes = (0..lanes_for(workers, home.as_ref())).map(|worker| beside.take(worker));
        let full = [depth(settings.first()), settings.second().map_or(0, depth)];
        let lanes = (lanes.collect(), Counts::default(), Box::default());
        let state = Arc::new(State::new(settings, lanes, full, (home.is_none(), now_ns)));
        let waits = waits_for(&settings, workers, &[]);
        Limiter { name: name.into(), parent, is_each: false, waits, home, state }
    }

    /// One of which each flow, or each tunnel, has buckets of its own.
    pub fn with_each(self, is_each: bool) -> Limiter {
        Limiter { is_each, ..self }
    }

    /// The same limiter with these settings: with its name, its counters, and, if the settings are the same, its
    /// buckets. Otherwise the new buckets hold what the old ones did, as far as it fits.
    pub fn changed(
        &self,
        settings: Settings,
        parent: Option<Arc<Limiter>>,
        at: (usize, u64),
    ) -> Limiter {
        self.changed_among(&mut Lanes::default(), settings, parent, at)
    }

    /// The same; lanes of workers that there were none of before lie beside those of other limiters.
    pub fn changed_among(
        &self,
        beside: &mut Lanes,
        settings: Settings,
        parent: Option<Arc<Limiter>>,
        (workers, now_ns): (usize, u64),
    ) -> Limiter {
        let (name, is_each) = (Arc::clone(&self.name), self.is_each);
        let waits = waits_for(&settings, workers, &self.waits);
        let home = home_for(&settings, parent.as_deref(), Some(self));
        let workers = lanes_for(workers, home.as_ref());
        let old = &self.state;
        // A worker of the old sharing may write its lane beside one of the new: they are different lanes.
        let is_alike = self.home.as_ref().map(Arc::as_ptr) == home.as_ref().map(Arc::as_ptr);
        if settings == old.settings && old.lanes.len() == workers && is_alike {
            let state = Arc::clone(old);
            return Limiter { name, parent, is_each, waits, home, state };
        }
        let levels = match (settings.unit == old.settings.unit, is_alike) {
            (true, true) => old.levels(now_ns),
            // Leased tokens count too: they do not go back to the new buckets.
            (true, false) => self.levels(now_ns),
            (false, _) => [0; 2],
        };
        let mut before = old.before;
        let mut add = |lane: &LaneRef| lane.lane().into_iter().for_each(|lane| before.add(lane));
        let (mut lanes, retired) = match is_alike {
            true => (old.lanes.to_vec(), old.retired.clone()),
            false => {
                old.retired.iter().for_each(&mut add);
                (Vec::new(), old.lanes.clone())
            }
        };
        lanes.iter().skip(workers).for_each(&mut add);
        lanes.truncate(workers);
        lanes.extend((lanes.len()..workers).map(|worker| beside.take(worker)));
        let lanes = (lanes.into(), before, retired);
        let state = Arc::new(State::new(settings, lanes, levels, (home.is_none(), now_ns)));
        Limiter { name, parent, is_each, waits, home, state }
    }

    /// The name that the configuration gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limiter that its packets pass as well.
    pub fn parent(&self) -> Option<&Arc<Limiter>> {
        self.parent.as_ref()
    }

    /// True if each flow, or each tunnel, has buckets of its own.
    pub fn is_each(&self) -> bool {
        self.is_each
    }

    /// The settings that it was made with.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// The same number for the same buckets, as long as there are any: [`Level::id`].
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.state) as usize
    }

    /// True if both have the same buckets, and those above too.
    pub fn is_same(&self, other: &Limiter) -> bool {
        let is_above = match (&self.parent, &other.parent) {
            (Some(one), Some(two)) => one.is_same(two),
            (None, None) => true,
            _ => false,
        };
        is_above && self.shares_state(other)
    }

    /// True if both have the same buckets.
    pub fn shares_state(&self, other: &Limiter) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Counts of all workers together.
    pub fn counts(&self) -> Counts {
        let mut sum = self.state.before;
        let lanes = self.state.lanes.iter().chain(&self.state.retired);
        lanes.filter_map(LaneRef::lane).for_each(|lane| sum.add(lane));
        sum
    }

    /// The worker that has its buckets and those above, where one has them at a time, and one has met it.
    pub fn home(&self) -> Option<usize> {
        self.home.as_ref().and_then(|home| home.at())
    }

    pub(crate) fn home_word(&self) -> Option<&Arc<Home>> {
        self.home.as_ref()
    }

    /// Counts of packets that waited, by class.
    pub fn waited(&self) -> [Waited; CLASSES] {
        let mut sum = [Waited::default(); CLASSES];
        for waits in &self.waits {
            sum.iter_mut().zip(waits.all()).for_each(|(sum, one)| *sum = sum.and(one));
        }
        sum
    }

    /// Where a worker counts packets that wait.
    pub fn waits(&self, worker: usize) -> Arc<Waits> {
        self.waits.get(worker).map_or_else(Arc::default, Arc::clone)
    }

    /// Levels of the buckets, leases included, in parts of tokens.
    pub fn levels(&self, now_ns: u64) -> [u64; 2] {
        let mut levels = self.state.levels(now_ns);
        for lane in self.state.lanes.iter().filter_map(LaneRef::lane) {
            levels.iter_mut().zip(lane.all_held()).for_each(|(sum, held)| *sum += held);
        }
        levels
    }

    /// The most that a worker leases ahead of the first bucket, in parts of tokens.
    pub fn quantum(&self) -> u64 {
        self.state.share(Which::First).quantum
    }

    /// Gives back what a worker has leased, here and above: it has nothing to do, or the limiter is no more. Its own thread
    /// alone.
    pub fn give_back(&self, worker: usize) {
        let mut next = Some(self).filter(|limiter| limiter.home.is_none());
        while let Some(limiter) = next {
            let state = &limiter.state;
            if let Some(lane) = state.lanes.get(worker).and_then(LaneRef::lane) {
                state.return_above(lane, Which::First, 0);
                state.return_above(lane, Which::Second, 0);
            }
            next = limiter.parent.as_deref();
        }
    }

    /// A worker's side of it.
    pub fn level(&self, worker: usize) -> Level {
        let lanes = &self.state.lanes;
        // There is one for each worker. One that has just begun, and knows only what was made before, counts nowhere.
        let lane = lanes.get(if self.home.is_some() { 0 } else { worker }).cloned();
        let lane = lane.unwrap_or_else(|| Lanes::default().take(0));
        Level { lane, state: Arc::clone(&self.state) }
    }
}

/// Lanes for so many workers: one where one worker has the buckets at a time.
fn lanes_for(workers: usize, home: Option<&Arc<Home>>) -> usize {
    if home.is_some() { 1 } else { workers.max(1) }
}

/// The home of a limiter that was another one before: that of the outermost, which keeps its own.
fn home_for(
    settings: &Settings,
    parent: Option<&Limiter>,
    before: Option<&Limiter>,
) -> Option<Arc<Home>> {
    let kept =
        before.filter(|before| before.parent.is_none()).and_then(|before| before.home.clone());
    match (parent, settings.sharing) {
        (Some(parent), _) => parent.home.clone(),
        (None, Sharing::Atomic) => Some(kept.unwrap_or_else(|| Arc::new(Home::new()))),
        (None, Sharing::Leases) => None,
    }
}

/// Where workers count packets that wait, those of before kept: of a limiter without a queue nowhere.
fn waits_for(settings: &Settings, workers: usize, before: &[Arc<Waits>]) -> Box<[Arc<Waits>]> {
    let mut waits = before.to_vec();
    if settings.queue.is_some() && waits.len() < workers {
        waits.resize_with(workers, Arc::default);
    }
    waits.into()
}

/// A worker's side of a limiter.
#[derive(Clone, Debug)]
pub struct Level {
    lane: LaneRef,
    state: Arc<State>,
}

impl Level {
    /// The settings of the limiter.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// Identity of its buckets: the same for all workers, and for as long as the settings stay.
    pub fn is_of(&self, limiter: &Limiter) -> bool {
        Arc::ptr_eq(&self.state, &limiter.state)
    }

    /// The same number for the same buckets, as long as there are any.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.state) as usize
    }

    /// When there are tokens for a packet that there are none for now, if nobody else takes them.
    pub(crate) fn ready_ns(&self, cost: u64, now_ns: u64) -> u64 {
        let share = self.state.share(Which::First);
        let missing = cost.saturating_sub(self.held(Which::First));
        let least_ns = missing.div_ceil(share.rate.max(1));
        let there_ns = self.state.first.0.level_ns(now_ns);
        now_ns.saturating_add(least_ns.saturating_sub(there_ns).max(1))
    }

    /// True if both are sides of the same buckets.
    pub fn is_like(&self, other: &Level) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Where it lies.
    pub(crate) fn into_lane(self) -> LaneRef {
        self.lane
    }

    /// Tokens leased of a bucket, in parts of tokens.
    fn held(&self, which: Which) -> u64 {
        self.lane.lane().map_or(0, |lane| lane.held(which).load(Relaxed))
    }

    fn set_held(&self, which: Which, parts: u64) {
        self.lane.lane().into_iter().for_each(|lane| lane.held(which).store(parts, Relaxed));
    }

    /// The colour of a packet; leases what it may need.
    pub(crate) fn colour(&self, cost: u64, came: Colour, now_ns: u64) -> Colour {
        let settings = &self.state.settings;
        let came = if settings.is_aware { came } else { Colour::Green };
        settings.rule().colour(came, |which| {
            let held = self.held(which);
            held >= cost || self.lease(which, (held, cost), now_ns)
        })
    }

    /// Leases what is missing for a packet, and a quantum more if there is.
    #[inline(never)]
    fn lease(&self, which: Which, (held, cost): (u64, u64), now_ns: u64) -> bool {
        let share = self.state.share(which);
        if share.rate == 0 {
            return false;
        }
        let least_ns = (cost - held).div_ceil(share.rate);
        let Some(ns) = self.state.draw(which, least_ns, least_ns + share.quantum_ns, now_ns) else {
            return false;
        };
        self.set_held(which, held + ns * share.rate);
        true
    }

    /// Takes a packet's tokens; they are held, as [`Level::colour`] said so.
    pub(crate) fn take(&self, cost: u64, colour: Colour) {
        let rule = self.state.settings.rule();
        for which in [Which::First, Which::Second] {
            if rule.takes(colour, which) {
                let left = self.held(which).saturating_sub(cost);
                let keeps = self.state.share(which).keeps;
                self.set_held(which, if keeps { left } else { 0 });
            }
        }
    }

    /// Gives back what was leased for a packet that does not pass.
    pub(crate) fn settle(&self) {
        for which in [Which::First, Which::Second] {
            let keep = self.state.share(which).quantum;
            self.lane.lane().into_iter().for_each(|l| self.state.return_above(l, which, keep));
        }
    }

    pub(crate) fn count(&self, colour: Colour, len: usize) {
        self.lane.lane().into_iter().for_each(|lane| lane.count(colour, len));
    }
}

/// All workers together hold at most an eighth of a burst.
const SHARE: u64 = 8;

/// The longest lease: what a worker may keep from others.
const LONGEST_LEASE_NS: u64 = 1_000_000;

/// The least quantum that is worth a lease: a packet of 1500 bytes.
const WORTH_BITS: u64 = 1500 * 8;

/// Least quantum worth leasing, of limiters that count packets.
const WORTH_PACKETS: u64 = 8;
