//! The last probes of a session, and what they say: loss, delay, jitter.

use crate::recent;
use crate::traffic::TrafficLoss;

/// Loss of so many probes in a window is no accident of one.
const LEAST_LOST_OF_WINDOW: u32 = 2;

/// Most probes of a window.
pub const MOST: usize = 512;

/// Outcome of a lost probe among delays.
const LOST: u32 = u32::MAX;

/// A sliding window of outcomes. Memory: 4 bytes a probe, taken when it is made.
#[derive(Clone, Debug)]
pub struct Window {
    /// Delays in units of 256 ns, or [`LOST`]; the oldest at `next` once all places are taken.
    outcomes: Box<[u32]>,
    next: usize,
    filled: usize,
    lost: usize,
}

/// Quality of a path, as a window shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Probes of which the outcome is known.
    pub probes: u32,
    /// Those among them that were lost.
    pub lost: u32,
    /// Median of delays, in nanoseconds; 0 without any.
    pub delay_ns: u64,
    /// 99th percentile of delays, in nanoseconds; 0 without any.
    pub delay_p99_ns: u64,
    /// Packet delay variation (RFC 5481 §4.2): the 95th percentile of delays less the shortest one, in nanoseconds.
    pub jitter_ns: u64,
    /// Lost probes among the session's last 64, some of which are not in the window yet.
    pub recently_lost: u32,
    /// Loss of the path's own packets on their way to the far end. `None`: nobody counts them.
    pub away: Option<TrafficLoss>,
    /// Loss of the path's own packets on their way back.
    pub back: Option<TrafficLoss>,
}

impl Quality {
    /// Loss in parts of a million; 0 without probes.
    pub const fn loss_ppm(&self) -> u32 {
        match self.probes {
            0 => 0,
            probes => (self.lost as u64 * 1_000_000 / probes as u64) as u32,
        }
    }

    /// Loss by which a path is judged, in parts of a million: the worst of the window's, of the last probes', and of the path's own
    /// packets each way, where these are no chance. One lost probe of a window is an accident.
    pub fn judged_loss_ppm(&self) -> u32 {
        let of_traffic = [self.away, self.back].into_iter().flatten().map(|way| way.judged_ppm());
        of_traffic.fold(self.judged_loss_of_probes_ppm(), u32::max)
    }

    const fn judged_loss_of_probes_ppm(&self) -> u32 {
        let in_window = if self.lost >= LEAST_LOST_OF_WINDOW { self.loss_ppm() } else { 0 };
        let recently = match self.recently_lost >= recent::LEAST_LOST {
            true => self.recently_lost * (1_000_000 / recent::PROBES),
            false => 0,
        };
        if recently > in_window { recently } else { in_window }
    }
}

impl Window {
    /// An empty window of this many probes, at least 1 and at most 512.
    pub fn new(probes: usize) -> Window {
        let outcomes = vec![0; probes.clamp(1, MOST)].into_boxed_slice();
        Window { outcomes, next: 0, filled: 0, lost: 0 }
    }

    /// A probe was answered with this delay.
    pub fn answered(&mut self, delay_ns: u64) {
        self.push(u32::try_from(delay_ns >> 8).unwrap_or(LOST).min(LOST - 1));
    }

    /// A probe was lost.
    pub fn lost(&mut self) {
        self.push(LOST);
    }

    fn push(&mut self, outcome: u32) {
        let Some(place) = self.outcomes.get_mut(self.next) else { return };
        let old = core::mem::replace(place, outcome);
        if self.filled == self.outcomes.len() {
            self.lost -= usize::from(old == LOST);
        } else {
            self.filled += 1;
        }
        self.lost += usize::from(outcome == LOST);
        self.next = (self.next + 1) % self.outcomes.len();
    }

    /// Quality by what is in the window. Takes time in proportion to its length.
    pub fn quality(&self) -> Quality {
        let mut delays = [0; MOST];
        let mut count = 0;
        let known = self.outcomes.iter().take(self.filled).filter(|outcome| **outcome != LOST);
        for (to, delay) in delays.iter_mut().zip(known) {
            *to = *delay;
            count += 1;
        }
        let delays = delays.get_mut(..count).unwrap_or_default();
        // Not rounded up: a quantile is one of the delays, the least that as many are not above.
        let mut quantile = |percent: usize| match (count * percent).div_ceil(100).saturating_sub(1)
        {
            at if at < count => u64::from(*delays.select_nth_unstable(at).1) << 8,
            _ => 0,
        };
        let (shortest_ns, longer_ns) = (quantile(0), quantile(95));
        Quality {
            probes: self.filled as u32,
            lost: self.lost as u32,
            delay_ns: quantile(50),
            delay_p99_ns: quantile(99),
            jitter_ns: longer_ns.saturating_sub(shortest_ns),
            recently_lost: 0,
            away: None,
            back: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn tells_quantiles_loss_and_jitter() {
        let mut window = Window::new(100);
        assert_eq!(window.quality(), Quality::default());
        for ms in 1..=95 {
            window.answered(ms * MS);
        }
        (0..5).for_each(|_| window.lost());
        let quality = window.quality();
        assert_eq!((quality.probes, quality.lost, quality.loss_ppm()), (100, 5, 50_000));
        assert_eq!(quality.delay_ns >> 8, (48 * MS) >> 8);
        assert_eq!(quality.delay_p99_ns >> 8, (95 * MS) >> 8);
        assert!(quality.jitter_ns.abs_diff(90 * MS) <= 256, "{}", quality.jitter_ns);
        (0..100).for_each(|_| window.answered(MS));
        assert_eq!((window.quality().lost, window.quality().probes), (0, 100));
    }

    #[test]
    fn recent_loss_counts_if_it_is_worse_and_no_chance() {
        let loss = |lost, recently_lost| {
            Quality { probes: 100, lost, recently_lost, ..Quality::default() }.judged_loss_ppm()
        };
        assert_eq!((loss(0, 0), loss(1, 1), loss(1, 2), loss(2, 2)), (0, 0, 0, 20_000));
        assert_eq!((loss(0, 3), loss(10, 3), loss(0, 64)), (46_875, 100_000, 1_000_000));
    }

    #[test]
    fn a_delay_beyond_measure_is_the_longest() {
        let mut window = Window::new(2);
        window.answered(u64::MAX);
        assert_eq!(
            (window.quality().lost, window.quality().delay_ns),
            (0, u64::from(LOST - 1) << 8)
        );
    }

    proptest! {
        #[test]
        fn equals_a_list_that_is_sorted(
            len in 1usize..40,
            outcomes in prop::collection::vec(prop::option::of(0u64..2_000 * MS), 0..120),
        ) {
            let mut window = Window::new(len);
            for outcome in &outcomes {
                match outcome {
                    Some(delay_ns) => window.answered(*delay_ns),
                    None => window.lost(),
                }
            }
            let last = &outcomes[outcomes.len().saturating_sub(len)..];
            let mut delays: Vec<_> = last.iter().flatten().map(|ns| ns >> 8 << 8).collect();
            delays.sort_unstable();
            let quality = window.quality();
            prop_assert_eq!(quality.probes as usize, last.len());
            prop_assert_eq!(quality.lost as usize, last.len() - delays.len());
            let nearest_rank = |percent: usize| match delays.len() {
                0 => 0,
                n => delays[(n * percent).div_ceil(100) - 1],
            };
            prop_assert_eq!(quality.delay_ns, nearest_rank(50));
            prop_assert_eq!(quality.delay_p99_ns, nearest_rank(99));
            let shortest = delays.first().copied().unwrap_or(0);
            prop_assert_eq!(quality.jitter_ns, nearest_rank(95) - shortest);
        }
    }
}
