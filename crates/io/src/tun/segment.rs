//! Cuts a super-packet from the TUN into packets that fit a frame, with complete checksums.
//!
//! The kernel hands over what a network card with TCP and UDP segmentation would get: up to 64 KiB
//! of payload behind one set of headers, and a partial checksum.
//!
//! | field | first | middle | last |
//! | --- | --- | --- | --- |
//! | IPv4 total length, IPv6 payload length, UDP length | own | own | own |
//! | IPv4 identification | as given | + 1 each | + 1 each |
//! | TCP sequence number | as given | + payload so far | + payload so far |
//! | TCP FIN, PSH | cleared | cleared | as given |
//! | TCP CWR (RFC 3168 §6.1.2) | as given | cleared | cleared |
//! | checksums | complete | complete | complete |
//!
//! ESP in UDP over IPv4 gets no UDP checksum, as RFC 3948 §2.1 wants it: that of a super-packet is there for its
//! sake alone.
//!
//! A super-packet in a tunnel is cut by the same table, and its segments get the headers outside again (`inside`).
//!
//! Not handled: segmentation of IPv6 with a routing header whose segments are not used up; the
//! pseudo header would need the final destination (RFC 8200 §8.1).

use crate::checksum::Sum;

use super::inside::Outside;
use super::layout::{Layout, TCP, UDP, double_word, put, set_ipv4_checksum, word};
use super::vnet::{Gso, VNET_LONG_HEADER_LEN, VnetHeader};

/// Why a packet from the TUN can't be used. The peer is the kernel, so these are not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The headers are malformed, or do not fit the kind of segmentation.
    #[error("malformed headers")]
    Malformed,
    /// A kind of segmentation that was not offered.
    #[error("segmentation of a kind that was not offered")]
    Kind,
    /// Too long for a frame, and may not be cut.
    #[error("too long for a frame")]
    TooLong,
}

/// How long packets may be, in bytes from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest segment, as an IP packet in bytes. A TCP segment is made smaller than its
    /// super-packet says where it would be longer.
    pub segment: usize,
    /// Room of a frame, in bytes.
    pub frame: usize,
}

/// A packet being cut. Holds no packet bytes: each call is given the same packet again.
#[derive(Clone, Copy, Debug)]
pub struct Segmenter {
    /// Of the packet that is cut: behind the headers outside of it, if there are some.
    layout: Layout,
    outside: Option<Outside>,
    transport: Transport,
    /// Length of all headers, which each segment repeats.
    hdr_len: usize,
    /// Payload per segment.
    size: usize,
    /// Where the next segment's payload begins in the packet.
    next: usize,
    /// Segments made so far.
    made: u16,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// One packet, as it is.
    Whole,
    Tcp,
    Udp,
}

impl Segmenter {
    /// Checks a packet's headers, and completes the checksum of one that is not to be cut.
    ///
    /// # Errors
    ///
    /// [`SegmentError`]; the packet is then of no use.
    pub fn new(vnet: &VnetHeader, packet: &mut [u8], limits: Limits) -> Result<Self, SegmentError> {
        let layout = Layout::of(packet).ok_or(SegmentError::Malformed)?;
        if vnet.gso == Gso::None && vnet.tunnel.is_none() {
            return Self::whole(vnet, packet, layout, limits);
        }
        let transport_at = usize::from(vnet.csum_start);
        let found = match vnet.tunnel {
            // Without it nothing says where the transport header inside begins.
            Some(_) if !vnet.needs_csum => Some(None),
            Some(tunnel) => Some(Outside::named(packet, layout, tunnel, transport_at)),
            None if vnet.needs_csum && transport_at > layout.ip_len => {
                Some(Outside::of(packet, layout, transport_at))
            }
            None => None,
        };
        let (outside, layout) = match found {
            Some(found) => {
                let (outside, inside) = found.ok_or(SegmentError::Malformed)?;
                (Some(outside), inside)
            }
            None => (None, layout),
        };
        let transport = match vnet.gso {
            Gso::TcpV4 if layout.is_v4 && layout.protocol == TCP => Transport::Tcp,
            Gso::TcpV6 if !layout.is_v4 && layout.protocol == TCP => Transport::Tcp,
            Gso::Udp if layout.protocol == UDP => Transport::Udp,
            Gso::None | Gso::TcpV4 | Gso::TcpV6 | Gso::Udp => return Err(SegmentError::Malformed),
            Gso::Unknown(_) => return Err(SegmentError::Kind),
        };
        let transport_at = outside.map_or(0, |outside| outside.at) + layout.ip_len;
        let header = packet.get(transport_at..).unwrap_or(&[]);
        let transport_len = match transport {
            Transport::Tcp => header.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4),
            _ => 8,
        };
        let least = if transport == Transport::Tcp { 20 } else { 8 };
        let hdr_len = transport_at + transport_len;
        let size = usize::from(vnet.gso_size);
        if layout.is_fragment || transport_len < least || packet.len() < hdr_len || size == 0 {
            return Err(SegmentError::Malformed);
        }
        let longest = limits.segment.min(limits.frame).min(MAX_IP_LEN);
        let room = longest.checked_sub(hdr_len).filter(|&room| room > 0);
        let room = room.ok_or(SegmentError::TooLong)?;
        let size = match transport {
            // A datagram must stay whole, a TCP segment need not.
            Transport::Udp if size.min(packet.len() - hdr_len) > room => {
                return Err(SegmentError::TooLong);
            }
            _ => size.min(room),
        };
        let (next, made, done) = (hdr_len, 0, false);
        Ok(Self { layout, outside, transport, hdr_len, size, next, made, done })
    }

    fn whole(
        vnet: &VnetHeader,
        packet: &mut [u8],
        layout: Layout,
        limits: Limits,
    ) -> Result<Self, SegmentError> {
        if packet.len() > limits.frame {
            return Err(SegmentError::TooLong);
        }
        if vnet.needs_csum {
            if usize::from(vnet.csum_start) < layout.ip_len {
                return Err(SegmentError::Malformed);
            }
            complete(vnet, packet, layout.protocol == UDP)?;
        }
        Ok(Self {
            layout,
            outside: None,
            transport: Transport::Whole,
            hdr_len: 0,
            size: packet.len(),
            next: 0,
            made: 0,
            done: false,
        })
    }

    /// Writes the next segment to the front of `out` and returns its length; `None` when there is
    /// none left. `packet` is the packet that `new` was given.
    ///
    /// A segment that does not fit `out` is skipped with a length of 0; `out` of
    /// [`Limits::frame`] bytes always fits.
    pub fn next(&mut self, packet: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.done {
            return None;
        }
        let end = self.next.saturating_add(self.size).min(packet.len());
        let payload = packet.get(self.next..end)?;
        let header = packet.get(..self.hdr_len)?;
        let is_last = end == packet.len();
        let sent = (self.next - self.hdr_len) as u32;
        let made = self.made;
        self.next = end;
        self.made = made.wrapping_add(1);
        self.done = is_last;
        let len = header.len() + payload.len();
        let Some(out) = out.get_mut(..len) else { return Some(0) };
        let (to_header, to_payload) = out.split_at_mut(header.len());
        to_header.copy_from_slice(header);
        to_payload.copy_from_slice(payload);
        if self.transport != Transport::Whole {
            let at = self.outside.map_or(0, |outside| outside.at);
            self.fix_headers(out.get_mut(at..).unwrap_or(&mut []), made, sent, is_last);
            if let Some(outside) = &self.outside {
                outside.complete(out, made);
            }
        }
        Some(len)
    }

    /// The number of segments that are still to be made.
    pub const fn left(&self, packet_len: usize) -> usize {
        match self.done {
            true => 0,
            false => packet_len.saturating_sub(self.next).div_ceil(self.size),
        }
    }

    /// True if all segments have been made.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    fn fix_headers(&self, out: &mut [u8], made: u16, sent: u32, is_last: bool) {
        let len = out.len();
        let ip_len = self.layout.ip_len;
        if self.layout.is_v4 {
            put(out, 2, len as u16);
            put(out, 4, word(out, 4).wrapping_add(made));
            if let Some(header) = out.get_mut(..ip_len) {
                set_ipv4_checksum(header);
            }
        } else {
            put(out, 4, (len - 40) as u16);
        }
        let pseudo = self.layout.pseudo_header(out, len - ip_len);
        let field = if self.transport == Transport::Tcp {
            let seq = double_word(out, ip_len + 4).wrapping_add(sent);
            put(out, ip_len + 4, (seq >> 16) as u16);
            put(out, ip_len + 6, seq as u16);
            if let Some(flags) = out.get_mut(ip_len + 13) {
                if !is_last {
                    *flags &= !(FIN | PSH);
                }
                if made > 0 {
                    *flags &= !CWR;
                }
            }
            ip_len + 16
        } else {
            put(out, ip_len + 4, (len - ip_len) as u16);
            if self.layout.is_v4 && is_natt(out, ip_len) {
                put(out, ip_len + 6, 0);
                return;
            }
            ip_len + 6
        };
        put(out, field, 0);
        let checksum = pseudo.bytes(out.get(ip_len..).unwrap_or(&[])).checksum();
        let is_udp = self.transport == Transport::Udp;
        put(out, field, if is_udp { not_zero(checksum) } else { checksum });
    }
}

/// True if a UDP header is of ESP in UDP (RFC 3948 §2.1), by its ports.
pub(super) fn is_natt(packet: &[u8], udp: usize) -> bool {
    word(packet, udp) == NATT_PORT || word(packet, udp + 2) == NATT_PORT
}

/// Completes a partial checksum.
///
/// # Errors
///
/// [`SegmentError::Malformed`] if it does not lie in the packet.
pub fn complete(vnet: &VnetHeader, packet: &mut [u8], is_udp: bool) -> Result<(), SegmentError> {
    let start = usize::from(vnet.csum_start);
    let field = start + usize::from(vnet.csum_offset);
    if field + 2 > packet.len() {
        return Err(SegmentError::Malformed);
    }
    let covered = packet.get(start..).unwrap_or(&[]);
    let checksum = Sum::default().bytes(covered).checksum();
    put(packet, field, if is_udp { not_zero(checksum) } else { checksum });
    Ok(())
}

/// A UDP checksum of zero means "none" (RFC 768), so it is sent as its other form.
const fn not_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Cuts what arbitrary bytes describe, a long vnet header in front; a fuzz target's entry.
///
/// # Panics
///
/// When a segment breaks its limits, or cutting does not end.
pub fn fuzz(data: &[u8]) {
    let Some((header, rest)) = data.split_first_chunk::<VNET_LONG_HEADER_LEN>() else {
        return;
    };
    let mut packet = rest.to_vec();
    let limits = Limits { segment: 1400, frame: 1792 };
    let vnet = VnetHeader::parse_long(header);
    let Ok(mut segmenter) = Segmenter::new(&vnet, &mut packet, limits) else { return };
    let mut out = [0; 1792];
    let mut payload = 0;
    while let Some(len) = segmenter.next(&packet, &mut out) {
        assert!(len > 0 && len <= out.len(), "segment of {len} bytes");
        assert!(segmenter.transport == Transport::Whole || len <= 1400);
        payload += len - segmenter.hdr_len;
    }
    assert_eq!(payload, packet.len() - segmenter.hdr_len, "every byte, once");
}

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
const NATT_PORT: u16 = 4500;
const MAX_IP_LEN: usize = 65535;

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
