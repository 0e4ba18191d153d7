//! Fate of a packet: the one table of drop reasons, and the ways a packet can end.
//!
//! Every packet that enters the data path ends in exactly one [`Outcome`]. The counters that the
//! worker keeps are indexed by it, so that the sum of packets in can be held against the sum of
//! outcomes at any time.
//!
//! To add a reason: a line in `drop_reason.rs`, under the stage that finds it. Its counter, name,
//! JSON key and place in `culvert drops` follow from there; a test of the data plane fails until
//! something makes the counter move.
#![forbid(unsafe_code)]

mod drop_reason;

pub use drop_reason::{DropReason, KERNEL_STATISTICS};

/// The one way in which a packet left the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Sent out of a port.
    Transmitted,
    /// Handed to Linux through the private interface.
    ToLinux,
    /// Consumed by the data path itself: a NAT keepalive, a dummy (TFC) packet, a fragment whose packet goes
    /// on as one.
    Consumed,
    /// Waits for a neighbour or an SA; it will end again, in one of the other ways.
    Held,
    /// Dropped, for the reason given.
    Dropped(DropReason),
}

impl From<DropReason> for Outcome {
    fn from(reason: DropReason) -> Outcome {
        Outcome::Dropped(reason)
    }
}
