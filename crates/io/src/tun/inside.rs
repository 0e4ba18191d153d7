//! Super-packets inside of a tunnel's packet: where they lie, and the headers outside of each segment.
//!
//! Linux makes them of overlays of its own and of those whose packets it routes on. The long vnet header of a TUN names
//! those in UDP ([`UdpTunnel`]). A packet socket has no word for them but that the checksum to be completed lies further
//! in than behind the first IP header: there the headers in between tell.
//!
//! ```text
//!   IP | UDP | VXLAN or GENEVE | Ethernet | IP | TCP ...
//!   IP | GRE | [Ethernet |] IP | TCP ...
//!   IP | IP | TCP ...
//! ```
//!
//! Each segment gets the same headers outside, but for lengths, IPv4's identification, and checksums where there are some
//! (UDP's, GRE's). Not handled: a tunnel in a tunnel, and of those that are not named options of IPv6 inside, GRE with
//! sequence numbers.

use crate::checksum::Sum;

use super::layout::{Layout, TCP, UDP, put, set_ipv4_checksum, word};
use super::vnet::UdpTunnel;

/// The outer headers of a super-packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside {
    layout: Layout,
    /// Where the packet inside begins, in bytes from the outer IP header.
    pub(super) at: usize,
    /// Each segment gets a checksum outside.
    has_checksum: bool,
}

impl Outside {
    /// The headers outside that the kernel names, and the layout of the packet inside, whose transport header begins
    /// at a place. `None` where these are not a UDP header and one IP header.
    pub(super) fn named(
        packet: &[u8],
        layout: Layout,
        tunnel: UdpTunnel,
        transport_at: usize,
    ) -> Option<(Self, Layout)> {
        let (udp_at, at) = (usize::from(tunnel.udp_at), usize::from(tunnel.inside_at));
        let is_udp = layout.protocol == UDP && layout.is_v4 == tunnel.is_v4 && !layout.is_fragment;
        if !is_udp || layout.ip_len != udp_at || at < udp_at + UDP_LEN {
            return None;
        }
        let inside = Layout::of(packet.get(at..)?)?;
        let has_checksum = tunnel.has_checksum || word(packet, udp_at + 6) != 0;
        let is_whole = at + inside.ip_len == transport_at;
        is_whole.then_some((Self { layout, at, has_checksum }, inside))
    }

    /// The headers outside of a packet whose transport header begins at a place, and the layout of the packet inside.
    /// `None` for tunnels that are not known.
    pub(super) fn of(packet: &[u8], layout: Layout, transport_at: usize) -> Option<(Self, Layout)> {
        if layout.is_fragment {
            return None;
        }
        let v4 = (5..16).map(|words| words * 4).map(|ip_len| (true, ip_len));
        let found = v4.chain([(false, 40)]).find_map(|(is_v4, ip_len)| {
            let at = transport_at.checked_sub(ip_len)?;
            let inside = packet.get(at..)?;
            let is_ip = match is_v4 {
                true => {
                    usize::from(*inside.first()?) == 0x40 | (ip_len / 4)
                        && usize::from(word(inside, 2)) == inside.len()
                }
                false => {
                    inside.first()? >> 4 == 6
                        && usize::from(word(inside, 4)) + ip_len == inside.len()
                }
            };
            let found = Layout::of(inside).filter(|_| is_ip)?;
            let is_whole = found.ip_len == ip_len && matches!(found.protocol, TCP | UDP);
            let between = packet.get(layout.ip_len..at)?;
            (is_whole && is_known(layout.protocol, between)).then_some((at, found))
        });
        let has_checksum = match layout.protocol {
            UDP => word(packet, layout.ip_len + 6) != 0,
            GRE => word(packet, layout.ip_len) & GRE_CHECKSUM != 0,
            _ => false,
        };
        found.map(|(at, inside)| (Self { layout, at, has_checksum }, inside))
    }

    /// Completes the outer headers of segment number `made`, whose inside is complete.
    pub(super) fn complete(&self, segment: &mut [u8], made: u16) {
        let (len, ip_len) = (segment.len(), self.layout.ip_len);
        if self.layout.is_v4 {
            put(segment, 2, len as u16);
            put(segment, 4, word(segment, 4).wrapping_add(made));
            if let Some(header) = segment.get_mut(..ip_len) {
                set_ipv4_checksum(header);
            }
        } else {
            put(segment, 4, (len - 40) as u16);
        }
        let is_udp = self.layout.protocol == UDP;
        if is_udp {
            put(segment, ip_len + 4, (len - ip_len) as u16);
        }
        if !self.has_checksum {
            return;
        }
        let (sum_at, sum) = match is_udp {
            true => (ip_len + 6, self.layout.pseudo_header(segment, len - ip_len)),
            false => (ip_len + 4, Sum::default()),
        };
        put(segment, sum_at, 0);
        let checksum = sum.bytes(segment.get(ip_len..).unwrap_or(&[])).checksum();
        put(segment, sum_at, if is_udp && checksum == 0 { 0xffff } else { checksum });
    }
}

/// True if a tunnel of this protocol has such headers between the two IP headers. None is as long as those of another
/// tunnel inside.
fn is_known(protocol: u8, between: &[u8]) -> bool {
    let (headers, has_frame) = match protocol {
        IPV4 | IPV6 => (0, false),
        GRE => {
            let flags = word(between, 0);
            if flags & !(GRE_CHECKSUM | GRE_KEY) != 0 {
                return false;
            }
            let fields = (flags & (GRE_CHECKSUM | GRE_KEY)).count_ones() as usize;
            (4 + fields * 4, word(between, 2) == ETHERNET)
        }
        UDP => return headers_len(between) == Some(between.len()),
        _ => return false,
    };
    between.len() == headers + if has_frame { frame_len(between, headers) } else { 0 }
}

/// Length of the headers of a tunnel from UDP's on, up to the inner IP header; `None` if these are not VXLAN's or GENEVE's.
pub(super) fn headers_len(udp: &[u8]) -> Option<usize> {
    match *udp.get(UDP_LEN..)?.first_chunk::<4>()? {
        // VXLAN's reserved bytes, where GENEVE names what is inside. With a group policy they hold the group.
        [VXLAN_HAS_VNI, 0, 0, 0] | [VXLAN_HAS_GROUP, ..] => Some(16 + frame_len(udp, 16)),
        [version_and_options @ 0..=0x3f, flags, ..] if flags & GENEVE_CONTROL == 0 => {
            let headers = 16 + usize::from(version_and_options) * 4;
            match word(udp, 10) {
                ETHERNET => Some(headers + frame_len(udp, headers)),
                IPV4_TYPE | IPV6_TYPE => Some(headers),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Length of the Ethernet header at a place, with one tag or none.
fn frame_len(bytes: &[u8], at: usize) -> usize {
    if matches!(word(bytes, at + 12), 0x8100 | 0x88a8) { 18 } else { 14 }
}

const UDP_LEN: usize = 8;
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;
/// EtherType of transparent Ethernet bridging, in GRE and GENEVE.
const ETHERNET: u16 = 0x6558;
const IPV4_TYPE: u16 = 0x0800;
const IPV6_TYPE: u16 = 0x86dd;
/// GENEVE's bit of packets that are for the far end itself (RFC 8926 §3.4).
const GENEVE_CONTROL: u8 = 0x80;
/// First byte of VXLAN's header, without and with a group policy.
const VXLAN_HAS_VNI: u8 = 0x08;
const VXLAN_HAS_GROUP: u8 = 0x88;

#[cfg(test)]
#[path = "inside_tests.rs"]
mod tests;
