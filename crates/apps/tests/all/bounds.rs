//! Floods take no memory, and no flow is looked at for ever.

use apps::quic::{InitialKeys, Version, seal_initial};
use apps::{KnownBy, MOST_MEMORY, MOST_PACKETS};

use crate::lab::{Bench, client_hello, datagram, in_records, segment};

/// A packet with another source: the address of an IPv4 packet, and its checksum, written over.
fn from(packet: &[u8], n: u32) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[12..16].copy_from_slice(&n.to_be_bytes());
    packet[10..12].fill(0);
    let sum: u32 =
        packet[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn a_million_syns_leave_nothing_behind() {
    let mut bench = Bench::new(Vec::new());
    let syn = segment((1, 4000), (9, 443), 1, 0x02, b"");
    let syn = from(&syn, 0x0b00_0001);
    for n in 0..1_000_000u32 {
        let mut syn = syn.clone();
        // Another port: no header checksum has it.
        syn[20..22].copy_from_slice(&(n as u16).to_be_bytes());
        assert_eq!(bench.classifier.packet(u64::from(n) * 1000, &syn), None);
    }
    assert_eq!(bench.classifier.load(), (0, 0));
    assert_eq!(bench.classifier.tally().odd, 0, "they were read");
}

#[test]
fn floods_of_flows_that_begin_keep_within_bounds() {
    let mut bench = Bench::new(Vec::new());
    let hello = client_hello(Some("a.example"), false, 12_000);
    let stream = in_records(&hello, 16_000);
    let tls = segment((1, 4000), (9, 443), 1, 0x18, &stream[..1400]);
    let keys = InitialKeys::of(Version::V1, b"id").expect("an id");
    let far = [&[6, 0x7f, 0x00, 0x44, 0x00][..], &[7; 1024]].concat();
    let quic = seal_initial(&keys, b"id", 0, &far).expect("a packet");
    let quic = datagram((1, 4000), (9, 443), &quic);
    let mut most = (0, 0);
    for n in 0..20_000 {
        for packet in [&tls, &quic] {
            bench.classifier.packet(u64::from(n), &from(packet, n));
            let (flows, bytes) = bench.classifier.load();
            most = (most.0.max(flows), most.1.max(bytes));
        }
    }
    assert!(most.0 <= 8192, "{most:?}");
    assert!((MOST_MEMORY / 2..MOST_MEMORY + 65_536).contains(&most.1), "{most:?}");
    assert!(bench.classifier.tally().displaced > 20_000);
    // A flow that comes behind the flood is recognised.
    let whole = in_records(&client_hello(Some("a.calls.example"), false, 0), 4000);
    let verdict = bench.classifier.packet(0, &segment((2, 9), (9, 443), 1, 0x18, &whole));
    assert_eq!(verdict.map(|verdict| verdict.known_by), Some(KnownBy::Tls));
}

#[test]
fn a_flow_is_given_up_and_what_follows_counts_with_it() {
    let mut bench = Bench::new(Vec::new());
    let packet = |n: u64| segment((1, 4000), (9, 9), n as u32 * 4, 0x18, b"data");
    let verdicts: Vec<_> =
        (1..100).filter_map(|n| Some((n, bench.classifier.packet(n, &packet(n))?))).collect();
    let [(at, verdict)] = verdicts.as_slice() else { panic!("one verdict") };
    assert_eq!((*at, verdict.known_by), (MOST_PACKETS, KnownBy::Nothing));
    let count = bench.classifier.tally().of(verdict.application);
    assert_eq!((count.packets, count.bytes), (99, 99 * 44));
    assert_eq!(count.flows[KnownBy::Nothing as usize], 1);
    assert_eq!(bench.classifier.load().1, 0);
}

#[test]
fn questions_that_wait_are_bounded() {
    let mut bench = Bench::new(Vec::new());
    for n in 0..20_000u32 {
        let question = crate::lab::dns(n as u16, "calls.example", None, 0);
        let packet = datagram((1, 1024 + (n >> 8) as u16), (53, 53), &question);
        bench.classifier.packet(0, &packet);
    }
    // The first is given up, the last is not.
    let answer = |n: u32| {
        let answer = crate::lab::dns(n as u16, "calls.example", Some(&[9]), 60);
        datagram((53, 53), (1, 1024 + (n >> 8) as u16), &answer)
    };
    bench.classifier.packet(0, &answer(0));
    assert_eq!(bench.likely(1, 9, 1), None);
    bench.classifier.packet(0, &answer(19_999));
    assert_eq!(bench.likely(1, 9, 1).as_deref(), Some("calls"));
}

#[test]
fn a_packet_that_is_cut_tells_what_is_left() {
    let mut bench = Bench::new(Vec::new());
    let stream = in_records(&client_hello(Some("a.calls.example"), false, 0), 4000);
    let long = segment((1, 4000), (9, 443), 1, 0x18, &[&stream[..], &[0; 5000]].concat());
    let verdict = bench.classifier.packet(0, &long[..4096]);
    assert_eq!(verdict.map(|verdict| verdict.known_by), Some(KnownBy::Tls));
    let keys = InitialKeys::of(Version::V1, b"id").expect("an id");
    let hello = client_hello(Some("a.calls.example"), false, 900);
    let frame = [&[6, 0][..], &(0x4000 | hello.len() as u16).to_be_bytes(), &hello].concat();
    let packet = seal_initial(&keys, b"id", 0, &frame).expect("a packet");
    let long = datagram((1, 4000), (9, 443), &[&packet[..], &[0; 5000]].concat());
    let verdict = bench.classifier.packet(0, &long[..4096]);
    assert_eq!(verdict.map(|verdict| verdict.known_by), Some(KnownBy::Quic));
    assert_eq!(bench.classifier.tally().odd, 0);
}
