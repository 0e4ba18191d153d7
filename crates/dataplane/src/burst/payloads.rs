//! Payloads of IP-TFS among what was decrypted: they are kept until they are taken apart.

use arrayvec::ArrayVec;
use io::{BURST_LEN, Packet};
use outcome::{DropReason, Outcome};

use crate::burst::{Misses, Path};
use crate::crypt::open_batch::OpenWork;
use crate::features::Thread;
use crate::model::{Metas, Payload};

impl<O: Thread> Path<O> {
    /// Moves on what was decrypted where payloads are among it.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_but_payloads(
        &mut self,
        misses: &mut impl Misses<O>,
        packets: &mut ArrayVec<Packet, BURST_LEN>,
        works: &[OpenWork],
        metas: &Metas,
    ) {
        self.exec.rooms.aggfrag.has_new = false;
        for ((packet, work), meta) in packets.drain(..).zip(works).zip(metas.iter()) {
            if meta.end != Some(Outcome::Consumed) || !work.content.is_ok_and(|c| c.is_aggfrag()) {
                self.enter_any(misses, packet, meta, None);
                self.unwrap_last(misses);
            } else if meta.outers().is_some() {
                // No policy asks for IP-TFS inside of another SA.
                self.exec.out.drop(packet, DropReason::InNesting);
            } else {
                O::keep_payload(&mut self.exec, payload_of(packet, work));
            }
        }
    }
}

/// A payload that was decrypted by this work.
fn payload_of(packet: Packet, work: &OpenWork) -> Payload {
    let (number, class) = (work.opening.seq, work.outer_class());
    Payload { packet, sa: work.sa, number, ifindex: work.ifindex(), class }
}
