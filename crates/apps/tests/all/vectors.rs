//! Packets of the standards, byte for byte.

use apps::quic::{ClientSide, InitialKeys, Quic, Version, open_initials, seal_initial};
use apps::tls::{Hello, client_hello};
use apps::{AppId, KnownBy};

use crate::lab::{Bench, datagram, name, segment, vector};

const V1: &str = include_str!("../vectors/quic-v1-initial.hex");
const V2: &str = include_str!("../vectors/quic-v2-initial.hex");
const HELLO: &str = include_str!("../vectors/tls-client-hello.hex");

#[test]
fn initial_packets_of_both_versions_open_to_the_same_frames() {
    let packets = [V1, V2].map(|text| open_initials(&vector(text)).expect("an Initial packet"));
    let [[v1], [v2]] = packets.each_ref().map(Vec::as_slice) else { panic!("one packet each") };
    assert_eq!((v1.number, v1.payload.len()), (2, 1162));
    assert_eq!(v1, v2);
    assert_eq!(v1.payload[..8], [0x06, 0x00, 0x40, 0xf1, 0x01, 0x00, 0x00, 0xed]);
    let id = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
    for (version, text) in [(Version::V1, V1), (Version::V2, V2)] {
        let keys = InitialKeys::of(version, &id).expect("an id");
        assert_eq!(seal_initial(&keys, &id, 2, &v1.payload), Some(vector(text)), "{version:?}");
    }
}

#[test]
fn the_host_of_the_standards_clients() {
    for text in [V1, V2] {
        let mut bench = Bench::new(Vec::new());
        let packet = datagram((1, 50_000), (9, 443), &vector(text));
        let verdict = bench.classifier.packet(0, &packet).expect("a verdict");
        assert_eq!(verdict.host, Some(name("example.com")));
        assert_eq!((verdict.application, verdict.known_by), (AppId::QUIC, KnownBy::Quic));
    }
    let record = vector(HELLO);
    let Hello::Whole(hello) = client_hello(&record[5..]) else { panic!("a hello") };
    assert_eq!((hello.host, hello.alpn, hello.has_ech), (Some(name("server")), Vec::new(), false));
    let mut bench = Bench::new(Vec::new());
    let verdict = bench.classifier.packet(0, &segment((1, 50_000), (9, 443), 1, 0x18, &record));
    let verdict = verdict.expect("a verdict");
    assert_eq!((verdict.host, verdict.known_by), (Some(name("server")), KnownBy::Tls));
}

#[test]
fn a_packet_with_a_wrong_bit_tells_nothing() {
    let good = vector(V1);
    for at in [0, 4, 6, 20, 100, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x08;
        assert_eq!(ClientSide::default().datagram(&bad), Quic::No, "byte {at}");
    }
    for len in 0..good.len() {
        assert_eq!(ClientSide::default().datagram(&good[..len]), Quic::No, "cut at {len}");
    }
}
