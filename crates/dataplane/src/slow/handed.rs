//! Packets that another worker has handed over.

use arrayvec::ArrayVec;
use io::BURST_LEN;

use crate::burst::Path;
use crate::packets::Meta;
use crate::packets::handoff::{Arrived, Handed};
use crate::prefetch::prefetch_headers;
use crate::slow::Slow;

impl Slow {
    /// Moves on what was handed over, in its order.
    pub(crate) fn take_over(&mut self, path: &mut Path, handed: &mut ArrayVec<Handed, BURST_LEN>) {
        let mut arrived: ArrayVec<Arrived, BURST_LEN> = ArrayVec::new();
        let mut metas: ArrayVec<Meta, BURST_LEN> = ArrayVec::new();
        let cache = path.bulk_cache();
        for handed in handed.drain(..) {
            match handed {
                Handed::Arrived(Arrived { ports: Some(ports), .. })
                | Handed::Again(_, _, Some(ports)) => self.move_on_fragment(path, handed, ports),
                Handed::Arrived(one) => {
                    // They lie in the cache of the worker that received it.
                    prefetch_headers(cache, &one.packet);
                    // As many as were handed over.
                    let _ = arrived.try_push(one);
                }
                Handed::Again(packet, origin, None) => match wire::parse_ip(packet.data()) {
                    Ok(h) => self.resolve_again(path, packet, &h, origin),
                    Err(error) => path.exec.out.drop(packet, error.into()),
                },
                Handed::Frame(packet, Some(slot)) => path.exec.out.send(slot.into(), packet),
                Handed::Frame(packet, None) => path.exec.out.give_to_linux(packet),
            }
        }
        for Arrived { packet, ingress, has_flow, outers, .. } in &arrived {
            let mut meta = Meta::default();
            match path.meta_of_packet(packet, &mut meta) {
                Ok(()) => {
                    meta.enter(*ingress, *has_flow);
                    outers.iter().for_each(|outers| meta.set_outers(outers.clone()));
                }
                Err(reason) => meta.end = Some(reason.into()),
            }
            let _ = metas.try_push(meta);
        }
        path.look_for(&mut metas);
        if path.exec.crypt.opens.room() < arrived.len() {
            self.open_own(path);
        }
        for (Arrived { packet, held, .. }, meta) in arrived.into_iter().zip(&metas) {
            path.enter_any(self, packet, meta, held.as_deref());
            if path.exec.crypt.opens.is_to_unwrap() {
                self.open_own(path);
            }
        }
    }

    /// Opens what was gathered: what comes out of it is of this worker.
    fn open_own(&mut self, path: &mut Path) {
        let owner = path.view.owner.replace(path.view.worker);
        path.open_gathered(self);
        path.view.owner = owner;
    }
}
