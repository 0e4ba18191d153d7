//! State of a session: worse at once, better only after a time.
//!
//! A state is a penalty, and no withdrawal: a dead path is still there, for the case that all are dead.

use crate::window::Quality;

/// Replies in a row that make a dead path one that answers.
const REVIVES: u32 = 3;

/// Fewest probes of a window by which a path is judged.
const LEAST_PROBES: u32 = 5;

/// Fewest probes of a window by which jitter is judged: with fewer, one late reply is the 95th percentile.
const LEAST_FOR_JITTER: u32 = 20;

/// Difference below which times are alike.
const MARGIN_NS: u64 = 1_000_000;

/// State of a path in one class, from the best to the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Within its bounds.
    Good,
    /// Beyond a bound.
    Degraded,
    /// Beyond twice a bound.
    Bad,
    /// Not known yet: too few replies have come.
    #[default]
    Untried,
    /// Without replies for too long.
    Dead,
}

impl State {
    /// Every state, from the best to the worst.
    pub const ALL: [State; 5] =
        [State::Good, State::Degraded, State::Bad, State::Untried, State::Dead];

    /// Name of the state, as it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Degraded => "degraded",
            State::Bad => "bad",
            State::Untried => "untried",
            State::Dead => "dead",
        }
    }

    /// Penalty that is added to a path's cost.
    pub const fn penalty(self) -> u32 {
        match self {
            State::Good => 0,
            State::Degraded => 500_000,
            State::Bad => 1_000_000,
            State::Untried => 1_500_000,
            State::Dead => 2_000_000,
        }
    }

    const fn better(self) -> State {
        match self {
            State::Dead | State::Untried => State::Bad,
            State::Bad => State::Degraded,
            State::Degraded | State::Good => State::Good,
        }
    }
}

/// Bounds of a good path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Loss in parts of a million.
    pub loss_ppm: u32,
    /// Median of delays, in nanoseconds.
    pub delay_ns: Option<u64>,
    /// Jitter, in nanoseconds.
    pub jitter_ns: Option<u64>,
}

/// Facts about a path beside its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// True if more probes in a row are without a reply than may be.
    pub is_silent: bool,
    /// Replies since the last probe was lost.
    pub answers_in_row: u32,
}

/// Judge of one session.
#[derive(Clone, Debug)]
pub struct Judge {
    bounds: Bounds,
    hold_ns: u64,
    state: State,
    /// Since when the path is better than its state.
    better_since_ns: Option<u64>,
}

impl Judge {
    /// A judge of a path that nothing is known of.
    pub const fn new(bounds: Bounds, hold_ns: u64) -> Judge {
        Judge { bounds, hold_ns, state: State::Untried, better_since_ns: None }
    }

    /// The state as it was judged last.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Judges the path, and returns its state. The window is looked at only if the path answers.
    pub fn judge(&mut self, now_ns: u64, seen: Seen, quality: impl FnOnce() -> Quality) -> State {
        if seen.is_silent {
            return self.enter(State::Dead);
        }
        match self.state {
            State::Dead if seen.answers_in_row < REVIVES => return self.state,
            State::Untried if seen.answers_in_row < LEAST_PROBES => return self.state,
            State::Untried => {
                let first = self.of(&quality(), false);
                return self.enter(first);
            }
            State::Dead => return self.enter(State::Bad),
            State::Good | State::Degraded | State::Bad => {}
        }
        let quality = quality();
        let worst = self.of(&quality, false);
        if worst > self.state {
            return self.enter(worst);
        }
        // Better by a margin, or else it would be worse again at once.
        if self.of(&quality, true) >= self.state {
            self.better_since_ns = None;
            return self.state;
        }
        let since_ns = *self.better_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= self.hold_ns {
            return self.enter(self.state.better());
        }
        self.state
    }

    fn enter(&mut self, state: State) -> State {
        self.better_since_ns = None;
        self.state = state;
        state
    }

    /// State by the window alone; within narrower bounds, if there is to be a margin.
    fn of(&self, quality: &Quality, has_margin: bool) -> State {
        let Bounds { loss_ppm, delay_ns, jitter_ns } = self.bounds;
        let narrow = |bound: u64, least: u64| match has_margin {
            true => (bound - bound / 10).min(bound.saturating_sub(least)),
            false => bound,
        };
        let by = |value: u64, bound: u64, least: u64| match narrow(bound, least) {
            bound if value <= bound => State::Good,
            bound if value <= bound.saturating_mul(2) => State::Degraded,
            _ => State::Bad,
        };
        if quality.probes < LEAST_PROBES {
            return State::Good;
        }
        let loss = by(quality.judged_loss_ppm().into(), loss_ppm.into(), 0);
        let delay = delay_ns.map(|bound| by(quality.delay_ns, bound, MARGIN_NS));
        let jitter_ns = jitter_ns.filter(|_| quality.probes >= LEAST_FOR_JITTER);
        let jitter = jitter_ns.map(|bound| by(quality.jitter_ns, bound, MARGIN_NS));
        delay.into_iter().chain(jitter).fold(loss, State::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BOUNDS: Bounds =
        Bounds { loss_ppm: 20_000, delay_ns: Some(50 * MS), jitter_ns: Some(20 * MS) };
    const ANSWERS: Seen = Seen { is_silent: false, answers_in_row: LEAST_PROBES };

    fn quality(delay_ms: u64, lost: u32) -> Quality {
        let delay_ns = delay_ms * MS;
        Quality { probes: 100, lost, delay_ns, delay_p99_ns: delay_ns, ..Quality::default() }
    }

    fn good() -> Judge {
        let mut judge = Judge::new(BOUNDS, 1000 * MS);
        assert_eq!(judge.judge(0, ANSWERS, || quality(10, 0)), State::Good);
        judge
    }

    #[test]
    fn worse_at_once_by_each_bound() {
        assert_eq!(good().judge(1, ANSWERS, || quality(51, 0)), State::Degraded);
        assert_eq!(good().judge(1, ANSWERS, || quality(101, 0)), State::Bad);
        assert_eq!(good().judge(1, ANSWERS, || quality(10, 3)), State::Degraded);
        assert_eq!(good().judge(1, ANSWERS, || quality(10, 5)), State::Bad);
        let jitter = Quality { jitter_ns: 21 * MS, ..quality(10, 0) };
        assert_eq!(good().judge(1, ANSWERS, || jitter), State::Degraded);
        let silent = Seen { is_silent: true, answers_in_row: 0 };
        assert_eq!(good().judge(1, silent, || unreachable!("not asked")), State::Dead);
    }

    #[test]
    fn worse_by_the_last_probes_before_the_window_knows() {
        let recently = |recently_lost| Quality { recently_lost, ..quality(10, 0) };
        assert_eq!(good().judge(1, ANSWERS, || recently(2)), State::Good);
        assert_eq!(good().judge(1, ANSWERS, || recently(3)), State::Bad);
    }

    #[test]
    fn one_lost_probe_is_no_loss() {
        let one_of_ten = Quality { probes: 10, lost: 1, ..quality(10, 0) };
        assert_eq!(good().judge(1, ANSWERS, || one_of_ten), State::Good);
    }

    #[test]
    fn better_by_a_step_after_each_hold_and_only_by_a_margin() {
        let mut judge = good();
        judge.judge(1, ANSWERS, || quality(101, 0));
        let mut at = |ms: u64, delay_ms| judge.judge(ms * MS, ANSWERS, || quality(delay_ms, 0));
        assert_eq!(at(1, 10), State::Bad);
        assert_eq!(at(1000, 10), State::Bad);
        // 95 is within twice the bound, and not within twice the narrower one: the hold begins anew.
        assert_eq!(at(1000, 95), State::Bad);
        assert_eq!(at(1001, 80), State::Bad);
        assert_eq!(at(2001, 80), State::Degraded);
        assert_eq!(at(2002, 46), State::Degraded);
        assert_eq!(at(9000, 46), State::Degraded);
        assert_eq!(at(9001, 45), State::Degraded);
        assert_eq!(at(10_001, 45), State::Good);
    }

    #[test]
    fn dead_until_it_answers_thrice() {
        let mut judge = good();
        judge.judge(1, Seen { is_silent: true, answers_in_row: 0 }, || quality(10, 0));
        let two = Seen { is_silent: false, answers_in_row: 2 };
        assert_eq!(judge.judge(2, two, || quality(10, 0)), State::Dead);
        assert_eq!(judge.judge(3, ANSWERS, || quality(10, 0)), State::Bad);
    }

    #[test]
    fn the_first_state_is_by_the_bounds_without_a_margin() {
        let mut judge = Judge::new(BOUNDS, 1000 * MS);
        assert_eq!(judge.judge(0, ANSWERS, || quality(50, 0)), State::Good);
    }

    #[test]
    fn the_margin_of_a_short_bound_is_a_millisecond() {
        let bounds = Bounds { delay_ns: Some(5 * MS), ..BOUNDS };
        let mut judge = Judge::new(bounds, 0);
        judge.judge(0, ANSWERS, || quality(6, 0));
        // A tenth of it is half a millisecond.
        let near = Quality { delay_ns: 4 * MS + 1, ..quality(4, 0) };
        assert_eq!(judge.judge(1, ANSWERS, || near), State::Degraded);
        assert_eq!(judge.judge(1, ANSWERS, || quality(4, 0)), State::Good);
    }

    #[test]
    fn few_probes_say_nothing_of_loss_and_not_many_say_nothing_of_jitter() {
        let lost = Quality { probes: LEAST_PROBES - 1, lost: 3, ..quality(10, 0) };
        assert_eq!(good().judge(1, ANSWERS, || lost), State::Good);
        let jitter = |probes| Quality { probes, jitter_ns: 21 * MS, ..quality(10, 0) };
        assert_eq!(good().judge(1, ANSWERS, || jitter(LEAST_FOR_JITTER - 1)), State::Good);
        assert_eq!(good().judge(1, ANSWERS, || jitter(LEAST_FOR_JITTER)), State::Degraded);
    }

    #[test]
    fn penalties_grow_with_the_states() {
        assert!(State::ALL.is_sorted_by(|a, b| a < b && a.penalty() < b.penalty()));
    }
}
