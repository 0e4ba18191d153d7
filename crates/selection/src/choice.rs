//! The answer of a rule, as packets meet it.

use crate::rule::Candidate;

/// Paths for new flows, and paths that flows stay on. Decides in constant time for few paths, and allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    takers: Box<[Candidate]>,
    keepers: Box<[u16]>,
    /// Sum of the takers' weights.
    weight: u32,
}

impl Choice {
    /// New flows go to `takers` by their weights; flows on `keepers` stay there.
    pub fn new(takers: Vec<Candidate>, keepers: Vec<u16>) -> Choice {
        let weight = takers.iter().map(|taker| u32::from(taker.weight)).sum();
        Choice { takers: takers.into(), keepers: keepers.into(), weight }
    }

    /// The path of a flow: its `current` one if it stays, else one by `hash`, an evenly spread number of the flow.
    /// `None` stops the flow.
    pub fn path(&self, current: Option<u16>, hash: u64) -> Option<u16> {
        if let Some(current) = current.filter(|current| self.keepers.contains(current)) {
            return Some(current);
        }
        // The upper half times the weight, without division.
        let mut at = ((hash >> 32) * u64::from(self.weight)) >> 32;
        for taker in &self.takers {
            match at.checked_sub(taker.weight.into()) {
                Some(left) => at = left,
                None => return Some(taker.path),
            }
        }
        None
    }

    /// The paths that new flows take.
    pub fn takers(&self) -> impl Iterator<Item = u16> + '_ {
        self.takers.iter().map(|taker| taker.path)
    }
}
