//! Packets that wait for this thread to know of what has changed ([`Late`](super::late::Late)).

use io::Packet;
use outcome::{DropReason, Outcome};

use crate::model::{Arrived, Handed, Meta};
use crate::out::Out;
use crate::view::View;

impl Out {
    /// Keeps a packet whose SA is not there, or drops it: where nothing has changed since the round began, or too
    /// many wait.
    #[cold]
    pub(crate) fn put_off(&mut self, view: &View, packet: Packet, meta: &Meta) {
        if !view.reader.is_behind() {
            return self.drop(packet, DropReason::InNoState);
        }
        if self.batch.is_some() {
            // Helpers keep no packets.
            return self.leave(view, packet, meta);
        }
        if self.late.is_full() {
            return self.drop(packet, DropReason::InNoState);
        }
        let handed = Handed::Arrived(Arrived::new(&view.reader, packet, meta));
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
