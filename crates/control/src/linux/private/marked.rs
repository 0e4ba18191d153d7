//! Which marks packets have that policies protect: rules lead these to the table for marks, and no others.

use std::collections::BTreeMap;

use policy::{Direction, Mark, PolicyConfig};

/// Most marks that have a rule each: Linux compares a packet with all of them.
const MOST: usize = 16;

/// The marks of outbound policies.
#[derive(Debug, Default)]
pub struct Marked {
    /// How many policies have each: value and mask.
    counts: BTreeMap<(u32, u32), usize>,
}

/// The packets that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedMark {
    /// Packets with this mark.
    Mark(Mark),
    /// Packets with any mark.
    Any,
}

impl Marked {
    /// The marks of these policies.
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a PolicyConfig>) -> Marked {
        let mut marked = Marked::default();
        for policy in policies {
            marked.change(None, Some(policy));
        }
        marked
    }

    /// Follows a policy that was added, removed or replaced.
    pub fn change(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        if let Some(key) = new.and_then(key) {
            *self.counts.entry(key).or_default() += 1;
        }
        if let Some(key) = old.and_then(key)
            && let Some(count) = self.counts.get_mut(&key)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key);
            }
        }
    }

    /// The packets that are led to the table, one for each rule.
    pub fn led(&self) -> Vec<LedMark> {
        if self.counts.len() > MOST {
            return vec![LedMark::Any];
        }
        self.counts
            .keys()
            .map(|(value, mask)| LedMark::Mark(Mark { value: *value, mask: *mask }))
            .collect()
    }
}

/// Of an outbound policy for packets with a mark. What is for a tunnel interface is routed to that.
fn key(policy: &PolicyConfig) -> Option<(u32, u32)> {
    let Mark { value, mask } = policy.mark;
    let is_possible = value & !mask == 0;
    let counts = policy.direction == Direction::Out
        && policy.if_id == 0
        && !policy.mark.matches(0)
        && is_possible;
    counts.then_some((value, mask))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::{HERE, THERE, policy};

    fn marked(value: u32) -> PolicyConfig {
        let mark = Mark { value, mask: u32::MAX };
        PolicyConfig { mark, ..policy(value + 1, Direction::Out, (HERE, THERE), &[1]) }
    }

    fn mark(value: u32) -> LedMark {
        LedMark::Mark(Mark { value, mask: u32::MAX })
    }

    #[test]
    fn each_mark_is_led_while_a_policy_has_it() {
        let mut all = Marked::of(&[marked(0), marked(4)]);
        assert_eq!(all.led(), [mark(4)]);
        all.change(None, Some(&marked(4)));
        all.change(Some(&marked(4)), Some(&marked(8)));
        assert_eq!(all.led(), [mark(4), mark(8)]);
        all.change(Some(&marked(4)), None);
        assert_eq!(all.led(), [mark(8)]);
        // No packet has such a mark; and these are not for what leaves, or for a tunnel interface.
        all.change(None, Some(&PolicyConfig { mark: Mark { value: 9, mask: 1 }, ..marked(1) }));
        all.change(None, Some(&PolicyConfig { direction: Direction::In, ..marked(5) }));
        all.change(None, Some(&PolicyConfig { if_id: 7, ..marked(5) }));
        assert_eq!(all.led(), [mark(8)]);
    }

    #[test]
    fn many_marks_have_one_rule() {
        let policies: Vec<PolicyConfig> = (1..=17).map(marked).collect();
        let mut all = Marked::of(&policies);
        assert_eq!(all.led(), [LedMark::Any]);
        all.change(Some(&policies[0]), None);
        assert_eq!(all.led().len(), 16);
    }
}
