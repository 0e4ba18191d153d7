//! Counters of a policy that every worker counts for itself.
//!
//! They lie apart from the policies, those of many side by side: for a packet of a known flow the
//! counters are all that is touched of a policy, and among a hundred thousand policies each would be on a
//! page of its own. So a flow's plan keeps a [`PolicyCounters`] and not the policy.
//!
//! A place is used again when its policy is gone, that is, when no reader's view has it any more. A
//! counters that is older than that must not be counted in; nor is it, as a plan that the policy was part
//! of does not hold in any view without it ([`crate::Stamp`]).

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mem::Cache;

/// Which worker: numbered from 0, each a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerIndex(u8);

impl WorkerIndex {
    /// How many workers there can be.
    pub const MAX: usize = 64;

    /// The first worker, or the only one.
    pub const FIRST: WorkerIndex = WorkerIndex(0);

    /// Worker `index`, below [`WorkerIndex::MAX`].
    pub const fn new(index: usize) -> Option<WorkerIndex> {
        if index < WorkerIndex::MAX { Some(WorkerIndex(index as u8)) } else { None }
    }

    /// The worker's number, to index its lane of counters.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Where a policy counts: packets, bytes and the time of the last use.
///
/// Good for counting as long as the policy is in the reader's view; it does not keep the policy.
#[derive(Clone, Debug)]
pub struct PolicyCounters {
    chunk: Arc<Chunk>,
    /// Below the chunk's length.
    at: u32,
}

/// A policy's own counters: the place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct OwnCounters(PolicyCounters);

/// Places for the policies of one direction, which packets of one kind use together.
#[derive(Debug, Default)]
pub(crate) struct CounterArena {
    /// The largest last: each is as long as all before it.
    chunks: Vec<Arc<Chunk>>,
}

/// Places in one piece.
#[derive(Debug)]
struct Chunk {
    /// Most policies are used by one worker: flows stay where the port's hash puts them. So there is
    /// room for one, taken by the first that counts.
    firsts: Box<[First]>,
    /// The other workers' lanes are made when they first count, which is the only time that counting
    /// allocates.
    others: Box<[Others]>,
    /// The first free place; each knows the next.
    free: Mutex<u32>,
}

type Others = OnceLock<Box<[OnceLock<Box<Lane>>; WorkerIndex::MAX]>>;

/// All that counting touches where one worker uses the policy: within one cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
struct First {
    lane: Lane,
    /// Number of the lane's worker, plus 1; 0 while nobody has counted.
    owner: AtomicU16,
    /// While the place is free: the next one that is.
    next_free: AtomicU32,
}

const _: () = assert!(size_of::<First>() == 32, "aligned to its size, so in one line");

/// One worker's counters; only that worker writes.
#[derive(Debug, Default)]
struct Lane {
    packets: AtomicU64,
    bytes: AtomicU64,
    last_use_s: AtomicU64,
}

impl CounterArena {
    /// A place where nothing was counted yet.
    pub(crate) fn take(&mut self) -> OwnCounters {
        // The last one has room most often.
        let free = self.chunks.iter().rev().find_map(Chunk::take);
        OwnCounters(free.unwrap_or_else(|| {
            let len: usize = self.chunks.iter().map(|chunk| chunk.firsts.len()).sum();
            let chunk = Arc::new(Chunk::new(len.clamp(FEWEST, MOST) as u32));
            // The first place; the rest stays free.
            *chunk.free.lock().unwrap_or_else(PoisonError::into_inner) = 1;
            self.chunks.push(Arc::clone(&chunk));
            PolicyCounters { chunk, at: 0 }
        }))
    }
}

impl Chunk {
    /// With all places free.
    fn new(len: u32) -> Chunk {
        let first = |at| First { next_free: AtomicU32::new(at + 1), ..First::default() };
        Chunk {
            firsts: (0..len).map(first).collect(),
            others: (0..len).map(|_| Others::new()).collect(),
            free: Mutex::new(0),
        }
    }

    /// A free place, all zero; none when the list has come to the end.
    fn take(self: &Arc<Chunk>) -> Option<PolicyCounters> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = *free;
        let first = self.firsts.get(at as usize)?;
        *free = first.next_free.load(Relaxed);
        first.owner.store(0, Relaxed);
        let counters = PolicyCounters { chunk: Arc::clone(self), at };
        counters.lanes().for_each(Lane::clear);
        Some(counters)
    }
}

impl Drop for OwnCounters {
    fn drop(&mut self) {
        let PolicyCounters { chunk, at } = &self.0;
        let mut free = chunk.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = chunk.firsts.get(*at as usize) {
            first.next_free.store(*free, Relaxed);
            *free = *at;
        }
    }
}

impl OwnCounters {
    pub(crate) const fn get(&self) -> &PolicyCounters {
        &self.0
    }
}

impl PolicyCounters {
    /// Counters that are no policy's, all at zero.
    pub fn list(len: u32) -> Vec<PolicyCounters> {
        let chunk = Arc::new(Chunk::new(len));
        // None of them is free.
        *chunk.free.lock().unwrap_or_else(PoisonError::into_inner) = len;
        (0..len).map(|at| PolicyCounters { chunk: Arc::clone(&chunk), at }).collect()
    }

    #[inline]
    fn first(&self) -> Option<&First> {
        self.chunk.firsts.get(self.at as usize)
    }

    /// Brings near what [`count`](PolicyCounters::count) touches.
    #[inline]
    pub fn prefetch(&self, cache: Cache) {
        if let Some(first) = self.first() {
            mem::prefetch_into(cache, first);
        }
    }

    /// Counts packets that the policy decided, at wall-clock second `now_s`. One thread for each
    /// worker's index.
    #[inline]
    pub fn count(&self, worker: WorkerIndex, packets: u64, bytes: u64, now_s: u64) {
        let Some(first) = self.first() else { return };
        let lane = if first.owner.load(Relaxed) == u16::from(worker.0) + 1 {
            &first.lane
        } else {
            self.lane(first, worker)
        };
        lane.count(packets, bytes, now_s);
    }

    /// The lane of a worker that is not known to own the first one.
    #[inline(never)]
    fn lane<'t>(&'t self, first: &'t First, worker: WorkerIndex) -> &'t Lane {
        let own = u16::from(worker.0) + 1;
        if first.owner.compare_exchange(0, own, Relaxed, Relaxed).is_ok() {
            return &first.lane;
        }
        let others = self.chunk.others.get(self.at as usize);
        let others = others
            .map(|o| o.get_or_init(|| Box::new([const { OnceLock::new() }; WorkerIndex::MAX])));
        match others.and_then(|others| others.get(worker.get())) {
            Some(lane) => lane.get_or_init(Box::default),
            None => &first.lane,
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        let others = self.chunk.others.get(self.at as usize).and_then(|others| others.get());
        let others = others.into_iter().flat_map(|others| others.iter());
        let first = self.first().map(|first| &first.lane);
        first.into_iter().chain(others.filter_map(|lane| lane.get().map(|lane| &**lane)))
    }

    fn sum(&self, of: impl Fn(&Lane) -> &AtomicU64) -> u64 {
        self.lanes().map(|lane| of(lane).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    /// Packets that were counted.
    pub fn packets(&self) -> u64 {
        self.sum(|lane| &lane.packets)
    }

    /// Bytes that were counted.
    pub fn bytes(&self) -> u64 {
        self.sum(|lane| &lane.bytes)
    }

    pub(crate) fn last_use_s(&self) -> u64 {
        self.lanes().map(|lane| lane.last_use_s.load(Relaxed)).max().unwrap_or(0)
    }
}

impl Lane {
    #[inline]
    fn count(&self, packets: u64, bytes: u64, now_s: u64) {
        let add = |cell: &AtomicU64, more: u64| {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        };
        add(&self.packets, packets);
        add(&self.bytes, bytes);
        if self.last_use_s.load(Relaxed) < now_s {
            self.last_use_s.store(now_s, Relaxed);
        }
    }

    fn clear(&self) {
        for cell in [&self.packets, &self.bytes, &self.last_use_s] {
            cell.store(0, Relaxed);
        }
    }
}

/// Places of the first chunk: a small page.
const FEWEST: usize = 128;
/// Places of the longest chunks: huge pages.
const MOST: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn place(counters: &OwnCounters) -> (usize, u32) {
        (Arc::as_ptr(&counters.get().chunk).addr(), counters.get().at)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take,
        Drop(usize),
        Count(usize, usize, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Take),
            2 => any::<usize>().prop_map(Step::Drop),
            5 => (any::<usize>(), 0..3_usize, 0..9_u64).prop_map(|(n, w, b)| Step::Count(n, w, b)),
        ]
    }

    proptest! {
        /// Whatever comes and goes: no two have one place, and each counts for itself, from zero.
        #[test]
        fn each_counts_for_itself(steps in vec(step(), 1..600)) {
            let mut counters = CounterArena::default();
            let mut all: Vec<(OwnCounters, [u64; 3])> = Vec::new();
            for (now_s, step) in (1..).zip(steps) {
                match step {
                    Step::Take => all.push((counters.take(), [0; 3])),
                    Step::Drop(n) if !all.is_empty() => {
                        let n = n % all.len();
                        all.swap_remove(n);
                    }
                    Step::Count(n, worker, bytes) if !all.is_empty() => {
                        let n = n % all.len();
                        let (counters, counts) = &mut all[n];
                        let worker = WorkerIndex::new(worker).unwrap();
                        counters.get().clone().count(worker, 1, bytes, now_s);
                        *counts = [counts[0] + 1, counts[1] + bytes, now_s];
                    }
                    Step::Drop(_) | Step::Count(..) => {}
                }
                for (counters, counts) in &all {
                    let counters = counters.get();
                    let now = [counters.packets(), counters.bytes(), counters.last_use_s()];
                    prop_assert_eq!(&now, counts);
                }
            }
            let places: HashSet<_> = all.iter().map(|(counters, _)| place(counters)).collect();
            prop_assert_eq!(places.len(), all.len());
        }
    }

    #[test]
    fn many_lie_side_by_side_and_their_places_are_used_again() {
        let mut counters = CounterArena::default();
        let all: Vec<OwnCounters> = (0..5000).map(|_| counters.take()).collect();
        let mut chunks: HashMap<usize, u32> = HashMap::new();
        for counters in &all {
            let (chunk, at) = place(counters);
            let next = chunks.entry(chunk).or_default();
            assert_eq!(at, *next);
            *next += 1;
        }
        assert_eq!(chunks.len(), 7, "128, 128, 256, 512, 1024, 2048, 4096");
        let before: HashSet<_> = all.iter().map(place).collect();
        drop(all);
        for _ in 0..3 {
            let again: Vec<OwnCounters> = (0..8192).map(|_| counters.take()).collect();
            let places: HashSet<_> = again.iter().map(place).collect();
            assert!(places.len() == 8192 && places.is_superset(&before));
        }
        assert_eq!(counters.chunks.len(), 7);
    }
}
