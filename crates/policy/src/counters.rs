//! Counters of a policy that every worker counts for itself.

use core::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

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

    /// The index.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Packets, bytes and the time of the last use.
///
/// Most policies are used by one worker: flows stay where the port's hash puts them. So there is
/// room for one, taken by the first that counts; the others' lanes are made when they first count,
/// which is the only time that counting allocates.
#[derive(Debug)]
pub(crate) struct Counters {
    first: First,
    others: OnceLock<Box<[OnceLock<Box<Lane>>; WorkerIndex::MAX]>>,
}

/// All that counting touches where one worker uses the policy: within one cache line.
#[derive(Debug, Default)]
#[repr(align(32))]
struct First {
    lane: Lane,
    /// Number of the lane's worker, plus 1; 0 while nobody has counted.
    owner: AtomicU16,
}

const _: () = assert!(size_of::<First>() == 32, "aligned to its size, so in one line");

/// One worker's counters; only that worker writes.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    last_use_s: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters { first: First::default(), others: OnceLock::new() }
    }

    /// Brings near what [`count`](Counters::count) touches.
    #[inline]
    pub(crate) fn prefetch(&self) {
        mem::prefetch(&self.first);
    }

    #[inline]
    pub(crate) fn count(&self, worker: WorkerIndex, packets: u64, bytes: u64, now_s: u64) {
        let lane = if self.first.owner.load(Relaxed) == u16::from(worker.0) + 1 {
            &self.first.lane
        } else {
            self.lane(worker)
        };
        lane.count(packets, bytes, now_s);
    }

    /// The lane of a worker that is not known to own the first one.
    #[inline(never)]
    fn lane(&self, worker: WorkerIndex) -> &Lane {
        let own = u16::from(worker.0) + 1;
        if self.first.owner.compare_exchange(0, own, Relaxed, Relaxed).is_ok() {
            return &self.first.lane;
        }
        let others =
            self.others.get_or_init(|| Box::new([const { OnceLock::new() }; WorkerIndex::MAX]));
        match others.get(worker.get()) {
            Some(lane) => lane.get_or_init(Box::default),
            None => &self.first.lane,
        }
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        let others = self.others.get().into_iter().flat_map(|others| others.iter());
        core::iter::once(&self.first.lane).chain(others.filter_map(|lane| lane.get().map(|l| &**l)))
    }

    pub(crate) fn sum(&self, of: impl Fn(&Lane) -> &AtomicU64) -> u64 {
        self.lanes().map(|lane| of(lane).load(Relaxed)).fold(0, u64::wrapping_add)
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
}
