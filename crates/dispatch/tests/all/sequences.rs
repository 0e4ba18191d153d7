//! Random sequences of operations by one thread, against plain models of each kind.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use dispatch::ordered::{Released, Work};
use dispatch::{Refused, atomic, directed, ordered};
use proptest::collection::vec;
use proptest::prelude::*;

/// An operation on a directed queue.
#[derive(Clone, Debug)]
enum Step {
    Put,
    PutMany(usize),
    Take,
    TakeMany(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Put),
        (0..12_usize).prop_map(Step::PutMany),
        Just(Step::Take),
        (0..12_usize).prop_map(Step::TakeMany),
    ]
}

/// Carries the steps out on a directed queue of eight and on a plain one.
fn against_model(steps: Vec<Step>) -> Result<(), TestCaseError> {
    const CAPACITY: usize = 8;
    let (mut producer, mut consumer) = directed::queue::<u64>(CAPACITY);
    let mut model = VecDeque::new();
    let mut next = 0..;
    for step in steps {
        match step {
            Step::Put => {
                let item = next.next().unwrap_or_default();
                if model.len() < CAPACITY {
                    model.push_back(item);
                    prop_assert_eq!(producer.put(item), Ok(()));
                } else {
                    prop_assert_eq!(producer.put(item), Err(Refused::Full(item)));
                }
            }
            Step::PutMany(count) => {
                let mut items: ArrayVec<u64, 16> = next.by_ref().take(count).collect();
                let fits = count.min(CAPACITY - model.len());
                model.extend(&items[..fits]);
                let rest = items[fits..].to_vec();
                prop_assert_eq!(producer.put_many(&mut items), fits);
                prop_assert_eq!(items.as_slice(), rest.as_slice());
            }
            Step::Take => prop_assert_eq!(consumer.take(), model.pop_front()),
            Step::TakeMany(count) => {
                // `out` has room for `count` more.
                let mut out: ArrayVec<u64, 16> = (0..16 - count as u64).collect();
                let there = count.min(model.len());
                let mut expected = out.to_vec();
                expected.extend(model.drain(..there));
                prop_assert_eq!(consumer.take_many(&mut out), there);
                prop_assert_eq!(out.as_slice(), expected.as_slice());
            }
        }
        prop_assert_eq!(consumer.is_empty(), model.is_empty());
        prop_assert_eq!(producer.stats(), consumer.stats());
        prop_assert_eq!(producer.stats().depth, model.len());
    }
    Ok(())
}

/// An operation on an ordered queue.
#[derive(Clone, Debug)]
enum Ordered {
    PutMany(usize),
    Take(usize),
    /// Ends the work at this place of those in hand, done or given up.
    End(usize, bool),
    Release(usize),
}

fn ordered_step() -> impl Strategy<Value = Ordered> {
    prop_oneof![
        (0..12_usize).prop_map(Ordered::PutMany),
        (0..5_usize).prop_map(Ordered::Take),
        (0..8_usize, prop::bool::weighted(0.9)).prop_map(|(place, done)| Ordered::End(place, done)),
        (0..12_usize).prop_map(Ordered::Release),
    ]
}

/// Where an item of the model is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Waiting,
    InHand,
    Done(bool),
}

/// An operation on an atomic queue.
#[derive(Clone, Debug)]
enum Atomic {
    Put(u64),
    PutMany(Vec<u64>),
    Hold,
    /// Takes from the lane at this place of those held.
    Take(usize, usize),
    Drop(usize),
}

fn atomic_step() -> impl Strategy<Value = Atomic> {
    prop_oneof![
        (0..10_u64).prop_map(Atomic::Put),
        vec(0..10_u64, 0..16).prop_map(Atomic::PutMany),
        Just(Atomic::Hold),
        (0..4_usize, 0..6_usize).prop_map(|(place, count)| Atomic::Take(place, count)),
        (0..4_usize).prop_map(Atomic::Drop),
    ]
}

proptest! {
    #[test]
    fn directed_is_a_queue(steps in vec(step(), 0..200)) {
        against_model(steps)?;
    }

    #[test]
    fn ordered_releases_what_is_done_and_nothing_else(steps in vec(ordered_step(), 0..200)) {
        const CAPACITY: usize = 8;
        let (mut submitter, worker, mut releaser) = ordered::queue(CAPACITY);
        let other = worker.clone();
        // The items that are not released, from the front.
        let mut model: VecDeque<(u64, At)> = VecDeque::new();
        let mut hands: Vec<(Work<'_, u64>, Vec<u64>)> = Vec::new();
        let mut next = 0..;
        for (turn, step) in steps.into_iter().enumerate() {
            match step {
                Ordered::PutMany(count) => {
                    let mut items: ArrayVec<u64, 16> = next.by_ref().take(count).collect();
                    let fits = count.min(CAPACITY - model.len());
                    model.extend(items[..fits].iter().map(|item| (*item, At::Waiting)));
                    prop_assert_eq!(submitter.put_many(&mut items), fits);
                    prop_assert_eq!(items.len(), count - fits);
                }
                Ordered::Take(most) => {
                    let handle = if turn % 2 == 0 { &worker } else { &other };
                    let waiting: Vec<u64> = model
                        .iter_mut()
                        .filter(|(_, at)| *at == At::Waiting)
                        .take(most)
                        .map(|(item, at)| { *at = At::InHand; *item })
                        .collect();
                    match handle.take(most) {
                        Some(mut work) => {
                            let items: Vec<u64> = work.iter_mut().map(|item| *item).collect();
                            prop_assert_eq!(&items, &waiting);
                            work.iter_mut().for_each(|item| *item += 1000);
                            hands.push((work, items));
                        }
                        None => prop_assert!(waiting.is_empty()),
                    }
                }
                Ordered::End(place, done) => {
                    if place < hands.len() {
                        let (work, items) = hands.swap_remove(place);
                        prop_assert_eq!(work.len(), items.len());
                        if done { work.finish() } else { drop(work) }
                        for (item, at) in &mut model {
                            if items.contains(item) { *at = At::Done(done); }
                        }
                    }
                }
                Ordered::Release(count) => {
                    let mut out: ArrayVec<Released<u64>, 16> =
                        (0..16 - count).map(|_| Released::Untouched(0)).collect();
                    let before = out.len();
                    let mut expected = Vec::new();
                    while expected.len() < count
                        && let Some((item, At::Done(done))) = model.front().copied()
                    {
                        let item = item + 1000;
                        expected.push(
                            if done { Released::Finished(item) } else { Released::Unfinished(item) },
                        );
                        model.pop_front();
                    }
                    prop_assert_eq!(releaser.release_many(&mut out), expected.len());
                    prop_assert_eq!(&out[before..], expected.as_slice());
                }
            }
            let ready = matches!(model.front(), Some((_, At::Done(_))));
            prop_assert_eq!(releaser.is_ready(), ready);
            prop_assert_eq!(worker.is_empty(), !model.iter().any(|(_, at)| *at == At::Waiting));
            prop_assert_eq!(submitter.stats().depth, model.len());
        }
    }

    #[test]
    fn atomic_keeps_each_flow_in_order_and_in_one_hand(steps in vec(atomic_step(), 0..200)) {
        const DEPTH: usize = 4;
        let (producer, consumer) = atomic::queue(4, DEPTH);
        let mut held: Vec<atomic::Lane<'_, (u64, u64)>> = Vec::new();
        // Items by flow; where a flow's lane is becomes known when it is first held.
        let mut model: Vec<VecDeque<u64>> = vec![VecDeque::new(); 10];
        let mut lanes: Vec<Option<usize>> = vec![None; 10];
        let mut next = 0..;
        for step in steps {
            match step {
                Atomic::Put(flow) => {
                    let item = next.next().unwrap_or_default();
                    match producer.put(flow, (flow, item)) {
                        Ok(()) => model[flow as usize].push_back(item),
                        Err(refused) => prop_assert_eq!(refused, Refused::Full((flow, item))),
                    }
                }
                Atomic::PutMany(flows) => {
                    let mut burst: ArrayVec<(u64, (u64, u64)), 16> =
                        flows.iter().zip(&mut next).map(|(flow, item)| (*flow, (*flow, item))).collect();
                    let all = burst.clone();
                    let put = producer.put_many(&mut burst);
                    prop_assert_eq!(put + burst.len(), all.len());
                    prop_assert!(burst.is_sorted_by_key(|(_, (_, item))| *item));
                    for (flow, (_, item)) in &all {
                        if !burst.iter().any(|(_, (_, left))| left == item) {
                            // Nothing overtakes what was refused.
                            prop_assert!(!burst.iter().any(|(f, (_, left))| f == flow && left < item));
                            model[*flow as usize].push_back(*item);
                        }
                    }
                }
                Atomic::Hold => {
                    let expected = model
                        .iter()
                        .zip(&lanes)
                        .any(|(items, lane)| !items.is_empty()
                            && lane.is_none_or(|lane| held.iter().all(|h| h.index() != lane)));
                    match consumer.hold() {
                        Some(lane) => {
                            prop_assert!(held.iter().all(|other| other.index() != lane.index()));
                            held.push(lane);
                        }
                        // A flow whose lane is not known yet may lie in one that is held.
                        None => prop_assert!(!expected || lanes.contains(&None)),
                    }
                }
                Atomic::Take(place, count) => {
                    if let Some(lane) = held.get_mut(place) {
                        for _ in 0..count {
                            let Some((flow, item)) = lane.take() else { break };
                            prop_assert_eq!(model[flow as usize].pop_front(), Some(item));
                            let known = &mut lanes[flow as usize];
                            prop_assert!(known.is_none_or(|known| known == lane.index()));
                            *known = Some(lane.index());
                        }
                    }
                }
                Atomic::Drop(place) => {
                    if place < held.len() {
                        drop(held.swap_remove(place));
                    }
                }
            }
            let depth: usize = model.iter().map(VecDeque::len).sum();
            prop_assert_eq!(producer.stats().depth, depth);
        }
        // Everything that was put is there to be taken.
        held.clear();
        while let Some(mut lane) = consumer.hold() {
            while let Some((flow, item)) = lane.take() {
                prop_assert_eq!(model[flow as usize].pop_front(), Some(item));
            }
        }
        prop_assert!(model.iter().all(VecDeque::is_empty));
    }
}
