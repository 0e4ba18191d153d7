//! Frames from a real wire: what each header says, and what Linux itself computed.

use wire::ipv4::{Ipv4Fields, Ipv4Header};
use wire::ipv6::{Ipv6Fields, Ipv6Header};
use wire::{EtherType, EthernetHeader, Fragment, L4Checksum, icmpv4, icmpv6, tcp, udp};

/// A frame of `tests/data/veth.txt` by its name.
fn frame(name: &str) -> Vec<u8> {
    let line = include_str!("../data/veth.txt")
        .lines()
        .find_map(|l| l.strip_prefix(name).and_then(|l| l.strip_prefix(' ')))
        .unwrap_or_else(|| panic!("no frame {name}"));
    (0..line.len()).step_by(2).map(|i| u8::from_str_radix(&line[i..i + 2], 16).unwrap()).collect()
}

/// The IP packet of a frame, and its headers.
fn packet(name: &str) -> (Vec<u8>, wire::Headers) {
    let frame = frame(name);
    let ethernet = EthernetHeader::parse(&frame).unwrap();
    assert!(matches!(ethernet.ether_type, EtherType::IPV4 | EtherType::IPV6));
    let packet = frame[ethernet.payload_offset..].to_vec();
    let h = wire::parse_ip(&packet).unwrap();
    (packet, h)
}

#[test]
fn every_frame_parses_and_survives_every_change() {
    let mut count = 0;
    for line in include_str!("../data/veth.txt").lines().filter(|l| !l.starts_with('#')) {
        let Some((name, _)) = line.split_once(' ') else { continue };
        packet(name);
        wire::fuzz::exercise(&frame(name));
        count += 1;
    }
    assert_eq!(count, 15);
}

#[test]
fn checksums_that_linux_computed_are_valid_and_reproduced() {
    for name in [
        "multicast-listener-report",
        "neighbour-solicitation",
        "neighbour-advertisement",
        "echo-request-v6",
        "echo-request-v4",
        "echo-request-v4-record-route",
        "echo-reply-v4-record-route",
        "port-unreachable-v4",
        "port-unreachable-v6",
        "tcp-reset-v4",
    ] {
        let (mut bytes, h) = packet(name);
        assert_eq!(wire::verify_l4_checksum(&bytes, &h), L4Checksum::Valid, "{name}");
        let before = bytes.clone();
        wire::fill_l4_checksum(&mut bytes, &h);
        assert_eq!(bytes, before, "{name}");
    }
}

#[test]
fn partial_checksums_of_veth_are_recognised_and_completed() {
    for name in ["udp-v4-partial", "udp-v6-partial", "tcp-syn-v4-partial", "tcp-syn-v6-partial"] {
        let (mut bytes, h) = packet(name);
        assert_eq!(wire::verify_l4_checksum(&bytes, &h), L4Checksum::Invalid, "{name}");
        assert!(wire::complete_partial(&mut bytes, &h), "{name}");
        assert_eq!(wire::verify_l4_checksum(&bytes, &h), L4Checksum::Valid, "{name}");
        assert!(!wire::complete_partial(&mut bytes, &h), "{name}");
    }
}

#[test]
fn ipv4_header_with_options() {
    let (bytes, h) = packet("echo-request-v4-record-route");
    assert_eq!((h.header_len, h.protocol, h.src_port), (60, 1, 8));
    let header = Ipv4Header::parse(&bytes).unwrap();
    assert_eq!(header.options()[..4], [1, 7, 39, 8]);
    assert_eq!((header.ident(), header.checksum()), (0xcf6d, 0x1b0a));
    assert_eq!(header.payload().len(), 16);
}

#[test]
fn ipv4_fields_reproduce_the_header() {
    let (bytes, h) = packet("tcp-syn-v4-partial");
    let header = Ipv4Header::parse(&bytes).unwrap();
    let fields = Ipv4Fields {
        traffic_class: header.traffic_class(),
        total_len: header.total_len(),
        ident: header.ident(),
        dont_fragment: header.dont_fragment(),
        ttl: header.ttl(),
        protocol: header.protocol(),
        src: header.src(),
        dst: header.dst(),
    };
    assert_eq!(fields.to_bytes(), bytes[..20]);
    assert_eq!((h.src_port, h.dst_port), (48342, 81));
    assert!(fields.emit(&mut [0; 19]).is_err());
}

#[test]
fn ipv6_fields_reproduce_the_header() {
    let (bytes, _) = packet("udp-v6-partial");
    let header = Ipv6Header::parse(&bytes).unwrap();
    assert_eq!(header.flow_label(), 0xe548e);
    let fields = Ipv6Fields {
        traffic_class: header.traffic_class(),
        flow_label: header.flow_label(),
        payload_len: header.payload_len(),
        next_header: header.next_header(),
        hop_limit: header.hop_limit(),
        src: header.src(),
        dst: header.dst(),
    };
    assert_eq!(fields.to_bytes(), bytes[..40]);
    assert!(fields.emit(&mut [0; 39]).is_err());
}

#[test]
fn udp_header() {
    let (bytes, h) = packet("udp-v4-partial");
    let header = udp::UdpHeader::parse(&bytes[usize::from(h.header_len)..]).unwrap();
    assert_eq!((header.src_port(), header.dst_port(), header.len()), (60653, 9, 15));
    assert_eq!(header.payload(), b"culvert");
    let fields = udp::UdpFields { src_port: 60653, dst_port: 9, len: 15, checksum: 0x1440 };
    assert_eq!(fields.to_bytes(), bytes[20..28]);
    for (at, value) in [(25, 7), (25, 16)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert!(udp::UdpHeader::parse(&bad[20..]).is_err());
    }
}

#[test]
fn tcp_header() {
    let (bytes, h) = packet("tcp-syn-v6-partial");
    let header = tcp::TcpHeader::parse(&bytes[usize::from(h.header_len)..]).unwrap();
    assert_eq!((header.src_port(), header.dst_port()), (58574, 81));
    assert_eq!((header.seq(), header.ack()), (1_707_600_415, 0));
    assert_eq!(header.flags(), tcp::flag::SYN);
    assert_eq!((header.window(), header.header_len()), (64800, 40));
    assert_eq!(header.mss(), Some(1440));
    assert!(header.payload().is_empty());
}

#[test]
fn icmp_errors_quote_the_packet() {
    let (bytes, h) = packet("port-unreachable-v4");
    let (about, _) = packet("udp-v4-partial");
    let message = icmpv4::Icmpv4Header::parse(&bytes[usize::from(h.header_len)..]).unwrap();
    assert_eq!((message.kind(), message.code()), (3, icmpv4::unreachable::PORT));
    assert_eq!(message.body(), about);
    assert!(icmpv4::is_error(message.kind()) && !icmpv4::is_error(icmpv4::kind::ECHO_REQUEST));

    let (bytes, h) = packet("port-unreachable-v6");
    let (about, _) = packet("udp-v6-partial");
    let message = icmpv6::Icmpv6Header::parse(&bytes[usize::from(h.header_len)..]).unwrap();
    assert_eq!((message.kind(), message.code()), (1, icmpv6::unreachable::PORT));
    assert_eq!(message.body(), about);
    assert!(icmpv6::is_error(message.kind()));
}

#[test]
fn types_of_icmpv6_stand_where_ports_do() {
    for (name, kind) in [
        ("neighbour-solicitation", 135),
        ("neighbour-advertisement", 136),
        ("echo-request-v6", 128),
    ] {
        let (_, h) = packet(name);
        assert_eq!(h.src_port, kind, "{name}");
    }
    // A listener report has hop-by-hop options.
    let (_, h) = packet("multicast-listener-report");
    assert_eq!((h.header_len, h.protocol, h.src_port), (48, 58, 143));
}

#[test]
fn later_fragment() {
    let (bytes, h) = packet("fragment-later-v6");
    assert_eq!((h.fragment, h.protocol, h.header_len), (Fragment::Later, 17, 48));
    let info = Ipv6Header::parse(&bytes).unwrap().extensions().unwrap().fragment.unwrap();
    assert_eq!((info.offset, info.more, info.ident), (1448, false, 0xd21a_9f5a));
}
