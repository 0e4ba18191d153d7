//! Overlays: packets that get the headers of a far end.

use io::{MIN_HEADROOM, Packet};
use outcome::DropReason;
use wire::ethernet::HEADER_LEN;
use wire::{Fields, FlowKey, FlowSeed};

use crate::model::{FIRST_OVERLAYS, FIRST_OVERLAYS_SLOT, Ingress, TAILROOM};
use crate::out::any::AnyOut;

/// Puts the headers of a far end on a packet that was sent to its slot: its span is that of a frame.
pub(super) fn encapsulate_frame(out: &mut impl AnyOut, slot: usize, mut packet: Packet) {
    packet.span.start += HEADER_LEN;
    packet.span.len = packet.span.len.saturating_sub(HEADER_LEN);
    let number = slot.saturating_sub(FIRST_OVERLAYS_SLOT);
    let h = match wire::parse_ip(packet.data()) {
        Ok(h) => h,
        Err(error) => return out.drop(packet, error.into()),
    };
    match put_overlay(out, number, &mut packet, (&h).into(), entropy(&FlowKey::of(&h))) {
        Ok(()) => out.keep_wrapped(packet, Ingress::of_port(FIRST_OVERLAYS | number as u32)),
        Err(reason) => out.drop(packet, reason),
    }
}

/// Puts the headers of a far end, by its number, on an IP packet with fields `h`. `entropy` is that of its flow.
///
/// # Errors
/// It does not get them.
#[inline]
pub(crate) fn put_overlay(
    out: &mut impl AnyOut,
    number: usize,
    packet: &mut Packet,
    h: Fields,
    entropy: u32,
) -> Result<(), DropReason> {
    let ident = out.dress_mut().next_ident();
    // The route is gone with the tables that it was found in.
    let end = out.dress().overlays.far_end(FIRST_OVERLAYS | number as u32);
    let encap = &end.ok_or(DropReason::NoRoute)?.encap;
    let overhead = encap.overhead();
    packet.make_room(overhead + MIN_HEADROOM, TAILROOM);
    packet.span.start = packet.span.start.checked_sub(overhead).ok_or(DropReason::OutNoRoom)?;
    packet.span.len += overhead;
    if !encap.apply(packet.data_mut(), h, entropy, ident) {
        return Err(DropReason::OutNoRoom);
    }
    out.counters().work.overlay_encapsulated.add(1);
    Ok(())
}

/// Number of a flow that its packets are spread by: source ports, flow labels. The same at each worker.
#[inline]
pub(crate) fn entropy(flow: &FlowKey) -> u32 {
    // The upper half: the flow cache's places come from the lower one of another seed.
    (flow.hash(&SPREAD) >> 32) as u32
}

/// Anything but the flow cache's own: who sends flows must not choose their places there by what is seen outside.
const SPREAD: FlowSeed = FlowSeed::new(0x6f76_6572_6c61_7973);
