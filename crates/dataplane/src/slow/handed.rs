//! Packets that another worker has handed over.

use arrayvec::ArrayVec;
use io::{BURST_LEN, Packet};
use outcome::DropReason;
use policy::SaBundle;

use crate::burst::{Misses, Path};
use crate::crypt::check_volume;
use crate::features::Executor;
use crate::features::bundle::seal_all;
use crate::flows::FlowCache;
use crate::model::{Action, Arrived, Handed, Meta, SealAll, prefetch_headers};
use crate::out::AnyOut;
use crate::resolve::{Limits, homes, next_hop_of_all};
use crate::slow::Slow;
use crate::view::View;

impl Slow {
    /// Moves on what was handed over, in its order.
    pub(super) fn take_over(&mut self, path: &mut Path, handed: &mut ArrayVec<Handed, BURST_LEN>) {
        let mut arrived: ArrayVec<Arrived, BURST_LEN> = ArrayVec::new();
        let mut metas: ArrayVec<Meta, BURST_LEN> = ArrayVec::new();
        let cache = path.bulk_cache();
        for handed in handed.drain(..) {
            match handed {
                Handed::Arrived(Arrived { ports: Some(ports), .. })
                | Handed::Again(_, _, Some(ports)) => {
                    self.move_on_fragment(path, handed, Some(ports), None);
                }
                Handed::Arrived(one) => {
                    // They lie in the cache of the worker that received it.
                    prefetch_headers(cache, &one.packet);
                    // As many as were handed over.
                    let _ = arrived.try_push(one);
                }
                Handed::Again(packet, origin, None) => match wire::parse_ip(packet.data()) {
                    Ok(h) => self.resolve_again(path, packet, &h, origin, None),
                    Err(error) => path.exec.out.drop(packet, error.into()),
                },
                Handed::Sealed(packet, sas) => seal_on(&path.view, &mut path.exec, packet, sas),
                Handed::Frame(packet, slot) => {
                    let out = &mut path.exec.out;
                    if let Some(taps) = &mut out.taps {
                        taps.taken_over(&packet);
                    }
                    match slot {
                        Some(slot) => out.send(slot.into(), packet),
                        None => out.give_to_linux(packet),
                    }
                }
            }
        }
        for Arrived { packet, ingress, has_flow, outers, .. } in &arrived {
            let mut meta = Meta::default();
            match path.meta_of_packet(packet, &mut meta) {
                Ok(()) => {
                    meta.enter(ingress.of_other(), *has_flow);
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
            if path.exec.out.taps.is_some() {
                path.tap_handed(&packet, meta, held.as_deref());
            }
            // Not by a plan of before, which may lead back.
            match hands_over(&path.flows, meta) {
                true => self.miss(path, packet, meta, held.as_deref()),
                false => path.enter_any(self, packet, meta, held.as_deref()),
            }
            if path.exec.crypt.opens.is_to_unwrap() {
                self.open_own(path);
            }
        }
    }

    /// Moves on what other workers have handed over. These have no SAs of their own for it, or it would not come.
    pub(super) fn take_over_of_others(
        &mut self,
        path: &mut Path,
        handed: &mut ArrayVec<Handed, BURST_LEN>,
    ) {
        let me = path.view.owner.take();
        self.take_over(path, handed);
        path.view.owner = me;
    }

    /// Opens what was gathered: what comes out of it is of this worker.
    fn open_own(&mut self, path: &mut Path) {
        let owner = path.view.owner.replace(path.view.worker);
        path.open_gathered(self);
        path.view.owner = owner;
    }
}

/// True if a packet's plan, if there is one, hands it to another worker.
fn hands_over(flows: &FlowCache, meta: &Meta) -> bool {
    let plan = meta.place.filter(|_| meta.has_flow).and_then(|place| flows.peek(place));
    meta.end.is_none() && plan.is_some_and(|plan| matches!(plan.action, Action::HandOver { .. }))
}

/// Has the SAs that are left of a bundle protect a packet.
#[cold]
pub(super) fn seal_on(view: &View, exec: &mut Executor, packet: Packet, sas: SaBundle) {
    let own = match homes::claim(view, sas.as_slice()) {
        Ok(own) => own,
        Err(home) => return exec.out.hand(home, Handed::Sealed(packet, sas)),
    };
    // Their home alone knows them to the packet: what was decided by may be old.
    let of_own = sas.as_slice().iter().take(own);
    let limits = Limits::of(of_own.filter_map(|sa| Some((*sa, view.reader.sa(*sa)?))));
    if let Some(sa) = limits.at_limit.and_then(|sa| view.reader.sa(sa)) {
        exec.out.reports.volume(sa.config.id(), check_volume(sa));
    }
    if limits.is_over {
        return exec.out.drop(packet, DropReason::OutStateExpired);
    }
    let h = match wire::parse_ip(packet.data()) {
        Ok(h) => h,
        Err(error) => return exec.out.drop(packet, error.into()),
    };
    let entries = sas.as_slice().iter().filter_map(|sa| view.reader.sa(*sa));
    let to = match next_hop_of_all(view, entries, &h) {
        Ok(to) => to,
        Err(reason) => return exec.out.drop(packet, reason),
    };
    let own = own as u8;
    let seal = SealAll { sas, own, to, adjacency: None, cut: None, is_hop: false };
    seal_all(&mut exec.hands(view).1, &seal, packet, (&h).into());
}
