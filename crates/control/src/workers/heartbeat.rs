//! The heartbeat that the steering programs' watchdog watches, where Linux can carry on in culvert's place.

use std::time::{Duration, Instant};

use crate::clock::Now;

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
    /// Until when the daemon is alive, if a heartbeat is due; it has been given then. In ns of `CLOCK_MONOTONIC`.
    pub fn due(&mut self, now: Now) -> Option<u64> {
        let is_due = self.last.is_none_or(|last| now.since(last) >= LEAST_APART);
        is_due.then(|| {
            self.last = Some(now.at);
            now.at_ns + LASTS.as_nanos() as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_outlasts_late_rounds_and_is_not_given_more_often_than_of_use() {
        let start = Now::read();
        let mut heartbeat = Heartbeat::default();
        let mut at = |ms: u64| {
            let until_ns = heartbeat.due(start.after(Duration::from_millis(ms)));
            until_ns.map(|until_ns| (until_ns - start.at_ns) / 1_000_000)
        };
        assert_eq!(at(0), Some(500));
        assert_eq!(at(1), None);
        assert_eq!(at(19), None);
        assert_eq!(at(20), Some(520));
        assert_eq!(at(120), Some(620));
        // Four rounds that each came a sleep late.
        assert!(LASTS - LEAST_APART >= LONGEST_SLEEP * 4);
    }
}
