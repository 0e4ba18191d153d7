//! A flow is in one hand at a time.

use arrayvec::ArrayVec;
use dispatch::atomic;
use loom::thread::{self};

use super::support::{Flow, Item, Mint};

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
