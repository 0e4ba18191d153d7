//! Guesses at what was sent: how often somebody may be wrong before nobody is believed.
//!
//! A forged ICMP error has to name the SPI of an SA, of which there are 2^32, with a number of a packet that was sent.
//! At a million errors a second that takes half an hour. So a peer's path has a few wrong errors a second, and while
//! they are used up no error about that path counts, not even a right one: an attacker has a few guesses a second,
//! and needs years.
//!
//! A flood of guesses keeps right errors away as well, for the peers that it names and as long as it lasts. What was
//! learnt before holds, and so do an MTU of Linux's route to the peer and `path_mtu.clamp_mss`.

use core::net::IpAddr;

use forward::RateLimiter;

/// Wrong errors about a peer's path, a second: after a rekey a few are about the old SA.
pub(crate) const PER_SECOND: u32 = 10;

/// How many sets of peers are told apart.
const SETS: usize = 256;

/// Guesses left for each peer. Peers share a set by a hash of a secret seed.
#[derive(Debug)]
pub(crate) struct Guesses {
    left: Box<[RateLimiter]>,
    scatter: ahash::RandomState,
}

impl Guesses {
    pub(crate) fn new() -> Guesses {
        let left = (0..SETS).map(|_| RateLimiter::new(PER_SECOND, PER_SECOND)).collect();
        Guesses { left, scatter: ahash::RandomState::new() }
    }

    fn of(&self, peer: IpAddr) -> Option<&RateLimiter> {
        self.left.get(self.scatter.hash_one(peer) as usize % SETS)
    }

    /// An error about the path to a peer was wrong.
    pub(crate) fn note(&self, peer: IpAddr, now_ns: u64) {
        // None left: there is nothing to take.
        let _ = self.of(peer).is_some_and(|left| left.allow(now_ns));
    }

    /// True if another wrong guess would be allowed.
    pub(crate) fn is_any_left(&self, peer: IpAddr, now_ns: u64) -> bool {
        self.of(peer).is_some_and(|left| left.is_ready(now_ns))
    }
}
