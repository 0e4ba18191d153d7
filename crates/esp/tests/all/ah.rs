//! AH (RFC 4302): what scapy makes opens and is made alike; what is sealed opens again; what a router
//! may change does not matter, and all else does.

use crate::common::vector::{Vector, hex, lines};
use crate::common::{Bench, inner, own, params, sa, sa_with, tcp, udp};
use crypto::{Cipher, Keys, Suite};
use esp::{LiveNumbers, Mode, Protocol, SaError, SaFlags, SaParams};
use outcome::DropReason;
use proptest::prelude::*;
use wire::{Span, parse_ip};

fn suites() -> impl Iterator<Item = Suite> {
    Suite::all().filter(|suite| matches!(suite, Suite::Separate { cipher: Cipher::Null, .. }))
}

fn ah(suite: Suite, v4: bool, mode: Mode) -> SaParams {
    SaParams { protocol: Protocol::Ah, mode, ..params(suite, v4) }
}

fn sha1() -> Suite {
    suites().find(|suite| suite.to_string() == "null-sha1").expect("a suite")
}

fn vectors() -> Vec<Vector> {
    lines(include_str!("../vectors/scapy_ah.txt"))
        .map(|(line, fields)| vector(line, &fields))
        .collect()
}

fn vector(line: usize, fields: &[&str]) -> Vector {
    let &[name, mode, esn, seq, key, clear, sealed] = fields else {
        panic!("line {line} does not have seven fields");
    };
    let suite = suites().find(|s| s.to_string() == format!("null-{name}")).expect("a suite");
    let sealed = hex(sealed);
    let mode = if mode == "tunnel" { Mode::Tunnel } else { Mode::Transport };
    let params = SaParams {
        esn: esn == "1",
        flags: SaFlags { align4: true, ..SaFlags::default() },
        ..ah(suite, sealed[0] >> 4 == 4, mode)
    };
    let keys = Keys { cipher: vec![], salt: vec![], auth: hex(key) };
    Vector { line, params, keys, seq: seq.parse().unwrap(), clear: hex(clear), sealed }
}

#[test]
fn scapy_s_packets_open_and_are_made_alike() {
    let mut bench = Bench::new();
    let all = vectors();
    assert_eq!(all.len(), 4 * (8 + 8));
    for v in all {
        let sa = || sa_with(v.params.clone(), &v.keys, LiveNumbers::on_heap(64));
        let (tx, rx) = (sa(), sa());
        if v.params.esn {
            rx.replay().restore(v.seq - 1, |_| true);
        }
        assert_eq!(bench.open(&rx, &v.sealed), Ok(Some(v.clear.clone())), "line {}", v.line);
        tx.live().sent().store(v.seq - 1, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(bench.seal(&tx, &v.clear), Ok(v.sealed), "line {}", v.line);
    }
}

#[test]
fn every_suite_mode_family_and_alignment() {
    let mut bench = Bench::new();
    for suite in suites() {
        for (v4, inner_v4) in [(true, true), (true, false), (false, true), (false, false)] {
            for mode in [Mode::Tunnel, Mode::Transport] {
                for (esn, align4) in [(false, false), (true, true)] {
                    let flags = SaFlags { align4, ..SaFlags::default() };
                    let p = SaParams { esn, flags, ..ah(suite, v4, mode) };
                    // Either alignment is taken over IPv4.
                    let other = SaParams { flags: SaFlags::default(), ..p.clone() };
                    let (tx, rx) = (sa(p.clone()), sa(other));
                    for len in [0, 1, 2, 3, 5, 8, 500, 1300] {
                        let data = crate::common::data(len);
                        let packet = match mode {
                            Mode::Tunnel | Mode::Iptfs => inner(inner_v4, 0xb8, true, len),
                            Mode::Transport => own(&p, 17, &udp(7, 9, &data)),
                        };
                        let sealed = bench.seal(&tx, &packet).unwrap();
                        assert_eq!(sealed.len(), packet.len() + tx.overhead());
                        assert!(sealed.ends_with(&packet[packet.len() - 8..]));
                        assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)), "{suite} {len}");
                    }
                }
            }
        }
    }
}

/// A packet as routers change it on its way: TTL, DSCP, ECN, DF, flow label, checksum.
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[1] = 0x28;
        packet[6] ^= 0x40;
        packet[8] -= 9;
        wire::ipv4::fill_checksum(&mut packet);
    } else {
        packet[0] = 0x62;
        packet[1] = 0x8f;
        packet[2] ^= 0xff;
        packet[7] -= 9;
    }
    packet
}

#[test]
fn what_routers_change_does_not_matter() {
    let mut bench = Bench::new();
    for v4 in [true, false] {
        for mode in [Mode::Tunnel, Mode::Transport] {
            let p = ah(sha1(), v4, mode);
            let (tx, rx) = (sa(p.clone()), sa(p.clone()));
            let packet = match mode {
                Mode::Tunnel | Mode::Iptfs => inner(v4, 0, true, 100),
                Mode::Transport => own(&p, 6, &tcp(&crate::common::data(100))),
            };
            let sealed = routed(&bench.seal(&tx, &packet).unwrap());
            let expected = match mode {
                Mode::Tunnel | Mode::Iptfs => packet,
                // As it came, but for AH.
                Mode::Transport => {
                    let mut expected = routed(&packet);
                    if v4 {
                        wire::ipv4::fill_checksum(&mut expected);
                    }
                    expected
                }
            };
            assert_eq!(bench.open(&rx, &sealed), Ok(Some(expected)), "v4 {v4} {mode:?}");
        }
    }
}

/// Every bit that counts, in every byte of a packet with options.
#[test]
fn no_other_flipped_bit_goes_unnoticed() {
    let mut bench = Bench::new();
    let of_transport = |v: &Vector| v.params.mode == Mode::Transport && !v.params.esn;
    for v in vectors().into_iter().filter(|v| of_transport(v) && v.params.suite == sha1()) {
        let is_v4 = v.sealed[0] >> 4 == 4;
        let mutable: Vec<usize> = match is_v4 {
            true => vec![1, 6, 7, 8, 10, 11],
            false => vec![0, 1, 2, 3, 7],
        };
        for at in 0..v.sealed.len() {
            for bit in 0..8 {
                let mut packet = v.sealed.clone();
                packet[at] ^= 1 << bit;
                if is_v4 {
                    wire::ipv4::fill_checksum(&mut packet);
                }
                let Ok(h) = parse_ip(&packet) else { continue };
                let is_changeable = mutable.contains(&at) || is_option_data(&v.sealed, at);
                if h.protocol != 51 || usize::from(h.total_len) > packet.len() || is_changeable {
                    continue;
                }
                let rx = sa_with(v.params.clone(), &v.keys, LiveNumbers::on_heap(64));
                let opened = bench.open(&rx, &packet);
                assert!(opened.is_err(), "line {}, byte {at}, bit {bit}", v.line);
            }
        }
    }
}

/// True if a byte is of an option, in the vectors' packets, that may change: record route and an
/// unknown one in IPv4, whose contents do not matter; data of those marked so in IPv6.
fn is_option_data(packet: &[u8], at: usize) -> bool {
    match (packet[0], packet.get(40)) {
        (0x49, _) => (24..31).contains(&at) || (32..36).contains(&at),
        (_, Some(60)) if packet[6] == 0 => (44..48).contains(&at) || (68..72).contains(&at),
        _ => false,
    }
}

#[test]
fn what_ah_cannot_carry_is_refused() {
    let suite = sha1();
    let refused = |p: SaParams| {
        let session = crypto::Session::new(p.suite, Box::new(()));
        esp::Sa::new(p, session, LiveNumbers::on_heap(64)).map(|_| ()).unwrap_err()
    };
    let p = ah(suite, true, Mode::Tunnel);
    assert_eq!(refused(SaParams { encap: crate::common::NATT, ..p.clone() }), SaError::Ah);
    assert_eq!(refused(SaParams { tfc_pad_len: 9, ..p.clone() }), SaError::Ah);
    assert_eq!(refused(SaParams { suite: crate::common::GCM, ..p }), SaError::Ah);
}

#[test]
fn drops_have_their_reasons() {
    let mut bench = Bench::new();
    let p = ah(sha1(), true, Mode::Transport);
    let tx = sa(p.clone());
    let packet = own(&p, 17, &udp(7, 9, &crate::common::data(100)));
    let sealed = bench.seal(&tx, &packet).unwrap();
    let mut dropped = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bad = sealed.clone();
        change(&mut bad);
        wire::ipv4::fill_checksum(&mut bad);
        bench.open(&sa(p.clone()), &bad).unwrap_err()
    };
    assert_eq!(dropped(&|packet| packet[21] = 3), DropReason::MalformedAh);
    assert_eq!(dropped(&|packet| packet[21] = 5), DropReason::MalformedAh);
    assert_eq!(dropped(&|packet| packet[3] = 43), DropReason::MalformedAh);
    assert_eq!(dropped(&|packet| packet[28..32].fill(0)), DropReason::InSequenceZero);
    assert_eq!(dropped(&|packet| packet[50] ^= 1), DropReason::InIntegrity);
    assert_eq!(dropped(&|packet| packet[20] = 6), DropReason::InIntegrity);
    let rx = sa(p.clone());
    assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
    assert_eq!(bench.open(&rx, &sealed), Err(DropReason::InReplayDuplicate));
    // No room behind the packet.
    let h = parse_ip(&sealed).unwrap();
    let span = Span { start: 0, len: sealed.len() };
    let opened = sa(p.clone()).open_ah(&sealed, span, (&h).into());
    assert_eq!(opened.unwrap_err(), DropReason::InNoRoom);
    assert_eq!(
        bench.seal_in(&tx, &own(&p, 17, &udp(7, 9, &[])), 120, 31, |_, _| {}),
        Err(DropReason::OutNoRoom)
    );
    // A source route with hops left.
    let mut routed = own(&p, 17, &udp(7, 9, &crate::common::data(100)));
    routed.splice(20..20, [131, 7, 4, 1, 2, 3, 4, 0]);
    routed[0] = 0x47;
    routed[3] += 8;
    wire::ipv4::fill_checksum(&mut routed);
    assert_eq!(bench.seal(&tx, &routed), Err(DropReason::OutMode));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the options, the packet comes out as it went in.
    #[test]
    fn opening_undoes_sealing(
        suite in prop::sample::select(suites().collect::<Vec<_>>()),
        esn: bool,
        options in prop::collection::vec((1u8..=255, 0usize..7), 0..4),
        extensions in prop::collection::vec((prop::sample::select(vec![0u8, 60]), any::<[u8; 4]>()), 0..3),
        v4: bool,
        len in 0usize..1200,
    ) {
        let p = SaParams { esn, ..ah(suite, v4, Mode::Transport) };
        let mut packet = own(&p, 17, &udp(7, 9, &crate::common::data(len)));
        if v4 {
            let mut bytes = Vec::new();
            for (kind, len) in options {
                let is_route = matches!(kind, 131 | 137);
                bytes.extend([kind].into_iter().filter(|_| !is_route));
                if kind != 1 && !is_route {
                    bytes.push(len as u8 + 2);
                    bytes.extend(core::iter::repeat_n(kind, len));
                }
            }
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let total = (packet.len() + bytes.len()) as u16;
            packet[0] = 0x45 + bytes.len() as u8 / 4;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            packet.splice(20..20, bytes);
            wire::ipv4::fill_checksum(&mut packet);
        } else {
            let mut chain = Vec::new();
            for (i, (kind, data)) in extensions.into_iter().enumerate() {
                // Hop-by-hop options come first or not at all.
                let kind = if i == 0 { kind } else { 60 };
                let next_at = chain.len().checked_sub(8).map_or(6, |at| 40 + at);
                chain.extend([17, 0, 0x3e, 4]);
                chain.extend(data);
                if next_at == 6 { packet[6] = kind } else { chain[next_at - 40] = kind }
            }
            let total = u16::from_be_bytes([packet[4], packet[5]]) + chain.len() as u16;
            packet[4..6].copy_from_slice(&total.to_be_bytes());
            packet.splice(40..40, chain);
        }
        prop_assert!(parse_ip(&packet).is_ok());
        let mut bench = Bench::new();
        let sealed = bench.seal(&sa(p.clone()), &packet).unwrap();
        prop_assert_eq!(bench.open(&sa(p), &sealed), Ok(Some(packet)));
    }
}
