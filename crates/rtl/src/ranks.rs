//! Priorities of policies: XFRM has 32 bits, the gateway 16, and the order counts alone.

use std::collections::BTreeMap;

/// The ranks of one direction's priorities: equal ones of equal priorities, a smaller one of a smaller priority.
#[derive(Debug, Default)]
pub(crate) struct Ranks(BTreeMap<u32, Rank>);

#[derive(Debug)]
struct Rank {
    rank: u16,
    policies: usize,
}

impl Ranks {
    /// The rank of a priority, for one policy more. `None` if none is left between those of its neighbours.
    pub(crate) fn take(&mut self, priority: u32) -> Option<u16> {
        if let Some(known) = self.0.get_mut(&priority) {
            known.policies += 1;
            return Some(known.rank);
        }
        let below = self.0.range(..priority).next_back().map_or(0, |(_, r)| u32::from(r.rank) + 1);
        let above = self.0.range(priority..).next().map_or(1 << 16, |(_, r)| u32::from(r.rank));
        if below >= above {
            return None;
        }
        // What people choose is small, what IKE daemons do is below 2^20 and far apart: so neighbours rarely are in
        // the way.
        let usual = priority.min(DENSE) + (priority.saturating_sub(DENSE) >> 5);
        let rank =
            if (below..above).contains(&usual) { usual } else { below + (above - below) / 2 };
        let rank = u16::try_from(rank).ok()?;
        self.0.insert(priority, Rank { rank, policies: 1 });
        Some(rank)
    }

    /// A policy of this priority is gone.
    pub(crate) fn give_back(&mut self, priority: u32) {
        let Some(known) = self.0.get_mut(&priority) else { return };
        known.policies -= 1;
        if known.policies == 0 {
            self.0.remove(&priority);
        }
    }
}

/// Below this each priority has its rank.
const DENSE: u32 = 1 << 15;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_is_kept(steps in proptest::collection::vec((0..400_000_u32, any::<bool>()), 1..200)) {
            let mut ranks = Ranks::default();
            let mut there = BTreeMap::new();
            for (priority, leaves) in steps {
                if leaves && let Some((first, _)) = there.pop_first() {
                    ranks.give_back(first);
                }
                if let Some(rank) = ranks.take(priority)
                    && let Some(before) = there.insert(priority, rank)
                {
                    prop_assert_eq!(rank, before);
                    ranks.give_back(priority);
                }
                prop_assert!(there.values().is_sorted_by(|one, other| one < other));
            }
        }
    }

    #[test]
    fn a_rank_is_free_again_behind_its_last_policy() {
        let mut ranks = Ranks::default();
        let all: Vec<_> = (1000..1200).map(|priority| ranks.take(priority)).collect();
        assert!(all.iter().all(Option::is_some) && all.is_sorted());
        let mut ranks = Ranks::default();
        let base = 64_000;
        let mut take = |by: i32| ranks.take(64_000_u32.saturating_add_signed(by));
        let (one, two) = (take(0).unwrap(), take(64).unwrap());
        assert_eq!((two - one, take(0), take(1), take(2)), (2, Some(one), Some(one + 1), None));
        ranks.give_back(base);
        assert_eq!(ranks.take(base - 1), Some(one - 1), "one policy has it still");
        ranks.give_back(base);
        ranks.give_back(base + 1);
        assert_eq!(ranks.take(base + 2), Some(one));
        assert!(ranks.take(u32::MAX) > Some(two));
    }
}
