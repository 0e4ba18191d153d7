//! Bounds of quality, and by how much a path is beyond them.

use core::time::Duration;

use crate::quality::Quality;

/// A path that comes back must be better than the bound by this part of it.
const MARGIN_DIVISOR: u32 = 10;

/// The least margin of bounds of time, so that noise of a short delay is none.
const LEAST_MARGIN: Duration = Duration::from_millis(1);

/// One million: the unit of [`Quality::loss_ppm`] and of [`Bounds::excess`].
const MILLION: u64 = 1_000_000;

/// The worst quality that traffic bears. No bound is met by anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Longest delay that is within the bounds.
    pub delay: Option<Duration>,
    /// Largest variation of the delay.
    pub jitter: Option<Duration>,
    /// Largest loss, in millionths.
    pub loss_ppm: Option<u32>,
}

impl Bounds {
    /// True if a path that answers is within the bounds.
    pub fn hold(&self, quality: &Quality) -> bool {
        self.excess(quality) == 0
    }

    /// True if it is within the bounds by the margin.
    pub fn hold_well(&self, quality: &Quality) -> bool {
        let tighter = Bounds {
            delay: self.delay.map(tighter_time),
            jitter: self.jitter.map(tighter_time),
            loss_ppm: self.loss_ppm.map(|loss| loss - loss / MARGIN_DIVISOR),
        };
        tighter.hold(quality)
    }

    /// By how much a quality is beyond the bounds: each measure's excess as a part of its bound, in millionths,
    /// summed up. A dead path is the worst.
    pub fn excess(&self, quality: &Quality) -> u64 {
        if !quality.is_alive {
            return u64::MAX;
        }
        let of_time = |bound: Option<Duration>, is: Duration| {
            bound.map_or(0, |bound| part_beyond(bound.as_micros(), is.as_micros()))
        };
        let of_loss =
            self.loss_ppm.map_or(0, |bound| part_beyond(bound.into(), quality.loss_ppm.into()));
        of_time(self.delay, quality.delay)
            .saturating_add(of_time(self.jitter, quality.jitter))
            .saturating_add(of_loss)
            .min(u64::MAX - 1)
    }
}

/// A bound of time less its margin. A bound as short as the margin keeps nine tenths of itself.
fn tighter_time(bound: Duration) -> Duration {
    let tenth = bound / MARGIN_DIVISOR;
    bound
        .checked_sub(tenth.max(LEAST_MARGIN))
        .filter(|left| !left.is_zero())
        .unwrap_or(bound - tenth)
}

/// The excess of a measure, in millionths of its bound; at least 1 beyond it, 0 within it. A bound of nothing
/// counts as one unit.
fn part_beyond(bound: u128, is: u128) -> u64 {
    let Some(beyond) = is.checked_sub(bound).filter(|beyond| *beyond > 0) else { return 0 };
    let part = beyond.saturating_mul(MILLION.into()) / bound.max(1);
    u64::try_from(part).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(delay_ms: u64, loss_ppm: u32) -> Quality {
        let delay = Duration::from_millis(delay_ms);
        Quality { is_alive: true, delay, jitter: Duration::ZERO, loss_ppm }
    }

    #[test]
    fn excess_is_a_part_of_the_bound() {
        let bounds = Bounds {
            delay: Some(Duration::from_millis(100)),
            loss_ppm: Some(10_000),
            ..Bounds::default()
        };
        assert_eq!(bounds.excess(&quality(100, 10_000)), 0);
        assert_eq!(bounds.excess(&quality(150, 10_000)), 500_000);
        assert_eq!(bounds.excess(&quality(150, 20_000)), 1_500_000);
        assert_eq!(bounds.excess(&Quality { is_alive: false, ..quality(1, 0) }), u64::MAX);
        assert_eq!(Bounds::default().excess(&quality(u64::MAX / 2000, u32::MAX)), 0);
    }

    #[test]
    fn a_bound_of_nothing_is_met_by_nothing_lost() {
        let bounds = Bounds { loss_ppm: Some(0), ..Bounds::default() };
        assert!(bounds.hold(&quality(1, 0)) && bounds.hold_well(&quality(1, 0)));
        assert!(!bounds.hold(&quality(1, 1)));
    }

    #[test]
    fn margins_are_a_tenth_and_a_millisecond() {
        let of = |ms| Bounds { delay: Some(Duration::from_millis(ms)), ..Bounds::default() };
        assert!(of(100).hold_well(&quality(90, 0)) && !of(100).hold_well(&quality(91, 0)));
        assert!(of(5).hold_well(&quality(4, 0)) && !of(5).hold_well(&quality(5, 0)));
        assert!(of(1).hold_well(&quality(0, 0)) && !of(1).hold_well(&quality(1, 0)));
        let almost = |us| Quality { delay: Duration::from_micros(us), ..quality(0, 0) };
        assert!(of(1).hold_well(&almost(900)) && !of(1).hold_well(&almost(901)));
        let loss = Bounds { loss_ppm: Some(1000), ..Bounds::default() };
        assert!(loss.hold_well(&quality(0, 900)) && !loss.hold_well(&quality(0, 901)));
    }

    #[test]
    fn jitter_has_a_bound_and_a_margin_of_its_own() {
        let bounds = Bounds { jitter: Some(Duration::from_millis(100)), ..Bounds::default() };
        let with = |ms| Quality { jitter: Duration::from_millis(ms), ..quality(1, 0) };
        assert_eq!(bounds.excess(&with(150)), 500_000);
        assert!(bounds.hold(&with(100)) && !bounds.hold(&with(101)));
        assert!(bounds.hold_well(&with(90)) && !bounds.hold_well(&with(91)));
    }

    #[test]
    fn the_least_excess_is_none_of_nothing_and_the_largest_is_not_that_of_the_dead() {
        let hour = Duration::from_secs(3600);
        let bounds = Bounds { delay: Some(hour), ..Bounds::default() };
        let beyond = Quality { delay: hour + Duration::from_micros(1), ..quality(0, 0) };
        assert_eq!(bounds.excess(&beyond), 1);
        let strict = Bounds { delay: Some(Duration::ZERO), ..Bounds::default() };
        let worst = Quality { delay: Duration::MAX, ..quality(0, 0) };
        assert_eq!(strict.excess(&worst), u64::MAX - 1);
    }
}
