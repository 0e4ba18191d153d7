//! Limits that shape: what waits, in which order it leaves, at what rate, and what becomes of it when things change.

use std::collections::VecDeque;
use std::sync::Arc;

use dataplane::{Command, Each, RateRule, RateRules, TrafficDirection, TrafficMatch};
use limit::{Bounds, CLASSES, Class, Colour, Limiter, Meter, Settings};
use outcome::DropReason;
use proptest::prelude::*;

use crate::packets::Ip;
use crate::support::{Gateway, Pair, SIZES, Side, Sizes, Spec, WAN};

/// Bytes a second, the burst in bytes, and what waits at most.
pub fn settings(rate: u64, burst: u64, (packets, bytes): (u32, u32)) -> Settings {
    Settings { queue: Some(Bounds { packets, bytes }), ..Settings::single(rate * 8, burst) }
}

const WIDE: (u32, u32) = (200, 200_000);

fn limiter(settings: Settings, parent: Option<Arc<Limiter>>) -> Arc<Limiter> {
    Arc::new(Limiter::new("shaped", settings, parent, (4, 0)))
}

fn publish(g: &mut Gateway, limiter: &Arc<Limiter>, direction: TrafficDirection) {
    let matches = TrafficMatch { direction, ..TrafficMatch::default() };
    let rule = RateRule { matches, each: Each::All, limiter: Arc::clone(limiter) };
    publish_all(g, vec![rule]);
}

fn publish_all(g: &mut Gateway, rules: Vec<RateRule>) {
    g.rates = Arc::new(RateRules::new(rules));
    g.set_topology(1500, Vec::new());
}

/// A gateway that shapes what it protects.
pub fn shaped(settings: Settings) -> (Gateway, Arc<Limiter>) {
    with_sizes(settings, SIZES)
}

fn with_sizes(settings: Settings, sizes: Sizes) -> (Gateway, Arc<Limiter>) {
    let mut g = Gateway::with_sizes(Side::A, sizes);
    g.protect(&Spec::default());
    let limiter = limiter(settings, None);
    publish(&mut g, &limiter, TrafficDirection::Out);
    (g, limiter)
}

/// A packet with a number, of a flow.
pub fn packet(number: u16, dscp: u8, port: u16, len: usize) -> Vec<u8> {
    let ends = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let mut payload = vec![7; len - 28];
    payload[..2].copy_from_slice(&number.to_be_bytes());
    Ip { traffic_class: dscp << 2, ..ends }.udp(port, 2000, &payload)
}

/// Runs a gateway at its time, and has the other one open what leaves: its numbers.
fn numbers(pair: &mut Pair) -> Vec<u16> {
    pair.a.run();
    pair.carry(Side::A);
    let number = |packet: &Vec<u8>| u16::from_be_bytes([packet[28], packet[29]]);
    pair.b.lan_out().iter().map(number).collect()
}

/// Makes a gateway drop a packet that waits, or would.
pub fn produce(reason: DropReason) -> Gateway {
    let (mut g, _) = shaped(settings(1, 1400, (2, 2800)));
    let full = u16::from(reason == DropReason::LimitQueueFull);
    (0..3 + full).for_each(|n| g.put_lan(&packet(n, 0, 1000, 1400)));
    g.run();
    g.pass_ns(5_000_000_000);
    g
}

#[test]
fn a_rate_is_kept_to_one_percent_and_the_burst_never_passed() {
    let (rate, burst, len) = (1_000_000, 3000, 500);
    let settings = settings(rate, burst, (40, 40_000));
    let sizes = Sizes { chunks: 6000, stock: 4000, port_limit: 512 };
    let (mut g, limiter) = with_sizes(settings, sizes);
    let mut bucket = Meter::full(&settings, 0);
    let (mut passed, begin) = (0, g.now.ns);
    for ms in 0..1000_u64 {
        (0..4).for_each(|n| g.put_lan(&packet(n, 0, 1000 + n % 3, len)));
        g.run();
        for sealed in g.wan_out() {
            assert!(sealed.len() > len);
            bucket.refill(&settings, g.now.ns);
            let cost = settings.cost(len);
            assert_eq!(bucket.colour(&settings, cost, Colour::Green), Colour::Green, "{ms}");
            bucket.take(&settings, cost, Colour::Green);
            passed += len as u64;
        }
        g.now.ns += 1_000_000;
    }
    assert_eq!(g.now.ns - begin, 1_000_000_000);
    assert!((rate * 99 / 100..=rate + burst).contains(&passed), "{passed}");
    let counts = limiter.counts();
    assert_eq!((counts.bytes[0], counts.packets[0]), (passed, passed / len as u64));
    assert_eq!(g.drops(), [(DropReason::LimitQueueFull, counts.packets[2])]);
    // A queue of 40 packets is 20 ms of the rate.
    let usual = limiter.waited()[Class::Usual as usize];
    assert!((15_000_000..=21_000_000).contains(&usual.mean_ns()), "{usual:?}");
    assert!(usual.longest_ns <= 21_000_000 && usual.now == 40, "{usual:?}");
}

#[test]
fn classes_leave_by_their_priority_and_flows_in_their_order() {
    let mut pair = Pair::new(&Spec::default());
    let limiter = limiter(settings(1000, 1400, WIDE), None);
    publish(&mut pair.a, &limiter, TrafficDirection::Out);
    // The burst; then of each class and two flows in turn.
    pair.a.put_lan(&packet(99, 0, 1000, 1400));
    assert_eq!(numbers(&mut pair), [99]);
    let dscps = [1, 0, 18, 46];
    for n in 0..16 {
        pair.a.put_lan(&packet(n, dscps[usize::from(n % 4)], 1000 + n / 4 % 2, 100));
    }
    assert_eq!(numbers(&mut pair), []);
    assert_eq!(pair.a.counters.totals().held, 16);
    let mut left = Vec::new();
    for _ in 0..16 {
        pair.a.now.ns += 100_000_000;
        let some = numbers(&mut pair);
        assert_eq!(some.len(), 1);
        left.extend(some);
    }
    assert_eq!(left, [3, 7, 11, 15, 2, 6, 10, 14, 1, 5, 9, 13, 0, 4, 8, 12]);
    let waited = limiter.waited();
    assert_eq!(waited.map(|of| of.gone), [4; CLASSES]);
    assert_eq!((waited[0].longest_ns, waited[3].longest_ns), (400_000_000, 1_600_000_000));
    assert_eq!(pair.a.drops(), []);
    // Once, though the packets were judged twice.
    let sa = pair.a.sa(Side::A, &Spec::default());
    assert_eq!(sa.esp.live().packets().load(core::sync::atomic::Ordering::Relaxed), 17);
    let counted = pair.a.db.policy(11).expect("a policy").packets();
    assert_eq!(counted, 17);
}

#[test]
fn a_full_queue_keeps_the_better_classes() {
    let mut pair = Pair::new(&Spec::default());
    let limiter = limiter(settings(1000, 1400, (4, 5600)), None);
    publish(&mut pair.a, &limiter, TrafficDirection::Out);
    let dscps = [0, 1, 1, 0, 0, 0, 46, 46, 1];
    for (n, dscp) in (0..).zip(dscps) {
        pair.a.put_lan(&packet(n, dscp, 1000, 1400));
    }
    assert_eq!(numbers(&mut pair), [0]);
    // 1 and 2, of the last class, gave way to 5 and 6, 3 to 7; 8 found no room.
    assert_eq!(pair.a.drops(), [(DropReason::LimitQueueFull, 4)]);
    let mut left = Vec::new();
    for _ in 0..4 {
        pair.a.now.ns += 1_400_000_000;
        left.extend(numbers(&mut pair));
    }
    // The last one's time was up before.
    assert_eq!(left, [6, 7, 4]);
    assert_eq!(pair.a.drops(), [(DropReason::LimitQueueFull, 4), (DropReason::LimitWait, 1)]);
    // Bytes are bounded too.
    (0..9).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    numbers(&mut pair);
    assert_eq!(pair.a.counters.totals().held, 4);
    assert_eq!(limiter.counts().packets[2], 4 + 1 + 4);
}

#[test]
fn frames_that_wait_are_an_eighth_at_most() {
    let (mut g, _) = shaped(settings(1000, 1400, (100_000, 100_000_000)));
    for n in 0..400 {
        g.put_lan(&packet(n, 0, 1000, 100));
        g.run();
    }
    assert_eq!(g.counters.totals().held, u64::from(SIZES.chunks / 8));
    g.wan_out();
    // None is kept from its time on.
    g.pass_ns(6_000_000_000);
    assert_eq!(g.counters.totals().held, 0);
}

#[test]
fn other_settings_keep_what_waits() {
    let mut pair = Pair::new(&Spec::default());
    let slow = limiter(settings(100, 1400, WIDE), None);
    publish(&mut pair.a, &slow, TrafficDirection::Out);
    (0..12).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    assert_eq!(numbers(&mut pair), [0]);
    // As `culvert limit set`: a burst a millisecond.
    let at = |g: &Gateway| (4, g.now.ns);
    let fast = slow.changed(settings(1_400_000, 1400, WIDE), None, at(&pair.a));
    publish(&mut pair.a, &Arc::new(fast.clone()), TrafficDirection::Out);
    pair.a.now.ns += 1_000_000;
    assert_eq!(numbers(&mut pair), [1]);
    pair.a.now.ns += 1_000_000;
    assert_eq!(numbers(&mut pair), [2]);
    // A limit that polices: what has waited is as what comes.
    let strict = fast.changed(Settings::single(8, 2800), None, at(&pair.a));
    publish(&mut pair.a, &Arc::new(strict), TrafficDirection::Out);
    let left = numbers(&mut pair).len();
    assert_eq!(pair.a.drops(), [(DropReason::RateLimit, 9 - left as u64)]);
    // No limit any more.
    publish(&mut pair.a, &slow, TrafficDirection::Out);
    (0..5).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    let left = numbers(&mut pair).len();
    publish_all(&mut pair.a, Vec::new());
    assert_eq!(left + numbers(&mut pair).len(), 5);
}

#[test]
fn a_queue_with_other_bounds_keeps_what_waits() {
    let mut pair = Pair::new(&Spec::default());
    let at = |g: &Gateway| (4, g.now.ns);
    let of = |packets| settings(1_400_000, 1400, (packets, 200_000));
    let wide = limiter(of(200), None);
    publish(&mut pair.a, &wide, TrafficDirection::Out);
    (0..10).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    assert_eq!(numbers(&mut pair), [0]);
    // As `culvert limit set --queue-packets 4`.
    let narrow = Arc::new(wide.changed(of(4), None, at(&pair.a)));
    publish(&mut pair.a, &narrow, TrafficDirection::Out);
    (10..12).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    assert_eq!(numbers(&mut pair), [0; 0]);
    assert_eq!(pair.a.drops(), [(DropReason::LimitQueueFull, 2)]);
    for n in 1..10 {
        pair.a.now.ns += 1_000_000;
        assert_eq!(numbers(&mut pair), [n]);
    }
    let crowd = |pair: &mut Pair, from| {
        (from..from + 6).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
        assert_eq!(numbers(pair), [0; 0]);
        pair.a.dropped(DropReason::LimitQueueFull)
    };
    assert_eq!(crowd(&mut pair, 20), 4);
    let wide = Arc::new(narrow.changed(of(200), None, at(&pair.a)));
    publish(&mut pair.a, &wide, TrafficDirection::Out);
    assert_eq!(crowd(&mut pair, 30), 4);
}

#[test]
fn nothing_is_kept_when_port_or_worker_go() {
    let (mut g, _) = shaped(settings(1000, 1400, WIDE));
    (0..5).for_each(|n| g.put_lan(&packet(n, 0, 1000, 1400)));
    g.run();
    g.commands.send(Command::RemovePorts { ifindex: WAN }).expect("listens");
    g.pass_ns(1_400_000_000);
    assert_eq!(g.dropped(DropReason::TransmitDown), 1);
    assert_eq!(g.counters.totals().held, 3);
    // As with another number of workers.
    g.set_workers(1);
    assert_eq!((g.counters.totals().held, g.dropped(DropReason::LimitWait)), (0, 3));
    (0..3).for_each(|n| g.put_lan(&packet(n, 0, 1000, 1400)));
    g.run();
    assert_eq!(g.counters.totals().held, 3);
    g.commands.send(Command::Stop).expect("listens");
    g.worker.run();
    assert_eq!((g.counters.totals().held, g.dropped(DropReason::LimitWait)), (0, 6));
}

#[test]
fn what_is_decrypted_waits_and_a_parent_polices() {
    let mut pair = Pair::new(&Spec::default());
    let total = Arc::new(Limiter::new("total", Settings::single(8, 4200), None, (4, 0)));
    let limiter = limiter(settings(1000, 1400, WIDE), Some(Arc::clone(&total)));
    publish(&mut pair.b, &limiter, TrafficDirection::In);
    (0..5).for_each(|n| pair.a.put_lan(&packet(n, 0, 1000, 1400)));
    assert_eq!(numbers(&mut pair), [0]);
    let mut left = 1;
    for _ in 0..4 {
        pair.b.pass_ns(1_400_000_000);
        left += pair.b.lan_out().len();
    }
    // The total's burst is three of them.
    assert_eq!(left, 3);
    assert_eq!(pair.b.drops(), [(DropReason::RateLimit, 2)]);
    assert_eq!((total.counts().packets, limiter.counts().packets), ([3, 0, 2], [3, 0, 0]));
}

/// Packets of a class, so long after those before.
fn histories() -> impl Strategy<Value = Vec<(u64, u8, usize)>> {
    let dscp = prop::sample::select(vec![0, 1, 10, 18, 46]);
    prop::collection::vec((0..3_000_000_u64, dscp, 100..1400_usize), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Packets leave when a bucket and plain queues let them.
    #[test]
    fn a_shaper_is_as_its_model(history in histories(), packets in 1..20_u32) {
        let settings = settings(1_000_000, 3000, (packets, 12_000));
        let mut pair = Pair::new(&Spec::default());
        publish(&mut pair.a, &limiter(settings, None), TrafficDirection::Out);
        let mut model = Model::new(settings);
        for (n, (gap_ns, dscp, len)) in (0..).zip(history) {
            pair.a.now.ns += gap_ns;
            pair.a.put_lan(&packet(n, dscp, 1000 + n % 2, len));
            prop_assert_eq!(numbers(&mut pair), model.step(pair.a.now.ns, (n, dscp, len)));
        }
        prop_assert_eq!(pair.a.counters.totals().held as usize, model.count());
    }
}

/// A bucket, and a queue for each class.
struct Model {
    settings: Settings,
    bucket: Meter,
    queues: [VecDeque<(u16, usize)>; CLASSES],
}

impl Model {
    fn new(settings: Settings) -> Model {
        Model { settings, bucket: Meter::full(&settings, 0), queues: Default::default() }
    }

    fn count(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn take(&mut self, len: usize) -> bool {
        let cost = self.settings.cost(len);
        let is_there = self.bucket.colour(&self.settings, cost, Colour::Green) == Colour::Green;
        if is_there {
            self.bucket.take(&self.settings, cost, Colour::Green);
        }
        is_there
    }

    /// The numbers of what leaves at a time, when one comes.
    fn step(&mut self, now_ns: u64, (number, dscp, len): (u16, u8, usize)) -> Vec<u16> {
        self.bucket.refill(&self.settings, now_ns);
        let mut left = self.leave();
        if self.count() == 0 && self.take(len) {
            left.push(number);
            return left;
        }
        let (class, bounds) = (Class::of_dscp(dscp) as usize, self.settings.queue.expect("one"));
        let is_full = |queues: &[VecDeque<(u16, usize)>; CLASSES]| {
            let all = || queues.iter().flatten();
            let bytes: usize = all().map(|(_, len)| len).sum();
            all().count() >= bounds.packets as usize || bytes + len > bounds.bytes as usize
        };
        while is_full(&self.queues)
            && let Some(worse) = self.queues[class + 1..].iter_mut().rev().find(|q| !q.is_empty())
        {
            worse.pop_front();
        }
        if !is_full(&self.queues) {
            self.queues[class].push_back((number, len));
        }
        left.extend(self.leave());
        left
    }

    fn leave(&mut self) -> Vec<u16> {
        let mut left = Vec::new();
        while let Some(at) = self.queues.iter().position(|queue| !queue.is_empty())
            && self.take(self.queues[at][0].1)
        {
            left.extend(self.queues[at].pop_front().map(|(number, _)| number));
        }
        left
    }
}
