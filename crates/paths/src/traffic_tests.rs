//! Accounts of paths that lose, reorder, delay and count as paths, reflectors and workers do.

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const INTERVAL_NS: u64 = 50 * MS;

/// Random numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    /// Even between 0 and 1.
    fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, with a deviation of 1: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.even()).sum::<f64>() - 6.0
    }
}

/// A path, whose traffic comes in bursts.
#[derive(Clone, Copy, Debug)]
struct Scene {
    packets_a_second: u64,
    /// Packets of a burst, 20 microseconds one behind the other.
    burst: u64,
    loss: f64,
    /// Deviation of delays of 50 ms: packets overtake one another.
    jitter_ns: u64,
    /// Time after a probe's arrival in which packets are counted with it.
    ahead_ns: u64,
    /// Loss and jitter begin.
    from_ns: u64,
}

const CALM: Scene =
    Scene { packets_a_second: 500, burst: 1, loss: 0.0, jitter_ns: 0, ahead_ns: 0, from_ns: 0 };

impl Scene {
    /// Time of arrival of what is sent.
    fn arrival(&self, chance: &mut Chance, at_ns: u64) -> u64 {
        let spread = if at_ns < self.from_ns { 0.0 } else { self.jitter_ns as f64 };
        let off = if spread > 0.0 { spread * chance.normal() } else { 0.0 };
        at_ns + (50.0 * MS as f64 + off).max(0.0) as u64
    }

    /// Samples of some seconds: when each is known, its counts, and the round trip.
    fn samples(&self, seed: u64, seconds: u64) -> Vec<(u64, Sample, u64)> {
        let mut chance = Chance(seed);
        let bursts = (seconds * self.packets_a_second).div_ceil(self.burst);
        let gap_ns = S * self.burst / self.packets_a_second;
        let mut sent = Vec::new();
        for burst in 0..bursts {
            let at_ns = burst * gap_ns + (chance.even() * gap_ns as f64) as u64;
            sent.extend((0..self.burst).map(|packet| at_ns + packet * 20_000));
        }
        let mut received = Vec::new();
        for at_ns in &sent {
            let is_lost = *at_ns >= self.from_ns && chance.even() < self.loss;
            if !is_lost {
                received.push(self.arrival(&mut chance, *at_ns));
            }
        }
        sent.sort_unstable();
        received.sort_unstable();
        let count = |times: &[u64], until_ns| times.partition_point(|at_ns| *at_ns < until_ns);
        let probes = 1..seconds * S / INTERVAL_NS;
        let mut samples: Vec<_> = probes
            .filter_map(|probe| {
                let at_ns = probe * INTERVAL_NS;
                let there_ns = self.arrival(&mut chance, at_ns);
                let back_ns = self.arrival(&mut chance, there_ns);
                let is_lost = at_ns >= self.from_ns && chance.even() < self.loss;
                let counted = count(&received, there_ns + self.ahead_ns + 1);
                let (sent, received) = (count(&sent, at_ns) as u32, counted as u32);
                let sample = Sample { by: 1, sent, received };
                (!is_lost).then_some((back_ns, sample, back_ns - at_ns))
            })
            .collect();
        samples.sort_by_key(|(back_ns, ..)| *back_ns);
        // Replies that were overtaken do not count.
        let mut newest = 0;
        samples.retain(|(_, Sample { sent, .. }, _)| {
            let is_newer = *sent >= newest;
            newest = newest.max(*sent);
            is_newer
        });
        samples
    }

    /// The loss that is judged by after each sample, and when.
    fn judged(&self, seed: u64, seconds: u64) -> Vec<(u64, u32)> {
        let mut account = Account::default();
        let each = self.samples(seed, seconds).into_iter().map(|(at_ns, sample, trip_ns)| {
            assert_eq!(account.add(at_ns, sample, trip_ns), Ok(()), "{self:?} {seed}");
            (at_ns, account.loss().judged_ppm())
        });
        each.collect()
    }
}

/// Tenths of the times, in milliseconds, after which loss is beyond a bound; `None` where it is not within three seconds.
fn until_beyond(scene: Scene, bound_ppm: u32, seeds: u64) -> Vec<u64> {
    let scene = Scene { from_ns: 2 * S, ..scene };
    let mut after: Vec<u64> = (0..seeds)
        .map(|seed| {
            let judged = scene.judged(seed, 6);
            let beyond = judged.iter().find(|(_, ppm)| *ppm > bound_ppm);
            beyond.map_or(u64::MAX, |(at_ns, _)| (at_ns - scene.from_ns) / MS)
        })
        .collect();
    after.sort_unstable();
    after
}

#[test]
fn loss_of_calls_is_seen_within_a_second() {
    // Ten calls of 50 packets a second. The round trip of 100 ms is in these times.
    let calls = Scene { loss: 0.05, ..CALM };
    for (bound_ppm, half_ms, nearly_all_ms) in [(10_000, 550, 850), (20_000, 650, 1000)] {
        let after = until_beyond(calls, bound_ppm, 1000);
        let (half, nearly_all) = (after[500], after[980]);
        assert!(half <= half_ms && nearly_all <= nearly_all_ms, "{half} {nearly_all} ms");
    }
    let heavy = Scene { packets_a_second: 20_000, ..calls };
    assert!(until_beyond(heavy, 20_000, 20)[19] <= 750);
}

#[test]
fn nothing_is_lost_where_nothing_is_lost() {
    let mut judgements = 0;
    let mut scenes = Vec::new();
    for packets_a_second in [30, 500, 2000] {
        for (burst, ahead_ns) in [(1, 0), (1, MS), (40, 0), (40, MS), (200, 5 * MS)] {
            for jitter_ns in [0, 2 * MS, 10 * MS, 30 * MS] {
                scenes.push(Scene { packets_a_second, burst, ahead_ns, jitter_ns, ..CALM });
            }
        }
    }
    for scene in scenes {
        for (seed, from_ns) in (0..4).flat_map(|seed| [(seed, 0), (seed, 5 * S)]) {
            let judged = Scene { from_ns, ..scene }.judged(seed, 10);
            judgements += judged.len();
            let worst = judged.iter().map(|(_, ppm)| *ppm).max();
            assert_eq!(worst, Some(0), "{scene:?} {seed} {from_ns}");
        }
    }
    assert!(judgements > 60_000, "{judgements}");
}

#[test]
fn chance_is_rarely_taken_for_loss() {
    let mut alarms = 0;
    for packets_a_second in [100, 400, 800, 2000, 10_000] {
        let scene = Scene { packets_a_second, loss: 0.001, ..CALM };
        for seed in 0..20 {
            let judged = scene.judged(seed, 60);
            alarms += judged.iter().filter(|(_, ppm)| *ppm > 10_000).count();
        }
    }
    // In 120 000 judgements.
    assert_eq!(alarms, 0);
}

#[test]
fn loss_is_measured_as_it_is() {
    let scene = Scene { packets_a_second: 20_000, loss: 0.1, ..CALM };
    let mut account = Account::default();
    for (at_ns, sample, trip_ns) in scene.samples(3, 5) {
        account.add(at_ns, sample, trip_ns).expect("plausible");
    }
    let loss = account.loss();
    assert!(loss.sent.abs_diff(20_000) <= 1200, "{loss:?}");
    assert!(loss.ppm().abs_diff(100_000) <= 10_000, "{loss:?}");
    assert!(loss.judged_ppm() <= loss.ppm() && loss.judged_ppm() > 90_000, "{loss:?}");
}

/// An account of a path with 100 packets in each interval, none of which is lost; counts go round in its midst.
fn settled() -> (Account, Sample, u64) {
    let (mut account, mut now_ns) = (Account::default(), 0);
    let mut sample = Sample { by: 1, sent: u32::MAX - 1500, received: 50_u32.wrapping_sub(2000) };
    for _ in 0..40 {
        now_ns += INTERVAL_NS;
        sample.sent = sample.sent.wrapping_add(100);
        sample.received = sample.received.wrapping_add(100);
        assert_eq!(account.add(now_ns, sample, MS), Ok(()));
    }
    (account, sample, now_ns)
}

/// Adds samples of 100 packets each, so many of which are lost.
fn go_on(account: &mut Account, from: &mut Sample, now_ns: &mut u64, samples: u32, lost: u32) {
    for _ in 0..samples {
        *now_ns += INTERVAL_NS;
        from.sent = from.sent.wrapping_add(100);
        from.received = from.received.wrapping_add(100 - lost);
        assert_eq!(account.add(*now_ns, *from, MS), Ok(()));
    }
}

#[test]
fn counts_go_round_and_loss_is_over_after_a_second() {
    let (mut account, mut sample, mut now_ns) = settled();
    assert_eq!(account.loss(), TrafficLoss { sent: 2000, lost: 0, late: 0 });
    go_on(&mut account, &mut sample, &mut now_ns, 1, 50);
    assert_eq!(account.loss().lost, 0, "they may be late");
    go_on(&mut account, &mut sample, &mut now_ns, 2, 0);
    assert_eq!((account.loss().lost, account.loss().judged_ppm()), (50, 25_000));
    go_on(&mut account, &mut sample, &mut now_ns, 21, 0);
    assert_eq!(account.loss(), TrafficLoss { sent: 2000, lost: 0, late: 0 });
    // Seven may be chance.
    go_on(&mut account, &mut sample, &mut now_ns, 1, 7);
    go_on(&mut account, &mut sample, &mut now_ns, 2, 0);
    assert_eq!((account.loss().lost, account.loss().judged_ppm()), (7, 0));
}

#[test]
fn packets_that_come_late_are_not_lost() {
    let (mut account, mut sample, mut now_ns) = settled();
    for _ in 0..100 {
        go_on(&mut account, &mut sample, &mut now_ns, 2, 40);
        sample.received = sample.received.wrapping_add(80);
        go_on(&mut account, &mut sample, &mut now_ns, 1, 0);
        assert_eq!(account.loss().lost, 0);
    }
}

#[test]
fn a_surplus_is_carried_over() {
    let (mut account, mut sample, mut now_ns) = settled();
    // A burst behind the probe is counted with it, and then not again.
    sample.received = sample.received.wrapping_add(60);
    go_on(&mut account, &mut sample, &mut now_ns, 1, 0);
    sample.received = sample.received.wrapping_sub(60);
    go_on(&mut account, &mut sample, &mut now_ns, 5, 0);
    assert_eq!(account.loss().lost, 0);
}

#[test]
fn another_sa_begins_a_new_account() {
    let (mut account, mut sample, mut now_ns) = settled();
    go_on(&mut account, &mut sample, &mut now_ns, 5, 20);
    assert_eq!(account.loss().lost, 60);
    sample = Sample { by: 2, sent: 5, received: 3 };
    go_on(&mut account, &mut sample, &mut now_ns, 1, 0);
    assert_eq!(account.loss(), TrafficLoss::default());
    go_on(&mut account, &mut sample, &mut now_ns, 30, 0);
    assert_eq!(account.loss(), TrafficLoss { sent: 2000, lost: 0, late: 0 });
    account.stop();
    assert_eq!((account.loss(), account.is_open()), (TrafficLoss::default(), false));
}

#[test]
fn counts_that_cannot_be_begin_a_new_account() {
    for (sent, received, wrong) in [
        (100, 5000_u32.wrapping_neg(), Wrong::Backwards),
        (5000_u32.wrapping_neg(), 100, Wrong::Backwards),
        (100, 100 + 100 + 80 + 4097, Wrong::Surplus),
    ] {
        let (mut account, mut sample, mut now_ns) = settled();
        go_on(&mut account, &mut sample, &mut now_ns, 4, 20);
        assert_eq!(account.loss().lost, 40);
        sample.sent = sample.sent.wrapping_add(sent);
        sample.received = sample.received.wrapping_add(received);
        let told = account.add(now_ns + INTERVAL_NS, sample, MS);
        assert_eq!((told, account.loss()), (Err(wrong), TrafficLoss::default()));
        go_on(&mut account, &mut sample, &mut now_ns, 30, 0);
        assert_eq!(account.loss().lost, 0);
    }
}

#[test]
fn a_probe_that_was_overtaken_is_no_lie() {
    let (mut account, mut sample, now_ns) = settled();
    sample.received = sample.received.wrapping_sub(20);
    assert_eq!(account.add(now_ns + INTERVAL_NS, sample, MS), Ok(()));
    assert_eq!((account.loss(), account.is_open()), (TrafficLoss::default(), true));
}

#[test]
fn who_claims_a_little_more_each_time_is_found_out() {
    let (mut account, mut sample, mut now_ns) = settled();
    let found = (0..1000).any(|_| {
        now_ns += INTERVAL_NS;
        sample.sent = sample.sent.wrapping_add(100);
        sample.received = sample.received.wrapping_add(110);
        account.add(now_ns, sample, MS) == Err(Wrong::Surplus)
    });
    assert!(found);
}
