//! Packets that go on in clear: forwarded, or given to Linux.

use io::Packet;
use outcome::DropReason;
use wire::Fields;

use crate::model::{Forward, LinuxWay, NextHop};
use crate::out::AnyOut;
use crate::view::View;

/// Forwards a packet in clear.
#[inline(always)]
pub(crate) fn forward(
    view: &View,
    out: &mut impl AnyOut,
    (by, to): (&Forward, Option<&NextHop>),
    mut packet: Packet,
    h: Fields,
) {
    if by.is_hop && !wire::decrement_ttl(packet.data_mut(), h) {
        return out.drop(packet, DropReason::MalformedIp);
    }
    out.counters().work.forwarded_clear.add(1);
    if let Some(to) = to {
        return out.send_to(view, packet, to.towards());
    }
    let span = packet.span;
    match by.adjacency.frame(packet.frame.bytes_mut(), span) {
        Some(frame) => {
            packet.span = frame;
            out.send(by.adjacency.slot.into(), packet);
        }
        None => out.drop(packet, DropReason::OutNoRoom),
    }
}

/// True if a packet can be forwarded as it is.
#[inline(always)]
pub(crate) fn holds(by: &Forward, packet: &Packet, h: Fields) -> bool {
    let Forward { mtu, is_hop, clamps_mss, .. } = by;
    let is_for_slow =
        h.total_len() > *mtu || *is_hop && h.ttl() <= 1 || *clamps_mss && is_syn(packet, h);
    !is_for_slow
}

/// Hands a packet to Linux.
#[inline(never)]
pub(crate) fn give(out: &mut impl AnyOut, packet: Packet, way: LinuxWay) {
    match way {
        LinuxWay::Private => out.give_to_linux(packet),
        LinuxWay::Tunnel(slot) => out.send(slot.into(), packet),
        LinuxWay::Marked(tag) => out.give_marked(packet, tag),
    }
}

/// True if a packet of a TCP flow opens a connection.
#[cold]
#[inline(never)]
pub(crate) fn is_syn(packet: &Packet, h: Fields) -> bool {
    packet.data().get(h.header_len().into()..).is_some_and(wire::tcp::is_syn)
}
