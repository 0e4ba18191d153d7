//! Home: the one worker that may write an object's state, in one atomic word.
//!
//! An SA's replay window, sequence numbers and counters have one writer at a time. [`Home`] says which
//! worker that is. Any thread reads it; only the worker that it names may change it.
//!
//! ```text
//!   worker 2                                     worker 5
//!   is_at(2): true
//!   writes the state
//!   leave(2, 5)  --- release ------ acquire -->  is_at(5): true
//!   is_at(2): false, hands over to 5             writes the state
//! ```
//!
//! # Contract
//!
//! - A worker asks with its own number only, and writes the state only after [`Home::is_at`] said yes and
//!   before its own [`Home::leave`]. The answer stays true in between, so one question serves a burst.
//! - Everything that a home wrote before it left is visible to the next home once `is_at` says yes to it.
//! - A home leaves at the end of a burst, with no work on the object under way on its behalf: nothing at a
//!   helper or in a crypto device that will write the state when it is done.
//! - A move is asked of the home (by a command to it); no other thread moves it. For a worker that has
//!   ended, the thread that joined it may call `leave` in its place.
//!
//! # Packets under way
//!
//! A packet for another worker's object goes to [`Home::at`], over a [`Mesh`](crate::mesh::Mesh). The home
//! may move meanwhile, so the receiver does the same as the sender did: it reads `at` once, works on the
//! packet if that is itself, and else hands the packet on to that worker. (Two reads, `is_at` and then
//! `at`, might name the caller in the second.) Each move costs a packet one more hand-over at most.
//! Packets of one flow may change places at a move: one goes by way of the old home while a later one
//! goes straight to the new. Between moves the mesh keeps their order.

use crate::sync::{AtomicU32, Ordering};

/// The worker that may write an object's state. See the module for the contract.
#[derive(Debug)]
pub struct Home(AtomicU32);

impl Home {
    /// The home of a new object. The object is then published to the workers with release order.
    ///
    /// # Panics
    ///
    /// If the worker's number is above 2^32 - 1.
    pub fn new(worker: usize) -> Self {
        Self(AtomicU32::new(number(worker)))
    }

    /// The worker to which packets for the object go. It may have moved by the time they arrive.
    #[inline]
    pub fn at(&self) -> usize {
        // Acquire, as in is_at(): the answer may be compared with the caller's own number.
        self.0.load(Ordering::Acquire) as usize
    }

    /// Whether `worker`, which is the caller, may write the object's state. A yes holds until the caller
    /// calls [`Self::leave`].
    #[inline]
    pub fn is_at(&self, worker: usize) -> bool {
        // Acquire: pairs with leave(). A worker never sees itself in the word after it has left: its own
        // exchange comes before this load, and a word's values are seen in one order.
        self.at() == worker
    }

    /// Makes `to` the home, and says whether it did: not if the home is not `from`, which is the caller.
    /// From then on the caller writes nothing of the object.
    ///
    /// # Panics
    ///
    /// If a worker's number is above 2^32 - 1.
    #[must_use = "if the home was elsewhere, nothing has moved"]
    pub fn leave(&self, from: usize, to: usize) -> bool {
        // Release: what this home wrote is visible to the next. Acquire: what the home before wrote is
        // passed on, even if the caller never asked is_at().
        self.0
            .compare_exchange(number(from), number(to), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

fn number(worker: usize) -> u32 {
    assert!(u32::try_from(worker).is_ok(), "worker {worker}");
    worker as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_home_moves_it() {
        let home = Home::new(2);
        assert_eq!((home.at(), home.is_at(2), home.is_at(5)), (2, true, false));
        assert!(!home.leave(5, 1), "the home is 2");
        assert!(home.is_at(2));
        assert!(home.leave(2, 5));
        assert_eq!((home.at(), home.is_at(2), home.is_at(5)), (5, false, true));
        assert!(!home.leave(2, 7), "it has left");
        assert!(home.leave(5, 5));
        assert!(home.is_at(5));
    }

    #[test]
    fn it_is_one_small_word() {
        assert_eq!(size_of::<Home>(), 4);
    }
}
