//! SAs that were deleted a moment ago, and whose numbers are not closed yet.
//!
//! A worker decides by the tables of its round, and numbers a packet at the round's end: where its core is
//! taken from it in between, that is milliseconds later. What is under way when an SA is deleted gets its
//! number all the same, as a packet does that Linux's own output has begun with. So numbers are closed
//! [`LINGER`] after the deletion, or when the same keys come again, whichever is first.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use esp::LiveNumbers;

/// How long a deleted SA's packets may be under way. Longer than a core is taken from a worker where ten
/// threads want it; what comes later is dropped.
pub const LINGER: Duration = Duration::from_millis(250);

/// A deleted SA.
pub struct Leaver {
    /// Live numbers of the SA.
    pub live: LiveNumbers,
    /// Under which id the vault keeps them.
    pub owner: u64,
    /// When its time is up, once that is known.
    until: Option<Instant>,
}

/// Deleted SAs by their fingerprint, and in the order in which they were deleted.
#[derive(Default)]
pub struct Leaving {
    sas: HashMap<u64, Leaver>,
    /// Those that were deleted since the time was told last.
    fresh: Vec<u64>,
    order: VecDeque<(Instant, u64)>,
}

impl Leaving {
    /// Adds an SA that is deleted; returns another one with its SPI and keys, which is to be closed. Its time begins with
    /// the next call of [`Leaving::begin`].
    #[must_use]
    pub fn add(&mut self, fingerprint: u64, owner: u64, live: LiveNumbers) -> Option<Leaver> {
        self.fresh.push(fingerprint);
        self.sas.insert(fingerprint, Leaver { live, owner, until: None })
    }

    /// Begins the time of those that were deleted since the last call.
    pub fn begin(&mut self, now: Instant) {
        let until = now + LINGER;
        for fingerprint in self.fresh.drain(..) {
            if let Some(sa) = self.sas.get_mut(&fingerprint) {
                sa.until = Some(until);
                self.order.push_back((until, fingerprint));
            }
        }
    }

    /// Takes out the one with a fingerprint.
    pub fn take(&mut self, fingerprint: u64) -> Option<Leaver> {
        self.sas.remove(&fingerprint)
    }

    /// Takes out one whose time is up.
    pub fn take_due(&mut self, now: Instant) -> Option<(u64, Leaver)> {
        self.take_first(|until| until <= now)
    }

    /// Takes out one, whatever its time.
    pub fn take_any(&mut self) -> Option<(u64, Leaver)> {
        let fingerprint = *self.sas.keys().next()?;
        Some((fingerprint, self.sas.remove(&fingerprint)?))
    }

    /// How long it is until there is something to do: a time begins, or is up.
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let first = self.order.front().map(|(until, _)| until.saturating_duration_since(now));
        if self.fresh.is_empty() { first } else { Some(Duration::ZERO) }
    }

    fn take_first(&mut self, is_due: impl Fn(Instant) -> bool) -> Option<(u64, Leaver)> {
        while let Some((until, fingerprint)) = self.order.front().copied().filter(|o| is_due(o.0)) {
            self.order.pop_front();
            // It may have been taken out, and have come again since.
            if self.sas.get(&fingerprint).is_some_and(|sa| sa.until == Some(until))
                && let Some(sa) = self.sas.remove(&fingerprint)
            {
                return Some((fingerprint, sa));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> LiveNumbers {
        LiveNumbers::on_heap(0)
    }

    fn taken(leaver: Option<(u64, Leaver)>) -> Option<(u64, u64)> {
        leaver.map(|(fingerprint, sa)| (fingerprint, sa.owner))
    }

    #[test]
    fn each_leaves_once_its_time_is_up() {
        let (mut leaving, start) = (Leaving::default(), Instant::now());
        let later = start + LINGER / 2;
        assert!(leaving.add(1, 10, live()).is_none());
        assert_eq!(leaving.due_in(start), Some(Duration::ZERO), "its time is to begin");
        leaving.begin(start);
        assert_eq!(leaving.due_in(later), Some(LINGER / 2));
        assert!(leaving.add(2, 20, live()).is_none());
        leaving.begin(later);
        assert_eq!(leaving.due_in(start), Some(LINGER));
        assert_eq!(taken(leaving.take_due(later)), None);
        assert_eq!(taken(leaving.take_due(start + LINGER)), Some((1, 10)));
        assert_eq!(taken(leaving.take_due(start + LINGER)), None);
        assert_eq!(taken(leaving.take_any()), Some((2, 20)));
        assert_eq!(taken(leaving.take_any()), None);
        leaving.take_due(later + LINGER);
        assert_eq!(leaving.due_in(start), None);
    }

    #[test]
    fn one_that_was_taken_out_and_came_again_has_its_own_time() {
        let (mut leaving, start) = (Leaving::default(), Instant::now());
        assert!(leaving.add(1, 10, live()).is_none());
        leaving.begin(start);
        assert_eq!(leaving.take(1).map(|sa| sa.owner), Some(10));
        let later = start + LINGER / 2;
        assert!(leaving.add(1, 11, live()).is_none());
        assert_eq!(taken(leaving.take_due(start + LINGER)), None);
        leaving.begin(later);
        assert_eq!(taken(leaving.take_due(start + LINGER)), None);
        assert_eq!(taken(leaving.take_due(later + LINGER)), Some((1, 11)));
    }

    #[test]
    fn two_with_the_same_spi_and_keys_do_not_hide_each_other() {
        let (mut leaving, now) = (Leaving::default(), Instant::now());
        assert!(leaving.add(1, 10, live()).is_none());
        assert_eq!(leaving.add(1, 11, live()).map(|sa| sa.owner), Some(10));
        leaving.begin(now);
        assert_eq!(taken(leaving.take_due(now + LINGER)), Some((1, 11)));
        assert_eq!(taken(leaving.take_any()), None);
    }
}
