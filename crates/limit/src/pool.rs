//! Buckets that many threads draw from without a lock.

use crate::sync::{AtomicU64, Relaxed};

/// A bucket that fills by the clock. It holds time: one nanosecond of it is `rate` parts of tokens.
///
/// Nothing else depends on the number, so every access is relaxed; a compare-and-swap gives each nanosecond away once.
#[derive(Debug)]
pub struct Pool {
    /// Up to when time is spent, from [`EPOCH`] on.
    spent: AtomicU64,
    /// The most that it holds.
    depth_ns: u64,
}

/// Result of [`Pool::take`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Nanoseconds whose tokens are taken.
    pub ns: u64,
    /// Nanoseconds for which the bucket had no room since it was last drawn from.
    pub overflow_ns: u64,
}

impl Pool {
    /// A bucket that holds so much of what its depth is.
    pub fn new(depth_ns: u64, level_ns: u64, now_ns: u64) -> Pool {
        // Both are below 2^62: bursts are bounded, and a clock begins at the start.
        let spent = (EPOCH + now_ns).saturating_sub(level_ns.min(depth_ns));
        Pool { spent: AtomicU64::new(spent), depth_ns }
    }

    /// Takes `want_ns`, or what there is, but not less than `least_ns`.
    #[inline]
    pub fn take(&self, least_ns: u64, want_ns: u64, now_ns: u64) -> Option<Taken> {
        let now = EPOCH + now_ns;
        let mut spent = self.spent.load(Relaxed);
        loop {
            let from = spent.max(now.saturating_sub(self.depth_ns));
            let there = now.saturating_sub(from);
            if there < least_ns {
                return None;
            }
            let ns = want_ns.min(there);
            match self.spent.compare_exchange_weak(spent, from + ns, Relaxed, Relaxed) {
                Ok(_) => return Some(Taken { ns, overflow_ns: from - spent }),
                Err(other) => spent = other,
            }
        }
    }

    /// Takes nothing but what the bucket has had no room for.
    pub fn overflow(&self, now_ns: u64) -> u64 {
        self.take(0, 0, now_ns).map_or(0, |taken| taken.overflow_ns)
    }

    /// Gives back what was taken. More than the depth is lost with the next drawing.
    pub fn give_back(&self, ns: u64) {
        self.spent.fetch_sub(ns, Relaxed);
    }

    /// Level of the bucket, in nanoseconds of its rate.
    pub fn level_ns(&self, now_ns: u64) -> u64 {
        (EPOCH + now_ns).saturating_sub(self.spent.load(Relaxed)).min(self.depth_ns)
    }

    /// The most that it holds.
    pub const fn depth_ns(&self) -> u64 {
        self.depth_ns
    }
}

/// Where the clock begins, so that a bucket that is full at the start has spent up to a time before.
const EPOCH: u64 = 1 << 62;

/// A bucket that another one's overflow fills, in nanoseconds too.
#[derive(Debug)]
pub struct Spill {
    level_ns: AtomicU64,
    depth_ns: u64,
}

impl Spill {
    /// A bucket that holds so much.
    pub fn new(depth_ns: u64, level_ns: u64) -> Spill {
        Spill { level_ns: AtomicU64::new(level_ns.min(depth_ns)), depth_ns }
    }

    /// Adds overflow, as far as there is room.
    pub fn add(&self, ns: u64) {
        if ns > 0 {
            self.level_ns.fetch_add(ns.min(self.depth_ns), Relaxed);
            self.level_ns.fetch_min(self.depth_ns, Relaxed);
        }
    }

    /// Takes `want_ns`, or what there is, but not less than `least_ns`.
    pub fn take(&self, least_ns: u64, want_ns: u64) -> Option<u64> {
        let mut level = self.level_ns.load(Relaxed);
        loop {
            let there = level.min(self.depth_ns);
            if there < least_ns {
                return None;
            }
            let ns = want_ns.min(there);
            match self.level_ns.compare_exchange_weak(level, there - ns, Relaxed, Relaxed) {
                Ok(_) => return Some(ns),
                Err(other) => level = other,
            }
        }
    }

    /// Gives back what was taken.
    pub fn give_back(&self, ns: u64) {
        self.add(ns);
    }

    /// Level of the bucket, in nanoseconds of its rate.
    pub fn level_ns(&self) -> u64 {
        self.level_ns.load(Relaxed).min(self.depth_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_given_away_once_and_no_more_than_the_depth() {
        let pool = Pool::new(100, 100, 0);
        assert_eq!(pool.take(60, 60, 0), Some(Taken { ns: 60, overflow_ns: 0 }));
        assert_eq!(pool.take(60, 60, 0), None);
        assert_eq!(pool.take(10, 60, 10), Some(Taken { ns: 50, overflow_ns: 0 }));
        assert_eq!(pool.level_ns(10), 0);
        assert_eq!(pool.take(100, 100, 200), Some(Taken { ns: 100, overflow_ns: 90 }));
        pool.give_back(30);
        assert_eq!((pool.level_ns(200), pool.level_ns(1000)), (30, 100));
        // A clock that is behind another thread's finds less.
        assert_eq!(pool.take(1, 1, 150), None);
    }

    #[test]
    fn overflow_fills_another_bucket() {
        let spill = Spill::new(100, 0);
        spill.add(70);
        assert_eq!((spill.take(80, 80), spill.take(1, 50)), (None, Some(50)));
        spill.add(1000);
        assert_eq!((spill.level_ns(), spill.take(1, 1000)), (100, Some(100)));
    }
}
