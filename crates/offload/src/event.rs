//! Events that a device reports by itself.

use crate::handle::SaHandle;

/// Something that the control thread has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A soft limit by volume was reached: tell the owner (soft `XFRM_MSG_EXPIRE`). Once for each SA.
    SoftLimit(SaHandle),
    /// A hard limit by volume was reached; the SA's packets are dropped from now on (hard
    /// `XFRM_MSG_EXPIRE`).
    HardLimit(SaHandle),
    /// At most a sixteenth of the outbound sequence numbers is left: rekey now.
    NumbersLow(SaHandle),
    /// No outbound sequence number is left; the SA's packets are dropped from now on.
    NumbersExhausted(SaHandle),
    /// The device is gone, see [`Failure::Gone`](crate::Failure::Gone).
    Gone,
}
