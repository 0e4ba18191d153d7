use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

/// Pushes a number at a time; what is delivered, or the reason that it is not.
fn push(
    recovery: &mut Recovery<u32>,
    number: u32,
    at_ms: u64,
    wait_ms: u64,
) -> Result<Vec<u32>, Refusal> {
    let mut out = Vec::new();
    let times = (at_ms * MS, wait_ms * MS);
    recovery.push(number, number, times, |item| out.push(item)).map_err(|(refusal, item)| {
        assert_eq!(item, number, "given back");
        refusal
    })?;
    Ok(out)
}

fn expired(recovery: &mut Recovery<u32>, at_ms: u64) -> Vec<u32> {
    let mut out = Vec::new();
    recovery.expire(at_ms * MS, |item| out.push(item));
    out
}

#[test]
fn the_second_copy_is_refused() {
    let mut recovery = Recovery::after_loss();
    assert_eq!(push(&mut recovery, 9, 0, 0), Ok(vec![9]));
    assert_eq!(push(&mut recovery, 9, 0, 0), Err(Refusal::Duplicate));
    assert_eq!(push(&mut recovery, 10, 0, 0), Ok(vec![10]));
    assert_eq!(push(&mut recovery, 10, 0, 0), Err(Refusal::Duplicate));
    // From before the first: nobody knows.
    assert_eq!(push(&mut recovery, 8, 0, 0), Err(Refusal::Duplicate));
    assert_eq!(
        push(&mut recovery, 10u32.wrapping_sub(HISTORY) % NUMBERS, 0, 0),
        Err(Refusal::Late)
    );
}

#[test]
fn packets_wait_for_those_before_them() {
    let mut recovery = Recovery::after_loss();
    assert_eq!(push(&mut recovery, 1, 0, 20), Ok(vec![1]));
    assert_eq!(push(&mut recovery, 3, 1, 20), Ok(vec![]));
    assert_eq!(push(&mut recovery, 4, 2, 20), Ok(vec![]));
    assert_eq!((recovery.waiting(), recovery.due_ns()), (2, Some(21 * MS)));
    assert_eq!(push(&mut recovery, 2, 3, 20), Ok(vec![2, 3, 4]));
    assert_eq!((recovery.waiting(), recovery.due_ns(), recovery.gaps()), (0, None, 0));
}

#[test]
fn a_gap_is_passed_when_its_time_is_over() {
    let mut recovery = Recovery::after_loss();
    for (number, at_ms) in [(1, 0), (3, 5), (5, 8), (6, 9)] {
        push(&mut recovery, number, at_ms, 20).expect("new");
    }
    assert_eq!(expired(&mut recovery, 24), []);
    assert_eq!(expired(&mut recovery, 25), [3]);
    assert_eq!((recovery.due_ns(), recovery.gaps()), (Some(28 * MS), 1));
    // Later than that it is late, and new all the same: once.
    assert_eq!(push(&mut recovery, 2, 26, 20), Ok(vec![2]));
    assert_eq!(push(&mut recovery, 2, 26, 20), Err(Refusal::Duplicate));
    assert_eq!(expired(&mut recovery, 40), [5, 6]);
    assert_eq!((recovery.waiting(), recovery.due_ns(), recovery.gaps()), (0, None, 2));
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let mut recovery = Recovery::default();
    push(&mut recovery, 0, 0, 1000).expect("new");
    for number in 2..=MOST_HELD {
        assert_eq!(push(&mut recovery, number, 0, 1000), Ok(vec![]), "{number}");
    }
    // One more, and the gap is passed, with all behind it.
    let all: Vec<u32> = (2..=MOST_HELD + 1).collect();
    assert_eq!(push(&mut recovery, MOST_HELD + 1, 0, 1000), Ok(all));
    assert_eq!((recovery.waiting(), recovery.gaps()), (0, 1));
}

#[test]
fn a_jump_is_followed_and_what_waits_goes_first() {
    let mut recovery = Recovery::default();
    push(&mut recovery, 0, 0, 50).expect("new");
    push(&mut recovery, 2, 0, 50).expect("new");
    assert_eq!(push(&mut recovery, 100_000, 1, 50), Ok(vec![2]));
    assert_eq!(recovery.waiting(), 1);
    assert_eq!(expired(&mut recovery, 51), [100_000]);
    // Numbers just before it have not come; those of before are older than the history.
    assert_eq!(push(&mut recovery, 99_999, 52, 50), Ok(vec![99_999]));
    assert_eq!(push(&mut recovery, 3, 52, 50), Err(Refusal::Late));
}

#[test]
fn numbers_go_round() {
    let mut recovery = Recovery::default();
    for number in [NUMBERS - 2, NUMBERS - 1, 0, 1] {
        assert_eq!(push(&mut recovery, number, 0, 20), Ok(vec![number]));
        assert_eq!(push(&mut recovery, number, 0, 20), Err(Refusal::Duplicate));
    }
    let mut recovery = Recovery::default();
    push(&mut recovery, NUMBERS - 2, 0, 20).expect("new");
    assert_eq!(push(&mut recovery, 0, 0, 20), Ok(vec![]));
    assert_eq!(push(&mut recovery, NUMBERS - 1, 0, 20), Ok(vec![NUMBERS - 1, 0]));
}

#[test]
fn a_sender_that_begins_anew_is_heard_after_a_while() {
    let mut recovery = Recovery::after_loss();
    push(&mut recovery, 1_000_000, 0, 20).expect("new");
    for at_ms in [1, 1000, 1999] {
        assert_eq!(push(&mut recovery, 5, at_ms, 20), Err(Refusal::Late));
    }
    // Those before it may have come by the slower path alone.
    assert_eq!(push(&mut recovery, 6, 2000, 20), Ok(vec![]));
    assert_eq!(push(&mut recovery, 6, 2000, 20), Err(Refusal::Duplicate));
    assert_eq!(expired(&mut recovery, 2020), [6]);
    assert_eq!(push(&mut recovery, 7, 2021, 20), Ok(vec![7]));
}

#[test]
fn what_still_waits_goes_before_a_sender_that_begins_anew() {
    let mut recovery = Recovery::default();
    push(&mut recovery, 10_000, 0, 3000).expect("new");
    assert_eq!(push(&mut recovery, 10_002, 0, 3000), Ok(vec![]));
    assert_eq!(push(&mut recovery, 0, 2000, 3000), Ok(vec![10_002, 0]));
    assert_eq!((recovery.waiting(), recovery.due_ns()), (0, None));
}

#[test]
fn a_second_copy_stays_one_however_late_it_is() {
    let mut recovery = Recovery::default();
    assert_eq!(push(&mut recovery, 0, 0, 20), Ok(vec![0]));
    assert_eq!(push(&mut recovery, 0, 10_000, 20), Err(Refusal::Duplicate));
}

#[test]
fn a_sender_that_goes_on_has_not_begun_anew() {
    let mut recovery = Recovery::after_loss();
    for (number, at_ms) in [(1_000_000, 0), (1_000_001, 1500)] {
        push(&mut recovery, number, at_ms, 20).expect("new");
    }
    // Two seconds after the first packet, and one after the last.
    assert_eq!(push(&mut recovery, 5, 2500, 20), Err(Refusal::Late));
    assert_eq!(push(&mut recovery, 5, 3500, 0), Ok(vec![5]));
}

#[test]
fn a_beginning_is_waited_for_where_there_is_room_for_all_of_it() {
    for (first, wanted) in [(MOST_HELD - 1, vec![]), (MOST_HELD, vec![MOST_HELD])] {
        let mut recovery = Recovery::default();
        assert_eq!(push(&mut recovery, first, 0, 20), Ok(wanted), "{first}");
    }
}

#[test]
fn the_first_packet_may_come_by_the_slower_path_alone() {
    let mut recovery = Recovery::default();
    assert_eq!(push(&mut recovery, 1, 0, 20), Ok(vec![]));
    assert_eq!(push(&mut recovery, 0, 10, 20), Ok(vec![0, 1]));
    assert_eq!(push(&mut recovery, 1, 10, 20), Err(Refusal::Duplicate));
    // One whose beginning was missed waits for nothing.
    let mut recovery = Recovery::default();
    assert_eq!(push(&mut recovery, 1000, 0, 20), Ok(vec![1000]));
    assert_eq!(push(&mut recovery, 999, 10, 20), Ok(vec![999]));
    assert_eq!(push(&mut recovery, 1000, 10, 20), Err(Refusal::Duplicate));
}

#[test]
fn all_that_waits_can_be_had() {
    let mut recovery = Recovery::default();
    for number in [0, 3, 5, 60] {
        push(&mut recovery, number, 0, 20).expect("new");
    }
    let mut out = Vec::new();
    recovery.drain(|item| out.push(item));
    assert_eq!((out, recovery.waiting(), recovery.due_ns()), (vec![3, 5, 60], 0, None));
}

#[test]
fn a_number_half_of_all_ahead_is_refused() {
    let mut recovery = Recovery::default();
    push(&mut recovery, 0, 0, 1000).expect("new");
    push(&mut recovery, 63, 0, 1000).expect("new");
    // From 63 it is ahead, and from 1, which goes on next, it is behind.
    assert_eq!(push(&mut recovery, 2 + NUMBERS / 2, 1, 1000), Err(Refusal::Late));
    let furthest = 63 + NUMBERS / 2 - MOST_HELD;
    assert_eq!(push(&mut recovery, furthest, 1, 1000), Ok(vec![63]));
    assert_eq!(expired(&mut recovery, 2000), [furthest]);
}

/// A number of a stream that goes on, or of any other.
fn anywhere() -> impl Strategy<Value = u32> {
    let corners = (0u32..8, 0u32..200).prop_map(|(part, step)| part * (NUMBERS / 8) + step);
    prop_oneof![8 => 0u32..5000, 1 => corners, 1 => 0..NUMBERS]
}

proptest! {
    /// Two paths, each of which loses some and keeps its order, one of them behind by some packets: each number comes
    /// once, if any copy came, and in order.
    #[test]
    fn copies_over_two_lossy_paths_make_one_stream(
        losses in prop::collection::vec((any::<bool>(), any::<bool>()), 1..300),
        behind in 0u64..40,
        first in prop_oneof![Just(0), Just(NUMBERS - 7)],
        is_new: bool,
    ) {
        let of = |path: u64, at: usize| (at as u64 + path * behind, path, at as u32);
        let mut arrivals: Vec<_> = losses
            .iter()
            .enumerate()
            .flat_map(|(at, (a, b))| [(!a).then(|| of(0, at)), (!b).then(|| of(1, at))])
            .flatten()
            .collect();
        arrivals.sort_unstable();
        let is_new = is_new && first == 0;
        let mut recovery = if is_new { Recovery::default() } else { Recovery::after_loss() };
        let mut out = Vec::new();
        for (at_ms, _, number) in &arrivals {
            recovery.expire(at_ms * MS, |item| out.push(item));
            let number = first + number;
            let _ = recovery.push(number, number, (at_ms * MS, 45 * MS), |item| out.push(item));
            prop_assert!(recovery.waiting() <= MOST_HELD);
            prop_assert_eq!(recovery.due_ns().is_some(), recovery.waiting() > 0);
        }
        recovery.expire(u64::MAX, |item| out.push(item));
        let begun = arrivals.first().map_or(0, |(_, _, number)| *number as usize);
        let begun = if is_new && begun < MOST_HELD as usize { 0 } else { begun };
        let came = |(_, (a, b)): &(usize, &(bool, bool))| !a || !b;
        let wanted: Vec<u32> =
            losses.iter().enumerate().skip(begun).filter(came).map(|(at, _)| first + at as u32).collect();
        prop_assert_eq!(out, wanted);
    }

    /// Any numbers at any times: each is delivered once at most within the history, none is lost, and all waits end.
    #[test]
    fn whatever_comes_goes_on_or_is_given_back(
        steps in prop::collection::vec((anywhere(), 0u64..30, 0u64..40), 1..400),
    ) {
        let (mut recovery, mut now_ms, mut taken, mut out) = (Recovery::default(), 0, 0, Vec::new());
        for (number, later, wait) in steps {
            now_ms += later;
            recovery.expire(now_ms * MS, |item| out.push(item));
            prop_assert!(recovery.due_ns().is_none_or(|due_ns| due_ns > now_ms * MS));
            let times = (now_ms * MS, wait * MS);
            taken += u32::from(recovery.push(number, number, times, |item| out.push(item)).is_ok());
            prop_assert_eq!(out.len() as u32 + recovery.waiting(), taken);
        }
        recovery.expire(u64::MAX, |item| out.push(item));
        prop_assert_eq!((out.len() as u32, recovery.waiting()), (taken, 0));
    }
}
