//! Lifetimes by time: what is due now, and when to look again.

use std::collections::BTreeSet;

use crate::codec::LifetimeConfig;

/// Result of a look at an SA's or a policy's limits by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A hard limit is reached.
    Hard,
    /// A soft limit is reached; look again then, if ever.
    Soft(Option<u64>),
    /// Nothing yet; look again then, if ever.
    Later(Option<u64>),
}

/// Since when the limits count, in milliseconds of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    /// When it was added.
    pub added_ms: i64,
    /// When it was used, `None` for never.
    pub used_ms: Option<i64>,
}

/// Looks at the limits. A limit of 0 is none; limits above `i64::MAX` are negative, as IKE
/// daemons' randomisation makes them, and reached at once.
pub(super) fn evaluate(l: &LifetimeConfig, since: Since, soft_done: bool, now_ms: u64) -> Due {
    let now = i128::from(now_ms);
    // What has not been used yet counts from now: the look after that sees the true first use.
    let used_ms = since.used_ms.map_or(now, i128::from);
    let deadline = |limit_s: u64, since: i128| {
        (limit_s != 0).then(|| since + i128::from(limit_s.cast_signed()) * 1000)
    };
    let hard = [deadline(l.hard_add_s, since.added_ms.into()), deadline(l.hard_use_s, used_ms)];
    let soft = [deadline(l.soft_add_s, since.added_ms.into()), deadline(l.soft_use_s, used_ms)];
    let mut next = None;
    for at in hard.into_iter().flatten() {
        if at <= now {
            return Due::Hard;
        }
        next = earlier(next, at);
    }
    let mut warn = false;
    for at in soft.into_iter().flatten().filter(|_| !soft_done) {
        if at <= now {
            warn = true;
        } else {
            next = earlier(next, at);
        }
    }
    if warn { Due::Soft(next) } else { Due::Later(next) }
}

fn earlier(next: Option<u64>, at: i128) -> Option<u64> {
    let at = u64::try_from(at).unwrap_or(u64::MAX);
    Some(next.map_or(at, |n| n.min(at)))
}

/// Owner of a timer: an SA or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The SA with this serial number.
    Sa(u64),
    /// The policy with this serial number.
    Policy(u64),
}

/// All deadlines, in milliseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(u64, Owner)>);

impl Timers {
    /// Moves an owner's deadline; `slot` is where the owner remembers it.
    pub fn set(&mut self, owner: Owner, slot: &mut Option<u64>, at_ms: Option<u64>) {
        if let Some(old) = slot.take() {
            self.0.remove(&(old, owner));
        }
        if let Some(at) = at_ms {
            self.0.insert((at, owner));
            *slot = Some(at);
        }
    }

    /// The earliest deadline.
    pub fn next_ms(&self) -> Option<u64> {
        self.0.first().map(|&(at, _)| at)
    }

    /// Takes one owner whose deadline has passed.
    pub fn pop_due(&mut self, now_ms: u64) -> Option<Owner> {
        let &(at, owner) = self.0.first()?;
        if at > now_ms {
            return None;
        }
        self.0.pop_first();
        Some(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(
        soft_add_s: u64,
        hard_add_s: u64,
        soft_use_s: u64,
        hard_use_s: u64,
    ) -> LifetimeConfig {
        LifetimeConfig { soft_add_s, hard_add_s, soft_use_s, hard_use_s, ..Default::default() }
    }

    const FRESH: Since = Since { added_ms: 0, used_ms: None };

    #[test]
    fn no_limits_never() {
        assert_eq!(evaluate(&limits(0, 0, 0, 0), FRESH, false, u64::MAX), Due::Later(None));
    }

    #[test]
    fn soft_then_hard() {
        let l = limits(10, 20, 0, 0);
        assert_eq!(evaluate(&l, FRESH, false, 9_999), Due::Later(Some(10_000)));
        assert_eq!(evaluate(&l, FRESH, false, 10_000), Due::Soft(Some(20_000)));
        assert_eq!(evaluate(&l, FRESH, true, 10_000), Due::Later(Some(20_000)));
        assert_eq!(evaluate(&l, FRESH, true, 20_000), Due::Hard);
    }

    #[test]
    fn use_counts_from_first_use() {
        let l = limits(0, 0, 0, 5);
        assert_eq!(evaluate(&l, FRESH, false, 100_000), Due::Later(Some(105_000)));
        let used = Since { added_ms: 0, used_ms: Some(101_000) };
        assert_eq!(evaluate(&l, used, false, 105_000), Due::Later(Some(106_000)));
        assert_eq!(evaluate(&l, used, false, 106_000), Due::Hard);
    }

    #[test]
    fn huge_values_are_negative() {
        assert_eq!(
            evaluate(&limits(u64::MAX - 5, 60, 0, 0), FRESH, false, 1),
            Due::Soft(Some(60_000))
        );
        assert_eq!(evaluate(&limits(0, u64::MAX, 0, 0), FRESH, false, 1), Due::Hard);
        let l = limits(0, i64::MAX as u64, 0, 0);
        assert_eq!(evaluate(&l, FRESH, false, 1), Due::Later(Some(u64::MAX)));
    }

    #[test]
    fn timers_move_and_pop_in_order() {
        let mut t = Timers::default();
        let (mut a, mut b) = (None, None);
        t.set(Owner::Sa(1), &mut a, Some(30));
        t.set(Owner::Policy(1), &mut b, Some(20));
        t.set(Owner::Sa(1), &mut a, Some(10));
        assert_eq!((t.next_ms(), a), (Some(10), Some(10)));
        assert_eq!(t.pop_due(9), None);
        assert_eq!(t.pop_due(20), Some(Owner::Sa(1)));
        assert_eq!(t.pop_due(20), Some(Owner::Policy(1)));
        assert_eq!(t.next_ms(), None);
    }
}
