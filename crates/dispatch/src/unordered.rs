//! Unordered: to any consumer, whoever is free, from any number of producers.
//!
//! Items are taken in the order in which they were put; with several consumers nothing is said about
//! the order in which they are done. One compare-and-swap for a put or a take, of one item or of a
//! burst; see the module `turns` for how.

use arrayvec::ArrayVec;

use crate::common::Common;
use crate::ends::Side;
use crate::outcome::{Refused, Stats};
use crate::sync::Arc;
use crate::turns::Turns;

/// A queue for at least `capacity` items (rounded up to a power of two), and its two ends. Both can be
/// cloned.
///
/// # Panics
///
/// If `capacity` is above 2^31.
pub fn queue<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let shared = Shared::new(capacity);
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

pub(crate) struct Shared<T> {
    pub(crate) common: Common,
    pub(crate) turns: Turns<T>,
}

impl<T> Shared<T> {
    /// A queue that counts one producer and one consumer.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            common: Common::new(&[Side::Producers, Side::Consumers]),
            turns: Turns::new(capacity),
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            depth: self.turns.depth(),
            capacity: self.turns.capacity(),
            full: self.common.full(),
        }
    }

    pub(crate) fn put(&self, item: T) -> Result<(), Refused<T>> {
        if self.common.ends.gone(Side::Consumers) {
            return Err(Refused::Closed(item));
        }
        self.turns.put(item).map_err(|item| {
            self.common.count_full();
            Refused::Full(item)
        })
    }

    pub(crate) fn put_many<const N: usize>(&self, items: &mut ArrayVec<T, N>) -> usize {
        if items.is_empty() || self.common.ends.gone(Side::Consumers) {
            return 0;
        }
        let count = self.turns.put_many(items);
        if !items.is_empty() {
            self.common.count_full();
        }
        count
    }

    pub(crate) fn take_back(&self) -> Option<T> {
        if self.common.ends.gone(Side::Consumers) { self.turns.take() } else { None }
    }

    /// One end goes. The last to go drops what is left.
    pub(crate) fn leave(&self, side: Side) {
        if self.common.ends.leave(side) {
            while let Some(item) = self.turns.take() {
                drop(item);
            }
        }
    }
}

/// An end that puts. Any number of threads, each with its clone.
pub struct Producer<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

impl<T> Producer<T> {
    /// Puts an item at the end.
    ///
    /// # Errors
    ///
    /// The item comes back when there is no room, or no consumer any more.
    #[inline]
    pub fn put(&self, item: T) -> Result<(), Refused<T>> {
        self.shared.put(item)
    }

    /// Puts as many items as there is room for, from the front, and says how many. They lie together:
    /// no other producer's items come between. The others stay, in their order; all of them if there
    /// is no consumer any more.
    #[inline]
    pub fn put_many<const N: usize>(&self, items: &mut ArrayVec<T, N>) -> usize {
        self.shared.put_many(items)
    }

    /// Whether all consumers have gone. What they left can be had by [`Self::take_back`].
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.shared.common.ends.gone(Side::Consumers)
    }

    /// When all consumers have gone, the first of the items that they left; else nothing.
    pub fn take_back(&self) -> Option<T> {
        self.shared.take_back()
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        self.shared.common.ends.join(Side::Producers);
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Producers);
    }
}

/// An end that takes. Any number of threads, each with its clone.
pub struct Consumer<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

impl<T> Consumer<T> {
    /// Takes the first item, if there is one.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.shared.turns.take()
    }

    /// Takes items from the front for as long as `out` has room, and says how many.
    #[inline]
    pub fn take_many<const N: usize>(&self, out: &mut ArrayVec<T, N>) -> usize {
        self.shared.turns.take_many(out)
    }

    /// Whether there is nothing to take now; may be asked after
    /// [`Sleepers::prepare`](crate::Sleepers::prepare).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.turns.is_empty()
    }

    /// Whether all producers have gone and nothing is left.
    pub fn is_closed(&self) -> bool {
        // In this order: what the producers put before they went is seen by is_empty().
        self.shared.common.ends.gone(Side::Producers) && self.is_empty()
    }

    /// Depth, capacity and full events.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl<T> Clone for Consumer<T> {
    fn clone(&self) -> Self {
        self.shared.common.ends.join(Side::Consumers);
        Self { shared: Arc::clone(&self.shared) }
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
    fn any_consumer_takes_what_is_next() {
        let (producer, first) = queue(4);
        let (second, other) = (first.clone(), producer.clone());
        producer.put(1).unwrap();
        other.put(2).unwrap();
        producer.put(3).unwrap();
        other.put(4).unwrap();
        assert_eq!(producer.put(5), Err(Refused::Full(5)));
        assert_eq!((second.take(), first.take(), first.take()), (Some(1), Some(2), Some(3)));
        assert_eq!(second.stats(), Stats { depth: 1, capacity: 4, full: 1 });
        assert_eq!((second.take(), first.take()), (Some(4), None));
    }

    #[test]
    fn closed_when_the_last_of_a_side_has_gone() {
        let (producer, first) = queue(4);
        let (second, other) = (first.clone(), producer.clone());
        drop(first);
        producer.put(1).unwrap();
        assert_eq!(producer.take_back(), None);
        drop(second);
        assert_eq!(producer.put(2), Err(Refused::Closed(2)));
        drop(producer);
        assert_eq!(other.put_many(&mut ArrayVec::from([3])), 0);
        assert_eq!(other.take_back(), Some(1));
        assert_eq!(other.take_back(), None);
    }

    #[test]
    fn a_consumer_knows_the_end() {
        let (producer, consumer) = queue(2);
        producer.put(1).unwrap();
        drop(producer);
        assert!(!consumer.is_closed());
        assert_eq!(consumer.take(), Some(1));
        assert!(consumer.is_closed());
    }
}
