//! Packets that wait for a neighbour, ready but for the Ethernet header.

use core::net::IpAddr;

use forward::HoldQueue;
use io::Packet;

use crate::out::hold;

/// How long a packet may wait for a neighbour, as Linux's three solicitations take.
const WAIT_NS: u64 = 3_000_000_000;

/// Waiting packets by egress interface and next hop.
pub(crate) struct NeighbourQueue(pub(super) HoldQueue<(u32, IpAddr), Waiting>);

/// One of them.
pub(super) struct Waiting {
    pub(super) packet: Packet,
    /// As of [`Towards`](crate::model::Towards).
    pub(super) keeps_dei: bool,
}

impl NeighbourQueue {
    pub(crate) fn new(workers: usize) -> NeighbourQueue {
        NeighbourQueue(HoldQueue::new(hold::limits(WAIT_NS, workers)))
    }
}
