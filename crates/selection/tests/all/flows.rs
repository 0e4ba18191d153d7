//! Flows over the paths of a choice.

use std::collections::HashMap;

use proptest::prelude::*;
use selection::{Candidate, Choice};

const TAKERS: [Candidate; 3] = [
    Candidate { path: 7, lot: 7, weight: 1 },
    Candidate { path: 8, lot: 8, weight: 3 },
    Candidate { path: 9, lot: 9, weight: 6 },
];

#[test]
fn flows_are_spread_by_the_weights() {
    let choice = Choice::new(TAKERS);
    let mut count: HashMap<u16, u32> = HashMap::new();
    for flow in 0..100_000 {
        *count.entry(choice.path(flow).expect("there are takers")).or_default() += 1;
    }
    for taker in TAKERS {
        let wanted = u32::from(taker.weight) * 10_000;
        let is = count.remove(&taker.path).unwrap_or(0);
        assert!(is.abs_diff(wanted) < 600, "path {}: {is}, wanted {wanted}", taker.path);
    }
    assert!(count.is_empty(), "{count:?}");
}

#[test]
fn flows_stay_where_a_path_has_another_index() {
    let moved = TAKERS.map(|taker| Candidate { path: taker.path + 10, ..taker });
    let (before, after) = (Choice::new(TAKERS), Choice::new(moved));
    let stays = |flow| before.path(flow).map(|path| path + 10) == after.path(flow);
    assert!((0..1000).all(stays));
}

#[test]
fn no_taker_stops_flows() {
    assert_eq!(Choice::default().path(5), None);
}

proptest! {
    /// A path that goes takes no flow of another path with it, and takes its own ones back when it comes again.
    #[test]
    fn only_flows_of_a_path_that_goes_move(gone in 0..3_usize, flow in any::<u64>()) {
        let left: Vec<_> = TAKERS.into_iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, taker)| taker).collect();
        let (all, fewer) = (Choice::new(TAKERS), Choice::new(left));
        let (before, after) = (all.path(flow), fewer.path(flow));
        prop_assert!(before == after || before == Some(TAKERS[gone].path), "{:?} to {:?}", before, after);
        prop_assert_ne!(after, Some(TAKERS[gone].path));
    }
}
