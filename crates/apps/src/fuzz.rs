//! Entries of the fuzz targets: bytes as they may come from a network.

use std::sync::Arc;

use wire::{fill_l4_checksum, ipv4, parse_ip, protocol, udp};

use crate::application::{Catalogue, MOST_APPLICATIONS};
use crate::classifier::{Classifier, MOST_MEMORY};
use crate::dns::Message;
use crate::hints::Hints;
use crate::http::{Request, request};
use crate::quic::{ClientSide, InitialKeys, Version, open_initials, seal_initial};
use crate::tls::{Hello, Records, client_hello, records};

/// A DNS message.
pub fn dns(bytes: &[u8]) {
    if let Some(message) = Message::parse(bytes) {
        assert!(message.question.spelling.len() <= 255 && message.answer.addresses.len() <= 32);
        assert!(message.is_response || message.answer.addresses.is_empty());
        let _ = message.question.host();
    }
}

/// A TLS stream, and its handshake without records; that a whole hello is the same with more behind it, and not there before.
pub fn tls(bytes: &[u8]) {
    if let Records::Handshake(handshake) = records(bytes) {
        hello(&handshake);
    }
    hello(bytes);
    let _ = crate::tls::public_names(bytes);
}

fn hello(bytes: &[u8]) {
    if let found @ Hello::Whole(_) = client_hello(bytes) {
        assert_eq!(client_hello(&[bytes, &[0; 3]].concat()), found);
        let len = 4 + bytes
            .get(1..4)
            .map_or(0, |len| len.iter().fold(0, |n, b| n << 8 | usize::from(*b)));
        assert!(!matches!(client_hello(bytes.get(..len - 1).unwrap_or_default()), Hello::Whole(_)));
    }
}

/// A datagram, as it is; and its bytes as the frames of a packet that is sealed as a client would.
pub fn quic(bytes: &[u8]) {
    let _ = open_initials(bytes);
    let mut client = ClientSide::default();
    client.datagram(bytes);
    let version = if bytes.len().is_multiple_of(2) { Version::V1 } else { Version::V2 };
    let Some(keys) = InitialKeys::of(version, b"fuzzed") else { return };
    for frames in [bytes, bytes.get(1..).unwrap_or_default()] {
        if let Some(datagram) = seal_initial(&keys, b"fuzzed", 1, frames) {
            let opened = open_initials(&datagram).ok();
            let payload = opened.and_then(|packets| packets.into_iter().next());
            assert_eq!(payload.map(|packet| packet.payload).as_deref(), Some(frames));
            client.datagram(&datagram);
        }
    }
    assert!(client.footprint() < 1 << 18);
}

/// The head of a request.
pub fn http(bytes: &[u8]) {
    let found = request(bytes);
    if let Request::Whole(_) = found {
        assert_eq!(request(&[bytes, b"x"].concat()), found, "more bytes change nothing");
    }
}

/// Packets, each behind its length in two bytes, little-endian; and what they carry as datagrams from and to a name server.
pub fn packets(bytes: &[u8]) {
    let Ok(catalogue) = Catalogue::new(Vec::new()) else { return };
    let hints = Arc::new(Hints::new(64));
    let mut classifier = Classifier::new(Arc::new(catalogue), Arc::clone(&hints), Vec::new());
    let mut rest = bytes;
    let mut now_ns = 0;
    while let [low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (packet, after) = tail.split_at(len);
        rest = after;
        now_ns += 1_000_000;
        for packet in [packet, &datagram(packet, (4000, 53)), &datagram(packet, (53, 4000))] {
            if let Some(verdict) = classifier.packet(now_ns, packet) {
                assert!(verdict.application.index() < MOST_APPLICATIONS);
            }
        }
        assert!(classifier.load().1 <= MOST_MEMORY + (1 << 18));
    }
    classifier.finish(now_ns);
    assert_eq!(classifier.load().1, 0, "nothing is kept of flows that are decided");
}

/// A datagram between two hosts, the greater port at the first.
fn datagram(payload: &[u8], (src_port, dst_port): (u16, u16)) -> Vec<u8> {
    let payload = payload.get(..1400).unwrap_or(payload);
    let (one, other) = ([10, 1, 0, 1].into(), [10, 2, 0, 1].into());
    let (src, dst) = if src_port > dst_port { (one, other) } else { (other, one) };
    let total_len = (28 + payload.len()) as u16;
    let ip = ipv4::Ipv4Fields {
        traffic_class: 0,
        total_len,
        ident: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src,
        dst,
    };
    let udp = udp::UdpFields { src_port, dst_port, len: total_len - 20, checksum: 0 };
    let mut packet = vec![0; 28];
    packet.extend_from_slice(payload);
    let _ = ip.emit(&mut packet);
    let _ = udp.emit(packet.get_mut(20..).unwrap_or_default());
    if let Ok(h) = parse_ip(&packet) {
        fill_l4_checksum(&mut packet, &h);
    }
    packet
}
