//! Slots: the numbers by which plans, tables and workers name a way out of a worker.
//!
//! | slots | stand for |
//! | --- | --- |
//! | 0 | the private interface, a worker's first queue of it |
//! | 1 to 64 | ports, a worker's first queue of each |
//! | 65 to 128 | tunnel interfaces, which have one queue |
//! | 129 to 1103 | further queues of the private interface and of ports: of the second turn, of the third, and so on |
//! | from 2048 on | VLANs ([`FIRST_VLAN_SLOT`]) |
//! | from 16384 on | headends of SRv6 |
//! | from 28672 on | far ends of overlays |
//!
//! An interface has the same slot at each worker, so a plan names it by one number. What is sent leaves by the first
//! queue, whose number fits in a byte: bursts of helpers have no more room. A worker pays for the slots that are
//! taken, and eight bytes for each below the highest of these.

use super::places::FIRST_VLAN_SLOT;

/// The most ports.
pub const MAX_PORTS: usize = 64;

/// The most tunnel interfaces.
pub const MAX_TUNNELS: usize = 64;

/// The most queues of one interface that one worker has.
pub const QUEUES_PER_WORKER: usize = 16;

/// The slot of the private interface.
pub const PRIVATE: usize = 0;

/// The first slot of a tunnel interface.
const TUNNELS: usize = 1 + MAX_PORTS;

/// The first slot of a further queue.
const FURTHER: usize = TUNNELS + MAX_TUNNELS;

/// Slots below this are those of queues.
pub(crate) const QUEUES: usize = FURTHER + (QUEUES_PER_WORKER - 1) * TUNNELS;

const _: () = assert!(FURTHER <= 1 << u8::BITS && QUEUES <= FIRST_VLAN_SLOT);

/// The slot of a port, by its number.
pub const fn of_port(port: usize) -> usize {
    1 + port
}

/// The slot of a tunnel interface, by its number.
pub const fn of_tunnel(tunnel: usize) -> usize {
    TUNNELS + tunnel
}

/// The slot of a worker's queue number `turn` of an interface, which is not a tunnel. `None` if there is none for it.
pub const fn of_turn(interface: usize, turn: usize) -> Option<usize> {
    match turn {
        0 => Some(interface),
        QUEUES_PER_WORKER.. => None,
        _ => Some(FURTHER + (turn - 1) * TUNNELS + interface),
    }
}

/// The slot of the interface of a queue, and the queue's turn.
pub const fn turn_of(slot: usize) -> (usize, usize) {
    match slot.checked_sub(FURTHER) {
        None => (slot, 0),
        Some(further) => (further % TUNNELS, 1 + further / TUNNELS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_queue_has_a_slot_of_its_own_and_is_found_by_it() {
        let mut taken: HashSet<usize> = (0..MAX_TUNNELS).map(of_tunnel).collect();
        assert_eq!(taken.len(), MAX_TUNNELS);
        for interface in (0..MAX_PORTS).map(of_port).chain([PRIVATE]) {
            for turn in 0..QUEUES_PER_WORKER {
                let slot = of_turn(interface, turn).expect("a slot");
                assert!(slot < QUEUES && taken.insert(slot), "{interface}, {turn}: {slot}");
                assert_eq!(turn_of(slot), (interface, turn));
            }
            assert_eq!(of_turn(interface, QUEUES_PER_WORKER), None);
        }
        assert_eq!(taken.len(), QUEUES);
    }
}
