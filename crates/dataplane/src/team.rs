//! A set of workers: who hands packets to whom, and the limits that they share.

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::Arc;

use dispatch::{Mesh, Sleepers};
use forward::RateLimiter;
use policy::WorkerIndex;

use crate::event::Waker;
use crate::packets::guesses::Guesses;
use crate::packets::handoff::Peers;
use crate::view::{Clock, Now};

/// Packets that may be on their way from one worker to one other: several turns' worth where workers are
/// few, and some MiB in all where they are many.
fn hand_over_len(workers: usize) -> usize {
    (HAND_OVER_IN_ALL / workers.max(1)).clamp(256, 2048)
}

/// Packets that may be on their way to one worker, about.
const HAND_OVER_IN_ALL: usize = 8192;

/// ICMP errors a second (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f), and how many may come at once.
const ERRORS_PER_SECOND: u32 = 1000;
pub(crate) const ERRORS_AT_ONCE: u32 = 50;

/// Requests a second to look after neighbours whose address Linux should confirm.
const CONFIRMATIONS_PER_SECOND: u32 = 20;

/// Reports of peers with a new address or port, a second.
const MAPPINGS_PER_SECOND: u32 = 100;

/// Reports of path MTUs, a second: each makes the workers decide anew about all flows.
const TOO_BIG_PER_SECOND: u32 = 10;

/// ICMPv6 errors about packets with segments, a second: for each, headends are looked through.
const SEGMENT_ERRORS_PER_SECOND: u32 = 100;

/// The most workers of one set.
pub const MAX_WORKERS: usize = {
    let (lanes, sleepers) = (WorkerIndex::MAX, Sleepers::MOST);
    if lanes < sleepers { lanes } else { sleepers }
};

/// What the workers of a set share: the clock, and limits that are the host's.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    pub(crate) errors: RateLimiter,
    pub(crate) confirmations: RateLimiter,
    pub(crate) mappings: RateLimiter,
    pub(crate) too_big: RateLimiter,
    pub(crate) segment_errors: RateLimiter,
    pub(crate) guesses: Guesses,
    /// Spreads fragments over the workers.
    pub(crate) scatter: ahash::RandomState,
    /// Running number of ICMP errors, for IPv4's identification.
    errors_made: AtomicU16,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            clock: Clock::start(),
            errors: RateLimiter::new(ERRORS_PER_SECOND, ERRORS_AT_ONCE),
            confirmations: RateLimiter::new(CONFIRMATIONS_PER_SECOND, CONFIRMATIONS_PER_SECOND),
            mappings: RateLimiter::new(MAPPINGS_PER_SECOND, MAPPINGS_PER_SECOND),
            too_big: RateLimiter::new(TOO_BIG_PER_SECOND, TOO_BIG_PER_SECOND),
            segment_errors: RateLimiter::new(SEGMENT_ERRORS_PER_SECOND, SEGMENT_ERRORS_PER_SECOND),
            guesses: Guesses::new(),
            scatter: ahash::RandomState::new(),
            errors_made: AtomicU16::new(0),
        }
    }

    /// The identification of another ICMP error.
    pub(crate) fn next_ident(&self) -> u16 {
        self.errors_made.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// The time, on the clock of the whole set.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }
}

/// One worker's place in a set.
///
/// Each worker owns some queues of each interface, and is the home of some SAs. A packet for an SA whose
/// home is another worker, and a frame for an interface of which the worker has no queue, is handed over.
pub struct Team {
    pub(crate) index: WorkerIndex,
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Option<Peers>,
}

impl Team {
    /// A worker without others.
    pub fn alone() -> Team {
        Team { index: WorkerIndex::FIRST, shared: Arc::new(Shared::new()), peers: None }
    }

    /// A set of workers, by the wakers of each; at most [`MAX_WORKERS`], those beyond get no place.
    pub fn of(wakers: &[Waker]) -> Vec<Team> {
        Team::with(&Arc::new(Shared::new()), wakers)
    }

    /// Another set of workers on the clock and with the limits of this one.
    pub fn again(&self, wakers: &[Waker]) -> Vec<Team> {
        Team::with(&self.shared, wakers)
    }

    fn with(shared: &Arc<Shared>, wakers: &[Waker]) -> Vec<Team> {
        let wakers: Arc<[Waker]> = wakers.iter().take(MAX_WORKERS).cloned().collect();
        let sleepers = Sleepers::new();
        let mesh = Mesh::new(wakers.len(), hand_over_len(wakers.len()), &sleepers);
        let teams = mesh.into_iter().enumerate().filter_map(|(n, peer)| {
            let peers = Peers::new(peer, Arc::clone(&wakers), sleepers.clone());
            Some(Team {
                index: WorkerIndex::new(n)?,
                shared: Arc::clone(shared),
                // With nobody to hand to there is nothing to ask for.
                peers: (wakers.len() > 1).then_some(peers),
            })
        });
        teams.collect()
    }

    /// The time on the clock of the set, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.shared.now().ns
    }

    /// The worker's number, from 0.
    pub fn number(&self) -> usize {
        self.index.get()
    }
}
