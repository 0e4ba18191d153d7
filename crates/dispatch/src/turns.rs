//! The ring behind a lane of an atomic queue, which has several producers: each slot says whose turn it is.
//!
//! ```text
//! turn = p              free, for the producer that gets position p
//! turn = p + 1          filled, for the consumer that gets position p
//! turn = p + capacity   free again, one lap later
//! ```
//!
//! A run of positions is claimed by one compare-and-swap on `tail` or `head`, however many items move.
//! A thread that has claimed a position is alone with its slot until it stores the next turn. Positions never
//! come again, so a claim cannot succeed on an old view.
//!
//! Nobody waits for anybody. But a thread that stops between its claim and its last store holds up those
//! who come to its slots: consumers then find the queue empty, producers find it full, and they go on with
//! something else.

#![allow(
    unsafe_code,
    reason = "turn numbers say who may touch which place; each block says which turn"
)]

use core::ops::Range;

use arrayvec::ArrayVec;

use crate::common::{at, distance, ring, spans};
use crate::place::Place;
use crate::sync::{AtomicU64, Ordering, Padded};

pub(crate) struct Turns<T> {
    /// The next position to put at.
    tail: Padded<AtomicU64>,
    /// The next position to take from.
    head: Padded<AtomicU64>,
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    turn: AtomicU64,
    place: Place<T>,
}

/// State of a slot that a claim looks for.
#[derive(Clone, Copy)]
enum Want {
    Free = 0,
    Filled = 1,
}

impl<T> Turns<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            tail: Padded(AtomicU64::new(0)),
            head: Padded(AtomicU64::new(0)),
            slots: ring(capacity, |number| Slot {
                turn: AtomicU64::new(number as u64),
                place: Place::empty(),
            }),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn depth(&self) -> usize {
        // Relaxed: a number to look at. The head first, so that the difference is not negative.
        let head = self.head.load(Ordering::Relaxed);
        distance(self.tail.load(Ordering::Relaxed), head).min(self.capacity())
    }

    /// Puts an item at the end, or gives it back.
    #[inline]
    pub(crate) fn put(&self, item: T) -> Result<(), T> {
        let claimed = self.claim(&self.tail, 1, Want::Free);
        if claimed.is_empty() {
            return Err(item);
        }
        // SAFETY: just claimed, as free, and filled once.
        unsafe { at(&self.slots, claimed.start).fill(claimed.start, item) };
        Ok(())
    }

    /// Takes the first item.
    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        let claimed = self.claim(&self.head, 1, Want::Filled);
        // SAFETY: just claimed, as filled, and emptied once.
        (!claimed.is_empty()).then(|| unsafe { self.empty_out(claimed.start) })
    }

    /// As [`Self::take`], without a locked instruction.
    ///
    /// # Safety
    ///
    /// No other thread takes meanwhile, and a thread that took before did so before in the memory
    /// order too.
    #[inline]
    pub(crate) unsafe fn take_alone(&self) -> Option<T> {
        // SAFETY: the caller promises what is asked.
        let claimed = unsafe { self.claim_alone(1) };
        // SAFETY: just claimed, as filled, and emptied once.
        (!claimed.is_empty()).then(|| unsafe { self.empty_out(claimed.start) })
    }

    /// Takes items from the front for as long as `out` has room, and says how many, without a locked instruction.
    ///
    /// # Safety
    ///
    /// As for [`Self::take_alone`].
    #[inline]
    pub(crate) unsafe fn take_many_alone<const N: usize>(&self, out: &mut ArrayVec<T, N>) -> usize {
        // SAFETY: the caller promises what is asked.
        let claimed = unsafe { self.claim_alone(out.remaining_capacity()) };
        // SAFETY: just claimed, as filled, and no more than out has room for.
        unsafe { self.empty_out_many(claimed, out) }
    }

    /// True if there is nothing to take now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: if others take meanwhile the answer is old at once. Acquire on the turn, so that
        // the finder of an item sees all that was done before it was put.
        let head = self.head.load(Ordering::Relaxed);
        at(&self.slots, head).turn.load(Ordering::Acquire) <= head
    }

    /// Claims up to `wanted` filled positions.
    ///
    /// # Safety
    ///
    /// As for [`Self::take_alone`]: of two who claim so at once both would get the same positions.
    #[inline(always)]
    unsafe fn claim_alone(&self, wanted: usize) -> Range<u64> {
        // Relaxed, load and store: the caller is the only one who uses the index.
        let head = self.head.load(Ordering::Relaxed);
        let claimed = head..self.run(head, wanted, Want::Filled);
        self.head.store(claimed.end, Ordering::Relaxed);
        claimed
    }

    /// Claims up to `wanted` positions from an index on, as many as are ready without a gap. None if
    /// the queue is full or empty.
    #[inline(always)]
    fn claim(&self, index: &AtomicU64, wanted: usize, want: Want) -> Range<u64> {
        // Relaxed, here and in the exchange: the index only deals out positions. What was done to a
        // slot is ordered by its turn, which run() loads with acquire.
        let mut first = index.load(Ordering::Relaxed);
        loop {
            let end = self.run(first, wanted, want);
            let now = if end == first {
                let now = index.load(Ordering::Relaxed);
                if now == first {
                    return first..first;
                }
                // Somebody else had the position. Its claim happened before the turn that we
                // saw, so this load cannot miss it, and the loop ends when nobody interferes.
                now
            } else {
                match index.compare_exchange_weak(first, end, Ordering::Relaxed, Ordering::Relaxed)
                {
                    Ok(_) => return first..end,
                    Err(now) => now,
                }
            };
            first = now;
        }
    }

    /// The end of the run of slots from `first` on that are as wanted; `wanted` of them at most.
    #[inline(always)]
    fn run(&self, first: u64, wanted: usize, want: Want) -> u64 {
        let mut end = first;
        for slots in spans(&self.slots, first, wanted) {
            for slot in slots {
                // Acquire: pairs with the release in fill() and empty_out(): what the one before did
                // to the slot is done.
                if slot.turn.load(Ordering::Acquire) != end + want as u64 {
                    return end;
                }
                end += 1;
            }
        }
        end
    }

    /// Takes one item out.
    ///
    /// # Safety
    ///
    /// As for [`Slot::empty_out`].
    #[inline(always)]
    unsafe fn empty_out(&self, position: u64) -> T {
        let next = position + self.slots.len() as u64;
        // SAFETY: the caller promises what is asked.
        unsafe { at(&self.slots, position).empty_out(next) }
    }

    /// Takes the items out of claimed positions.
    ///
    /// # Safety
    ///
    /// As for [`Slot::empty_out`], of each of the positions; and `out` has room for all of them.
    #[inline(always)]
    unsafe fn empty_out_many<const N: usize>(
        &self,
        claimed: Range<u64>,
        out: &mut ArrayVec<T, N>,
    ) -> usize {
        let count = distance(claimed.end, claimed.start);
        let mut next = claimed.start + self.slots.len() as u64..;
        for slots in spans(&self.slots, claimed.start, count) {
            for (slot, next) in slots.iter().zip(&mut next) {
                // SAFETY: the caller promises what is asked, and each position comes once.
                let item = unsafe { slot.empty_out(next) };
                // SAFETY: the caller promises that there is room for each.
                unsafe { out.push_unchecked(item) };
            }
        }
        count
    }
}

impl<T> Slot<T> {
    /// Puts an item in, and passes the turn on.
    ///
    /// # Safety
    ///
    /// The caller has claimed the position, as free, and has not filled it yet.
    #[inline(always)]
    unsafe fn fill(&self, position: u64, item: T) {
        // SAFETY: the claim is the caller's, and run() saw the turn that makes the place free for it;
        // nobody else claims the position or touches its place before the store below.
        unsafe { self.place.fill(item) };
        // Release: the item is written before the turn says so.
        self.turn.store(position + 1, Ordering::Release);
    }

    /// Takes the item out, and passes the turn on to position `next`, one lap later.
    ///
    /// # Safety
    ///
    /// The caller has claimed the position, as filled, and has not emptied it yet.
    #[inline(always)]
    unsafe fn empty_out(&self, next: u64) -> T {
        // SAFETY: the claim is the caller's, and run() saw the turn that says an item is there;
        // nobody else claims the position or touches its place before the store below.
        let item = unsafe { self.place.empty_out() };
        // Release: the item is out before the turn says so.
        self.turn.store(next, Ordering::Release);
        item
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_ring() {
        let turns: Turns<u32> = Turns::new(4);
        for number in 0..4 {
            turns.put(number).unwrap();
        }
        assert_eq!(turns.put(9), Err(9));
        let mut out: ArrayVec<u32, 9> = ArrayVec::new();
        // SAFETY: one thread.
        assert_eq!(unsafe { turns.take_many_alone(&mut out) }, 4);
        // SAFETY: one thread.
        assert_eq!(unsafe { turns.take_many_alone(&mut out) }, 0);
        assert_eq!(out.as_slice(), [0, 1, 2, 3]);
    }

    #[test]
    fn both_ways_of_taking_go_on_from_each_other() {
        let turns: Turns<u32> = Turns::new(4);
        for lap in 0..5 {
            for number in 0..3 {
                turns.put(lap * 3 + number).unwrap();
            }
            assert_eq!(turns.depth(), 3);
            // SAFETY: one thread.
            assert_eq!(unsafe { turns.take_alone() }, Some(lap * 3));
            assert_eq!(turns.take(), Some(lap * 3 + 1));
            assert!(!turns.is_empty());
            // SAFETY: one thread.
            assert_eq!(unsafe { turns.take_alone() }, Some(lap * 3 + 2));
            assert!(turns.is_empty());
            assert_eq!(turns.take(), None);
        }
    }
}
