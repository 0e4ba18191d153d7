//! Outbound numbers that the SA's owner leases: none is above the ceiling, for any number of threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{GCM, keys, params, sa, sa_with};
use esp::{LiveNumbers, Sa, SaParams};
use outcome::DropReason::{OutLease, OutSequenceExhausted};
use proptest::prelude::*;

fn leased(esn: bool, replay_window: u32, ceiling: u64) -> Sa {
    let params = SaParams { esn, replay_window, ..params(GCM, true) };
    let live = LiveNumbers::on_heap_with_ceiling(replay_window, ceiling);
    sa_with(params, &keys(GCM), live).with_ceiling(true)
}

#[derive(Clone, Debug)]
enum Step {
    Lease(u32),
    Raise(u64),
    /// To less than it is.
    Lower(u64),
    /// The SA is replaced by one with its live numbers.
    Replace,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u32..100).prop_map(Step::Lease),
        3 => (0_u64..200).prop_map(Step::Raise),
        1 => (0_u64..200).prop_map(Step::Lower),
        1 => Just(Step::Replace),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #[test]
    fn leases_end_at_the_ceiling(
        steps in steps(),
        esn: bool,
        // Also where the end of all numbers is near.
        left in prop_oneof![Just(None), (0_u64..2000).prop_map(Some)],
        window in prop::sample::select(&[0_u32, 1, 64, 1000][..]),
    ) {
        let last = if esn { u64::MAX } else { u64::from(u32::MAX) };
        let start = left.map_or(0, |left| last - left);
        let mut sa = leased(esn, window, start);
        sa.live().sent().store(start, Ordering::Relaxed);
        let (mut sent, mut ceiling) = (start, start);
        for step in steps {
            match step {
                Step::Lease(n) => {
                    let due = (ceiling.min(last) - sent).min(n.into());
                    match sa.lease(n) {
                        Ok(lease) => {
                            let numbers: Vec<u64> = lease.map(|number| number.value()).collect();
                            let expected = (0..due).map(|n| sent + 1 + n);
                            prop_assert_eq!(numbers, expected.collect::<Vec<_>>());
                            prop_assert!(due > 0 || n == 0);
                        }
                        Err(reason) => {
                            let why = if sent == last { OutSequenceExhausted } else { OutLease };
                            prop_assert_eq!((reason, due), (why, 0));
                        }
                    }
                    sent += due;
                }
                Step::Raise(by) => {
                    ceiling = ceiling.saturating_add(by);
                    sa.raise_ceiling(ceiling);
                }
                Step::Lower(by) => sa.raise_ceiling(ceiling.saturating_sub(by)),
                Step::Replace => {
                    // What is received does not touch the ceiling.
                    sa.replay().restore(70_000, |_| true);
                    let live = sa.live().clone();
                    sa = sa_with(sa.params().clone(), &keys(GCM), live).with_ceiling(true);
                }
            }
            prop_assert_eq!(sa.ceiling(), Some(ceiling));
            prop_assert_eq!(sa.live().sent().load(Ordering::Relaxed), sent);
        }
    }
}

/// Each number up to the last ceiling is leased once, and never before the ceiling has reached it.
#[test]
fn several_threads_stay_below_a_ceiling_that_rises() {
    const LAST: u64 = 20_000;
    for esn in [false, true] {
        let sa = leased(esn, 64, 0);
        let is_over = AtomicBool::new(false);
        let take = |n: u32| {
            let (sa, is_over) = (&sa, &is_over);
            move || {
                let mut all = Vec::new();
                loop {
                    let was_over = is_over.load(Ordering::Acquire);
                    match sa.lease(n) {
                        Ok(lease) => {
                            let numbers: Vec<u64> = lease.map(|number| number.value()).collect();
                            assert!(numbers.last() <= sa.ceiling().as_ref());
                            all.extend(numbers);
                        }
                        Err(reason) => {
                            assert_eq!(reason, OutLease);
                            if was_over {
                                return all;
                            }
                            thread::yield_now();
                        }
                    }
                }
            }
        };
        let mut all = thread::scope(|scope| {
            let threads = [1, 7, 64].map(|n| scope.spawn(take(n)));
            for ceiling in (0..=LAST).step_by(50) {
                sa.raise_ceiling(ceiling);
                thread::yield_now();
            }
            is_over.store(true, Ordering::Release);
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=LAST));
    }
}

#[test]
fn an_sa_without_a_ceiling_has_all_numbers() {
    let sa = sa(params(GCM, true));
    sa.raise_ceiling(5);
    assert_eq!((sa.has_ceiling(), sa.ceiling()), (false, None));
    assert_eq!(sa.lease(100).unwrap().left(), 100);
    assert_eq!(sa.live().bitmap().iter().map(|word| word.load(Ordering::Relaxed)).max(), Some(0));
}
