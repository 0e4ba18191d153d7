//! Super-packets in tunnels are cut as their inside alone is, and each segment has the headers outside.

use proptest::prelude::*;

use super::super::segment::{Limits, SegmentError, Segmenter};
use super::super::vnet::{Gso, UdpTunnel, VnetHeader};
use super::*;

const LIMITS: Limits = Limits { segment: 1700, frame: 1792 };

/// Headers between the outer IP header and the packet inside, by name, with the protocol outside.
fn between(tunnel: &str, is_v4_inside: bool) -> (u8, Vec<u8>) {
    let kind: u16 = if is_v4_inside { 0x0800 } else { 0x86dd };
    let frame = [[2; 12].as_slice(), &kind.to_be_bytes()].concat();
    let tagged = [[2; 12].as_slice(), &[0x81, 0, 0, 7], &kind.to_be_bytes()].concat();
    let udp = |port: u16, checksum: u16| {
        let words = [40000, port, 0, checksum];
        words.iter().flat_map(|word: &u16| word.to_be_bytes()).collect::<Vec<_>>()
    };
    let gre = |flags: u16, kind: u16| [flags.to_be_bytes(), kind.to_be_bytes()].concat();
    match tunnel {
        "ip" => (if is_v4_inside { 4 } else { 41 }, Vec::new()),
        "gre" => (47, gre(0, kind)),
        "gre-csum-key" => (47, [gre(0xa000, kind).as_slice(), &[0; 4], &[9; 4]].concat()),
        "gretap" => (47, [gre(0x2000, 0x6558).as_slice(), &[9; 4], &frame].concat()),
        "vxlan" => (17, [udp(4789, 0).as_slice(), &[8, 0, 0, 0, 0, 0, 42, 0], &frame].concat()),
        "vxlan-csum" => {
            (17, [udp(8472, 1).as_slice(), &[8, 0, 0, 0, 0, 0, 42, 0], &tagged].concat())
        }
        "geneve" => {
            let header = [1, 0, 0x65, 0x58, 0, 0, 43, 0, 0, 1, 2, 0];
            (17, [udp(6081, 1).as_slice(), &header, &frame].concat())
        }
        "geneve-ip" => {
            let [hi, lo] = kind.to_be_bytes();
            (17, [udp(6081, 0).as_slice(), &[0, 0, hi, lo, 0, 0, 43, 0]].concat())
        }
        other => panic!("{other}"),
    }
}

fn ip(is_v4: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = if is_v4 {
        vec![0x45, 0, 0, 0, 0xff, 0xff, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]
    } else {
        let fixed = [0x60, 0, 0, 0, 0, 0, protocol, 64];
        [fixed.as_slice(), &[0xfd; 16], &[0xfc; 16]].concat()
    };
    packet.extend(payload);
    if is_v4 {
        let len = packet.len() as u16;
        put(&mut packet, 2, len);
        set_ipv4_checksum(&mut packet[..20]);
    } else {
        put(&mut packet, 4, payload.len() as u16);
    }
    packet
}

fn tcp(payload: &[u8]) -> Vec<u8> {
    let header = [0x12, 0x34, 0, 80, 0, 0, 1, 0, 1, 2, 3, 4, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0];
    [header.as_slice(), payload].concat()
}

fn cut(vnet: VnetHeader, mut packet: Vec<u8>, limits: Limits) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(&vnet, &mut packet, limits).expect("well-formed");
    let mut out = [0; 1792];
    let mut all = Vec::new();
    while let Some(len) = segmenter.next(&packet, &mut out) {
        all.push(out[..len].to_vec());
    }
    all
}

/// The ones' complement sum of what a checksum is right over.
fn sum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).folded()
}

proptest! {
    #[test]
    fn each_segment_is_that_of_the_inside_with_the_headers_outside(
        is_v4_outside: bool,
        is_v4: bool,
        is_udp: bool,
        tunnel in prop::sample::select(&[
            "ip", "gre", "gre-csum-key", "gretap", "vxlan", "vxlan-csum", "geneve", "geneve-ip",
        ][..]),
        payload in prop::collection::vec(any::<u8>(), 1..9000),
        size in 100_u16..1400,
    ) {
        let inside = match is_udp {
            true => ip(is_v4, UDP, &[&[0, 53, 0, 54, 0, 0, 0, 0], payload.as_slice()].concat()),
            false => ip(is_v4, TCP, &tcp(&payload)),
        };
        let (protocol, headers) = between(tunnel, is_v4);
        let whole = ip(is_v4_outside, protocol, &[headers.as_slice(), &inside].concat());
        let at = whole.len() - inside.len();
        let gso = match (is_udp, is_v4) {
            (true, _) => Gso::Udp,
            (false, true) => Gso::TcpV4,
            (false, false) => Gso::TcpV6,
        };
        let ip_len = if is_v4 { 20 } else { 40 };
        let vnet = |at: usize| VnetHeader {
            needs_csum: true,
            gso,
            gso_size: size,
            csum_start: (at + ip_len) as u16,
            csum_offset: if is_udp { 6 } else { 16 },
            ..VnetHeader::PLAIN
        };
        let alone = cut(vnet(0), inside.clone(), Limits { segment: LIMITS.segment - at, ..LIMITS });
        let segments = cut(vnet(at), whole.clone(), LIMITS);
        if protocol == UDP {
            let udp_at = whole.len() - inside.len() - headers.len();
            let tunnel = UdpTunnel {
                is_v4: is_v4_outside,
                has_checksum: word(&headers, 6) != 0,
                udp_at: udp_at as u16,
                inside_at: at as u16,
            };
            let named = VnetHeader { tunnel: Some(tunnel), ..vnet(at) };
            prop_assert_eq!(cut(named, whole.clone(), LIMITS), segments.clone(), "by its name");
            prop_assert_eq!(headers_len(&whole[udp_at..]), Some(headers.len()));
        }
        prop_assert_eq!(segments.len(), alone.len());
        let outer_len = if is_v4_outside { 20 } else { 40 };
        for (number, (segment, inside)) in segments.iter().zip(&alone).enumerate() {
            prop_assert_eq!(&segment[at..], inside.as_slice());
            if is_v4_outside {
                prop_assert_eq!(usize::from(word(segment, 2)), segment.len());
                prop_assert_eq!(word(segment, 4), 0xffff_u16.wrapping_add(number as u16));
                prop_assert_eq!(sum(&segment[..20]), 0xffff);
                prop_assert_eq!(&segment[12..20], &whole[12..20]);
            } else {
                prop_assert_eq!(usize::from(word(segment, 4)), segment.len() - 40);
                prop_assert_eq!(&segment[6..40], &whole[6..40]);
            }
            let upper = &segment[outer_len..];
            match tunnel {
                "gre-csum-key" => {
                    prop_assert_eq!(sum(upper), 0xffff);
                    prop_assert_eq!(&upper[6..at - outer_len], &headers[6..]);
                }
                "vxlan" | "geneve-ip" => prop_assert_eq!(word(upper, 6), 0),
                "vxlan-csum" | "geneve" => {
                    let layout = Layout::of(segment).expect("IP");
                    let pseudo = layout.pseudo_header(segment, upper.len());
                    prop_assert_eq!(pseudo.bytes(upper).folded(), 0xffff);
                }
                _ => {}
            }
            if protocol == UDP {
                prop_assert_eq!(usize::from(word(upper, 4)), upper.len());
                prop_assert_eq!(&upper[8..at - outer_len], &headers[8..]);
            }
        }
    }
}

#[test]
fn tunnels_that_are_not_known_are_refused() {
    let inside = ip(true, TCP, &tcp(&[7; 3000]));
    let refused = |protocol: u8, between: &[u8]| {
        let mut packet = ip(true, protocol, &[between, inside.as_slice()].concat());
        let vnet = VnetHeader {
            needs_csum: true,
            gso: Gso::TcpV4,
            gso_size: 1000,
            csum_start: (40 + between.len()) as u16,
            csum_offset: 16,
            ..VnetHeader::PLAIN
        };
        Segmenter::new(&vnet, &mut packet, LIMITS).err()
    };
    let (gre, known) = between("gre", true);
    assert_eq!(refused(gre, &known), None);
    let (_, vxlan) = between("vxlan", true);
    let sequence = [0x10, 0, 8, 0, 0, 0, 0, 1];
    let nested = [vxlan.as_slice(), &ip(true, gre, &known)].concat();
    for (protocol, between) in
        [(gre, sequence.as_slice()), (17, &nested), (17, &vxlan[..8]), (50, &known), (4, &[0; 4])]
    {
        assert_eq!(refused(protocol, between), Some(SegmentError::Malformed), "{between:?}");
    }
}

#[test]
fn a_named_tunnel_that_is_not_there_is_refused() {
    let (_, vxlan) = between("vxlan", true);
    let inside = ip(true, TCP, &tcp(&[7; 3000]));
    let packet = ip(true, UDP, &[vxlan.as_slice(), &inside].concat());
    let right = UdpTunnel { is_v4: true, has_checksum: false, udp_at: 20, inside_at: 50 };
    let vnet = VnetHeader {
        needs_csum: true,
        gso: Gso::TcpV4,
        gso_size: 1000,
        csum_start: 70,
        csum_offset: 16,
        tunnel: Some(right),
        ..VnetHeader::PLAIN
    };
    let outcome =
        |vnet: VnetHeader, packet: &[u8]| Segmenter::new(&vnet, &mut packet.to_vec(), LIMITS).err();
    let named = |tunnel| outcome(VnetHeader { tunnel: Some(tunnel), ..vnet }, &packet);
    assert_eq!(named(right), None);
    for (what, tunnel) in [
        ("of the other family", UdpTunnel { is_v4: false, ..right }),
        ("a UDP header elsewhere", UdpTunnel { udp_at: 24, ..right }),
        ("in front of the packet", UdpTunnel { udp_at: 0, ..right }),
        ("inside of the UDP header", UdpTunnel { inside_at: 27, ..right }),
        ("no IP header", UdpTunnel { inside_at: 49, ..right }),
        ("past the packet", UdpTunnel { inside_at: u16::MAX, ..right }),
        ("at the packet's end", UdpTunnel { inside_at: packet.len() as u16, ..right }),
    ] {
        assert_eq!(named(tunnel), Some(SegmentError::Malformed), "{what}");
    }
    for (what, vnet) in [
        ("no checksum", VnetHeader { needs_csum: false, ..vnet }),
        ("not to be cut", VnetHeader { gso: Gso::None, ..vnet }),
        ("of the other family inside", VnetHeader { gso: Gso::TcpV6, ..vnet }),
        ("UDP inside", VnetHeader { gso: Gso::Udp, ..vnet }),
        ("a checksum elsewhere", VnetHeader { csum_start: 74, ..vnet }),
        ("a checksum outside", VnetHeader { csum_start: 20, ..vnet }),
        ("a checksum past the packet", VnetHeader { csum_start: u16::MAX, ..vnet }),
        ("segments without length", VnetHeader { gso_size: 0, ..vnet }),
    ] {
        assert_eq!(outcome(vnet, &packet), Some(SegmentError::Malformed), "{what}");
    }
    let unknown = VnetHeader { gso: Gso::Unknown(0x65), tunnel: None, csum_start: 20, ..vnet };
    assert_eq!(outcome(unknown, &packet), Some(SegmentError::Kind), "both families outside");
    // A tunnel in the tunnel: what is to be cut lies deeper.
    let nested = ip(true, UDP, &[vxlan.as_slice(), &packet].concat());
    let deep = VnetHeader { csum_start: 120, ..vnet };
    assert_eq!(outcome(deep, &nested), Some(SegmentError::Malformed), "nested");
    let mut fragment = packet.clone();
    fragment[6] = 0x20;
    assert_eq!(outcome(vnet, &fragment), Some(SegmentError::Malformed), "a fragment");
    for len in 0..90 {
        assert!(outcome(vnet, &packet[..len]).is_some(), "{len} bytes");
    }
}

#[test]
fn headers_of_other_protocols_are_not_taken_for_a_tunnels() {
    let udp = |rest: &[u8]| [[0; 8].as_slice(), rest].concat();
    let vxlan = [8, 0, 0, 0, 0, 0, 42, 0];
    let geneve = [0, 0, 0x65, 0x58, 0, 0, 43, 0];
    assert_eq!(headers_len(&udp(&vxlan)), Some(30));
    assert_eq!(headers_len(&udp(&geneve)), Some(30));
    for (what, at, value) in
        [("a version", 0, 0x40), ("control", 1, 0x80), ("another type", 3, 0x59)]
    {
        let mut header = geneve;
        header[at] = value;
        assert_eq!(headers_len(&udp(&header)), None, "GENEVE with {what}");
    }
    assert_eq!(headers_len(&udp(&[8, 0, 1, 0, 0, 0, 42, 0])), None, "VXLAN with a reserved bit");
    for len in 0..12 {
        assert_eq!(headers_len(&udp(&vxlan)[..len]), None, "{len} bytes");
    }
}
