//! Small cases under the model checker, in all interleavings up to a number of preemptions.
//!
//! The items' contents and the flows' states are cells that loom watches: a hand-over that orders too
//! little is found even where the values happen to come out right.
//!
//! `RUSTFLAGS='--cfg loom' LOOM_MAX_PREEMPTIONS=3 cargo test --release -p culvert-dispatch
//! --target-dir target/loom --test models`

#![cfg(loom)]

use std::sync::Arc as Count;

use arrayvec::ArrayVec;
use dispatch::depot::BATCH;
use dispatch::ordered::Released;
use dispatch::{Depot, Home, Mesh, Peer, Sleepers, atomic, directed, ordered, unordered};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread::{self, yield_now};

/// An item whose content is watched, and whose copies are counted.
struct Item {
    number: usize,
    content: UnsafeCell<usize>,
    _count: Count<()>,
}

/// Makes items, and knows how many live.
struct Mint(Count<()>);

impl Mint {
    fn new() -> Self {
        Self(Count::new(()))
    }

    fn item(&self, number: usize) -> Item {
        Item { number, content: UnsafeCell::new(number), _count: Count::clone(&self.0) }
    }

    fn items<const N: usize>(&self, numbers: [usize; N]) -> ArrayVec<Item, N> {
        numbers.into_iter().map(|number| self.item(number)).collect()
    }

    /// Items that are neither dropped nor leaked.
    fn living(&self) -> usize {
        Count::strong_count(&self.0) - 1
    }
}

impl Item {
    /// Works on it: a write that loom takes for a race unless the hand-over ordered it.
    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn add(&mut self, more: usize) {
        // SAFETY: the item is borrowed mutably, so its cell is too.
        self.content.with_mut(|content| unsafe { *content += more });
    }

    /// Its number, if its content says the same after `added` was added.
    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn check(self, added: usize) -> usize {
        // SAFETY: the item is ours, so its cell is too.
        let content = self.content.with(|content| unsafe { *content });
        assert_eq!(content, self.number + added);
        self.number
    }
}

#[test]
fn directed_in_order_over_the_end_of_the_ring() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut producer, mut consumer) = directed::queue::<Item>(2);
        let mut burst = mint.items([0, 1, 2]);
        let put = thread::spawn(move || {
            while !burst.is_empty() {
                if producer.put_many(&mut burst) == 0 {
                    yield_now();
                }
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let mut out: ArrayVec<Item, 2> = ArrayVec::new();
            match consumer.take_many(&mut out) {
                0 => yield_now(),
                _ => seen.extend(out.into_iter().map(|item| item.check(0))),
            }
        }
        assert_eq!(seen, [0, 1, 2]);
        put.join().unwrap();
        assert!(consumer.is_closed());
    });
}

#[test]
fn directed_what_goes_with_the_consumer_comes_back_once() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut producer, mut consumer) = directed::queue::<Item>(4);
        let items = mint.items([0, 1]);
        let take = thread::spawn(move || consumer.take().map(|item| item.check(0)));
        let mut back = Vec::new();
        for item in items {
            if let Err(refused) = producer.put(item) {
                back.push(refused.into_item().check(0));
            }
        }
        back.extend(std::iter::from_fn(|| producer.take_back()).map(|item| item.check(0)));
        let taken = take.join().unwrap();
        back.extend(std::iter::from_fn(|| producer.take_back()).map(|item| item.check(0)));
        back.extend(taken);
        back.sort_unstable();
        assert_eq!(back, [0, 1]);
    });
}

#[test]
fn directed_both_ends_go_and_everything_is_dropped_once() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut producer, mut consumer) = directed::queue::<Item>(2);
        let mut burst = mint.items([0, 1]);
        let put = thread::spawn(move || {
            producer.put_many(&mut burst);
        });
        drop(consumer.take());
        drop(consumer);
        put.join().unwrap();
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn directed_from_two_producers() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, mut consumer) = directed::many::queue::<Item>(2);
        let other = producer.clone();
        // Two tries each, as spinning threads would keep the checker from ending.
        let put = |producer: directed::many::Producer<Item>, mut burst: ArrayVec<Item, 2>| {
            move || {
                producer.put_many(&mut burst);
                producer.put_many(&mut burst);
                burst
            }
        };
        let hands = [
            thread::spawn(put(producer, mint.items([0, 1]))),
            thread::spawn(put(other, mint.items([10, 11]))),
        ];
        let mut out: ArrayVec<Item, 4> = ArrayVec::new();
        for _ in 0..2 {
            consumer.take_many(&mut out);
        }
        let refused: Vec<Item> = hands.into_iter().flat_map(|hand| hand.join().unwrap()).collect();
        consumer.take_many(&mut out);
        assert!(consumer.is_closed());
        // What a producer kept is the end of what it had.
        let seen: Vec<usize> = out.into_iter().chain(refused).map(|item| item.check(0)).collect();
        let of = |from: usize| seen.iter().copied().filter(|n| n / 10 == from).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![0, 1], vec![10, 11]));
    });
}

#[test]
fn unordered_each_item_to_one_consumer() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, consumer) = unordered::queue::<Item>(2);
        let mut burst = mint.items([0, 1, 2, 3]);
        producer.put_many(&mut burst);
        let take = |consumer: unordered::Consumer<Item>| {
            move || {
                let mut out: ArrayVec<Item, 4> = ArrayVec::new();
                out.extend(consumer.take());
                consumer.take_many(&mut out);
                out.into_iter().map(|item| item.check(0)).collect::<Vec<usize>>()
            }
        };
        let hands = [thread::spawn(take(consumer.clone())), thread::spawn(take(consumer.clone()))];
        // Into the slots that are being emptied, once round.
        producer.put_many(&mut burst);
        producer.put_many(&mut burst);
        let mut seen = Vec::new();
        for hand in hands {
            let part = hand.join().unwrap();
            assert!(part.is_sorted());
            seen.extend(part);
        }
        seen.extend(std::iter::from_fn(|| consumer.take()).map(|item| item.check(0)));
        seen.extend(burst.into_iter().map(|item| item.check(0)));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn unordered_two_producers_never_share_a_slot() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, consumer) = unordered::queue(2);
        let other = producer.clone();
        let (a, b) = (mint.item(0), mint.items([10, 11]));
        let first = thread::spawn(move || producer.put(a).err().map(|item| item.into_item()));
        let second = thread::spawn(move || {
            let mut burst = b;
            other.put_many(&mut burst);
            burst
        });
        let early = consumer.take();
        let mut seen: Vec<usize> = first.join().unwrap().into_iter().map(|i| i.check(0)).collect();
        seen.extend(second.join().unwrap().into_iter().map(|item| item.check(0)));
        seen.extend(early.into_iter().map(|item| item.check(0)));
        seen.extend(std::iter::from_fn(|| consumer.take()).map(|item| item.check(0)));
        seen.sort_unstable();
        assert_eq!(seen, [0, 10, 11]);
    });
}

#[test]
fn ordered_whoever_works_the_order_is_kept() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(2);
        let other = worker.clone();
        let mut burst = mint.items([0, 1, 2]);
        let help = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(mut work) = other.take(1) {
                    work.iter_mut().for_each(|item| item.add(100));
                    work.finish();
                }
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            submitter.put_many(&mut burst);
            if let Some(mut work) = worker.take(1) {
                work.iter_mut().for_each(|item| item.add(100));
                work.finish();
            }
            let mut out: ArrayVec<Released<Item>, 4> = ArrayVec::new();
            if releaser.release_many(&mut out) == 0 {
                yield_now();
            }
            seen.extend(out.into_iter().map(|item| item.finished().unwrap().check(100)));
        }
        assert_eq!(seen, [0, 1, 2]);
        help.join().unwrap();
    });
}

#[test]
fn ordered_two_workers_on_one_burst() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue(4);
        submitter.put_many(&mut mint.items([0, 1, 2]));
        let hands: Vec<_> = [worker.clone(), worker]
            .into_iter()
            .map(|worker| {
                thread::spawn(move || {
                    let mut done = 0;
                    while let Some(mut work) = worker.take(2) {
                        work.iter_mut().for_each(|item| item.add(100));
                        done += work.len();
                        work.finish();
                    }
                    done
                })
            })
            .collect();
        let early = releaser.release();
        let done: usize = hands.into_iter().map(|hand| hand.join().unwrap()).sum();
        assert_eq!(done, 3);
        let rest = std::iter::from_fn(|| releaser.release());
        let seen: Vec<usize> =
            early.into_iter().chain(rest).map(|item| item.finished().unwrap().check(100)).collect();
        assert_eq!(seen, [0, 1, 2]);
    });
}

/// Works on one item, in its turn on what all share; false if there is none.
fn work_in_turn(worker: &ordered::Worker<Item>, shared: &Flow) -> bool {
    let Some(mut work) = worker.take(1) else { return false };
    let number = work.iter_mut().map(|item| item.number).sum();
    work.iter_mut().for_each(|item| item.add(100));
    loop {
        if let Some(turn) = work.turn() {
            shared.note(number);
            turn.end();
            break;
        }
        yield_now();
    }
    work.iter_mut().for_each(|item| item.add(100));
    work.finish();
    true
}

#[test]
fn ordered_what_is_shared_is_touched_in_turns() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(2);
        submitter.put_many(&mut mint.items([0, 1]));
        let shared = Flow::new();
        let hand = {
            let (worker, shared) = (worker.clone(), shared.clone());
            thread::spawn(move || work_in_turn(&worker, &shared))
        };
        work_in_turn(&worker, &shared);
        hand.join().unwrap();
        work_in_turn(&worker, &shared);
        let mut seen = Vec::new();
        while let Some(released) = releaser.release() {
            seen.push(released.finished().unwrap().check(200));
            releaser.end_turn();
        }
        assert_eq!((seen, shared.seen()), (vec![0, 1], vec![0, 1]));
    });
}

#[test]
fn ordered_a_turn_that_is_kept_goes_by_way_of_the_releaser() {
    for gives_up in [false, true] {
        loom::model(move || {
            let mint = Mint::new();
            let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(2);
            submitter.put_many(&mut mint.items([0, 1]));
            let shared = Flow::new();
            let hand = {
                let (worker, shared) = (worker.clone(), shared.clone());
                thread::spawn(move || {
                    let mut work = worker.take(1).unwrap();
                    if work.iter_mut().any(|item| item.number == 1) {
                        // The other one has the first, and waits for nobody: see below.
                        return drop(work);
                    }
                    if work.turn().is_some() {
                        shared.note(0);
                    }
                    if !gives_up {
                        work.finish();
                    }
                })
            };
            // As the owner of the packets, who releases while it waits for the turn of its own.
            let mut order = Vec::new();
            if let Some(mut work) = worker.take(1) {
                let number = work.iter_mut().map(|item| item.number).sum();
                loop {
                    if releaser.release().is_some() {
                        shared.note(10);
                        releaser.end_turn();
                        order.push(10);
                    }
                    if let Some(turn) = work.turn() {
                        shared.note(number);
                        turn.end();
                        order.push(number);
                        break;
                    }
                    yield_now();
                }
                work.finish();
            }
            hand.join().unwrap();
            while releaser.release().is_some() {
                releaser.end_turn();
            }
            let seen = shared.seen();
            match order.as_slice() {
                [10, 1] => assert_eq!(seen, [0, 10, 1]),
                [0] => assert_eq!(seen, [0]),
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn ordered_submitter_and_releaser_on_two_threads() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(2);
        let mut burst = mint.items([0, 1, 2]);
        submitter.put_many(&mut burst);
        let submit = thread::spawn(move || {
            submitter.put_many(&mut burst);
            burst
        });
        worker.take(2).unwrap().finish();
        let mut out: ArrayVec<Released<Item>, 4> = ArrayVec::new();
        assert_eq!(releaser.release_many(&mut out), 2);
        let refused = submit.join().unwrap();
        if let Some(work) = worker.take(2) {
            work.finish();
        }
        releaser.release_many(&mut out);
        let seen: Vec<usize> = out
            .into_iter()
            .map(|item| item.finished().unwrap())
            .chain(refused)
            .map(|item| item.check(0))
            .collect();
        assert_eq!(seen, [0, 1, 2]);
    });
}

#[test]
fn ordered_a_worker_that_goes_leaves_everything() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue(4);
        submitter.put_many(&mut mint.items([0, 1, 2]));
        let hand = thread::spawn(move || {
            worker.take(1).unwrap().finish();
            drop(worker.take(1));
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            match releaser.release() {
                Some(released) => seen.push(released),
                None => yield_now(),
            }
        }
        hand.join().unwrap();
        assert!(matches!(
            seen.as_slice(),
            [
                Released::Finished(Item { number: 0, .. }),
                Released::Unfinished(Item { number: 1, .. }),
                Released::Untouched(Item { number: 2, .. })
            ]
        ));
        assert!(submitter.is_closed());
        assert!(releaser.release().is_none());
        drop(seen);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn ordered_what_comes_while_the_last_worker_goes_is_released() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue::<Item>(2);
        let item = mint.item(0);
        let go = thread::spawn(move || drop(worker));
        let submit = thread::spawn(move || submitter.put(item).err());
        let early = releaser.release();
        go.join().unwrap();
        let refused = submit.join().unwrap().map(|refused| refused.into_item());
        let seen: Vec<usize> = [early, releaser.release()]
            .into_iter()
            .flatten()
            .map(|released| match released {
                Released::Untouched(item) => item,
                Released::Finished(_) | Released::Unfinished(_) => panic!("nobody worked"),
            })
            .chain(refused)
            .map(|item| item.check(0))
            .collect();
        assert_eq!(seen, [0]);
        assert!(releaser.is_closed());
    });
}

#[test]
fn ordered_all_parts_go_and_everything_is_dropped_once() {
    loom::model(|| {
        let mint = Mint::new();
        let (mut submitter, worker, mut releaser) = ordered::queue(2);
        submitter.put_many(&mut mint.items([0, 1]));
        let hand = thread::spawn(move || {
            if let Some(work) = worker.take(1) {
                work.finish();
            }
        });
        let release = thread::spawn(move || drop(releaser.release()));
        drop(submitter);
        hand.join().unwrap();
        release.join().unwrap();
        assert_eq!(mint.living(), 0);
    });
}

/// What a flow's handlers share without any order of their own.
#[derive(Clone)]
struct Flow(Arc<UnsafeCell<Vec<usize>>>);

impl Flow {
    fn new() -> Self {
        Self(Arc::new(UnsafeCell::new(Vec::new())))
    }

    fn handle(&self, item: Item) {
        self.note(item.check(0));
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn note(&self, number: usize) {
        // SAFETY: loom fails the model if two threads come here unordered: that is the test.
        self.0.with_mut(|seen| unsafe { (*seen).push(number) });
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn seen(&self) -> Vec<usize> {
        // SAFETY: all handlers have ended.
        self.0.with(|seen| unsafe { (*seen).clone() })
    }
}

/// Takes all that can be had from a lane, one item at a time.
fn serve(consumer: &atomic::Consumer<Item>, flow: &Flow) {
    while let Some(mut lane) = consumer.hold() {
        if let Some(item) = lane.take() {
            flow.handle(item);
        }
    }
}

#[test]
fn atomic_a_flow_in_one_hand_and_in_order() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, consumer) = atomic::queue(2, 2);
        let flow = Flow::new();
        let hands: Vec<_> = (0..2)
            .map(|_| {
                let (consumer, flow) = (consumer.clone(), flow.clone());
                thread::spawn(move || serve(&consumer, &flow))
            })
            .collect();
        let mut refused = 0;
        for number in 0..2 {
            if producer.put(7, mint.item(number)).is_err() {
                refused += 1;
            }
        }
        hands.into_iter().for_each(|hand| hand.join().unwrap());
        // Whatever was put is there to be taken: no announcement is lost.
        serve(&consumer, &flow);
        assert_eq!(refused, 0);
        assert_eq!(flow.seen(), [0, 1]);
        assert!(consumer.is_empty());
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn atomic_an_item_that_comes_while_the_lane_goes_back_is_served() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, consumer) = atomic::queue(2, 4);
        let flow = Flow::new();
        producer.put(7, mint.item(0)).unwrap();
        let hand = {
            let (consumer, flow) = (consumer.clone(), flow.clone());
            thread::spawn(move || serve(&consumer, &flow))
        };
        let mut burst: ArrayVec<(u64, Item), 2> =
            mint.items([1, 2]).into_iter().map(|item| (7, item)).collect();
        assert_eq!(producer.put_many(&mut burst), 2);
        serve(&consumer, &flow);
        hand.join().unwrap();
        serve(&consumer, &flow);
        assert_eq!(flow.seen(), [0, 1, 2]);
    });
}

#[test]
fn atomic_two_producers_into_one_lane() {
    loom::model(|| {
        let mint = Mint::new();
        let (producer, consumer) = atomic::queue(2, 2);
        let flow = Flow::new();
        let hands: Vec<_> = [0, 10]
            .into_iter()
            .map(|number| {
                let (producer, item) = (producer.clone(), mint.item(number));
                thread::spawn(move || producer.put(7, item).unwrap())
            })
            .collect();
        serve(&consumer, &flow);
        hands.into_iter().for_each(|hand| hand.join().unwrap());
        serve(&consumer, &flow);
        let mut seen = flow.seen();
        seen.sort_unstable();
        assert_eq!(seen, [0, 10]);
    });
}

#[test]
fn nobody_sleeps_over_an_item() {
    loom::model(|| {
        let (mut producer, mut consumer) = directed::queue(2);
        let sleepers = Sleepers::new();
        let bell = Arc::new(Notify::new());
        let put = {
            let (sleepers, bell) = (sleepers.clone(), Arc::clone(&bell));
            thread::spawn(move || {
                producer.put(1).unwrap();
                if sleepers.needs_wake(5) {
                    bell.notify();
                }
                producer
            })
        };
        // A lost wake-up is a deadlock, which loom reports.
        let item = loop {
            if let Some(item) = consumer.take() {
                break item;
            }
            sleepers.prepare(5);
            if consumer.is_empty() {
                bell.wait();
            }
            sleepers.awake(5);
        };
        assert_eq!(item, 1);
        put.join().unwrap();
    });
}

#[test]
fn nobody_of_many_sleeps_over_an_item() {
    loom::model(|| {
        let (producer, consumer) = unordered::queue(2);
        let sleepers = Sleepers::new();
        let bell = Arc::new(Notify::new());
        let take = {
            let (sleepers, bell) = (sleepers.clone(), Arc::clone(&bell));
            thread::spawn(move || {
                loop {
                    if let Some(item) = consumer.take() {
                        break item;
                    }
                    sleepers.prepare(0);
                    if consumer.is_empty() {
                        bell.wait();
                    }
                    sleepers.awake(0);
                }
            })
        };
        producer.put(1).unwrap();
        if let Some(worker) = sleepers.wake_one() {
            assert_eq!(worker, 0);
            bell.notify();
        }
        assert_eq!(take.join().unwrap(), 1);
    });
}

#[test]
fn a_releaser_does_not_sleep_over_a_finish() {
    loom::model(|| {
        let (mut submitter, worker, mut releaser) = ordered::queue(2);
        submitter.put(1).unwrap();
        let sleepers = Sleepers::new();
        let bell = Arc::new(Notify::new());
        let hand = {
            let (sleepers, bell) = (sleepers.clone(), Arc::clone(&bell));
            thread::spawn(move || {
                worker.take(1).unwrap().finish();
                if sleepers.needs_wake(0) {
                    bell.notify();
                }
                worker
            })
        };
        let released = loop {
            if let Some(released) = releaser.release() {
                break released;
            }
            sleepers.prepare(0);
            if !releaser.is_ready() {
                bell.wait();
            }
            sleepers.awake(0);
        };
        assert_eq!(released, Released::Finished(1));
        hand.join().unwrap();
    });
}

fn peers<const N: usize>(depth: usize) -> [Peer<Item>; N] {
    let peers: Vec<_> = Mesh::new(N, depth, &Sleepers::new()).into_iter().collect();
    peers.try_into().ok().unwrap()
}

/// An SA: its home, and a state that only the home writes.
#[derive(Clone)]
struct Sa {
    home: Arc<Home>,
    state: Flow,
}

impl Sa {
    fn at(worker: usize) -> Self {
        Self { home: Arc::new(Home::new(worker)), state: Flow::new() }
    }

    /// Works on an item, or hands it over.
    fn take(&self, peer: &mut Peer<Item>, item: Item) {
        match self.home.at() {
            at if at == peer.worker() => self.state.handle(item),
            at => peer.send(at, item).expect("room"),
        }
    }

    /// Takes what has come; false if nothing had.
    fn serve(&self, peer: &mut Peer<Item>) -> bool {
        let mut out: ArrayVec<Item, 4> = ArrayVec::new();
        let came = peer.receive(&mut out, 4) > 0;
        out.into_iter().for_each(|item| self.take(peer, item));
        came
    }

    /// When all threads have ended: serves what is under way, and gives what was worked on.
    fn end(&self, peers: &mut [Peer<Item>]) -> Vec<usize> {
        while peers.iter_mut().any(|peer| self.serve(peer)) {}
        let mut seen = self.state.seen();
        seen.sort_unstable();
        seen
    }
}

#[test]
fn a_packet_handed_over_while_the_home_moves_is_worked_on_once() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa::at(1);
        let [mut first, mut old, mut new] = peers(2);
        let leave = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.serve(&mut old);
                assert!(sa.home.leave(1, 2));
                sa.serve(&mut old);
                old
            })
        };
        let arrive = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.serve(&mut new);
                new
            })
        };
        for item in mint.items([0, 1]) {
            sa.take(&mut first, item);
        }
        let mut peers = [first, leave.join().unwrap(), arrive.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 1]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn of_two_that_claim_one_is_the_home() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa { home: Arc::new(Home::vacant()), state: Flow::new() };
        let [mut here, mut there] = peers(2);
        let item = mint.item(10);
        let hand = {
            let sa = sa.clone();
            thread::spawn(move || {
                let home = sa.home.claim(1);
                assert_eq!(home, sa.home.at());
                sa.take(&mut there, item);
                sa.serve(&mut there);
                there
            })
        };
        let home = sa.home.claim(0);
        assert_eq!(home, sa.home.at());
        sa.take(&mut here, mint.item(0));
        sa.serve(&mut here);
        let mut peers = [here, hand.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 10]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn a_home_that_goes_and_comes_back_has_one_writer() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa::at(0);
        let [mut here, mut there] = peers(4);
        let item = mint.item(10);
        let hand = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.take(&mut there, item);
                sa.serve(&mut there);
                let _not_there_yet = sa.home.leave(1, 0);
                sa.serve(&mut there);
                there
            })
        };
        let [one, two] = mint.items([0, 1]).into_inner().ok().unwrap();
        sa.take(&mut here, one);
        assert!(sa.home.leave(0, 1));
        sa.take(&mut here, two);
        sa.serve(&mut here);
        let mut peers = [here, hand.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 1, 10]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn a_home_that_only_passes_on_passes_all_on() {
    loom::model(|| {
        let sa = Sa::at(0);
        let pass = {
            let sa = sa.clone();
            // Never asks whether it is the home, nor touches the state.
            thread::spawn(move || sa.home.leave(1, 2))
        };
        let last = {
            let sa = sa.clone();
            thread::spawn(move || sa.home.is_at(2).then(|| sa.state.note(2)))
        };
        sa.state.note(0);
        assert!(sa.home.leave(0, 1));
        let (passed, noted) = (pass.join().unwrap(), last.join().unwrap().is_some());
        assert_eq!(sa.home.at(), if passed { 2 } else { 1 });
        assert_eq!(sa.state.seen(), if noted { vec![0, 2] } else { vec![0] });
    });
}

#[test]
fn nobody_sleeps_over_a_parcel() {
    loom::model(|| {
        let sleepers = Sleepers::new();
        let mut peers = Mesh::new(2, 2, &sleepers).into_iter();
        let (mut here, mut there) = (peers.next().unwrap(), peers.next().unwrap());
        let bell = Arc::new(Notify::new());
        let send = {
            let bell = Arc::clone(&bell);
            thread::spawn(move || {
                there.send(0, 1).unwrap();
                there.wake(|worker| {
                    assert_eq!(worker, 0);
                    bell.notify();
                });
                there
            })
        };
        // A lost wake-up is a deadlock, which loom reports.
        let mut out: ArrayVec<u32, 2> = ArrayVec::new();
        while here.receive(&mut out, 2) == 0 {
            sleepers.prepare(0);
            if here.is_empty() {
                bell.wait();
            }
            sleepers.awake(0);
        }
        assert_eq!(out.as_slice(), [1]);
        send.join().unwrap();
    });
}

/// Things that are known by numbers, each watched by loom: its number says who may touch it.
#[derive(Clone)]
struct Things(Arc<(Depot, [UnsafeCell<usize>; 4])>);

impl Things {
    fn new() -> Self {
        Self(Arc::new((Depot::new(4), core::array::from_fn(|_| UnsafeCell::new(0)))))
    }

    fn take(&self) -> ArrayVec<u32, BATCH> {
        let mut out = ArrayVec::new();
        self.0.0.take(&mut out);
        out.iter().for_each(|number| self.touch(*number));
        out
    }

    #[allow(unsafe_code, reason = "loom's cells are read and written by pointers")]
    fn touch(&self, number: u32) {
        // SAFETY: loom fails the model if two threads come here unordered: that is the test.
        self.0.1[number as usize].with_mut(|thing| unsafe { *thing += 1 });
    }

    fn put(&self, number: u32) {
        self.touch(number);
        self.0.0.put(number);
    }

    fn put_batch(&self, numbers: [u32; BATCH]) {
        numbers.iter().for_each(|number| self.touch(*number));
        self.0.0.put_batch(&numbers);
    }

    /// All that is in the depot, when no other thread is left.
    fn rest(&self) -> Vec<u32> {
        let mut rest = Vec::new();
        while !self.0.0.is_empty() {
            rest.extend(self.take());
        }
        rest.sort_unstable();
        rest
    }
}

#[test]
fn depot_singles_that_go_and_come_back_are_with_one_thread() {
    loom::model(|| {
        let things = Things::new();
        (0..3).for_each(|number| things.put(number));
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                // The classic trap: top and next go, and the top comes back.
                let mut taken = things.take();
                taken.drain(..1).for_each(|number| things.put(number));
                taken
            })
        };
        let mine = things.take();
        let theirs = hand.join().unwrap();
        let mut all = things.rest();
        all.extend(mine.into_iter().chain(theirs));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn depot_batches_go_round_between_two_threads() {
    loom::model(|| {
        let things = Things::new();
        things.put_batch([0, 1]);
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                let taken = things.take();
                if let Ok(batch) = taken.into_inner() {
                    things.put_batch(batch);
                }
            })
        };
        things.put_batch([2, 3]);
        let taken = things.take();
        taken.into_iter().for_each(|number| things.put(number));
        hand.join().unwrap();
        assert_eq!(things.rest(), [0, 1, 2, 3]);
    });
}

#[test]
fn depot_two_threads_never_take_one_batch() {
    loom::model(|| {
        let things = Things::new();
        things.put_batch([0, 1]);
        things.put_batch([2, 3]);
        let hand = {
            let things = things.clone();
            thread::spawn(move || {
                let first = things.take();
                let second = things.take();
                first.into_inner().ok().into_iter().for_each(|batch| things.put_batch(batch));
                second
            })
        };
        let mine = things.take();
        let theirs = hand.join().unwrap();
        let mut all = things.rest();
        all.extend(mine.into_iter().chain(theirs));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    });
}
