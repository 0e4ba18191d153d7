//! Packets that a worker makes: IP, UDP and ICMP headers around probes, reflections and BFD.

use core::net::IpAddr;

use io::Packet;
use wire::icmp::IcmpFields;
use wire::ipv4::{self, Ipv4Fields};
use wire::ipv6::{self, Ipv6Fields};
use wire::udp::UdpFields;
use wire::{
    Fragment, Headers, Span, fill_l4_checksum, icmp, icmpv4, icmpv6, parse_ip, protocol, udp,
};

use crate::model::Origin;
use crate::out::Out;
use crate::view::View;

/// TTL of those that are measured by: the far end sees how many hops there were (RFC 8762 §4.3.1), and that there was none
/// (RFC 5881 §5).
pub(crate) const TTL: u8 = 255;

/// A packet that was made here, and how it leaves.
pub(crate) type Crafted = (Packet, Headers, Origin);

/// Ends of a packet, and its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) dscp: u8,
    pub(crate) ttl: u8,
}

/// Header above IP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upper {
    /// UDP, with source and destination port.
    Udp(u16, u16),
    /// An ICMP echo request, with identifier and sequence number.
    Echo(u16, u16),
}

impl Upper {
    const fn header_len(self) -> usize {
        match self {
            Upper::Udp(..) => udp::HEADER_LEN,
            Upper::Echo(..) => icmp::HEADER_LEN,
        }
    }

    const fn protocol(self, is_v6: bool) -> u8 {
        match self {
            Upper::Udp(..) => protocol::UDP,
            Upper::Echo(..) if is_v6 => protocol::ICMPV6,
            Upper::Echo(..) => protocol::ICMP,
        }
    }
}

/// Headers of a packet that is to be made, as policies see them.
pub(crate) fn headers(ends: Outside, upper: Upper, payload_len: usize) -> Headers {
    let Outside { src, dst, dscp, ttl } = ends;
    let at = headers_len(dst, upper);
    let (src_port, dst_port) = match upper {
        Upper::Udp(src_port, dst_port) => (src_port, dst_port),
        // Type and code stand for ports.
        Upper::Echo(..) if dst.is_ipv6() => (icmpv6::kind::ECHO_REQUEST.into(), 0),
        Upper::Echo(..) => (icmpv4::kind::ECHO_REQUEST.into(), 0),
    };
    Headers {
        src,
        dst,
        protocol: upper.protocol(dst.is_ipv6()),
        ttl,
        traffic_class: dscp << 2,
        dont_fragment: true,
        fragment: Fragment::Whole,
        // Two headers without options.
        header_len: (at - upper.header_len()) as u16,
        total_len: u16::try_from(at + payload_len).unwrap_or(u16::MAX),
        src_port,
        dst_port,
    }
}

/// Length of the headers in front of a payload, in bytes.
const fn headers_len(dst: IpAddr, upper: Upper) -> usize {
    let ip = if dst.is_ipv6() { ipv6::HEADER_LEN } else { ipv4::MIN_HEADER_LEN };
    ip + upper.header_len()
}

/// Writes the headers in front of a payload that stands in the buffer already, and the checksums. `None` if the addresses
/// are of two families, or there is no room.
fn finish(packet: &mut [u8], ends: Outside, upper: Upper) -> Option<Headers> {
    let Outside { src, dst, dscp, ttl } = ends;
    let traffic_class = dscp << 2;
    let number = upper.protocol(dst.is_ipv6());
    let at = headers_len(dst, upper) - upper.header_len();
    let upper_len = u16::try_from(packet.len().checked_sub(at)?).ok()?;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Fields {
            traffic_class,
            total_len: u16::try_from(packet.len()).ok()?,
            ident: 0,
            dont_fragment: true,
            ttl,
            protocol: number,
            src,
            dst,
        }
        .emit(packet)
        .ok()?,
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Fields {
            traffic_class,
            flow_label: 0,
            payload_len: upper_len,
            next_header: number,
            hop_limit: ttl,
            src,
            dst,
        }
        .emit(packet)
        .ok()?,
        _ => return None,
    }
    let above = packet.get_mut(at..)?;
    match upper {
        Upper::Udp(src_port, dst_port) => {
            UdpFields { src_port, dst_port, len: upper_len, checksum: 0 }.emit(above).ok()?;
        }
        Upper::Echo(ident, seq) => {
            let kind = match dst {
                IpAddr::V4(_) => icmpv4::kind::ECHO_REQUEST,
                IpAddr::V6(_) => icmpv6::kind::ECHO_REQUEST,
            };
            let rest = u32::from(ident) << 16 | u32::from(seq);
            IcmpFields { kind, code: 0, rest }.emit(above).ok()?;
        }
    }
    let h = parse_ip(packet).ok()?;
    fill_l4_checksum(packet, &h).then_some(h)
}

/// A packet in a buffer of its own, with a payload. `None` if there is no buffer, or the ends are of two families.
pub(crate) fn made(
    out: &mut Out,
    ends: Outside,
    upper: Upper,
    payload: &[u8],
) -> Option<(Packet, Headers)> {
    let at = headers_len(ends.dst, upper);
    let span = Span { start: io::HEADROOM, len: at + payload.len() };
    let mut packet = Packet { frame: out.pool.take()?, span };
    let room = packet.frame.bytes_mut().get_mut(io::HEADROOM..).unwrap_or_default();
    let h = room.get_mut(..span.len).and_then(|room| {
        room.get_mut(at..)?.copy_from_slice(payload);
        finish(room, ends, upper)
    });
    match h {
        Some(h) => {
            out.counters.generated.add(1);
            Some((packet, h))
        }
        None => {
            out.pool.put_packet(packet);
            None
        }
    }
}

/// How packets leave by a tunnel interface, or, if it is 0, as policies and routes lead; not in clear if `protected`.
/// `None` for an interface that is none of culvert's.
pub(crate) fn way_out(view: &View, tunnel: u32, protected: bool) -> Option<Origin> {
    match tunnel {
        0 => Some(Origin::Worker { protected }),
        tunnel => view.origin_of_linux(tunnel, 0),
    }
}

#[cfg(test)]
mod tests {
    use wire::{L4Checksum, verify_l4_checksum};

    use super::*;

    fn addr(is_v6: bool, last: u16) -> IpAddr {
        match is_v6 {
            true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last as u8]),
        }
    }

    #[test]
    fn headers_are_right() {
        for (is_v6, upper) in [
            (false, Upper::Udp(49152, 862)),
            (true, Upper::Udp(49152, 862)),
            (false, Upper::Echo(7, 9)),
            (true, Upper::Echo(7, 9)),
        ] {
            let ends = Outside { src: addr(is_v6, 1), dst: addr(is_v6, 2), dscp: 46, ttl: TTL };
            let mut packet = vec![5; headers_len(ends.dst, upper) + 44];
            let h = finish(&mut packet, ends, upper).expect("room");
            assert_eq!((h.src, h.dst, h.ttl), (ends.src, ends.dst, 255));
            assert_eq!((h.traffic_class, usize::from(h.total_len)), (46 << 2, packet.len()));
            assert_eq!(headers(ends, upper, 44), h);
            assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Valid);
            assert_eq!(packet[packet.len() - 44..], [5; 44]);
        }
        let mixed = Outside { src: addr(false, 1), dst: addr(true, 2), dscp: 0, ttl: TTL };
        assert!(finish(&mut [0; 128], mixed, Upper::Udp(1, 2)).is_none());
    }
}
