//! Home: the one worker that has a hierarchy of limiters, where these are [by atomic queues](crate::Sharing::Atomic).
//!
//! ```text
//!   bits   63                                 9    8     7      0
//!         +------------------------------------+------+----------+
//!         | packets of other workers under way | held |  worker  |
//!         +------------------------------------+------+----------+
//! ```
//!
//! | a worker has a packet, and the home is | then |
//! | --- | --- |
//! | itself, held | it has the buckets |
//! | itself | it holds the home, and has the buckets |
//! | another worker, but neither held nor with packets under way | it becomes the home, holds it, and has the buckets |
//! | another worker | one packet more is under way to that, which has the buckets for it |
//!
//! A home is held to the end of a round ([`Hold`]). A packet is under way until it is back and has gone on, or is dropped
//! ([`UnderWay`]): so what follows it goes the same way, and none overtakes it.

use std::sync::Arc;

use crate::sync::{AcqRel, Acquire, AtomicU64, Release};

/// The word. Each change is a read-modify-write: writes of one home happen before reads of the next.
#[derive(Debug)]
pub(crate) struct Home(AtomicU64);

/// Answer to a worker that has a packet: the place of the buckets.
#[derive(Debug)]
pub(crate) enum Came {
    /// The worker is the home already.
    Here,
    /// The worker is the home from now on.
    Held(Hold),
    /// The home is this worker: the packet has to go there.
    There(usize, UnderWay),
}

/// A worker's hold on a home. No packet of its own has the buckets after it is dropped.
#[derive(Debug)]
pub struct Hold(Arc<Home>);

/// A packet on its way to a home, or back.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Home>);

impl Home {
    /// The home of limiters that no worker has met.
    pub(crate) fn new() -> Home {
        Home(AtomicU64::new(NOBODY))
    }

    /// The home, if there has been one.
    pub(crate) fn at(&self) -> Option<usize> {
        let at = self.0.load(Acquire) & WORKER;
        (at != NOBODY).then_some(at as usize)
    }

    /// A packet of a worker comes to its limiters.
    ///
    /// # Panics
    /// If the worker's number is not below 255.
    #[inline]
    pub(crate) fn come(self: &Arc<Home>, worker: usize) -> Came {
        assert!((worker as u64) < NOBODY, "worker {worker} of 255");
        let me = worker as u64;
        let mut word = self.0.load(Acquire);
        loop {
            let (at, is_held) = (word & WORKER, word & HELD != 0);
            if at == me && is_held {
                return Came::Here;
            }
            let is_mine = at == me || word < HELD;
            let next = if is_mine { word & !WORKER | HELD | me } else { word + ONE };
            match self.0.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) if is_mine => return Came::Held(Hold(Arc::clone(self))),
                Ok(_) => return Came::There(at as usize, UnderWay(Arc::clone(self))),
                Err(other) => word = other,
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.fetch_and(!HELD, Release);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(ONE, Release);
    }
}

/// The worker's number.
const WORKER: u64 = 0xff;

/// Worker number that means that there is no home.
const NOBODY: u64 = 0xff;

/// The home is held.
const HELD: u64 = 0x100;

/// A packet under way.
const ONE: u64 = 0x200;
