//! Code that the three kinds share: their ends, the count of full events, the rounding of capacities.

use crate::ends::{Ends, Side};
use crate::sync::{AtomicU64, Ordering, Padded};

/// The part of a queue that is rarely written.
pub(crate) struct Common {
    /// Read at each put; written only when a handle comes or goes.
    pub(crate) ends: Padded<Ends>,
    /// Written only where a put finds the queue full.
    full: Padded<AtomicU64>,
}

impl Common {
    pub(crate) fn new(sides: &[Side]) -> Self {
        Self { ends: Padded(Ends::new(sides)), full: Padded(AtomicU64::new(0)) }
    }

    /// Counts a put that did not find room for all.
    #[cold]
    pub(crate) fn count_full(&self) {
        // Relaxed: a count, which orders nothing. A locked addition, but only off the path: a thread that
        // finds the queue full has time.
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }
}

/// How many slots a queue for `capacity` items has: the next power of two, at least two.
///
/// # Panics
///
/// Above 2^31.
pub(crate) fn slots(capacity: usize) -> usize {
    assert!(capacity <= 1 << 31, "a queue for {capacity} items");
    capacity.next_power_of_two().max(2)
}

/// Makes the slots of a ring, each from its number.
pub(crate) fn ring<S>(capacity: usize, slot: impl FnMut(usize) -> S) -> Box<[S]> {
    (0..slots(capacity)).map(slot).collect()
}

/// The slot of a position in a ring whose length is a power of two.
#[inline(always)]
pub(crate) fn at<S>(ring: &[S], position: u64) -> &S {
    // The mask keeps the index in range, whatever the position; truncation drops only masked bits.
    &ring[position as usize & (ring.len() - 1)]
}

/// The slots of `count` positions from `first` on: those up to the end of the ring, and those from its
/// beginning. Two plain slices are faster to go through than a mask for each position.
#[inline(always)]
pub(crate) fn spans<S>(ring: &[S], first: u64, count: usize) -> [&[S]; 2] {
    let count = count.min(ring.len());
    let (before, after) = ring.split_at(first as usize & (ring.len() - 1));
    let ahead = count.min(after.len());
    [&after[..ahead], &before[..count - ahead]]
}

/// How far `ahead` is ahead of `behind`; zero if a stale read makes it look the other way round.
///
/// Positions count from zero and never wrap: at one a nanosecond 64 bits last 584 years.
#[inline(always)]
pub(crate) fn distance(ahead: u64, behind: u64) -> usize {
    ahead.saturating_sub(behind) as usize
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_rounded_up_to_powers_of_two() {
        for (asked, got) in [(0, 2), (1, 2), (2, 2), (3, 4), (4, 4), (1000, 1024)] {
            assert_eq!(slots(asked), got);
        }
    }

    #[test]
    #[should_panic = "a queue for 18446744073709551615 items"]
    fn an_absurd_capacity_is_refused() {
        slots(usize::MAX);
    }

    #[test]
    fn positions_go_round() {
        let ring = ring(4, |number| number);
        let seen: Vec<usize> = (6..12).map(|position| *at(&ring, position)).collect();
        assert_eq!(seen, [2, 3, 0, 1, 2, 3]);
        for (first, count) in [(0, 0), (0, 4), (6, 4), (7, 1), (7, 3), (9, 2), (5, 9)] {
            let [ahead, around] = spans(&ring, first, count);
            let in_one = (first..first + count.min(4) as u64).map(|position| at(&ring, position));
            assert!(ahead.iter().chain(around).eq(in_one), "{count} from {first}");
        }
        assert_eq!((distance(7, 3), distance(3, 7)), (4, 0));
    }
}
