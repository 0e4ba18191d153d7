//! The step that a packet takes at a segment that ends here (RFC 8986 §4, RFC 9800 §4).

use core::net::Ipv6Addr;

use wire::ipv6::field;
use wire::{ipv6, protocol};

use crate::ETHERNET;
use crate::chain::{At, Chain};
use crate::csid::{self, Csid};
use crate::fault::{Fault, Refusal};
use crate::headend::Headend;
use crate::sid::{Behaviour, Sid};
use crate::srh::{SEGMENTS_LEFT, Srh};

/// Result of an endpoint's work on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// On to the next segment: an IPv6 packet, which begins so many bytes further on. Its hop limit is decremented.
    Onward {
        /// Bytes in front of it that are not the packet's any more.
        cut: usize,
    },
    /// The inner packet, to be decapsulated. Nothing of it is changed.
    Inside {
        /// Bytes in front of it.
        cut: usize,
        /// Kind of the inner packet.
        inner: Inner,
    },
    /// For this host, as the segment says (USP).
    Here {
        /// Bytes in front of it.
        cut: usize,
    },
}

/// Kind of an inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// An IPv4 packet.
    V4,
    /// An IPv6 packet.
    V6,
    /// An Ethernet frame.
    Ethernet,
}

impl Sid {
    /// Takes the step of a packet whose destination is this segment. `bytes` are [`Sid::overhead`] bytes of room,
    /// and the packet; what is cut counts from the first of `bytes`.
    ///
    /// # Errors
    /// Why it does not go on; nothing has been written then, but for [`Fault::NoRoom`].
    pub fn process(&self, bytes: &mut [u8]) -> Result<Done, Refusal> {
        let room = self.overhead();
        let packet = bytes.get_mut(room..).ok_or(Fault::NoRoom.at(0))?;
        if packet.len() < ipv6::HEADER_LEN {
            return Err(Fault::Malformed.at(0));
        }
        match &self.behaviour {
            Behaviour::End | Behaviour::EndX(_) | Behaviour::EndT(_) => self.advance(packet),
            Behaviour::EndDx2(_) => self.decapsulate(packet, &[ETHERNET]),
            Behaviour::EndDx4(_) | Behaviour::EndDt4(_) => {
                self.decapsulate(packet, &[protocol::IPV4])
            }
            Behaviour::EndDx6(_) | Behaviour::EndDt6(_) => {
                self.decapsulate(packet, &[protocol::IPV6])
            }
            Behaviour::EndDt46(_) => self.decapsulate(packet, &[protocol::IPV4, protocol::IPV6]),
            Behaviour::EndB6Encaps(headend) => self.bind(bytes, headend),
        }
    }

    /// On to the next segment.
    fn advance(&self, packet: &mut [u8]) -> Result<Done, Refusal> {
        if let Csid::Next { block_len, function_len } = self.csid
            && let Some(next) = csid::shifted(dst(packet), block_len, function_len)
        {
            spend_hop(packet)?;
            set_dst(packet, next);
            return Ok(Done::Onward { cut: 0 });
        }
        let chain = Chain::of(packet)?;
        let Some(at) = chain.srh else { return self.last(packet, &chain) };
        let Some(srh) = packet.get(at.start..).and_then(Srh::parse) else {
            return Err(Fault::Malformed.at(at.start));
        };
        let step = match self.csid {
            Csid::Replace { block_len, function_len } => {
                replace(dst(packet), &srh, (block_len, function_len), at)?
            }
            Csid::None | Csid::Next { .. } => of_list(&srh),
        };
        let Some(To { dst: next, left, is_last }) = step else { return self.last(packet, &chain) };
        spend_hop(packet)?;
        set_dst(packet, next);
        if let Some(field) = packet.get_mut(at.start + SEGMENTS_LEFT) {
            *field = left;
        }
        let cut = if self.flavours.psp && is_last { take_off(packet, at) } else { 0 };
        Ok(Done::Onward { cut })
    }

    /// No segment follows this one.
    fn last(&self, packet: &mut [u8], chain: &Chain) -> Result<Done, Refusal> {
        if self.flavours.usd && matches!(chain.upper, protocol::IPV4 | protocol::IPV6) {
            return inside(chain);
        }
        match (self.flavours.usp, chain.srh) {
            (true, Some(at)) => Ok(Done::Here { cut: take_off(packet, at) }),
            _ => Err(Fault::UpperLayer.at(chain.upper_at)),
        }
    }

    /// Off with the outer headers.
    fn decapsulate(&self, packet: &[u8], wanted: &[u8]) -> Result<Done, Refusal> {
        let chain = Chain::of(packet)?;
        if let Some(at) = chain.srh {
            let srh = packet.get(at.start..).and_then(Srh::parse);
            if srh.is_none_or(|srh| srh.segments_left() != 0) {
                return Err(Fault::SegmentsLeft.at(at.start + SEGMENTS_LEFT));
            }
        }
        if !chain.is_fragment && !wanted.contains(&chain.upper) {
            return Err(Fault::UpperLayer.at(chain.upper_at));
        }
        inside(&chain)
    }

    /// On to the next segment, in further headers (RFC 8986 §4.13).
    fn bind(&self, bytes: &mut [u8], headend: &Headend) -> Result<Done, Refusal> {
        let room = headend.overhead();
        let packet = bytes.get_mut(room..).ok_or(Fault::NoRoom.at(0))?;
        // Of the packet's own header nothing is taken off: what is in front of it has its length.
        let whole = Sid { flavours: Default::default(), ..Sid::new(Behaviour::End) };
        let with = Sid { csid: self.csid, ..whole };
        with.advance(packet)?;
        headend.apply(bytes)?;
        Ok(Done::Onward { cut: 0 })
    }
}

/// Where a packet goes on to.
struct To {
    dst: Ipv6Addr,
    /// Segments left then.
    left: u8,
    /// The list is of no use from there on.
    is_last: bool,
}

/// The next segment of a list.
fn of_list(srh: &Srh<'_>) -> Option<To> {
    let left = srh.segments_left().checked_sub(1)?;
    Some(To { dst: srh.segment(left)?, left, is_last: left == 0 })
}

/// The next segment of a compressed list (RFC 9800 §4.2.1; with PSP §4.2.8).
fn replace(dst: Ipv6Addr, srh: &Srh<'_>, lengths: (u8, u8), at: At) -> Result<Option<To>, Refusal> {
    let function_len = lengths.1;
    let identifier = |entry, left, index| To {
        dst: csid::replaced(dst, lengths, (entry, index)),
        left,
        is_last: left == 0 && csid::is_last(entry, function_len, index),
    };
    let wrong = Fault::SegmentsLeft.at(at.start + SEGMENTS_LEFT);
    let (index, left) = (csid::index(dst, function_len), srh.segments_left());
    let Some(index) = index.checked_sub(1) else {
        // The entry is used up: on to the first identifier of the next one.
        let Some(left) = left.checked_sub(1) else { return Ok(None) };
        let entry = srh.segment(left).ok_or(wrong)?;
        let index = csid::per_entry(function_len) - 1;
        return Ok(Some(identifier(entry, left, index)));
    };
    if left > srh.last_entry() {
        return Err(wrong);
    }
    let entry = srh.segment(left).ok_or(wrong)?;
    if csid::identifier(entry, function_len, index) != 0 {
        return Ok(Some(identifier(entry, left, index)));
    }
    // Nothing more in this one. What follows is a whole address.
    Ok(of_list(srh))
}

/// The inner packet behind the outer headers.
fn inside(chain: &Chain) -> Result<Done, Refusal> {
    if chain.is_fragment {
        return Err(Fault::Fragment.at(chain.upper_at));
    }
    let inner = match chain.upper {
        protocol::IPV4 => Inner::V4,
        protocol::IPV6 => Inner::V6,
        _ => Inner::Ethernet,
    };
    Ok(Done::Inside { cut: chain.upper_at, inner })
}

/// Takes a segment routing header off: what stands in front of it moves. Returns how far.
fn take_off(packet: &mut [u8], at: At) -> usize {
    let next = packet.get(at.start).copied().unwrap_or(protocol::NO_NEXT_HEADER);
    if let Some(named) = packet.get_mut(at.named_at) {
        *named = next;
    }
    let payload_len = packet.get_mut(field::PAYLOAD_LEN..).and_then(|b| b.first_chunk_mut::<2>());
    if let Some(payload_len) = payload_len {
        // The header is part of the payload.
        let len = u16::from_be_bytes(*payload_len).saturating_sub(at.len as u16);
        *payload_len = len.to_be_bytes();
    }
    packet.copy_within(..at.start, at.len);
    at.len
}

/// Decrements the hop limit.
fn spend_hop(packet: &mut [u8]) -> Result<(), Refusal> {
    let out = Fault::HopLimit.at(field::HOP_LIMIT);
    let hop_limit = packet.get_mut(field::HOP_LIMIT).ok_or(out)?;
    *hop_limit = hop_limit.checked_sub(1).filter(|left| *left > 0).ok_or(out)?;
    Ok(())
}

fn dst(packet: &[u8]) -> Ipv6Addr {
    let octets = packet.get(field::DST..).and_then(|b| b.first_chunk::<16>());
    octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
}

fn set_dst(packet: &mut [u8], addr: Ipv6Addr) {
    if let Some(octets) = packet.get_mut(field::DST..).and_then(|b| b.first_chunk_mut::<16>()) {
        *octets = addr.octets();
    }
}
