//! The IPv6 header and its extension headers (RFC 8200).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+---------------+---------------------------------------+
//! |Version| Traffic Class |              Flow Label               |
//! +-------+---------------+-------+---------------+---------------+
//! |         Payload Length        |  Next Header  |   Hop Limit   |
//! +-------------------------------+---------------+---------------+
//! |                                                               |
//! |                    Source Address, 16 bytes                   |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                                                               |
//! |                 Destination Address, 16 bytes                 |
//! |                                                               |
//! +---------------------------------------------------------------+
//!
//! Hop-by-hop, routing, destination options:     Fragment header:
//! +-------------+-------------+--- - -          +-------------+----------+--------------+-+-+
//! | Next Header | Hdr Ext Len | data            | Next Header | Reserved | Offset (13)  |R|M|
//! +-------------+-------------+--- - -          +-------------+----------+--------------+-+-+
//!   length in bytes: 8 * (Hdr Ext Len + 1)      |            Identification, 4 bytes        |
//!                                               +-------------------------------------------+
//! ```

use core::net::Ipv6Addr;

use crate::error::{NoRoom, ParseError};
use crate::fragment::Fragment;
use crate::protocol;

/// Length of the fixed header, in bytes.
pub const HEADER_LEN: usize = 40;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_HEADER_LEN: usize = 8;
/// The smallest MTU that a link may have, in bytes (RFC 8200 §5).
pub const MIN_MTU: u16 = 1280;
/// More extension headers than this are refused. RFC 8200 §4.1 has at most seven in a packet.
pub const MAX_EXTENSIONS: usize = 8;

/// Where each field begins, in bytes.
pub mod field {
    /// Payload length, 2 bytes.
    pub const PAYLOAD_LEN: usize = 4;
    /// Next header, 1 byte.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit, 1 byte.
    pub const HOP_LIMIT: usize = 7;
    /// Source address, 16 bytes.
    pub const SRC: usize = 8;
    /// Destination address, 16 bytes.
    pub const DST: usize = 24;
}

/// A fixed header whose version and payload length were checked.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Ipv6Header<'a> {
    /// Checks version and payload length of the packet that `packet` begins with; bytes after it
    /// (Ethernet padding) are allowed.
    ///
    /// # Errors
    /// The first check that fails. Jumbograms (RFC 2675) are refused, and so are packets that
    /// their header makes longer than 65535 bytes.
    pub fn parse(packet: &'a [u8]) -> Result<Self, ParseError> {
        let header = Self::parse_quoted(packet)?;
        let payload_len = header.payload_len();
        if payload_len == 0 && header.next_header() == protocol::HOP_BY_HOP {
            return Err(ParseError::Jumbogram);
        }
        if usize::from(payload_len) + HEADER_LEN > usize::from(u16::MAX) {
            return Err(ParseError::Jumbogram);
        }
        if header.payload.len() < usize::from(payload_len) {
            return Err(ParseError::TotalLen);
        }
        Ok(header)
    }

    /// As [`Ipv6Header::parse`], for a packet quoted in an ICMPv6 error, whose end may be
    /// missing.
    ///
    /// # Errors
    /// The fixed header is truncated or its version is not 6.
    pub fn parse_quoted(packet: &'a [u8]) -> Result<Self, ParseError> {
        let Some((fixed, payload)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(ParseError::Truncated);
        };
        if fixed[0] >> 4 != 6 {
            return Err(ParseError::Version(fixed[0] >> 4));
        }
        let len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let payload = payload.get(..len).unwrap_or(payload);
        Ok(Self { fixed, payload })
    }

    /// DS field and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[0] << 4 | self.fixed[1] >> 4
    }

    /// Flow label, 20 bits.
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.fixed[1] & 0x0f, self.fixed[2], self.fixed[3]])
    }

    /// Length of what follows the fixed header, in bytes.
    pub const fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// Protocol of the first extension header or of the upper layer.
    pub const fn next_header(&self) -> u8 {
        self.fixed[6]
    }

    /// Hop limit: routers that the packet may still pass.
    pub const fn hop_limit(&self) -> u8 {
        self.fixed[7]
    }

    /// Source address of the packet.
    pub fn src(&self) -> Ipv6Addr {
        address(self.fixed, field::SRC)
    }

    /// Destination address of the fixed header; with a routing header, the next stop.
    pub fn dst(&self) -> Ipv6Addr {
        address(self.fixed, field::DST)
    }

    /// Bytes behind the fixed header, up to the payload length.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Walks the extension headers up to the upper layer, or up to the payload of a fragment
    /// that is not the first.
    ///
    /// # Errors
    /// The chain is truncated, too long, or in an order that cannot be.
    pub fn extensions(&self) -> Result<Extensions, ParseError> {
        walk(self.next_header(), self.payload)
    }
}

/// Fields of a fragment header (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentInfo {
    /// Where the fragment header begins, in bytes from the first byte of the IP header.
    pub header_offset: u16,
    /// Where the Next Header field lies that names the fragment header, in bytes from the same.
    pub named_at: u16,
    /// Next Header field of the fragment header: the first header of the fragmented part.
    pub next_header: u8,
    /// Where the fragment's payload lies in the fragmentable part, in bytes.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification: common to the fragments of one packet.
    pub ident: u32,
}

impl FragmentInfo {
    /// Whole (an atomic fragment, RFC 6946), first or later.
    pub const fn kind(&self) -> Fragment {
        match (self.offset, self.more) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }
}

/// The result of a walk over the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions {
    /// The upper-layer protocol; for a later fragment, what its fragment header names.
    pub protocol: u8,
    /// Where the upper layer (or the later fragment's payload) begins, in bytes from the first
    /// byte of the IP header.
    pub header_len: u16,
    /// The fragment header, if there is one.
    pub fragment: Option<FragmentInfo>,
    /// The final destination by the routing header, where that differs from the fixed header's
    /// and the header's type is known.
    pub final_dst: Option<Ipv6Addr>,
    /// A routing header whose segments are not used up and whose type is not known stands in the
    /// way: the final destination, which pseudo headers need, is not known.
    pub opaque_routing: bool,
}

fn walk(first: u8, payload: &[u8]) -> Result<Extensions, ParseError> {
    let mut state = Extensions {
        protocol: first,
        header_len: HEADER_LEN as u16,
        fragment: None,
        final_dst: None,
        opaque_routing: false,
    };
    let mut rest = payload;
    let mut named_at = field::NEXT_HEADER as u16;
    for index in 0..=MAX_EXTENSIONS {
        let kind = state.protocol;
        if !is_extension(kind) {
            return Ok(state);
        }
        if kind == protocol::HOP_BY_HOP && index > 0 {
            return Err(ParseError::ExtensionOrder);
        }
        let fixed = rest.first_chunk::<8>().ok_or(ParseError::ExtensionTruncated)?;
        let len = match kind {
            protocol::FRAGMENT => FRAGMENT_HEADER_LEN,
            _ => (usize::from(fixed[1]) + 1) * 8,
        };
        let (header, after) = rest.split_at_checked(len).ok_or(ParseError::ExtensionTruncated)?;
        state.protocol = fixed[0];
        match kind {
            protocol::ROUTING => routing(header, fixed, &mut state),
            protocol::FRAGMENT => {
                if state.fragment.is_some() {
                    return Err(ParseError::ExtensionOrder);
                }
                let word = u16::from_be_bytes([fixed[2], fixed[3]]);
                let info = FragmentInfo {
                    header_offset: state.header_len,
                    named_at,
                    next_header: fixed[0],
                    offset: word & !7,
                    more: word & 1 != 0,
                    ident: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
                };
                state.fragment = Some(info);
                if usize::from(info.offset) + after.len() > usize::from(u16::MAX) {
                    return Err(ParseError::FragmentBounds);
                }
            }
            _ => {}
        }
        // Each of these headers begins with its Next Header field.
        named_at = state.header_len;
        // The payload is at most 65535 - 40 bytes, so the sum fits.
        state.header_len = state.header_len.saturating_add(len as u16);
        rest = after;
        if state.fragment.is_some_and(|f| f.kind() == Fragment::Later) {
            return Ok(state);
        }
    }
    Err(ParseError::ExtensionCount)
}

/// True if the protocol number is an extension header that the walk steps over.
pub const fn is_extension(number: u8) -> bool {
    matches!(
        number,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
    )
}

/// Finds the final destination in a routing header whose segments are not used up: type 2
/// (RFC 6275 §6.4) and the segment routing header (type 4, RFC 8754 §2) have it first, type 0
/// (RFC 5095, deprecated) last.
fn routing(header: &[u8], fixed: &[u8; 8], state: &mut Extensions) {
    let (kind, left) = (fixed[2], fixed[3]);
    if left == 0 {
        return;
    }
    let at = match kind {
        2 | 4 => Some(8),
        0 => header.len().checked_sub(16).filter(|at| *at >= 8),
        _ => None,
    };
    let found = at.and_then(|at| header.get(at..)).and_then(|b| b.first_chunk::<16>());
    match found {
        Some(octets) => state.final_dst = Some(Ipv6Addr::from(*octets)),
        None => state.opaque_routing = true,
    }
}

fn address(fixed: &[u8; HEADER_LEN], at: usize) -> Ipv6Addr {
    let mut octets = [0u8; 16];
    for (to, from) in octets.iter_mut().zip(fixed.iter().skip(at)) {
        *to = *from;
    }
    Ipv6Addr::from(octets)
}

/// The fields of a fixed header, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// DS field and ECN.
    pub traffic_class: u8,
    /// Flow label; the upper 12 bits are ignored.
    pub flow_label: u32,
    /// Length of what follows, in bytes.
    pub payload_len: u16,
    /// Protocol of what follows.
    pub next_header: u8,
    /// Hop limit: routers that the packet may pass.
    pub hop_limit: u8,
    /// Source address of the packet.
    pub src: Ipv6Addr,
    /// State of the upper layer's checksum.
    pub dst: Ipv6Addr,
}

impl Ipv6Fields {
    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        let mut bytes = [0u8; HEADER_LEN];
        bytes[..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.src.octets());
        bytes[24..].copy_from_slice(&self.dst.octets());
        bytes
    }

    /// Writes the header to the buffer's beginning.
    ///
    /// # Errors
    /// The buffer is shorter than 40 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        *out.first_chunk_mut().ok_or(NoRoom)? = self.to_bytes();
        Ok(())
    }
}
