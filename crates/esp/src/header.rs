//! The outer headers of a tunnel, computed once and completed for each packet.
//!
//! ```text
//!   IPv4 (20) or IPv6 (40) | UDP (8), with RFC 3948 encapsulation | ESP ...
//! ```
//!
//! What differs between packets: traffic class, length and, for IPv4, identification, DF and the
//! checksum; for UDP its length. All else is in the template.
//!
//! The IPv6 flow label is zero. A hash of the inner flow would tell observers which packets
//! belong together, and would let routers spread one SA over several paths, out of order by more
//! than a replay window allows. (Linux copies the label of an inner IPv6 header.)

use core::net::IpAddr;

use wire::{checksum, ipv4, ipv6, protocol};

use crate::params::{SaParams, UdpEncap};
use crate::size::UDP_HEADER_LEN;

/// The outer TTL or hop limit: what Linux's routes give unless told otherwise (RFC 1700's default).
const HOP_LIMIT: u8 = 64;

/// What a packet adds to the template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerPacket {
    /// The outer DS field and ECN byte.
    pub traffic_class: u8,
    /// IPv4's DF; without meaning for IPv6.
    pub dont_fragment: bool,
    /// The low-order bits of the sequence number, from which the identification comes.
    pub sequence: u16,
    /// The whole outer packet, from its IP header to the ICV.
    pub total_len: u16,
}

/// The outer headers of one SA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Template {
    /// The IP header, then the UDP header.
    bytes: [u8; MAX_LEN],
    ip_len: u8,
    udp_len: u8,
    /// IPv4: the sum over the header's constant words.
    sum: u16,
    /// Added to the sequence number to make the identification, so that several SAs between two
    /// hosts do not walk through the same identifications side by side.
    ident_base: u16,
}

const MAX_LEN: usize = ipv6::HEADER_LEN + UDP_HEADER_LEN;

impl Template {
    pub fn new(params: &SaParams) -> Template {
        let protocol = if params.encap.is_some() { protocol::UDP } else { protocol::ESP };
        let mut bytes = [0; MAX_LEN];
        let ip_len = match (params.src, params.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                bytes[0] = 0x45;
                bytes[ipv4::field::TTL] = HOP_LIMIT;
                bytes[ipv4::field::PROTOCOL] = protocol;
                bytes[ipv4::field::SRC..][..4].copy_from_slice(&src.octets());
                bytes[ipv4::field::DST..][..4].copy_from_slice(&dst.octets());
                ipv4::MIN_HEADER_LEN
            }
            (src, dst) => {
                bytes[0] = 0x60;
                bytes[ipv6::field::NEXT_HEADER] = protocol;
                bytes[ipv6::field::HOP_LIMIT] = HOP_LIMIT;
                bytes[ipv6::field::SRC..][..16].copy_from_slice(&v6_octets(src));
                bytes[ipv6::field::DST..][..16].copy_from_slice(&v6_octets(dst));
                ipv6::HEADER_LEN
            }
        };
        if let Some(encap) = params.encap {
            bytes[ip_len..][..UDP_HEADER_LEN].copy_from_slice(&udp_header(encap, 0));
        }
        Template {
            bytes,
            ip_len: ip_len as u8,
            udp_len: if params.encap.is_some() { UDP_HEADER_LEN as u8 } else { 0 },
            sum: checksum::sum(&bytes[..ip_len]),
            ident_base: (params.spi ^ params.spi >> 16) as u16,
        }
    }

    /// Writes the headers to the beginning of `out`.
    ///
    /// Returns `None`, with nothing written, if `out` is shorter than the headers.
    pub fn write(&self, out: &mut [u8], packet: PerPacket) -> Option<()> {
        let ip_len = usize::from(self.ip_len);
        let (headers, _) = out.split_at_mut_checked(ip_len + usize::from(self.udp_len))?;
        headers.copy_from_slice(self.bytes.get(..headers.len())?);
        let (ip, udp) = headers.split_at_mut_checked(ip_len)?;
        if ip_len == ipv4::MIN_HEADER_LEN {
            self.complete_v4(ip.first_chunk_mut()?, packet);
        } else {
            complete_v6(ip.first_chunk_mut()?, packet);
        }
        if let Some(udp) = udp.first_chunk_mut::<UDP_HEADER_LEN>() {
            [udp[4], udp[5]] = (packet.total_len - u16::from(self.ip_len)).to_be_bytes();
        }
        Some(())
    }

    /// DF set: identification zero, as nobody may fragment (RFC 6864 §4.1). DF clear: the
    /// identification follows the sequence number, so that it repeats only after 65536 packets.
    fn complete_v4(&self, ip: &mut [u8; ipv4::MIN_HEADER_LEN], packet: PerPacket) {
        let (ident, fragment) = match packet.dont_fragment {
            true => (0, ipv4::DONT_FRAGMENT),
            false => (packet.sequence.wrapping_add(self.ident_base), 0),
        };
        ip[1] = packet.traffic_class;
        [ip[2], ip[3]] = packet.total_len.to_be_bytes();
        [ip[4], ip[5]] = ident.to_be_bytes();
        [ip[6], ip[7]] = fragment.to_be_bytes();
        let varying = [u16::from(packet.traffic_class), packet.total_len, ident, fragment];
        let sum = varying.into_iter().fold(self.sum, checksum::add);
        [ip[10], ip[11]] = (!sum).to_be_bytes();
    }
}

fn complete_v6(ip: &mut [u8; ipv6::HEADER_LEN], packet: PerPacket) {
    ip[0] = 0x60 | packet.traffic_class >> 4;
    ip[1] = packet.traffic_class << 4;
    [ip[4], ip[5]] = (packet.total_len - ipv6::HEADER_LEN as u16).to_be_bytes();
}

/// A UDP header around ESP, `udp_len` with the header itself.
///
/// The checksum is zero: for IPv4 it stays so (RFC 3948 §2.1), for IPv6 it is filled in once the
/// packet is encrypted.
pub(crate) fn udp_header(encap: UdpEncap, udp_len: u16) -> [u8; UDP_HEADER_LEN] {
    let [s, t] = encap.src_port.to_be_bytes();
    let [d, e] = encap.dst_port.to_be_bytes();
    let [l, m] = udp_len.to_be_bytes();
    [s, t, d, e, l, m, 0, 0]
}

fn v6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use crypto::Suite;
    use proptest::prelude::*;
    use wire::parse_ip;

    use super::*;
    use crate::params::{Mode, SaFlags};

    fn params(v6: bool, encap: Option<UdpEncap>) -> SaParams {
        let (src, dst) = match v6 {
            false => ("192.0.2.1", "198.51.100.2"),
            true => ("2001:db8::1", "2001:db8:ffff::2"),
        };
        SaParams {
            spi: 0x1234_5678,
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            mode: Mode::Tunnel,
            suite: Suite::ChaCha20Poly1305,
            encap,
            esn: false,
            replay_window: 32,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        }
    }

    proptest! {
        /// The parser, which checks the checksum, reads back what went in.
        #[test]
        fn parses_back(
            v6: bool,
            udp: bool,
            traffic_class: u8,
            dont_fragment: bool,
            sequence: u16,
            total_len in 100u16..,
        ) {
            let encap = udp.then_some(UdpEncap { src_port: 4500, dst_port: 61234 });
            let params = params(v6, encap);
            let mut out = vec![0xa5; usize::from(total_len)];
            let packet = PerPacket { traffic_class, dont_fragment, sequence, total_len };
            Template::new(&params).write(&mut out, packet).unwrap();
            let h = parse_ip(&out).unwrap();
            prop_assert_eq!((h.src, h.dst), (params.src, params.dst));
            prop_assert_eq!(h.traffic_class, traffic_class);
            prop_assert_eq!(h.dont_fragment, dont_fragment || v6);
            prop_assert_eq!(h.total_len, total_len);
            prop_assert_eq!(h.ttl, 64);
            prop_assert_eq!(h.protocol, if udp { 17 } else { 50 });
            let at = usize::from(h.header_len);
            if udp {
                prop_assert_eq!((h.src_port, h.dst_port), (4500, 61234));
                let len = usize::from(u16::from_be_bytes([out[at + 4], out[at + 5]]));
                prop_assert_eq!(len, usize::from(total_len) - at);
                prop_assert_eq!(&out[at + 6..at + 8], &[0, 0]);
            }
            let end = at + if udp { 8 } else { 0 };
            prop_assert!(out[end..].iter().all(|b| *b == 0xa5), "nothing past the headers");
        }
    }

    #[test]
    fn identification_differs_between_packets_and_sas() {
        let ident = |spi, sequence| {
            let mut out = [0; 100];
            let params = SaParams { spi, ..params(false, None) };
            let packet =
                PerPacket { traffic_class: 0, dont_fragment: false, sequence, total_len: 100 };
            Template::new(&params).write(&mut out, packet).unwrap();
            u16::from_be_bytes([out[4], out[5]])
        };
        let all: std::collections::HashSet<u16> = (0..=u16::MAX).map(|n| ident(9, n)).collect();
        assert_eq!(all.len(), 65536);
        assert_ne!(ident(0x1234_0001, 7), ident(0x4321_0001, 7));
    }

    #[test]
    fn too_short_a_buffer_is_left_alone() {
        let encap = Some(UdpEncap { src_port: 4500, dst_port: 4500 });
        for (v6, len) in [(false, 28), (true, 48)] {
            let packet =
                PerPacket { traffic_class: 0, dont_fragment: true, sequence: 1, total_len: 100 };
            let template = Template::new(&params(v6, encap));
            let mut out = vec![0xa5; len - 1];
            assert!(template.write(&mut out, packet).is_none());
            assert!(out.iter().all(|b| *b == 0xa5));
            assert!(template.write(&mut vec![0; len], packet).is_some());
        }
    }
}
