//! The record that a packet's headers are parsed into, once.

use core::net::IpAddr;

use crate::checksum;
use crate::error::ParseError;
use crate::fragment::Fragment;
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::protocol;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// A packet's IP and upper-layer headers, parsed and checked once; later stages read this.
///
/// Offsets are in bytes from the first byte of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address of the IP header.
    pub src: IpAddr,
    /// Destination address of the IP header.
    pub dst: IpAddr,
    /// Upper-layer protocol, after IPv6 extension headers. For a later fragment, the one that the
    /// fragment header names.
    pub protocol: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The whole DS field and ECN byte (`tos`, traffic class).
    pub traffic_class: u8,
    /// IPv4's DF; `true` for IPv6, whose routers never fragment.
    pub dont_fragment: bool,
    /// Place among fragments; see [`Fragment`].
    pub fragment: Fragment,
    /// Length of the IP header with options or extension headers: where the upper layer begins.
    pub header_len: u16,
    /// The packet's length by its IP header (the frame may be longer: Ethernet padding).
    pub total_len: u16,
    /// Source port; ICMP type in host byte order for ICMP and ICMPv6 (as Linux's selectors have
    /// it); 0 where there is none, and for later fragments.
    pub src_port: u16,
    /// Destination port; ICMP code for ICMP and ICMPv6.
    pub dst_port: u16,
}

impl Headers {
    /// Headers of a packet of the other direction: addresses and ports swapped. ICMP's type and
    /// code stay.
    #[must_use]
    pub const fn reversed(self) -> Headers {
        let Headers { src, dst, src_port, dst_port, .. } = self;
        let (src_port, dst_port) = match protocol::is_icmp(self.protocol) {
            true => (src_port, dst_port),
            false => (dst_port, src_port),
        };
        Headers { src: dst, dst: src, src_port, dst_port, ..self }
    }

    /// The IP version.
    pub const fn family(&self) -> Family {
        match self.src {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

/// Parses and checks the IP packet that `packet` begins with, and the beginning of its upper
/// layer. Bytes after the packet's end by its own header (Ethernet padding) are allowed.
///
/// Checked: version; header and total length; IPv4's header checksum; that no fragment ends
/// beyond 65535 bytes; that the IPv6 extension headers are complete, at most
/// [`MAX_EXTENSIONS`](crate::ipv6::MAX_EXTENSIONS) and in a possible order; that ports, or ICMP
/// type and code, are there, also in a first fragment (RFC 1858 §3, RFC 7112 §5). Not checked:
/// the upper layer's own lengths and checksum, and that the version is the one that the frame's
/// EtherType promised.
///
/// An IPv6 atomic fragment (RFC 6946) is a whole packet. AH is the protocol itself, in IPv6
/// too, as ESP is: what is behind it counts once it has been checked.
///
/// # Errors
/// The first check that fails; [`DropReason`](outcome::DropReason) has the counter for it.
#[inline]
pub fn parse_ip(packet: &[u8]) -> Result<Headers, ParseError> {
    match packet.first() {
        // Version 4 without options; version 6.
        Some(0x45) => plain_v4(packet),
        Some(0x60..=0x6f) => plain_v6(packet),
        _ => None,
    }
    .map_or_else(|| parse_any(packet), Ok)
}

/// Parses the packet that an ICMP error quotes: as [`parse_ip`], but it may be cut anywhere behind its ports,
/// and its header's checksum is that of another hop.
///
/// # Errors
/// As [`parse_ip`].
pub fn parse_quoted_ip(quoted: &[u8]) -> Result<Headers, ParseError> {
    match quoted.first() {
        Some(first) if first >> 4 == 4 => headers_v4(&Ipv4Header::parse_quoted(quoted)?),
        Some(first) if first >> 4 == 6 => headers_v6(&Ipv6Header::parse_quoted(quoted)?),
        Some(first) => Err(ParseError::Version(first >> 4)),
        None => Err(ParseError::Truncated),
    }
}

/// Parses the common packet: IPv4 without options, no fragment, with TCP, UDP or ESP. `None` for
/// all others and wherever anything is wrong; [`parse_any`] says what.
#[inline(always)]
fn plain_v4(packet: &[u8]) -> Option<Headers> {
    let header = packet.first_chunk::<{ ipv4::MIN_HEADER_LEN }>()?;
    let number = header[ipv4::field::PROTOCOL];
    let total_len = u16::from_be_bytes([header[2], header[3]]);
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let (src_port, dst_port) = plain_ports(packet, ipv4::MIN_HEADER_LEN, total_len, number)?;
    if fragment & !ipv4::DONT_FRAGMENT & !RESERVED_FLAG != 0 || !checksum::is_valid(header) {
        return None;
    }
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    Some(Headers {
        src: IpAddr::V4([s0, s1, s2, s3].into()),
        dst: IpAddr::V4([d0, d1, d2, d3].into()),
        protocol: number,
        ttl: header[ipv4::field::TTL],
        traffic_class: header[ipv4::field::TRAFFIC_CLASS],
        dont_fragment: fragment & ipv4::DONT_FRAGMENT != 0,
        fragment: Fragment::Whole,
        header_len: ipv4::MIN_HEADER_LEN as u16,
        total_len,
        src_port,
        dst_port,
    })
}

/// The bit beside DF and MF; nobody looks at it (RFC 791 §3.1 has it zero).
const RESERVED_FLAG: u16 = 0x8000;

/// Parses IPv6 without extension headers, as [`plain_v4`] does IPv4.
#[inline(always)]
fn plain_v6(packet: &[u8]) -> Option<Headers> {
    let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let number = header[ipv6::field::NEXT_HEADER];
    let payload_len = u16::from_be_bytes([header[4], header[5]]);
    let total_len = payload_len.checked_add(ipv6::HEADER_LEN as u16)?;
    let (src_port, dst_port) = plain_ports(packet, ipv6::HEADER_LEN, total_len, number)?;
    let (_, addresses) = header.split_first_chunk::<{ ipv6::field::SRC }>()?;
    let (src, dst) = addresses.split_first_chunk::<16>()?;
    Some(Headers {
        src: IpAddr::V6((*src).into()),
        dst: IpAddr::V6((*dst.first_chunk::<16>()?).into()),
        protocol: number,
        ttl: header[ipv6::field::HOP_LIMIT],
        traffic_class: header[0] << 4 | header[1] >> 4,
        dont_fragment: true,
        fragment: Fragment::Whole,
        header_len: ipv6::HEADER_LEN as u16,
        total_len,
        src_port,
        dst_port,
    })
}

/// The ports of TCP and UDP behind an IP header of this length, zeros for ESP. `None` for other
/// protocols, where the packet is shorter than `total_len`, and where that has no room for ports.
#[inline(always)]
fn plain_ports(packet: &[u8], header_len: usize, total_len: u16, number: u8) -> Option<(u16, u16)> {
    let ports = packet.get(header_len..header_len + 4)?;
    if usize::from(total_len) < header_len + 4 || usize::from(total_len) > packet.len() {
        return None;
    }
    match (number, ports) {
        (protocol::TCP | protocol::UDP, [a, b, c, d]) => {
            Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
        }
        (protocol::ESP, _) => Some((0, 0)),
        _ => None,
    }
}

/// [`parse_ip`] for every packet.
#[inline(never)]
fn parse_any(packet: &[u8]) -> Result<Headers, ParseError> {
    match packet.first() {
        Some(first) if first >> 4 == 4 => headers_v4(&Ipv4Header::parse(packet)?),
        Some(first) if first >> 4 == 6 => headers_v6(&Ipv6Header::parse(packet)?),
        Some(first) => Err(ParseError::Version(first >> 4)),
        None => Err(ParseError::Truncated),
    }
}

fn headers_v4(header: &Ipv4Header<'_>) -> Result<Headers, ParseError> {
    if header.fragment_offset() + usize::from(header.total_len()) > usize::from(u16::MAX) {
        return Err(ParseError::FragmentBounds);
    }
    let fragment = match (header.fragment_offset(), header.more_fragments()) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    };
    let (src_port, dst_port) = ports(header.protocol(), fragment, header.payload())?;
    Ok(Headers {
        src: IpAddr::V4(header.src()),
        dst: IpAddr::V4(header.dst()),
        protocol: header.protocol(),
        ttl: header.ttl(),
        traffic_class: header.traffic_class(),
        dont_fragment: header.dont_fragment(),
        fragment,
        header_len: header.header_len(),
        total_len: header.total_len(),
        src_port,
        dst_port,
    })
}

fn headers_v6(header: &Ipv6Header<'_>) -> Result<Headers, ParseError> {
    let extensions = header.extensions()?;
    let fragment = extensions.fragment.map_or(Fragment::Whole, |f| f.kind());
    let upper_at = usize::from(extensions.header_len) - ipv6::HEADER_LEN;
    let upper = header.payload().get(upper_at..).unwrap_or_default();
    let (src_port, dst_port) = ports(extensions.protocol, fragment, upper)?;
    Ok(Headers {
        src: IpAddr::V6(header.src()),
        dst: IpAddr::V6(header.dst()),
        protocol: extensions.protocol,
        ttl: header.hop_limit(),
        traffic_class: header.traffic_class(),
        dont_fragment: true,
        fragment,
        header_len: extensions.header_len,
        // A quoted header may claim any length.
        total_len: header.payload_len().saturating_add(ipv6::HEADER_LEN as u16),
        src_port,
        dst_port,
    })
}

/// Ports, or ICMP type and code, as [`Headers`] has them.
fn ports(number: u8, fragment: Fragment, upper: &[u8]) -> Result<(u16, u16), ParseError> {
    if fragment == Fragment::Later {
        return Ok((0, 0));
    }
    if protocol::has_ports(number) {
        let [a, b, c, d] = upper.first_chunk().ok_or(ParseError::UpperTruncated(number))?;
        return Ok((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
    }
    if protocol::is_icmp(number) {
        let [kind, code] = upper.first_chunk().ok_or(ParseError::UpperTruncated(number))?;
        return Ok((u16::from(*kind), u16::from(*code)));
    }
    Ok((0, 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Plain packets, and such as differ from plain ones in one field or a few.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let change = (0usize..48, prop_oneof![any::<u8>(), (0u32..8).prop_map(|bit| 1 << bit)]);
        let number = prop::sample::select(vec![6u8, 17, 50, 1, 58, 0, 44, 132, 59]);
        (
            any::<bool>(),
            number,
            prop::collection::vec(any::<u8>(), 0..60),
            prop::collection::vec(change, 0..3),
            any::<bool>(),
            0u8..4,
            any::<[u8; 32]>(),
        )
            .prop_map(|(is_v4, number, payload, changes, is_summed, more, addresses)| {
                let mut packet = if is_v4 {
                    let [len, low] = (20 + payload.len() as u16).to_be_bytes();
                    let start = [0x45, more, len, low, 0, 7, 0x40, 0, 9, number, 0, 0];
                    [&start[..], &addresses[..8], &payload].concat()
                } else {
                    let [len, low] = (payload.len() as u16).to_be_bytes();
                    let start = [0x60 | more, 0, 1, 2, len, low, number, 9];
                    [&start[..], &addresses, &payload].concat()
                };
                for (at, bits) in changes {
                    if let Some(byte) = packet.get_mut(at) {
                        *byte ^= bits;
                    }
                }
                if is_v4 && is_summed {
                    ipv4::fill_checksum(&mut packet);
                }
                // Now and then cut, now and then with Ethernet padding.
                match more {
                    1 => packet.truncate(packet.len().saturating_sub(addresses[0].into())),
                    2 => packet.extend([0; 6]),
                    _ => {}
                }
                packet
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// The short way and the long one say the same of every packet.
        #[test]
        fn plain_packets_are_parsed_as_any(packet in packets()) {
            prop_assert_eq!(parse_ip(&packet), parse_any(&packet));
        }

        #[test]
        fn noise_is_parsed_as_any(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            is_summed: bool,
        ) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            if is_summed {
                ipv4::fill_checksum(&mut bytes);
            }
            prop_assert_eq!(parse_ip(&bytes), parse_any(&bytes));
        }

        /// Of a packet that is cut behind its ports all is known but that it was cut.
        #[test]
        fn what_is_quoted_is_parsed_as_it_was(packet in packets(), kept in 0usize..40) {
            if let Ok(h) = parse_ip(&packet) {
                let cut = packet.len().min(usize::from(h.header_len) + 4 + kept);
                prop_assert_eq!(parse_quoted_ip(&packet[..cut]), Ok(h));
                let answer = h.reversed();
                prop_assert_eq!((answer.src, answer.dst), (h.dst, h.src));
                prop_assert_eq!(answer.reversed(), h);
            }
            let _ = parse_quoted_ip(&packet[..packet.len().min(kept)]);
        }
    }

    /// The differential tests would say nothing if no packet went the short way.
    #[test]
    fn ordinary_packets_go_the_short_way() {
        let fields = ipv4::Ipv4Fields {
            traffic_class: 0xb8,
            total_len: 28,
            ident: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: protocol::UDP,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
        };
        for number in [protocol::TCP, protocol::UDP, protocol::ESP] {
            let v4 = ipv4::Ipv4Fields { protocol: number, ..fields }.to_bytes();
            assert!(plain_v4(&[&v4[..], &[9; 8]].concat()).is_some());
            let v6 = ipv6::Ipv6Fields {
                traffic_class: 0xb8,
                flow_label: 0xabcde,
                payload_len: 8,
                next_header: number,
                hop_limit: 64,
                src: 1u128.into(),
                dst: 2u128.into(),
            };
            assert!(plain_v6(&[&v6.to_bytes()[..], &[9; 8]].concat()).is_some());
        }
    }
}
