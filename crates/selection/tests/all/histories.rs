//! One rule over histories of quality, told by a clock that the test moves.

use core::time::Duration;

use proptest::prelude::*;
use selection::{Bounds, Candidate, Fallback, Quality, Rule, Selector, Spread, Standing};

const STEP: Duration = Duration::from_millis(50);
const RETURN_AFTER: Duration = Duration::from_secs(2);

/// A rule of voice traffic over paths 0, 1, 2: at most 100 ms, and 1 % lost.
fn rule(spread: Spread, fallback: Fallback) -> Rule {
    Rule {
        candidates: (0..3).map(|path| Candidate { path, lot: path.into(), weight: 1 }).collect(),
        bounds: Bounds {
            delay: Some(Duration::from_millis(100)),
            jitter: None,
            loss_ppm: Some(10_000),
        },
        spread,
        fallback,
        return_after: RETURN_AFTER,
    }
}

const fn quality(is_alive: bool, delay_ms: u64, loss_ppm: u32) -> Quality {
    Quality { is_alive, delay: Duration::from_millis(delay_ms), jitter: Duration::ZERO, loss_ppm }
}

const GOOD: Quality = quality(true, 20, 0);
const SLOW: Quality = quality(true, 300, 0);
const DEAD: Quality = quality(false, 0, 1_000_000);

/// A flow that goes through measurements of the three paths, one each [`STEP`]; its path after each.
struct Flow {
    selector: Selector,
    now: Duration,
    path: Option<u16>,
}

impl Flow {
    fn new(rule: Rule) -> Flow {
        let selector = Selector::new(rule);
        let path = selector.choice().path(0);
        Flow { selector, now: Duration::ZERO, path }
    }

    fn step(&mut self, paths: [Quality; 3]) -> Option<u16> {
        self.now += STEP;
        self.selector.update(self.now, |path| paths.get(usize::from(path)).copied());
        self.path = self.selector.choice().path(0);
        self.path
    }

    fn steps(&mut self, count: u32, paths: [Quality; 3]) -> Option<u16> {
        for _ in 0..count {
            self.step(paths);
        }
        self.path
    }
}

/// Steps until a path that is well again has its flows back.
fn steps_to_return() -> u32 {
    (RETURN_AFTER.as_millis() / STEP.as_millis()) as u32
}

#[test]
fn a_dead_path_is_left_at_once_and_taken_again_late() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
    assert_eq!(flow.step([GOOD; 3]), Some(0));
    assert_eq!(flow.step([DEAD, GOOD, GOOD]), Some(1));
    // The first measurement begins the time.
    assert_eq!(flow.steps(steps_to_return(), [GOOD; 3]), Some(1));
    assert_eq!(flow.step([GOOD; 3]), Some(0));
}

#[test]
fn a_break_in_a_return_begins_it_anew() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
    flow.step([SLOW, GOOD, GOOD]);
    flow.steps(steps_to_return() - 1, [GOOD; 3]);
    // Within the bounds, and not by the margin.
    assert_eq!(flow.step([quality(true, 95, 0), GOOD, GOOD]), Some(1));
    assert_eq!(flow.steps(steps_to_return(), [GOOD; 3]), Some(1));
    assert_eq!(flow.step([GOOD; 3]), Some(0));
}

#[test]
fn the_last_path_is_kept_when_all_are_dead() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
    flow.step([DEAD, GOOD, DEAD]);
    assert_eq!(flow.steps(100, [DEAD; 3]), Some(1));
    assert_eq!(flow.step([DEAD, DEAD, SLOW]), Some(2), "a bad path is better than a dead one");
}

#[test]
fn the_least_bad_path_is_left_for_one_that_is_clearly_better() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
    let slow = |a, b, c| [a, b, c].map(|ms| quality(true, ms, 0));
    assert_eq!(flow.step(slow(300, 300, 300)), Some(0));
    assert_eq!(flow.step(slow(300, 290, 300)), Some(0), "5 % better");
    assert_eq!(flow.step(slow(300, 280, 300)), Some(0), "10 % better, and not more");
    assert_eq!(flow.step(slow(300, 250, 300)), Some(1), "25 % better");
    assert_eq!(flow.step(slow(240, 250, 300)), Some(1));
}

#[test]
fn blocked_flows_go_on_when_a_path_is_good() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::Block));
    assert_eq!(flow.step([SLOW, DEAD, SLOW]), None);
    assert_eq!(flow.steps(steps_to_return(), [SLOW, GOOD, SLOW]), None);
    assert_eq!(flow.step([SLOW, GOOD, SLOW]), Some(1));
}

#[test]
fn a_path_of_which_nothing_is_known_stands_as_it_did() {
    let mut selector = Selector::new(rule(Spread::Prefer, Fallback::Block));
    let quality = |path| (path != 1).then_some(DEAD);
    assert!(selector.update(STEP, quality));
    assert_eq!(selector.choice().path(0), Some(1), "good at first");
    assert!(!selector.update(2 * STEP, quality), "nothing has changed");
    // A session that begins anew makes a dead path no better.
    assert!(selector.update(3 * STEP, |_| Some(DEAD)));
    assert_eq!(selector.choice().path(0), None);
    assert!(!selector.update(4 * STEP, quality));
    assert_eq!(selector.choice().path(0), None);
}

#[test]
fn another_form_of_a_rule_keeps_what_is_known_of_paths_that_stay() {
    let of = |paths: &[u16]| {
        let candidates = paths.iter().map(|path| (*path, u64::from(path % 10)));
        let candidates = candidates.map(|(path, lot)| Candidate { path, lot, weight: 1 });
        Rule { candidates: candidates.collect(), ..rule(Spread::Prefer, Fallback::LeastBad) }
    };
    let mut old = Selector::new(of(&[0, 1, 2]));
    old.update(STEP, |path| Some([SLOW, DEAD, DEAD][usize::from(path)]));
    old.update(2 * STEP, |path| Some([GOOD, DEAD, DEAD][usize::from(path)]));
    // Path 1 is another by now; 0 and 2 are 10 and 12.
    let before = |path: u16| [(10, 0), (12, 2)].into_iter().find(|of| of.0 == path).map(|of| of.1);
    let stands = |selector: &Selector| selector.standings().collect::<Vec<_>>();
    let mut new = Selector::in_place_of(&old, of(&[12, 11, 10]), before);
    let held = Standing::Bad { well_since: Some(2 * STEP) };
    assert_eq!(stands(&new), [(12, Standing::Dead), (11, Standing::Good), (10, held)]);
    assert_eq!(new.choice().path(0), Some(11));
    // The hold-down goes on from where it was.
    let end = 2 * STEP + RETURN_AFTER;
    new.update(end, |path| Some(if path == 10 { GOOD } else { DEAD }));
    assert_eq!(new.choice().path(0), Some(10));
    let bounds = Bounds { jitter: Some(STEP), ..old.rule().bounds };
    let other = Selector::in_place_of(&old, Rule { bounds, ..of(&[12, 11, 10]) }, before);
    assert!(other.standings().all(|(_, standing)| standing == Standing::Good));
}

#[test]
fn flows_of_a_rule_without_a_good_path_stay_on_theirs() {
    let mut old = Selector::new(rule(Spread::Prefer, Fallback::LeastBad));
    old.update(STEP, |path| Some([DEAD, SLOW, DEAD][usize::from(path)]));
    assert_eq!(old.choice().path(0), Some(1));
    let new = Selector::in_place_of(&old, rule(Spread::Prefer, Fallback::LeastBad), Some);
    assert_eq!(new.choice(), old.choice());
}

fn any_quality() -> impl Strategy<Value = Quality> {
    prop_oneof![
        6 => Just(GOOD),
        1 => Just(DEAD),
        2 => (1..400_u64, 0..30_000_u32).prop_map(|(delay, loss)| quality(true, delay, loss)),
    ]
}

/// Measurements that stand for some steps each.
fn any_history() -> impl Strategy<Value = Vec<([Quality; 3], u32)>> {
    prop::collection::vec((prop::array::uniform3(any_quality()), 1..60_u32), 1..40)
}

proptest! {
    /// Whatever happens: a flow has a path, not a dead one while another answers, and it moves only for a reason.
    #[test]
    fn flows_move_for_a_reason(shares: bool, history in any_history()) {
        let rule = rule(if shares { Spread::Share } else { Spread::Prefer }, Fallback::LeastBad);
        let bounds = rule.bounds;
        let mut flow = Flow::new(rule);
        let mut well_since = [Some(Duration::ZERO); 3];
        for (paths, count) in history {
            for _ in 0..count {
                let before = flow.path;
                let stood = flow.selector.standings().map(|(_, standing)| standing).collect::<Vec<_>>();
                let after = flow.step(paths);
                for (since, quality) in well_since.iter_mut().zip(&paths) {
                    *since = bounds.hold_well(quality).then(|| since.unwrap_or(flow.now));
                }
                let at = |path: Option<u16>| path.map(usize::from).expect("a flow has a path");
                let (from, to) = (at(before), at(after));
                let is_any_alive = paths.iter().any(|quality| quality.is_alive);
                prop_assert!(paths[to].is_alive || !is_any_alive, "on a dead path: {:?}", paths);
                if from == to {
                    continue;
                }
                let left_bounds = !bounds.hold(&paths[from]);
                // A path that is not good yet is the least bad only while none is good.
                let was_least_bad = stood[from] != Standing::Good;
                let went_back = stood[to] != Standing::Good
                    && (shares || to < from)
                    && well_since[to].is_some_and(|since| flow.now - since >= RETURN_AFTER);
                prop_assert!(left_bounds || was_least_bad || went_back, "{} to {} without a reason: {:?}", from, to, paths);
            }
        }
    }

    /// One spike of one path moves its flows away and back, and never more often.
    #[test]
    fn a_spike_moves_flows_once(path in 0..3_usize, spike in any_quality(), length in 1..20_u32) {
        let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
        let mut paths = [GOOD; 3];
        paths[path] = spike;
        let mut moves = 0;
        for (paths, count) in [([GOOD; 3], 5), (paths, length), ([GOOD; 3], 4 * steps_to_return())] {
            for _ in 0..count {
                let before = flow.path;
                moves += u32::from(flow.step(paths) != before);
            }
        }
        prop_assert!(moves == 0 || moves == 2, "{} moves", moves);
        prop_assert_eq!(flow.path, Some(0));
    }

    /// When all paths have been good for long enough, no flow is anywhere but on the preferred one.
    #[test]
    fn all_flows_return(history in any_history()) {
        let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
        for (paths, count) in history {
            flow.steps(count, paths);
        }
        prop_assert_eq!(flow.steps(steps_to_return() + 1, [GOOD; 3]), Some(0));
    }

    /// Blocked flows pass by good paths alone.
    #[test]
    fn blocked_flows_take_good_paths_only(history in any_history()) {
        let mut flow = Flow::new(rule(Spread::Prefer, Fallback::Block));
        for (paths, count) in history {
            for _ in 0..count {
                if let Some(path) = flow.step(paths) {
                    let standing = flow.selector.standings().nth(usize::from(path));
                    prop_assert_eq!(standing, Some((path, Standing::Good)));
                }
            }
        }
    }
}

#[test]
fn the_runner_up_is_the_next_good_one_or_the_least_bad() {
    let mut flow = Flow::new(rule(Spread::Prefer, Fallback::LeastBad));
    let runner_up = |flow: &Flow, paths: [Quality; 3], present, may: fn(u16) -> bool| {
        flow.selector.runner_up(present, |path| paths.get(usize::from(path)).copied(), may)
    };
    let all: fn(u16) -> bool = |_| true;
    let step = |flow: &mut Flow, paths: [Quality; 3], present, may| {
        flow.step(paths);
        runner_up(flow, paths, present, may)
    };
    assert_eq!(step(&mut flow, [GOOD; 3], None, all), Some(1));
    assert_eq!(step(&mut flow, [GOOD; 3], Some(2), all), Some(1), "the rule's order");
    assert_eq!(step(&mut flow, [GOOD; 3], None, |path| path != 1), Some(2));
    assert_eq!(step(&mut flow, [GOOD; 3], None, |_| false), None);
    assert_eq!(step(&mut flow, [GOOD, SLOW, GOOD], Some(1), all), Some(2));
    // Beyond the bounds, but better than none; and it stays until another is better by 10 %.
    let slow = |ms| quality(true, ms, 0);
    assert_eq!(step(&mut flow, [GOOD, slow(300), slow(305)], None, all), Some(1));
    assert_eq!(step(&mut flow, [GOOD, slow(305), slow(300)], Some(1), all), Some(1));
    assert_eq!(step(&mut flow, [GOOD, slow(300), slow(280)], Some(1), all), Some(1));
    assert_eq!(step(&mut flow, [GOOD, slow(350), slow(300)], Some(1), all), Some(2));
    assert_eq!(
        step(&mut flow, [GOOD, slow(300), slow(305)], Some(0), all),
        Some(1),
        "not the same"
    );
    assert_eq!(step(&mut flow, [GOOD, DEAD, slow(900)], Some(1), all), Some(2));
    assert_eq!(step(&mut flow, [GOOD, DEAD, DEAD], Some(2), all), Some(2));
    assert_eq!(step(&mut flow, [GOOD, SLOW, DEAD], Some(2), all), Some(1));
    let mut shared = Flow::new(rule(Spread::Share, Fallback::LeastBad));
    assert_eq!(step(&mut shared, [GOOD; 3], None, all), None);
}
