//! One producer, one consumer.

use arrayvec::ArrayVec;
use dispatch::directed;
use loom::thread::{self, yield_now};

use super::support::{Item, Mint};

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
