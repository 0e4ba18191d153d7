//! The packet that `culvert why` asks about.

use std::net::IpAddr;

use wire::ipv4::Ipv4Fields;
use wire::ipv6::Ipv6Fields;
use wire::{ipv4, ipv6, protocol, tcp, udp};

use report::WhyPacket;

/// Bytes in front of its payload by protocol: ports, or type and code.
const MIN_UPPER_LEN: usize = 8;

/// Bytes of the packet.
///
/// # Errors
/// The packet cannot be: what has to be asked instead.
pub fn packet(asked: &WhyPacket) -> Result<Vec<u8>, String> {
    let WhyPacket { src, dst, protocol: number, src_port, dst_port, .. } = *asked;
    if !protocol::has_ports(number) && !protocol::is_icmp(number) && (src_port, dst_port) != (0, 0)
    {
        return Err(format!("protocol {number} has no ports: leave --sport and --dport out"));
    }
    let header_len = match src {
        IpAddr::V4(_) => ipv4::MIN_HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    let upper_len = match number {
        protocol::TCP => tcp::MIN_HEADER_LEN,
        protocol::UDP => udp::HEADER_LEN,
        _ => MIN_UPPER_LEN,
    };
    let shortest = header_len + upper_len;
    let len = usize::from(asked.len);
    if len < shortest {
        return Err(format!("--len {len}: such a packet has {shortest} bytes at least"));
    }
    let upper = upper(asked, len - header_len);
    let mut bytes = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Fields {
            traffic_class: asked.dscp << 2,
            total_len: asked.len,
            ident: 0,
            dont_fragment: asked.dont_fragment,
            ttl: asked.ttl,
            protocol: number,
            src,
            dst,
        }
        .to_bytes()
        .to_vec(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Fields {
            traffic_class: asked.dscp << 2,
            flow_label: 0,
            payload_len: asked.len - header_len as u16,
            next_header: number,
            hop_limit: asked.ttl,
            src,
            dst,
        }
        .to_bytes()
        .to_vec(),
        _ => return Err(format!("{src} and {dst} are of different families")),
    };
    bytes.extend(upper);
    Ok(bytes)
}

/// Bytes behind the IP header: ports or type and code, and zeros.
fn upper(asked: &WhyPacket, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let (src_port, dst_port) = (asked.src_port.to_be_bytes(), asked.dst_port.to_be_bytes());
    let front = match protocol::is_icmp(asked.protocol) {
        // Type and code: a byte each.
        true => [src_port[1], dst_port[1], 0, 0],
        false => [src_port[0], src_port[1], dst_port[0], dst_port[1]],
    };
    bytes.iter_mut().zip(front).for_each(|(byte, value)| *byte = value);
    let filled: &[(usize, [u8; 2])] = match asked.protocol {
        // The header's length, in words of 4 bytes, and ACK: it opens no connection.
        protocol::TCP => &[(12, [0x50, 0x10])],
        protocol::UDP => &[(4, (len as u16).to_be_bytes())],
        _ => &[],
    };
    for (at, value) in filled {
        bytes.iter_mut().skip(*at).zip(value).for_each(|(byte, value)| *byte = *value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(src: &str, dst: &str, protocol: u8) -> WhyPacket {
        WhyPacket {
            src: src.parse().expect("an address"),
            dst: dst.parse().expect("an address"),
            protocol,
            src_port: 0x1234,
            dst_port: 443,
            len: 100,
            dont_fragment: true,
            ttl: 64,
            dscp: 46,
        }
    }

    #[test]
    fn what_is_asked_is_what_is_parsed() {
        for (src, dst) in [("10.1.0.5", "10.2.0.9"), ("fd00:1::5", "fd00:2::9")] {
            for number in [protocol::TCP, protocol::UDP, protocol::SCTP] {
                let asked = asked(src, dst, number);
                let bytes = packet(&asked).expect("a packet");
                let h = wire::parse_ip(&bytes).expect("a valid packet");
                assert_eq!((h.src, h.dst, h.protocol), (asked.src, asked.dst, number));
                assert_eq!((h.src_port, h.dst_port), (0x1234, 443));
                assert_eq!((h.total_len, h.ttl, h.traffic_class), (100, 64, 46 << 2));
                assert!(h.dont_fragment);
            }
        }
        let ping = WhyPacket { src_port: 8, dst_port: 0, ..asked("10.1.0.5", "10.2.0.9", 1) };
        let h = wire::parse_ip(&packet(&ping).expect("a packet")).expect("a valid packet");
        assert_eq!((h.src_port, h.dst_port), (8, 0));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let refused = |asked: WhyPacket| packet(&asked).expect_err("not a packet");
        let short = WhyPacket { len: 30, ..asked("10.1.0.5", "10.2.0.9", 6) };
        assert_eq!(refused(short), "--len 30: such a packet has 40 bytes at least");
        let mixed = asked("10.1.0.5", "fd00:2::9", 6);
        assert_eq!(refused(mixed), "10.1.0.5 and fd00:2::9 are of different families");
        let gre = asked("10.1.0.5", "10.2.0.9", 47);
        assert_eq!(refused(gre), "protocol 47 has no ports: leave --sport and --dport out");
    }
}
