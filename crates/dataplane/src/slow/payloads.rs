//! IP-TFS: what is inside of payloads goes on as what their SA has decrypted.

use io::BURST_LEN;
use outcome::DropReason;
use policy::SaHandle;

use super::Slow;
use crate::burst::classify::meta_of_packet;
use crate::burst::{Misses, Path};
use crate::features::Executor;
use crate::features::aggfrag::{Receivers, take_apart};
use crate::features::fragments::Fragments;
use crate::features::hands::Hands;
use crate::model::Ingress;

/// Takes the payloads apart that have arrived, and moves on what was inside. No other stage is at work.
#[inline(never)]
pub(super) fn move_on_payloads(slow: &mut Slow, path: &mut Path) {
    let mut receivers = path.exec.rooms.aggfrag.receivers.take().unwrap_or_default();
    while let Some(payload) = path.exec.rooms.aggfrag.arrived.pop_front() {
        let Path { view, exec: Executor { crypt, out, rooms, .. }, .. } = path;
        let mut hands = Hands { view, turn: slow.turn(), crypt, out };
        rooms.aggfrag.put_in_order(&mut hands, &mut receivers, payload);
        move_on_in_order(slow, path, &mut receivers);
    }
    path.exec.rooms.aggfrag.receivers = Some(receivers);
}

/// Gives up payloads and pieces that were waited for long enough; all, if `is_last`.
pub(super) fn expire_payloads(slow: &mut Slow, path: &mut Path, is_last: bool) {
    let Some(mut receivers) = path.exec.rooms.aggfrag.receivers.take() else { return };
    let mut place = 0;
    while receivers.expire_at(&path.view, place, is_last) {
        move_on_in_order(slow, path, &mut receivers);
        receivers.give_up_at((&path.view, &mut path.exec.out), place, is_last);
        place += 1;
    }
    path.exec.rooms.aggfrag.receivers = Some(receivers);
}

/// Takes apart the payloads whose turn it is.
fn move_on_in_order(slow: &mut Slow, path: &mut Path, receivers: &mut Receivers) {
    while let Some(payload) = receivers.next_in_order() {
        let of = (payload.sa, payload.ifindex);
        let Path { view, exec: Executor { out, rooms, .. }, .. } = &mut *path;
        let large = rooms.fragments.as_deref_mut().and_then(Fragments::large);
        take_apart(receivers, (view, out), large, payload);
        while !receivers.inner.is_empty() {
            move_on_inner(slow, path, receivers, of);
        }
    }
}

/// Moves on what came out of a payload of an SA, which came in by an interface, a burst at a time.
fn move_on_inner(
    slow: &mut Slow,
    path: &mut Path,
    receivers: &mut Receivers,
    (sa, ifindex): (SaHandle, u32),
) {
    let Receivers { inner, metas, .. } = receivers;
    let count = inner.len().min(BURST_LEN);
    if path.exec.crypt.opens.room() < count {
        path.open_gathered(slow);
    }
    let has_rules = !path.view.topology.mark_rules.is_empty();
    let ingress = Ingress::of_sa(ifindex, sa);
    for (packet, meta) in inner.iter().zip(metas.places(count)) {
        match meta_of_packet(packet, meta) {
            Ok(()) => {
                meta.enter(ingress, true);
                if has_rules {
                    meta.ingress.mark = path.view.topology.mark(ifindex, &meta.summary);
                }
            }
            Err(_) => meta.end = Some(DropReason::InInnerHeader.into()),
        }
    }
    path.look_for(metas);
    if path.exec.out.taps.is_some() {
        inner.iter().zip(metas.iter()).for_each(|(packet, meta)| path.tap_inner(packet, meta));
    }
    path.enter_in_order(slow, inner.drain(..count), metas);
}
