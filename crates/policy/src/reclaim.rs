//! When a slot may be used again: two grace periods.
//!
//! Readers acknowledge how far they have followed the changes, each time that they refresh, which
//! is never in the middle of a look-up. Something that was removed goes through two waits:
//!
//! 1. until every reader has taken over its removal: no view holds it, and the index may forget it;
//! 2. until every reader has refreshed once more: none stands on it in the middle of a chain, and
//!    its slot may be used for something else.

use std::collections::VecDeque;

/// Slots on their way out and slots to be had; `L` is what the index needs to forget one.
#[derive(Debug)]
pub(crate) struct Reclaim<L> {
    /// With the number of the change that removed it.
    leaving: VecDeque<(u64, L)>,
    /// With the number of the first change after it left the index.
    resting: VecDeque<(u64, u32)>,
    free: Vec<u32>,
    /// The first slot that was never used.
    fresh: u32,
}

impl<L> Reclaim<L> {
    pub(crate) fn new() -> Reclaim<L> {
        Reclaim { leaving: VecDeque::new(), resting: VecDeque::new(), free: Vec::new(), fresh: 0 }
    }

    /// A slot to use; the caller makes room when it is beyond what it has.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// Change number `at` removed something.
    pub(crate) fn leave(&mut self, at: u64, what: L) {
        self.leaving.push_back((at, what));
    }

    /// True if a slot waits for its grace periods.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.leaving.is_empty() || !self.resting.is_empty()
    }

    /// Something that every reader has seen removed, `seen` being the last change that all have.
    pub(crate) fn left(&mut self, seen: u64) -> Option<L> {
        match self.leaving.front() {
            Some((at, _)) if *at <= seen => self.leaving.pop_front().map(|(_, what)| what),
            _ => None,
        }
    }

    /// The index has forgotten a slot; `next` is the number of the next change.
    pub(crate) fn rest(&mut self, next: u64, slot: u32) {
        self.resting.push_back((next, slot));
    }

    /// Gives back the slots that no reader can stand on any more.
    pub(crate) fn settle(&mut self, seen: u64) {
        while let Some((at, slot)) = self.resting.front()
            && *at <= seen
        {
            self.free.push(*slot);
            self.resting.pop_front();
        }
    }
}
