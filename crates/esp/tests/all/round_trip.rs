//! Sealed packets open again, as they were.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::{Bench, inner, own, params, sa, suites, tcp, udp};
use esp::{EcnDecap, Mode, OuterDf, OuterDscp, SaFlags, SaParams, TunnelHeaders};
use proptest::prelude::*;
use wire::parse_ip;

/// Every payload size in small steps at the beginning and around blocks, irregular ones up to the
/// link's limit.
fn sizes() -> impl Iterator<Item = usize> {
    (0..66).chain((66..1400).step_by(37)).chain(1400..1420)
}

#[test]
fn every_suite_in_every_tunnel() {
    let mut bench = Bench::new();
    for suite in suites() {
        for (outer_v4, inner_v4) in [(true, true), (true, false), (false, true), (false, false)] {
            for encap in [None, crate::common::NATT] {
                for esn in [false, true] {
                    let p = SaParams { encap, esn, ..params(suite, outer_v4) };
                    let (tx, rx) = (sa(p.clone()), sa(p));
                    for len in sizes().step_by(9) {
                        let packet = inner(inner_v4, 0, true, len);
                        let sealed = bench.seal(&tx, &packet).unwrap();
                        assert_eq!(sealed.len(), tx.sealed_len(packet.len(), 0));
                        assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)), "{suite}, {len}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_size() {
    let mut bench = Bench::new();
    for suite in suites() {
        let (tx, rx) = (sa(params(suite, true)), sa(params(suite, true)));
        let mut bytes = 0;
        for len in sizes() {
            let packet = inner(true, 0, true, len);
            let sealed = bench.seal(&tx, &packet).unwrap();
            assert_eq!(bench.open(&rx, &sealed).as_ref(), Ok(&Some(packet.clone())));
            bytes += packet.len() as u64;
        }
        for live in [tx.live(), rx.live()] {
            assert_eq!(live.bytes().load(std::sync::atomic::Ordering::Relaxed), bytes);
        }
    }
}

#[test]
fn every_suite_in_transport_mode() {
    let mut bench = Bench::new();
    for suite in suites() {
        for v4 in [true, false] {
            for encap in [None, crate::common::NATT] {
                for esn in [false, true] {
                    let p = SaParams { mode: Mode::Transport, encap, esn, ..params(suite, v4) };
                    let (tx, rx) = (sa(p.clone()), sa(p.clone()));
                    for len in sizes().step_by(11) {
                        let data = crate::common::data(len);
                        for packet in [own(&p, 17, &udp(7, 9, &data)), own(&p, 6, &tcp(&data))] {
                            let sealed = bench.seal(&tx, &packet).unwrap();
                            let visible = if v4 { 20 } else { 40 };
                            assert_eq!(sealed.len(), tx.sealed_len(packet.len(), visible));
                            assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
                        }
                    }
                }
            }
        }
    }
}

/// 60 bytes of IPv4 header, and an IPv6 chain of which a part stays visible.
#[test]
fn transport_with_options_and_extension_headers() {
    let mut bench = Bench::new();
    for encap in [None, crate::common::NATT] {
        let p = SaParams { mode: Mode::Transport, encap, ..params(crate::common::GCM, true) };
        let (tx, rx) = (sa(p.clone()), sa(p.clone()));
        let mut packet = own(&p, 17, &udp(7, 9, b"options"));
        packet.splice(20..20, [1; 40]);
        packet[0] = 0x4f;
        packet[3] += 40;
        wire::ipv4::fill_checksum(&mut packet);
        let sealed = bench.seal(&tx, &packet).unwrap();
        let h = parse_ip(&sealed).unwrap();
        assert_eq!(h.header_len, 60);
        assert_eq!(h.protocol, if encap.is_some() { 17 } else { 50 });
        assert_eq!(&sealed[20..60], &[1; 40]);
        assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));

        // Hop-by-hop and routing stay in front, the destination options after them go inside.
        let p = SaParams { mode: Mode::Transport, encap, ..params(crate::common::GCM, false) };
        let (tx, rx) = (sa(p.clone()), sa(p.clone()));
        let mut chain = vec![43, 0, 1, 4, 0, 0, 0, 0];
        chain.extend([60, 0, 2, 0, 0, 0, 0, 0]);
        chain.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        chain.extend(udp(7, 9, b"extensions"));
        let mut packet = crate::common::ip(p.src, p.dst, 0, true, 0, &chain);
        let h = parse_ip(&packet).unwrap();
        assert!(wire::fill_l4_checksum(&mut packet, &h));
        let sealed = bench.seal(&tx, &packet).unwrap();
        assert_eq!(parse_ip(&sealed).unwrap().header_len, 56);
        assert_eq!(sealed[48], if encap.is_some() { 17 } else { 50 });
        assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
    }
}

#[test]
fn ethernet_padding_is_not_sealed() {
    let mut bench = Bench::new();
    let (tx, rx) = (sa(params(crate::common::GCM, true)), sa(params(crate::common::GCM, true)));
    let packet = inner(true, 0, true, 3);
    let mut frame = packet.clone();
    frame.extend([0; 15]);
    let sealed = bench.seal_in(&tx, &frame, 36, 100, |_, _| {});
    // The padding bytes behind the sealed packet are overwritten or left; the content is what
    // counts.
    assert_eq!(bench.open(&rx, &sealed.unwrap()), Ok(Some(packet)));
}

#[test]
fn tfc_padding_hides_the_length_and_is_cut() {
    let mut bench = Bench::new();
    for (to, sealed_len) in [(600, 656), (u32::MAX, 1500)] {
        let p = SaParams { tfc_pad_len: to, ..params(crate::common::GCM, true) };
        let (tx, rx) = (sa(p.clone()), sa(p));
        for inner_v4 in [true, false] {
            for len in [0, 1, 100, 400] {
                let packet = inner(inner_v4, 0, true, len);
                let sealed = bench.seal(&tx, &packet).unwrap();
                assert_eq!(sealed.len(), sealed_len);
                assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
            }
        }
        // A packet that is longer than the padding asks for is not cut.
        let packet = inner(true, 0, true, 1400);
        let sealed = bench.seal(&tx, &packet).unwrap();
        assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
    }
}

/// Linux's `xfrm_state_mtu` (2026): TFC padding was taken off a tiny MTU, which wrapped round, and packets of any length
/// fitted then.
#[test]
fn no_mtu_underflows_by_tfc_padding() {
    let mut bench = Bench::new();
    let modes = [Mode::Tunnel, Mode::Transport];
    for (suite, mode, encap) in crate::common::all_suites()
        .flat_map(|suite| modes.map(|mode| (suite, mode)))
        .flat_map(|(suite, mode)| [None, crate::common::NATT].map(|encap| (suite, mode, encap)))
    {
        let of = |tfc_pad_len| {
            let base = params(suite, true);
            sa(SaParams { mode, encap, tfc_pad_len, ..base })
        };
        let plain = of(0);
        for tfc_pad_len in [1, 64, 1500, 65_535, u32::MAX] {
            let padded = of(tfc_pad_len);
            let mut last = 0;
            for mtu in 0..=1500 {
                let fits = padded.max_inner_len(mtu);
                assert_eq!(fits, plain.max_inner_len(mtu), "the packet counts, not its padding");
                assert!(fits <= mtu && fits >= last, "{suite:?}, {mode:?}: {fits} of {mtu}");
                last = fits;
            }
        }
    }
    // What is sealed fits as well, padded as far as the MTU has room.
    for suite in crate::common::suites() {
        for tfc_pad_len in [64, 1500, u32::MAX] {
            let base = SaParams { tfc_pad_len, ..params(suite, true) };
            let (tx, rx) = (sa(base.clone()), sa(base));
            for mtu in [0, 1, 20, 68, 100, 576, 1500] {
                bench.mtu = mtu;
                let fits = tx.max_inner_len(mtu);
                for len in [0, 100, fits.saturating_sub(28).min(1400)] {
                    let packet = inner(true, 0, true, len);
                    let sealed = bench.seal(&tx, &packet).unwrap();
                    // What does not fit is not padded, and somebody else's to refuse or to cut.
                    let alone = tx.sealed_len(packet.len(), 0);
                    let longest = if packet.len() <= fits { mtu } else { alone };
                    assert!(sealed.len() <= longest, "{suite:?}: {} of {mtu}", sealed.len());
                    assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)), "{suite:?}, {mtu}");
                }
            }
        }
    }
}

/// Bytes of the buffer's earlier packet, perhaps someone else's, do not go to the peer.
#[test]
fn tfc_padding_holds_no_stale_data() {
    let mut bench = Bench::new();
    let tx = sa(SaParams { tfc_pad_len: 600, ..params(crate::common::GCM, true) });
    // The buffer around the packet is full of 0x5a.
    let packet = inner(true, 0, true, 9);
    let mut sealed = bench.seal(&tx, &packet).unwrap();
    let status = bench.job(&tx, crypto::Op::Open, &mut sealed[20..], None);
    assert_eq!(status, crypto::JobStatus::Done);
    let text = &sealed[36..sealed.len() - 16];
    assert_eq!(&text[..packet.len()], packet);
    assert!(text[packet.len()..600].iter().all(|b| *b == 0));
    assert_eq!(&text[600..], &[1, 2, 2, 4]);
}

/// For every MTU and suite: the longest packet fits, one byte more does not.
#[test]
fn max_inner_len_is_exact() {
    let mut bench = Bench::new();
    for suite in suites() {
        for v4 in [true, false] {
            for mode in [Mode::Tunnel, Mode::Transport] {
                for encap in [None, crate::common::NATT] {
                    let p = SaParams { mode, encap, ..params(suite, v4) };
                    let tx = sa(p.clone());
                    let visible = if mode == Mode::Tunnel { 0 } else { if v4 { 20 } else { 40 } };
                    for mtu in 576..=1500 {
                        let max = tx.max_inner_len(mtu);
                        assert!(tx.sealed_len(max, visible) <= mtu);
                        assert!(tx.sealed_len(max + 1, visible) > mtu);
                    }
                    // And the lengths promised are those of real packets.
                    for mtu in [576, 577, 1280, 1499, 1500] {
                        let max = tx.max_inner_len(mtu);
                        let header = if v4 { 20 } else { 40 };
                        for (len, fits) in [(max, true), (max + 1, false)] {
                            let packet = own(&p, 253, &crate::common::data(len - header));
                            let sealed = bench.seal(&tx, &packet).unwrap();
                            assert_eq!(sealed.len() <= mtu, fits, "{suite} {mode:?} {mtu}");
                        }
                    }
                }
            }
        }
    }
}

prop_compose! {
    /// Any SA of any suite.
    fn any_sa()(
        suite in prop::sample::select(crate::common::all_suites().collect::<Vec<_>>()),
        (outer_v4, tunnel, encap, esn) in any::<(bool, bool, bool, bool)>(),
        (no_ecn, no_pmtu_disc, dont_encap_dscp) in any::<(bool, bool, bool)>(),
        replay_window in prop::sample::select(vec![0, 32, 64, 1000, 4096]),
        tfc_pad_len in prop_oneof![3 => Just(0), 1 => 1..2000_u32],
        df in prop::sample::select(vec![OuterDf::Copy, OuterDf::Set, OuterDf::Clear]),
        dscp in prop_oneof![Just(OuterDscp::Copy), (0..64_u8).prop_map(OuterDscp::Value)],
        ecn in prop::sample::select(vec![EcnDecap::Rfc6040, EcnDecap::Linux]),
    ) -> (SaParams, TunnelHeaders) {
        let mode = if tunnel { Mode::Tunnel } else { Mode::Transport };
        let encap = if encap { crate::common::NATT } else { None };
        let flags = SaFlags { no_ecn, no_pmtu_disc, dont_encap_dscp, ..SaFlags::default() };
        let base = params(suite, outer_v4);
        let params = SaParams { mode, encap, esn, replay_window, tfc_pad_len, flags, ..base };
        (params, TunnelHeaders { df, dscp, ecn })
    }
}

/// An IPv4 header's options: so many words, none of which a router looks at.
fn with_options(mut packet: Vec<u8>, words: usize) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet.splice(20..20, vec![1; 4 * words]);
        packet[0] += words as u8;
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        wire::ipv4::fill_checksum(&mut packet);
    }
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Numbers anywhere, so that those of ESN cross the end of the low half, too.
    #[test]
    fn opening_undoes_sealing(
        (params, headers) in any_sa(),
        (inner_v4, df, class, words) in any::<(bool, bool, u8, u8)>(),
        is_tcp in any::<bool>(),
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        before in prop_oneof![0..100_u64, (1_u64 << 32) - 3..1 << 32],
    ) {
        let before = if params.esn { before } else { before % 1000 };
        let upper = if is_tcp { tcp(&payload) } else { udp(1000, 2000, &payload) };
        let protocol = if is_tcp { 6 } else { 17 };
        let mut packet = match params.mode {
            Mode::Transport => crate::common::ip(params.src, params.dst, class, df, protocol, &upper),
            Mode::Tunnel | Mode::Iptfs => {
                let (src, dst) = if inner_v4 { crate::common::V4 } else { crate::common::V6 };
                let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
                crate::common::ip(src, dst, class, df, protocol, &upper)
            }
        };
        packet = with_options(packet, usize::from(words % 11));
        let h = parse_ip(&packet).unwrap();
        prop_assert!(wire::fill_l4_checksum(&mut packet, &h));
        let [tx, rx] = [(); 2].map(|()| sa(params.clone()).with_tunnel_headers(headers));
        tx.live().sent().store(before, Relaxed);
        rx.live().edge().store(before, Relaxed);
        let mut bench = Bench::new();
        for _ in 0..4 {
            let sealed = bench.seal(&tx, &packet).unwrap();
            prop_assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet.clone())));
        }
    }
}
