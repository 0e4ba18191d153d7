//! Packets that wait for an SA, each policy's in the order of arrival.

use forward::HoldQueue;
use io::Packet;

use crate::model::Origin;
use crate::out::hold;
use crate::resolve::{SaWait, has_sa};
use crate::view::View;

/// A packet that waits for an SA.
pub(super) struct HeldForSa {
    pub(super) packet: Packet,
    pub(super) origin: Origin,
    /// When this one's time is up, the owner of the policy is asked again.
    pub(super) asks: bool,
}

/// Waiting packets, to be resolved again.
pub(super) struct SaQueue(pub(super) HoldQueue<SaWait, HeldForSa>);

impl SaQueue {
    pub(super) fn new(workers: usize) -> SaQueue {
        SaQueue(HoldQueue::new(hold::limits(WAIT_NS, workers)))
    }

    /// True if the first packet that waits there can go on.
    pub(super) fn is_ready(&self, view: &View, key: &SaWait) -> bool {
        let front = self.0.front(key);
        front.is_some_and(|waiting| has_sa(view, waiting.packet.data(), waiting.origin))
    }
}

/// How long a packet may wait for an SA to be negotiated.
const WAIT_NS: u64 = 5_000_000_000;
