//! Lengths and hops: fragments, ICMP errors, and who is told.

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use wire::{L4Checksum, parse_ip, protocol};

use crate::packets::{Ip, hopped, reassemble};
use crate::support::{Gateway, Pair, Side, Spec};

fn a_to_b(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10))
}

/// The MTU that an ICMP error tells.
fn told_mtu(error: &[u8]) -> usize {
    let h = parse_ip(error).expect("error");
    assert_eq!(wire::verify_l4_checksum(error, &h), L4Checksum::Valid);
    match h.protocol {
        protocol::ICMP => {
            assert_eq!((h.src_port, h.dst_port), (3, 4));
            u16::from_be_bytes([error[26], error[27]]).into()
        }
        _ => {
            assert_eq!((h.protocol, h.src_port, h.dst_port), (protocol::ICMPV6, 2, 0));
            u32::from_be_bytes([error[44], error[45], error[46], error[47]]) as usize
        }
    }
}

/// Every length around the limit, for both outer families, with and without UDP.
#[test]
fn each_length_around_the_mtu_fits_or_is_told() {
    for (outer_v6, encap) in [(false, false), (true, false), (false, true)] {
        for v6 in [false, true] {
            let spec = Spec { outer_v6, encap, ..Spec::default() };
            let mut pair = Pair::new(&spec);
            let ip = Ip { dont_fragment: true, ..a_to_b(v6) };
            let limit = pair.a.sa(Side::A, &spec).esp.max_inner_len(1500);
            for len in limit - 20..=1500 {
                pair.a.now.ns += 1_000_000_000;
                let packet = ip.sized(len, 1);
                pair.a.put_lan(&packet);
                pair.a.run();
                if len <= limit {
                    assert!(pair.carry(Side::A)[0].len() <= 1500);
                    assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)]);
                } else {
                    assert!(pair.a.wan_out().is_empty(), "{len}");
                    let errors = pair.a.lan_out();
                    assert_eq!(told_mtu(&errors[0]), limit);
                    // It quotes the packet as the sender knows it: TTL and all.
                    let quoted = if v6 { &errors[0][48..] } else { &errors[0][28..] };
                    assert_eq!(*quoted, packet[..quoted.len()]);
                    assert_eq!(parse_ip(&errors[0]).expect("error").src, Side::A.lan(v6, 1));
                }
            }
            assert_eq!(pair.a.dropped(DropReason::OutTooBig), (1500 - limit) as u64);
        }
    }
}

#[test]
fn df_clear_is_cut_before_encryption() {
    let mut pair = Pair::new(&Spec::default());
    for len in [1447, 1470, 1500] {
        let packet = a_to_b(false).sized(len, 1);
        pair.a.put_lan(&packet);
        pair.a.run();
        let carried = pair.carry(Side::A);
        assert_eq!(carried.len(), 2);
        assert!(carried.iter().all(|p| {
            let h = parse_ip(p).expect("outer");
            p.len() <= 1500 && h.fragment == wire::Fragment::Whole
        }));
        let fragments = pair.b.lan_out();
        assert_eq!(hopped(&reassemble(&fragments), 0), {
            let mut whole = hopped(&packet, 2);
            whole[6..8].copy_from_slice(&[0, 0]);
            wire::ipv4::fill_checksum(&mut whole);
            whole
        });
    }
    let totals = pair.a.counters.totals();
    assert_eq!((totals.received, totals.generated, totals.transmitted), (3, 3, 6));
    assert_eq!(pair.a.counters.work.fragmented.value(), 3);
}

/// A full burst of packets, each cut in two: the crypto burst fills up under way.
#[test]
fn fragments_of_a_full_burst_stay_in_order() {
    let mut pair = Pair::new(&Spec::default());
    for n in 0..64 {
        pair.a.put_lan(&a_to_b(false).sized(1500, n));
    }
    pair.a.run();
    let sent = pair.carry(Side::A);
    assert_eq!(sent.len(), 128);
    let numbers: Vec<u32> =
        sent.iter().map(|p| u32::from_be_bytes([p[24], p[25], p[26], p[27]])).collect();
    assert_eq!(numbers, (1..=128).collect::<Vec<u32>>());
    let arrived = pair.b.lan_out();
    assert_eq!(arrived.len(), 128);
    for (n, two) in arrived.chunks(2).enumerate() {
        assert_eq!(crate::packets::number(&reassemble(two)), n as u16);
    }
}

/// A link on which an inner packet of 1280 bytes cannot fit: it is sealed, and then cut.
#[test]
fn ipv6_of_up_to_1280_bytes_always_passes() {
    for outer_v6 in [false, true] {
        let spec = Spec { outer_v6, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        pair.a.set_topology(1300, Vec::new());
        for len in [1230, 1279, 1280] {
            let packet = a_to_b(true).sized(len, 1);
            pair.a.put_lan(&packet);
            pair.a.run();
            let fragments = pair.a.wan_out();
            assert!(fragments.iter().all(|f| f.len() <= 1300));
            let outer = match fragments.len() {
                1 => fragments[0].clone(),
                _ => reassemble(&fragments),
            };
            assert_eq!(fragments.len() > 1, outer.len() > 1300);
            pair.b.put_wan(&outer);
            pair.b.run();
            assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)], "outer v6 {outer_v6} {len}");
        }
        pair.a.put_lan(&a_to_b(true).sized(1281, 1));
        pair.a.run();
        assert!(pair.a.wan_out().is_empty());
        assert_eq!(told_mtu(&pair.a.lan_out()[0]), 1280, "never less");
    }
}

#[test]
fn a_route_mtu_counts() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    let peer = forward::Subnet { addr: Side::B.wan(false), len: 32 };
    let route = crate::support::route(
        forward::table::MAIN,
        peer,
        forward::RouteKind::Unicast,
        Some(crate::support::WAN),
        Some(1400),
    );
    pair.a.set_topology(1500, vec![route]);
    pair.a.put_lan(&Ip { dont_fragment: true, ..a_to_b(false) }.sized(1400, 1));
    pair.a.run();
    let limit = pair.a.sa(Side::A, &spec).esp.max_inner_len(1400);
    assert_eq!(told_mtu(&pair.a.lan_out()[0]), limit);
}

#[test]
fn hops_run_out_on_either_side_of_the_tunnel() {
    let mut pair = Pair::new(&Spec::default());
    for v6 in [false, true] {
        // Before it: the LAN's own host is told, in clear, on its own link.
        for ttl in [0, 1] {
            let packet = Ip { ttl, ..a_to_b(v6) }.sized(200, 1);
            pair.a.put_lan(&packet);
            pair.a.run();
            let errors = pair.a.lan_out();
            let h = parse_ip(&errors[0]).expect("error");
            assert_eq!((h.dst, h.src_port), (packet_src(v6), if v6 { 3 } else { 11 }));
            assert!(pair.a.wan_out().is_empty());
        }
        // Behind it: the error goes back through the tunnel and nowhere else.
        pair.a.put_lan(&Ip { ttl: 2, ..a_to_b(v6) }.sized(200, 1));
        pair.a.run();
        pair.carry(Side::A);
        assert!(pair.b.lan_out().is_empty() && pair.b.linux_out().is_empty());
        let back = pair.carry(Side::B);
        assert_eq!(parse_ip(&back[0]).expect("outer").protocol, protocol::ESP);
        let errors = pair.a.lan_out();
        let h = parse_ip(&errors[0]).expect("error");
        assert_eq!((h.src, h.dst), (Side::B.lan(v6, 1), packet_src(v6)));
    }
    assert_eq!(pair.a.dropped(DropReason::TtlExceeded), 4);
    assert_eq!(pair.b.dropped(DropReason::TtlExceeded), 2);
    // A hop count that ran out has used up no number.
    assert_eq!(pair.a.sa(Side::A, &Spec::default()).esp.live().sent().load(Relaxed), 2);
}

fn packet_src(v6: bool) -> std::net::IpAddr {
    Side::A.lan(v6, 10)
}

/// An error about a packet that came protected has no protected way back: it stays here.
#[test]
fn errors_about_decrypted_packets_never_leave_in_clear() {
    let mut pair = Pair::new(&Spec::default());
    pair.b.db.remove_policy(11);
    pair.b.db.remove_policy(21);
    for v6 in [false, true] {
        pair.a.put_lan(&Ip { ttl: 2, ..a_to_b(v6) }.sized(200, 1));
    }
    pair.a.run();
    pair.carry(Side::A);
    assert!(pair.b.wan_out().is_empty() && pair.b.lan_out().is_empty());
    assert!(pair.b.linux_out().is_empty());
    assert_eq!(pair.b.dropped(DropReason::OutPolicyBlock), 2);
    assert_eq!(pair.b.counters.work.icmp_errors.value(), 2);
    // With the policy and without the SA it waits, and is judged with what is known of it.
    let spec = Spec::default();
    pair.b.add_policies(&spec);
    let id = pair.b.sa(Side::B, &spec).config.id();
    pair.b.db.remove_sa(&id);
    pair.a.put_lan(&Ip { ttl: 2, ..a_to_b(false) }.sized(200, 1));
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.counters.totals().held, 1);
    pair.b.db.remove_policy(11);
    pair.b.run();
    assert_eq!(pair.b.dropped(DropReason::OutPolicyBlock), 3);
    assert!(pair.b.wan_out().is_empty() && pair.b.linux_out().is_empty());
}

#[test]
fn errors_are_not_answered_and_are_limited() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let mut error = Ip { ttl: 1, protocol: protocol::ICMP, ..a_to_b(false) };
    g.put_lan(&error.with(&[11, 0, 0, 0, 0, 0, 0, 0, 0x45]));
    g.run();
    assert_eq!(g.counters.work.icmp_suppressed.value(), 1);
    error.protocol = protocol::UDP;
    for n in 0..200 {
        g.put_lan(&error.sized(60, n));
    }
    g.run();
    assert_eq!(g.lan_out().len(), 49, "one token went to the first");
    assert_eq!(g.dropped(DropReason::TtlExceeded), 201);
}

#[test]
fn decrypted_packets_too_long_for_the_way_on() {
    let mut pair = Pair::new(&Spec::default());
    let narrow = forward::Subnet { addr: Side::B.lan(false, 10), len: 32 };
    let route = crate::support::route(
        forward::table::MAIN,
        narrow,
        forward::RouteKind::Unicast,
        Some(crate::support::LAN),
        Some(600),
    );
    pair.b.set_topology(1500, vec![route]);
    let ip = a_to_b(false);
    pair.a.put_lan(&ip.sized(1000, 1));
    pair.a.put_lan(&Ip { dont_fragment: true, ..ip }.sized(1000, 2));
    pair.a.run();
    pair.carry(Side::A);
    let fragments = pair.b.lan_out();
    assert_eq!(fragments.len(), 2);
    assert_eq!(crate::packets::number(&reassemble(&fragments)), 1);
    // The other's sender is told, through the tunnel.
    assert_eq!(pair.carry(Side::B).len(), 1);
    assert_eq!(told_mtu(&pair.a.lan_out()[0]), 600);
}

#[test]
fn a_local_program_is_told_by_linux() {
    let mut g = Gateway::new(Side::A);
    g.protect(&Spec::default());
    let from_us =
        Ip { dont_fragment: true, ..Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)) };
    g.put_linux(&from_us.sized(1500, 1));
    g.run();
    let errors = g.linux_out();
    assert_eq!(parse_ip(&errors[0]).expect("error").dst, Side::A.lan(false, 1));
    assert!(told_mtu(&errors[0]) > 1400);
    // No route leads there in clear: the address of the first port serves.
    assert_eq!(parse_ip(&errors[0]).expect("error").src, Side::A.lan(false, 1));
    assert!(g.wan_out().is_empty());
}
