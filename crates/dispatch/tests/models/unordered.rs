//! Several producers and consumers, in no order.

use arrayvec::ArrayVec;
use dispatch::unordered;
use loom::thread::{self};

use crate::support::{Item, Mint};

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
