//! The headers of a tunnel in UDP around TCP segments that are joined.
//!
//! ```text
//!   IP | UDP | VXLAN or GENEVE | [Ethernet |] IP | TCP ...
//! ```
//!
//! Such segments are joined for Linux alone, which takes the super-packet through its own tunnel as one. A program that
//! has the port open would get one long datagram instead. So they are joined where they go to an end of a tunnel of
//! Linux's ([`Ends`]), which Linux's own packets show: only a tunnel's have a checksum to be completed behind its headers.
//!
//! The outer headers are the same but for lengths, checksums and IPv4's identification, which counts up by one or, with
//! DF, may be any (RFC 6864 §4.1).

use core::ops::Range;

use arrayvec::ArrayVec;

use super::checks::udp_checksum_is_right;
use super::inside;
use super::layout::{Layout, UDP, put, set_ipv4_checksum, word};
use super::vnet::UdpTunnel;
use crate::checksum::Sum;

/// The outer headers of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// The outer IP header is IPv4's, without options; else IPv6's, without extension headers.
    is_v4: bool,
    /// Where the inner IP header begins, in bytes from the outer one.
    at: u16,
}

impl Around {
    /// The headers around the packet inside, if the packet goes to one of the ends.
    pub(super) fn of(packet: &[u8], layout: &Layout, ends: &Ends) -> Option<Self> {
        let is_plain = layout.ip_len == if layout.is_v4 { 20 } else { 40 };
        if layout.protocol != UDP || layout.is_fragment || !is_plain || !ends.has(packet, layout) {
            return None;
        }
        let udp = packet.get(layout.ip_len..)?;
        let ip_says = match layout.is_v4 {
            true => usize::from(word(packet, 2)),
            false => usize::from(word(packet, 4)) + 40,
        };
        if ip_says != packet.len() || usize::from(word(udp, 4)) != udp.len() {
            return None;
        }
        let at = layout.ip_len + inside::headers_len(udp)?;
        Some(Self { is_v4: layout.is_v4, at: u16::try_from(at).ok()? })
    }

    /// Where the inner IP header begins, in bytes from the outer one.
    pub(super) fn at(&self) -> usize {
        self.at.into()
    }

    const fn layout(&self) -> Layout {
        let ip_len = if self.is_v4 { 20 } else { 40 };
        Layout { is_v4: self.is_v4, protocol: UDP, ip_len, is_fragment: false }
    }

    /// Two packets go from the same host to the same end.
    pub(super) fn has_same_ends(&self, a: &[u8], b: &[u8]) -> bool {
        let layout = self.layout();
        let ip_len = layout.ip_len;
        let same = |range: Range<usize>| a.get(range.clone()) == b.get(range);
        same(addresses(&layout)) && same(ip_len + 2..ip_len + 4)
    }

    /// The headers around packet number `number` differ from those of the first only where they may.
    pub(super) fn follows(&self, first: &[u8], next: &[u8], next_is: &Self, number: u16) -> bool {
        let same = |range: Range<usize>| first.get(range.clone()) == next.get(range);
        let layout = self.layout();
        let ip_len = layout.ip_len;
        let ip_same = if self.is_v4 {
            let id = word(first, 4).wrapping_add(number);
            let is_any_id = word(first, 6) & DF != 0;
            (is_any_id || word(next, 4) == id) && same(0..2) && same(6..10)
        } else {
            same(0..4) && same(6..8)
        };
        let has_same_checksum = (word(first, ip_len + 6) == 0) == (word(next, ip_len + 6) == 0);
        self.is_v4 == next_is.is_v4
            && self.at == next_is.at
            && ip_same
            && has_same_checksum
            && same(addresses(&layout))
            && same(ip_len..ip_len + 4)
            && same(ip_len + 8..self.at())
    }

    /// The outer checksums are what segmentation would compute; UDP's may be none.
    pub(super) fn checksums_right(&self, packet: &[u8]) -> bool {
        let layout = self.layout();
        let Some((ip, udp)) = packet.split_at_checked(layout.ip_len) else { return false };
        let ip_right = !self.is_v4 || Sum::default().bytes(ip).folded() == 0xffff;
        let is_none = word(udp, 6) == 0;
        ip_right && (is_none || udp_checksum_is_right(packet, &layout))
    }

    /// Makes the outer headers, the first bytes of a super-packet of `len` bytes, fit it.
    pub(super) fn complete(&self, header: &mut [u8], len: usize) {
        let layout = self.layout();
        let ip_len = layout.ip_len;
        if self.is_v4 {
            put(header, 2, len as u16);
            if let Some(header) = header.get_mut(..ip_len) {
                set_ipv4_checksum(header);
            }
        } else {
            put(header, 4, (len - ip_len) as u16);
        }
        put(header, ip_len + 4, (len - ip_len) as u16);
        if word(header, ip_len + 6) != 0 {
            let partial = layout.pseudo_header(header, len - ip_len).folded();
            put(header, ip_len + 6, partial);
        }
    }

    /// The word for these headers in the vnet header.
    pub(super) fn tunnel(&self, header: &[u8]) -> UdpTunnel {
        let udp_at = self.layout().ip_len;
        UdpTunnel {
            is_v4: self.is_v4,
            has_checksum: word(header, udp_at + 6) != 0,
            udp_at: udp_at as u16,
            inside_at: self.at,
        }
    }
}

/// Ends of Linux's own tunnels in UDP: addresses of this host with the ports that VXLAN and GENEVE have open there. The
/// eight that were seen last.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    known: ArrayVec<End, 8>,
    /// The one to be forgotten next.
    oldest: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    address: [u8; 16],
    is_v4: bool,
    port: u16,
}

impl Ends {
    /// Takes in a packet that Linux has sent, with the place where the checksum to be completed begins. One in a tunnel,
    /// where that lies behind the tunnel's headers, leaves from the address at which answers come, to the port of both
    /// ends.
    pub fn learn(&mut self, packet: &[u8], csum_start: usize) {
        if csum_start <= LEAST_INSIDE {
            return;
        }
        let Some(layout) = Layout::of(packet).filter(|layout| layout.protocol == UDP) else {
            return;
        };
        let udp = packet.get(layout.ip_len..).unwrap_or(&[]);
        let is_inside =
            inside::headers_len(udp).is_some_and(|len| layout.ip_len + len < csum_start);
        let (src, _) = sides(&layout);
        let Some(end) = End::of(packet, &layout, src).filter(|_| is_inside) else { return };
        if self.known.contains(&end) {
            return;
        }
        if self.known.try_push(end).is_err()
            && let Some(slot) = self.known.get_mut(self.oldest)
        {
            *slot = end;
            self.oldest = (self.oldest + 1) % self.known.capacity();
        }
    }

    /// True if a UDP packet goes to one of them.
    fn has(&self, packet: &[u8], layout: &Layout) -> bool {
        let (_, dst) = sides(layout);
        !self.known.is_empty()
            && End::of(packet, layout, dst).is_some_and(|end| self.known.contains(&end))
    }
}

impl End {
    fn of(packet: &[u8], layout: &Layout, address: Range<usize>) -> Option<Self> {
        let mut padded = [0; 16];
        let found = packet.get(address)?;
        padded.get_mut(..found.len())?.copy_from_slice(found);
        let port = word(packet, layout.ip_len + 2);
        Some(Self { address: padded, is_v4: layout.is_v4, port })
    }
}

const fn addresses(layout: &Layout) -> Range<usize> {
    if layout.is_v4 { 12..20 } else { 8..40 }
}

/// Source and destination address.
const fn sides(layout: &Layout) -> (Range<usize>, Range<usize>) {
    if layout.is_v4 { (12..16, 16..20) } else { (8..24, 24..40) }
}

/// In the word of IPv4's flags.
const DF: u16 = 0x4000;
/// No packet in a tunnel has its transport header in front of this: IPv6 and UDP.
const LEAST_INSIDE: usize = 48;
