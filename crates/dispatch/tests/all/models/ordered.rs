//! Several workers on one sequence, released in its order.

use arrayvec::ArrayVec;
use dispatch::ordered;
use dispatch::ordered::Released;
use loom::thread::{self, yield_now};

use super::support::{Flow, Item, Mint};

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
