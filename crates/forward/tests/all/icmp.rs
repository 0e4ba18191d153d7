//! ICMP errors: their bytes, and when there are none.

use std::net::IpAddr;

use forward::icmp_error::{MAX_LEN, MAX_LEN_V4, MAX_LEN_V6, build};
use forward::{IcmpCause, Reporter, Silence};
use proptest::prelude::*;
use wire::ipv4::Ipv4Fields;
use wire::ipv6::Ipv6Fields;
use wire::{L4Checksum, icmpv4, icmpv6, parse_ip, protocol, verify_l4_checksum};

const CAUSES: [IcmpCause; 5] = [
    IcmpCause::TooBig { mtu: 1400 },
    IcmpCause::TimeExceeded,
    IcmpCause::NoRoute,
    IcmpCause::HostUnreachable,
    IcmpCause::Prohibited,
];

fn v4(src: [u8; 4], dst: [u8; 4], number: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        traffic_class: 0,
        total_len: 20 + payload.len() as u16,
        ident: 9,
        dont_fragment: true,
        ttl: 1,
        protocol: number,
        src: src.into(),
        dst: dst.into(),
    };
    [&fields.to_bytes()[..], payload].concat()
}

fn v6(src: &str, dst: &str, number: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0x12345,
        payload_len: payload.len() as u16,
        next_header: number,
        hop_limit: 1,
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
    };
    [&fields.to_bytes()[..], payload].concat()
}

fn reporter(packet: &[u8]) -> Reporter {
    let src: IpAddr =
        if packet[0] >> 4 == 4 { "192.0.2.254" } else { "2001:db8:fe::1" }.parse().unwrap();
    Reporter { src, ident: 0x77 }
}

fn report(cause: IcmpCause, packet: &[u8]) -> Result<Vec<u8>, Silence> {
    let mut out = vec![0xee; MAX_LEN];
    let h = parse_ip(packet).unwrap();
    let len = build(cause, packet, &h, false, reporter(packet), &mut out)?;
    assert!(out[len..].iter().all(|b| *b == 0xee));
    out.truncate(len);
    Ok(out)
}

const HOST: [u8; 4] = [198, 51, 100, 7];
const FAR: [u8; 4] = [203, 0, 113, 1];

#[test]
fn every_cause_over_ipv4() {
    let packet = v4(HOST, FAR, protocol::UDP, &[0x5a; 100]);
    let want = [(3, 4, 1400), (11, 0, 0), (3, 0, 0), (3, 1, 0), (3, 13, 0)];
    for (cause, (kind, code, mtu)) in CAUSES.into_iter().zip(want) {
        let error = report(cause, &packet).unwrap();
        let h = parse_ip(&error).unwrap();
        assert_eq!(verify_l4_checksum(&error, &h), L4Checksum::Valid);
        assert_eq!((h.src, h.dst), ("192.0.2.254".parse().unwrap(), HOST.into()));
        assert_eq!((h.protocol, h.ttl, h.traffic_class), (1, 64, 0xc0));
        assert_eq!(error[4..6], [0, 0x77]);
        let message = icmpv4::Icmpv4Header::parse(&error[20..]).unwrap();
        assert_eq!((message.kind(), message.code(), message.mtu()), (kind, code, mtu));
        assert_eq!(error[24..26], [0, 0], "unused");
        assert_eq!(message.body(), packet);
    }
}

#[test]
fn every_cause_over_ipv6() {
    let packet = v6("2001:db8::7", "2001:db8:2::1", protocol::UDP, &[0x5a; 100]);
    let want = [(2, 0, 1400), (3, 0, 0), (1, 0, 0), (1, 3, 0), (1, 1, 0)];
    for (cause, (kind, code, mtu)) in CAUSES.into_iter().zip(want) {
        let error = report(cause, &packet).unwrap();
        let h = parse_ip(&error).unwrap();
        assert_eq!(verify_l4_checksum(&error, &h), L4Checksum::Valid);
        let near: IpAddr = "2001:db8:fe::1".parse().unwrap();
        assert_eq!((h.src, h.dst), (near, "2001:db8::7".parse().unwrap()));
        assert_eq!((h.protocol, h.ttl), (58, 64));
        let message = icmpv6::Icmpv6Header::parse(&error[40..]).unwrap();
        assert_eq!((message.kind(), message.code(), message.mtu()), (kind, code, mtu));
        assert_eq!(message.body(), packet);
    }
}

#[test]
fn quotations_are_as_long_as_allowed() {
    let packet = v4(HOST, FAR, protocol::UDP, &[7; 1480]);
    let error = report(CAUSES[0], &packet).unwrap();
    assert_eq!(error.len(), MAX_LEN_V4);
    assert_eq!(error[28..], packet[..MAX_LEN_V4 - 28]);
    let packet = v6("2001:db8::7", "2001:db8:2::1", protocol::UDP, &[7; 1460]);
    let error = report(CAUSES[0], &packet).unwrap();
    assert_eq!(error.len(), MAX_LEN_V6);
    assert_eq!(error[48..], packet[..MAX_LEN_V6 - 48]);
    // Ethernet padding is no part of the packet.
    let mut padded = v4(HOST, FAR, protocol::UDP, &[7; 8]);
    padded.resize(46, 0xaa);
    assert_eq!(report(CAUSES[1], &padded).unwrap().len(), 28 + 28);
}

#[test]
fn a_short_buffer_shortens_the_quotation_to_a_limit() {
    let packet = v4(HOST, FAR, protocol::UDP, &[7; 1000]);
    let h = parse_ip(&packet).unwrap();
    let len = build(CAUSES[1], &packet, &h, false, reporter(&packet), &mut [0; 100]);
    assert_eq!(len, Ok(100));
    let len = build(CAUSES[1], &packet, &h, false, reporter(&packet), &mut [0; 56]);
    assert_eq!(len, Ok(56), "header and 8 bytes");
    for short in 0..56 {
        let out = &mut [0; 56][..short];
        let none = build(CAUSES[1], &packet, &h, false, reporter(&packet), out);
        assert_eq!(none, Err(Silence::NoRoom), "{short}");
    }
}

#[test]
fn mtus_are_told_within_what_the_protocols_allow() {
    let four = v4(HOST, FAR, protocol::UDP, &[0; 8]);
    let six = v6("2001:db8::7", "2001:db8:2::1", protocol::UDP, &[0; 8]);
    for (mtu, told4, told6) in
        [(0, 68, 1280), (576, 576, 1280), (1500, 1500, 1500), (70_000, 65_535, 70_000)]
    {
        let error = report(IcmpCause::TooBig { mtu }, &four).unwrap();
        assert_eq!(icmpv4::Icmpv4Header::parse(&error[20..]).unwrap().mtu(), told4);
        let error = report(IcmpCause::TooBig { mtu }, &six).unwrap();
        assert_eq!(icmpv6::Icmpv6Header::parse(&error[40..]).unwrap().mtu(), told6);
    }
}

#[test]
fn no_error_about_an_error() {
    for kind in [3, 4, 5, 11, 12] {
        let packet = v4(HOST, FAR, protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(report(CAUSES[1], &packet), Err(Silence::AboutError), "{kind}");
    }
    for kind in [0, 8, 13] {
        let packet = v4(HOST, FAR, protocol::ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert!(report(CAUSES[1], &packet).is_ok(), "{kind}");
    }
    for kind in [1, 2, 3, 4, 100, 127, 137] {
        let packet =
            v6("2001:db8::7", "2001:db8:2::1", protocol::ICMPV6, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(report(CAUSES[0], &packet), Err(Silence::AboutError), "{kind}");
    }
    let packet = v6("2001:db8::7", "2001:db8:2::1", protocol::ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0]);
    assert!(report(CAUSES[0], &packet).is_ok());
    // Behind extension headers too.
    let hidden = [58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let packet = v6("2001:db8::7", "2001:db8:2::1", protocol::DESTINATION_OPTIONS, &hidden);
    assert_eq!(report(CAUSES[0], &packet), Err(Silence::AboutError));
}

#[test]
fn no_error_about_a_later_fragment() {
    let mut packet = v4(HOST, FAR, protocol::UDP, &[0; 16]);
    packet[6..8].copy_from_slice(&[0x20, 0x01]);
    wire::ipv4::fill_checksum(&mut packet);
    assert_eq!(report(CAUSES[1], &packet), Err(Silence::LaterFragment));
    packet[6..8].copy_from_slice(&[0x20, 0x00]);
    wire::ipv4::fill_checksum(&mut packet);
    assert!(report(CAUSES[1], &packet).is_ok());
    // IPv6 allows it unless the fragment may be one of an error.
    let later = |next: u8| {
        let payload = [next, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        report(CAUSES[0], &v6("2001:db8::7", "2001:db8:2::1", protocol::FRAGMENT, &payload))
    };
    assert!(later(protocol::UDP).is_ok());
    assert_eq!(later(protocol::ICMPV6), Err(Silence::AboutError));
    assert_eq!(later(protocol::DESTINATION_OPTIONS), Err(Silence::AboutError));
}

#[test]
fn no_error_to_or_about_groups() {
    for dst in [[224, 0, 0, 5], [239, 1, 1, 1], [255, 255, 255, 255]] {
        assert_eq!(
            report(CAUSES[1], &v4(HOST, dst, protocol::UDP, &[0; 8])),
            Err(Silence::ToGroup)
        );
    }
    for src in
        [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]]
    {
        assert_eq!(report(CAUSES[1], &v4(src, FAR, protocol::UDP, &[0; 8])), Err(Silence::Source));
    }
    for src in ["::", "::1", "ff02::1"] {
        let packet = v6(src, "2001:db8:2::1", protocol::UDP, &[0; 8]);
        assert_eq!(report(CAUSES[0], &packet), Err(Silence::Source), "{src}");
    }
    // A link-layer broadcast counts as a group, but Packet Too Big goes out all the same.
    let four = v4(HOST, FAR, protocol::UDP, &[0; 8]);
    let six = v6("2001:db8::7", "2001:db8:2::1", protocol::UDP, &[0; 8]);
    let group = v6("2001:db8::7", "ff0e::1", protocol::UDP, &[0; 8]);
    for cause in CAUSES {
        let too_big = matches!(cause, IcmpCause::TooBig { .. });
        let on_link_group =
            |p: &[u8]| build(cause, p, &parse_ip(p).unwrap(), true, reporter(p), &mut [0; MAX_LEN]);
        assert_eq!(on_link_group(&four), Err(Silence::ToGroup));
        assert_eq!(on_link_group(&six).is_ok(), too_big);
        assert_eq!(report(cause, &group).is_ok(), too_big);
    }
}

#[test]
fn the_reporter_needs_an_address_of_the_family() {
    let packet = v4(HOST, FAR, protocol::UDP, &[0; 8]);
    let h = parse_ip(&packet).unwrap();
    for src in ["2001:db8::1", "0.0.0.0", "224.0.0.1", "255.255.255.255"] {
        let from = Reporter { src: src.parse().unwrap(), ident: 0 };
        let none = build(CAUSES[1], &packet, &h, false, from, &mut [0; MAX_LEN]);
        assert_eq!(none, Err(Silence::NoAddress), "{src}");
    }
}

proptest! {
    /// Whatever the packet: no panic, and what is sent is valid and never draws an error itself.
    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 20..200), six: bool, which in 0usize..5, room in 0usize..300) {
        let mut bytes = bytes;
        bytes[0] = if six { 0x60 | bytes[0] & 0xf } else { 0x45 };
        let len = bytes.len();
        if six {
            bytes.resize(len.max(48), 0);
            let len = bytes.len() as u16 - 40;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            wire::ipv4::fill_checksum(&mut bytes);
        }
        if let Ok(h) = parse_ip(&bytes) {
            let mut out = vec![0; room];
            if let Ok(len) = build(CAUSES[which], &bytes, &h, false, reporter(&bytes), &mut out) {
                let error = parse_ip(&out[..len]).unwrap();
                prop_assert_eq!(usize::from(error.total_len), len);
                prop_assert_eq!(verify_l4_checksum(&out[..len], &error), L4Checksum::Valid);
                prop_assert_eq!(error.dst, h.src);
                prop_assert_eq!(report(CAUSES[which], &out[..len]), Err(Silence::AboutError));
            }
            // Headers of another packet.
            let _ = build(CAUSES[which], &bytes[..20], &h, false, reporter(&bytes), &mut out);
        }
    }
}
