//! Packets made by hand: accepted and refused by `parse_ip`, with checksums and edits.

use std::net::IpAddr;

use outcome::DropReason;
use wire::{
    Fragment, Headers, L4Checksum, ParseError, complete_partial, decrement_ttl, fill_l4_checksum,
    parse_ip, protocol, verify_l4_checksum,
};

/// An echo request from 10.1.0.10 to 10.2.0.10 with 8 bytes of payload and no checksums yet.
const PING4: &str =
    "45000024 1c464000 4001 0000 0a01000a 0a02000a 0800 0000 1234 0001 0001020304050607";
/// A UDP datagram over IPv6: ::1 to ::1, ports 5353 and 53, 4 bytes of payload, no checksum yet.
const UDP6: &str = "60000000 000c 11 40 00000000000000000000000000000001 00000000000000000000000000000001 14e9 0035 000c 0000 deadbeef";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|b| (b as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// A valid IPv4 packet with everything by hand, so that nothing but `parse_ip` is under test.
fn v4(number: u8, flags: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut p = vec![0x45 + (options.len() / 4) as u8, 0xb8];
    p.extend(((header_len + payload.len()) as u16).to_be_bytes());
    p.extend([0x12, 0x34]);
    p.extend(flags.to_be_bytes());
    p.extend([64, number, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    p.extend(options);
    wire::ipv4::fill_checksum(&mut p);
    p.extend(payload);
    p
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x6b, 0x8a, 0xbc, 0xde];
    p.extend((payload.len() as u16).to_be_bytes());
    p.extend([next, 64]);
    p.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    p.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    p.extend(payload);
    p
}

fn udp(payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x13, 0x88, 0x11, 0x94];
    p.extend(((8 + payload.len()) as u16).to_be_bytes());
    p.extend([0, 0]);
    p.extend(payload);
    p
}

#[test]
fn ping() {
    let mut packet = hex(PING4);
    wire::ipv4::fill_checksum(&mut packet);
    let h = parse_ip(&packet).unwrap();
    assert_eq!(h.src, "10.1.0.10".parse::<IpAddr>().unwrap());
    assert_eq!(h.dst, "10.2.0.10".parse::<IpAddr>().unwrap());
    assert_eq!((h.protocol, h.src_port, h.dst_port), (1, 8, 0));
    assert_eq!((h.header_len, h.total_len, h.ttl), (20, 36, 64));
    assert!(h.dont_fragment);
    assert_eq!(h.fragment, Fragment::Whole);
    let mut filled = packet.clone();
    assert!(fill_l4_checksum(&mut filled, &h));
    assert_eq!(verify_l4_checksum(&filled, &h), L4Checksum::Valid);
    filled[30] ^= 1;
    assert_eq!(verify_l4_checksum(&filled, &h), L4Checksum::Invalid);
}

#[test]
fn every_field_of_v4() {
    let packet = v4(17, 0x4000, &[1, 1, 1, 0], &udp(b"hello"));
    let h = parse_ip(&packet).unwrap();
    assert_eq!(
        h,
        Headers {
            src: "192.0.2.1".parse().unwrap(),
            dst: "198.51.100.7".parse().unwrap(),
            protocol: 17,
            ttl: 64,
            traffic_class: 0xb8,
            dont_fragment: true,
            fragment: Fragment::Whole,
            header_len: 24,
            total_len: 37,
            src_port: 5000,
            dst_port: 4500,
        }
    );
}

#[test]
fn every_field_of_v6_behind_extension_headers() {
    // Hop-by-hop (router alert), routing with no segments left, destination options (16 bytes).
    let mut payload = vec![43, 0, 5, 2, 0, 0, 1, 0];
    payload.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend([17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend(udp(b"hello"));
    let packet = v6(0, &payload);
    let h = parse_ip(&packet).unwrap();
    assert_eq!(
        h,
        Headers {
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            protocol: 17,
            ttl: 64,
            traffic_class: 0xb8,
            dont_fragment: true,
            fragment: Fragment::Whole,
            header_len: 72,
            total_len: 85,
            src_port: 5000,
            dst_port: 4500,
        }
    );
}

#[test]
fn ethernet_padding_is_no_part_of_the_packet() {
    let mut packet = v4(17, 0, &[], &udp(b""));
    packet.resize(46, 0);
    assert_eq!(parse_ip(&packet).unwrap().total_len, 28);
    let mut packet = v6(59, &[]);
    packet.resize(46, 0);
    let h = parse_ip(&packet).unwrap();
    assert_eq!((h.total_len, h.protocol), (40, 59));
}

#[test]
fn no_cut_packet_parses() {
    let cases = [
        v4(6, 0, &[7, 4, 0, 0], &[0; 20]),
        v4(1, 0, &[], &[8, 0, 0, 0]),
        v6(0, &[17, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2]),
        v6(44, &[6, 0, 0, 1, 0, 0, 0, 9, 0, 1, 0, 2]),
    ];
    for packet in cases {
        assert!(parse_ip(&packet).is_ok());
        for len in 0..packet.len() {
            assert!(parse_ip(&packet[..len]).is_err(), "{len} of {packet:02x?}");
        }
    }
}

#[test]
fn each_contradiction_has_its_error_and_its_counter() {
    let edit = |at: usize, value: u8, fix: bool| {
        let mut p = v4(17, 0, &[], &udp(b"hello"));
        p[at] = value;
        if fix {
            wire::ipv4::fill_checksum(&mut p);
        }
        parse_ip(&p).unwrap_err()
    };
    assert_eq!(edit(0, 0x55, true), ParseError::Version(5));
    assert_eq!(edit(0, 0x44, false), ParseError::HeaderLen);
    assert_eq!(edit(0, 0x4f, false), ParseError::HeaderLen);
    assert_eq!(edit(3, 34, true), ParseError::TotalLen);
    assert_eq!(edit(3, 19, true), ParseError::TotalLen);
    assert_eq!(edit(3, 23, true), ParseError::UpperTruncated(17));
    assert_eq!(edit(8, 63, false), ParseError::Checksum);
    assert_eq!(parse_ip(&[]), Err(ParseError::Truncated));
    assert_eq!(parse_ip(&v6(17, &[0; 3])), Err(ParseError::UpperTruncated(17)));
    assert_eq!(parse_ip(&v6(58, &[128])), Err(ParseError::UpperTruncated(58)));
    assert_eq!(DropReason::from(ParseError::Checksum), DropReason::BadIpChecksum);
    assert_eq!(DropReason::from(ParseError::UpperTruncated(6)), DropReason::MalformedUpper);
    assert_eq!(DropReason::from(ParseError::TotalLen), DropReason::MalformedIp);
}

#[test]
fn ipv4_fragments() {
    let first = parse_ip(&v4(17, 0x2000, &[], &udp(b"hello"))).unwrap();
    assert_eq!((first.fragment, first.src_port), (Fragment::First, 5000));
    let later = parse_ip(&v4(17, 0x2001, &[], &[0xaa; 8])).unwrap();
    assert_eq!((later.fragment, later.src_port, later.dst_port), (Fragment::Later, 0, 0));
    let last = parse_ip(&v4(17, 0x0003, &[], &[0xaa])).unwrap();
    assert_eq!(last.fragment, Fragment::Later);
    assert_eq!(parse_ip(&v4(17, 0x2000, &[], &[0; 3])), Err(ParseError::UpperTruncated(17)));
    // 8191 * 8 = 65528: no room for a header of 20 bytes and 1 byte of payload.
    assert_eq!(parse_ip(&v4(17, 0x1fff, &[], &[0])), Err(ParseError::FragmentBounds));
}

#[test]
fn ipv6_fragments() {
    let fragment = |word: u16, payload: &[u8]| {
        let mut p = vec![17, 0];
        p.extend(word.to_be_bytes());
        p.extend([0, 0, 0, 7]);
        p.extend(payload);
        parse_ip(&v6(44, &p))
    };
    let atomic = fragment(0, &udp(b"")).unwrap();
    assert_eq!((atomic.fragment, atomic.header_len, atomic.dst_port), (Fragment::Whole, 48, 4500));
    assert_eq!(fragment(1, &udp(b"")).unwrap().fragment, Fragment::First);
    let later = fragment(8, &[1]).unwrap();
    assert_eq!((later.fragment, later.protocol, later.dst_port), (Fragment::Later, 17, 0));
    assert_eq!(later.header_len, 48);
    assert_eq!(fragment(0xfff8, &[0; 8]), Err(ParseError::FragmentBounds));
    // A second fragment header.
    assert_eq!(
        parse_ip(&v6(44, &[44, 0, 0, 1, 0, 0, 0, 1, 17, 0, 0, 1, 0, 0, 0, 1])),
        Err(ParseError::ExtensionOrder)
    );
}

#[test]
fn chains_that_cannot_be() {
    let chain = |n: usize| {
        let mut p = Vec::new();
        for i in 0..n {
            p.extend([if i + 1 == n { 59 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
        }
        parse_ip(&v6(60, &p))
    };
    assert_eq!(chain(8).unwrap().header_len, 40 + 64);
    assert_eq!(chain(9), Err(ParseError::ExtensionCount));
    let late_hop_by_hop = [0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(parse_ip(&v6(60, &late_hop_by_hop)), Err(ParseError::ExtensionOrder));
    assert_eq!(parse_ip(&v6(60, &[59, 1, 1, 4, 0, 0, 0, 0])), Err(ParseError::ExtensionTruncated));
    // AH is what the packet is of, whatever it says is behind it.
    let mut ah = vec![17, 4];
    ah.resize(24, 0);
    ah.extend(udp(b""));
    let h = parse_ip(&v6(51, &ah)).unwrap();
    assert_eq!((h.protocol, h.header_len, h.src_port), (51, 40, 0));
}

#[test]
fn jumbograms_are_refused() {
    let mut p = v6(0, &[]);
    p.extend([59, 0, 0xc2, 4, 0, 1, 0, 0]);
    assert_eq!(parse_ip(&p), Err(ParseError::Jumbogram));
    assert_eq!(parse_ip(&v6(59, &vec![0; 65_496])), Err(ParseError::Jumbogram));
    assert_eq!(parse_ip(&v6(59, &vec![0; 65_495])).unwrap().total_len, 65_535);
}

#[test]
fn partial_checksums_are_completed_once() {
    for base in [v4(17, 0, &[], &udp(b"odd")), v6(17, &udp(b"odd"))] {
        let h = parse_ip(&base).unwrap();
        let mut want = base.clone();
        assert!(fill_l4_checksum(&mut want, &h));
        assert_eq!(verify_l4_checksum(&want, &h), L4Checksum::Valid);
        // What a veth peer leaves: the pseudo header's sum.
        let mut packet = base.clone();
        let at = usize::from(h.header_len) + 6;
        let pseudo = match (h.src, h.dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => wire::checksum::pseudo_header_v4(s, d, 17, 11),
            (IpAddr::V6(s), IpAddr::V6(d)) => wire::checksum::pseudo_header_v6(s, d, 17, 11),
            _ => unreachable!("one family"),
        };
        packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        assert!(complete_partial(&mut packet, &h));
        assert_eq!(packet, want);
        assert!(!complete_partial(&mut packet, &h), "a right checksum is left alone");
        assert_eq!(packet, want);
        packet[at] ^= 0x40;
        let wrong = packet.clone();
        assert!(!complete_partial(&mut packet, &h), "a wrong checksum is left alone");
        assert_eq!(packet, wrong);
    }
}

#[test]
fn udp_checksum_zero_becomes_ones() {
    // Find a payload whose checksum computes to zero.
    let mut packet = v4(17, 0, &[], &udp(&[0, 0]));
    let h = parse_ip(&packet).unwrap();
    let at = packet.len() - 2;
    let sum = {
        let mut p = packet.clone();
        fill_l4_checksum(&mut p, &h);
        u16::from_be_bytes([p[26], p[27]])
    };
    packet[at..].copy_from_slice(&sum.to_be_bytes());
    assert!(fill_l4_checksum(&mut packet, &h));
    assert_eq!(packet[26..28], [0xff, 0xff]);
    assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Valid);
    packet[26..28].fill(0);
    assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Absent);
    // IPv6 has no UDP without checksum.
    let packet = v6(17, &udp(b"x"));
    let h = parse_ip(&packet).unwrap();
    assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Invalid);
}

#[test]
fn the_pseudo_header_has_the_final_destination() {
    // Type 2 routing header (RFC 6275): home address is the final destination.
    let home = [0x20, 0x01, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let mut payload = vec![17, 2, 2, 1, 0, 0, 0, 0];
    payload.extend(home);
    payload.extend(udp(b"data"));
    let mut packet = v6(43, &payload);
    let h = parse_ip(&packet).unwrap();
    assert!(fill_l4_checksum(&mut packet, &h));
    // On arrival the addresses are swapped and no segment is left; the checksum still holds.
    let mut arrived = packet.clone();
    arrived[24..40].copy_from_slice(&home);
    arrived[43] = 0;
    let h = parse_ip(&arrived).unwrap();
    assert_eq!(verify_l4_checksum(&arrived, &h), L4Checksum::Valid);
    // A type that is not known, with segments left: hands off.
    packet[42] = 200;
    let h = parse_ip(&packet).unwrap();
    assert!(!fill_l4_checksum(&mut packet, &h));
}

#[test]
fn fragments_and_other_protocols_have_no_checksum_to_touch() {
    let mut packet = v4(17, 0x2000, &[], &udp(b"hello"));
    let h = parse_ip(&packet).unwrap();
    assert!(!fill_l4_checksum(&mut packet, &h));
    assert!(!complete_partial(&mut packet, &h));
    assert_eq!(verify_l4_checksum(&packet, &h), L4Checksum::Absent);
    let mut packet = v4(protocol::ESP, 0, &[], &[0; 40]);
    let h = parse_ip(&packet).unwrap();
    assert!(!complete_partial(&mut packet, &h));
}

#[test]
fn ttl_and_traffic_class_keep_the_checksum() {
    for mut packet in [v4(17, 0, &[], &udp(b"")), v6(17, &udp(b""))] {
        for ttl in (1..64).rev() {
            let h = parse_ip(&packet).unwrap();
            assert!(decrement_ttl(&mut packet, &h));
            assert_eq!(parse_ip(&packet).unwrap().ttl, ttl);
        }
        let h = parse_ip(&packet).unwrap();
        let before = packet.clone();
        assert!(!decrement_ttl(&mut packet, &h));
        assert_eq!(packet, before);
        for class in 0..=255 {
            wire::set_traffic_class(&mut packet, class);
            let h = parse_ip(&packet).unwrap();
            assert_eq!(h.traffic_class, class);
            assert_eq!(wire::traffic_class(&packet), Some(class));
            let capable = class & 3 != 0;
            assert_eq!(wire::set_ecn_ce(&mut packet), capable);
            let want = if capable { class | 3 } else { class };
            assert_eq!(parse_ip(&packet).unwrap().traffic_class, want);
            assert_eq!(packet.len(), before.len());
        }
        // Nothing but TTL, class and checksum changed.
        wire::set_traffic_class(&mut packet, 0xb8);
        assert_eq!(packet, before);
    }
}

#[test]
fn udp_checksum_by_hand() {
    let mut packet = hex(UDP6);
    let h = parse_ip(&packet).unwrap();
    assert_eq!((h.src_port, h.dst_port), (5353, 53));
    assert!(fill_l4_checksum(&mut packet, &h));
    // By hand: 1 + 1 + 0x11 + 0xc + 0x14e9 + 0x35 + 0xc + 0xdead + 0xbeef = 0x1b2e5.
    let sum: u32 = 1 + 1 + 0x11 + 0xc + 0x14e9 + 0x35 + 0xc + 0xdead + 0xbeef;
    let want = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(packet[46..48], want.to_be_bytes());
}
