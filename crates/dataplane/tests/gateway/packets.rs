//! Packets that the tests send, built with the codec of the product.

use std::net::IpAddr;

use wire::ipv4::Ipv4Fields;
use wire::ipv6::Ipv6Fields;
use wire::{parse_ip, protocol};

/// An IP header to be.
#[derive(Clone, Copy)]
pub struct Ip {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub ttl: u8,
    pub traffic_class: u8,
    pub dont_fragment: bool,
}

impl Ip {
    pub fn new(src: IpAddr, dst: IpAddr) -> Ip {
        Ip { src, dst, protocol: protocol::UDP, ttl: 64, traffic_class: 0, dont_fragment: false }
    }

    /// A packet with this payload, as it is.
    pub fn with(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4Fields {
                traffic_class: self.traffic_class,
                total_len: (20 + payload.len()) as u16,
                ident: 7,
                dont_fragment: self.dont_fragment,
                ttl: self.ttl,
                protocol: self.protocol,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ipv6Fields {
                traffic_class: self.traffic_class,
                flow_label: 0,
                payload_len: payload.len() as u16,
                next_header: self.protocol,
                hop_limit: self.ttl,
                src,
                dst,
            }
            .to_bytes()
            .to_vec(),
            _ => panic!("mixed families"),
        };
        packet.extend(payload);
        packet
    }

    /// A UDP packet with a right checksum.
    pub fn udp(&self, src_port: u16, dst_port: u16, payload: &[u8]) -> Vec<u8> {
        let len = (8 + payload.len()) as u16;
        let mut udp = Vec::new();
        for word in [src_port, dst_port, len, 0] {
            udp.extend(word.to_be_bytes());
        }
        udp.extend(payload);
        let mut packet = Ip { protocol: protocol::UDP, ..*self }.with(&udp);
        let h = parse_ip(&packet).expect("well formed");
        assert!(wire::fill_l4_checksum(&mut packet, &h));
        packet
    }

    /// A UDP packet of this many bytes with all headers, with a number in its payload.
    pub fn sized(&self, len: usize, number: u16) -> Vec<u8> {
        let header = if self.src.is_ipv4() { 28 } else { 48 };
        let mut payload: Vec<u8> = (0..len - header).map(|i| i as u8).collect();
        if let Some(place) = payload.first_chunk_mut() {
            *place = number.to_be_bytes();
        }
        self.udp(1000, 2000, &payload)
    }
}

/// The number that [`Ip::sized`] put there.
pub fn number(packet: &[u8]) -> u16 {
    let at = usize::from(parse_ip(packet).expect("packet").header_len) + 8;
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

/// The packet one router further on.
pub fn hopped(packet: &[u8], hops: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for _ in 0..hops {
        let h = parse_ip(&packet).expect("packet");
        assert!(wire::decrement_ttl(&mut packet, &h));
    }
    packet
}

/// Cuts a packet into fragments for a link of this MTU, with this identification.
pub fn cut(packet: &[u8], mtu: usize, ident: u16) -> Vec<Vec<u8>> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[4..6].copy_from_slice(&ident.to_be_bytes());
        packet[6] = 0;
        wire::ipv4::fill_checksum(&mut packet);
    }
    let h = parse_ip(&packet).expect("packet");
    let mut out = vec![0; 70_000];
    let mut all = Vec::new();
    if packet[0] >> 4 == 4 {
        let plan = forward::fragment::plan(&h, &packet, mtu).expect("can be cut");
        for n in 0..plan.count() {
            let len = plan.write(n, &mut out).expect("room");
            all.push(out[..len].to_vec());
        }
    } else {
        let plan = forward::fragment_v6::plan(&h, &packet, mtu, ident.into()).expect("can be cut");
        for n in 0..plan.count() {
            let len = plan.write(n, &mut out).expect("room");
            all.push(out[..len].to_vec());
        }
    }
    all
}

/// Puts fragments together again (IPv4 or IPv6 without other extension headers), in any order.
pub fn reassemble(fragments: &[Vec<u8>]) -> Vec<u8> {
    let is_v4 = fragments[0][0] >> 4 == 4;
    let mut pieces: Vec<(usize, bool, Vec<u8>)> = fragments
        .iter()
        .map(|f| {
            let h = parse_ip(f).expect("fragment");
            assert_eq!(usize::from(h.total_len), f.len());
            if is_v4 {
                let word = u16::from_be_bytes([f[6], f[7]]);
                let header = usize::from(h.header_len);
                (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0, f[header..].to_vec())
            } else {
                assert_eq!(f[6], protocol::FRAGMENT);
                let word = u16::from_be_bytes([f[42], f[43]]);
                (usize::from(word & !7), word & 1 != 0, f[48..].to_vec())
            }
        })
        .collect();
    pieces.sort();
    let mut whole = fragments[0][..if is_v4 { 20 } else { 40 }].to_vec();
    let header_len = whole.len();
    for (i, (at, more, data)) in pieces.iter().enumerate() {
        assert_eq!(*at + header_len, whole.len(), "gap or overlap");
        assert_eq!(*more, i + 1 < pieces.len());
        whole.extend(data);
    }
    if is_v4 {
        let len = whole.len() as u16;
        whole[2..4].copy_from_slice(&len.to_be_bytes());
        whole[6..8].copy_from_slice(&[0, 0]);
        wire::ipv4::fill_checksum(&mut whole);
    } else {
        let len = (whole.len() - 40) as u16;
        whole[4..6].copy_from_slice(&len.to_be_bytes());
        whole[6] = fragments[0][40];
    }
    whole
}
