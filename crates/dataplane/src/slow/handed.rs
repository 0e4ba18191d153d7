//! Packets that another worker has handed over.

use arrayvec::ArrayVec;
use io::BURST_LEN;

use super::Slow;
use super::again::resolve_again;
use super::fragments::move_on_fragment;
use super::miss::resolve_miss;
use super::seal_on::seal_on;
use crate::burst::classify::meta_of_packet;
use crate::burst::{Misses, Path};
use crate::flows::FlowCache;
use crate::model::{Action, Again, Arrived, Handed, Meta, prefetch_headers};
use crate::out::AnyOut;

/// Moves on what was handed over, or was put off here, in its order.
pub(super) fn take_over(
    slow: &mut Slow,
    path: &mut Path,
    handed: &mut ArrayVec<Handed, BURST_LEN>,
) {
    let mut arrived: ArrayVec<Arrived, BURST_LEN> = ArrayVec::new();
    let mut metas: ArrayVec<Meta, BURST_LEN> = ArrayVec::new();
    let cache = path.bulk_cache();
    for handed in handed.drain(..) {
        match handed {
            Handed::Arrived(Arrived { ports: Some(ports), .. })
            | Handed::Again(Again { ports: Some(ports), .. }) => {
                move_on_fragment(slow, path, handed, (Some(ports), None))
            }
            Handed::Arrived(one) => {
                // They lie in the cache of the worker that received it.
                prefetch_headers(cache, &one.packet);
                // As many as were handed over.
                let _ = arrived.try_push(one);
            }
            Handed::Again(Again { packet, origin, is_of_other, .. }) => {
                match wire::parse_ip(packet.data()) {
                    Ok(h) => resolve_again(slow, path, packet, &h, (origin, is_of_other), None),
                    Err(error) => path.exec.out.drop(packet, error.into()),
                }
            }
            Handed::Sealed(packet, sas) => {
                seal_on(&path.view, slow.turn(), &mut path.exec, packet, sas);
            }
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
        match meta_of_packet(packet, &mut meta) {
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
        path.open_gathered(slow);
    }
    for (Arrived { packet, held, .. }, meta) in arrived.into_iter().zip(&metas) {
        if path.exec.out.taps.is_some() {
            path.tap_handed(&packet, meta, held.as_deref());
        }
        // Not by a plan of before, which may lead back.
        match hands_over(&path.flows, meta) {
            true => resolve_miss(slow, path, (packet, None), meta, held.as_deref()),
            false => path.enter_any(slow, packet, meta, held.as_deref()),
        }
        if path.exec.crypt.opens.is_to_unwrap() {
            path.open_gathered(slow);
        }
    }
}

/// Moves on what other workers have handed over. These have no SAs of their own for it, or it would not come.
pub(super) fn take_over_of_others(
    slow: &mut Slow,
    path: &mut Path,
    handed: &mut ArrayVec<Handed, BURST_LEN>,
) {
    handed.iter_mut().for_each(Handed::become_of_other);
    take_over(slow, path, handed);
}

/// True if a packet's plan, if there is one, hands it to another worker.
fn hands_over(flows: &FlowCache, meta: &Meta) -> bool {
    let plan = meta.place.filter(|_| meta.has_flow).and_then(|place| flows.peek(place));
    meta.end.is_none() && plan.is_some_and(|plan| matches!(plan.action, Action::HandOver { .. }))
}
