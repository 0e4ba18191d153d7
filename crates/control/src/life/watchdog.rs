//! The service manager's watchdog (sd_watchdog_enabled(3)), fed by the progress of the data path.
//!
//! A timer would feed it as long as this thread runs, whatever becomes of packets. So each worker's rounds are looked
//! at: a sign of life is given when all of them have moved since the last one. A worker without packets has rounds too.

use std::time::{Duration, Instant};

/// When a sign of life is due.
#[derive(Debug)]
pub struct Watchdog {
    /// How often one is given: twice in the time that the manager waits.
    interval: Duration,
    given: Instant,
    /// Rounds of each worker when one was given.
    rounds: Vec<u64>,
}

impl Watchdog {
    /// The watchdog that the environment asks for.
    pub fn of_environment(now: Instant) -> Option<Watchdog> {
        sd_notify::watchdog_enabled().map(|patience| Watchdog::new(patience, now))
    }

    fn new(patience: Duration, now: Instant) -> Watchdog {
        Watchdog { interval: patience / 2, given: now, rounds: Vec::new() }
    }

    /// How long this thread may sleep at most.
    pub fn due_in(&self, now: Instant) -> Duration {
        let due = (self.given + self.interval).saturating_duration_since(now);
        // Where a worker has not moved yet it is looked at again soon.
        due.max(self.interval / 8)
    }

    /// True if a sign of life is to be given now; `rounds` are those of each worker that runs.
    pub fn is_due(&mut self, now: Instant, rounds: impl FnOnce() -> Vec<u64>) -> bool {
        if now.saturating_duration_since(self.given) < self.interval {
            return false;
        }
        let rounds = rounds();
        // Of another set of workers each is new, and moves from now on.
        let is_same_set = rounds.len() == self.rounds.len();
        if is_same_set && rounds.iter().zip(&self.rounds).any(|(now, then)| now == then) {
            return false;
        }
        self.given = now;
        self.rounds = rounds;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_given_as_long_as_every_worker_moves() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(Duration::from_secs(10), start);
        let mut at = |s: u64, rounds: [u64; 2]| {
            watchdog.is_due(start + Duration::from_secs(s), || rounds.to_vec())
        };
        assert!(!at(1, [5, 5]), "too soon");
        assert!(at(5, [5, 5]));
        assert!(at(10, [6, 7]));
        assert!(!at(15, [7, 7]), "the second stands still");
        assert!(!at(20, [900, 7]));
        assert!(at(21, [901, 8]), "it goes on");
        assert!(!at(25, [999, 9]), "too soon");
    }

    #[test]
    fn it_is_looked_at_in_time_and_not_all_the_time() {
        let start = Instant::now();
        let watchdog = Watchdog::new(Duration::from_secs(10), start);
        assert_eq!(watchdog.due_in(start), Duration::from_secs(5));
        assert_eq!(watchdog.due_in(start + Duration::from_secs(9)), Duration::from_millis(625));
    }

    #[test]
    fn another_set_of_workers_is_no_standstill() {
        let start = Instant::now();
        let mut watchdog = Watchdog::new(Duration::from_secs(2), start);
        let mut at = |s: u64, rounds: &[u64]| {
            watchdog.is_due(start + Duration::from_secs(s), || rounds.to_vec())
        };
        assert!(at(1, &[5]) && at(2, &[6, 0]) && !at(3, &[7, 0]) && at(4, &[8, 1]));
    }
}
