//! Cleartext that is Linux's goes back to the interface that it came in by.

use std::sync::Arc;

use dataplane::Topology;
use esp::Mode;
use outcome::DropReason;
use policy::{Direction, Prefix, Selector};

use crate::packets::{Ip, hopped};
use crate::support::{Gateway, LAN, Pair, Side, Spec, WAN, ethernet, ip, policy, template};

pub const LAN_TAG: u16 = 2;
pub const WAN_TAG: u16 = 1;

/// Lets both ports have their packets back.
pub fn give_back(g: &Gateway) {
    let old = g.tables.topology.load_full();
    let mut interfaces = old.interfaces.clone();
    for (ifindex, tag) in [(LAN, LAN_TAG), (WAN, WAN_TAG)] {
        interfaces.get_mut(&ifindex).expect("a port").back = Some(tag);
    }
    let topology = Topology {
        fib: old.fib.clone(),
        interfaces,
        local: old.local.clone(),
        ..Topology::default()
    };
    g.tables.topology.store(Arc::new(topology));
}

/// A frame behind its tag.
pub fn tagged(tag: u16, frame: &[u8]) -> Vec<u8> {
    [&[0x81, 0x00], &tag.to_be_bytes()[..], &frame[12..14], frame].concat()
}

#[test]
fn as_it_came() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.a;
    give_back(g);
    let (mac, host) = (g.side.mac(LAN), g.side.host_mac(10));
    // The second of a flow goes by its plan.
    for round in 0..3 {
        for v6 in [false, true] {
            let to = if v6 { ip("2001:db8:99::1") } else { ip("198.51.100.7") };
            let transit = Ip::new(Side::A.lan(v6, 10), to).sized(100, round);
            let local = Ip::new(Side::A.lan(v6, 10), Side::A.lan(v6, 1)).sized(90, round);
            g.put_lan(&transit);
            g.put_lan(&local);
            g.run();
            let expected = [&transit, &local].map(|p| tagged(LAN_TAG, &ethernet(mac, host, p)));
            assert_eq!(g.linux_out(), expected, "v6: {v6}, round {round}");
        }
    }
    assert!(g.drops().is_empty() && g.wan_out().is_empty());
}

#[test]
fn a_tag_of_priority_is_taken_off() {
    let mut g = Gateway::new(Side::A);
    give_back(&g);
    let packet = Ip::new(Side::A.lan(false, 10), ip("198.51.100.7")).sized(100, 1);
    let frame = ethernet(g.side.mac(LAN), g.side.host_mac(10), &packet);
    let lan = g.lan.clone();
    g.put(&lan, &[&frame[..12], &[0x81, 0x00, 0xa0, 0x00], &frame[12..]].concat());
    g.run();
    assert_eq!(g.linux_out(), [tagged(LAN_TAG, &frame)]);
}

#[test]
fn what_was_decrypted_comes_as_ever() {
    let mut pair = Pair::new(&Spec::default());
    give_back(&pair.b);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1)).sized(100, 1);
    pair.a.put_lan(&packet);
    pair.a.run();
    pair.carry(Side::A);
    assert_eq!(pair.b.linux_out(), [hopped(&packet, 1)]);
}

/// The filter of the WAN is strict. Linux applies it to what it gets back, and to nothing else.
#[test]
fn only_linuxs_packets_are_left_to_its_reverse_path_filter() {
    let mut pair = Pair::new(&Spec::default());
    let forged = |dst| Ip::new(Side::B.lan(false, 10), dst).sized(100, 1);
    let g = &mut pair.b;
    let to_linux = [forged(ip("198.51.100.7")), forged(Side::B.wan(false))];
    let to_tunnel = forged(Side::A.lan(false, 10));
    for packet in to_linux.iter().chain([&to_tunnel]) {
        g.put_wan(packet);
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::ReversePath, 3)]);
    give_back(g);
    for packet in to_linux.iter().chain([&to_tunnel]) {
        g.put_wan(packet);
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::ReversePath, 4)]);
    let frames =
        to_linux.map(|p| tagged(WAN_TAG, &ethernet(Side::B.mac(WAN), Side::A.mac(WAN), &p)));
    assert_eq!(g.linux_out(), frames);
    assert!(g.wan_out().is_empty());
}

/// Under a policy that does not insist on protection cleartext passes; the guard's barrier for that
/// policy would stop it at the port.
#[test]
fn what_a_barrier_would_stop_comes_by_the_private_interface() {
    let spec = Spec { mode: Mode::Transport, ..Spec::default() };
    let mut g = Gateway::new(Side::B);
    let mut optional = template(&spec, Side::A);
    optional.optional = true;
    let net = |side: Side| Prefix { addr: side.wan(false), len: 32 };
    let selector = Selector::between(net(Side::A), net(Side::B));
    g.db.put_policy(policy(1, Direction::In, selector, vec![optional]));
    give_back(&g);
    let packet = Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(100, 1);
    g.put_wan(&packet);
    g.run();
    assert_eq!(g.linux_out(), [packet]);
    assert!(g.drops().is_empty());
}
