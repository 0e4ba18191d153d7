//! The time, as workers read it.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// The time, read once per round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock seconds, as Linux counts SA lifetimes.
    pub wall_s: u64,
    /// Monotonic nanoseconds, from any beginning; never less than in the round before.
    pub ns: u64,
}

/// The time, as the worker reads it: once a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    /// Starts counting nanoseconds.
    pub(crate) fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    /// Reads the monotonic clock, and the wall clock as of the kernel's last tick: that is how
    /// Linux itself dates SAs, and it costs no reading of the hardware.
    pub(crate) fn now(&self) -> Now {
        let wall_s = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        let ns = self.started.elapsed().as_nanos() as u64;
        Now { wall_s: u64::try_from(wall_s).unwrap_or(0), ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_the_kernels() {
        let wall_s = || {
            let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            wall.expect("after 1970").as_secs()
        };
        // However long it takes from one line to the next; the last tick may be a second back.
        let before_s = wall_s();
        let now = Clock::start().now();
        assert!((before_s - 1..=wall_s()).contains(&now.wall_s));
    }
}
