//! Frames for slots that are no queues: they get a VLAN's tag, a headend's segments (SRv6), or an overlay's headers.

use io::{MIN_HEADROOM, Packet};
use outcome::DropReason;
use srv6::{Fault, Headend};
use wire::ethernet::HEADER_LEN;

use crate::model::{
    FIRST_SEGMENTS, FIRST_SEGMENTS_SLOT, Ingress, TAILROOM, is_far_end, is_headend,
};
use crate::out::any::AnyOut;
use crate::out::overlays::encapsulate_frame;

/// Sends a frame by a slot that is no queue.
#[cold]
#[inline(never)]
pub(super) fn send_dressed(out: &mut impl AnyOut, slot: usize, mut packet: Packet) {
    if is_headend(slot) {
        return wrap_frame(out, slot, packet);
    }
    if is_far_end(slot) {
        return encapsulate_frame(out, slot, packet);
    }
    let Some(vlan) = out.dress().vlans.at(slot) else {
        return out.drop(packet, DropReason::TransmitDown);
    };
    let port_slot = vlan.port_slot;
    if !vlan.tag(&mut packet, slot) {
        return out.drop(packet, DropReason::OutNoRoom);
    }
    vlan.counters.sent(out.dress().lane, packet.span.len);
    out.send(port_slot, packet);
}

/// Puts the segments of a headend on a packet that was sent to its slot: its span is that of a frame.
fn wrap_frame(out: &mut impl AnyOut, slot: usize, mut packet: Packet) {
    packet.span.start += HEADER_LEN;
    packet.span.len = packet.span.len.saturating_sub(HEADER_LEN);
    let number = slot.saturating_sub(FIRST_SEGMENTS_SLOT);
    let index = FIRST_SEGMENTS | number as u32;
    let wrapped = match out.dress().segments.headend(index) {
        Some(headend) => wrap(&mut packet, headend),
        // The route is gone with the tables that it was found in.
        None => Err(DropReason::NoRoute),
    };
    keep_wrapped(out, packet, wrapped, Ingress::of_port(index));
}

/// A packet that has got segments, or why it has not.
pub(super) fn keep_wrapped(
    out: &mut impl AnyOut,
    packet: Packet,
    wrapped: Result<(), DropReason>,
    ingress: Ingress,
) {
    match wrapped {
        Ok(()) => {
            out.counters().work.srv6_encapsulated.add(1);
            out.keep_wrapped(packet, ingress);
        }
        Err(reason) => out.drop(packet, reason),
    }
}

/// Sees to room for headers in front of a packet, and for IPsec around them, where its frame has as much.
#[inline]
pub(super) fn make_room(packet: &mut Packet, overhead: usize) {
    packet.make_room(overhead + MIN_HEADROOM, TAILROOM);
}

/// Puts segments on a packet.
pub(super) fn wrap(packet: &mut Packet, headend: &Headend) -> Result<(), DropReason> {
    let overhead = headend.overhead();
    make_room(packet, overhead);
    packet.span.start = packet.span.start.checked_sub(overhead).ok_or(DropReason::OutNoRoom)?;
    packet.span.len += overhead;
    headend.apply(packet.data_mut()).map_err(|refusal| reason(refusal.fault))
}

/// The reason for which a packet is dropped.
pub(crate) const fn reason(fault: Fault) -> DropReason {
    match fault {
        Fault::Malformed => DropReason::Srv6Malformed,
        Fault::SegmentsLeft => DropReason::Srv6SegmentsLeft,
        Fault::UpperLayer => DropReason::Srv6UpperLayer,
        Fault::HopLimit => DropReason::TtlExceeded,
        Fault::Hmac => DropReason::Srv6Hmac,
        Fault::Fragment => DropReason::Srv6Fragment,
        Fault::NoRoom => DropReason::OutNoRoom,
    }
}
