//! Pairs of SAs with a narrow link between their ends, in simulated time.

use std::collections::VecDeque;

use iptfs::Congestion;
use iptfs::congestion::throughput::packets_per_s;
use iptfs::congestion::{Arrivals, Bounds, Sender};
use proptest::prelude::*;

/// One way, which all pairs take: a delay, a queue, losses and marks.
struct Way {
    delay_us: u64,
    per_s: f64,
    most_queued: f64,
    /// From so many on payloads are marked.
    marks_from: f64,
    /// Of a thousand, lost by chance.
    lost: u64,
    /// When the link has sent what is queued.
    free_us: f64,
    random: u64,
    under_way: VecDeque<Payload>,
}

struct Payload {
    arrives_us: u64,
    pair: usize,
    seq: u64,
    is_marked: bool,
    header: Congestion,
}

impl Way {
    fn new(delay_us: u64, per_s: f64, lost: u64) -> Way {
        let (most_queued, marks_from) = (30.0, f64::INFINITY);
        let (random, under_way) = (7, VecDeque::new());
        Way { delay_us, per_s, most_queued, marks_from, lost, free_us: 0.0, random, under_way }
    }

    fn put(&mut self, now_us: u64, pair: usize, seq: u64, header: Congestion) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let free_us = self.free_us.max(now_us as f64);
        let queued = (free_us - now_us as f64) * self.per_s / 1e6;
        if queued >= self.most_queued || self.random % 1000 < self.lost {
            return;
        }
        self.free_us = free_us + 1e6 / self.per_s;
        let arrives_us = self.free_us as u64 + self.delay_us;
        let is_marked = queued >= self.marks_from;
        self.under_way.push_back(Payload { arrives_us, pair, seq, is_marked, header });
    }
}

/// One end: the number of its last payload, and when the next is due.
struct End {
    arrivals: Arrivals,
    sender: Sender,
    seq: u64,
    due_us: u64,
}

struct World {
    now_us: u64,
    pairs: Vec<[End; 2]>,
    ways: [Way; 2],
}

const BOUNDS: Bounds = Bounds { least_per_s: 0.0, most_per_s: 2000.0 };

impl World {
    fn new(there: Way, back: Way) -> World {
        World::with(1, BOUNDS, there, back)
    }

    fn with(pairs: u64, bounds: Bounds, there: Way, back: Way) -> World {
        let end = |n: u64| End {
            arrivals: Arrivals::default(),
            sender: Sender::new(bounds, 0),
            seq: 0,
            due_us: n * 3_000,
        };
        let pairs = (0..pairs).map(|n| [end(n), end(n)]).collect();
        World { now_us: 0, pairs, ways: [there, back] }
    }

    /// Runs for a time; payloads a second that the first end of each pair has sent.
    fn run_all(&mut self, seconds: u64) -> Vec<f64> {
        let end_us = self.now_us + seconds * 1_000_000;
        let before: Vec<u64> = self.pairs.iter().map(|pair| pair[0].seq).collect();
        while self.now_us < end_us {
            for at in 0..2 {
                let way = &mut self.ways[at];
                for (n, pair) in self.pairs.iter_mut().enumerate() {
                    let End { arrivals, sender, seq, due_us } = &mut pair[at];
                    if self.now_us >= *due_us {
                        *seq += 1;
                        let header = sender.header(&arrivals.report(), self.now_us);
                        way.put(self.now_us, n, *seq, header);
                        *due_us = self.now_us + u64::from(sender.interval_us(self.now_us));
                    }
                }
                while let Some(payload) =
                    way.under_way.pop_front_if(|payload| payload.arrives_us <= self.now_us)
                {
                    let Payload { pair, seq, is_marked, header, .. } = payload;
                    let End { arrivals, sender, due_us, .. } = &mut self.pairs[pair][1 - at];
                    arrivals.arrived(seq, is_marked, Some(&header), self.now_us);
                    // A word of the other end's may make the next one due sooner.
                    if sender.hear(&arrivals.report()) {
                        let interval_us = u64::from(sender.interval_us(self.now_us));
                        *due_us = (*due_us).min(self.now_us + interval_us);
                    }
                }
            }
            let due = self.pairs.iter().flatten().map(|end| end.due_us);
            let arriving = self.ways.iter().filter_map(|way| way.under_way.front());
            let next_us = due.chain(arriving.map(|payload| payload.arrives_us)).min();
            self.now_us = next_us.unwrap_or(end_us).max(self.now_us + 1);
        }
        let sent = self.pairs.iter().zip(before).map(|(pair, before)| pair[0].seq - before);
        sent.map(|sent| sent as f64 / seconds as f64).collect()
    }

    fn run(&mut self, seconds: u64) -> f64 {
        self.run_all(seconds)[0]
    }
}

#[test]
fn chance_losses_give_the_equation_s_rate() {
    for (delay_us, lost) in [(10_000, 10), (25_000, 20)] {
        let mut world = World::new(Way::new(delay_us, 1e6, lost), Way::new(delay_us, 1e6, 0));
        world.run(10);
        let rate = world.run(30);
        let equation = packets_per_s(2 * delay_us as u32, lost as f64 / 1000.0);
        assert!((0.75..1.35).contains(&(rate / equation)), "{rate}, of {equation}");
    }
}

#[test]
fn it_takes_what_a_narrow_link_has_and_follows_it() {
    let mut world = World::new(Way::new(10_000, 1000.0, 0), Way::new(10_000, 1e6, 0));
    world.run(15);
    let rate = world.run(10);
    assert!((650.0..1050.0).contains(&rate), "{rate} of 1000");
    // Half of it is left: the rate halves, and rises again when the link is as before.
    world.ways[0].per_s = 500.0;
    world.run(3);
    let rate = world.run(10);
    assert!((325.0..525.0).contains(&rate), "{rate} of 500");
    world.ways[0].per_s = 1000.0;
    world.run(15);
    let rate = world.run(10);
    assert!((600.0..1050.0).contains(&rate), "{rate} of 1000 again");
}

#[test]
fn marks_do_what_losses_do_and_nothing_is_lost() {
    let mut there = Way::new(10_000, 1000.0, 0);
    (there.marks_from, there.most_queued) = (15.0, 1000.0);
    let mut world = World::new(there, Way::new(10_000, 1e6, 0));
    world.run(15);
    let rate = world.run(10);
    assert!((600.0..1050.0).contains(&rate), "{rate} of 1000");
    let told = world.pairs[0][1].arrivals.report();
    assert!(told.is_congested && told.loss_event_rate > 0, "{told:?}");
}

#[test]
fn pairs_share_a_link() {
    let mut world = World::with(3, BOUNDS, Way::new(10_000, 1200.0, 0), Way::new(10_000, 1e6, 0));
    world.run_all(15);
    let rates = world.run_all(25);
    let all: f64 = rates.iter().sum();
    assert!((800.0..1270.0).contains(&all), "{rates:?} of 1200");
    assert!(rates.iter().all(|rate| (0.4..2.5).contains(&(rate * 3.0 / all))), "{rates:?}");
}

#[test]
fn without_an_answer_it_falls_silent() {
    let mut world = World::new(Way::new(10_000, 1e6, 0), Way::new(10_000, 1e6, 0));
    world.run(8);
    world.ways[1].lost = 1000;
    world.run(20);
    assert!(world.run(20) < 1.0);
    world.ways[1].lost = 0;
    world.run(100);
    assert!(world.run(2) > 1900.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Whatever the path does.
    #[test]
    fn it_is_never_above_what_is_configured_nor_below_its_least(
        delay_us in 100u64..200_000,
        per_s in 20.0..2000.0,
        lost in 0u64..300,
        most_per_s in 50.0..1000.0,
        least_per_s in 0.0..50.0,
    ) {
        let bounds = Bounds { least_per_s, most_per_s };
        let mut world =
            World::with(1, bounds, Way::new(delay_us, per_s, lost), Way::new(delay_us, 1e6, lost));
        for _ in 0..6 {
            let rate = world.run(2);
            prop_assert!(rate <= most_per_s + 1.0, "{rate} of {most_per_s}");
            prop_assert!(rate + 1.0 >= least_per_s.min(most_per_s), "{rate} of {least_per_s}");
        }
    }
}
