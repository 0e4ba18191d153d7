//! Packets that go to another worker, or from a helper to the worker that it serves.

use std::sync::Arc;

use io::Packet;
use outcome::DropReason;

use crate::model::{Arrived, Handed, Judging, Left, Meta, Parcel};
use crate::out::Out;
use crate::view::View;

impl Out {
    /// Hands a packet that arrived to another worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&mut self, view: &View, to: usize, packet: Packet, meta: &Meta) {
        if self.batch.is_some() {
            // A helper has no peers: the worker that it serves hands over.
            return self.leave(view, packet, meta);
        }
        if let Some(peers) = &mut self.peers {
            peers.note_handed(to);
        }
        self.hand(to, Handed::Arrived(Arrived::new(&view.reader, packet, meta)));
    }

    /// Leaves a packet of a helper to the worker that it serves.
    #[cold]
    pub(crate) fn leave(&mut self, view: &View, packet: Packet, meta: &Meta) {
        let via = meta.ingress.via();
        let held = via.and_then(|via| view.reader.shared_sa(via)).map(Arc::clone);
        match &mut self.batch {
            Some(batch) => batch.leave(Left { packet, meta: meta.clone(), held }),
            None => self.drop(packet, DropReason::InDeflateTooLong),
        }
    }

    /// Hands something to another worker; it is dropped if the queue there is full.
    pub(crate) fn hand(&mut self, to: usize, handed: Handed) {
        self.send_parcel(to, Parcel { handed, judging: None });
    }

    /// Hands a packet to the home of its limiters.
    pub(crate) fn ask(&mut self, to: usize, handed: Handed, judging: Judging) {
        if let (Some(peers), Handed::Arrived(_)) = (&mut self.peers, &handed) {
            peers.note_handed(to);
        }
        self.send_parcel(to, Parcel { handed, judging: Some(judging) });
    }

    /// Hands something to another worker; it is dropped if the queue there is full.
    pub(crate) fn send_parcel(&mut self, to: usize, parcel: Parcel) {
        if let Some(taps) = &mut self.taps {
            taps.handed(&parcel.handed);
        }
        let parcel = match &mut self.peers {
            Some(peers) => match peers.send(to, parcel) {
                Ok(()) => return self.counters.handed_over.add(1),
                Err(refused) => refused.into_item(),
            },
            None => parcel,
        };
        self.drop(parcel.handed.into_packet(), DropReason::HandOverFull);
    }
}
