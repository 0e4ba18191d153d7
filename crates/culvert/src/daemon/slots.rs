//! Which worker has which queue, and in which of its slots.
//!
//! | queue `q` of | worker | slot |
//! | --- | --- | --- |
//! | the private interface | `q % n` | 0 for the first `n` queues; the last slots for further ones |
//! | port `p` | `q % n` | `1 + 16 p + q / n` |
//! | tunnel interface `t`, which has one | 0 | `128 + t` |
//!
//! So the first queue that a worker has of an interface is in the same slot at each of them, and a
//! frame finds its port by the interface alone.

use dataplane::MAX_PORTS;

/// The most queues of one port that one worker has.
pub const QUEUES_PER_WORKER: usize = 16;

/// The first slot of a tunnel interface.
const TUNNELS: usize = 128;

/// The most ports.
pub const MAX_INTERFACES: usize = (TUNNELS - 1) / QUEUES_PER_WORKER;

/// The most tunnel interfaces.
pub const MAX_TUNNELS: usize = MAX_PORTS - TUNNELS;

/// The first slot behind those of the ports.
const BEHIND: usize = 1 + MAX_INTERFACES * QUEUES_PER_WORKER;

/// A queue's place: a worker, and one of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The worker's number.
    pub worker: usize,
    /// Its slot.
    pub slot: usize,
}

/// The slot of a port's first queue, at whichever worker.
pub const fn first_slot(port: usize) -> usize {
    1 + port * QUEUES_PER_WORKER
}

/// The worker that has a queue, of whichever interface.
pub fn worker_of(queue: usize, workers: usize) -> usize {
    queue % workers.max(1)
}

/// The place of a port's queue, among so many workers. `None` if there is none for it.
pub fn of_port(first_slot: usize, queue: usize, workers: usize) -> Option<Place> {
    let (worker, turn) = (worker_of(queue, workers), queue / workers);
    (turn < QUEUES_PER_WORKER).then_some(Place { worker, slot: first_slot + turn })
}

/// The place of a queue of the private interface. `None` if there is none for it.
pub fn of_private(queue: usize, workers: usize) -> Option<Place> {
    let (worker, turn) = (worker_of(queue, workers), queue / workers);
    let slot = if turn == 0 { 0 } else { BEHIND + turn - 1 };
    (slot < TUNNELS).then_some(Place { worker, slot })
}

/// The slot of a tunnel interface.
pub const fn of_tunnel(tunnel: usize) -> usize {
    TUNNELS + tunnel
}

/// The queue in a place, and the first slot of its interface.
pub fn queue_in(Place { worker, slot }: Place, workers: usize) -> (usize, usize) {
    let (first, turn) = match slot {
        0 => (0, 0),
        BEHIND.. => (0, slot - BEHIND + 1),
        _ => {
            let turn = (slot - 1) % QUEUES_PER_WORKER;
            (slot - turn, turn)
        }
    };
    (turn * workers + worker, first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_queue_has_a_place_of_its_own_and_is_found_there() {
        for workers in [1, 2, 3, 4, 16, 64] {
            let mut taken = HashSet::new();
            let mut check = |place: Place, queue, first| {
                assert!(place.worker < workers && place.slot < TUNNELS, "{place:?}");
                assert!(taken.insert((place.worker, place.slot)), "{place:?} twice");
                assert_eq!(queue_in(place, workers), (queue, first));
            };
            for queue in 0..workers * 16 {
                check(of_private(queue, workers).unwrap(), queue, 0);
                for port in 0..MAX_INTERFACES {
                    let first = first_slot(port);
                    check(of_port(first, queue, workers).unwrap(), queue, first);
                }
            }
            assert_eq!(of_port(1, workers * 16, workers), None);
            assert_eq!(of_private(workers * 16, workers), None);
        }
    }

    #[test]
    fn the_first_queue_of_each_worker_is_in_the_first_slot() {
        for queue in 0..4 {
            assert_eq!(of_port(17, queue, 4), Some(Place { worker: queue, slot: 17 }));
            assert_eq!(of_private(queue, 4), Some(Place { worker: queue, slot: 0 }));
        }
        assert_eq!(of_port(17, 4, 4), Some(Place { worker: 0, slot: 18 }));
    }
}
