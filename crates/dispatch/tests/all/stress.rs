//! Many items between threads that stop where they like: each item once, in the order that the kind
//! promises, and never more under way than the queue may hold.
//!
//! Under Miri the same tests run with few items; it then checks the unsafe code and the memory orders of
//! what they do.

use std::collections::VecDeque;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, yield_now};

use arrayvec::ArrayVec;
use dispatch::ordered::Released;
use dispatch::{Home, Mesh, Peer, Sleepers, atomic, directed, ordered};

/// A number, or a small one where each step costs a thousand.
const fn scaled(number: u64) -> u64 {
    if cfg!(miri) { number / 10_000 + 20 } else { number }
}

/// A small generator of delays and burst lengths, the same in each run.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % sides
    }

    /// Mostly nothing, sometimes a short delay, seldom the rest of the time slice.
    fn dawdle(&mut self) {
        match self.roll(256) {
            0 => yield_now(),
            1..16 => (0..self.roll(200)).for_each(|_| spin_loop()),
            _ => {}
        }
    }
}

/// An item: who made it, its number among that one's, and something to be moved along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    from: u64,
    number: u64,
    check: [u64; 2],
}

impl Item {
    fn new(from: u64, number: u64) -> Self {
        Self { from, number, check: [from ^ number, from.wrapping_add(number)] }
    }

    /// That it arrived whole.
    fn verify(&self) {
        assert_eq!(*self, Self::new(self.from, self.number), "torn");
    }
}

/// The items of one producer, in order, in bursts.
struct Source {
    from: u64,
    next: u64,
    end: u64,
}

impl Source {
    fn new(from: u64, end: u64) -> Self {
        Self { from, next: 0, end }
    }

    /// Fills a burst up to a random length, so that it may hold what was refused before.
    fn fill(&mut self, burst: &mut ArrayVec<Item, 32>, dice: &mut Dice) {
        let wanted = 1 + dice.roll(32) as usize;
        while burst.len() < wanted && self.next < self.end {
            burst.push(Item::new(self.from, self.next));
            self.next += 1;
        }
    }
}

#[test]
fn directed_one_to_one() {
    let end = scaled(3_000_000);
    let (mut producer, mut consumer) = directed::queue(64);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut dice = Dice::new(1);
            let mut source = Source::new(0, end);
            let mut burst = ArrayVec::new();
            loop {
                source.fill(&mut burst, &mut dice);
                if burst.is_empty() {
                    break;
                }
                // One at a time, sometimes.
                let progress = if dice.roll(8) == 0 {
                    match producer.put(burst[0]) {
                        Ok(()) => burst.drain(..1).len(),
                        Err(refused) => {
                            assert_eq!(refused.into_item(), burst[0]);
                            0
                        }
                    }
                } else {
                    producer.put_many(&mut burst)
                };
                if progress == 0 {
                    yield_now();
                }
                dice.dawdle();
            }
        });
        let mut dice = Dice::new(2);
        let mut expected = 0;
        while !consumer.is_closed() {
            assert!(consumer.stats().depth <= 64);
            let mut out: ArrayVec<Item, 16> = ArrayVec::new();
            if dice.roll(8) == 0 {
                out.extend(consumer.take());
            } else {
                consumer.take_many(&mut out);
            }
            if out.is_empty() {
                yield_now();
            }
            for item in out {
                item.verify();
                assert_eq!(item.number, expected);
                expected += 1;
            }
            dice.dawdle();
        }
        assert_eq!(expected, end);
    });
}

#[test]
fn ordered_an_owner_and_three_workers() {
    let end = scaled(1_500_000);
    let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(128);
    let helped = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..3 {
            let (worker, helped) = (worker.clone(), &helped);
            scope.spawn(move || {
                let mut dice = Dice::new(30 + number);
                while !worker.is_closed() {
                    match worker.take(1 + dice.roll(16) as usize) {
                        Some(mut work) => {
                            helped.fetch_add(work.len() as u64, Ordering::Relaxed);
                            for item in work.iter_mut() {
                                item.verify();
                                item.check[0] = !item.check[0];
                                dice.dawdle();
                            }
                            work.finish();
                        }
                        None => yield_now(),
                    }
                }
            });
        }
        let mut dice = Dice::new(40);
        let mut source = Source::new(0, end);
        let mut burst = ArrayVec::new();
        let (mut submitted, mut released) = (0, 0);
        while released < end {
            source.fill(&mut burst, &mut dice);
            submitted += submitter.put_many(&mut burst) as u64;
            assert!(submitted - released <= 128);
            // The owner helps when it cannot go on.
            if !burst.is_empty()
                && let Some(mut work) = worker.take(4)
            {
                work.iter_mut().for_each(|item| item.check[0] = !item.check[0]);
                work.finish();
            }
            let mut out: ArrayVec<Released<Item>, 32> = ArrayVec::new();
            if releaser.release_many(&mut out) == 0 {
                yield_now();
            }
            for item in out {
                let mut item = item.finished().expect("every worker finishes");
                item.check[0] = !item.check[0];
                item.verify();
                assert_eq!(item.number, released);
                released += 1;
            }
            dice.dawdle();
        }
        drop(submitter);
        assert!(releaser.is_closed());
    });
    assert!(helped.into_inner() > 0, "the workers never got anything");
}

/// Notes an item where the items before it were noted: a load and a store, as by one writer.
fn note(next: &AtomicU64, item: &Item) {
    assert_eq!(next.load(Ordering::Relaxed), item.number, "out of turn");
    next.store(item.number + 1, Ordering::Relaxed);
}

/// Works on one item, part of it in turn; leaves some turns to the owner. While it is not its turn it
/// does what it is told.
fn work_in_turn(
    mut work: ordered::Work<'_, Item>,
    next: &AtomicU64,
    dice: &mut Dice,
    mut meanwhile: impl FnMut(),
) {
    dice.dawdle();
    let item = *work.iter_mut().next().expect("one");
    loop {
        if let Some(turn) = work.turn() {
            if !item.number.is_multiple_of(7) {
                note(next, &item);
                dice.dawdle();
                turn.end();
            }
            break;
        }
        meanwhile();
        yield_now();
    }
    dice.dawdle();
    work.finish();
}

#[test]
fn ordered_what_is_shared_has_one_writer_at_a_time() {
    let end = scaled(100_000);
    let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(16);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..2 {
            let (worker, next) = (worker.clone(), &next);
            scope.spawn(move || {
                let mut dice = Dice::new(50 + number);
                while !worker.is_closed() {
                    match worker.take(1) {
                        Some(work) => work_in_turn(work, next, &mut dice, || ()),
                        None => yield_now(),
                    }
                }
            });
        }
        let mut dice = Dice::new(60);
        let (mut submitted, mut released) = (0, 0);
        let mut release = |released: &mut u64| {
            while let Some(item) = releaser.release() {
                let item = item.finished().expect("every worker finishes");
                assert_eq!(item.number, *released);
                if item.number.is_multiple_of(7) {
                    note(&next, &item);
                }
                releaser.end_turn();
                *released += 1;
            }
        };
        while released < end {
            while submitted < end && submitter.put(Item::new(0, submitted)).is_ok() {
                submitted += 1;
            }
            if dice.roll(2) == 0
                && let Some(work) = worker.take(1)
            {
                work_in_turn(work, &next, &mut dice, || release(&mut released));
            }
            release(&mut released);
            dice.dawdle();
        }
        drop(submitter);
    });
    assert_eq!(next.into_inner(), end);
}

/// Writes of a flow's handler, without any order of their own.
#[derive(Default)]
struct FlowState {
    busy: AtomicBool,
    next: AtomicU64,
    /// Who had it last, to see that flows do change hands.
    last: AtomicUsize,
}

#[test]
fn atomic_two_producers_three_consumers() {
    /// Flows of each producer.
    const FLOWS: u64 = 24;
    let each = scaled(40_000);
    let (producer, consumer) = atomic::queue(32, 32);
    let flows: Vec<FlowState> = (0..2 * FLOWS).map(|_| FlowState::default()).collect();
    let moved = AtomicU64::new(0);
    thread::scope(|scope| {
        for from in 0..2 {
            let producer = producer.clone();
            scope.spawn(move || put_flows(&producer, from * FLOWS..(from + 1) * FLOWS, each));
        }
        drop(producer);
        for me in 0..3 {
            let (consumer, flows, moved) = (consumer.clone(), &flows, &moved);
            scope.spawn(move || {
                let mut dice = Dice::new(50 + me as u64);
                while !consumer.is_closed() {
                    handle_flows(&consumer, flows, me, moved, &mut dice);
                    dice.dawdle();
                }
            });
        }
    });
    for flow in &flows {
        assert_eq!(flow.next.load(Ordering::Relaxed), each);
    }
    if !cfg!(miri) {
        assert!(moved.into_inner() > 0, "no flow ever changed hands");
    }
}

/// Puts `each` items of each flow, the flows mixed; what is refused goes again, in order.
fn put_flows(producer: &atomic::Producer<Item>, flows: std::ops::Range<u64>, each: u64) {
    let mut dice = Dice::new(60 + flows.start);
    let count = flows.end - flows.start;
    let mut next = vec![0; count as usize];
    let mut left = each * count;
    let mut burst: ArrayVec<(u64, Item), 32> = ArrayVec::new();
    while left > 0 || !burst.is_empty() {
        while left > 0 && !burst.is_full() {
            let place = dice.roll(count) as usize;
            if next[place] < each {
                let flow = flows.start + place as u64;
                // Runs of one flow, as bursts have them.
                burst.push((flow, Item::new(flow, next[place])));
                next[place] += 1;
                left -= 1;
            }
        }
        let before = burst.len();
        let put = producer.put_many(&mut burst);
        assert_eq!(before, put + burst.len());
        if put == 0 {
            yield_now();
        }
        dice.dawdle();
    }
}

/// Claims a few lanes, takes some of their items, and handles them while the lanes are held.
fn handle_flows(
    consumer: &atomic::Consumer<Item>,
    flows: &[FlowState],
    me: usize,
    moved: &AtomicU64,
    dice: &mut Dice,
) {
    let mut lanes: ArrayVec<atomic::Lane<'_, Item>, 4> = ArrayVec::new();
    let mut out: ArrayVec<Item, 32> = ArrayVec::new();
    for _ in 0..1 + dice.roll(4) {
        if let Some(mut lane) = consumer.hold() {
            let mut part: ArrayVec<Item, 8> = ArrayVec::new();
            lane.take_many(&mut part);
            out.extend(part);
            lanes.push(lane);
        }
    }
    if out.is_empty() {
        yield_now();
    }
    for item in &out {
        item.verify();
        let flow = &flows[item.from as usize];
        // Relaxed throughout: the queue itself must order one handler after the other.
        assert!(!flow.busy.swap(true, Ordering::Relaxed), "a flow in two hands");
        assert_eq!(flow.next.load(Ordering::Relaxed), item.number);
        flow.next.store(item.number + 1, Ordering::Relaxed);
        if flow.last.swap(me + 1, Ordering::Relaxed) != me + 1 && item.number > 0 {
            moved.fetch_add(1, Ordering::Relaxed);
        }
        dice.dawdle();
        flow.busy.store(false, Ordering::Relaxed);
    }
    // Before the lanes, which go last.
    drop(out);
}

#[test]
fn a_sleeper_is_woken_for_each_item() {
    let end = scaled(60_000);
    let (mut producer, mut consumer) = directed::queue(4);
    let sleepers = Sleepers::new();
    let bell = (Mutex::new(false), std::sync::Condvar::new());
    thread::scope(|scope| {
        let (sleepers, bell) = (&sleepers, &bell);
        scope.spawn(move || {
            let mut dice = Dice::new(70);
            for mut number in 0..end {
                while let Err(refused) = producer.put(number) {
                    number = refused.into_item();
                    yield_now();
                }
                if sleepers.needs_wake(9) {
                    *bell.0.lock().unwrap() = true;
                    bell.1.notify_one();
                }
                dice.dawdle();
            }
        });
        let mut expected = 0;
        while expected < end {
            if let Some(number) = consumer.take() {
                assert_eq!(number, expected);
                expected += 1;
                continue;
            }
            sleepers.prepare(9);
            if consumer.is_empty() {
                // A wake-up that is lost is a test that does not end.
                let mut rung = bell.0.lock().unwrap();
                while !*rung {
                    rung = bell.1.wait(rung).unwrap();
                }
                *rung = false;
            }
            sleepers.awake(9);
        }
    });
}

#[test]
fn ends_that_go_at_any_time_lose_nothing() {
    let living = AtomicU64::new(0);
    /// An item that counts its own drop.
    struct Counted<'a>(&'a AtomicU64);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let make = || {
        living.fetch_add(1, Ordering::Relaxed);
        Counted(&living)
    };
    for round in 0..scaled(2_000) {
        let mut dice = Dice::new(round);
        let (puts, takes) = (dice.roll(12), dice.roll(12));
        let (mut producer, mut consumer) = directed::queue(4);
        let (flow_producer, flow_consumer) = atomic::queue(4, 4);
        let (mut submitter, worker, mut releaser) = ordered::queue(4);
        thread::scope(|scope| {
            scope.spawn(|| {
                for flow in 0..puts {
                    drop(producer.put(make()));
                    drop(flow_producer.put(flow, make()));
                    drop(submitter.put(make()));
                }
                drop(producer.take_back());
                drop(flow_producer.take_back());
                drop((producer, flow_producer, submitter));
            });
            scope.spawn(|| {
                for turn in 0..takes {
                    drop(consumer.take());
                    drop(flow_consumer.hold().and_then(|mut lane| lane.take()));
                    if let Some(work) = worker.take(2)
                        && turn % 2 == 0
                    {
                        work.finish();
                    }
                    drop(releaser.release());
                }
                drop((consumer, flow_consumer, worker));
                drop(releaser.release());
                drop(releaser);
            });
        });
        assert_eq!(living.load(Ordering::Relaxed), 0, "round {round}");
    }
}

/// A packet for an SA, between workers.
struct Parcel {
    sa: usize,
    item: Item,
    /// The last sender, and the number among those that went from it to this receiver.
    hop: (usize, u64),
}

/// An SA: a home, and a state that only the home writes, with no order of its own.
struct Sa {
    home: Home,
    busy: AtomicBool,
    count: AtomicU64,
}

impl Sa {
    /// Works on a packet. Two writers, or one that has not seen what the one before wrote, lose a count.
    fn work(&self, dice: &mut Dice) {
        assert!(!self.busy.swap(true, Ordering::Relaxed), "two writers");
        let count = self.count.load(Ordering::Relaxed);
        dice.dawdle();
        self.count.store(count + 1, Ordering::Relaxed);
        self.busy.store(false, Ordering::Relaxed);
    }
}

/// One of the workers of the test below.
struct HomeWorker<'a> {
    peer: Peer<Parcel>,
    sas: &'a [Sa],
    /// By sender and number: whether an item was worked on.
    done: &'a [Vec<AtomicBool>],
    left: &'a AtomicU64,
    /// Refused, to be sent again.
    waiting: VecDeque<Parcel>,
    /// By receiver, the number of the next hop; by sender, that which is expected.
    sent: Vec<u64>,
    expected: Vec<u64>,
    handed: u64,
    dice: Dice,
}

impl HomeWorker<'_> {
    fn take(&mut self, mut parcel: Parcel) {
        let to = self.sas[parcel.sa].home.at();
        if to == self.peer.worker() {
            self.sas[parcel.sa].work(&mut self.dice);
            parcel.item.verify();
            let done = &self.done[parcel.item.from as usize][parcel.item.number as usize];
            assert!(!done.swap(true, Ordering::Relaxed), "twice");
            self.left.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        parcel.hop = (self.peer.worker(), self.sent[to]);
        match self.peer.send(to, parcel) {
            Ok(()) => {
                self.sent[to] += 1;
                self.handed += 1;
            }
            Err(refused) => self.waiting.push_back(refused.into_item()),
        }
    }

    fn run(mut self, end: u64) -> u64 {
        let me = self.peer.worker();
        let workers = self.peer.workers();
        let mut next = 0;
        while self.left.load(Ordering::Relaxed) > 0 {
            let mut out: ArrayVec<Parcel, 32> = ArrayVec::new();
            self.peer.receive(&mut out, 1 + self.dice.roll(40) as usize);
            for parcel in out {
                let (from, number) = parcel.hop;
                assert_eq!(number, self.expected[from], "from {from} to {me}");
                self.expected[from] += 1;
                self.take(parcel);
            }
            for _ in 0..self.waiting.len() {
                let parcel = self.waiting.pop_front().unwrap();
                self.take(parcel);
            }
            let burst = if self.waiting.len() > 64 { 0 } else { self.dice.roll(16) };
            for _ in 0..burst.min(end - next) {
                let sa = self.dice.roll(self.sas.len() as u64) as usize;
                self.take(Parcel { sa, item: Item::new(me as u64, next), hop: (me, 0) });
                next += 1;
            }
            // A home or two go elsewhere, now and then; those of others do not go.
            if self.dice.roll(8) == 0 {
                let sa = &self.sas[self.dice.roll(self.sas.len() as u64) as usize];
                let to = self.dice.roll(workers as u64) as usize;
                // Another home may arrive here between the two: then the second is right.
                let was_here = sa.home.is_at(me);
                assert!(sa.home.leave(me, to) || !was_here);
            }
            self.dice.dawdle();
        }
        assert!(self.waiting.is_empty() && self.peer.is_empty());
        self.handed
    }
}

#[test]
fn four_workers_hand_over_while_homes_move() {
    const WORKERS: usize = 4;
    let end = scaled(40_000);
    let sas: Vec<Sa> = (0..8)
        .map(|sa| Sa {
            home: Home::new(sa % WORKERS),
            busy: AtomicBool::new(false),
            count: AtomicU64::new(0),
        })
        .collect();
    let done: Vec<Vec<AtomicBool>> =
        (0..WORKERS).map(|_| (0..end).map(|_| AtomicBool::new(false)).collect()).collect();
    let left = AtomicU64::new(WORKERS as u64 * end);
    let handed: u64 = thread::scope(|scope| {
        let workers: Vec<_> = Mesh::new(WORKERS, 32, &Sleepers::new())
            .into_iter()
            .map(|peer| {
                let worker = HomeWorker {
                    waiting: VecDeque::new(),
                    sent: vec![0; WORKERS],
                    expected: vec![0; WORKERS],
                    handed: 0,
                    dice: Dice::new(80 + peer.worker() as u64),
                    peer,
                    sas: &sas,
                    done: &done,
                    left: &left,
                };
                scope.spawn(move || worker.run(end))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(done.iter().flatten().all(|done| done.load(Ordering::Relaxed)));
    let count: u64 = sas.iter().map(|sa| sa.count.load(Ordering::Relaxed)).sum();
    assert_eq!(count, WORKERS as u64 * end);
    // Three of four belong to others, but homes gather at a worker that has lost its core.
    assert!(handed > count / 50, "{handed} of {count}");
}
