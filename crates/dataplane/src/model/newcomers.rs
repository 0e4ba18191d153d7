//! Packets of flows that are not known: how many of a burst are resolved.
//!
//! A packet whose flow the cache does not know costs many times what a known one does. A host that begins flow after
//! flow could keep a worker so busy that its ports overflow, and that loses the packets of everybody. So while a worker
//! does not catch up with a port, fewer and fewer of its newcomers are resolved: the others are dropped, which costs
//! next to nothing, and the port is served in time. Flows that are known go on.

use io::BURST_LEN;

/// How many newcomers of a burst are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newcomers(u32);

impl Newcomers {
    /// All of them.
    pub(crate) const ALL: Newcomers = Newcomers(u32::MAX);

    /// Takes one; false if there are none left.
    pub(crate) fn take(&mut self) -> bool {
        if *self == Newcomers::ALL {
            return true;
        }
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

impl Default for Newcomers {
    fn default() -> Newcomers {
        Newcomers::ALL
    }
}

/// How long a port has not been found empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Whole bursts since then.
    bursts: u32,
    /// When the first of them came, in nanoseconds.
    since_ns: u64,
}

impl Backlog {
    /// How many newcomers of a burst of `came` packets are resolved, at this time.
    pub(crate) fn admits(&mut self, came: usize, now_ns: u64) -> Newcomers {
        if came < BURST_LEN {
            // It had no more.
            self.bursts = 0;
            return Newcomers::ALL;
        }
        if self.bursts == 0 {
            self.since_ns = now_ns;
        }
        self.bursts = self.bursts.saturating_add(1);
        let steps = now_ns.saturating_sub(self.since_ns) / STEP_NS;
        match self.bursts > USUAL_BURSTS && steps > 0 {
            true => Newcomers((BURST_LEN >> steps.min(LAST_STEP)) as u32),
            false => Newcomers::ALL,
        }
    }
}

/// Whole bursts in a row that mean nothing: the worker may have slept, or its core had something else to do. A ring has
/// 32 of them.
const USUAL_BURSTS: u32 = 8;

/// After each such time half as many are resolved, down to one of each burst. At 200,000 packets a second a ring of
/// 2048 frames is full after ten of them.
const STEP_NS: u64 = 1_000_000;

const LAST_STEP: u64 = BURST_LEN.trailing_zeros() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_port_has_more_the_fewer_are_resolved() {
        let mut backlog = Backlog::default();
        let mut at = |came, ms: u64| backlog.admits(came, ms * STEP_NS);
        for round in [0, 17] {
            // Some in a row are nothing, however long they take.
            for ms in [7, 7, 7, 7, 7, 7, 7, 8] {
                assert_eq!(at(BURST_LEN, round + ms), Newcomers::ALL);
            }
            let admitted = (8..16).map(|ms| at(BURST_LEN, round + ms).0).collect::<Vec<_>>();
            assert_eq!(admitted, [32, 16, 8, 4, 2, 1, 1, 1]);
            // Empty once: it begins anew.
            assert_eq!(at(BURST_LEN - 1, round + 16), Newcomers::ALL);
        }
        // However many they are, they take no time.
        assert!((0..1000).all(|_| at(BURST_LEN, 50) == Newcomers::ALL));
    }

    #[test]
    fn no_more_are_taken_than_there_are() {
        let mut two = Newcomers(2);
        assert_eq!([two.take(), two.take(), two.take(), two.take()], [true, true, false, false]);
        let mut all = Newcomers::default();
        assert!((0..1000).all(|_| all.take()));
    }
}
