//! ICMP and ICMPv6 errors about packets that cannot go on, and when none may be sent.
//!
//! RFC 792, RFC 1122 §3.2.2, RFC 1191 §4, RFC 1812 §4.3; RFC 4443 §2.4 and §3.
//!
//! An error is built only about packets that were not protected, or whose sender is on the
//! protected side: whether the answer itself has to be encrypted is for the policy to say, like
//! for any other packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::icmp::{self, IcmpFields};
use wire::ipv4::{self, Ipv4Fields};
use wire::ipv6::{self, Ipv6Fields};
use wire::{Fragment, Headers, fill_l4_checksum, icmpv4, icmpv6, parse_ip, protocol};

/// The longest ICMP error over IPv4, in bytes (RFC 1812 §4.3.2.3).
pub const MAX_LEN_V4: usize = 576;
/// The longest ICMPv6 error, in bytes (RFC 4443 §2.4 (c)).
pub const MAX_LEN_V6: usize = ipv6::MIN_MTU as usize;
/// A buffer of this length holds every error.
pub const MAX_LEN: usize = MAX_LEN_V6;

/// Event that the error reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpCause {
    /// The packet does not fit and must not be fragmented: "fragmentation needed" or "packet too
    /// big".
    TooBig {
        /// The largest IP packet that would have fitted, in bytes. What is told is at least 68
        /// for IPv4 (RFC 1191 §3) and 1280 for IPv6 (RFC 8200 §5).
        mtu: u32,
    },
    /// The TTL or hop limit ran out.
    TimeExceeded,
    /// There is no route: "net unreachable" or "no route to destination".
    NoRoute,
    /// The last hop does not answer: "host unreachable" or "address unreachable".
    HostUnreachable,
    /// A rule or policy forbids it: "administratively prohibited".
    Prohibited,
    /// A field is wrong: "parameter problem". Of IPv6 alone.
    Parameter {
        /// ICMPv6's code (RFC 4443 §3.4).
        code: u8,
        /// Where the field is, in bytes from the first one of the packet.
        pointer: u32,
    },
}

/// Why no error may be sent. Each is a rule of RFC 1122 §3.2.2, RFC 1812 §4.3.2.7 or RFC 4443
/// §2.4 (e), but the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Silence {
    /// The packet is itself an ICMP error or redirect, or may be one.
    AboutError,
    /// The packet is a fragment other than the first.
    LaterFragment,
    /// The packet was sent to a group of hosts.
    ToGroup,
    /// The packet's source is not one host.
    Source,
    /// The sender's own address is missing or of the other family.
    NoAddress,
    /// The buffer is too short for the headers and any quotation.
    NoRoom,
    /// The packet is not the one that its headers were parsed from.
    Malformed,
}

/// Sender of the error: this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The source address: by RFC 1812 §4.3.2.4 one of the interface that the error leaves by.
    pub src: IpAddr,
    /// IPv4's identification for the error: a counter's next value.
    pub ident: u16,
}

/// Hop limit of errors, as Linux sends them.
const TTL: u8 = 64;
/// Traffic class of errors over IPv4: precedence "internetwork control" (RFC 1812 §4.3.2.5).
const PRECEDENCE: u8 = 0xc0;

/// Writes the error about a packet to the buffer's beginning and returns its length.
///
/// `packet` begins with the offending packet, as it came (TTL not yet decremented), and `h` are
/// its headers. `link_group` says that its frame was for a group of stations. The error quotes as
/// much of the packet as the limits and the buffer allow; a buffer of [`MAX_LEN`] bytes is enough.
///
/// # Errors
/// [`Silence`]: nothing may be sent. The buffer's content does not matter then.
pub fn build(
    cause: IcmpCause,
    packet: &[u8],
    h: &Headers,
    link_group: bool,
    reporter: Reporter,
    out: &mut [u8],
) -> Result<usize, Silence> {
    let quoted = packet.get(..usize::from(h.total_len)).ok_or(Silence::Malformed)?;
    match (h.src, h.dst, reporter.src) {
        (IpAddr::V4(src), IpAddr::V4(dst), IpAddr::V4(from)) => {
            check_v4(h, src, dst, link_group)?;
            if from.is_unspecified() || from.is_multicast() || from.is_broadcast() {
                return Err(Silence::NoAddress);
            }
            build_v4(cause, quoted, src, from, reporter.ident, out)
        }
        (IpAddr::V6(src), IpAddr::V6(dst), IpAddr::V6(from)) => {
            check_v6(cause, h, src, dst, link_group)?;
            if from.is_unspecified() || from.is_multicast() {
                return Err(Silence::NoAddress);
            }
            build_v6(cause, quoted, src, from, out)
        }
        _ => Err(Silence::NoAddress),
    }
}

fn check_v4(h: &Headers, src: Ipv4Addr, dst: Ipv4Addr, link_group: bool) -> Result<(), Silence> {
    if h.fragment == Fragment::Later {
        return Err(Silence::LaterFragment);
    }
    if link_group || dst.is_multicast() || dst.is_broadcast() {
        return Err(Silence::ToGroup);
    }
    // This network, loopback, and classes D and E with the limited broadcast name no host.
    let [first, ..] = src.octets();
    if first == 0 || first == 127 || first >= 224 {
        return Err(Silence::Source);
    }
    let kind = h.src_port as u8; // ICMP types have 8 bits
    if h.protocol == protocol::ICMP && icmpv4::is_error(kind) {
        return Err(Silence::AboutError);
    }
    Ok(())
}

fn check_v6(
    cause: IcmpCause,
    h: &Headers,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    link_group: bool,
) -> Result<(), Silence> {
    // Packet Too Big goes out for multicast too: path MTU discovery needs it (§2.4 (e.3)).
    if (link_group || dst.is_multicast()) && !matches!(cause, IcmpCause::TooBig { .. }) {
        return Err(Silence::ToGroup);
    }
    if src.is_unspecified() || src.is_multicast() || src.is_loopback() {
        return Err(Silence::Source);
    }
    if h.fragment == Fragment::Later {
        // Its type cannot be seen. Where extension headers follow, nor can its protocol.
        return match h.protocol {
            protocol::ICMPV6 => Err(Silence::AboutError),
            number if ipv6::is_extension(number) => Err(Silence::AboutError),
            _ => Ok(()),
        };
    }
    let kind = h.src_port as u8;
    if h.protocol == protocol::ICMPV6 && (icmpv6::is_error(kind) || kind == icmpv6::kind::REDIRECT)
    {
        return Err(Silence::AboutError);
    }
    Ok(())
}

fn build_v4(
    cause: IcmpCause,
    packet: &[u8],
    to: Ipv4Addr,
    from: Ipv4Addr,
    ident: u16,
    out: &mut [u8],
) -> Result<usize, Silence> {
    use icmpv4::{kind, unreachable};
    let (kind, code, rest) = match cause {
        IcmpCause::TooBig { mtu } => (
            kind::DESTINATION_UNREACHABLE,
            unreachable::FRAGMENTATION_NEEDED,
            mtu.clamp(68, u16::MAX.into()),
        ),
        IcmpCause::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0),
        IcmpCause::NoRoute => (kind::DESTINATION_UNREACHABLE, unreachable::NET, 0),
        IcmpCause::HostUnreachable => (kind::DESTINATION_UNREACHABLE, unreachable::HOST, 0),
        IcmpCause::Prohibited => (kind::DESTINATION_UNREACHABLE, unreachable::ADMINISTRATIVE, 0),
        IcmpCause::Parameter { .. } => return Err(Silence::Malformed),
    };
    let headers = ipv4::MIN_HEADER_LEN + icmp::HEADER_LEN;
    let len = (headers + packet.len()).min(MAX_LEN_V4).min(out.len());
    let out = out.get_mut(..len).ok_or(Silence::NoRoom)?;
    let header = Ipv4Fields {
        traffic_class: PRECEDENCE,
        total_len: len as u16, // at most MAX_LEN_V4
        ident,
        dont_fragment: false,
        ttl: TTL,
        protocol: protocol::ICMP,
        src: from,
        dst: to,
    };
    let message = IcmpFields { kind, code, rest };
    assemble(out, &header.to_bytes(), &message.to_bytes(), packet)
}

fn build_v6(
    cause: IcmpCause,
    packet: &[u8],
    to: Ipv6Addr,
    from: Ipv6Addr,
    out: &mut [u8],
) -> Result<usize, Silence> {
    use icmpv6::{kind, unreachable};
    let (kind, code, rest) = match cause {
        IcmpCause::TooBig { mtu } => (kind::PACKET_TOO_BIG, 0, mtu.max(ipv6::MIN_MTU.into())),
        IcmpCause::TimeExceeded => (kind::TIME_EXCEEDED, 0, 0),
        IcmpCause::NoRoute => (kind::DESTINATION_UNREACHABLE, unreachable::NO_ROUTE, 0),
        IcmpCause::HostUnreachable => (kind::DESTINATION_UNREACHABLE, unreachable::ADDRESS, 0),
        IcmpCause::Prohibited => (kind::DESTINATION_UNREACHABLE, unreachable::ADMINISTRATIVE, 0),
        IcmpCause::Parameter { code, pointer } => (kind::PARAMETER_PROBLEM, code, pointer),
    };
    let headers = ipv6::HEADER_LEN + icmp::HEADER_LEN;
    let len = (headers + packet.len()).min(MAX_LEN_V6).min(out.len());
    let out = out.get_mut(..len).ok_or(Silence::NoRoom)?;
    let header = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_len: len.saturating_sub(ipv6::HEADER_LEN) as u16, // at most MAX_LEN_V6
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        src: from,
        dst: to,
    };
    let message = IcmpFields { kind, code, rest };
    assemble(out, &header.to_bytes(), &message.to_bytes(), packet)
}

/// Puts headers and as much of the quotation as fits into the buffer, and the checksum.
fn assemble(
    out: &mut [u8],
    header: &[u8],
    message: &[u8],
    packet: &[u8],
) -> Result<usize, Silence> {
    // Less than the quoted packet's own IP header and 8 bytes more is of no use to anybody
    // (RFC 792); what is shorter than that is quoted whole.
    let quote_at = header.len() + message.len();
    let (ip, rest) = out.split_at_mut_checked(header.len()).ok_or(Silence::NoRoom)?;
    let (icmp, quote) = rest.split_at_mut_checked(message.len()).ok_or(Silence::NoRoom)?;
    if quote.len() < packet.len().min(header.len() + 8) {
        return Err(Silence::NoRoom);
    }
    ip.copy_from_slice(header);
    icmp.copy_from_slice(message);
    let len = quote.len();
    quote.copy_from_slice(packet.get(..len).ok_or(Silence::Malformed)?);
    let h = parse_ip(out).map_err(|_| Silence::Malformed)?;
    if !fill_l4_checksum(out, &h) {
        return Err(Silence::Malformed);
    }
    Ok(quote_at + len)
}
