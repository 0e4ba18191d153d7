//! When drops are news: many for one reason, where there were few.

use std::time::Duration;

use outcome::DropReason;

use report::Occurrence;

/// Drops for one reason in a second that are news.
const MANY: f64 = 100.0;

/// A burst is over when there were fewer for as long as this.
const QUIET: Duration = Duration::from_secs(10);

/// Bursts that are going on.
#[derive(Default)]
pub struct DropBursts {
    /// As [`DropReason::ALL`], once it was looked.
    reasons: Vec<Reason>,
}

#[derive(Clone, Default)]
struct Reason {
    /// Value of the counter.
    count: u64,
    burst: Option<Burst>,
}

#[derive(Clone)]
struct Burst {
    /// Value of the counter before the burst.
    before: u64,
    /// Value of the counter when there were many drops last.
    after: u64,
    /// From its begin until then.
    lasted: Duration,
    /// Time since then.
    quiet: Duration,
}

impl DropBursts {
    /// Looks at the counters, `passed` after the last look, and tells what is new.
    pub fn look(
        &mut self,
        passed: Duration,
        dropped: impl Fn(DropReason) -> u64,
    ) -> Vec<Occurrence> {
        self.reasons.resize(DropReason::ALL.len(), Reason::default());
        let each = self.reasons.iter_mut().zip(DropReason::ALL);
        let news = each.filter_map(|(state, reason)| {
            let news = state.look(passed, dropped(*reason))?;
            let reason = reason.name().to_owned();
            Some(match news {
                News::Begins { packets } => Occurrence::DropBurst { reason, packets },
                News::Over { packets, seconds } => {
                    Occurrence::DropBurstOver { reason, packets, seconds }
                }
            })
        });
        news.collect()
    }
}

/// Change of one reason's drops.
enum News {
    Begins { packets: u64 },
    Over { packets: u64, seconds: u64 },
}

impl Reason {
    fn look(&mut self, passed: Duration, count: u64) -> Option<News> {
        let before = core::mem::replace(&mut self.count, count);
        let rate = (count - before) as f64 / passed.as_secs_f64();
        let is_many = rate >= MANY;
        match &mut self.burst {
            None if is_many => {
                let (lasted, quiet) = (passed, Duration::ZERO);
                self.burst = Some(Burst { before, after: count, lasted, quiet });
                Some(News::Begins { packets: rate as u64 })
            }
            None => None,
            Some(burst) if is_many => {
                burst.lasted += burst.quiet + passed;
                (burst.after, burst.quiet) = (count, Duration::ZERO);
                None
            }
            Some(burst) if burst.quiet + passed < QUIET => {
                burst.quiet += passed;
                None
            }
            Some(burst) => {
                let packets = burst.after - burst.before;
                let seconds = burst.lasted.as_secs();
                self.burst = None;
                Some(News::Over { packets, seconds })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_told_when_it_begins_and_when_it_is_over() {
        let mut bursts = DropBursts::default();
        let mut told = Vec::new();
        // Drops in each second.
        let seconds = [5, 99, 500, 20, 300, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100];
        let mut count = 0;
        for (n, dropped) in seconds.into_iter().enumerate() {
            count += dropped;
            let of = |reason| if reason == DropReason::OutPolicyBlock { count } else { 3 };
            let news = bursts.look(Duration::from_secs(1), of);
            told.extend(news.into_iter().map(|what| (n, what)));
        }
        let reason = DropReason::OutPolicyBlock.name().to_owned();
        let over = Occurrence::DropBurstOver { reason: reason.clone(), packets: 820, seconds: 3 };
        let begins = |packets| Occurrence::DropBurst { reason: reason.clone(), packets };
        assert_eq!(told, [(2, begins(500)), (14, over), (16, begins(100))]);
    }

    #[test]
    fn what_counts_is_the_rate() {
        let mut bursts = DropBursts::default();
        let of = |n| move |reason| if reason == DropReason::NoRoute { n } else { 0 };
        assert_eq!(bursts.look(Duration::from_secs(4), of(399)), []);
        let [Occurrence::DropBurst { packets: 101, .. }] =
            &bursts.look(Duration::from_secs(2), of(601))[..]
        else {
            panic!("no burst")
        };
    }
}
