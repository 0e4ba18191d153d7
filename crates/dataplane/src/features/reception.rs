//! Packets for this host that a feature takes if they are its own, and Linux if they are not.

use io::Packet;
use outcome::{DropReason, Outcome};

use crate::features::hands::Hands;
use crate::features::rare::Next;
use crate::model::Other;
use crate::out::AnyOut;

/// Fate of a packet that may be a feature's.
pub(super) enum Reception {
    /// The feature has taken it.
    Taken,
    /// It is the feature's, and breaks a rule: counted by its kind.
    Refused,
    /// It is not the feature's.
    Other,
}

impl Reception {
    /// Ends the packet, for this reason if it was refused. One that is not the feature's goes on by `other`.
    pub(super) fn carry_out(
        self,
        hands: &mut Hands<'_>,
        packet: Packet,
        (refused, other): (DropReason, Other),
    ) -> Option<Next> {
        match self {
            Reception::Taken => hands.out.end(packet, Outcome::Consumed),
            Reception::Refused => hands.out.drop(packet, refused),
            Reception::Other => {
                return Some(Next { action: other.action(), packet, fields: None });
            }
        }
        None
    }
}
