//! Policies that packets want SAs for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::clock::Now;

/// Policies that SAs were asked for and that have none.
#[derive(Debug, Default)]
pub struct Asked(BTreeMap<u32, Instant>);

impl Asked {
    /// A packet wants SAs for a policy.
    pub fn add(&mut self, now: Now, policy: u32) {
        self.0.entry(policy).or_insert(now.at);
    }

    /// Forgets policies that want none any more.
    pub fn retain(&mut self, wants: impl Fn(u32) -> bool) {
        self.0.retain(|policy, _| wants(*policy));
    }

    /// The policies, each with how long ago it was asked for first.
    pub fn iter(&self, now: Now) -> impl Iterator<Item = (u32, Duration)> {
        self.0.iter().map(move |(policy, since)| (*policy, now.since(*since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_forgotten_with_its_policy() {
        let mut asked = Asked::default();
        let first = Now::read();
        let later = first.after(Duration::from_secs(3));
        asked.add(first, 17);
        asked.add(later, 17);
        asked.add(later, 25);
        let ago = |asked: &Asked| asked.iter(later).map(|(i, ago)| (i, ago.as_secs())).collect();
        let all: Vec<(u32, u64)> = ago(&asked);
        assert_eq!(all, [(17, 3), (25, 0)], "the first time counts");
        asked.retain(|index| index == 25);
        let left: Vec<(u32, u64)> = ago(&asked);
        assert_eq!(left, [(25, 0)]);
    }
}
