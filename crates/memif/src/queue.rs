//! A pair of rings.

use crate::receive::Receiver;
use crate::transmit::Transmitter;

/// A pair of rings, from our side. For any one thread.
pub struct Queue {
    /// Packets from the peer.
    pub receiver: Receiver,
    /// Packets to the peer.
    pub transmitter: Transmitter,
}
