//! Each drop reason of this crate, produced by a packet; and what must not happen meanwhile.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::{Bench, GCM, NOW_S, inner, number, own, params, sa, suites, tcp, text, udp};
use crypto::{AesKey, Cipher, Integrity, JobStatus, Op, Suite};
use esp::{EcnDecap, IvSource, Mode, NumbersLeft, Opened, Sa, SaFlags, SaParams, TunnelHeaders};
use outcome::DropReason;
use wire::{Fragment, Span, parse_ip};

const CBC: Suite =
    Suite::Separate { cipher: Cipher::AesCbc(AesKey::Aes128), integrity: Integrity::Sha256_128 };

/// Everything that a dropped packet must leave as it was.
fn numbers(sa: &Sa) -> Vec<u64> {
    let c = sa.live();
    let fixed = [c.sent(), c.edge(), c.bytes(), c.packets(), c.first_use(), c.last_use()];
    fixed.into_iter().chain(c.bitmap()).map(|c| c.load(Relaxed)).collect()
}

/// Opens a packet that must be dropped for this reason, and looks for side effects.
fn dropped(bench: &mut Bench, sa: &Sa, sealed: &[u8], reason: DropReason) {
    let before = numbers(sa);
    assert_eq!(bench.open(sa, sealed), Err(reason));
    assert_eq!(numbers(sa), before, "{reason:?} left a trace");
}

#[test]
fn lengths_that_do_not_fit_the_cipher() {
    let mut bench = Bench::new();
    for suite in [GCM, CBC, Suite::ChaCha20Poly1305, Suite::integrity_only(Integrity::Sha1_96)] {
        let sa = sa(params(suite, true));
        let least = 8 + suite.iv_len_bytes() + suite.icv_len_bytes();
        for len in 0..least + 70 {
            let text_len = len.checked_sub(least).filter(|n| *n > 0);
            let fits = text_len.is_some_and(|n| n % suite.align_bytes() == 0);
            let packet =
                crate::common::ip(sa.params().src, sa.params().dst, 0, true, 50, &vec![1; len]);
            let reason = if fits { DropReason::InIntegrity } else { DropReason::MalformedEsp };
            dropped(&mut bench, &sa, &packet, reason);
        }
        let outside = Span { start: 10, len: usize::MAX };
        assert_eq!(sa.open_prepare(&[0; 100], outside), Err(DropReason::MalformedEsp));
    }
}

#[test]
fn replays() {
    let mut bench = Bench::new();
    let (tx, rx) = (sa(params(GCM, true)), sa(params(GCM, true)));
    let sealed: Vec<_> =
        (0..200).map(|i| bench.seal(&tx, &inner(true, 0, true, i)).unwrap()).collect();
    assert!(bench.open(&rx, &sealed[99]).is_ok());
    dropped(&mut bench, &rx, &sealed[99], DropReason::InReplayDuplicate);
    // Number 100 is the edge of a window of 64: 37 to 99 are inside, 36 is not.
    dropped(&mut bench, &rx, &sealed[35], DropReason::InReplayOld);
    assert!(bench.open(&rx, &sealed[36]).is_ok());
    dropped(&mut bench, &rx, &sealed[36], DropReason::InReplayDuplicate);
    assert_eq!(rx.live().replays().load(Relaxed), 2);
    assert_eq!(rx.live().too_old().load(Relaxed), 1);
    assert_eq!(rx.live().packets().load(Relaxed), 2);
}

#[test]
fn two_packets_with_one_number_in_a_burst() {
    let mut bench = Bench::new();
    let (tx, rx) = (sa(params(GCM, true)), sa(params(GCM, true)));
    let sealed = bench.seal(&tx, &inner(true, 0, true, 50)).unwrap();
    let h = parse_ip(&sealed).unwrap();
    let (outer, esp) =
        (Span { start: 0, len: sealed.len() }, Span { start: 20, len: sealed.len() - 20 });
    let mut burst = [sealed.clone(), sealed];
    let openings = burst.each_ref().map(|p| rx.open_prepare(p, esp).unwrap());
    let statuses = burst.each_mut().map(|p| bench.job(&rx, Op::Open, &mut p[20..], None));
    assert_eq!(statuses, [JobStatus::Done; 2]);
    let mut finish =
        |i: usize| rx.open_finish(&mut burst[i], outer, &h, &openings[i], statuses[i], NOW_S);
    assert!(matches!(finish(0), Ok(Opened::Packet { .. })));
    assert_eq!(finish(1), Err(DropReason::InReplayDuplicate));
    assert_eq!(rx.live().replays().load(Relaxed), 1);
    assert!(burst[1][20..].iter().all(|b| *b == 0));
}

#[test]
fn number_zero() {
    let mut bench = Bench::new();
    let packet = inner(true, 0, true, 8);
    for esn in [false, true] {
        let on = sa(SaParams { esn, ..params(GCM, true) });
        let zero = bench.forge(&on, 0, 0, &text(GCM, &packet, 4));
        dropped(&mut bench, &on, &zero, DropReason::InSequenceZero);
        // With the check off, Linux accepts it, and so does this.
        let off = sa(SaParams { esn, replay_window: 0, ..params(GCM, true) });
        assert_eq!(bench.open(&off, &zero), Ok(Some(packet.clone())));
        assert_eq!(bench.open(&off, &zero), Ok(Some(packet.clone())));
    }
}

#[test]
fn a_wrong_icv() {
    let mut bench = Bench::new();
    for suite in suites() {
        let (tx, rx) = (sa(params(suite, true)), sa(params(suite, true)));
        let mut sealed = bench.seal(&tx, &inner(true, 0, true, 50)).unwrap();
        *sealed.last_mut().unwrap() ^= 1;
        dropped(&mut bench, &rx, &sealed, DropReason::InIntegrity);
        assert_eq!(rx.live().integrity_failures().load(Relaxed), 1);
        // The genuine packet still passes: the window did not move.
        *sealed.last_mut().unwrap() ^= 1;
        assert!(bench.open(&rx, &sealed).is_ok());
    }
}

#[test]
fn an_engine_that_fails() {
    let mut bench = Bench::new();
    let (tx, rx) = (sa(params(GCM, true)), sa(params(GCM, true)));
    let sealed = bench.seal(&tx, &inner(true, 0, true, 50)).unwrap();
    let h = parse_ip(&sealed).unwrap();
    let (outer, esp) =
        (Span { start: 0, len: sealed.len() }, Span { start: 20, len: sealed.len() - 20 });
    for status in [JobStatus::Failed, JobStatus::Pending] {
        let before = numbers(&rx);
        let opening = rx.open_prepare(&sealed, esp).unwrap();
        let result = rx.open_finish(&mut sealed.clone(), outer, &h, &opening, status, NOW_S);
        assert_eq!(result, Err(DropReason::InCrypto));
        assert_eq!(numbers(&rx), before);
        assert_eq!(rx.live().integrity_failures().load(Relaxed), 0);
    }
    // Outbound, the packet may still be cleartext: it is destroyed.
    let packet = inner(true, 0, true, 50);
    let mut buf = vec![0; 100];
    buf.extend_from_slice(&packet);
    buf.resize(400, 0);
    let span = Span { start: 100, len: packet.len() };
    let mut ivs = IvSource::from_seed([1; 32]);
    let ph = parse_ip(&packet).unwrap();
    let sealing =
        tx.seal_prepare(&mut buf, span, &ph, number(&tx).unwrap(), &mut ivs, 1500).unwrap();
    let failed = tx.seal_finish(&mut buf, &sealing, JobStatus::Failed);
    assert_eq!(failed, Err(DropReason::OutCrypto));
    assert!(buf.iter().all(|b| *b == 0));
    // Inbound, the same packet passes once the engine works again.
    assert!(bench.open(&rx, &sealed).is_ok());
}

#[test]
fn padding() {
    let mut bench = Bench::new();
    for suite in [GCM, CBC] {
        let sa = sa(params(suite, true));
        let good = text(suite, &inner(true, 0, true, 23), 4);
        let pad_len = good[good.len() - 2];
        assert!(pad_len > 1, "the case needs padding");
        let mut seq = 0;
        let mut case = |bench: &mut Bench, text: &[u8]| {
            seq += 1;
            let sealed = bench.forge(&sa, seq, 0, text);
            dropped(bench, &sa, &sealed, DropReason::InPadding);
        };
        for i in 0..usize::from(pad_len) {
            let mut bad = good.clone();
            let at = bad.len() - 3 - i;
            bad[at] ^= 0x40;
            case(&mut bench, &bad);
        }
        // A pad length beyond the text's beginning, by one byte and by far.
        for pad_len in [good.len() as u8 - 1, 255] {
            let mut bad = good.clone();
            let at = bad.len() - 2;
            bad[at] = pad_len;
            case(&mut bench, &bad);
        }
        // 255 bytes of right padding are right, whatever alignment asks for.
        let mut long = inner(true, 0, true, 3);
        let packet = long.clone();
        long.resize(31, 0);
        long.extend(1..=255);
        long.extend([255, 4]);
        let sealed = bench.forge(&sa, 500, 0, &long);
        assert_eq!(bench.open(&sa, &sealed), Ok(Some(packet)));
    }
}

/// VPP's `ef5a3e9ea` (2026): the footer's padding length was taken off the packet's length unseen, which wrapped round.
/// Each of 256 lengths, in packets that are shorter than it and in longer ones.
#[test]
fn the_padding_length_of_the_footer_beyond_the_packet() {
    let mut bench = Bench::new();
    let transport = |suite| SaParams { mode: Mode::Transport, ..params(suite, true) };
    let null = Suite::integrity_only(Integrity::Sha256_128);
    for suite in [GCM, CBC, Suite::ChaCha20Poly1305, null] {
        for (sa, next_header) in [(sa(params(suite, true)), 4), (sa(transport(suite)), 17)] {
            let (align, mut seq) = (suite.align_bytes().max(4), 0);
            for text_len in [align, 16, 64, 256, 512] {
                for pad_len in 0..=255_u8 {
                    // Right padding as far as there is room, so that its length alone is wrong.
                    let mut text = vec![0x45; text_len];
                    let rest = text_len - 2;
                    let padding = rest.min(pad_len.into());
                    let bytes = (1..=pad_len).rev().zip(text.iter_mut().take(rest).rev());
                    bytes.take(padding).for_each(|(byte, place)| *place = byte);
                    text[rest..].copy_from_slice(&[pad_len, next_header]);
                    seq += 1;
                    let sealed = bench.forge(&sa, seq, 0, &text);
                    let opened = bench.open(&sa, &sealed);
                    match usize::from(pad_len) > rest {
                        true => {
                            assert_eq!(opened, Err(DropReason::InPadding), "{suite:?}, {pad_len}")
                        }
                        // What is inside of a tunnel is no packet.
                        false if next_header == 4 => {
                            assert_eq!(
                                opened,
                                Err(DropReason::InInnerHeader),
                                "{suite:?}, {pad_len}"
                            );
                        }
                        false => {
                            let packet = opened.expect("fits").expect("no dummy");
                            assert_eq!(packet.len(), 20 + rest - usize::from(pad_len));
                        }
                    }
                }
            }
            assert_eq!(sa.live().integrity_failures().load(Relaxed), 0);
        }
    }
}

#[test]
fn next_header() {
    let mut bench = Bench::new();
    let sa = sa(params(GCM, true));
    let (v4, v6) = (inner(true, 0, true, 9), inner(false, 0, true, 9));
    for (payload, next, reason) in [
        (&v4, 41, DropReason::InNextHeader),
        (&v6, 4, DropReason::InNextHeader),
        (&v4, 17, DropReason::InStateMode),
        (&v4, 6, DropReason::InStateMode),
        (&v4, 0, DropReason::InStateMode),
        (&vec![], 4, DropReason::InInnerHeader),
        (&vec![], 41, DropReason::InInnerHeader),
    ] {
        let sealed = bench.forge(&sa, 1, 0, &text(GCM, payload, next));
        dropped(&mut bench, &sa, &sealed, reason);
    }
}

#[test]
fn inner_headers() {
    let mut bench = Bench::new();
    let sa = sa(params(GCM, true));
    let (v4, v6) = (inner(true, 0, true, 9), inner(false, 0, true, 9));
    let mut cases = Vec::new();
    for len in 1..v4.len() {
        cases.push((v4[..len].to_vec(), 4));
    }
    for len in 1..v6.len() {
        cases.push((v6[..len].to_vec(), 41));
    }
    let mut short_ihl = v4.clone();
    short_ihl[0] = 0x44;
    let mut checksum = v4.clone();
    checksum[10] ^= 1;
    let mut tiny = v4.clone();
    tiny[2..4].copy_from_slice(&[0, 19]);
    wire::ipv4::fill_checksum(&mut tiny);
    cases.extend([(short_ihl, 4), (checksum, 4), (tiny, 4)]);
    for (payload, next) in cases {
        let sealed = bench.forge(&sa, 1, 0, &text(GCM, &payload, next));
        dropped(&mut bench, &sa, &sealed, DropReason::InInnerHeader);
    }
}

/// Behind UDP encapsulation the upper layer has to be there for its checksum to be repaired.
#[test]
fn transport_content_behind_a_nat() {
    let mut bench = Bench::new();
    let p = SaParams { mode: Mode::Transport, encap: crate::common::NATT, ..params(GCM, true) };
    let sa = sa(p);
    let mut long_udp = udp(1, 2, b"length says more");
    long_udp[5] += 1;
    // Without a checksum there would be nothing to repair.
    long_udp[7] = 1;
    for (payload, next) in
        [(tcp(b"")[..15].to_vec(), 6), (vec![0, 1, 0], 6), (vec![0; 7], 17), (long_udp, 17)]
    {
        let sealed = bench.forge(&sa, 1, 0, &text(GCM, &payload, next));
        dropped(&mut bench, &sa, &sealed, DropReason::InInnerHeader);
    }
}

#[test]
fn congestion_that_cannot_be_passed_on() {
    let mut bench = Bench::new();
    for (outer, inner_v4) in [(true, true), (true, false), (false, true), (false, false)] {
        let rfc = sa(params(GCM, outer));
        let next = if inner_v4 { 4 } else { 41 };
        let ce = bench.forge(&rfc, 1, 3, &text(GCM, &inner(inner_v4, 0, true, 9), next));
        dropped(&mut bench, &rfc, &ce, DropReason::InEcn);
        let linux = sa(params(GCM, outer))
            .with_tunnel_headers(TunnelHeaders { ecn: EcnDecap::Linux, ..Default::default() });
        let off = SaFlags { no_ecn: true, ..SaFlags::default() };
        let none = sa(SaParams { flags: off, ..params(GCM, outer) });
        for sa in [linux, none] {
            assert_eq!(bench.open(&sa, &ce), Ok(Some(inner(inner_v4, 0, true, 9))));
        }
    }
}

#[test]
fn encapsulation_other_than_the_sas() {
    let mut bench = Bench::new();
    for v4 in [true, false] {
        for mode in [Mode::Tunnel, Mode::Transport] {
            let bare = SaParams { mode, ..params(GCM, v4) };
            let encap = SaParams { encap: crate::common::NATT, ..bare.clone() };
            for (sender, receiver) in [(&bare, &encap), (&encap, &bare)] {
                let (tx, rx) = (sa(sender.clone()), sa(receiver.clone()));
                let packet = own(sender, 17, &udp(1, 2, b"x"));
                let mut sealed = bench.seal(&tx, &packet).unwrap();
                let h = parse_ip(&sealed).unwrap();
                let at = usize::from(h.header_len) + if sender.encap.is_some() { 8 } else { 0 };
                let outer = Span { start: 0, len: sealed.len() };
                let esp = Span { start: at, len: sealed.len() - at };
                let before = numbers(&rx);
                let opening = rx.open_prepare(&sealed, esp).unwrap();
                let status = bench.job(&rx, Op::Open, &mut sealed[at..], None);
                assert_eq!(status, JobStatus::Done);
                let result = rx.open_finish(&mut sealed, outer, &h, &opening, status, NOW_S);
                assert_eq!(result, Err(DropReason::InEncapMismatch));
                assert_eq!(numbers(&rx), before);
                assert!(sealed[at..].iter().all(|b| *b == 0));
            }
        }
    }
}

/// Each part of the geometry by itself: protocol, family, place of ESP, end of the packet.
#[test]
fn esp_elsewhere_than_the_headers_say() {
    let mut bench = Bench::new();
    for encap in [None, crate::common::NATT] {
        let p = SaParams { encap, ..params(GCM, true) };
        let (tx, rx) = (sa(p.clone()), sa(p));
        let sealed = bench.seal(&tx, &inner(true, 0, true, 20)).unwrap();
        let at = if encap.is_some() { 28 } else { 20 };
        let good = parse_ip(&sealed).unwrap();
        let whole = Span { start: 0, len: sealed.len() };
        let six = parse_ip(&inner(false, 0, true, 0)).unwrap();
        let cases = [
            (whole, wire::Headers { protocol: 51, ..good }),
            (whole, wire::Headers { protocol: 67 - good.protocol, ..good }),
            (whole, wire::Headers { header_len: 24, ..good }),
            (whole, wire::Headers { header_len: 12, ..good }),
            (whole, wire::Headers { src: six.src, dst: six.dst, ..good }),
            (Span { start: 0, len: sealed.len() - 1 }, good),
            (Span { start: 4, len: sealed.len() - 4 }, good),
        ];
        for (outer, h) in cases {
            let mut buf = sealed.clone();
            let esp = Span { start: at, len: sealed.len() - at };
            let opening = rx.open_prepare(&buf, esp).unwrap();
            let status = bench.job(&rx, Op::Open, &mut buf[at..], None);
            let result = rx.open_finish(&mut buf, outer, &h, &opening, status, NOW_S);
            assert_eq!(result, Err(DropReason::InEncapMismatch), "{outer:?} {h:?}");
        }
        assert!(bench.open(&rx, &sealed).is_ok());
    }
}

#[test]
fn dummies_are_swallowed_and_move_the_window() {
    let mut bench = Bench::new();
    for mode in [Mode::Tunnel, Mode::Transport] {
        let sa = sa(SaParams { mode, ..params(GCM, true) });
        let dummy = bench.forge(&sa, 5, 0, &text(GCM, &[0xee; 30], 59));
        assert_eq!(bench.open(&sa, &dummy), Ok(None));
        assert_eq!(sa.replay().edge(), 5);
        assert_eq!(sa.live().packets().load(Relaxed), 0);
        dropped(&mut bench, &sa, &dummy, DropReason::InReplayDuplicate);
    }
}

#[test]
fn the_last_number() {
    let mut bench = Bench::new();
    for esn in [false, true] {
        let p = SaParams { esn, ..params(GCM, true) };
        let (tx, rx) = (sa(p.clone()), sa(p));
        let last = if esn { u64::MAX } else { u64::from(u32::MAX) };
        tx.live().sent().store(last - 2, Relaxed);
        rx.replay().restore(last - 2, |_| false);
        assert_eq!(tx.numbers_left(), NumbersLeft::Low { left: 2 });
        let packet = inner(true, 0, true, 9);
        for _ in 0..2 {
            let sealed = bench.seal(&tx, &packet).unwrap();
            assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet.clone())));
        }
        let before = numbers(&tx);
        assert_eq!(bench.seal(&tx, &packet), Err(DropReason::OutSequenceExhausted));
        assert_eq!(numbers(&tx), before);
        assert_eq!(tx.numbers_left(), NumbersLeft::Exhausted);
    }
}

#[test]
fn no_room() {
    let mut bench = Bench::new();
    for suite in suites() {
        for mode in [Mode::Tunnel, Mode::Transport] {
            let p = SaParams { mode, encap: crate::common::NATT, ..params(suite, true) };
            let tx = sa(p.clone());
            let packet = own(&p, 253, &crate::common::data(101));
            let front = tx.headroom();
            let visible = if mode == Mode::Tunnel { 0 } else { 20 };
            let behind = tx.sealed_len(packet.len(), visible) - front - packet.len();
            assert!(bench.seal_in(&tx, &packet, front, behind, |_, _| {}).is_ok());
            let cases =
                [(front - 1, behind), (front, behind - 1), (front + 99, behind - 1), (0, 0)];
            for (front, behind) in cases {
                let result = bench.seal_in(&tx, &packet, front, behind, |_, _| {});
                assert_eq!(result, Err(DropReason::OutNoRoom), "{suite} {front} {behind}");
            }
            assert_eq!(tx.live().packets().load(Relaxed), 1, "a failure is not counted");
        }
    }
}

#[test]
fn longer_than_any_ip_packet() {
    let mut bench = Bench::new();
    for v4 in [true, false] {
        let tx = sa(params(GCM, v4));
        let max = tx.max_inner_len(usize::MAX);
        let at = |len: usize| inner(true, 0, true, len - 28);
        assert!(bench.seal(&tx, &at(max)).is_ok());
        assert_eq!(bench.seal(&tx, &at(max + 1)), Err(DropReason::OutTooBig));
        assert_eq!(tx.live().packets().load(Relaxed), 1);
    }
}

#[test]
fn what_transport_mode_cannot_carry() {
    let tx = sa(SaParams { mode: Mode::Transport, ..params(GCM, true) });
    let mut ivs = IvSource::from_seed([1; 32]);
    let mut seal = |packet: &[u8], fragment| {
        let mut h = parse_ip(packet).unwrap();
        h.fragment = fragment;
        let mut buf = vec![0; 600];
        buf[100..100 + packet.len()].copy_from_slice(packet);
        let before = buf.clone();
        let span = Span { start: 100, len: packet.len() };
        let number = number(&tx).unwrap();
        let result = tx.seal_prepare(&mut buf, span, &h, number, &mut ivs, 1500);
        assert!(result.is_ok() || buf == before, "an error leaves the buffer alone");
        let counted = tx.payload_len(packet, &h).map(|_| ());
        assert_eq!(counted, result.map(|_| ()), "what cannot travel is not counted");
        counted
    };
    let v4 = inner(true, 0, true, 9);
    assert_eq!(seal(&v4, Fragment::First), Err(DropReason::OutMode));
    assert_eq!(seal(&v4, Fragment::Later), Err(DropReason::OutMode));
    assert_eq!(seal(&inner(false, 0, true, 9), Fragment::Whole), Err(DropReason::OutMode));
    assert_eq!(seal(&v4, Fragment::Whole), Ok(()));
}

#[test]
fn a_packet_shorter_than_its_header_says() {
    let tx = sa(params(GCM, true));
    let packet = inner(true, 0, true, 9);
    let h = parse_ip(&packet).unwrap();
    let mut ivs = IvSource::from_seed([1; 32]);
    let mut buf = [0; 300];
    for span in [
        Span { start: 100, len: packet.len() - 1 },
        Span { start: 290, len: packet.len() },
        Span { start: usize::MAX, len: packet.len() },
    ] {
        let number = number(&tx).unwrap();
        let result = tx.seal_prepare(&mut buf, span, &h, number, &mut ivs, 1500);
        assert_eq!(result, Err(DropReason::MalformedIp));
    }
}
