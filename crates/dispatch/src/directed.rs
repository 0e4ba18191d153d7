//! Directed: to one consumer, in order, from one producer.
//!
//! A ring with two indices. The producer alone writes `tail`, the consumer alone `head`, each on cache
//! lines of its own; each keeps a copy of the other's index and looks again only when the copy says that
//! there is nothing to do. So a put or a take of a whole burst costs one store, and no locked
//! instruction.

#![allow(
    unsafe_code,
    reason = "the indices say who may touch which place; each block says which index"
)]

use arrayvec::ArrayVec;

use crate::common::{Common, at, distance, ring, spans};
use crate::ends::Side;
use crate::outcome::{Refused, Stats};
use crate::place::Place;
use crate::sync::{Arc, AtomicU64, Ordering, Padded};

/// A queue for at least `capacity` items (rounded up to a power of two), and its two ends.
///
/// # Panics
///
/// If `capacity` is above 2^31.
pub fn queue<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let shared = Arc::new(Shared {
        tail: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
        common: Common::new(&[Side::Producers, Side::Consumers]),
        places: ring(capacity, |_| Place::empty()),
    });
    let producer = Producer { shared: Arc::clone(&shared), tail: 0, head: 0 };
    (producer, Consumer { shared, head: 0, tail: 0 })
}

/// Items lie in the places from `head` to `tail`, and in no others.
struct Shared<T> {
    /// The position after the last item: the producer's.
    tail: Padded<AtomicU64>,
    /// The position of the first item: the consumer's.
    head: Padded<AtomicU64>,
    common: Common,
    places: Box<[Place<T>]>,
}

impl<T> Shared<T> {
    fn stats(&self) -> Stats {
        // Relaxed: numbers to look at. The head first, so that the difference is not negative.
        let head = self.head.load(Ordering::Relaxed);
        Stats {
            depth: distance(self.tail.load(Ordering::Relaxed), head).min(self.places.len()),
            capacity: self.places.len(),
            full: self.common.full(),
        }
    }

    /// Takes the first item that a consumer left.
    ///
    /// # Safety
    ///
    /// The caller has seen that the consumer has gone, and is the producer or the last end of all.
    unsafe fn take_left(&self) -> Option<T> {
        // Relaxed: its writer has gone, or is the caller.
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        self.head.store(head + 1, Ordering::Release);
        // SAFETY: head lies before tail, so an item is there. No consumer takes it, and no producer
        // overwrites it: the only one that may live is the caller.
        Some(unsafe { at(&self.places, head).empty_out() })
    }

    /// One end goes. The last to go drops what is left.
    fn leave(&self, side: Side) {
        if self.common.ends.leave(side) {
            // SAFETY: we are the last end, and leave() has ordered all that the others did before.
            while let Some(item) = unsafe { self.take_left() } {
                drop(item);
            }
        }
    }
}

/// The end that puts. For one thread at a time; it may move to another.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Value of `shared.tail`, which this end alone writes.
    tail: u64,
    /// Value of `shared.head` when it was last read.
    head: u64,
}

impl<T> Producer<T> {
    /// Puts an item at the end.
    ///
    /// # Errors
    ///
    /// The item comes back when there is no room, or no consumer any more.
    #[inline]
    pub fn put(&mut self, item: T) -> Result<(), Refused<T>> {
        if self.is_closed() {
            return Err(Refused::Closed(item));
        }
        if self.room(1) == 0 {
            return Err(Refused::Full(item));
        }
        // SAFETY: there is room, as in put_many().
        unsafe { at(&self.shared.places, self.tail).fill(item) };
        self.tail += 1;
        // Release: as in put_many().
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Puts as many items as there is room for, from the front, and says how many. The others stay, in
    /// their order; all of them if there is no consumer any more.
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
        for places in spans(&self.shared.places, self.tail, count) {
            for (place, item) in places.iter().zip(&mut items) {
                // SAFETY: room() found the place free: nothing lies from the tail, which only we
                // move, to a lap after the head, which the consumer stored after it had taken
                // the item out.
                unsafe { place.fill(item) };
            }
        }
        self.tail += count as u64;
        // Release: the items are written before the consumer, which loads the tail with acquire,
        // can see that they are there.
        self.shared.tail.store(self.tail, Ordering::Release);
        count
    }

    /// How many of `wanted` items there is room for.
    #[inline(always)]
    fn room(&mut self, wanted: usize) -> usize {
        let capacity = self.shared.places.len();
        let mut free = capacity - distance(self.tail, self.head);
        if free < wanted {
            // Acquire: pairs with the consumer's release; it has taken the items out of the places
            // that we are about to fill.
            self.head = self.shared.head.load(Ordering::Acquire);
            free = capacity - distance(self.tail, self.head);
            if free < wanted {
                self.shared.common.count_full();
            }
        }
        free.min(wanted)
    }

    /// True if more than half of the places are taken, by what the consumer has published so far.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        // Relaxed: nothing is done with the places.
        let head = self.shared.head.load(Ordering::Relaxed);
        distance(self.tail, head) > self.shared.places.len() / 2
    }

    /// True if the consumer was dropped. What it left is had by [`Self::take_back`].
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.shared.common.ends.gone(Side::Consumers)
    }

    /// When the consumer has gone, the first of the items that it left; else nothing.
    pub fn take_back(&mut self) -> Option<T> {
        if !self.is_closed() {
            return None;
        }
        // SAFETY: the consumer has gone, what it did happened before (Ends::gone), and we are the
        // producer, mutably borrowed.
        unsafe { self.shared.take_left() }
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Producers);
    }
}

/// The end that takes. For one thread at a time; it may move to another.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Value of `shared.head`, which this end alone writes.
    head: u64,
    /// Value of `shared.tail` when it was last read.
    tail: u64,
}

impl<T> Consumer<T> {
    /// Takes the first item, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        if self.available(1) == 0 {
            return None;
        }
        // SAFETY: an item is there, as in take_up_to().
        let item = unsafe { at(&self.shared.places, self.head).empty_out() };
        self.head += 1;
        // Release: as in take_up_to().
        self.shared.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Takes items from the front for as long as `out` has room, and says how many.
    #[inline]
    pub fn take_many<const N: usize>(&mut self, out: &mut ArrayVec<T, N>) -> usize {
        self.take_up_to(out, N)
    }

    /// As [`Self::take_many`], but `most` items at most.
    #[inline]
    pub fn take_up_to<const N: usize>(&mut self, out: &mut ArrayVec<T, N>, most: usize) -> usize {
        let count = self.available(out.remaining_capacity().min(most));
        if count == 0 {
            return 0;
        }
        for places in spans(&self.shared.places, self.head, count) {
            for place in places {
                // SAFETY: available() saw the tail behind this place, so the producer has filled
                // it; the head, which only we move, stands at or before it, so it was not taken yet.
                let item = unsafe { place.empty_out() };
                // SAFETY: count is no more than the room that out had.
                unsafe { out.push_unchecked(item) };
            }
        }
        self.head += count as u64;
        // Release: the items are out before the producer, which loads the head with acquire, can
        // see that there is room.
        self.shared.head.store(self.head, Ordering::Release);
        count
    }

    /// How many of `wanted` items are there.
    #[inline(always)]
    fn available(&mut self, wanted: usize) -> usize {
        let mut there = distance(self.tail, self.head);
        if there < wanted {
            // Acquire: pairs with the producer's release; the items are written.
            self.tail = self.shared.tail.load(Ordering::Acquire);
            there = distance(self.tail, self.head);
        }
        there.min(wanted)
    }

    /// True if there is nothing to take now. Reads the shared index, so that it may be called
    /// after [`Sleepers::prepare`](crate::Sleepers::prepare).
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Acquire, so that the finder of an item sees all that was done before it was put.
        self.shared.tail.load(Ordering::Acquire) == self.head
    }

    /// True if the producer was dropped and nothing is left.
    pub fn is_closed(&self) -> bool {
        // In this order: what the producer put before it went is seen by is_empty().
        self.shared.common.ends.gone(Side::Producers) && self.is_empty()
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Consumers);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn in_order_until_full_and_round_again() {
        let (mut producer, mut consumer) = queue(4);
        for round in 0..10 {
            for number in 0..4 {
                producer.put(round * 4 + number).unwrap();
            }
            assert_eq!(producer.put(99), Err(Refused::Full(99)));
            for number in 0..4 {
                assert_eq!(consumer.take(), Some(round * 4 + number));
            }
            assert_eq!(consumer.take(), None);
        }
        assert_eq!(producer.stats(), Stats { depth: 0, capacity: 4, full: 10 });
    }

    #[test]
    fn a_burst_that_does_not_fit_leaves_its_end_with_the_caller() {
        let (mut producer, mut consumer) = queue(8);
        let mut burst: ArrayVec<u32, 6> = (0..6).collect();
        assert_eq!(producer.put_many(&mut burst), 6);
        burst.extend(6..12);
        assert_eq!(producer.put_many(&mut burst), 2);
        assert_eq!(burst.as_slice(), [8, 9, 10, 11]);
        assert_eq!(producer.put_many(&mut burst), 0);
        assert_eq!(consumer.stats(), Stats { depth: 8, capacity: 8, full: 2 });
        let mut out: ArrayVec<u32, 5> = ArrayVec::new();
        assert_eq!(consumer.take_many(&mut out), 5);
        assert_eq!(out.as_slice(), [0, 1, 2, 3, 4]);
        assert_eq!(consumer.take_many(&mut out), 0, "out is full");
        assert_eq!(producer.put_many(&mut burst), 4);
        out.clear();
        assert_eq!(consumer.take_many(&mut out), 5);
        assert_eq!(out.as_slice(), [5, 6, 7, 8, 9]);
        assert!(!consumer.is_empty());
    }

    #[test]
    fn what_a_consumer_left_comes_back() {
        let (mut producer, mut consumer) = queue(4);
        for number in 0..4 {
            producer.put(number).unwrap();
        }
        assert_eq!(producer.take_back(), None, "the consumer lives");
        assert_eq!(consumer.take(), Some(0));
        drop(consumer);
        assert!(producer.is_closed());
        assert_eq!(producer.put(9), Err(Refused::Closed(9)));
        assert_eq!(producer.put_many(&mut ArrayVec::from([7, 8])), 0);
        assert_eq!(producer.take_back(), Some(1));
        assert_eq!(producer.stats().depth, 2);
    }

    #[test]
    fn what_a_producer_left_is_still_taken() {
        let (mut producer, mut consumer) = queue(4);
        producer.put(1).unwrap();
        drop(producer);
        assert!(!consumer.is_closed());
        assert_eq!(consumer.take(), Some(1));
        assert!(consumer.is_closed());
    }
}
