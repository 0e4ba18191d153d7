//! Directed, from several producers: to one consumer, each producer's items in its order.
//!
//! Producers claim places by a compare-and-swap, once for a burst; the consumer, being alone, needs no
//! locked instruction. A producer that is stopped in the middle of a put holds up those behind it.

#![allow(
    unsafe_code,
    reason = "being the only consumer is what lets it take without a locked instruction"
)]

use arrayvec::ArrayVec;

use crate::ends::Side;
use crate::outcome::Stats;
use crate::sync::Arc;
use crate::unordered::{self, Shared};

/// The end that puts: as that of an unordered queue. Any number of threads, each with its clone.
pub type Producer<T> = unordered::Producer<T>;

/// A queue for at least `capacity` items (rounded up to a power of two), and its two ends. The producer
/// can be cloned.
///
/// # Panics
///
/// If `capacity` is above 2^31.
pub fn queue<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let shared = Shared::new(capacity);
    (Producer { shared: Arc::clone(&shared) }, Consumer { shared })
}

/// The end that takes. For one thread at a time; it may move to another.
pub struct Consumer<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

impl<T> Consumer<T> {
    /// Takes the first item, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        // SAFETY: there is one consumer of this kind for a queue and no other, it cannot be cloned,
        // and it is mutably borrowed; producers take back only once it has gone.
        unsafe { self.shared.turns.take_alone() }
    }

    /// Takes items from the front for as long as `out` has room, and says how many.
    #[inline]
    pub fn take_many<const N: usize>(&mut self, out: &mut ArrayVec<T, N>) -> usize {
        // SAFETY: as in take().
        unsafe { self.shared.turns.take_many_alone(out) }
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

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.leave(Side::Consumers);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::outcome::Refused;

    #[test]
    fn bursts_of_several_producers_lie_one_after_the_other() {
        let (first, mut consumer) = queue(8);
        let second = first.clone();
        assert_eq!(first.put_many(&mut ArrayVec::from([1, 2, 3])), 3);
        assert_eq!(second.put_many(&mut ArrayVec::from([11, 12, 13])), 3);
        let mut more = ArrayVec::from([4, 5, 6]);
        assert_eq!(first.put_many(&mut more), 2);
        assert_eq!(more.as_slice(), [6]);
        assert_eq!(consumer.take(), Some(1));
        let mut out: ArrayVec<u32, 8> = ArrayVec::new();
        assert_eq!(consumer.take_many(&mut out), 7);
        assert_eq!(out.as_slice(), [2, 3, 11, 12, 13, 4, 5]);
        assert_eq!(consumer.stats(), Stats { depth: 0, capacity: 8, full: 1 });
    }

    #[test]
    fn what_the_consumer_left_comes_back_to_any_producer() {
        let (first, mut consumer) = queue(4);
        let second = first.clone();
        first.put(1).unwrap();
        second.put(2).unwrap();
        first.put(3).unwrap();
        assert_eq!(consumer.take(), Some(1));
        assert!(!first.is_closed());
        drop(consumer);
        assert_eq!(second.put(4), Err(Refused::Closed(4)));
        assert_eq!((second.take_back(), first.take_back()), (Some(2), Some(3)));
        assert_eq!(second.take_back(), None);
    }

    #[test]
    fn closed_once_all_producers_have_gone() {
        let (first, mut consumer) = queue(4);
        let second = first.clone();
        drop(first);
        second.put(1).unwrap();
        assert!(!consumer.is_closed());
        drop(second);
        assert!(!consumer.is_closed());
        assert_eq!(consumer.take(), Some(1));
        assert!(consumer.is_closed());
    }
}
