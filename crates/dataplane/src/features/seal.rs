//! Packets that an SA protects: gathered, sealed by the burst, sent.

use core::sync::atomic::Ordering::Relaxed;

use esp::{Mode, Sa};
use io::Packet;
use outcome::DropReason;
use policy::{SaBundle, SaEntry};
use wire::Fields;

use crate::crypt::{Crypt, Exit, Seals};
use crate::features::forward::is_syn;
use crate::features::hands::Hands;
use crate::model::{Handed, NextHop, Seal, Turn};
use crate::out::AnyOut;
use crate::view::View;

/// Adds a packet to the burst that is sealed.
#[inline(always)]
pub(crate) fn seal<O: AnyOut>(
    hands: &mut Hands<'_, O>,
    by: &Seal,
    (sa, to): (&SaEntry<Sa>, Option<&NextHop>),
    mut packet: Packet,
    h: Fields,
) {
    if hands.crypt.seals.is_full() {
        seal_gathered(hands.view, hands.turn, hands.crypt, hands.out);
    }
    let Hands { view, turn, crypt, out } = hands;
    if by.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
        return out.drop(packet, DropReason::MalformedIp);
    }
    let exit = to.map_or(Exit::Ready(&by.adjacency), Exit::To);
    let (sa, mtu) = ((by.sa, sa), usize::from(by.mtu));
    let gathered = crypt.seals.gather(packet, h, sa, mtu, exit, (view.now.wall_s, *turn));
    if let Err((packet, reason)) = gathered {
        out.drop(packet, reason);
    }
}

/// True if the plan's SA is still the one for this packet, and the packet can be sealed as it is.
#[inline(always)]
pub(crate) fn holds(sa: &SaEntry<Sa>, by: &Seal, packet: &Packet, h: Fields) -> bool {
    let live = sa.esp.live();
    let fits = match by.longest {
        0 => {
            let len = sa.esp.sealed_len_of(packet.data(), h);
            sa.esp.params().mode == Mode::Transport
                && len.is_ok_and(|len| len <= usize::from(by.mtu))
        }
        longest => h.total_len() <= longest,
    };
    fits && sa.state() == by.state
        && sa.is_below_alarms(live.bytes().load(Relaxed), live.packets().load(Relaxed))
        && (!by.is_hop || h.ttl() > 1)
        && (!by.clamps_mss || !is_syn(packet, h))
}

/// Seals what was gathered, and sends it.
///
/// Packets leave in the order of their sequence numbers, which is that of their arrival.
#[inline(never)]
pub(crate) fn seal_gathered(view: &View, turn: Turn<'_>, crypt: &mut Crypt, out: &mut impl AnyOut) {
    if let Some(work) = crypt.take_seals(&view.reader, turn) {
        if let Some(taps) = out.taps() {
            taps.sealing(view, &work);
        }
        crypt.submit_seals(work, &view.reader);
    }
    send_done_seals(view, crypt, out);
}

/// Sends what is sealed by now.
pub(crate) fn send_done_seals(view: &View, crypt: &mut Crypt, out: &mut impl AnyOut) {
    while let Some(mut done) = crypt.poll_seals() {
        if !done.onward.is_empty() {
            hand_onward(view, out, &mut done);
        }
        send_sealed(view, crypt, out, &mut done);
        crypt.put_back_seals(done);
    }
}

/// Sends what has been sealed, and empties the burst.
fn send_sealed(view: &View, crypt: &mut Crypt, out: &mut impl AnyOut, seals: &mut Seals) {
    if let Some(taps) = out.taps() {
        taps.sealed(view, seals);
    }
    let mut encrypted = 0;
    for (packet, work) in seals.packets.drain(..).zip(&seals.work) {
        match (work.end, work.exit()) {
            (None, Exit::Ready(adjacency)) => {
                encrypted += 1;
                out.send(adjacency.slot.into(), packet);
            }
            (None, Exit::To(to)) => {
                encrypted += 1;
                out.send_sealed_to(view, packet, to, &mut crypt.ivs);
            }
            (Some(reason), _) => out.drop(packet, reason),
        }
    }
    out.counters().work.encrypted.add(encrypted);
}

/// Takes the packets out of what has been sealed that go on to homes of further SAs. They count there.
#[cold]
#[inline(never)]
fn hand_onward(view: &View, out: &mut impl AnyOut, seals: &mut Seals) {
    let Seals { packets, work, onward, .. } = seals;
    let mut onward = onward.drain(..).peekable();
    for (at, packet) in core::mem::take(packets).into_iter().enumerate() {
        let onward = onward.next_if(|(place, _)| usize::from(*place) == at);
        let is_sealed = work.get(at).is_some_and(|work| work.end.is_none());
        match onward.filter(|_| is_sealed) {
            Some((_, onward)) => send_onward(view, out, packet, onward),
            None => {
                work.swap(packets.len(), at);
                // As many as there were.
                let _ = packets.try_push(packet);
            }
        }
    }
}

/// Hands a packet to the home of the SA that protects it next.
#[cold]
pub(crate) fn send_onward(view: &View, out: &mut impl AnyOut, packet: Packet, onward: SaBundle) {
    match onward.as_slice().first().and_then(|sa| view.reader.sa(*sa)) {
        Some(sa) => out.hand(sa.home().at(), Handed::Sealed(packet, onward)),
        None => out.drop(packet, DropReason::OutStateExpired),
    }
}
