//! The heartbeat that the steering programs' watchdog watches, where Linux can carry on in culvert's place.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The control thread's longest sleep while a watchdog is on.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// How long one heartbeat lasts: a round may be late by several sleeps.
const LASTS: Duration = Duration::from_millis(500);

/// Rounds that follow on one another faster than this share a heartbeat.
const LEAST_APART: Duration = Duration::from_millis(20);

/// When the heartbeats of one program are due.
#[derive(Debug, Default)]
pub struct Heartbeat {
    last: Option<Instant>,
}

impl Heartbeat {
    /// Until when the daemon is alive, if a heartbeat is due at `now`; it has been given then. In ns of
    /// `CLOCK_MONOTONIC`, which is what `now` has to be.
    pub fn due(&mut self, now: Instant, now_ns: u64) -> Option<u64> {
        let is_due =
            self.last.is_none_or(|last| now.saturating_duration_since(last) >= LEAST_APART);
        is_due.then(|| {
            self.last = Some(now);
            now_ns + LASTS.as_nanos() as u64
        })
    }
}

/// The clock of the steering programs. It stands still while the machine sleeps.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_outlasts_late_rounds_and_is_not_given_more_often_than_of_use() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::default();
        let mut at = |ms: u64| heartbeat.due(start + Duration::from_millis(ms), ms * 1_000_000);
        assert_eq!(at(0), Some(500_000_000));
        assert_eq!(at(1), None);
        assert_eq!(at(19), None);
        assert_eq!(at(20), Some(520_000_000));
        assert_eq!(at(120), Some(620_000_000));
        // Four rounds that each came a sleep late.
        assert!(LASTS - LEAST_APART >= LONGEST_SLEEP * 4);
    }

    #[test]
    fn the_clock_goes_on_as_that_of_instants() {
        let (start, start_ns) = (Instant::now(), now_ns());
        std::thread::sleep(Duration::from_millis(2));
        let (passed, passed_ns) = (start.elapsed(), now_ns() - start_ns);
        assert!(passed_ns >= 2_000_000);
        assert!(passed_ns < (passed + Duration::from_secs(1)).as_nanos() as u64);
    }
}
