//! The fields of a packet that name its connection, in one direction.

use core::net::IpAddr;

use wire::{Fragment, Headers, protocol};

/// Addresses, protocol and ports of the packets of a connection in one direction, as they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address of the packets.
    pub src: IpAddr,
    /// Destination address of the packets.
    pub dst: IpAddr,
    /// Upper-layer protocol (IANA).
    pub protocol: u8,
    /// Source port; the identifier of an ICMP query.
    pub src_port: u16,
    /// Destination port; type and code of an ICMP query, the type in the upper byte.
    pub dst_port: u16,
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Direction of the first packet.
    Original,
    /// Direction of the answers.
    Reply,
}

impl Direction {
    /// The other one.
    pub const fn other(self) -> Direction {
        match self {
            Direction::Original => Direction::Reply,
            Direction::Reply => Direction::Original,
        }
    }
}

impl Tuple {
    /// Tuple of an IP packet with headers `h`. `None` for packets that Linux alone tracks or
    /// translates: fragments, other protocols, ICMP errors, packets with options or extension
    /// headers.
    pub fn of(packet: &[u8], h: &Headers) -> Option<Tuple> {
        let plain_len = if h.src.is_ipv4() { 20 } else { 40 };
        if h.fragment != Fragment::Whole || h.header_len != plain_len {
            return None;
        }
        let (src_port, dst_port) = match h.protocol {
            protocol::TCP | protocol::UDP => (h.src_port, h.dst_port),
            protocol::ICMP | protocol::ICMPV6 => {
                let [kind, code, _, _, high, low] =
                    *packet.get(plain_len.into()..)?.first_chunk()?;
                if !is_query(h.protocol, kind) {
                    return None;
                }
                (u16::from_be_bytes([high, low]), u16::from_be_bytes([kind, code]))
            }
            _ => return None,
        };
        Some(Tuple { src: h.src, dst: h.dst, protocol: h.protocol, src_port, dst_port })
    }

    /// True if its packets are of ICMP, and have an identifier for a port.
    pub const fn is_icmp(&self) -> bool {
        protocol::is_icmp(self.protocol)
    }
}

/// True if ICMP of a type is a query or its reply, and so has an identifier (RFC 792, RFC 950, RFC
/// 4443 §4).
const fn is_query(protocol: u8, kind: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(kind, 0 | 8 | 13..=18),
        _ => matches!(kind, 128 | 129),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_errors_and_options_are_linuxs() {
        let mut packet = vec![0u8; 28];
        packet[0] = 0x45;
        packet[20..26].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34]);
        let h = Headers {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            protocol: protocol::ICMP,
            ttl: 64,
            traffic_class: 0,
            dont_fragment: false,
            fragment: Fragment::Whole,
            header_len: 20,
            total_len: 28,
            src_port: 8,
            dst_port: 0,
        };
        let tuple = Tuple::of(&packet, &h).expect("an echo request");
        assert_eq!((tuple.src_port, tuple.dst_port), (0x1234, 0x0800));
        assert_eq!(Tuple::of(&packet, &Headers { fragment: Fragment::First, ..h }), None);
        assert_eq!(Tuple::of(&packet, &Headers { header_len: 24, ..h }), None);
        assert_eq!(Tuple::of(&packet, &Headers { protocol: protocol::ESP, ..h }), None);
        assert_eq!(Tuple::of(&packet[..25], &h), None);
        packet[20] = 3;
        assert_eq!(Tuple::of(&packet, &h), None);
    }
}
