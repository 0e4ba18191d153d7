//! Packets that go to another worker.

use outcome::DropReason;

use crate::model::{Handed, Judging, Parcel};
use crate::out::{AnyOut, Out};

impl Out {
    /// Hands a packet to the home of its limiters.
    pub(crate) fn ask(&mut self, to: usize, handed: Handed, judging: Judging) {
        if let (Some(peers), Handed::Arrived(_)) = (&mut self.peers, &handed) {
            peers.note_handed(to);
        }
        self.send_parcel(to, Parcel { handed, judging: Some(judging) });
    }

    /// Hands a packet that has its tokens to another worker, as its SA has moved there meanwhile.
    #[cold]
    pub(crate) fn hand_judged(&mut self, to: usize, mut handed: Handed, judging: Judging) {
        handed.become_of_other();
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
