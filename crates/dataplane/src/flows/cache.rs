//! The flow cache: plans of the flows seen last, found by one hash.
//!
//! Set-associative, of fixed size: a flow has [`WAYS`] places it may stand in, and a newcomer
//! takes an empty one or, in turn, one of the others. So the cost of a look-up is the same
//! whatever the number of flows, nothing has to be aged, and a flood of new flows costs their own
//! look-ups and those of the flows they displace, and no memory.
//!
//! ```text
//!   hash ─┬─ low bits: set ──> tags [u32; 8]   one half of a cache line
//!         └─ high bits: tag ────^  way ──> entries[set * 8 + way]: key, epoch, plan
//! ```
//!
//! An entry is good in the epoch that it was made in: the worker begins a new one whenever routes
//! or neighbours have changed. When the databases have changed, or what rules of path selection
//! answer, each entry that is used next is asked once whether the change concerns it ([`Stamps`]).

use mem::Cache;
use wire::FlowSeed;

use crate::flows::plan::{Plan, Stamps};
use crate::model::{Ingress, Key, Meta};
use crate::view::View;

/// Places that a flow may stand in.
const WAYS: usize = 8;

/// How keys are hashed; seeded, so that nobody outside can choose flows that collide.
#[derive(Clone, Debug)]
pub(crate) struct FlowHash(FlowSeed);

impl FlowHash {
    /// The hash of a key. The SA does not enter: when it is replaced, the flow keeps its place.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        let Ingress { ifindex, mark, .. } = key.ingress;
        let port = u64::from(ifindex) | u64::from(mark) << 32;
        key.flow.hash(&self.0) ^ port.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// All that a packet of a flow with a plan reads: two cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct FlowEntry {
    key: Key,
    epoch: u32,
    /// The state of the databases that the plan is known to be good in. [`NEVER`] until a packet has gone by it.
    generation: u32,
    plan: Plan,
}

/// The generation of a plan that no packet has gone by yet.
const NEVER: u32 = 0;

/// The first generation of a cache.
const FIRST: u32 = 1;

const _: () = assert!(size_of::<Option<FlowEntry>>() == 2 * mem::LINE_LEN);

/// Compares a plan with a new state of the databases. If it holds there too, the entry's
/// generation is renewed.
#[cold]
#[inline(never)]
fn renew(entry: &mut FlowEntry, stamps: &Stamps, generation: u32, view: &View) -> bool {
    let holds = stamps.hold(view);
    if holds {
        entry.generation = generation;
    }
    holds
}

/// The flow cache of one worker.
pub(crate) struct FlowCache {
    /// A tag of 0: the place is empty.
    tags: Box<[[u32; WAYS]]>,
    entries: Box<[Option<FlowEntry>]>,
    /// Each entry's: read when the databases have changed.
    stamps: Box<[Stamps]>,
    hasher: FlowHash,
    /// Which way the next newcomer of a full set takes.
    turn: usize,
    epoch: u32,
    generation: u32,
}

impl FlowCache {
    /// An empty cache for `flows` flows, rounded up to a power of two; `random` is a number that
    /// nobody outside knows.
    pub(crate) fn new(flows: usize, random: u64) -> FlowCache {
        FlowCache::with_hasher(flows, FlowHash(FlowSeed::new(random)))
    }

    /// One of the same size, empty, in which each flow has the same hash.
    pub(crate) fn sibling(&self) -> FlowCache {
        FlowCache::with_hasher(self.entries.len(), self.hasher.clone())
    }

    fn with_hasher(flows: usize, hasher: FlowHash) -> FlowCache {
        let sets = flows.div_ceil(WAYS).next_power_of_two();
        FlowCache {
            tags: vec![[0; WAYS]; sets].into(),
            entries: (0..sets * WAYS).map(|_| None).collect(),
            stamps: vec![Stamps::default(); sets * WAYS].into(),
            hasher,
            turn: 0,
            epoch: 0,
            generation: FIRST,
        }
    }

    /// Begins a new epoch: no plan made before holds any more.
    pub(crate) fn begin_epoch(&mut self) {
        match self.epoch.checked_add(1) {
            Some(next) => self.epoch = next,
            None => self.forget_all(),
        }
    }

    /// The databases, or answers of rules, have changed: plans have to prove that they still hold.
    pub(crate) fn begin_generation(&mut self) {
        match self.generation.checked_add(1) {
            Some(next) => self.generation = next,
            None => self.forget_all(),
        }
    }

    /// Begins to count anew, so that no number stands for two times.
    #[cold]
    fn forget_all(&mut self) {
        self.tags.fill([0; WAYS]);
        self.entries.fill_with(|| None);
        (self.epoch, self.generation) = (0, FIRST);
    }

    /// How keys are hashed.
    #[inline]
    pub(crate) fn hasher(&self) -> &FlowHash {
        &self.hasher
    }

    /// Hashes the flow of a packet, and prefetches the tags of its set.
    #[inline(always)]
    pub(crate) fn seek(&self, meta: &mut Meta) {
        meta.is_sought = true;
        meta.hash = self.hasher.hash(&meta.key());
        self.prefetch(meta.hash);
    }

    #[inline]
    fn set(&self, hash: u64) -> usize {
        hash as usize & (self.tags.len() - 1)
    }

    /// The upper half, and never 0.
    #[inline]
    const fn tag(hash: u64) -> u32 {
        (hash >> 32) as u32 | 1
    }

    /// Brings near what [`FlowCache::place`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(tags) = self.tags.get(self.set(hash)) {
            mem::prefetch(tags);
        }
    }

    /// Where a flow with this hash stands, most likely; brings near what [`FlowCache::at`] reads.
    #[inline]
    pub(crate) fn place(&self, cache: Cache, hash: u64) -> Option<u32> {
        let set = self.set(hash);
        let tags = self.tags.get(set)?;
        // No two ways of a set have one tag; if they had, the key would tell.
        let way = mem::find_among_eight(tags, Self::tag(hash))?;
        let place = set * WAYS + way;
        if let Some(entry) = self.entries.get(place) {
            mem::prefetch_all_into(cache, entry);
        }
        Some(place as u32)
    }

    /// Brings near what [`FlowCache::is_of`] and [`FlowCache::at`] read.
    #[inline]
    pub(crate) fn prefetch_at(&self, cache: Cache, place: u32) {
        if let Some(entry) = self.entries.get(place as usize) {
            mem::prefetch_all_into(cache, entry);
        }
    }

    /// True if the plan at a place is that of a flow, holding or not.
    #[inline(always)]
    pub(crate) fn is_of(&self, place: u32, key: &Key) -> bool {
        matches!(self.entries.get(place as usize), Some(Some(entry)) if entry.key == *key)
    }

    /// The plan at a place, whatever it is worth.
    pub(crate) fn peek(&self, place: u32) -> Option<&Plan> {
        self.entries.get(place as usize)?.as_ref().map(|entry| &entry.plan)
    }

    /// The plan at a place, if it is that of the flow and holds.
    #[inline(always)]
    pub(crate) fn at(&mut self, place: u32, key: &Key, view: &View) -> Option<&Plan> {
        let entry = self.entries.get_mut(place as usize)?.as_mut()?;
        if entry.epoch != self.epoch || entry.key != *key {
            return None;
        }
        if entry.generation != self.generation {
            let stamps = self.stamps.get(place as usize)?;
            if !renew(entry, stamps, self.generation, view) {
                return None;
            }
        }
        Some(&entry.plan)
    }

    /// The places that there are.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    /// The place for a plan: the flow's old one or another flow's.
    pub(crate) fn room(&mut self, hash: u64) -> Option<usize> {
        let (set, tag) = (self.set(hash), Self::tag(hash));
        let tags = self.tags.get(set)?;
        let way = tags.iter().position(|t| *t == tag).or_else(|| tags.iter().position(|t| *t == 0));
        let way = way.unwrap_or_else(|| self.least_used(set));
        Some(set * WAYS + way)
    }

    /// The way of a full set that a newcomer takes: of a plan that no packet has gone by if there is one, else of one
    /// that none has gone by for the longest. So those who begin flow after flow take places from each other, and not
    /// from flows that go on.
    fn least_used(&mut self, set: usize) -> usize {
        self.turn = self.turn.wrapping_add(1);
        let (mut least, mut oldest) = (0, u32::MAX);
        for way in (0..WAYS).map(|way| self.turn.wrapping_add(way) % WAYS) {
            let entry = self.entries.get(set * WAYS + way).and_then(Option::as_ref);
            let used = entry.map_or(NEVER, |entry| entry.generation);
            if used == NEVER {
                return way;
            }
            if used < oldest {
                (least, oldest) = (way, used);
            }
        }
        least
    }

    /// Keeps a plan.
    pub(crate) fn insert(&mut self, hash: u64, key: Key, plan: Plan, stamps: Stamps) {
        if let Some(place) = self.room(hash) {
            self.put(place, hash, key, plan, stamps);
        }
    }

    /// Keeps a plan in the place that there is for it.
    pub(crate) fn put(&mut self, place: usize, hash: u64, key: Key, plan: Plan, stamps: Stamps) {
        let (tag, way) = (Self::tag(hash), place % WAYS);
        let Some(tags) = self.tags.get_mut(place / WAYS) else { return };
        let epoch = self.epoch;
        if let (Some(t), Some(old), Some(old_stamps)) =
            (tags.get_mut(way), self.entries.get_mut(place), self.stamps.get_mut(place))
        {
            // A flow keeps its way when its plan is made anew.
            let generation = if *t == tag { self.generation } else { NEVER };
            let entry = FlowEntry { key, epoch, generation, plan };
            *t = tag;
            *old = Some(entry);
            *old_stamps = stamps;
        }
    }
}
