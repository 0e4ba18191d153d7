//! Fragments that arrive: of ESP, of what steering took because it might be, and of what policies with
//! ports are about.

use core::sync::atomic::Ordering::Relaxed;

use outcome::DropReason;
use policy::{Action, Direction, PortMask, Selector};
use wire::{parse_ip, protocol};

use crate::packets::{Ip, cut, hopped};
use crate::support::{Gateway, Pair, Side, Sizes, Spec, policy, template};

/// A packet from behind gateway A to a host behind gateway B.
fn forth(v6: bool) -> Ip {
    Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10))
}

/// A packet as gateway A seals it on a link without limits.
fn sealed(pair: &mut Pair, packet: &[u8]) -> Vec<u8> {
    pair.a.set_topology(9000, Vec::new());
    pair.a.put_lan(packet);
    pair.a.run();
    pair.a.wan_out().remove(0)
}

/// Every kind of ESP, cut by the network: in order, backwards, and with each fragment twice.
#[test]
fn esp_in_fragments_is_opened() {
    for (outer_v6, encap) in [(false, false), (true, false), (false, true), (true, true)] {
        let spec = Spec { outer_v6, encap, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        let mut ident = 0;
        for v6 in [false, true] {
            for mtu in [100, 576, 1280] {
                for order in 0..3 {
                    ident += 1;
                    let packet = forth(v6).sized(1400, ident);
                    let mut fragments = cut(&sealed(&mut pair, &packet), mtu, ident);
                    match order {
                        1 => fragments.reverse(),
                        2 => {
                            let twice = fragments.iter().flat_map(|f| [f.clone(), f.clone()]);
                            fragments = twice.collect();
                            // The repetition of the last would be a packet of its own.
                            fragments.pop();
                        }
                        _ => {}
                    }
                    fragments.iter().for_each(|f| pair.b.put_wan(f));
                    pair.b.run();
                    assert_eq!(pair.b.lan_out(), [hopped(&packet, 2)], "{spec:?} {mtu} {order}");
                    assert_eq!(pair.b.counters.totals().held, 0);
                }
            }
        }
        assert_eq!(pair.b.counters.work.reassembled.value(), u64::from(ident));
        let only = |(reason, _): &(DropReason, u64)| *reason == DropReason::FragmentDuplicate;
        assert!(pair.b.drops().iter().all(only), "{:?}", pair.b.drops());
        assert_eq!(pair.a.drops(), []);
    }
}

/// Up to the longest IP packet there is: what no ordinary frame holds.
#[test]
fn long_esp_is_opened() {
    let spec = Spec { mode: esp::Mode::Transport, ..Spec::default() };
    let mut pair = Pair::new(&spec);
    for (n, len) in [(1, 1700), (2, 1800), (3, 4096), (4, 30_000), (5, 65_470)] {
        let packet = Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(len, n);
        cut(&packet, 1500, n).iter().for_each(|f| pair.a.put_linux(f));
        pair.a.run();
        let fragments = pair.a.wan_out();
        assert!(fragments.len() > 1);
        fragments.iter().rev().for_each(|f| pair.b.put_wan(f));
        pair.b.run();
        let arrived = pair.b.linux_out();
        assert_eq!(arrived.len(), 1);
        assert!(arrived[0][20..] == packet[20..], "{len}");
    }
    assert_eq!((pair.a.drops(), pair.b.drops()), (vec![], vec![]));
}

/// Steering takes all fragments of UDP where some may be ESP. What is not goes back as it came.
#[test]
fn other_udp_goes_back_in_order() {
    for v6 in [false, true] {
        let spec = Spec { encap: true, outer_v6: v6, ..Spec::default() };
        let mut pair = Pair::new(&spec);
        let from = Ip::new(Side::A.wan(v6), Side::B.wan(v6));
        let ike = [&[0; 4][..], &[7; 3000]].concat();
        let packets =
            [from.udp(4500, 4500, &ike), from.udp(500, 500, &ike), from.udp(53, 9999, &[5; 2000])];
        let mut ident = 0;
        for packet in packets {
            for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
                ident += 1;
                let fragments = cut(&packet, 1280, ident);
                let sent: Vec<_> =
                    order.iter().filter_map(|at| fragments.get(*at).cloned()).collect();
                assert_eq!(sent.len(), fragments.len());
                sent.iter().for_each(|f| pair.b.put_wan(f));
                pair.b.run();
                assert_eq!(pair.b.linux_out(), sent);
            }
        }
        assert_eq!((pair.b.counters.totals().held, pair.b.drops()), (0, vec![]));
    }
}

/// Without a first fragment nobody can tell; the time ends it.
#[test]
fn what_never_tells_its_port_is_given_up() {
    let mut pair = Pair::new(&Spec { encap: true, ..Spec::default() });
    let packet = Ip::new(Side::A.wan(false), Side::B.wan(false)).udp(53, 9999, &[5; 3000]);
    for fragment in &cut(&packet, 1500, 1)[1..] {
        pair.b.put_wan(fragment);
    }
    pair.b.run();
    assert_eq!((pair.b.linux_out().len(), pair.b.counters.totals().held), (0, 2));
    pair.b.pass_ns(15_000_000_000);
    assert_eq!(pair.b.drops(), [(DropReason::FragmentTimeout, 2)]);
}

/// A flood of one source does not keep the peer's fragments from meeting, nor whole packets.
#[test]
fn a_flood_of_fragments_costs_others_nothing() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    let sizes = Sizes { chunks: 16384, stock: 12000, port_limit: 512 };
    pair.b = Gateway::with_sizes(Side::B, sizes);
    pair.b.protect(&spec);
    let mut good = 0;
    for round in 0..40_u16 {
        let packet = forth(false).sized(1400, round);
        let fragments = cut(&sealed(&mut pair, &packet), 800, round);
        let whole = sealed(&mut pair, &forth(false).sized(100, round));
        pair.b.put_wan(&fragments[0]);
        for n in 0..200_u16 {
            let esp = [&Side::A.spi().to_be_bytes()[..], &[9; 100]].concat();
            let flood = Ip {
                protocol: protocol::ESP,
                // Every other round from ever other sources.
                src: match round % 2 {
                    0 => "203.0.113.77".parse().expect("address"),
                    _ => std::net::IpAddr::from([198, 18, round as u8, n as u8]),
                },
                ..Ip::new(Side::A.wan(false), Side::B.wan(false))
            };
            let fragments = cut(&flood.with(&esp), 60, round * 200 + n);
            pair.b.put_wan(&fragments[usize::from(n % 2)]);
        }
        pair.b.put_wan(&whole);
        fragments[1..].iter().for_each(|f| pair.b.put_wan(f));
        pair.b.run();
        good += pair.b.lan_out().len();
        assert!(pair.b.counters.totals().held < 2048, "an eighth of the frames");
    }
    assert_eq!(good, 80);
    assert!(pair.b.dropped(DropReason::FragmentLimit) > 1000);
    pair.b.pass_ns(15_000_000_000);
    assert_eq!(pair.b.counters.totals().held, 0);
}

/// All fragments of a packet meet at one worker, and what they make goes to the SA's home.
#[test]
fn fragments_meet_whichever_worker_receives_them() {
    for workers in [2, 4] {
        let sizes = Sizes { chunks: 8192, stock: 2048, port_limit: 512 };
        let spec = Spec::default();
        let mut pair = Pair::new(&spec);
        let mut b = Gateway::with_workers(Side::B, sizes, 1024, workers);
        b.protect(&spec);
        for n in 0..60_u16 {
            let packet = forth(false).sized(1400, n);
            let fragments = cut(&sealed(&mut pair, &packet), 400, n);
            for (at, fragment) in fragments.iter().enumerate() {
                // As a network card that spreads by whatever it finds.
                let queue = match (usize::from(n) + at) % workers {
                    0 => b.wan.clone(),
                    other => b.others[other - 1].ports[1].clone(),
                };
                let frame = crate::support::ethernet(
                    Side::B.mac(crate::support::WAN),
                    Side::A.mac(crate::support::WAN),
                    fragment,
                );
                b.put_into(&queue, &frame, io::HEADROOM);
            }
            b.run();
            assert_eq!(b.lan_out(), [hopped(&packet, 2)]);
        }
        assert_eq!(b.drops(), []);
        let made: Vec<u64> = b.all_counters().map(|c| c.work.reassembled.value()).collect();
        assert_eq!(made.iter().filter(|n| **n > 0).count(), 1, "{made:?}");
        // Those that wait when workers change are counted.
        let packet = forth(false).sized(1400, 1000);
        b.put_wan(&cut(&sealed(&mut pair, &packet), 800, 1000)[0]);
        b.run();
        b.set_workers(1);
        assert_eq!(b.drops(), [(DropReason::FragmentTimeout, 1)]);
    }
}

/// Helpers leave fragments to their worker.
#[test]
fn fragments_beside_helpers() {
    let mut pair = Pair::new(&Spec::default());
    let threads = crate::pool::pooled(&mut pair.b, 2);
    for n in 0..30_u16 {
        let packets: Vec<_> = (0..10).map(|i| forth(false).sized(1400, n * 10 + i)).collect();
        let mut arrived = Vec::new();
        for packet in &packets {
            let whole = sealed(&mut pair, packet);
            match packet[29] % 3 {
                0 => cut(&whole, 700, n * 10).iter().for_each(|f| pair.b.put_wan(f)),
                _ => pair.b.put_wan(&whole),
            }
        }
        while arrived.len() < packets.len() {
            pair.b.run();
            arrived.extend(pair.b.lan_out());
        }
        arrived.sort_unstable();
        let mut expected: Vec<_> = packets.iter().map(|p| hopped(p, 2)).collect();
        expected.sort_unstable();
        assert_eq!(arrived, expected);
    }
    assert_eq!(pair.b.drops(), []);
    drop(pair);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn udp_to(side: Side, port: u16) -> Selector {
    Selector {
        protocol: protocol::UDP,
        dst_port: PortMask { value: port, mask: u16::MAX },
        ..Selector::between(side.other().net(false), side.net(false))
    }
}

/// A gateway that protects UDP to port 7000 alone, and lets the rest pass.
fn by_port(side: Side) -> Gateway {
    let spec = Spec::default();
    let mut gateway = Gateway::new(side);
    gateway.add_sas(&spec);
    let ours = vec![template(&spec, Side::A)];
    let direction = if side == Side::A { Direction::Out } else { Direction::Forward };
    gateway.db.put_policy(policy(11, direction, udp_to(Side::B, 7000), ours));
    gateway
}

/// RFC 4301 §7.3: fragments go where the first one goes, before and behind the tunnel.
#[test]
fn policies_with_ports_judge_fragments_by_the_first() {
    let (mut a, mut b) = (by_port(Side::A), by_port(Side::B));
    let protected = forth(false).udp(1000, 7000, &[1; 2500]);
    let clear = forth(false).udp(1000, 8000, &[2; 2500]);
    let mut ident = 0;
    for order in [[0, 1], [1, 0]] {
        ident += 1;
        let fragments = cut(&protected, 1400, ident);
        order.iter().for_each(|at| a.put_lan(&fragments[*at]));
        a.run();
        let sent = a.wan_out();
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|p| p[9] == protocol::ESP));
        sent.iter().for_each(|p| b.put_wan(p));
        b.run();
        // The order of arrival is the order in which they go on.
        let expected: Vec<_> = order.iter().map(|at| hopped(&fragments[*at], 2)).collect();
        assert_eq!(b.lan_out(), expected);

        let fragments = cut(&clear, 1400, ident);
        order.iter().for_each(|at| a.put_lan(&fragments[*at]));
        a.run();
        assert!(a.wan_out().is_empty());
        let expected: Vec<_> = order.iter().map(|at| fragments[*at].clone()).collect();
        assert_eq!(a.linux_out(), expected, "Linux's, as it came");
    }
    assert_eq!((a.drops(), b.drops()), (vec![], vec![]));
    assert_eq!(a.sa(Side::A, &Spec::default()).esp.live().packets().load(Relaxed), 4);
}

/// A peer cannot bring by fragments what the policy does not allow: not with other ports, not with a
/// later fragment over the first one's ports (RFC 1858, RFC 4301 §7.3).
#[test]
fn a_later_fragment_brings_nothing_past_a_policy() {
    let spec = Spec::default();
    let mut pair = Pair::new(&spec);
    let mut b = by_port(Side::B);
    let mut through = |b: &mut Gateway, packet: &[u8]| {
        let esp = sealed(&mut pair, packet);
        b.put_wan(&esp);
        b.run();
        b.lan_out().len()
    };
    let other = cut(&forth(false).udp(1000, 8000, &[2; 1200]), 800, 1);
    assert_eq!(through(&mut b, &other[0]) + through(&mut b, &other[1]), 0);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 2)]);

    let good = cut(&forth(false).udp(1000, 7000, &[1; 1200]), 800, 2);
    assert_eq!(through(&mut b, &good[0]), 1);
    // It would put its own ports in the place of those that were judged.
    let mut over = good[1].clone();
    over[6..8].copy_from_slice(&[0x20, 1]);
    wire::ipv4::fill_checksum(&mut over);
    over.truncate(20 + 400);
    over[2..4].copy_from_slice(&420_u16.to_be_bytes());
    wire::ipv4::fill_checksum(&mut over[..20]);
    assert_eq!(through(&mut b, &over), 0);
    assert_eq!(b.dropped(DropReason::FragmentOverlap), 1);
    // What follows of that packet does not go on either.
    assert_eq!(through(&mut b, &good[1]), 0);
}

/// The policy with ports came later: what was decided about fragments before does not hold.
#[test]
fn a_policy_with_ports_voids_what_was_decided() {
    let mut a = Gateway::new(Side::A);
    a.protect(&Spec::default());
    let fragments = cut(&forth(false).udp(1000, 8000, &[2; 2500]), 1400, 1);
    for _ in 0..2 {
        fragments.iter().for_each(|f| a.put_lan(f));
        a.run();
        assert_eq!(a.wan_out().len(), 2);
    }
    let mut config = policy(99, Direction::Out, udp_to(Side::B, 8000), Vec::new());
    config.priority = 1;
    config.action = Action::Block;
    a.db.put_policy(config);
    let blocked = cut(&forth(false).udp(1000, 8000, &[2; 2500]), 1400, 2);
    blocked.iter().for_each(|f| a.put_lan(f));
    a.run();
    assert_eq!(a.wan_out().len(), 0);
    assert_eq!(a.drops(), [(DropReason::OutPolicyBlock, 2)]);
    let passes = cut(&forth(false).udp(1000, 8001, &[2; 2500]), 1400, 3);
    passes.iter().rev().for_each(|f| a.put_lan(f));
    a.run();
    let sent = a.wan_out();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|p| parse_ip(p).expect("packet").protocol == protocol::ESP));
}
