//! Who still holds a handle to a queue: producers, consumers, releasers, counted in one word.

use crate::sync::{AtomicU64, Ordering};

/// A side of a queue. The value is where its count lies in the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Producers = 0,
    Consumers = BITS as isize,
    Releasers = 2 * BITS as isize,
}

/// Bits for each side's count.
const BITS: u32 = 21;
/// The largest count of one side.
const MOST: u64 = (1 << BITS) - 1;

/// The handles of one queue that live.
pub(crate) struct Ends(AtomicU64);

impl Ends {
    /// One handle on each of the sides.
    pub(crate) fn new(sides: &[Side]) -> Self {
        Self(AtomicU64::new(sides.iter().map(|side| one(*side)).sum()))
    }

    /// One more handle, cloned from one that lives.
    ///
    /// # Panics
    ///
    /// With more than two million handles on one side.
    pub(crate) fn join(&self, side: Side) {
        // Relaxed: the side is there already, so nobody can learn anything from the change.
        let before = self.0.fetch_add(one(side), Ordering::Relaxed);
        assert!(count(before, side) < MOST, "too many handles to one queue");
    }

    /// One handle less; true for the very last of all sides, who is then alone with the queue.
    pub(crate) fn leave(&self, side: Side) -> bool {
        // Release: what this handle did to the queue happens before whatever the one who finds the
        // side gone does. Acquire: so the last one sees what all others did.
        let before = self.0.fetch_sub(one(side), Ordering::AcqRel);
        before == one(side)
    }

    /// True if no handle of a side is left. Once true, all that they did has happened before, and
    /// it stays true: handles come from handles.
    #[inline(always)]
    pub(crate) fn gone(&self, side: Side) -> bool {
        // Acquire: pairs with the release in leave().
        count(self.0.load(Ordering::Acquire), side) == 0
    }
}

const fn one(side: Side) -> u64 {
    1 << side as u32
}

const fn count(word: u64, side: Side) -> u64 {
    (word >> side as u32) & MOST
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sides_are_counted_apart_and_the_last_one_knows() {
        let ends = Ends::new(&[Side::Producers, Side::Consumers, Side::Releasers]);
        ends.join(Side::Consumers);
        assert!(!ends.leave(Side::Consumers));
        assert!(!ends.gone(Side::Consumers));
        assert!(!ends.leave(Side::Producers));
        assert!(ends.gone(Side::Producers));
        assert!(!ends.gone(Side::Consumers));
        assert!(!ends.leave(Side::Releasers));
        assert!(ends.gone(Side::Releasers));
        assert!(ends.leave(Side::Consumers));
        assert!(ends.gone(Side::Consumers));
    }
}
