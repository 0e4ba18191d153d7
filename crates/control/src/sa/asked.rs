//! Policies that packets want SAs for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Policies that SAs were asked for and that have none.
#[derive(Debug, Default)]
pub struct Asked(BTreeMap<u32, Instant>);

impl Asked {
    /// A packet wants SAs for a policy.
    pub fn add(&mut self, policy: u32) {
        self.0.entry(policy).or_insert_with(Instant::now);
    }

    /// Forgets policies that want none any more.
    pub fn retain(&mut self, wants: impl Fn(u32) -> bool) {
        self.0.retain(|policy, _| wants(*policy));
    }

    /// The policies, each with how long ago it was asked for first.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Duration)> {
        self.0.iter().map(|(policy, since)| (*policy, since.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_forgotten_with_its_policy() {
        let mut asked = Asked::default();
        asked.add(17);
        let first = asked.0[&17];
        asked.add(17);
        asked.add(25);
        assert_eq!((asked.0.len(), asked.0[&17]), (2, first), "the first time counts");
        asked.retain(|index| index == 25);
        assert_eq!(asked.iter().map(|(index, _)| index).collect::<Vec<_>>(), [25]);
    }
}
