//! Drafts, carried out on one packet: it is cut first, if it is too long.

use esp::Sa;
use io::Packet;
use outcome::DropReason;
use policy::SaEntry;
use wire::{Fields, Headers, Summary};

use crate::burst::classify::meta_of;
use crate::features::{Executor, Thread};
use crate::model::{Action, Draft, Meta, SealAll, Turn};
use crate::out::fragment::fragment;
use crate::view::View;

/// Carries out a draft on a packet with headers `h`, which has a whole frame.
pub(crate) fn apply<O: Thread>(
    exec: &mut Executor<O>,
    view: &View,
    turn: Turn<'_>,
    draft: &Draft,
    (mut packet, h): (Packet, &Headers),
    meta: &Meta,
) {
    if let Some(mss) = draft.mss
        && let Some(segment) = packet.data_mut().get_mut(h.header_len.into()..)
        && wire::tcp::clamp_mss(segment, mss)
    {
        exec.out.counters().work.mss_clamped.add(1);
    }
    let to = draft.to.as_ref();
    let sa = sealing(view, &draft.action);
    let Some(mtu) = draft.cut else {
        return exec.apply(view, turn, &draft.action, (sa, to), packet, meta);
    };
    let mut action = draft.action;
    let is_hop = action.take_hop();
    cut(exec, packet, h, (mtu, is_hop), |exec, piece, h| {
        exec.apply(view, turn, &action, (sa, to), piece, &meta_of(h));
    });
}

/// Carries out a draft on a packet that was translated; `h` is what actions look at of its headers.
pub(super) fn apply_translated(
    exec: &mut Executor,
    view: &View,
    turn: Turn<'_>,
    draft: &Draft,
    packet: Packet,
    h: Fields,
) {
    let sa = sealing(view, &draft.action);
    let meta = Meta { summary: Summary { fields: h, ..Summary::default() }, ..Meta::default() };
    exec.apply(view, turn, &draft.action, (sa, draft.to.as_ref()), packet, &meta);
}

/// Has several SAs protect a packet.
pub(super) fn seal_all(
    exec: &mut Executor,
    view: &View,
    turn: Turn<'_>,
    mut seal: SealAll,
    packet: Packet,
    h: &Headers,
) {
    let Some(mtu) = seal.cut else {
        return exec.seal_all(view, turn, &seal, packet, h.into());
    };
    let is_hop = core::mem::take(&mut seal.is_hop);
    cut(exec, packet, h, (mtu, is_hop), |exec, piece, h| {
        exec.seal_all(view, turn, &seal, piece, h.into());
    });
}

/// Cuts a packet into packets of at most `mtu` bytes, and hands each on. `is_hop`: the packet spends a hop, one for
/// all pieces.
fn cut<O: Thread>(
    exec: &mut Executor<O>,
    mut packet: Packet,
    h: &Headers,
    (mtu, is_hop): (usize, bool),
    hand_on: impl FnMut(&mut Executor<O>, Packet, &Headers),
) {
    if let Some(taps) = exec.out.taps() {
        taps.cut(&packet);
    }
    if is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
        return exec.out.drop(packet, DropReason::MalformedIp);
    }
    let ident = exec.crypt.ivs.random() as u32;
    fragment(exec, packet, h, (mtu, ident), hand_on);
}

/// The SA of an action that seals.
fn sealing<'v>(view: &'v View, action: &Action) -> Option<&'v SaEntry<Sa>> {
    match action {
        Action::Seal(seal) => view.reader.sa(seal.sa),
        _ => None,
    }
}
