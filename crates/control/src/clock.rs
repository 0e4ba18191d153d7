//! Clocks of the control thread. A round reads them once, at its begin, and hands the time down.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// One reading of all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// `CLOCK_MONOTONIC`, which stands still while the machine sleeps: pauses and deadlines go by it.
    pub at: Instant,
    /// The same clock in ns, as the steering programs read it.
    pub at_ns: u64,
    /// `CLOCK_BOOTTIME` in ms, which goes on while the machine sleeps: lifetimes go by it.
    pub boot_ms: u64,
    /// Wall clock, in ms since 1970.
    pub wall_ms: u64,
}

impl Now {
    /// Reads the clocks.
    pub fn read() -> Now {
        let ns = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
        };
        Now {
            at: Instant::now(),
            at_ns: ns(ClockId::Monotonic),
            boot_ms: ns(ClockId::Boottime) / 1_000_000,
            wall_ms: wall_ms(),
        }
    }

    /// The time this much later, on all clocks.
    #[cfg(test)]
    pub fn after(self, passed: Duration) -> Now {
        let passed_ms = passed.as_millis() as u64;
        Now {
            at: self.at + passed,
            at_ns: self.at_ns + passed.as_nanos() as u64,
            boot_ms: self.boot_ms + passed_ms,
            wall_ms: self.wall_ms + passed_ms,
        }
    }

    /// Time since then; zero for what is to come.
    pub fn since(&self, then: Instant) -> Duration {
        self.at.saturating_duration_since(then)
    }

    /// Time until then; zero for what is past.
    pub fn until(&self, then: Instant) -> Duration {
        then.saturating_duration_since(self.at)
    }

    /// Seconds of the wall clock since 1970.
    pub fn wall_s(&self) -> u64 {
        self.wall_ms / 1000
    }

    /// Both clocks of the XFRM databases.
    pub fn xfrm(&self) -> xfrm::Now {
        xfrm::Now { wall_s: self.wall_s(), mono_ms: self.boot_ms }
    }
}

/// Milliseconds of the wall clock, for threads that have no rounds.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clocks_go_on_together() {
        let start = Now::read();
        std::thread::sleep(Duration::from_millis(2));
        let later = Now::read();
        let passed = later.since(start.at);
        assert!(passed >= Duration::from_millis(2) && start.since(later.at).is_zero());
        assert_eq!((start.until(later.at), later.until(start.at)), (passed, Duration::ZERO));
        let passed_ns = later.at_ns - start.at_ns;
        assert!(passed_ns >= 2_000_000);
        assert!(passed_ns < (passed + Duration::from_secs(1)).as_nanos() as u64);
        assert!(later.boot_ms - start.boot_ms >= 1);
        let after = start.after(Duration::from_millis(1500));
        assert_eq!(after.since(start.at), Duration::from_millis(1500));
        assert_eq!(after.xfrm().mono_ms, start.boot_ms + 1500);
        assert_eq!(after.wall_s(), (start.wall_ms + 1500) / 1000);
    }
}
