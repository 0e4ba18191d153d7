//! The clock and the limits that the workers of a set share, as of the ICMP errors that the host makes.

pub(crate) mod guesses;

use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use forward::RateLimiter;

use crate::model::{Clock, Now};
use guesses::Guesses;

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

/// The clock that the workers of a set share, and the limits that are the host's.
#[derive(Debug)]
pub(crate) struct HostLimits {
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

impl HostLimits {
    pub(crate) fn new() -> HostLimits {
        HostLimits {
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
