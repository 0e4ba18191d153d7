//! Ordered: worked on by any worker, many items at once, and released in the order of submission.
//!
//! ```text
//!        head            claim             tail
//!   -------+---------------+-----------------+------> positions
//!   released | with workers, | submitted,      | free
//!            | done or not   | nobody has them |
//! ```
//!
//! A position is an item's ticket. The [`Submitter`] moves `tail`, the [`Worker`]s move `claim` by
//! compare-and-swap and work on the items where they lie, the [`Releaser`] moves `head` over what is
//! done. An item never leaves its place between submission and release: whatever becomes of a
//! worker, the item is there, and the releaser is told how far it came.
//!
//! Submitter and releaser are mostly held by the thread that owns the packets, together with a worker's
//! handle, so that it can help when it has nothing better to do. It must help, or release, before
//! it can submit more than the queue holds; nothing blocks.
//!
//! A worker that keeps a [`Work`] holds up the release of all that was submitted later.
//!
//! # Turns
//!
//! Some of the work on an item may touch what all items share (a counter, a window), and then it has to be
//! done by one worker at a time, in the order of submission. For that there is one turn, which goes from
//! item to item:
//!
//! ```text
//!   item 1   --- apart ---|turn|--- apart ---|
//!   item 2      --- apart ---  |turn|--- apart ---|
//!   item 3   ------ apart -----     |turn|-- apart ---|
//! ```
//!
//! [`Work::turn`] hands it out when it has come to the item, and [`Turn::end`] passes it on: what was done
//! in a turn happens before what is done in the next. A worker that finishes without having ended its
//! turn, or gives up, leaves it to the releaser, who has it from the item's release to
//! [`Releaser::end_turn`]. A releaser with turns calls that after each released item. A worker that waits for
//! a turn waits for all workers with earlier items; the releaser must go on releasing meanwhile.

#![allow(
    unsafe_code,
    reason = "positions say who may touch which place; each block says which position"
)]

use core::cell::Cell;

use arrayvec::ArrayVec;

use crate::common::{Common, at, distance, ring, spans};
use crate::ends::Side;
use crate::outcome::{Refused, Stats};
use crate::place::Place;
use crate::sync::{Arc, AtomicU64, Ordering, Padded};

/// A queue for at least `capacity` items (rounded up to a power of two), and its three parts. The worker
/// can be cloned.
///
/// # Panics
///
/// If `capacity` is above 2^31.
pub fn queue<T>(capacity: usize) -> (Submitter<T>, Worker<T>, Releaser<T>) {
    let shared = Arc::new(Shared {
        tail: Padded(AtomicU64::new(0)),
        claim: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
        turn: Padded(AtomicU64::new(0)),
        common: Common::new(&[Side::Producers, Side::Consumers, Side::Releasers]),
        slots: ring(capacity, |_| Slot { done: AtomicU64::new(0), place: Place::empty() }),
    });
    let submitter = Submitter { shared: Arc::clone(&shared), tail: 0, head: 0 };
    let worker = Worker { shared: Arc::clone(&shared), tail: Cell::new(0) };
    (submitter, worker, Releaser { shared, head: 0, owes_turn: false })
}

/// Items lie in the places from `head` to `tail`; those before `claim` are, or were, with a worker.
struct Shared<T> {
    /// The position after the last item: the submitter's.
    tail: Padded<AtomicU64>,
    /// The first position that no worker has: the workers'.
    claim: Padded<AtomicU64>,
    /// The position of the first item that is not released: the releaser's.
    head: Padded<AtomicU64>,
    /// The position whose turn it is. The holder of the turn alone writes it.
    turn: Padded<AtomicU64>,
    common: Common,
    slots: Box<[Slot<T>]>,
}

/// On a line of its own: items that lie side by side are worked on by different workers.
#[repr(align(64))]
struct Slot<T> {
    /// Which position was last done here, and how: see [`done`].
    done: AtomicU64,
    place: Place<T>,
}

/// Word of a slot whose item at `position` is done. Never zero, and never the same for two
/// positions.
const fn done(position: u64, finished: bool, turn_ended: bool) -> u64 {
    (position + 1) << 2 | (turn_ended as u64) << 1 | finished as u64
}

/// True if the item at `position` is done, by its slot's word.
const fn is_done(word: u64, position: u64) -> bool {
    word >> 2 == position + 1
}

/// Two facts of a word: its worker has finished the item, and the turn was ended.
const fn how(word: u64) -> (bool, bool) {
    (word & 1 != 0, word & 2 != 0)
}

impl<T> Shared<T> {
    fn stats(&self) -> Stats {
        // Relaxed: numbers to look at. The head first, so that the difference is not negative.
        let head = self.head.load(Ordering::Relaxed);
        Stats {
            depth: distance(self.tail.load(Ordering::Relaxed), head).min(self.slots.len()),
            capacity: self.slots.len(),
            full: self.common.full(),
        }
    }

    /// One part goes. The last to go drops what is left.
    fn leave(&self, side: Side) {
        if !self.common.ends.leave(side) {
            return;
        }
        // Relaxed: leave() has ordered all that the others did before.
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed);
        self.head.store(tail, Ordering::Relaxed);
        for position in head..tail {
            // SAFETY: between head and tail an item is in every place, claimed or not, and nobody is
            // left who could touch it.
            drop(unsafe { at(&self.slots, position).place.empty_out() });
        }
    }
}

/// The part that submits. For one thread at a time; it may move to another.
pub struct Submitter<T> {
    shared: Arc<Shared<T>>,
    /// Value of `shared.tail`, which this end alone writes.
    tail: u64,
    /// Value of `shared.head` when it was last read.
    head: u64,
}

impl<T> Submitter<T> {
    /// Submits an item.
    ///
    /// # Errors
    ///
    /// The item comes back when there is no room, or no worker or no releaser any more.
    #[inline]
    pub fn put(&mut self, item: T) -> Result<(), Refused<T>> {
        if self.is_closed() {
            return Err(Refused::Closed(item));
        }
        if self.room(1) == 0 {
            return Err(Refused::Full(item));
        }
        // SAFETY: there is room, as in put_many().
        unsafe { at(&self.shared.slots, self.tail).place.fill(item) };
        self.tail += 1;
        // Release: as in put_many().
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Submits as many items as there is room for, from the front, and says how many. The others stay,
    /// in their order; all of them if there is no worker or no releaser any more.
    #[inline]
    pub fn put_many<const N: usize>(&mut self, items: &mut ArrayVec<T, N>) -> usize {
        if items.is_empty() || self.is_closed() {
            return 0;
        }
        let count = self.room(items.len());
        if count == 0 {
            return 0;
        }
        let mut items = items.drain(..count);
        for slots in spans(&self.shared.slots, self.tail, count) {
            for (slot, item) in slots.iter().zip(&mut items) {
                // SAFETY: room() found the place free: nothing lies from the tail, which only we
                // move, to a lap after the head, which the releaser stored after it had taken
                // the item out.
                unsafe { slot.place.fill(item) };
            }
        }
        self.tail += count as u64;
        // Release: the items are written before a worker, which loads the tail with acquire, can
        // claim them.
        self.shared.tail.store(self.tail, Ordering::Release);
        count
    }

    /// How many of `wanted` items there is room for.
    #[inline(always)]
    fn room(&mut self, wanted: usize) -> usize {
        let capacity = self.shared.slots.len();
        let mut free = capacity - distance(self.tail, self.head);
        if free < wanted {
            // Acquire: pairs with the releaser's release; it has taken the items out of the places
            // that we are about to fill.
            self.head = self.shared.head.load(Ordering::Acquire);
            free = capacity - distance(self.tail, self.head);
            if free < wanted {
                self.shared.common.count_full();
            }
        }
        free.min(wanted)
    }

    /// True if all workers were dropped, or the releaser was. The releaser still gets what was
    /// submitted.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        let ends = &self.shared.common.ends;
        ends.gone(Side::Consumers) || ends.gone(Side::Releasers)
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Drop for Submitter<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Producers);
    }
}

/// The part that works. Any number of threads, each with its clone.
pub struct Worker<T> {
    shared: Arc<Shared<T>>,
    /// Value of `shared.tail` when this handle last read it.
    tail: Cell<u64>,
}

impl<T> Worker<T> {
    /// Takes up to `most` items that nobody has, to be worked on in place.
    #[inline]
    pub fn take(&self, most: usize) -> Option<Work<'_, T>> {
        let shared = &*self.shared;
        // Relaxed, here and in the exchange: the claim only deals out positions. The items are
        // ordered by the tail, which is loaded with acquire.
        let mut first = shared.claim.load(Ordering::Relaxed);
        loop {
            let mut there = distance(self.tail.get(), first);
            if there < most {
                // Acquire: pairs with the submitter's release; the items are written.
                self.tail.set(shared.tail.load(Ordering::Acquire));
                there = distance(self.tail.get(), first);
            }
            let count = there.min(most);
            if count == 0 {
                return None;
            }
            match shared.claim.compare_exchange_weak(
                first,
                first + count as u64,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let (finished, turn_ended) = (false, false);
                    return Some(Work { shared, first, count, finished, turn_ended });
                }
                Err(now) => first = now,
            }
        }
    }

    /// True if there is nothing to take now. May be called after
    /// [`Sleepers::prepare`](crate::Sleepers::prepare).
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire, so that the finder of an item sees all that was done before it was submitted. Relaxed
        // for the claim: if others take meanwhile the answer is old at once.
        let tail = self.shared.tail.load(Ordering::Acquire);
        tail <= self.shared.claim.load(Ordering::Relaxed)
    }

    /// True if the releaser was dropped. Its outstanding turns are never granted.
    #[inline]
    pub fn is_abandoned(&self) -> bool {
        self.shared.common.ends.gone(Side::Releasers)
    }

    /// True if the submitter was dropped and nothing is left to take.
    pub fn is_closed(&self) -> bool {
        // In this order: what the submitter put before it went is seen by is_empty().
        self.shared.common.ends.gone(Side::Producers) && self.is_empty()
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Clone for Worker<T> {
    fn clone(&self) -> Self {
        self.shared.common.ends.join(Side::Consumers);
        Self { shared: Arc::clone(&self.shared), tail: Cell::new(0) }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Consumers);
    }
}

/// Items that a worker has in hand: consecutive ones, in the order of submission.
///
/// They are worked on where they lie. [`Self::finish`] says that all of them are done. Dropped without
/// it (by a panic, by an early return) they are released as [`Released::Unfinished`]; forgotten, they
/// hold up the release until all workers have gone.
#[must_use = "dropped without finish(), the items count as unfinished"]
pub struct Work<'a, T> {
    shared: &'a Shared<T>,
    first: u64,
    count: usize,
    finished: bool,
    turn_ended: bool,
}

impl<T> Work<'_, T> {
    /// How many items; at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is no empty Work")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The items, in their order.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let [ahead, around] = spans(&self.shared.slots, self.first, self.count);
        ahead.iter().chain(around).map(|slot| {
            // SAFETY: take() claimed these positions for us alone, with the items in them; nobody
            // touches them until we say that they are done. The positions differ, and there are no more
            // of them than places, so no two references are to one item; the borrow of self
            // keeps a second iterator away.
            unsafe { slot.place.item() }
        })
    }

    /// The turn, if it has come to the first of the items; it is then that of all of them.
    #[inline]
    pub fn turn(&mut self) -> Option<Turn<'_>> {
        // Acquire: pairs with the release of the turn's holder before; what was done in it happened
        // before what is done in this one.
        let is_ours = self.shared.turn.load(Ordering::Acquire) == self.first;
        let (turn, next) = (&self.shared.turn.0, self.first + self.count as u64);
        is_ours.then_some(Turn { turn, next, ended: &mut self.turn_ended })
    }

    /// All items are done, and may be released.
    #[inline]
    pub fn finish(mut self) {
        self.finished = true;
    }
}

impl<T> Drop for Work<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mut positions = self.first..;
        for slots in spans(&self.shared.slots, self.first, self.count) {
            for (slot, position) in slots.iter().zip(&mut positions) {
                // Release: what was done to the item happens before the releaser, which loads the
                // word with acquire, takes it out.
                let word = done(position, self.finished, self.turn_ended);
                slot.done.store(word, Ordering::Release);
            }
        }
    }
}

/// The turn of a [`Work`]. Dropped without [`end`](Turn::end) it stays with the work: to be taken up again,
/// or left to the releaser.
#[must_use = "dropped without end(), the turn is kept"]
pub struct Turn<'a> {
    turn: &'a AtomicU64,
    next: u64,
    /// Set once the turn is ended; the releaser reads it with the work.
    ended: &'a mut bool,
}

impl Turn<'_> {
    /// Passes the turn on.
    #[inline]
    pub fn end(self) {
        // Release: as in Work::turn(). A store is enough: only who has the turn moves it.
        self.turn.store(self.next, Ordering::Release);
        *self.ended = true;
    }
}

/// An item at its release, and how far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an item that is not finished must not go where finished ones go"]
pub enum Released<T> {
    /// A worker has finished it.
    Finished(T),
    /// A worker had it and gave it up. It may be half done: doing it again may be as wrong as leaving
    /// it (a counter mode applied twice yields the plain text).
    Unfinished(T),
    /// No worker ever had it, and none is left.
    Untouched(T),
}

impl<T> Released<T> {
    /// The item, if a worker has finished it.
    pub fn finished(self) -> Option<T> {
        match self {
            Self::Finished(item) => Some(item),
            Self::Unfinished(_) | Self::Untouched(_) => None,
        }
    }
}

/// The part that releases. For one thread at a time; it may move to another.
pub struct Releaser<T> {
    shared: Arc<Shared<T>>,
    /// Value of `shared.head`, which this end alone writes.
    head: u64,
    /// True while the turn of the item released last is not ended.
    owes_turn: bool,
}

impl<T> Releaser<T> {
    /// Releases the oldest item, if it is done.
    #[inline]
    pub fn release(&mut self) -> Option<Released<T>> {
        let released = self.next()?;
        // Release: as in release_many().
        self.shared.head.store(self.head, Ordering::Release);
        Some(released)
    }

    /// Releases what is done, from the oldest on, for as long as `out` has room, and says how many.
    /// It stops at the first item that is not done.
    #[inline]
    pub fn release_many<const N: usize>(&mut self, out: &mut ArrayVec<Released<T>, N>) -> usize {
        let mut count = 0;
        while !out.is_full()
            && let Some(released) = self.next()
        {
            out.push(released);
            count += 1;
        }
        if count > 0 {
            // Release: the items are out before the submitter, which loads the head with acquire,
            // can see that there is room.
            self.shared.head.store(self.head, Ordering::Release);
        }
        count
    }

    /// Ends the turns of all items that were released, where their workers have not done so.
    #[inline]
    pub fn end_turn(&mut self) {
        // The item's word has said so, and turns are ended in order. So who has the turn now keeps its line.
        if !core::mem::take(&mut self.owes_turn) {
            return;
        }
        // Acquire: a worker that had the turn of a released item before it gave up, and the thread that ended the
        // turns before that one's, happened before what the caller does in the next.
        if self.shared.turn.load(Ordering::Acquire) < self.head {
            // Of a released item, so nobody else has it: a worker has a turn only with an item in hand.
            // Release: as in Turn::end().
            self.shared.turn.store(self.head, Ordering::Release);
        }
    }

    /// Takes the oldest item out, if it is done. The shared head is left to the caller.
    #[inline(always)]
    fn next(&mut self) -> Option<Released<T>> {
        let slot = at(&self.shared.slots, self.head);
        // Acquire: pairs with the worker's release in Work's drop; its work on the item is done. A
        // slot that says so for this position has an item in it, or there would have been no work.
        let word = slot.done.load(Ordering::Acquire);
        let mut owes_turn = true;
        let wrap: fn(T) -> Released<T> = if is_done(word, self.head) {
            let (finished, turn_ended) = how(word);
            owes_turn = !turn_ended;
            if finished { Released::Finished } else { Released::Unfinished }
        } else if self.shared.common.ends.gone(Side::Consumers) {
            self.left_by_workers()?
        } else {
            return None;
        };
        // SAFETY: an item is there: submitted, as it was claimed or lies before the tail. It is ours:
        // the worker who had it is done with it, or no worker lives. It was not taken, as
        // the head, which only we move, stands at it.
        let item = unsafe { slot.place.empty_out() };
        self.head += 1;
        self.owes_turn = owes_turn;
        Some(wrap(item))
    }

    /// The way to release the item at the head, now that all workers were dropped. `None` if there
    /// is no item.
    #[cold]
    fn left_by_workers(&self) -> Option<fn(T) -> Released<T>> {
        // Acquire: pairs with the submitter's release; the item is written.
        if self.shared.tail.load(Ordering::Acquire) <= self.head {
            return None;
        }
        // Relaxed, both: what the workers wrote before they went is seen (Ends::gone).
        let word = at(&self.shared.slots, self.head).done.load(Ordering::Relaxed);
        let claim = self.shared.claim.load(Ordering::Relaxed);
        Some(if is_done(word, self.head) && how(word).0 {
            // Its word came between our looking and the worker's going.
            Released::Finished
        } else if self.head < claim {
            Released::Unfinished
        } else {
            Released::Untouched
        })
    }

    /// True if the oldest item can be released now. May be called after
    /// [`Sleepers::prepare`](crate::Sleepers::prepare).
    #[inline]
    pub fn is_ready(&self) -> bool {
        // Acquire: as in next().
        let word = at(&self.shared.slots, self.head).done.load(Ordering::Acquire);
        is_done(word, self.head)
            || self.shared.common.ends.gone(Side::Consumers) && self.left_by_workers().is_some()
    }

    /// True if the submitter was dropped and everything is released.
    pub fn is_closed(&self) -> bool {
        // In this order: what the submitter put before it went is seen by the load. Relaxed, as
        // gone() has ordered it.
        self.shared.common.ends.gone(Side::Producers)
            && self.shared.tail.load(Ordering::Relaxed) == self.head
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Drop for Releaser<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Releasers);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn done_in_any_order_released_in_order() {
        let (mut submitter, worker, mut releaser) = queue(8);
        let other = worker.clone();
        assert_eq!(submitter.put_many(&mut (0..6).collect::<ArrayVec<u32, 6>>()), 6);
        let first = worker.take(2).unwrap();
        let mut second = other.take(3).unwrap();
        let third = worker.take(8).unwrap();
        assert_eq!((first.len(), second.len(), third.len()), (2, 3, 1));
        assert!(worker.take(1).is_none());
        second.iter_mut().for_each(|item| *item += 100);
        third.finish();
        second.finish();
        assert!(!releaser.is_ready());
        assert_eq!(releaser.release(), None);
        first.finish();
        assert!(releaser.is_ready());
        let mut out: ArrayVec<_, 4> = ArrayVec::new();
        assert_eq!(releaser.release_many(&mut out), 4);
        let out: Vec<u32> = out.into_iter().filter_map(Released::finished).collect();
        assert_eq!(out, [0, 1, 102, 103]);
        assert_eq!(releaser.release(), Some(Released::Finished(104)));
        assert_eq!(releaser.release(), Some(Released::Finished(5)));
        assert_eq!(releaser.release(), None);
    }

    #[test]
    fn room_comes_with_the_release_alone() {
        let (mut submitter, worker, mut releaser) = queue(2);
        for lap in 0..5 {
            submitter.put(lap).unwrap();
            submitter.put(lap).unwrap();
            assert_eq!(submitter.put(9), Err(Refused::Full(9)));
            worker.take(2).unwrap().finish();
            assert_eq!(submitter.put(9), Err(Refused::Full(9)), "done, not released");
            assert_eq!(releaser.release(), Some(Released::Finished(lap)));
            submitter.put(lap).unwrap();
            assert_eq!(submitter.put_many(&mut ArrayVec::from([9])), 0);
            assert_eq!(releaser.release(), Some(Released::Finished(lap)));
            worker.take(2).unwrap().finish();
            assert_eq!(releaser.release(), Some(Released::Finished(lap)));
        }
        assert_eq!(submitter.stats(), Stats { depth: 0, capacity: 2, full: 15 });
    }

    #[test]
    fn what_is_not_finished_says_so() {
        let (mut submitter, worker, mut releaser) = queue(4);
        for number in 0..4 {
            submitter.put(number).unwrap();
        }
        drop(worker.take(1).unwrap());
        worker.take(1).unwrap().finish();
        core::mem::forget(worker.take(1).unwrap());
        assert_eq!(releaser.release(), Some(Released::Unfinished(0)));
        assert_eq!(releaser.release(), Some(Released::Finished(1)));
        assert_eq!(releaser.release(), None, "a worker that lives may still be at it");
        drop(worker);
        assert!(releaser.is_ready());
        assert_eq!(releaser.release(), Some(Released::Unfinished(2)));
        assert_eq!(releaser.release(), Some(Released::Untouched(3)));
        assert_eq!(releaser.release(), None);
        assert!(!releaser.is_ready());
        assert_eq!(submitter.put(4), Err(Refused::Closed(4)));
        assert!(!releaser.is_closed());
        drop(submitter);
        assert!(releaser.is_closed());
    }

    #[test]
    fn turns_go_in_order_and_one_that_is_kept_goes_to_the_releaser() {
        let (mut submitter, worker, mut releaser) = queue(4);
        submitter.put_many(&mut ArrayVec::from([0, 1, 2, 3]));
        let mut works: Vec<_> = core::iter::from_fn(|| worker.take(1)).collect();
        let mut last = works.pop().unwrap();
        let mut third = works.pop().unwrap();
        let mut second = works.pop().unwrap();
        let mut first = works.pop().unwrap();
        assert!(second.turn().is_none());
        drop(first.turn().unwrap());
        first.turn().unwrap().end();
        assert!(first.turn().is_none(), "over");
        assert!(third.turn().is_none());
        let _ = second.turn().unwrap();
        first.finish();
        second.finish();
        assert_eq!(releaser.release(), Some(Released::Finished(0)));
        releaser.end_turn();
        assert!(third.turn().is_none(), "kept by the second");
        assert_eq!(releaser.release(), Some(Released::Finished(1)));
        assert!(third.turn().is_none(), "with the releaser");
        releaser.end_turn();
        assert!(last.turn().is_none());
        drop(third);
        assert_eq!(releaser.release(), Some(Released::Unfinished(2)));
        releaser.end_turn();
        releaser.end_turn();
        last.turn().unwrap().end();
        last.finish();
        assert_eq!(releaser.release(), Some(Released::Finished(3)));
        releaser.end_turn();
        assert!(!worker.is_abandoned());
        drop(releaser);
        assert!(worker.is_abandoned());
    }

    #[test]
    fn without_a_releaser_nothing_is_taken_in() {
        let (mut submitter, worker, releaser) = queue(4);
        submitter.put(1).unwrap();
        drop(releaser);
        assert_eq!(submitter.put_many(&mut ArrayVec::from([2])), 0);
        drop(submitter);
        assert!(!worker.is_closed());
        worker.take(1).unwrap().finish();
        assert!(worker.is_closed());
    }
}
