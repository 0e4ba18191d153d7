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
//! # A new object
//!
//! One that no worker has met is vacant ([`Home::vacant`]): the first worker that needs it claims it
//! ([`Home::claim`]), for itself or for the home of an object that it is used with, and of several that do so
//! at a time one gets it. [`Home::vacate`] makes an object
//! vacant again while no worker runs, for a set of other workers.
//!
//! # An object in a device
//!
//! No worker writes the state of an object that a device has: its home is [`Home::DEVICE`] from the beginning to the
//! end, and no worker gets it.
//!
//! # Packets under way
//!
//! A packet for another worker's object goes to [`Home::at`], over a [`Mesh`](crate::mesh::Mesh). The home
//! may move meanwhile, so the receiver does the same as the sender did: it reads `at` once, works on the
//! packet if that is itself, and else hands the packet on to that worker. (Two reads, `is_at` and then
//! `at`, might name the caller in the second.) Each move costs a packet one more hand-over at most.
//! Packets of one flow may change places at a move: one goes by way of the old home while a later one
//! goes straight to the new. Between moves the mesh keeps their order.

use crate::sync::{AtomicU8, Ordering};

/// The worker that may write an object's state. See the module for the contract.
#[derive(Debug)]
pub struct Home(AtomicU8);

/// The word of a vacant object.
const NOBODY: u8 = u8::MAX;

impl Home {
    /// Workers that can be a home: those numbered below this.
    pub const WORKERS: usize = NOBODY as usize;

    /// The home of an object whose state a device has: the number of no worker. Claimed before the object is published, and
    /// not vacated.
    pub const DEVICE: usize = Self::WORKERS - 1;

    /// The home of a new object. The object is then published to the workers with release order.
    ///
    /// # Panics
    ///
    /// If the worker's number is not below [`Home::WORKERS`].
    pub fn new(worker: usize) -> Self {
        Self(AtomicU8::new(number(worker)))
    }

    /// The home of a new object that no worker has met.
    pub fn vacant() -> Self {
        Self(AtomicU8::new(NOBODY))
    }

    /// The home, which is `worker` from now on if the object was vacant: the caller, or another one that is
    /// to have it.
    ///
    /// # Panics
    ///
    /// If the worker's number is not below [`Home::WORKERS`].
    #[inline]
    pub fn claim(&self, worker: usize) -> usize {
        // Acquire: what was written before the object became vacant is visible to its new home. Release
        // passes that on, if the home is not the caller.
        match self.0.compare_exchange(NOBODY, number(worker), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => worker,
            Err(at) => at as usize,
        }
    }

    /// Makes the object vacant, unless a device has it. Only while no worker runs: joined, or not yet started.
    pub fn vacate(&self) {
        if self.at() != Self::DEVICE {
            self.0.store(NOBODY, Ordering::Release);
        }
    }

    /// The worker to which packets for the object go; [`Home::WORKERS`] while it is vacant. It may have moved
    /// by the time they arrive.
    #[inline]
    pub fn at(&self) -> usize {
        // Acquire, as in is_at(): the answer may be compared with the caller's own number.
        self.0.load(Ordering::Acquire) as usize
    }

    /// True if `worker`, which is the caller, may write the object's state. True holds until the
    /// caller calls [`Self::leave`].
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
    /// If a worker's number is not below [`Home::WORKERS`].
    #[must_use = "if the home was elsewhere, nothing has moved"]
    pub fn leave(&self, from: usize, to: usize) -> bool {
        // Release: what this home wrote is visible to the next. Acquire: what the home before wrote is
        // passed on, even if the caller never asked is_at().
        self.0
            .compare_exchange(number(from), number(to), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

fn number(worker: usize) -> u8 {
    assert!(worker < Home::WORKERS, "worker {worker} of {}", Home::WORKERS);
    worker as u8
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
    fn the_first_to_come_claims_it() {
        let home = Home::vacant();
        assert_eq!(home.at(), Home::WORKERS);
        assert!(!home.is_at(3));
        assert_eq!(home.claim(3), 3);
        assert_eq!((home.claim(4), home.at()), (3, 3), "it was 3's already");
        home.vacate();
        assert_eq!((home.claim(4), home.claim(3)), (4, 4));
    }

    #[test]
    fn no_worker_gets_what_a_device_has() {
        let home = Home::vacant();
        assert_eq!(home.claim(Home::DEVICE), Home::DEVICE);
        home.vacate();
        assert_eq!((home.claim(0), home.at()), (Home::DEVICE, Home::DEVICE));
    }

    #[test]
    fn it_is_one_byte() {
        assert_eq!(size_of::<Home>(), 1);
    }
}
