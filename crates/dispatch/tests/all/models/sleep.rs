//! Nobody sleeps over what has come.

use dispatch::ordered::Released;
use dispatch::{Sleepers, directed, ordered};
use loom::sync::{Arc, Notify};
use loom::thread::{self};

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
        let (mut producer, mut consumer) = directed::queue(2);
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
