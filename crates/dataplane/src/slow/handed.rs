//! Packets that another worker has handed over.

use std::sync::Arc;

use arrayvec::ArrayVec;
use esp::Sa;
use io::{BURST_LEN, Packet};
use policy::SaEntry;

use crate::burst::Path;
use crate::packets::Meta;
use crate::packets::handoff::{Arrived, Handed};
use crate::slow::Slow;

impl Slow {
    /// Moves on what was handed over, in its order.
    pub(crate) fn take_over(&mut self, path: &mut Path, handed: &mut ArrayVec<Handed, BURST_LEN>) {
        let mut packets: ArrayVec<(Packet, Option<Arc<SaEntry<Sa>>>), BURST_LEN> = ArrayVec::new();
        let mut metas: ArrayVec<Meta, BURST_LEN> = ArrayVec::new();
        for handed in handed.drain(..) {
            match handed {
                Handed::Arrived(Arrived { packet, ingress, has_flow, held }) => {
                    let mut meta = Meta::default();
                    match path.meta_of_packet(&packet, &mut meta) {
                        Ok(()) => meta.enter(ingress, has_flow),
                        Err(reason) => meta.end = Some(reason.into()),
                    }
                    // As many as were handed over.
                    let _ = packets.try_push((packet, held));
                    let _ = metas.try_push(meta);
                }
                Handed::Again(packet, origin) => match wire::parse_ip(packet.data()) {
                    Ok(h) => self.resolve_again(path, packet, &h, origin),
                    Err(error) => path.exec.out.drop(packet, error.into()),
                },
                Handed::Frame(packet, Some(slot)) => path.exec.out.send(slot.into(), packet),
                Handed::Frame(packet, None) => path.exec.out.give_to_linux(packet),
            }
        }
        path.look_for(&mut metas);
        if path.exec.crypt.opens.room() < packets.len() {
            path.open_gathered(self);
        }
        for ((packet, held), meta) in packets.into_iter().zip(&metas) {
            path.enter_any(self, packet, meta, held.as_deref());
        }
    }
}
