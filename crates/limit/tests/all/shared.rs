//! Workers with leases, one after the other in simulated time: never above the burst, and within 1 % of the rate.

use std::sync::Arc;

use limit::{Algorithm, Colour, Fill, LimitPath, Limiter, Meter, Settings, Unit};
use proptest::prelude::*;

use crate::exact::{gaps, settings};

/// Some workers of one limiter.
struct Workers {
    limiter: Limiter,
    paths: Vec<LimitPath>,
}

impl Workers {
    fn of(limiter: &Limiter, count: usize) -> Workers {
        Workers {
            limiter: limiter.clone(),
            paths: (0..count).map(|worker| LimitPath::new(limiter, worker)).collect(),
        }
    }

    fn pass(&mut self, worker: usize, len: usize, now_ns: u64) -> Option<Colour> {
        let passed = self.paths[worker].pass(None, (len, 0), now_ns);
        passed.ok().map(|passed| passed.colour)
    }

    fn rest(&self, worker: usize) {
        self.limiter.give_back(worker);
    }
}

/// Takes what passed from buckets of the whole burst: false where they did not hold it.
struct Bound {
    settings: Settings,
    meter: Meter,
}

impl Bound {
    fn new(settings: Settings) -> Bound {
        Bound { settings, meter: Meter::full(&settings, 0) }
    }

    fn holds(&mut self, len: usize, colour: Colour, now_ns: u64) -> bool {
        let Bound { settings, meter } = self;
        meter.refill(settings, now_ns);
        let [first, second] = meter.levels();
        let cost = settings.cost(len);
        let is_there = match (settings.algorithm, colour) {
            (Algorithm::TwoRates { .. }, Colour::Green) => first >= cost && second >= cost,
            (_, Colour::Green) => first >= cost,
            _ => second >= cost,
        };
        meter.take(settings, cost, colour);
        is_there
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Where the second bucket fills from the overflow of the first, leases decide when that is: not held against
    /// single packets here, but in sum below.
    #[test]
    fn together_workers_never_pass_more_than_the_buckets_hold(
        settings in settings().prop_filter("of its own clock", |s| !s.overflows()),
        count in 1..9usize,
        packets in prop::collection::vec((0..9usize, gaps(), 20..1500usize, 0..20u8), 1..300),
    ) {
        let limiter = Limiter::new("l", settings, None, (count, 0));
        let (mut workers, mut bound) = (Workers::of(&limiter, count), Bound::new(settings));
        let mut now_ns = 0;
        for (worker, gap, len, idle) in packets {
            now_ns += gap;
            let worker = worker % count;
            if idle == 0 {
                workers.rest(worker);
            }
            if let Some(colour) = workers.pass(worker, len, now_ns) {
                prop_assert!(bound.holds(len, colour, now_ns), "{colour:?} at {now_ns}");
            }
            for (level, fill) in limiter.levels(now_ns).into_iter().zip([Some(settings.first()), settings.second()]) {
                let depth = fill.map_or(0, |fill| u128::from(fill.burst) * 1_000_000_000);
                prop_assert!(u128::from(level) <= depth, "{level} held of {depth}");
            }
        }
    }

    #[test]
    fn with_one_rate_both_buckets_together_are_never_passed(
        rate in 1..10_000_000_000u64,
        bursts in (12_000..4_000_000u64, 12_000..4_000_000u64),
        count in 1..5usize,
        packets in prop::collection::vec((0..5usize, gaps(), 20..1500usize), 1..300),
    ) {
        let committed = Fill { rate, burst: bursts.0 };
        let algorithm = Algorithm::OneRate { committed, excess_burst: bursts.1 };
        let settings = Settings { algorithm, ..Settings::single(1, 1500) };
        let limiter = Limiter::new("l", settings, None, (count, 0));
        // Green alone is a bucket of the first burst; green and yellow are one of both bursts.
        let mut green = Bound::new(Settings { algorithm: Algorithm::Single(committed), ..settings });
        let both = Fill { rate, burst: bursts.0 + bursts.1 };
        let mut all = Bound::new(Settings { algorithm: Algorithm::Single(both), ..settings });
        let mut workers = Workers::of(&limiter, count);
        let mut now_ns = 0;
        for (worker, gap, len) in packets {
            now_ns += gap;
            match workers.pass(worker % count, len, now_ns) {
                Some(Colour::Green) => {
                    prop_assert!(green.holds(len, Colour::Green, now_ns));
                    prop_assert!(all.holds(len, Colour::Green, now_ns));
                }
                Some(_) => prop_assert!(all.holds(len, Colour::Green, now_ns)),
                None => {}
            }
        }
    }
}

/// Offers `len`-byte packets at twice the rate for a second behind the burst; returns what passes in that second as a
/// part of the rate.
fn part_of_rate(limiter: &Limiter, (workers, len): (usize, usize), begin_ns: u64) -> f64 {
    let settings = *limiter.settings();
    let rate = settings.first().rate;
    let cost = settings.cost(len) / 1_000_000_000;
    let mut sides = Workers::of(limiter, workers);
    // The burst is spent first.
    while sides.pass(0, len, begin_ns).is_some() {}
    let offered = 2 * rate / cost;
    let mut passed = 0;
    for n in 0..offered {
        let now_ns = begin_ns + (u128::from(n + 1) * 1_000_000_000 / u128::from(offered)) as u64;
        passed += u64::from(sides.pass(n as usize % workers, len, now_ns).is_some());
    }
    (passed * cost) as f64 / rate as f64
}

#[test]
fn within_a_per_cent_of_the_rate_over_a_second() {
    for len in [64, 1400] {
        for (rate, burst, workers) in [
            (100_000_000, 64_000, 1),
            (40_000_000, 1_000_000, 8),
            (40_000_000, 1500, 4),
            (40_000_000, 20_000, 2),
        ] {
            let limiter = Limiter::new("l", Settings::single(rate, burst), None, (workers, 0));
            let part = part_of_rate(&limiter, (workers, len), 0);
            assert!((0.99..=1.01).contains(&part), "{part} at {rate}, {burst}, {workers}, {len}");
        }
    }
}

#[test]
fn so_do_a_hundred_thousand_limiters() {
    let settings = Settings::single(10_000_000, 15_000);
    let limiters: Vec<_> =
        (0..100_000).map(|n| Limiter::new(&format!("l{n}"), settings, None, (2, 0))).collect();
    // Each of them passes its burst, and no more.
    let mut sides: Vec<_> = limiters.iter().map(|limiter| LimitPath::new(limiter, 0)).collect();
    for path in &mut sides {
        let passed = (0..12).filter(|_| path.pass(None, (1400, 0), 0).is_ok());
        assert_eq!(passed.count(), 10);
    }
    drop(sides);
    for limiter in limiters.iter().step_by(10_000) {
        for len in [64, 1400] {
            let begin_ns = if len == 64 { 10_000_000_000 } else { 20_000_000_000 };
            let part = part_of_rate(limiter, (2, len), begin_ns);
            assert!((0.99..=1.01).contains(&part), "{} {len}: {part}", limiter.name());
        }
    }
}

#[test]
fn a_packet_takes_from_all_or_from_none() {
    let of = |burst| Settings::single(8_000_000, burst);
    let total = Arc::new(Limiter::new("total", of(3000), None, (1, 0)));
    let make = |name, burst| Limiter::new(name, of(burst), Some(Arc::clone(&total)), (1, 0));
    let (a, b) = (make("a", 1500), make("b", 4500));
    let pass = |limiter: &Limiter| LimitPath::new(limiter, 0).pass(None, (1500, 0), 0);
    assert!(pass(&a).is_ok());
    // a's own bucket is empty, and the parent is not asked.
    assert_eq!(pass(&a).map_err(|refused| refused.level), Err(0));
    assert!(pass(&b).is_ok());
    // The parent is empty, and b keeps its tokens.
    assert_eq!(pass(&b).map_err(|refused| refused.level), Err(1));
    let second = |limiter: &Limiter| limiter.levels(0)[0] / 8_000_000_000;
    assert_eq!((second(&a), second(&b), second(&total)), (0, 3000, 0));
    let packets = |limiter: &Limiter| limiter.counts().packets;
    assert_eq!((packets(&a), packets(&b)), ([1, 0, 1], [1, 0, 0]));
    assert_eq!(packets(&total), [2, 0, 1]);
}

#[test]
fn leases_come_back_when_a_worker_is_idle() {
    let settings = Settings::single(1_000_000_000, 1_000_000);
    let limiter = Limiter::new("l", settings, None, (2, 0));
    assert!(limiter.quantum() >= settings.cost(1500));
    let mut workers = Workers::of(&limiter, 2);
    assert!(workers.pass(0, 1000, 0).is_some());
    workers.rest(0);
    // All of the pool can be spent by the other, to the packet.
    let passed = (0..).take_while(|_| workers.pass(1, 1000, 0).is_some()).count() as u64;
    let most = 999_000 - 2 * limiter.quantum() / 8_000_000_000;
    assert!((most - 1001..=most).contains(&(passed * 1000)), "{passed} of {most}");
}

#[test]
fn other_settings_keep_counters_and_what_buckets_hold() {
    let settings = Settings::single(8_000_000, 15_000);
    let limiter = Limiter::new("l", settings, None, (1, 0));
    let mut workers = Workers::of(&limiter, 1);
    (0..4).for_each(|_| assert!(workers.pass(0, 1500, 0).is_some()));
    let same = limiter.changed(settings, None, (1, 0));
    assert!(same.shares_state(&limiter));
    workers.rest(0);
    let other = limiter.changed(Settings::single(16_000_000, 15_000), None, (1, 0));
    assert_eq!(other.counts().packets, [4, 0, 0]);
    let mut workers = Workers::of(&other, 1);
    assert_eq!((0..20).filter(|_| workers.pass(0, 1500, 0).is_some()).count(), 6);
    let fewer = Limiter::new("m", settings, None, (4, 0));
    Workers::of(&fewer, 4).pass(3, 100, 0);
    assert_eq!(fewer.changed(settings, None, (1, 0)).counts().packets, [1, 0, 0]);
    // Bits are no packets.
    let packets = Settings { unit: Unit::Packets, ..settings };
    assert_eq!(limiter.changed(packets, None, (1, 0)).levels(0), [0, 0]);
}
