//! Which worker has which queue, and in which of its [`slots`].
//!
//! Queue `q` of an interface is of worker `q % n`, as its `q / n`th queue of that interface. A tunnel interface has one
//! queue, of worker 0.

use dataplane::slots;
pub use dataplane::slots::{MAX_PORTS, PRIVATE, QUEUES_PER_WORKER, of_port, of_tunnel};

/// A queue's place: a worker, and one of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The worker's number.
    pub worker: usize,
    /// Slot at each worker.
    pub slot: usize,
}

/// The worker that has a queue, of whichever interface.
pub fn worker_of(queue: usize, workers: usize) -> usize {
    queue % workers.max(1)
}

/// The place of a queue, among so many workers, by its interface's slot. `None` if there is none for it.
pub fn of_queue(interface: usize, queue: usize, workers: usize) -> Option<Place> {
    let slot = slots::of_turn(interface, queue / workers.max(1))?;
    Some(Place { worker: worker_of(queue, workers), slot })
}

/// The slot of the interface whose queue is in a place, and the queue.
pub fn queue_in(Place { worker, slot }: Place, workers: usize) -> (usize, usize) {
    let (interface, turn) = slots::turn_of(slot);
    (interface, turn * workers + worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_queue_has_a_place_of_its_own_and_is_found_there() {
        for workers in [1, 2, 3, 4, 16, 64] {
            let mut taken = HashSet::new();
            for interface in (0..MAX_PORTS).map(of_port).chain([PRIVATE]) {
                for queue in 0..workers * QUEUES_PER_WORKER {
                    let place = of_queue(interface, queue, workers).unwrap();
                    assert!(place.worker < workers, "{place:?}");
                    assert!(taken.insert((place.worker, place.slot)), "{place:?} twice");
                    assert_eq!(queue_in(place, workers), (interface, queue));
                }
                assert_eq!(of_queue(interface, workers * QUEUES_PER_WORKER, workers), None);
            }
        }
    }

    #[test]
    fn the_first_queue_of_each_worker_is_in_the_interfaces_slot() {
        for interface in [PRIVATE, of_port(0), of_port(63)] {
            for queue in 0..4 {
                let place = Place { worker: queue, slot: interface };
                assert_eq!(of_queue(interface, queue, 4), Some(place));
            }
            let next = of_queue(interface, 4, 4).unwrap();
            assert!(next.worker == 0 && next.slot != interface, "{next:?}");
        }
    }
}
