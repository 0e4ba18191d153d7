//! Damaged and invented packets: none opens, none panics.

use crate::common::{Bench, inner, own, params, sa, suites, udp};
use esp::{Mode, SaParams, fuzz};
use outcome::DropReason;
use proptest::prelude::*;
use wire::{Span, parse_ip};

/// Opens the ESP part as it is, whatever became of it, with the undamaged outer header.
fn open_raw(bench: &mut Bench, sa: &esp::Sa, header: &[u8], esp: &[u8]) -> Result<(), DropReason> {
    let h = parse_ip(header).unwrap();
    let at = header.len() - usize::from(h.total_len - h.header_len)
        + if sa.params().encap.is_some() { 8 } else { 0 };
    let mut buf = header[..at].to_vec();
    buf.extend_from_slice(esp);
    let outer = Span { start: 0, len: buf.len() };
    let span = Span { start: at, len: esp.len() };
    let opening = sa.open_prepare(&buf, span)?;
    let status = bench.job(sa, crypto::Op::Open, &mut buf[at..], opening.seq_hi);
    sa.open_finish(&mut buf, outer, &h, &opening, status, 1).map(|_| ())
}

fn forms() -> impl Iterator<Item = SaParams> {
    suites().flat_map(|suite| {
        [
            (Mode::Tunnel, None, false),
            (Mode::Tunnel, crate::common::NATT, true),
            (Mode::Transport, None, true),
        ]
        .into_iter()
        .map(move |(mode, encap, esn)| SaParams {
            mode,
            encap,
            esn,
            ..params(suite, true)
        })
    })
}

fn esp_at(p: &SaParams) -> usize {
    20 + if p.encap.is_some() { 8 } else { 0 }
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let mut bench = Bench::new();
    for p in forms() {
        let (tx, rx) = (sa(p.clone()), sa(p.clone()));
        let packet = own(&p, 17, &udp(1, 2, &crate::common::data(20)));
        let sealed = bench.seal(&tx, &packet).unwrap();
        let esp = &sealed[esp_at(&p)..];
        // The SPI is looked up before; with an AEAD or HMAC it is authenticated all the same.
        for byte in 0..esp.len() {
            for bit in 0..8 {
                let mut bad = esp.to_vec();
                bad[byte] ^= 1 << bit;
                let result = open_raw(&mut bench, &rx, &sealed, &bad);
                assert!(result.is_err(), "{} byte {byte} bit {bit}", p.suite);
            }
        }
        assert_eq!(rx.replay().edge(), 0);
        assert_eq!(rx.live().packets().load(std::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(open_raw(&mut bench, &rx, &sealed, esp), Ok(()));
    }
}

#[test]
fn no_truncated_or_extended_packet_opens() {
    let mut bench = Bench::new();
    for p in forms() {
        let (tx, rx) = (sa(p.clone()), sa(p.clone()));
        let packet = own(&p, 17, &udp(1, 2, &crate::common::data(40)));
        let sealed = bench.seal(&tx, &packet).unwrap();
        let esp = &sealed[esp_at(&p)..];
        for len in 0..esp.len() {
            assert!(open_raw(&mut bench, &rx, &sealed, &esp[..len]).is_err(), "{}", p.suite);
        }
        for more in 1..40 {
            let mut long = esp.to_vec();
            long.resize(esp.len() + more, 0);
            assert!(open_raw(&mut bench, &rx, &sealed, &long).is_err(), "{}", p.suite);
        }
        assert_eq!(rx.replay().edge(), 0);
    }
}

#[test]
fn a_wrong_high_half_does_not_open() {
    let mut bench = Bench::new();
    for suite in suites() {
        let p = SaParams { esn: true, ..params(suite, true) };
        let (tx, rx) = (sa(p.clone()), sa(p));
        let sealed = bench.seal(&tx, &inner(true, 0, true, 20)).unwrap();
        // A receiver one subspace further takes the number for another one.
        rx.replay().restore((1 << 32) + 100, |_| false);
        assert_eq!(bench.open(&rx, &sealed), Err(DropReason::InIntegrity), "{suite}");
    }
}

/// A decrypted text, and a cleartext packet, in front of which all checks passed: what the
/// parsers meet if the peer itself is hostile.
fn almost_valid() -> impl Strategy<Value = Vec<u8>> {
    let packet = (any::<bool>(), any::<u8>(), 0usize..80, any::<bool>())
        .prop_map(|(v4, tc, len, df)| inner(v4, tc, df, len));
    (any::<u8>(), packet, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4))
        .prop_map(|(choice, mut packet, changes)| {
            for (at, value) in changes {
                let at = at.index(packet.len());
                packet[at] = value;
            }
            packet.insert(0, choice);
            packet
        })
}

/// An outer packet with a valid IP header around noise or around a decrypted text.
fn outer() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        (almost_valid(), any::<[u8; 2]>(), 0u8..20).prop_map(|(packet, ends, pad)| {
            let mut text = packet[1..].to_vec();
            text.extend(1..=pad);
            text.extend([pad, if ends[0] & 1 == 0 { 4 } else { 41 }]);
            text.extend([ends[1]; 16]);
            text
        }),
    ];
    (any::<u8>(), any::<bool>(), any::<u8>(), text).prop_map(|(choice, v4, tc, text)| {
        let natt = choice & 8 != 0;
        let mut upper = if natt { vec![0; 8] } else { Vec::new() };
        upper.extend([0, 0, 1, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
        upper.extend(text);
        let (src, dst) = if v4 { crate::common::V4 } else { crate::common::V6 };
        let protocol = if natt { 17 } else { 50 };
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        let mut packet = crate::common::ip(src, dst, tc, true, protocol, &upper);
        packet.insert(0, choice);
        packet
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn hostile_texts(data in outer()) {
        fuzz::open(&data);
    }

    #[test]
    fn hostile_cleartexts(mut data in almost_valid(), room: u8) {
        data.insert(1, room);
        fuzz::seal(&data);
    }

    #[test]
    fn noise(data in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz::open(&data);
        fuzz::seal(&data);
    }
}
