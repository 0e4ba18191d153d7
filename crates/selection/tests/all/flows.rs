//! Flows over the paths of a choice.

use std::collections::HashMap;

use proptest::prelude::*;
use selection::{Candidate, Choice};

/// A number of each flow, as evenly spread as a hash of it.
fn hash(flow: u64) -> u64 {
    let mixed = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[test]
fn flows_are_spread_by_the_weights() {
    let takers = [(7, 1), (8, 3), (9, 6)].map(|(path, weight)| Candidate { path, weight });
    let choice = Choice::new(takers.to_vec(), vec![]);
    let mut count: HashMap<u16, u32> = HashMap::new();
    for flow in 0..100_000 {
        let path = choice.path(None, hash(flow)).expect("there are takers");
        *count.entry(path).or_default() += 1;
    }
    for taker in takers {
        let wanted = u32::from(taker.weight) * 10_000;
        let is = count.remove(&taker.path).unwrap_or(0);
        assert!(is.abs_diff(wanted) < 600, "path {}: {is}, wanted {wanted}", taker.path);
    }
    assert!(count.is_empty(), "{count:?}");
}

#[test]
fn no_taker_stops_flows() {
    assert_eq!(Choice::default().path(None, 5), None);
    assert_eq!(Choice::default().path(Some(1), 5), None);
}

proptest! {
    #[test]
    fn a_flow_stays_on_a_keeper_and_else_takes_a_taker(
        takers in prop::collection::vec((0..8_u16, 1..5_u16), 1..5),
        keepers in prop::collection::vec(0..8_u16, 0..4),
        current in prop::option::of(0..8_u16),
        flow in any::<u64>(),
    ) {
        let takers: Vec<_> = takers.into_iter().map(|(path, weight)| Candidate { path, weight }).collect();
        let choice = Choice::new(takers.clone(), keepers.clone());
        let path = choice.path(current, flow).expect("there are takers");
        match current.filter(|current| keepers.contains(current)) {
            Some(current) => prop_assert_eq!(path, current),
            None => prop_assert!(takers.iter().any(|taker| taker.path == path)),
        }
        prop_assert_eq!(choice.path(current, flow), Some(path), "the same flow, the same path");
    }
}
