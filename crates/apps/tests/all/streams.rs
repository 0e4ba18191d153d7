//! A flow tells the same, wherever it is cut and in whatever order its pieces come.

use apps::quic::{InitialKeys, Version, seal_initial};
use apps::{AppId, KnownBy, Verdict};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::lab::{At, Bench, client_hello, datagram, in_records, name, segment};

const CLIENT: At = (1, 50_000);
const SERVER: At = (9, 443);

/// Parts of so many bytes between these cuts, in the order that `turns` makes.
fn parts(len: usize, cuts: &[Index], turns: &[Index]) -> Vec<(usize, usize)> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut parts: Vec<(usize, usize)> = cuts.windows(2).map(|cut| (cut[0], cut[1])).collect();
    for (at, turn) in turns.iter().enumerate().take(parts.len()) {
        let other = turn.index(parts.len());
        parts.swap(at, other);
    }
    parts
}

/// The only verdict on these packets.
fn verdict(packets: impl IntoIterator<Item = Vec<u8>>) -> Verdict {
    let mut bench = Bench::new(Vec::new());
    let packets = packets.into_iter();
    let mut found: Vec<_> = packets.filter_map(|p| bench.classifier.packet(0, &p)).collect();
    found.extend(bench.classifier.finish(0));
    let [verdict] = found.as_slice() else { panic!("{} verdicts", found.len()) };
    verdict.clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn segments_and_records_cut_anywhere(
        padding in 0usize..3000,
        record_len in 1usize..2000,
        first in any::<u32>(),
        cuts in prop::collection::vec(any::<Index>(), 0..10),
        turns in prop::collection::vec(any::<Index>(), 10),
    ) {
        let stream = in_records(&client_hello(Some("www.calls.example"), false, padding), record_len);
        let packets = parts(stream.len(), &cuts, &turns).into_iter().map(|(start, end)| {
            let sequence = first.wrapping_add(start as u32);
            segment(CLIENT, SERVER, sequence, 0x18, &stream[start..end])
        });
        let verdict = verdict(packets);
        prop_assert_eq!(verdict.host, Some(name("www.calls.example")));
        prop_assert_eq!(verdict.known_by, KnownBy::Tls);
    }

    #[test]
    fn crypto_frames_cut_anywhere_over_packets_in_any_order(
        is_v2 in any::<bool>(),
        padding in 1000usize..3000,
        per_packet in 1usize..5,
        cuts in prop::collection::vec(any::<Index>(), 0..16),
        turns in prop::collection::vec(any::<Index>(), 16),
    ) {
        let hello = client_hello(Some("www.calls.example"), true, padding);
        let id = b"made up";
        let keys = InitialKeys::of(if is_v2 { Version::V2 } else { Version::V1 }, id).expect("an id");
        let frames: Vec<Vec<u8>> = parts(hello.len(), &cuts, &turns).into_iter().map(|(start, end)| {
            let varint = |n: usize| (0x8000_0000 | n as u32).to_be_bytes();
            // A PING in front of each, and padding behind.
            [&[1, 6][..], &varint(start), &varint(end - start), &hello[start..end], &[0; 9]].concat()
        }).collect();
        let packets = frames.chunks(per_packet).enumerate().map(|(number, frames)| {
            let packet = seal_initial(&keys, id, number as u32, &frames.concat()).expect("a packet");
            datagram(CLIENT, SERVER, &packet)
        });
        let verdict = verdict(packets);
        prop_assert_eq!(verdict.host, Some(name("www.calls.example")));
        prop_assert_eq!(verdict.known_by, KnownBy::Quic);
    }
}

#[test]
fn the_host_of_a_hello_that_does_not_end() {
    let hello = client_hello(Some("www.calls.example"), false, 100);
    let stream = in_records(&hello, 4000);
    let verdict = verdict([segment(CLIENT, SERVER, 1, 0x18, &stream[..stream.len() - 2])]);
    assert_eq!((verdict.host, verdict.known_by), (Some(name("www.calls.example")), KnownBy::Tls));
}

#[test]
fn several_initial_packets_in_one_datagram() {
    let hello = client_hello(Some("a.example"), false, 900);
    let keys = InitialKeys::of(Version::V2, b"id").expect("an id");
    let (first, second) = hello.split_at(500);
    let frame = |offset: u16, bytes: &[u8]| {
        let [offset, len] = [offset, bytes.len() as u16].map(|n| (0x4000 | n).to_be_bytes());
        [&[6], &offset[..], &len, bytes].concat()
    };
    let packets = [frame(500, second), frame(0, first)]
        .into_iter()
        .enumerate()
        .map(|(n, frames)| seal_initial(&keys, b"id", n as u32, &frames).expect("a packet"));
    let verdict = verdict([datagram(CLIENT, SERVER, &packets.collect::<Vec<_>>().concat())]);
    assert_eq!((verdict.host, verdict.application), (Some(name("a.example")), AppId::QUIC));
}

#[test]
fn an_encrypted_hello_is_a_class_of_its_own() {
    let hidden = [Some("cloudflare-ech.com"), None];
    for host in hidden {
        let stream = in_records(&client_hello(host, true, 10), 4000);
        let verdict = verdict([segment(CLIENT, SERVER, 1, 0x18, &stream)]);
        assert_eq!(verdict.application, AppId::HIDDEN, "{host:?}");
        assert_eq!((verdict.host, verdict.known_by), (host.map(name), KnownBy::Hidden));
    }
    // GREASE, as browsers send it to servers without keys.
    let stream = in_records(&client_hello(Some("www.calls.example"), true, 10), 4000);
    let verdict = verdict([segment(CLIENT, SERVER, 1, 0x18, &stream)]);
    assert_eq!((verdict.host, verdict.known_by), (Some(name("www.calls.example")), KnownBy::Tls));
}

#[test]
fn requests_and_banners() {
    let request = b"GET / HTTP/1.1\r\nHost: files.example\r\n\r\n";
    let told = verdict([segment(CLIENT, (9, 80), 1, 0x18, request)]);
    assert_eq!((told.host, told.known_by), (Some(name("files.example")), KnownBy::Http));
    let told = verdict([
        segment((9, 22), CLIENT, 1, 0x18, b"SSH-2.0-x\r\n"),
        segment(CLIENT, (9, 22), 1, 0x18, b"SSH-2.0-y\r\n"),
    ]);
    assert_eq!((told.application, told.known_by), (AppId::UNKNOWN, KnownBy::Nothing));
}

#[test]
fn quic_without_the_part_that_names_the_host_is_quic() {
    let mut bench = Bench::new(Vec::new());
    let keys = InitialKeys::of(Version::V1, b"id").expect("an id");
    // A CRYPTO frame far behind the hello's beginning.
    let far = [&[6, 0x7f, 0x00, 0x40, 0x40][..], &[7; 64]].concat();
    let packet = seal_initial(&keys, b"id", 0, &far).expect("a packet");
    bench.classifier.packet(0, &datagram((1, 4000), (9, 443), &packet));
    let [verdict] = &bench.classifier.finish(1)[..] else { panic!("one flow") };
    assert_eq!((verdict.application, verdict.known_by), (AppId::QUIC, KnownBy::Protocol));
    assert_eq!(verdict.host, None);
}
