//! The record that a packet's headers are parsed into, once.

use core::net::IpAddr;

use crate::error::ParseError;
use crate::ipv4::Ipv4Header;
use crate::ipv6::{self, Ipv6Header};
use crate::protocol;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Whether and how a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole packet.
    Whole,
    /// The first fragment: the upper-layer header is there.
    First,
    /// A later fragment: no upper-layer header.
    Later,
}

/// A packet's IP and upper-layer headers, parsed and checked once; later stages read this.
///
/// Offsets are in bytes from the first byte of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
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
    /// Fragmentation.
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
/// An IPv6 atomic fragment (RFC 6946) is a whole packet. AH is stepped over in IPv6, where it is
/// an extension header, and is the protocol itself in IPv4.
///
/// # Errors
/// The first check that fails; [`DropReason`](outcome::DropReason) has the counter for it.
pub fn parse_ip(packet: &[u8]) -> Result<Headers, ParseError> {
    match packet.first() {
        Some(first) if first >> 4 == 4 => parse_v4(packet),
        Some(first) if first >> 4 == 6 => parse_v6(packet),
        Some(first) => Err(ParseError::Version(first >> 4)),
        None => Err(ParseError::Truncated),
    }
}

fn parse_v4(packet: &[u8]) -> Result<Headers, ParseError> {
    let header = Ipv4Header::parse(packet)?;
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

fn parse_v6(packet: &[u8]) -> Result<Headers, ParseError> {
    let header = Ipv6Header::parse(packet)?;
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
        total_len: header.payload_len() + ipv6::HEADER_LEN as u16,
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
