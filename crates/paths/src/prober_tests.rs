//! A session against reflectors that are honest, far, silent, or lie.

use core::net::SocketAddr;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::labels::{Labels, Remover};
use crate::reflector::{Asked, Limits, Reflector, Stay};
use crate::stamp::Counts;

const MS: u64 = 1_000_000;
const INTERVAL_NS: u64 = 50 * MS;

const PLAN: Plan = Plan {
    interval_ns: INTERVAL_NS,
    timeout_ns: 1000 * MS,
    misses: 5,
    window: 100,
    bounds: Bounds { loss_ppm: 20_000, delay_ns: Some(100 * MS), jitter_ns: Some(50 * MS) },
    hold_ns: 2000 * MS,
};

fn stamp() -> Kind {
    Kind::Stamp { ssid: 9, key: None }
}

fn prober() -> Prober {
    Prober::new(stamp(), PLAN, 1000, 0)
}

/// A reflector's reply to a probe that it keeps for a while by its clock.
fn reflection(probe: &[u8], received_ns: u64, sent_ns: u64) -> Vec<u8> {
    let mut reflector = Reflector::new(Vec::new(), Limits { per_second: 1000, sessions: 0 });
    let asked = Asked { from: SocketAddr::from(([192, 0, 2, 1], 5)), ttl: 64, class: 0 };
    let (received, sent) = (Timestamp::of_unix_ns(received_ns), Timestamp::of_unix_ns(sent_ns));
    let mut out = [0; 128];
    let stay = Stay { now_ns: 0, received, sent };
    let (len, _) = reflector.reflect(probe, asked, stay, || None, &mut out).expect("a reflection");
    out[..len].to_vec()
}

/// Sends a probe, and returns it.
fn sent(prober: &mut Prober, now_ns: u64) -> Vec<u8> {
    let mut out = [0; 128];
    let (_, len) =
        prober.send(now_ns, Timestamp::of_unix_ns(now_ns), 0xabcd, None, &mut out).expect("one");
    out[..len].to_vec()
}

#[test]
fn delay_is_the_round_trip_less_the_stay() {
    let mut prober = prober();
    let probe = sent(&mut prober, 0);
    // The reflector's clock is a year ahead.
    let year = 31_536_000_000 * MS;
    let reply = reflection(&probe, year, year + 3 * MS);
    match prober.receive(10 * MS, &reply, None) {
        Reply::Answer(delay_ns) => assert!(delay_ns.abs_diff(7 * MS) <= 1, "{delay_ns}"),
        Reply::Refused => panic!("refused"),
    }
    assert_eq!((prober.counts(), prober.refusals()), ((1, 1), Refusals::default()));
}

/// Sends a probe behind so many packets, and takes the reflection of a far end with these counts behind so many.
fn counted(prober: &mut Prober, now_ns: u64, sent: u32, told: Counts, received: u32) -> Quality {
    let (mut probe, mut out) = ([0; 64], [0; 64]);
    let own = |packets| Some(Counted { by: 1, packets });
    let (_, len) =
        prober.send(now_ns, Timestamp::of_unix_ns(now_ns), 7, own(sent), &mut probe).expect("one");
    assert_eq!(len, 60);
    let mut reflector = Reflector::new(Vec::new(), Limits { per_second: 1000, sessions: 0 });
    let asked = Asked { from: SocketAddr::from(([192, 0, 2, 1], 5)), ttl: 64, class: 0 };
    let time = Timestamp::of_unix_ns(now_ns);
    let stay = Stay { now_ns, received: time, sent: time };
    let count = || Some(told).filter(|told| *told != NOTHING);
    let (len, _) =
        reflector.reflect(&probe[..len], asked, stay, count, &mut out).expect("a reflection");
    let reply = prober.receive(now_ns + MS, &out[..len], own(received));
    assert!(matches!(reply, Reply::Answer(_)));
    prober.tick(now_ns + MS);
    prober.quality()
}

const NOTHING: Counts = Counts { received: 0, sent: 0 };

#[test]
fn loss_of_packets_degrades_a_path_each_way() {
    for (lost_away, lost_back) in [(3, 0), (0, 3)] {
        let mut prober = prober().counting_packets();
        let mut now_ns = 0;
        let (mut sent, mut told, mut received) = (u32::MAX - 99, NOTHING, 77);
        for round in 0..60 {
            now_ns += INTERVAL_NS;
            let is_lossy = round >= 40;
            sent = sent.wrapping_add(25);
            told.received += 25 - if is_lossy { lost_away } else { 0 };
            told.sent += 25;
            received += 25 - if is_lossy { lost_back } else { 0 };
            let quality = counted(&mut prober, now_ns, sent, told, received);
            let losses = [quality.away, quality.back].map(|way| way.expect("counted").lost > 0);
            let is_seen = round >= 42;
            assert_eq!(losses, [is_seen && lost_away > 0, is_seen && lost_back > 0], "{round}");
            match round {
                10..40 => assert_eq!(prober.state(), State::Good),
                // More than 4 % of 500 packets: 21 of them, and two samples more.
                50.. => assert_eq!(prober.state(), State::Bad),
                _ => {}
            }
        }
        assert_eq!(prober.refusals(), Refusals::default());
        // A far end that counts no more says nothing.
        let quality = counted(&mut prober, now_ns + INTERVAL_NS, sent, NOTHING, received);
        assert_eq!((quality.away, quality.back), (None, None));
    }
}

#[test]
fn counts_that_cannot_be_are_told_by_kind() {
    let mut prober = prober().counting_packets();
    let told = Counts { received: 10_000, sent: 10_000 };
    counted(&mut prober, 0, 10_000, told, 10_000);
    let less = Counts { received: 10, sent: 10_000 };
    counted(&mut prober, INTERVAL_NS, 10_000, less, 10_000);
    let more = Counts { received: 9000, sent: 10_000 };
    counted(&mut prober, 2 * INTERVAL_NS, 10_000, more, 10_000);
    let Refusals { backward_count, surplus_count, .. } = prober.refusals();
    assert_eq!((backward_count, surplus_count), (1, 1));
    // Its answers count all the same.
    assert_eq!(prober.counts(), (3, 3));
}

#[test]
fn a_clock_that_goes_backwards_is_counted() {
    let mut prober = prober();
    let reply = reflection(&sent(&mut prober, 0), 500 * MS, 499 * MS);
    assert_eq!(prober.receive(10 * MS, &reply, None), Reply::Answer(10 * MS));
    assert_eq!(prober.refusals().reflector_clock, 1);
}

#[test]
fn a_negative_delay_is_counted() {
    let mut prober = prober();
    let reply = reflection(&sent(&mut prober, 0), 0, 11 * MS);
    assert_eq!(prober.receive(10 * MS, &reply, None), Reply::Answer(10 * MS));
    assert_eq!(prober.refusals().negative_delay, 1);
}

#[test]
fn a_reply_before_its_probe_is_counted() {
    let mut prober = prober();
    let reply = reflection(&sent(&mut prober, 10), 0, 0);
    assert_eq!(prober.receive(9, &reply, None), Reply::Answer(0));
    assert_eq!(prober.refusals().own_clock, 1);
}

#[test]
fn a_replay_is_counted() {
    let mut prober = prober();
    let reply = reflection(&sent(&mut prober, 0), 0, 0);
    assert_eq!(prober.receive(MS, &reply, None), Reply::Answer(MS));
    assert_eq!(prober.receive(2 * MS, &reply, None), Reply::Refused);
    assert_eq!((prober.refusals().duplicate, prober.counts()), (1, (1, 1)));
}

#[test]
fn a_reflection_of_what_was_never_sent_is_counted() {
    let mut prober = prober();
    let probe = sent(&mut prober, 0);
    let mut other_number = probe.clone();
    other_number[3] += 1;
    let mut behind = probe.clone();
    behind[3] -= 1;
    let mut other_time = probe.clone();
    other_time[11] ^= 1;
    let mut other_session = probe.clone();
    other_session[15] ^= 1;
    for forged in [other_number, behind, other_time, other_session] {
        assert_eq!(prober.receive(MS, &reflection(&forged, 0, 0), None), Reply::Refused);
    }
    assert_eq!((prober.refusals().unsent, prober.counts()), (4, (1, 0)));
    assert_eq!(prober.receive(MS, &probe[..43], None), Reply::Refused);
    assert_eq!(prober.refusals().malformed, 1);
}

#[test]
fn a_reflector_without_sessions_is_believed() {
    let mut prober = prober();
    let mut probe = sent(&mut prober, 0);
    probe[14..16].fill(0);
    assert_eq!(prober.receive(MS, &reflection(&probe, 0, 0), None), Reply::Answer(MS));
}

#[test]
fn a_late_reply_is_counted_and_its_probe_stays_lost() {
    let mut prober = prober();
    let probe = sent(&mut prober, 0);
    prober.tick(PLAN.timeout_ns);
    assert_eq!(prober.quality().lost, 1);
    assert_eq!(prober.receive(PLAN.timeout_ns, &reflection(&probe, 0, 0), None), Reply::Refused);
    // And one whose place was taken since.
    (1..=200).for_each(|turn| drop(sent(&mut prober, PLAN.timeout_ns + turn)));
    assert_eq!(prober.receive(PLAN.timeout_ns, &reflection(&probe, 0, 0), None), Reply::Refused);
    assert_eq!((prober.refusals().late, prober.counts().1), (2, 0));
}

#[test]
fn a_key_is_wanted_in_replies() {
    let key = Key::new(&[7; 32]).expect("a key");
    let kind = Kind::Stamp { ssid: 9, key: Some(key.clone()) };
    let mut prober = Prober::new(kind, PLAN, 0, 0);
    let probe = sent(&mut prober, 0);
    let mut reflector = Reflector::new(vec![key], Limits { per_second: 10, sessions: 0 });
    let asked = Asked { from: SocketAddr::from(([192, 0, 2, 1], 5)), ttl: 64, class: 0 };
    let stay = Stay { now_ns: 0, received: Timestamp(0), sent: Timestamp(0) };
    let mut out = [0; 112];
    reflector.reflect(&probe, asked, stay, || None, &mut out).expect("a reflection");
    let mut forged = out;
    forged[40] ^= 1;
    assert_eq!(prober.receive(MS, &forged, None), Reply::Refused);
    assert_eq!(prober.receive(MS, &out, None), Reply::Answer(MS));
    assert_eq!(prober.refusals().unauthentic, 1);
}

#[test]
fn echoes_come_back_as_they_went() {
    let mut prober = Prober::new(Kind::Echo, PLAN, u32::MAX, 0);
    for turn in 0..3 {
        let probe = sent(&mut prober, turn * INTERVAL_NS);
        assert_eq!(prober.receive(turn * INTERVAL_NS + MS, &probe, None), Reply::Answer(MS));
    }
    assert_eq!(prober.receive(0, &[0; 36], None), Reply::Refused);
    assert_eq!(prober.refusals().malformed, 1);
}

#[test]
fn who_comes_late_does_not_send_what_was_missed() {
    let mut prober = prober();
    sent(&mut prober, 0);
    assert_eq!(prober.due_ns(), INTERVAL_NS);
    sent(&mut prober, 51 * MS);
    assert_eq!(prober.due_ns(), 100 * MS);
    sent(&mut prober, 500 * MS);
    assert_eq!(prober.due_ns(), 550 * MS);
}

/// A history: of each probe its delay, or that it is lost. Returns changes of the state with their times.
fn lived(prober: &mut Prober, outcomes: &[Option<u64>]) -> Vec<(u64, State)> {
    let mut replies: Vec<(u64, Vec<u8>)> = Vec::new();
    let (mut changes, mut now_ns, mut next) = (Vec::new(), 0, 0);
    while next < outcomes.len() {
        let first = replies.iter().map(|(at_ns, _)| *at_ns).min();
        now_ns = first.into_iter().fold(prober.due_ns(), u64::min).max(now_ns);
        while let Some(at) = replies.iter().position(|(at_ns, _)| *at_ns <= now_ns) {
            let (_, reply) = replies.swap_remove(at);
            prober.receive(now_ns, &reply, None);
        }
        if prober.is_due(now_ns) {
            let probe = sent(prober, now_ns);
            if let Some(delay_ns) = outcomes.get(next).copied().flatten() {
                replies.push((now_ns + delay_ns, reflection(&probe, 0, 0)));
            }
            next += 1;
        }
        changes.extend(prober.tick(now_ns).map(|told| (now_ns, told.to)));
    }
    changes
}

#[test]
fn a_path_that_falls_silent_is_dead_within_300_ms() {
    // It dies right after a probe was answered, or right after one was sent.
    for delay_ms in [1, 10, 24] {
        let mut outcomes = vec![Some(delay_ms * MS); 100];
        let died_ns = 99 * INTERVAL_NS + delay_ms * MS;
        outcomes.extend([None; 20]);
        let changes = lived(&mut prober(), &outcomes);
        assert_eq!(changes[0].1, State::Good);
        assert_eq!(changes[1].1, State::Dead);
        let noticed_ns = changes[1].0 - died_ns;
        assert!(noticed_ns <= 300 * MS, "{} ms", noticed_ns / MS);
    }
}

#[test]
fn a_far_path_is_not_dead() {
    let changes = lived(&mut prober(), &[Some(700 * MS); 100]);
    // Beyond twice its bound, that is all.
    assert_eq!(changes.iter().map(|change| change.1).collect::<Vec<_>>(), [State::Bad]);
}

#[test]
fn five_in_a_hundred_are_seen() {
    let mut prober = prober();
    let outcomes: Vec<_> = (0..400).map(|at| (at % 20 != 7).then_some(MS)).collect();
    let changes = lived(&mut prober, &outcomes);
    assert_eq!(prober.quality().loss_ppm(), 50_000);
    assert_eq!(prober.state(), State::Bad);
    assert_eq!(changes[0].1, State::Good);
}

#[test]
fn a_dead_path_comes_back_slowly() {
    let mut outcomes = vec![Some(MS); 100];
    outcomes.extend([None; 40]);
    outcomes.extend([Some(MS); 400]);
    let changes = lived(&mut prober(), &outcomes);
    let states: Vec<_> = changes.iter().map(|change| change.1).collect();
    assert_eq!(states, [State::Good, State::Dead, State::Bad, State::Degraded, State::Good]);
    for pair in changes[2..].windows(2) {
        assert!(pair[1].0 - pair[0].0 >= PLAN.hold_ns);
    }
}

/// Delays of a good path, and one that is lost now and then.
fn history() -> impl Strategy<Value = Vec<Option<u64>>> {
    let outcome = prop_oneof![
        6 => (1u64..40).prop_map(|ms| Some(ms * MS)),
        2 => (40u64..400).prop_map(|ms| Some(ms * MS)),
        1 => Just(None),
    ];
    prop::collection::vec(outcome, 20..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn one_spike_is_no_flap(
        delays in prop::collection::vec(1u64..40, 60..200),
        at in 20usize..60,
        spike in prop_oneof![Just(None), (40u64..900).prop_map(|ms| Some(ms * MS))],
    ) {
        let mut outcomes: Vec<_> = delays.iter().map(|ms| Some(ms * MS)).collect();
        outcomes[at] = spike;
        let changes = lived(&mut prober(), &outcomes);
        prop_assert_eq!(changes.iter().map(|change| change.1).collect::<Vec<_>>(), [State::Good]);
    }

    #[test]
    fn every_step_up_was_held_for(outcomes in history()) {
        let mut last = (0, State::Untried);
        for change in lived(&mut prober(), &outcomes) {
            let from = last.1;
            if change.1 < from && !matches!(from, State::Dead | State::Untried) {
                prop_assert!(change.0 - last.0 >= PLAN.hold_ns, "{last:?} to {change:?}");
            }
            // A dead path is bad first, and no path becomes untried again.
            prop_assert!(from != State::Dead || change.1 == State::Bad);
            prop_assert_ne!(change.1, State::Untried);
            last = change;
        }
    }

    #[test]
    fn probes_are_answered_or_lost_once(outcomes in history()) {
        let plan = Plan { window: 512, ..PLAN };
        let mut prober = Prober::new(stamp(), plan, u32::MAX - 50, 0);
        lived(&mut prober, &outcomes);
        let (sent, answered) = prober.counts();
        prober.tick(u64::MAX);
        let quality = prober.quality();
        prop_assert_eq!(u64::from(quality.probes), sent);
        prop_assert_eq!(u64::from(quality.lost), sent - answered);
        prop_assert_eq!(prober.refusals().late + prober.refusals().unsent, 0);
    }

    #[test]
    fn it_is_never_due_in_the_past(outcomes in history()) {
        let mut prober = prober();
        let mut now_ns = 0;
        for _ in &outcomes {
            now_ns = prober.due_ns().max(now_ns);
            if prober.is_due(now_ns) {
                sent(&mut prober, now_ns);
            }
            prober.tick(now_ns);
            prop_assert!(prober.due_ns() > now_ns);
        }
    }
}

/// Sends a probe each interval, of which some are answered after `trip_ns`, until the state is another; the time from the first lost
/// probe on.
fn noticed_after_ns(interval_ns: u64, is_lost: impl Fn(u64) -> bool) -> u64 {
    let plan = Plan { interval_ns, ..PLAN };
    let trip_ns = 16 * MS;
    let mut prober = Prober::new(stamp(), plan, 7, 0);
    let mut replies = std::collections::VecDeque::new();
    let (mut first_ns, mut number, mut now_ns) = (None, 0, 0);
    loop {
        while replies.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            let (at_ns, reply): (u64, Vec<u8>) = replies.pop_front().expect("one");
            prober.receive(at_ns, &reply, None);
        }
        if prober.is_due(now_ns) {
            let probe = sent(&mut prober, now_ns);
            match is_lost(number) {
                true => _ = first_ns.get_or_insert(now_ns),
                false => replies.push_back((now_ns + trip_ns, reflection(&probe, 0, 0))),
            }
            number += 1;
        }
        let is_worse = prober.tick(now_ns).is_some_and(|told| told.to > State::Good);
        if let Some(first_ns) = first_ns.filter(|_| is_worse) {
            return now_ns - first_ns;
        }
        now_ns += MS;
        assert!(now_ns < 20_000 * MS, "never noticed");
    }
}

#[test]
fn a_third_lost_probe_is_noticed_before_any_time_out() {
    // Probes 100, 108 and 116 are lost: the third is certain once the next one's reply is there.
    let is_lost = |number| number >= 100 && number % 8 == 4;
    for interval_ns in [10 * MS, 50 * MS] {
        let after_ns = noticed_after_ns(interval_ns, is_lost);
        let third_ns = 16 * interval_ns;
        assert!(after_ns < third_ns + 2 * interval_ns + 40 * MS, "{after_ns}");
        assert!(after_ns >= third_ns, "{after_ns}");
    }
}

#[test]
fn probes_that_are_forgotten_are_lost_once() {
    let mut prober = prober();
    // 20 may wait for replies at a time: 32 are remembered.
    (0..40).for_each(|number| _ = sent(&mut prober, number * INTERVAL_NS));
    assert_eq!(prober.quality().lost, 8);
    prober.tick(40 * INTERVAL_NS + PLAN.timeout_ns);
    let Quality { probes, lost, recently_lost, .. } = prober.quality();
    assert_eq!((probes, lost, recently_lost), (40, 40, 40));
}

#[test]
fn probes_that_wait_longer_than_memory_reaches_are_no_plan() {
    let waiting = |probes| Plan { timeout_ns: probes * INTERVAL_NS, ..PLAN };
    assert!(waiting(MOST as u64 - 3).is_rememberable());
    assert!(!waiting(MOST as u64 - 2).is_rememberable());
}

#[test]
fn a_reply_that_was_overtaken_makes_the_silence_behind_it_no_longer() {
    let mut prober = prober();
    let [slow, fast] = [0, 1].map(|number| sent(&mut prober, number * INTERVAL_NS));
    prober.receive(51 * MS, &reflection(&fast, 0, 0), None);
    prober.receive(52 * MS, &reflection(&slow, 0, 0), None);
    (2..6).for_each(|number| _ = sent(&mut prober, number * INTERVAL_NS));
    prober.tick(500 * MS);
    assert_eq!(prober.state(), State::Untried, "four are without a reply");
    sent(&mut prober, 500 * MS);
    prober.tick(700 * MS);
    assert_eq!(prober.state(), State::Dead);
}

#[test]
fn patience_is_half_an_interval_at_least_and_a_time_out_at_most() {
    let mut near = prober();
    sent(&mut near, 0);
    let answered = sent(&mut near, 10 * MS);
    near.receive(11 * MS, &reflection(&answered, 0, 0), None);
    assert_eq!(near.due_ns(), INTERVAL_NS / 2, "the first probe is lost then");
    let mut far = prober();
    let answered = sent(&mut far, 0);
    far.receive(900 * MS, &reflection(&answered, 0, 0), None);
    (0..5).for_each(|number| _ = sent(&mut far, 1000 * MS + number * INTERVAL_NS));
    let last_ns = 1000 * MS + 4 * INTERVAL_NS;
    far.tick(last_ns + PLAN.timeout_ns - 1);
    assert_eq!(far.state(), State::Untried);
    far.tick(last_ns + PLAN.timeout_ns);
    assert_eq!(far.state(), State::Dead);
}

#[test]
fn answers_of_before_a_loss_or_a_silence_do_not_count() {
    let answered = |prober: &mut Prober, at_ms: u64| {
        let probe = sent(prober, at_ms * MS);
        prober.receive((at_ms + 1) * MS, &reflection(&probe, 0, 0), None);
        prober.tick((at_ms + 1) * MS);
        prober.state()
    };
    // A path is tried when five in a row were answered.
    let mut prober = Prober::new(stamp(), Plan { timeout_ns: 60 * MS, ..PLAN }, 1000, 0);
    (0..4).for_each(|number| _ = answered(&mut prober, 50 * number));
    sent(&mut prober, 200 * MS);
    prober.tick(260 * MS);
    for at_ms in [270, 320, 370, 420] {
        assert_eq!(answered(&mut prober, at_ms), State::Untried, "{at_ms}");
    }
    assert_ne!(answered(&mut prober, 470), State::Untried);
    // And a dead one comes back with three, long before its lost ones have timed out.
    let mut prober = self::prober();
    (0..10).for_each(|number| _ = answered(&mut prober, 50 * number));
    (10..15).for_each(|number| _ = sent(&mut prober, number * INTERVAL_NS));
    prober.tick(760 * MS);
    assert_eq!(prober.state(), State::Dead);
    assert_eq!(
        [800, 850, 900].map(|at_ms| answered(&mut prober, at_ms)),
        [State::Dead, State::Dead, State::Bad]
    );
}

#[test]
fn it_is_due_when_an_overtaken_probe_is_taken_for_lost() {
    let mut prober = prober();
    sent(&mut prober, 0);
    let answered = sent(&mut prober, 50 * MS);
    prober.receive(90 * MS, &reflection(&answered, 0, 0), None);
    sent(&mut prober, 100 * MS);
    // A reply takes 40 ms, and four times 20 ms are patience.
    assert_eq!(prober.due_ns(), 120 * MS);
    prober.tick(119 * MS);
    assert_eq!(prober.quality().recently_lost, 0);
    prober.tick(120 * MS);
    assert_eq!(prober.quality().recently_lost, 1);
}

#[test]
fn a_reply_that_was_overtaken_is_no_loss() {
    let bounds = Bounds { jitter_ns: None, ..PLAN.bounds };
    let mut prober = Prober::new(stamp(), Plan { bounds, ..PLAN }, 1000, 0);
    for number in 0..40 {
        let now_ns = number * INTERVAL_NS;
        let probe = sent(&mut prober, now_ns);
        // Each fourth reply comes after the next probe's.
        let trip_ns = if number > 10 && number % 4 == 0 { 180 * MS } else { 10 * MS };
        prober.tick(now_ns + 49 * MS);
        if trip_ns < INTERVAL_NS {
            prober.receive(now_ns + trip_ns, &reflection(&probe, 0, 0), None);
        } else {
            let next = sent(&mut prober, now_ns + 20 * MS);
            prober.receive(now_ns + 30 * MS, &reflection(&next, 0, 0), None);
            prober.tick(now_ns + 49 * MS);
            prober.receive(now_ns + trip_ns, &reflection(&probe, 0, 0), None);
        }
    }
    prober.tick(40 * INTERVAL_NS);
    assert_eq!((prober.quality().recently_lost, prober.quality().lost), (0, 0));
    assert_eq!(prober.state(), State::Good);
}

#[test]
fn consent_to_copies_comes_with_the_replies_and_goes_with_them() {
    for key in [None, Some(Key::new(&[7; 32]).expect("a key"))] {
        let limits = Limits { per_second: 1000, sessions: 4 };
        let reflector = || Reflector::new(key.iter().cloned().collect(), limits);
        let labels = Arc::new(Labels::default());
        let mut removing = reflector().with_remover(Remover::new(Arc::clone(&labels), 77));
        let mut prober = Prober::new(Kind::Stamp { ssid: 9, key: key.clone() }, PLAN, 1000, 0)
            .asking_for_removal(5);
        let mut answered = |reflector: &mut Reflector, at_ms: u64| {
            let (mut probe, mut out) = ([0; 256], [0; 256]);
            let (_, len) =
                prober.send(at_ms * MS, Timestamp(1 << 40), 1, None, &mut probe).expect("one");
            let asked = Asked { from: SocketAddr::from(([192, 0, 2, 1], 5)), ttl: 64, class: 0 };
            let stay = Stay { now_ns: 0, received: Timestamp(0), sent: Timestamp(0) };
            let (len, _) =
                reflector.reflect(&probe[..len], asked, stay, || None, &mut out).expect("one");
            assert!(matches!(prober.receive(at_ms * MS, &out[..len], None), Reply::Answer(_)));
            prober.removal()
        };
        let removal = answered(&mut removing, 0).expect("consent");
        assert_eq!((removal.by, labels.sender(removal.label)), (77, Some(5)));
        assert_eq!(answered(&mut removing, 50), Some(removal));
        assert_eq!(answered(&mut reflector(), 100), None, "a reflector that removes none");
    }
}
