//! Queues of what waits, against plain ones.

use std::collections::VecDeque;

use limit::{Bounds, Class, Queue, Store, Waiting};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put { queue: usize, class: usize, len: u32 },
    Take { queue: usize },
    Evict { queue: usize, class: usize },
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..3usize, 0..4usize, 1..1500u32)
            .prop_map(|(queue, class, len)| Step::Put { queue, class, len }),
        3 => (0..3usize).prop_map(|queue| Step::Take { queue }),
        1 => (0..3usize, 0..4usize).prop_map(|(queue, class)| Step::Evict { queue, class }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is put and taken: the first class leaves first, each in its order; no bound is passed, and nothing is lost.
    #[test]
    fn queues_are_as_plain_ones(
        steps in prop::collection::vec(steps(), 1..400),
        most in 1..60usize,
        packets in 1..30u32,
        bytes in 1500..20_000u32,
    ) {
        let bounds = Bounds { packets, bytes };
        let mut store = Store::new(most);
        let mut queues: [Queue; 3] = Default::default();
        let mut model: [[VecDeque<(u32, u32)>; 4]; 3] = Default::default();
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Put { queue, class, len } => {
                    let plain = &model[queue];
                    let held: u32 = plain.iter().flatten().map(|(_, len)| len).sum();
                    let count = plain.iter().flatten().count() as u32;
                    let all = model.iter().flatten().flatten().count();
                    let has_room = count < packets && held + len <= bytes && all < most;
                    prop_assert_eq!(store.has_room(&queues[queue], bounds, len), has_room);
                    if has_room {
                        let waiting = Waiting { item: number, len, dscp: 0, since_ns: 0 };
                        store.push(&mut queues[queue], Class::ALL[class], waiting).expect("room");
                        model[queue][class].push_back((number, len));
                    }
                }
                Step::Take { queue } => {
                    let first = queues[queue].first();
                    let plain = model[queue].iter().position(|list| !list.is_empty());
                    prop_assert_eq!(first.map(|class| class as usize), plain);
                    if let Some(class) = first {
                        let seen = store.front(&queues[queue], class).copied();
                        let taken = store.pop(&mut queues[queue], class);
                        prop_assert_eq!(seen, taken);
                        let wanted = model[queue][class as usize].pop_front();
                        prop_assert_eq!(taken.map(|w| (w.item, w.len)), wanted);
                    }
                }
                Step::Evict { queue, class } => {
                    let behind = queues[queue].last_behind(Class::ALL[class]);
                    let plain = (class + 1..4).rev().find(|at| !model[queue][*at].is_empty());
                    prop_assert_eq!(behind.map(|class| class as usize), plain);
                }
            }
            for (queue, plain) in queues.iter().zip(&model) {
                let lens = || plain.iter().flatten().map(|(_, len)| *len);
                prop_assert_eq!(queue.packets() as usize, lens().count());
                prop_assert_eq!(queue.bytes(), lens().sum::<u32>());
            }
        }
    }
}
