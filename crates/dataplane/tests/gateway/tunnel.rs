//! Net to net: what goes in on one LAN comes out on the other, and is ESP in between.

use core::sync::atomic::Ordering::Relaxed;

use crypto::Provider;
use dataplane::Event;
use esp::{SaFlags, TunnelHeaders};
use outcome::DropReason;
use policy::{Action, VolumeLimits};
use wire::{L4Checksum, parse_ip, protocol};

use crate::packets::{Ip, hopped, number};
use crate::support::{GCM, PROVIDER, Pair, Side, Spec};

/// Checks what a gateway sends to the peer: ESP between the two WAN addresses, hop limit its own.
fn assert_esp(packet: &[u8], from: Side, spec: &Spec) {
    let h = parse_ip(packet).expect("outer packet");
    assert_eq!((h.src, h.dst), (from.wan(spec.outer_v6), from.other().wan(spec.outer_v6)));
    assert_eq!(h.ttl, 64);
    let mut at = usize::from(h.header_len);
    if spec.encap {
        assert_eq!((h.protocol, h.src_port, h.dst_port), (protocol::UDP, 4500, 4500));
        let expected = if spec.outer_v6 { L4Checksum::Valid } else { L4Checksum::Absent };
        assert_eq!(wire::verify_l4_checksum(packet, &h), expected);
        at += 8;
    } else {
        assert_eq!(h.protocol, protocol::ESP);
    }
    assert_eq!(packet[at..at + 4], from.spi().to_be_bytes());
}

fn both_ways(spec: &Spec) {
    let mut pair = Pair::new(spec);
    for inner_v6 in [false, true] {
        for from in [Side::A, Side::B] {
            let ip = Ip::new(from.lan(inner_v6, 10), from.other().lan(inner_v6, 10));
            let sent: Vec<_> = (0..5).map(|n| ip.sized(100 + usize::from(n) * 300, n)).collect();
            let (near, _) = pair.end(from);
            sent.iter().for_each(|p| near.put_lan(p));
            near.run();
            let carried = pair.carry(from);
            assert_eq!(carried.len(), 5);
            carried.iter().for_each(|p| assert_esp(p, from, spec));
            let (near, far) = pair.end(from);
            let arrived = far.lan_out();
            let expected: Vec<_> = sent.iter().map(|p| hopped(p, 2)).collect();
            assert_eq!(arrived, expected, "{from:?} inner v6 {inner_v6}");
            assert_eq!((near.drops(), far.drops()), (vec![], vec![]));
        }
    }
    let counts = |g: &crate::support::Gateway| {
        let work = &g.counters.work;
        (work.encrypted.value(), work.decrypted.value())
    };
    assert_eq!((counts(&pair.a), counts(&pair.b)), ((10, 10), (10, 10)));
    // Each direction's SA and policies have counted what went through them.
    let sa = pair.a.sa(Side::A, spec);
    assert_eq!(sa.esp.live().packets().load(Relaxed), 10);
    assert_eq!(sa.esp.live().last_use().load(Relaxed), pair.a.now.wall_s);
    let index_of = |direction: u32, v6: bool| direction + if v6 { 20 } else { 10 };
    for v6 in [false, true] {
        for (g, index) in [(&pair.a, index_of(1, v6)), (&pair.b, index_of(3, v6))] {
            let policy = g.db.policy(index).expect("policy");
            assert!(policy.packets() >= 5 && policy.last_use_s() == 1_000_000, "{index}");
        }
    }
}

#[test]
fn all_four_combinations_of_families() {
    both_ways(&Spec::default());
    both_ways(&Spec { outer_v6: true, ..Spec::default() });
}

#[test]
fn udp_encapsulation() {
    both_ways(&Spec { encap: true, ..Spec::default() });
    both_ways(&Spec { encap: true, outer_v6: true, ..Spec::default() });
}

#[test]
fn extended_sequence_numbers() {
    both_ways(&Spec { esn: true, ..Spec::default() });
    // Past the first 2^32 numbers, which the wire does not show.
    let spec = Spec { esn: true, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    pair.a.sa(Side::A, &spec).esp.live().sent().store((1 << 32) - 3, Relaxed);
    pair.b.sa(Side::A, &spec).esp.live().edge().store((1 << 32) - 3, Relaxed);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..6 {
        pair.a.put_lan(&ip.sized(100, n));
    }
    pair.a.run();
    pair.carry(Side::A);
    let arrived: Vec<u16> = pair.b.lan_out().iter().map(|p| number(p)).collect();
    assert_eq!(arrived, [0, 1, 2, 3, 4, 5]);
    assert_eq!(pair.b.sa(Side::A, &spec).esp.live().edge().load(Relaxed), (1 << 32) + 3);
}

#[test]
fn every_suite() {
    // Those of the tests' engine: OpenSSL 3.0 has no SM4-GCM.
    for suite in crypto::Suite::all().filter(|suite| PROVIDER.supports(*suite)) {
        both_ways(&Spec { suite, ..Spec::default() });
    }
}

#[test]
fn ethernet_padding_is_no_part_of_the_packet() {
    let mut pair = Pair::new(&Spec::default());
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(30, 1);
    let padded = [&packet[..], &[0xee; 16]].concat();
    pair.a.put_lan(&padded);
    pair.a.run();
    let carried = pair.a.wan_out();
    assert_eq!(carried[0].len(), 20 + 8 + 8 + 32 + 16);
    pair.b.put_wan(&[&carried[0][..], &[0xdd; 9]].concat());
    pair.b.run();
    assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)]);
}

#[test]
fn numbers_and_order_stay_over_many_bursts() {
    let mut pair = Pair::new(&Spec::default());
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..400 {
        pair.a.put_lan(&ip.sized(60, n));
    }
    pair.a.run();
    let sent = pair.carry(Side::A);
    let sequence: Vec<u32> =
        sent.iter().map(|p| u32::from_be_bytes([p[24], p[25], p[26], p[27]])).collect();
    assert_eq!(sequence, (1..=400).collect::<Vec<u32>>());
    let arrived: Vec<u16> = pair.b.lan_out().iter().map(|p| number(p)).collect();
    assert_eq!(arrived, (0..400).collect::<Vec<u16>>());
    assert_eq!(pair.b.drops(), []);
}

/// More in one round than the engine takes at once: ESP by both ports.
#[test]
fn esp_from_several_ports_in_one_round() {
    let spec = Spec { replay_window: 4096, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..200 {
        pair.a.put_lan(&ip.sized(60, n));
    }
    pair.a.run();
    for (n, packet) in pair.a.wan_out().iter().enumerate() {
        if n % 2 == 0 { pair.b.put_wan(packet) } else { pair.b.put_lan(packet) }
    }
    pair.b.run();
    let mut arrived: Vec<u16> = pair.b.lan_out().iter().map(|p| number(p)).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, (0..200).collect::<Vec<u16>>());
}

#[test]
fn replays_and_forgeries_are_dropped_once_each() {
    let spec = Spec { replay_window: 64, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..200 {
        pair.a.put_lan(&ip.sized(60, n));
    }
    pair.a.run();
    let sent = pair.carry(Side::A);
    pair.b.lan_out();
    pair.b.put_wan(&sent[0]);
    pair.b.put_wan(&sent[199]);
    pair.b.put_wan(&sent[199]);
    let mut forged = sent[150].clone();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    forged[27] = 0xff; // number 255, ahead of the window
    pair.b.put_wan(&forged);
    pair.b.run();
    let expected = [
        (DropReason::InReplayOld, 1),
        (DropReason::InReplayDuplicate, 2),
        (DropReason::InIntegrity, 1),
    ];
    assert_eq!(pair.b.drops(), expected);
    assert!(pair.b.lan_out().is_empty());
    let sa = pair.b.sa(Side::A, &spec);
    assert_eq!(sa.esp.live().edge().load(Relaxed), 200, "a forgery does not move the window");
}

#[test]
fn two_copies_in_one_burst_are_one_packet() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.put_lan(&Ip::new(Side::A.lan(true, 10), Side::B.lan(true, 10)).sized(200, 1));
    pair.a.run();
    let sent = pair.a.wan_out();
    for _ in 0..3 {
        pair.b.put_wan(&sent[0]);
    }
    pair.b.run();
    assert_eq!(pair.b.lan_out().len(), 1);
    assert_eq!(pair.b.drops(), [(DropReason::InReplayDuplicate, 2)]);
}

#[test]
fn a_new_mapping_is_told_and_the_packet_accepted() {
    let spec = Spec { encap: true, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..300 {
        pair.a.put_lan(&ip.sized(100, n));
    }
    pair.a.run();
    let mut sent = pair.a.wan_out();
    pair.b.put_wan(&sent[0]);
    pair.b.run();
    assert_eq!(pair.b.events(), []);
    for packet in &mut sent[1..] {
        packet[12..16].copy_from_slice(&[192, 0, 2, 77]);
        wire::ipv4::fill_checksum(packet);
        packet[20..22].copy_from_slice(&61234_u16.to_be_bytes());
    }
    for packet in &sent[1..] {
        pair.b.put_wan(packet);
    }
    pair.b.run();
    assert_eq!(pair.b.lan_out().len(), 300);
    let events = pair.b.events();
    let sa = pair.b.sa(Side::A, &spec).config.id();
    let expected =
        Event::MappingChanged { sa, src: crate::support::ip("192.0.2.77"), src_port: 61234 };
    assert_eq!(events[0], expected);
    assert_eq!(events.len(), 100, "a few are enough");
    // A forged packet tells nothing.
    let mut forged = sent[1].clone();
    forged[31] = 0xf0;
    pair.b.now.ns += 1_000_000_000;
    pair.b.put_wan(&forged);
    pair.b.run();
    assert_eq!(pair.b.events(), []);
}

#[test]
fn volume_limits_outbound() {
    let limits = VolumeLimits { soft_packets: 2, hard_packets: 5, ..VolumeLimits::NONE };
    let spec = Spec { limits, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let sa = pair.a.sa(Side::A, &spec).config.id();
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..3 {
        pair.a.put_lan(&ip.sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.events(), [Event::VolumeReached { sa, hard: false }]);
    for n in 3..6 {
        pair.a.put_lan(&ip.sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.events(), [Event::VolumeReached { sa, hard: true }]);
    assert_eq!(pair.a.wan_out().len(), 5, "a limit of five lets five through");
    assert_eq!(pair.a.drops(), [(DropReason::OutStateExpired, 1)]);
    // The next one asks for another SA, and never leaves in clear.
    pair.a.put_lan(&ip.sized(100, 9));
    pair.a.run();
    assert!(matches!(pair.a.events()[..], [Event::Acquire { policy: 11, .. }]));
    assert_eq!(pair.a.counters.totals().held, 1);
}

#[test]
fn volume_limits_inbound() {
    let mut pair = Pair::new(&Spec::default());
    let limits = VolumeLimits { soft_packets: 3, hard_packets: 4, ..VolumeLimits::NONE };
    let spec = Spec { limits, ..Spec::default() };
    let id = pair.b.sa(Side::A, &spec).config.id();
    pair.b.db.remove_sa(&id);
    let config = crate::support::sa_config(&spec, Side::A);
    pair.b.db.add_sa(config.clone(), crate::support::make_sa(&config.params)).expect("new");
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for n in 0..7 {
        pair.a.put_lan(&ip.sized(100, n));
    }
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.lan_out().len(), 4, "a limit of four lets four through");
    let reached = |hard| Event::VolumeReached { sa: id, hard };
    assert_eq!(pair.b.events(), [reached(false), reached(true)]);
    assert_eq!(pair.b.drops(), [(DropReason::InStateExpired, 3)]);
    pair.a.put_lan(&ip.sized(100, 8));
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.events(), []);
    assert_eq!(pair.b.drops(), [(DropReason::InStateExpired, 4)]);
}

#[test]
fn what_came_by_the_wrong_sa_is_refused() {
    let mut pair = Pair::new(&Spec::default());
    // The peer's SA is good, but policy wants another one for this prefix.
    for index in [12, 13] {
        let mut config = pair.b.db.policy(index).expect("policy").config.clone();
        config.templates[0].reqid = 2;
        pair.b.db.put_policy(config);
    }
    pair.a.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1));
    pair.a.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1)).sized(100, 2));
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.drops(), [(DropReason::InPolicy, 2)]);
    assert!(pair.b.lan_out().is_empty() && pair.b.linux_out().is_empty());
}

#[test]
fn content_outside_the_policy_is_refused() {
    let mut pair = Pair::new(&Spec::default());
    // A's policy sends more into the tunnel than B's lets out.
    let mut config = pair.a.db.policy(11).expect("policy").config.clone();
    config.selector.dst.len = 0;
    pair.a.db.put_policy(config);
    pair.a.put_lan(&Ip::new(Side::A.lan(false, 10), crate::support::ip("172.16.0.1")).sized(90, 1));
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 1);
    assert_eq!(pair.b.drops(), [(DropReason::InPolicy, 1)]);
    // Blocked after decryption.
    let mut config = pair.b.db.policy(13).expect("policy").config.clone();
    config.action = Action::Block;
    pair.b.db.put_policy(config);
    pair.a.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(90, 2));
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.drops(), [(DropReason::InPolicy, 1), (DropReason::InPolicyBlock, 1)]);
}

#[test]
fn decrypted_packets_for_this_host_go_to_linux() {
    let mut pair = Pair::new(&Spec::default());
    for v6 in [false, true] {
        let packet = Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 1)).sized(300, 1);
        pair.a.put_lan(&packet);
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.linux_out(), [hopped(&packet, 1)], "not forwarded: one hop");
    }
    // And the answer of the program, which Linux routes to the private interface.
    let answer = Ip::new(Side::B.lan(false, 1), Side::A.lan(false, 10)).sized(300, 2);
    pair.b.put_linux(&answer);
    pair.b.run();
    pair.carry(Side::B);
    assert_eq!(pair.a.lan_out(), [hopped(&answer, 1)]);
}

#[test]
fn a_decrypted_packet_may_go_on_to_elsewhere_or_into_another_tunnel() {
    let mut pair = Pair::new(&Spec::default());
    // A sends everything of its network into the tunnel; B forwards it.
    let mut config = pair.a.db.policy(11).expect("policy").config.clone();
    config.selector.dst.len = 0;
    pair.a.db.put_policy(config);
    let mut config = pair.b.db.policy(13).expect("policy").config.clone();
    config.selector.dst.len = 0;
    pair.b.db.put_policy(config);
    // Out of the WAN port again, in clear: B has no policy for it (it is the hub).
    let packet = Ip::new(Side::A.lan(false, 10), crate::support::ip("203.0.113.9")).sized(200, 1);
    // Over an interface that is Linux's.
    let other = Ip::new(Side::A.lan(false, 10), crate::support::ip("198.51.100.9")).sized(200, 2);
    pair.a.put_lan(&packet);
    pair.a.put_lan(&other);
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 2);
    assert_eq!(pair.b.wan_out(), [hopped(&packet, 2)]);
    assert_eq!(pair.b.linux_out(), [hopped(&other, 1)], "Linux counts the hop");
    assert_eq!(pair.b.drops(), []);
}

/// A rule by ingress interface: what came by the WAN is routed by another table.
#[test]
fn decrypted_packets_are_routed_by_where_they_came_in() {
    let mut pair = Pair::new(&Spec::default());
    let host = forward::Subnet { addr: Side::B.lan(false, 10), len: 32 };
    let kind = forward::RouteKind::Unicast;
    let elsewhere = crate::support::route(100, host, kind, Some(crate::support::OTHER), None);
    let mut rule = forward::RuleEntry::table(wire::Family::V4, 10, 100);
    rule.iif = Some(crate::support::WAN);
    pair.b.set_topology_with(1500, vec![elsewhere], vec![rule], true);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    pair.a.put_lan(&packet);
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.linux_out(), [hopped(&packet, 1)], "its table leads over Linux");
    let local = Ip::new(Side::B.lan(false, 1), Side::B.lan(false, 10)).sized(100, 2);
    pair.b.put_linux(&local);
    pair.b.run();
    assert_eq!(pair.b.lan_out(), [local]);
}

#[test]
fn dscp_and_df_are_copied_as_the_sa_says() {
    for no_pmtu_disc in [false, true] {
        let flags = SaFlags { no_pmtu_disc, ..SaFlags::default() };
        let mut pair = Pair::new(&Spec { flags, suite: GCM, ..Spec::default() });
        let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        pair.a.put_lan(&Ip { traffic_class: 0xb8, dont_fragment: true, ..ip }.sized(100, 1));
        pair.a.run();
        let outer = parse_ip(&pair.a.wan_out()[0]).expect("outer");
        assert_eq!((outer.traffic_class, outer.dont_fragment), (0xb8, !no_pmtu_disc));
    }
}

/// The rules for all tunnels: DF that is always set has what is too long cut before encryption.
#[test]
fn outer_headers_by_the_rules_for_all_tunnels() {
    let spec = Spec { suite: GCM, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    let headers = TunnelHeaders {
        df: esp::OuterDf::Set,
        dscp: esp::OuterDscp::Value(46),
        ..TunnelHeaders::default()
    };
    for g in [&mut pair.a, &mut pair.b] {
        let mut config = crate::support::sa_config(&spec, Side::A);
        config.params.spi = 0x7777;
        config.added_s = 2;
        let sa = crate::support::make_sa(&config.params).with_tunnel_headers(headers);
        g.db.add_sa(config, sa).expect("new");
    }
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    for (len, packets) in [(100, 1), (1500, 2)] {
        pair.a.put_lan(&Ip { traffic_class: 0x20, ..ip }.sized(len, 1));
        pair.a.run();
        let sent = pair.carry(Side::A);
        assert_eq!(sent.len(), packets);
        for outer in sent.iter().map(|packet| parse_ip(packet).expect("outer")) {
            assert_eq!((outer.traffic_class, outer.dont_fragment), (46 << 2, true));
        }
        let inner = pair.b.lan_out();
        assert_eq!(inner.len(), packets);
        assert!(inner.iter().all(|packet| packet[1] == 0x20 && packet[6] & 0x40 == 0));
    }
}

#[test]
fn an_sa_that_was_replaced_carries_on_under_the_policy() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    // A second, younger SA with its own SPI: outbound it is preferred, inbound both are good.
    for g in [&mut pair.a, &mut pair.b] {
        let mut config = crate::support::sa_config(&spec, Side::A);
        config.params.spi = 0x7777;
        config.added_s = 2;
        g.db.add_sa(config.clone(), crate::support::make_sa(&config.params)).expect("new");
    }
    pair.a.put_lan(&ip.sized(100, 1));
    pair.a.run();
    let sent = pair.carry(Side::A);
    assert_eq!(sent[0][20..24], 0x7777_u32.to_be_bytes());
    // The younger one goes: the older one carries again.
    let mut id = crate::support::sa_config(&spec, Side::A).id();
    id.spi = 0x7777;
    pair.a.db.remove_sa(&id);
    pair.a.put_lan(&ip.sized(100, 2));
    pair.a.run();
    assert_eq!(pair.carry(Side::A)[0][20..24], Side::A.spi().to_be_bytes());
    assert_eq!(pair.b.lan_out().len(), 2);
}
