//! Two ends with a narrow link between them, in simulated time.

use std::collections::VecDeque;

use iptfs::congestion::Controller;
use iptfs::congestion::throughput::packets_per_s;

/// One way: a delay, a queue, and losses.
struct Way {
    delay_us: u64,
    per_s: f64,
    most_queued: f64,
    /// Of a thousand, lost by chance.
    lost: u64,
    /// When the link has sent what is queued.
    free_us: f64,
    random: u64,
    under_way: VecDeque<(u64, u64, iptfs::Congestion)>,
}

impl Way {
    fn new(delay_us: u64, per_s: f64, lost: u64) -> Way {
        let under_way = VecDeque::new();
        Way { delay_us, per_s, most_queued: 30.0, lost, free_us: 0.0, random: 7, under_way }
    }

    fn put(&mut self, now_us: u64, seq: u64, header: iptfs::Congestion) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let free_us = self.free_us.max(now_us as f64);
        let queued = (free_us - now_us as f64) * self.per_s / 1e6;
        if queued >= self.most_queued || self.random % 1000 < self.lost {
            return;
        }
        self.free_us = free_us + 1e6 / self.per_s;
        self.under_way.push_back((self.free_us as u64 + self.delay_us, seq, header));
    }
}

/// One end: its controller, the number of its last payload, and when the next is due.
struct End {
    controller: Controller,
    seq: u64,
    due_us: u64,
}

struct World {
    now_us: u64,
    ends: [End; 2],
    ways: [Way; 2],
}

impl World {
    fn new(there: Way, back: Way) -> World {
        let end = || End { controller: Controller::new(2000.0, 0), seq: 0, due_us: 0 };
        World { now_us: 0, ends: [end(), end()], ways: [there, back] }
    }

    /// Runs for a time; payloads a second that the first end has sent.
    fn run(&mut self, seconds: u64) -> f64 {
        let (end_us, before) = (self.now_us + seconds * 1_000_000, self.ends[0].seq);
        while self.now_us < end_us {
            for at in 0..2 {
                let (end, way) = (&mut self.ends[at], &mut self.ways[at]);
                if self.now_us >= end.due_us {
                    end.seq += 1;
                    way.put(self.now_us, end.seq, end.controller.header(self.now_us));
                    end.due_us = self.now_us + u64::from(end.controller.interval_us(self.now_us));
                }
                while let Some((_, seq, header)) =
                    way.under_way.pop_front_if(|(arrives_us, ..)| *arrives_us <= self.now_us)
                {
                    self.ends[1 - at].controller.arrived(seq, false, Some(&header), self.now_us);
                }
            }
            let due = self.ends.iter().map(|end| end.due_us);
            let arriving = self.ways.iter().filter_map(|way| way.under_way.front());
            let next_us = due.chain(arriving.map(|(arrives_us, ..)| *arrives_us)).min();
            self.now_us = next_us.unwrap_or(end_us).max(self.now_us + 1);
        }
        (self.ends[0].seq - before) as f64 / seconds as f64
    }
}

#[test]
fn chance_losses_give_the_equation_s_rate() {
    for (delay_us, lost) in [(10_000, 10), (25_000, 20)] {
        let mut world = World::new(Way::new(delay_us, 1e6, lost), Way::new(delay_us, 1e6, 0));
        world.run(10);
        let rate = world.run(40);
        let equation = packets_per_s(2 * delay_us as u32, lost as f64 / 1000.0);
        assert!((0.75..1.35).contains(&(rate / equation)), "{rate}, of {equation}");
    }
}

#[test]
fn it_takes_what_a_narrow_link_has_and_follows_it() {
    let mut world = World::new(Way::new(10_000, 1000.0, 0), Way::new(10_000, 1e6, 0));
    world.run(10);
    let rate = world.run(10);
    assert!((650.0..1050.0).contains(&rate), "{rate} of 1000");
    // Half of it is left: the rate halves, and rises again when the link is as before.
    world.ways[0].per_s = 500.0;
    world.run(3);
    let rate = world.run(10);
    assert!((325.0..525.0).contains(&rate), "{rate} of 500");
    world.ways[0].per_s = 1000.0;
    world.run(20);
    let rate = world.run(10);
    assert!((600.0..1050.0).contains(&rate), "{rate} of 1000 again");
}

#[test]
fn without_an_answer_it_falls_silent() {
    let mut world = World::new(Way::new(10_000, 1e6, 0), Way::new(10_000, 1e6, 0));
    world.run(3);
    world.ways[1].lost = 1000;
    world.run(20);
    assert!(world.run(20) < 1.0);
    world.ways[1].lost = 0;
    world.run(90);
    assert!(world.run(5) > 1900.0);
}
