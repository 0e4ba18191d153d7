//! ESP, AH and IPComp that arrive: SAD, replay check, into the burst that is opened, and accepted.
//!
//! Each kind says whether a packet is worth opening ([`Candidate`]), or why it is not opened here ([`Refused`]).

mod accept;
mod candidate;
mod inbound_sas;
mod ipcomp;

pub(crate) use accept::accept;
pub(crate) use candidate::{Candidate, Refused};
pub(crate) use inbound_sas::InboundSas;

use dispatch::Home;
use io::{FramePool, Packet};
use outcome::{DropReason, Outcome};
use wire::natt::{self, NattPayload};
use wire::{Fragment, protocol};

use crate::crypt::Crypt;
use crate::features::fragments::Fragments;
use crate::features::open::candidate::ah_candidate;
use crate::features::open::ipcomp::{decompress, ip_in_ip};
use crate::model::{FlowHint, Meta, Outers};
use crate::out::AnyOut;
use crate::view::View;

/// The SAs that a packet has come through, if it was inside another SA's packet and is an SA's again. `None` for others.
///
/// # Errors
/// There are too many of them.
pub(crate) fn outers_of(meta: &Meta) -> Result<Option<Outers>, DropReason> {
    match (meta.ingress.via(), meta.outers()) {
        (None, _) => Ok(None),
        (Some(via), None) => Ok(Outers::default().with(via)),
        (Some(via), Some(outers)) => outers.with(via).map(Some).ok_or(DropReason::InNesting),
    }
}

/// [`InboundSas::candidate`] for a packet to a NAT traversal port of this host (RFC 3948 §2), or a fragment of UDP, whose
/// port the first one has.
#[inline(always)]
pub(crate) fn udp_candidate(
    view: &View,
    sas: &mut InboundSas,
    packet: &Packet,
    meta: &Meta,
) -> Result<Candidate, Refused> {
    if meta.summary.fields.fragment() != Fragment::Whole {
        return Err(Refused::Fragment);
    }
    let payload_at = usize::from(meta.summary.fields.header_len()) + wire::udp::HEADER_LEN;
    match packet.data().get(payload_at..).map(natt::classify) {
        Some(NattPayload::Esp) => sas.candidate(view, packet, meta, true),
        Some(NattPayload::NonEspMarker) => Err(Refused::Ike),
        Some(NattPayload::Keepalive) => Err(Refused::Keepalive),
        Some(NattPayload::TooShort) | None => Err(DropReason::MalformedEsp.into()),
    }
}

/// [`InboundSas::candidate`] for AH, or for what was inside another SA's packet.
pub(crate) fn next_candidate(
    view: &View,
    (sas, crypt): (&mut InboundSas, &mut Crypt),
    frames: (Option<&mut Fragments>, &mut FramePool),
    packet: &mut Packet,
    meta: &Meta,
) -> Result<Candidate, Refused> {
    match meta.summary.fields.protocol() {
        protocol::AH => ah_candidate(view, packet, meta),
        protocol::IPCOMP => decompress(view, crypt, frames, packet, meta),
        protocol::IPV4 | protocol::IPV6 => ip_in_ip(view, packet, meta),
        _ => sas.candidate(view, packet, meta, false),
    }
}

/// Adds a packet to the burst that is decrypted; there is room (see [`crate::burst`]).
#[inline(always)]
pub(crate) fn gather(
    view: &View,
    crypt: &mut Crypt,
    out: &mut impl AnyOut,
    (packet, meta): (Packet, &Meta),
    candidate: Candidate,
) {
    let Candidate { sa, opening, from } = candidate;
    // With few SAs everything is near: no flow is predicted.
    let hint = match crypt.is_spread {
        true => {
            if let Some(sa) = view.reader.sa(sa) {
                sa.esp.replay().prefetch(opening.seq);
            }
            FlowHint::from_note(view.reader.note(sa))
        }
        false => FlowHint::NONE,
    };
    if let Err(packet) = crypt.opens.push(packet, meta, (sa, hint), opening, from) {
        out.drop(packet, DropReason::InCrypto);
    }
}

/// Room that takes a packet which is not opened here.
pub(crate) enum Taker {
    /// The device that has its SA.
    Device,
    /// It is a fragment.
    Fragments,
}

/// Does what is to be done with a packet that is not opened here. Returns it if another room takes it.
pub(crate) fn refuse(
    view: &View,
    out: &mut impl AnyOut,
    (packet, meta): (Packet, &Meta),
    refused: Refused,
) -> Option<(Packet, Taker)> {
    match refused {
        Refused::Drop(DropReason::InNoState) => out.put_off(view, packet, meta),
        Refused::Drop(reason) => out.drop(packet, reason),
        Refused::By(sa, reason) => {
            if let Some(sa) = view.reader.sa(sa) {
                sa.esp.count_refused(reason);
            }
            out.drop(packet, reason);
        }
        Refused::Home(Home::DEVICE) => return Some((packet, Taker::Device)),
        Refused::Home(to) => out.hand_over(view, to, packet, meta),
        Refused::Fragment => return Some((packet, Taker::Fragments)),
        Refused::Left => out.leave(view, packet, meta),
        // Steering leaves it to Linux; if one comes here all the same, Linux gets it.
        Refused::Ike => match view.back(meta.ingress.ifindex) {
            Some(tag) => out.give_back(packet, tag),
            None => out.give_to_linux(packet),
        },
        Refused::Keepalive => out.end(packet, Outcome::Consumed),
    }
    None
}
