//! Headends: segments are put on packets (RFC 8986 §5).

use core::net::Ipv6Addr;

use wire::ipv6::{self, Ipv6Fields, field};
use wire::{Family, ipv4, protocol};

use crate::ETHERNET;
use crate::fault::{Fault, Refusal};
use crate::srh;

/// How segments are put on a packet; by the names of iproute2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// H.Encaps: an IPv6 header and all segments around the packet.
    Encap,
    /// H.Encaps.Red: without the first one, which the destination says.
    EncapRed,
    /// H.Insert: segments behind the packet's own IPv6 header.
    Inline,
    /// H.Insert.Red: without the first one, which the destination says.
    InlineRed,
    /// H.L2Encaps: around a whole Ethernet frame.
    L2Encap,
    /// H.L2Encaps.Red: without the first segment.
    L2EncapRed,
}

impl Mode {
    /// True if the first segment is left out of the list.
    pub const fn is_reduced(self) -> bool {
        matches!(self, Mode::EncapRed | Mode::InlineRed | Mode::L2EncapRed)
    }

    /// True if segments are put into a packet, and not around it.
    pub const fn is_inline(self) -> bool {
        matches!(self, Mode::Inline | Mode::InlineRed)
    }

    /// True if it encapsulates Ethernet frames.
    pub const fn is_layer2(self) -> bool {
        matches!(self, Mode::L2Encap | Mode::L2EncapRed)
    }

    /// Next header of outer headers around a packet of a family. `None` where the outer headers are
    /// not the headend's alone.
    #[inline]
    pub const fn around(self, inner: Family) -> Option<u8> {
        match (self, inner) {
            (Mode::Encap | Mode::EncapRed, Family::V4) => Some(protocol::IPV4),
            (Mode::Encap | Mode::EncapRed, Family::V6) => Some(protocol::IPV6),
            _ => None,
        }
    }

    /// The name, as iproute2 spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Encap => "encap",
            Mode::EncapRed => "encap.red",
            Mode::Inline => "inline",
            Mode::InlineRed => "inline.red",
            Mode::L2Encap => "l2encap",
            Mode::L2EncapRed => "l2encap.red",
        }
    }
}

/// Why segments are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadendError {
    /// There is none.
    NoSegments,
    /// The headers would be longer than there is room in front of packets.
    TooMany,
}

/// The most segments: what is put in front of a packet has room in any buffer, and another tunnel's headers have.
pub const MAX_SEGMENTS: usize = 8;

/// The hop limit of outer headers around other than IPv6 (Linux's default).
const HOP_LIMIT: u8 = 64;

/// Segments, and how they are put on packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headend {
    mode: Mode,
    segments: Box<[Ipv6Addr]>,
    source: Ipv6Addr,
    /// Headers in front of packets: an IPv6 header, but where segments are put in, and the segment
    /// routing header, if the destination does not say all.
    front: Box<[u8]>,
}

impl Headend {
    /// Segments in the order in which packets pass them; `source` is the outer header's source address.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn new(
        mode: Mode,
        segments: &[Ipv6Addr],
        source: Ipv6Addr,
    ) -> Result<Headend, HeadendError> {
        if segments.is_empty() {
            return Err(HeadendError::NoSegments);
        }
        if segments.len() > MAX_SEGMENTS {
            return Err(HeadendError::TooMany);
        }
        // A packet's own destination is the last one where segments are put in.
        let own = mode.is_inline().then_some(Ipv6Addr::UNSPECIFIED);
        let mut list: Vec<Ipv6Addr> = own.into_iter().collect();
        list.extend(segments.iter().rev());
        let left = list.len() - 1;
        if mode.is_reduced() {
            list.pop();
        }
        let srh = match list.is_empty() {
            true => Vec::new(),
            // There are at most nine.
            false => srh::emit(&list, left as u8).ok_or(HeadendError::TooMany)?,
        };
        let mut front = match mode.is_inline() {
            true => Vec::new(),
            // Its next header and what it has of each packet are written then.
            false => Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: 0,
                next_header: if srh.is_empty() { 0 } else { protocol::ROUTING },
                hop_limit: HOP_LIMIT,
                src: source,
                dst: segments.first().copied().unwrap_or(Ipv6Addr::UNSPECIFIED),
            }
            .to_bytes()
            .to_vec(),
        };
        front.extend(srh);
        Ok(Headend { mode, segments: segments.into(), source, front: front.into() })
    }

    /// How they are put on packets.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The segments, in the order in which packets pass them.
    pub fn segments(&self) -> &[Ipv6Addr] {
        &self.segments
    }

    /// The outer header's source address.
    pub const fn source(&self) -> Ipv6Addr {
        self.source
    }

    /// The first segment, which packets go to.
    pub fn first(&self) -> Ipv6Addr {
        self.segments.first().copied().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// The segment routing header, whose next header is to be written; empty where the destination says all.
    pub(crate) fn srh(&self) -> &[u8] {
        let outer = if self.mode.is_inline() { 0 } else { ipv6::HEADER_LEN };
        self.front.get(outer..).unwrap_or_default()
    }

    /// The length of the segment routing header, in bytes; 0 where the destination says all.
    pub fn srh_len(&self) -> usize {
        self.srh().len()
    }

    /// Bytes that packets become longer by.
    #[inline]
    pub const fn overhead(&self) -> usize {
        self.front.len()
    }

    /// Puts the segments on the packet that begins [`Headend::overhead`] bytes further on. The result begins with
    /// the first byte.
    ///
    /// The packet's TTL or hop limit is not decremented here. An IPv6 packet's traffic class, flow label and hop
    /// limit become the outer ones, as in Linux.
    ///
    /// # Errors
    /// There is no such packet; segments can be put only into IPv6. The bytes are as before then.
    pub fn apply(&self, bytes: &mut [u8]) -> Result<(), Refusal> {
        let overhead = self.overhead();
        let inner = bytes.get(overhead..).ok_or(Fault::NoRoom.at(0))?;
        let malformed = Fault::Malformed.at(0);
        let version = inner.first().ok_or(malformed)? >> 4;
        match self.mode.is_inline() {
            true if version != 6 => return Err(malformed),
            true => return self.insert(bytes),
            false => {}
        }
        let payload_len = bytes.len().checked_sub(ipv6::HEADER_LEN).ok_or(malformed)?;
        let payload_len = u16::try_from(payload_len).map_err(|_| Fault::NoRoom.at(0))?;
        // Traffic class and flow label, and the hop limit.
        let (kind, own) = match (self.mode.is_layer2(), version) {
            (true, _) => (ETHERNET, None),
            (false, 6) if inner.len() >= ipv6::HEADER_LEN => {
                (protocol::IPV6, inner.first_chunk::<8>().copied())
            }
            (false, 4) if inner.len() >= ipv4::MIN_HEADER_LEN => (protocol::IPV4, None),
            _ => return Err(malformed),
        };
        let front = bytes.get_mut(..overhead).ok_or(Fault::NoRoom.at(0))?;
        front.copy_from_slice(&self.front);
        let (ip, srh) = front.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>().ok_or(malformed)?;
        if let Some([first, second, third, fourth, .., hop_limit]) = own {
            ip[..4].copy_from_slice(&[first, second, third, fourth]);
            ip[field::HOP_LIMIT] = hop_limit;
        }
        ip[field::PAYLOAD_LEN..][..2].copy_from_slice(&payload_len.to_be_bytes());
        match srh.first_mut() {
            Some(next) => *next = kind,
            None => ip[field::NEXT_HEADER] = kind,
        }
        Ok(())
    }

    /// Moves the packet's IPv6 header to the front, and puts the segments behind it.
    fn insert(&self, bytes: &mut [u8]) -> Result<(), Refusal> {
        let (malformed, no_room) = (Fault::Malformed.at(0), Fault::NoRoom.at(0));
        let len = self.front.len();
        let fixed = bytes.get(len..).and_then(|b| b.first_chunk::<{ ipv6::HEADER_LEN }>());
        let mut fixed = *fixed.ok_or(malformed)?;
        let old = u16::from_be_bytes([fixed[field::PAYLOAD_LEN], fixed[field::PAYLOAD_LEN + 1]]);
        let payload_len = u16::try_from(usize::from(old) + len).map_err(|_| no_room)?;
        let next_header = core::mem::replace(&mut fixed[field::NEXT_HEADER], protocol::ROUTING);
        fixed[field::PAYLOAD_LEN..][..2].copy_from_slice(&payload_len.to_be_bytes());
        let mut own = [0; srh::SEGMENT_LEN];
        own.copy_from_slice(&fixed[field::DST..]);
        fixed[field::DST..].copy_from_slice(&self.first().octets());
        let front = bytes.get_mut(..ipv6::HEADER_LEN + len).ok_or(no_room)?;
        let (ip, rest) = front.split_at_mut(ipv6::HEADER_LEN);
        ip.copy_from_slice(&fixed);
        rest.copy_from_slice(&self.front);
        if let Some(next) = rest.first_mut() {
            *next = next_header;
        }
        if let Some(last) = rest.get_mut(srh::FIXED_LEN..srh::FIXED_LEN + srh::SEGMENT_LEN) {
            last.copy_from_slice(&own);
        }
        Ok(())
    }
}
