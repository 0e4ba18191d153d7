//! Packets that wait for this worker to know of what has changed ([`Late`](super::late::Late)).

use outcome::{DropReason, Outcome};

use crate::model::{Arrived, Handed};
use crate::out::{AnyOut, Out};

impl Out {
    /// Keeps a packet, for which there is room.
    pub(super) fn keep_late(&mut self, arrived: Arrived) {
        let handed = Handed::Arrived(arrived);
        if let Some(taps) = &mut self.taps {
            taps.handed(&handed);
        }
        if let Handed::Arrived(arrived) = handed {
            self.counters.count(Outcome::Held, 1);
            self.late.push(arrived);
        }
    }

    /// Takes out the packet that has waited longest.
    pub(crate) fn next_late(&mut self) -> Option<Arrived> {
        let arrived = self.late.pop()?;
        self.released(1);
        Some(arrived)
    }

    /// Drops all of them.
    pub(crate) fn drop_late(&mut self) {
        while let Some(Arrived { packet, .. }) = self.next_late() {
            self.drop(packet, DropReason::InNoState);
        }
    }
}
