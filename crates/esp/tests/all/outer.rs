//! The headers in front of ESP, and what comes back from them.

use std::sync::atomic::Ordering::Relaxed;

use crate::common::{Bench, GCM, NOW_S, inner, own, params, sa, tcp, text, udp};
use esp::{Mode, OuterDf, OuterDscp, SaFlags, SaParams, TunnelHeaders};
use wire::{L4Checksum, parse_ip, verify_l4_checksum};

const ALL: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

fn flagged(v4: bool, flags: SaFlags) -> SaParams {
    SaParams { flags, ..params(GCM, v4) }
}

#[test]
fn traffic_class_out() {
    let mut bench = Bench::new();
    for (outer_v4, inner_v4) in ALL {
        for tc in 0..=255 {
            for (no_ecn, dont_encap_dscp, mask) in
                [(false, false, 0xff), (true, false, 0xfc), (false, true, 3), (true, true, 0)]
            {
                let flags = SaFlags { no_ecn, dont_encap_dscp, ..SaFlags::default() };
                let tx = sa(flagged(outer_v4, flags));
                let sealed = bench.seal(&tx, &inner(inner_v4, tc, true, 9)).unwrap();
                assert_eq!(parse_ip(&sealed).unwrap().traffic_class, tc & mask);
            }
        }
    }
}

#[test]
fn traffic_class_in() {
    let mut bench = Bench::new();
    for (outer_v4, inner_v4) in ALL {
        for decap_dscp in [false, true] {
            let flags = SaFlags { decap_dscp, ..SaFlags::default() };
            let rx = sa(flagged(outer_v4, flags));
            let mut seq = 0;
            for outer in (0..=255).step_by(5) {
                for inner_tc in (2..=255).step_by(7) {
                    seq += 1;
                    let next = if inner_v4 { 4 } else { 41 };
                    let payload = inner(inner_v4, inner_tc, true, 9);
                    let sealed = bench.forge(&rx, seq, outer, &text(GCM, &payload, next));
                    let ecn = esp::EcnDecap::Rfc6040.combine(inner_tc, outer);
                    let opened = bench.open(&rx, &sealed);
                    let Ok(ecn) = ecn else {
                        assert_eq!(opened, Err(outcome::DropReason::InEcn));
                        continue;
                    };
                    let dscp = if decap_dscp { outer } else { inner_tc } & 0xfc;
                    // All else is as it was, and IPv4's checksum is right.
                    let expected = inner(inner_v4, dscp | ecn, true, 9);
                    assert_eq!(opened, Ok(Some(expected)), "outer {outer}, inner {inner_tc}");
                }
            }
        }
    }
}

#[test]
fn dont_fragment() {
    let mut bench = Bench::new();
    let ident = |p: &[u8]| u16::from_be_bytes([p[4], p[5]]);
    for no_pmtu_disc in [false, true] {
        let tx = sa(flagged(true, SaFlags { no_pmtu_disc, ..SaFlags::default() }));
        for (inner_v4, df) in [(true, true), (true, false), (false, true)] {
            let packet = inner(inner_v4, 0, df, 9);
            let [a, b] = [(); 2].map(|()| bench.seal(&tx, &packet).unwrap());
            let expected = df && !no_pmtu_disc;
            assert_eq!(parse_ip(&a).unwrap().dont_fragment, expected);
            // Who may be fragmented has an identification of its own.
            assert_eq!(ident(&a) != ident(&b), !expected);
        }
    }
}

/// Each SA's own flags come before the rules for all.
#[test]
fn rules_for_the_headers_of_all_tunnels() {
    let mut bench = Bench::new();
    let dfs =
        [(OuterDf::Copy, [false, true]), (OuterDf::Set, [true; 2]), (OuterDf::Clear, [false; 2])];
    let dscps = [OuterDscp::Copy, OuterDscp::Value(0), OuterDscp::Value(46), OuterDscp::Value(63)];
    for (outer_v4, inner_v4) in ALL {
        for (no_pmtu_disc, dont_encap_dscp, no_ecn) in
            [(false, false, false), (true, false, true), (false, true, false)]
        {
            for ((df, expected_df), dscp) in
                dfs.into_iter().flat_map(|df| dscps.map(|dscp| (df, dscp)))
            {
                let headers = TunnelHeaders { df, dscp, ..TunnelHeaders::default() };
                let flags = SaFlags { no_pmtu_disc, dont_encap_dscp, no_ecn, ..SaFlags::default() };
                let tx = sa(flagged(outer_v4, flags)).with_tunnel_headers(headers);
                for (inner_df, class) in [(false, 0), (true, 0xbb), (true, 0x2a)] {
                    let sealed = bench.seal(&tx, &inner(inner_v4, class, inner_df, 9)).unwrap();
                    let outer = parse_ip(&sealed).unwrap();
                    let dscp = match dscp {
                        _ if dont_encap_dscp => 0,
                        OuterDscp::Copy => class >> 2,
                        OuterDscp::Value(value) => value,
                    };
                    let ecn = if no_ecn { 0 } else { class & 3 };
                    assert_eq!(outer.traffic_class, dscp << 2 | ecn, "{headers:?}, {flags:?}");
                    // IPv6 counts as DF set, inside and outside.
                    let expected = !no_pmtu_disc && expected_df[usize::from(inner_df || !inner_v4)];
                    assert_eq!(
                        outer.dont_fragment,
                        !outer_v4 || expected,
                        "{headers:?}, {flags:?}"
                    );
                    let rx = sa(flagged(outer_v4, flags));
                    assert_eq!(
                        bench.open(&rx, &sealed),
                        Ok(Some(inner(inner_v4, class, inner_df, 9)))
                    );
                }
            }
        }
    }
}

#[test]
fn udp_checksums() {
    let mut bench = Bench::new();
    for (outer_v4, inner_v4) in ALL {
        let tx = sa(SaParams { encap: crate::common::NATT, ..params(GCM, outer_v4) });
        for len in 0..100 {
            let sealed = bench.seal(&tx, &inner(inner_v4, 0, true, len)).unwrap();
            let h = parse_ip(&sealed).unwrap();
            assert_eq!((h.protocol, h.src_port, h.dst_port), (17, 4500, 4500));
            let expected = if outer_v4 { L4Checksum::Absent } else { L4Checksum::Valid };
            assert_eq!(verify_l4_checksum(&sealed, &h), expected);
        }
    }
}

#[test]
fn the_inner_ttl_is_not_touched() {
    let mut bench = Bench::new();
    let (tx, rx) = (sa(params(GCM, true)), sa(params(GCM, true)));
    let mut packet = inner(true, 0, true, 9);
    packet[8] = 1;
    wire::ipv4::fill_checksum(&mut packet);
    let sealed = bench.seal(&tx, &packet).unwrap();
    assert_eq!(sealed[8], 64);
    assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
}

/// A NAT has rewritten the source address: the checksums that the sender made are repaired.
#[test]
fn transport_behind_a_nat() {
    let mut bench = Bench::new();
    for v4 in [true, false] {
        let p = SaParams { mode: Mode::Transport, encap: crate::common::NATT, ..params(GCM, v4) };
        let (tx, rx) = (sa(p.clone()), sa(p.clone()));
        let icmp6 = [vec![128, 0, 0, 0], vec![0; 20]].concat();
        let mut uppers = vec![(17, udp(1, 2, b"abc")), (6, tcp(b"abc"))];
        if !v4 {
            uppers.push((58, icmp6));
        }
        for (protocol, upper) in uppers {
            let packet = own(&p, protocol, &upper);
            let mut sealed = bench.seal(&tx, &packet).unwrap();
            let at = if v4 { 12 } else { 8 };
            sealed[at] ^= 0x55;
            if v4 {
                wire::ipv4::fill_checksum(&mut sealed);
            }
            let opened = bench.open(&rx, &sealed).unwrap().unwrap();
            let h = parse_ip(&opened).unwrap();
            assert_ne!(h.src, p.src);
            assert_eq!(verify_l4_checksum(&opened, &h), L4Checksum::Valid, "{protocol}");
        }
        if v4 {
            // UDP without a checksum keeps none.
            let packet = crate::common::ip(p.src, p.dst, 0, true, 17, &udp(1, 2, b"abc"));
            let sealed = bench.seal(&tx, &packet).unwrap();
            assert_eq!(bench.open(&rx, &sealed), Ok(Some(packet)));
        }
    }
}

/// Bytes as Linux's counters would have them: the inner packet in tunnel mode, the payload behind the
/// visible headers in transport mode; inbound with TFC padding.
#[test]
fn bytes_as_linux_counts_them() {
    let mut bench = Bench::new();
    let tunnel = params(GCM, true);
    let transport = SaParams { mode: Mode::Transport, ..params(GCM, true) };
    let tfc = SaParams { tfc_pad_len: 500, ..params(GCM, true) };
    let packet = own(&tunnel, 17, &udp(1, 2, &[0; 72]));
    assert_eq!(packet.len(), 100);
    for (p, sent, received) in [(tunnel, 100, 100), (transport, 80, 80), (tfc, 100, 500)] {
        let (tx, rx) = (sa(p.clone()), sa(p));
        let sealed = bench.seal(&tx, &packet).unwrap();
        bench.open(&rx, &sealed).unwrap();
        for (sa, bytes) in [(&tx, sent), (&rx, received)] {
            let c = sa.live();
            assert_eq!(c.bytes().load(Relaxed), bytes);
            assert_eq!(c.packets().load(Relaxed), 1);
            assert_eq!(c.first_use().load(Relaxed), NOW_S);
            assert_eq!(c.last_use().load(Relaxed), NOW_S);
        }
    }
}
