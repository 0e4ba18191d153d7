//! Transport mode: this host's own traffic, through the private interface.

use core::sync::atomic::Ordering::Relaxed;

use esp::Mode;
use outcome::DropReason;
use wire::{parse_ip, protocol};

use crate::packets::{Ip, cut, reassemble};
use crate::support::{Pair, Side, Spec};

fn spec(v6: bool, encap: bool) -> Spec {
    Spec { mode: Mode::Transport, outer_v6: v6, encap, ..Spec::default() }
}

#[test]
fn host_to_host() {
    for (v6, encap) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut pair = Pair::new(&spec(v6, encap));
        for from in [Side::A, Side::B] {
            let packet = Ip::new(from.wan(v6), from.other().wan(v6)).sized(500, 1);
            let (near, _) = pair.end(from);
            near.put_linux(&packet);
            near.run();
            let carried = pair.carry(from);
            let outer = parse_ip(&carried[0]).expect("outer");
            assert_eq!(outer.protocol, if encap { protocol::UDP } else { protocol::ESP });
            let (near, far) = pair.end(from);
            assert_eq!(far.linux_out(), [packet], "v6 {v6} encap {encap}");
            assert_eq!((near.drops(), far.drops()), (vec![], vec![]));
        }
    }
}

#[test]
fn too_long_is_sealed_whole_and_then_cut() {
    let mut pair = Pair::new(&spec(false, false));
    let packet = Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(1490, 1);
    pair.a.put_linux(&packet);
    pair.a.run();
    let fragments = pair.a.wan_out();
    assert_eq!(fragments.len(), 2);
    assert!(fragments.iter().all(|f| f.len() <= 1500 && f[9] == protocol::ESP));
    let totals = pair.a.counters.totals();
    assert_eq!((totals.received, totals.generated, totals.transmitted), (1, 1, 2));
    // One packet of the SA: put together, it is opened.
    pair.b.put_wan(&reassemble(&fragments));
    pair.b.run();
    assert_eq!(pair.b.linux_out(), [packet]);
    // As fragments it comes again: what they make is a replay.
    for fragment in &fragments {
        pair.b.put_wan(fragment);
    }
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InReplayDuplicate, 1)]);
}

#[test]
fn too_long_with_df_is_told_to_the_program() {
    let mut pair = Pair::new(&spec(false, false));
    let ip = Ip { dont_fragment: true, ..Ip::new(Side::A.wan(false), Side::B.wan(false)) };
    pair.a.put_linux(&ip.sized(1490, 1));
    pair.a.run();
    assert!(pair.a.wan_out().is_empty());
    let errors = pair.a.linux_out();
    let h = parse_ip(&errors[0]).expect("error");
    assert_eq!((h.dst, h.src_port, h.dst_port), (Side::A.wan(false), 3, 4));
    let mtu = u16::from_be_bytes([errors[0][26], errors[0][27]]);
    assert_eq!(pair.a.drops(), [(DropReason::OutTooBig, 1)]);
    // What was told is the truth, to the byte of alignment.
    for (len, fits) in [(mtu, true), (mtu + 1, false)] {
        pair.a.put_linux(&ip.sized(len.into(), 1));
        pair.a.run();
        assert_eq!(pair.a.wan_out().len(), usize::from(fits), "{len}");
    }
    pair.a.linux_out();
}

/// RFC 4303 §3.3.4: transport mode is for whole packets, so what Linux has cut is put together first.
#[test]
fn fragments_of_a_program_travel_as_one_packet() {
    for (v6, encap) in [(false, false), (true, false), (false, true)] {
        let mut pair = Pair::new(&spec(v6, encap));
        let ip = Ip::new(Side::A.wan(v6), Side::B.wan(v6));
        for (n, len) in [(1, 1600), (2, 4028), (3, 9000), (4, 60_000)] {
            let packet = ip.sized(len, n);
            let fragments = cut(&packet, 1500, n);
            fragments.iter().for_each(|f| pair.a.put_linux(f));
            pair.a.run();
            let carried = pair.carry(Side::A);
            // Sealed as one, then cut.
            assert!(carried.len() >= len.div_ceil(1480));
            assert!(carried.iter().all(|p| p.len() <= 1500));
            assert!(carried[0].len() > 1400 && parse_ip(&carried[1]).expect("ip").src_port == 0);
            let mut arrived = pair.b.linux_out().remove(0);
            if !v6 {
                arrived[4..6].copy_from_slice(&packet[4..6]);
                wire::ipv4::fill_checksum(&mut arrived);
            }
            assert!(arrived == packet, "{v6} {encap} {len}");
        }
        assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
        assert_eq!(pair.a.sa(Side::A, &spec(v6, encap)).esp.live().packets().load(Relaxed), 4);
    }
}

#[test]
fn cleartext_between_the_hosts_is_refused() {
    let mut pair = Pair::new(&spec(false, false));
    pair.b.put_wan(&Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(100, 1));
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InCleartext, 1)]);
    assert!(pair.b.linux_out().is_empty());
}

/// A packet with options of this length, `len` bytes in all.
fn with_options(ip: &Ip, len: usize, options: usize) -> Vec<u8> {
    let mut packet = ip.sized(len - options, 1);
    packet.splice(20..20, core::iter::repeat_n(1, options));
    packet[0] = 0x40 | (5 + options as u8 / 4);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    wire::ipv4::fill_checksum(&mut packet);
    packet
}

#[test]
fn ip_options_count_for_what_fits() {
    let suites = ["aes128gcm16", "aes128-sha1"];
    for suite in crypto::Suite::all().filter(|s| suites.contains(&s.to_string().as_str())) {
        let mut pair = Pair::new(&Spec { suite, ..spec(false, false) });
        let ip = Ip { dont_fragment: true, ..Ip::new(Side::A.wan(false), Side::B.wan(false)) };
        for (options, link) in [(4, 1500), (8, 1496), (12, 1490), (40, 1477), (36, 1402)] {
            pair.a.now.ns += 1_000_000_000;
            pair.a.set_topology(link, Vec::new());
            pair.a.put_linux(&with_options(&ip, 1490, options));
            pair.a.run();
            let errors = pair.a.linux_out();
            let mtu = usize::from(u16::from_be_bytes([errors[0][26], errors[0][27]]));
            assert!((link as usize - 90..link as usize).contains(&mtu), "{mtu}");
            let packet = with_options(&ip, mtu, options);
            pair.a.put_linux(&packet);
            pair.a.run();
            let carried = pair.carry(Side::A);
            assert_eq!(carried.len(), 1, "{suite} {options} {link}: {mtu} was promised");
            assert!(carried[0].len() <= link as usize);
            assert_eq!(pair.b.linux_out(), [packet]);
        }
    }
}
