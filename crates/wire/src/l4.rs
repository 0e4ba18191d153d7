//! Checksums of the layer above IP: fill in, verify, and complete what offloads left half done.

use core::net::IpAddr;

use crate::checksum::{self, add};
use crate::headers::{Fragment, Headers};
use crate::ipv6::Ipv6Header;
use crate::protocol;

/// What a look at the upper layer's checksum found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Checksum {
    /// The checksum is right.
    Valid,
    /// The checksum is wrong, or the upper layer is too short to have one.
    Invalid,
    /// There is none to check: another protocol, a fragment, or UDP over IPv4 without checksum.
    Absent,
}

/// Computes and stores the checksum of TCP, UDP, ICMP or ICMPv6 in a whole packet.
///
/// `packet` begins with the IP header that `h` was parsed from. Returns whether a checksum was
/// stored; `false` for fragments, other protocols, and upper layers too short for the field.
pub fn fill_l4_checksum(packet: &mut [u8], h: &Headers) -> bool {
    let Some(layout) = Layout::of(packet, h) else { return false };
    layout.store(packet, h.protocol)
}

/// Verifies the checksum of TCP, UDP, ICMP or ICMPv6 in a whole packet.
pub fn verify_l4_checksum(packet: &[u8], h: &Headers) -> L4Checksum {
    if h.fragment != Fragment::Whole || checksum_at(h.protocol).is_none() {
        return L4Checksum::Absent;
    }
    let Some(layout) = Layout::of(packet, h) else { return L4Checksum::Invalid };
    let Some(upper) = packet.get(layout.upper_at..layout.upper_end) else {
        return L4Checksum::Invalid;
    };
    let field = layout.field(packet);
    if h.protocol == protocol::UDP && field == 0 && h.src.is_ipv4() {
        return L4Checksum::Absent;
    }
    if add(layout.pseudo, checksum::sum(upper)) == 0xffff
        && !(h.protocol == protocol::UDP && field == 0)
    {
        L4Checksum::Valid
    } else {
        L4Checksum::Invalid
    }
}

/// Completes the TCP or UDP checksum that a virtual peer left to hardware which is not there.
///
/// A sender whose device offers checksum offload (veth does) stores only the folded sum of the
/// pseudo header, and a packet that crosses a veth pair arrives like that. Where the field equals
/// that sum, the true checksum over the payload replaces it, and the result is `true`. A packet
/// whose checksum is right already and equals the sum by chance is not changed in effect.
///
/// Only whole packets are touched, and only their outermost TCP or UDP header.
pub fn complete_partial(packet: &mut [u8], h: &Headers) -> bool {
    if !matches!(h.protocol, protocol::TCP | protocol::UDP) {
        return false;
    }
    let Some(layout) = Layout::of(packet, h) else { return false };
    layout.field(packet) == layout.pseudo && layout.store(packet, h.protocol)
}

/// Where an upper layer and its checksum lie in the packet, all inside the slice.
struct Layout {
    upper_at: usize,
    upper_end: usize,
    field_at: usize,
    /// The pseudo header's sum; 0 for ICMP over IPv4, which has none.
    pseudo: u16,
}

impl Layout {
    /// `None` for fragments, other protocols, and anything that does not fit.
    fn of(packet: &[u8], h: &Headers) -> Option<Self> {
        if h.fragment != Fragment::Whole {
            return None;
        }
        let field = checksum_at(h.protocol)?;
        let upper_at = usize::from(h.header_len);
        let upper = packet.get(upper_at..usize::from(h.total_len))?;
        let upper_len = match h.protocol {
            // UDP has its own length, which may be below IP's.
            protocol::UDP => {
                let [_, _, _, _, hi, lo, _, _] = *upper.first_chunk::<8>()?;
                usize::from(u16::from_be_bytes([hi, lo]))
            }
            _ => upper.len(),
        };
        if upper_len < field + 2 || upper_len > upper.len() {
            return None;
        }
        let len = upper_len as u16; // bounded by total_len
        let pseudo = match (h.src, h.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if h.protocol == protocol::ICMP => 0,
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                checksum::pseudo_header_v4(src, dst, h.protocol, len)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut dst = dst;
                if usize::from(h.header_len) > crate::ipv6::HEADER_LEN {
                    let extensions = Ipv6Header::parse(packet).ok()?.extensions().ok()?;
                    if extensions.opaque_routing {
                        return None;
                    }
                    dst = extensions.final_dst.unwrap_or(dst);
                }
                checksum::pseudo_header_v6(src, dst, h.protocol, len.into())
            }
            _ => return None,
        };
        Some(Self { upper_at, upper_end: upper_at + upper_len, field_at: upper_at + field, pseudo })
    }

    fn field(&self, packet: &[u8]) -> u16 {
        match packet.get(self.field_at..).and_then(|b| b.first_chunk()) {
            Some(bytes) => u16::from_be_bytes(*bytes),
            None => 0,
        }
    }

    fn store(&self, packet: &mut [u8], number: u8) -> bool {
        let put = |packet: &mut [u8], value: u16| {
            if let Some(f) = packet.get_mut(self.field_at..self.field_at + 2) {
                f.copy_from_slice(&value.to_be_bytes());
            }
        };
        put(packet, 0);
        let Some(upper) = packet.get(self.upper_at..self.upper_end) else { return false };
        let value = !add(self.pseudo, checksum::sum(upper));
        // For UDP, zero means that there is no checksum (RFC 768).
        put(packet, if number == protocol::UDP && value == 0 { 0xffff } else { value });
        true
    }
}

/// Offset of the checksum in the upper layer's header, for the protocols that are known.
const fn checksum_at(number: u8) -> Option<usize> {
    match number {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        _ => None,
    }
}
