//! Depot: free numbers that threads give back and take in batches.
//!
//! For a pool of equal things, such as a region's frames: each thread keeps a few of their numbers to
//! itself, gives a batch to the depot when it has too many, and takes one when it has none. A thread that
//! only receives and one that only sends so meet once every [`BATCH`] frames.
//!
//! ```text
//!            put_batch                            take
//!   thread -------------> full cells  [64] [64] ---------> thread
//!                         empty cells [  ] [  ]
//!            put          singles     n -> n -> n
//!   thread -------------> ------------------------- take, when no cell is full
//! ```
//!
//! # Why not a queue
//!
//! A ring of slots with turns, as a lane of [`atomic`](crate::atomic) is, looks full, or empty, to all while one
//! thread that has claimed a slot has lost its core. A pool that looks empty drops packets. So these are
//! three stacks (Treiber): a thread that stops anywhere holds up nobody, and keeps at most the batch that
//! it is moving. A stack also gives out first what came last, whose lines are the most likely to be near.
//! Each head carries a count of its changes next to the top's number, so that a thread that slept over
//! many changes does not take an old top for the present one.
//!
//! # Contract
//!
//! - Threads: any number, all at once. No call waits, allocates or fails.
//! - Each number is in the depot once at most: only its owner puts it, and owns it no more afterwards.
//!   [`Depot::take`] makes the caller the owner.
//! - Memory order: all that was done before a number was put happens before its taker goes on.
//! - Bounded: room for all numbers, from the beginning. About 8 bytes a number.

use arrayvec::ArrayVec;

use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded};

/// Numbers in a batch. A batch is four cache lines.
pub const BATCH: usize = if cfg!(loom) { 2 } else { 64 };

/// Free numbers, shared by any number of threads.
pub struct Depot {
    full: Stack,
    empty: Stack,
    singles: Stack,
    /// Numbers in the depot, and those on their way in or out.
    held: Padded<AtomicU64>,
    cells: Box<[Cell]>,
    /// By cell: the one below it, in whichever stack it is.
    below_cell: Box<[AtomicU32]>,
    /// By number: the one below it among the singles.
    below_single: Box<[AtomicU32]>,
}

/// A batch of numbers. Its owner writes and reads it alone: the thread that popped it.
#[repr(align(64))]
struct Cell([AtomicU32; BATCH]);

impl Depot {
    /// A depot for the numbers below `numbers`, without any of them.
    ///
    /// # Panics
    ///
    /// With more than 2^24 numbers.
    pub fn new(numbers: u32) -> Self {
        assert!(numbers <= MOST, "{numbers} numbers");
        // More than all numbers fill, for threads that have emptied one and not put it back yet. If there
        // are more such threads, batches go to the singles.
        let cells = numbers.div_ceil(BATCH as u32) + SPARE_CELLS;
        let links = |count: u32| (0..count).map(|_| AtomicU32::new(NONE)).collect();
        let depot = Self {
            full: Stack::new(),
            empty: Stack::new(),
            singles: Stack::new(),
            held: Padded(AtomicU64::new(0)),
            cells: (0..cells).map(|_| Cell::new()).collect(),
            below_cell: links(cells),
            below_single: links(numbers),
        };
        for cell in 0..cells {
            depot.empty.push(&depot.below_cell, cell);
        }
        depot
    }

    /// Puts one number. Costs a change of a shared word: the cheap way is a batch.
    ///
    /// # Panics
    ///
    /// If there can be no such number.
    #[cold]
    pub fn put(&self, number: u32) {
        // Relaxed: a figure. Before the push, so that it is never below zero.
        self.held.fetch_add(1, Ordering::Relaxed);
        self.singles.push(&self.below_single, number);
    }

    /// Puts a batch of numbers.
    ///
    /// # Panics
    ///
    /// If there can be no such number.
    pub fn put_batch(&self, numbers: &[u32; BATCH]) {
        let Some(cell) = self.empty.pop(&self.below_cell) else {
            return numbers.iter().for_each(|number| self.put(*number));
        };
        let most = self.below_single.len() as u32;
        for (place, number) in self.cells[cell as usize].0.iter().zip(numbers) {
            assert!(*number < most, "number {number} of {most}");
            // Relaxed: the cell is ours; push() releases it.
            place.store(*number, Ordering::Relaxed);
        }
        self.held.fetch_add(BATCH as u64, Ordering::Relaxed);
        self.full.push(&self.below_cell, cell);
    }

    /// Takes a batch, or else up to [`BATCH`] single numbers, for as long as `out` has room, and says how
    /// many. None if the depot is empty.
    pub fn take<const N: usize>(&self, out: &mut ArrayVec<u32, N>) -> usize {
        let before = out.len();
        if out.remaining_capacity() >= BATCH
            && let Some(cell) = self.full.pop(&self.below_cell)
        {
            // Relaxed: the cell is ours; pop() has acquired it.
            out.extend(self.cells[cell as usize].0.iter().map(|n| n.load(Ordering::Relaxed)));
            self.empty.push(&self.below_cell, cell);
        } else {
            let most = out.remaining_capacity().min(BATCH);
            out.extend(core::iter::from_fn(|| self.singles.pop(&self.below_single)).take(most));
        }
        let count = out.len() - before;
        self.held.fetch_sub(count as u64, Ordering::Relaxed);
        count
    }

    /// The count of numbers in the depot. While others put or take it may be too high by what they move.
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed) as usize
    }

    /// True if there is no number in it, by [`Self::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Cell {
    fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl core::fmt::Debug for Depot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Depot({} of {})", self.len(), self.below_single.len())
    }
}

/// A stack of numbers that are linked by a table.
///
/// ```text
/// 63                         24 23                      0
/// | changes, modulo 2^40       | top + 1, 0 for none     |
/// ```
struct Stack(Padded<AtomicU64>);

impl Stack {
    fn new() -> Self {
        Self(Padded(AtomicU64::new(0)))
    }

    /// Puts a number, which the caller owns, on top.
    fn push(&self, below: &[AtomicU32], number: u32) {
        let link = &below[number as usize];
        // Relaxed: only the number goes into the link, and nothing is read through it here.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            // Relaxed: the exchange releases it.
            link.store(top(head), Ordering::Relaxed);
            // Release: the link, and all that was done with the number, before a pop that takes it.
            match self.0.compare_exchange_weak(
                head,
                changed(head, number + 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the number on top; the caller owns it then.
    fn pop(&self, below: &[AtomicU32]) -> Option<u32> {
        // Acquire, in all three: pairs with the release of the push that put the top there. Later pushes and
        // pops are read-modify-writes, so they continue its release sequence.
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let number = top(head).checked_sub(1)?;
            // Relaxed: if another thread has popped the number meanwhile the link may be a new one. Then the
            // head has changed, and the exchange fails.
            let link = below[number as usize].load(Ordering::Relaxed);
            match self.0.compare_exchange_weak(
                head,
                changed(head, link),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }
}

const TOP_BITS: u32 = 24;
/// The most numbers: with one more, for none, they still fit the bits.
const MOST: u32 = (1 << TOP_BITS) - 1;
/// A link to nothing.
const NONE: u32 = 0;
/// Threads that may be between emptying a cell and putting it back.
const SPARE_CELLS: u32 = if cfg!(loom) { 1 } else { 64 };

/// The top's number and one, or zero.
const fn top(head: u64) -> u32 {
    head as u32 & MOST
}

/// The next head, with another top.
const fn changed(head: u64, top: u32) -> u64 {
    ((head >> TOP_BITS).wrapping_add(1) << TOP_BITS) | top as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn take(depot: &Depot) -> Vec<u32> {
        let mut out: ArrayVec<u32, 128> = ArrayVec::new();
        assert_eq!(depot.take(&mut out), out.len());
        out.into_iter().collect()
    }

    #[test]
    fn batches_first_the_last_one_first() {
        let depot = Depot::new(200);
        assert!(depot.is_empty() && take(&depot).is_empty());
        depot.put(199);
        depot.put(198);
        for first in [0, 64] {
            depot.put_batch(&core::array::from_fn(|n| first + n as u32));
        }
        assert_eq!(depot.len(), 130);
        assert_eq!(take(&depot), (64..128).collect::<Vec<u32>>());
        assert_eq!(take(&depot), (0..64).collect::<Vec<u32>>());
        assert_eq!(take(&depot), [198, 199]);
        assert!(depot.is_empty());
    }

    #[test]
    fn no_more_is_taken_than_there_is_room_for() {
        let depot = Depot::new(200);
        depot.put_batch(&core::array::from_fn(|n| n as u32));
        (100..103).for_each(|number| depot.put(number));
        let mut out: ArrayVec<u32, 2> = ArrayVec::new();
        assert_eq!((depot.take(&mut out), depot.take(&mut out)), (2, 0));
        assert_eq!(out.as_slice(), [102, 101]);
        assert_eq!(depot.len(), 65);
        assert_eq!((take(&depot).len(), take(&depot)), (64, vec![100]));
        (0..100).for_each(|number| depot.put(number));
        assert_eq!((take(&depot).len(), take(&depot).len()), (64, 36));
    }

    #[test]
    fn all_numbers_fit_over_and_over() {
        let depot = Depot::new(64 * 5);
        for _ in 0..3 {
            for first in 0..5 {
                depot.put_batch(&core::array::from_fn(|n| first * 64 + n as u32));
            }
            let mut all: Vec<u32> = (0..5).flat_map(|_| take(&depot)).collect();
            assert!(take(&depot).is_empty());
            all.sort_unstable();
            assert!(all.into_iter().eq(0..320));
        }
    }

    #[test]
    fn without_an_empty_cell_a_batch_becomes_singles() {
        let depot = Depot::new(64);
        while depot.empty.pop(&depot.below_cell).is_some() {}
        depot.put_batch(&core::array::from_fn(|n| n as u32));
        assert_eq!((depot.len(), take(&depot).len()), (64, 64));
    }

    #[test]
    #[should_panic = "16777216 numbers"]
    fn too_many_numbers_are_refused() {
        Depot::new(1 << 24);
    }

    #[test]
    fn a_head_counts_its_changes_and_wraps() {
        let head = changed(u64::MAX, 5);
        assert_eq!((head, top(head)), (5, 5));
        assert_eq!(changed(head, 0), 1 << 24);
    }
}
