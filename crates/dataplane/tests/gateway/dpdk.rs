//! DPDK's cases for devices that do IPsec, by the names that its tests `test_cryptodev` and
//! `test_security_inline_proto` print: what each sends and expects, here by two gateways.
//!
//! | DPDK's name | the test that does it |
//! | --- | --- |
//! | Combined test alg list | [`crate::tunnel`]: `every_suite` |
//! | Tunnel IPv4 in IPv4, IPv6 in IPv6, IPv4 in IPv6, IPv6 in IPv4 | [`crate::tunnel`]: `all_four_combinations_of_families` |
//! | Transport IPv4, UDP encapsulation | [`crate::transport`], [`crate::tunnel`]: `udp_encapsulation` |
//! | Tunnel header IPv4 decrement inner TTL, IPv6 decrement inner hop limit | [`crate::tunnel`], wherever `hopped` is asked for |
//! | SA expiry packets soft, hard | [`crate::tunnel`]: `volume_limits_outbound`, `volume_limits_inbound` |
//! | Transport l4 checksum | crate `esp`: `transport_behind_a_nat` |
//! | IV generation; Statistics: success | crate `esp`: `iv`; [`crate::reasons`] |
//! | Tunnel header IPv6 copy FLABEL, set FLABEL | none: culvert's flow label is 0 (docs/reference/rfc-coverage.md) |
//! | all others | here |

use core::sync::atomic::Ordering::Relaxed;

use crypto::{AesKey, Cipher, Integrity, Suite};
use dataplane::Event;
use esp::{Mode, OuterDf, OuterDscp, TunnelHeaders};
use outcome::DropReason;
use policy::VolumeLimits;
use wire::parse_ip;

use crate::packets::{Ip, cut, hopped, number};
use crate::support::{GCM, Pair, Side, Spec, ip, make_sa, sa_config};

fn forth(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10))
}

/// Packets as gateway A has sealed them.
fn sealed(pair: &mut Pair, packets: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    for packet in packets {
        pair.a.put_lan(&packet);
    }
    pair.a.run();
    pair.a.wan_out()
}

/// "UDP encapsulation ports verification test".
#[test]
fn udp_encapsulation_ports_verification() {
    for outer_v6 in [false, true] {
        let mut pair = Pair::new(&Spec { encap: true, outer_v6, ..Spec::default() });
        let packet = forth(false).sized(100, 1);
        let sent = sealed(&mut pair, [packet.clone()]).remove(0);
        let outer = parse_ip(&sent).expect("outer");
        assert_eq!((outer.src_port, outer.dst_port), (4500, 4500));
        // Another port of this host is a program's.
        let mut elsewhere = sent.clone();
        let at = usize::from(outer.header_len);
        elsewhere[at + 2..at + 4].copy_from_slice(&4501_u16.to_be_bytes());
        pair.b.put_wan(&elsewhere);
        pair.b.run();
        assert_eq!((pair.b.lan_out(), pair.b.linux_out()), (vec![], vec![elsewhere]));
        pair.b.put_wan(&sent);
        pair.b.run();
        assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)]);
    }
}

/// "Negative test: ICV corruption", at every byte that the ICV covers, and its own.
#[test]
fn icv_corruption() {
    let cbc =
        Suite::Separate { cipher: Cipher::AesCbc(AesKey::Aes128), integrity: Integrity::Sha1_96 };
    for suite in [GCM, cbc] {
        for encap in [false, true] {
            let mut pair = Pair::new(&Spec { suite, encap, ..Spec::default() });
            let packet = forth(true).sized(60, 1);
            let sent = sealed(&mut pair, [packet.clone()]).remove(0);
            let esp = if encap { 28 } else { 20 };
            // Behind the SPI, and behind the number, which would say another place in the window.
            for at in esp + 8..sent.len() {
                let mut corrupt = sent.clone();
                corrupt[at] ^= 0x10;
                pair.b.put_wan(&corrupt);
                pair.b.run();
            }
            let expected = (sent.len() - esp - 8) as u64;
            assert_eq!(pair.b.drops(), [(DropReason::InIntegrity, expected)]);
            pair.b.put_wan(&sent);
            pair.b.run();
            assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)], "nothing of it moved the window");
        }
    }
}

/// "Tunnel dst addr verification", "Tunnel src and dst addr verification".
#[test]
fn tunnel_address_verification() {
    let mut pair = Pair::new(&Spec::default());
    let packets = (0..3).map(|n| forth(false).sized(100, n));
    let sent = sealed(&mut pair, packets);
    let with = |packet: &[u8], at: usize, addr: &str| {
        let std::net::IpAddr::V4(addr) = ip(addr) else { panic!("{addr}") };
        let mut packet = packet.to_vec();
        packet[at..at + 4].copy_from_slice(&addr.octets());
        wire::ipv4::fill_checksum(&mut packet);
        packet
    };
    // To an address of this host that the SA is not for, and to one that is not this host's.
    pair.b.put_wan(&with(&sent[0], 16, "10.2.0.1"));
    pair.b.put_wan(&with(&sent[1], 16, "192.0.2.99"));
    pair.b.run();
    assert_eq!(pair.b.lan_out(), Vec::<Vec<u8>>::new());
    // An SA is found by where it ends and its SPI (RFC 4301 §4.1): a source that a NAT has changed is
    // no reason to refuse what the ICV proves, and Linux takes it too.
    pair.b.put_wan(&with(&sent[2], 12, "192.0.2.77"));
    pair.b.run();
    assert_eq!(pair.b.lan_out().iter().map(|p| number(p)).collect::<Vec<_>>(), [2]);
}

/// "Fragmented packet": each fragment of a packet is protected by itself, and stays a fragment.
#[test]
fn fragmented_packet() {
    for (v6, outer_v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut pair = Pair::new(&Spec { outer_v6, ..Spec::default() });
        let fragments = cut(&forth(v6).sized(1400, 1), 600, 77);
        let sent = sealed(&mut pair, fragments.clone());
        assert_eq!(sent.len(), fragments.len());
        sent.iter().for_each(|packet| pair.b.put_wan(packet));
        pair.b.run();
        let expected: Vec<_> = fragments.iter().map(|packet| hopped(packet, 2)).collect();
        assert_eq!(pair.b.lan_out(), expected);
    }
}

/// "Tunnel header copy DF (inner 0)", "copy DF (inner 1)", "set DF 0 (inner 1)", "set DF 1 (inner 0)",
/// and the same of "DSCP", IPv4 and IPv6.
#[test]
fn tunnel_header_df_and_dscp() {
    for outer_v6 in [false, true] {
        let spec = Spec { outer_v6, ..Spec::default() };
        for (df, inner, expected) in [
            (OuterDf::Copy, false, false),
            (OuterDf::Copy, true, true),
            (OuterDf::Clear, true, false),
            (OuterDf::Set, false, true),
        ] {
            for (dscp, inner_dscp, expected_dscp) in [
                (OuterDscp::Copy, 0, 0),
                (OuterDscp::Copy, 1, 1),
                (OuterDscp::Value(0), 1, 0),
                (OuterDscp::Value(1), 0, 1),
            ] {
                let mut pair = Pair::new(&spec);
                let config = sa_config(&spec, Side::A);
                pair.a.db.remove_sa(&config.id());
                let headers = TunnelHeaders { df, dscp, ..TunnelHeaders::default() };
                let sa = make_sa(&config.params).with_tunnel_headers(headers);
                pair.a.db.add_sa(config, sa).expect("new");
                let class = inner_dscp << 2;
                let packet = Ip { traffic_class: class, dont_fragment: inner, ..forth(false) };
                let sent = sealed(&mut pair, [packet.sized(100, 1)]);
                let outer = parse_ip(&sent[0]).expect("outer");
                assert_eq!(outer.traffic_class, expected_dscp << 2);
                assert_eq!(outer.dont_fragment, outer_v6 || expected);
            }
        }
    }
}

/// "SA expiry bytes soft", "SA expiry bytes hard": told, as Linux does, by the packet that finds the limit reached.
#[test]
fn sa_expiry_bytes() {
    let mut pair = Pair::new(&Spec::default());
    sealed(&mut pair, [forth(false).sized(100, 0)]);
    let each = pair.a.sa(Side::A, &Spec::default()).esp.live().bytes().load(Relaxed);
    let limits = VolumeLimits { soft_bytes: 2 * each, hard_bytes: 5 * each, ..VolumeLimits::NONE };
    let spec = Spec { limits, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let sa = pair.a.sa(Side::A, &spec).config.id();
    let sent: Vec<usize> = (0..7)
        .map(|n| {
            let sent = sealed(&mut pair, [forth(false).sized(100, n)]).len();
            let expected: &[Event] = match n {
                2 => &[Event::VolumeReached { sa, hard: false }],
                5 => &[Event::VolumeReached { sa, hard: true }],
                _ => &[],
            };
            let told = pair.a.events();
            assert!(n > 5 || told == expected, "packet {n}: {told:?}");
            sent
        })
        .collect();
    assert_eq!(sent, [1, 1, 1, 1, 1, 0, 0], "a limit of five packets' bytes lets five through");
}

/// "Antireplay with window size 1024", "2048", "4096", "ESN and Antireplay with window size 1024",
/// "2048", "4096": the oldest number of the window, the one before it, those between, and each twice.
#[test]
fn antireplay_with_large_windows() {
    for window in [1024_u32, 2048, 4096] {
        for esn in [false, true] {
            let spec = Spec { replay_window: window, esn, ..Spec::default() };
            let mut pair = Pair::new(&spec);
            // With extended numbers the window lies across the end of the low half.
            let start = if esn { (1 << 32) - u64::from(window / 2) } else { 0 };
            for gateway in [&pair.a, &pair.b] {
                let sa = gateway.sa(Side::A, &spec);
                sa.esp.live().sent().store(start, Relaxed);
                sa.esp.live().edge().store(start, Relaxed);
            }
            // The low half alone says then that an old number is one of the next 2^32, and the ICV that it
            // is not (RFC 4303, appendix A2.2).
            let too_old = if esn { DropReason::InIntegrity } else { DropReason::InReplayOld };
            let count = window as u16 + 10;
            let mut sent = Vec::new();
            for first in (0..count).step_by(64) {
                let numbers = first..count.min(first + 64);
                sent.extend(sealed(&mut pair, numbers.map(|n| forth(false).sized(60, n))));
            }
            assert_eq!(sent.len(), usize::from(count));
            let mut open = |at: usize| {
                pair.b.put_wan(&sent[at]);
                pair.b.run();
                let dropped =
                    [too_old, DropReason::InReplayDuplicate].map(|reason| pair.b.dropped(reason));
                (pair.b.lan_out().len(), dropped)
            };
            assert_eq!(open(sent.len() - 1), (1, [0, 0]));
            assert_eq!(open(9), (0, [1, 0]), "one before the window of {window}, ESN {esn}");
            assert_eq!(open(10), (1, [1, 0]), "the oldest in it");
            assert_eq!(open(10), (0, [1, 1]));
            let mut duplicates = 1;
            for at in [11, sent.len() / 2, sent.len() - 2] {
                assert_eq!(open(at), (1, [1, duplicates]));
                duplicates += 1;
                assert_eq!(open(at), (0, [1, duplicates]));
            }
        }
    }
}

/// Cuts a packet into so many fragments.
fn cut_into(count: usize, packet: &[u8], ident: u16) -> Vec<Vec<u8>> {
    let fragments = (576..1500).rev().map(|mtu| cut(packet, mtu, ident));
    fragments.into_iter().find(|all| all.len() == count).expect("some MTU makes so many")
}

/// "IPv4 Reassembly with 2 fragments", "4 fragments", "5 fragments", "IPv6 Reassembly ...", "with out of
/// order fragments": of ESP, before decryption.
#[test]
fn reassembly_of_2_4_and_5_fragments() {
    for outer_v6 in [false, true] {
        let spec = Spec { outer_v6, mode: Mode::Transport, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        pair.a.set_topology(9000, Vec::new());
        let own = Ip::new(Side::A.wan(outer_v6), Side::B.wan(outer_v6));
        let mut ident = 0;
        for (count, len) in [(2, 1600), (4, 2600), (5, 3200)] {
            for backwards in [false, true] {
                ident += 1;
                let packet = own.sized(len, ident);
                cut(&packet, 1500, ident).iter().for_each(|part| pair.a.put_linux(part));
                pair.a.run();
                let sent = pair.a.wan_out();
                assert_eq!(sent.len(), 1);
                let mut fragments = cut_into(count, &sent[0], ident);
                if backwards {
                    fragments.reverse();
                }
                fragments.iter().for_each(|fragment| pair.b.put_wan(fragment));
                pair.b.run();
                let arrived: Vec<u16> = pair.b.linux_out().iter().map(|p| number(p)).collect();
                assert_eq!(arrived, [ident], "{count} fragments");
            }
        }
        assert_eq!(pair.b.drops(), []);
    }
}

/// "IPv4 Reassembly with incomplete fragments", "with overlapping fragments".
#[test]
fn reassembly_that_cannot_be() {
    for outer_v6 in [false, true] {
        let mut pair = Pair::new(&Spec { outer_v6, ..Spec::default() });
        pair.a.set_topology(9000, Vec::new());
        let sent = sealed(&mut pair, (0..2).map(|n| forth(false).sized(1400, n)));
        let incomplete = cut_into(3, &sent[0], 1);
        for fragment in [&incomplete[0], &incomplete[2]] {
            pair.b.put_wan(fragment);
        }
        pair.b.run();
        assert_eq!(pair.b.counters.totals().held, 2);
        pair.b.pass_ns(15_000_000_000);
        assert_eq!(pair.b.drops(), [(DropReason::FragmentTimeout, 2)]);
        // Two ways of cutting one packet overlap.
        let (one, other) = (cut_into(2, &sent[1], 2), cut_into(3, &sent[1], 2));
        for fragment in [&one[0], &other[1], &one[1], &other[2]] {
            pair.b.put_wan(fragment);
        }
        pair.b.run();
        assert_eq!(pair.b.lan_out(), Vec::<Vec<u8>>::new());
        assert!(pair.b.dropped(DropReason::FragmentOverlap) >= 2);
        assert_eq!(pair.b.counters.totals().held, 0);
    }
}
