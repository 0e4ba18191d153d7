//! Packets that wait: for an SA, for a neighbour, each until it comes or time is up.

use dataplane::Event;
use esp::Mode;
use forward::NeighbourState;
use outcome::DropReason;
use policy::{Action, Direction, Prefix, Selector};

use crate::packets::{Ip, number};
use crate::support::{
    Gateway, HELD, Pair, Side, Spec, WAN, ip, make_sa, policy, sa_config, template,
};

fn waiting(spec: &Spec) -> Pair {
    let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
    pair.a.add_policies(spec);
    pair.b.protect(spec);
    pair
}

fn a_to_b() -> Ip {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10))
}

#[test]
fn one_acquire_and_release_in_order() {
    let spec = Spec::default();
    let mut pair = waiting(&spec);
    for n in 0..10 {
        pair.a.put_lan(&a_to_b().sized(100, n));
    }
    pair.a.run();
    pair.a.put_lan(&a_to_b().sized(100, 10));
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 11);
    let events = pair.a.events();
    let [Event::Acquire { policy: 11, cpu: None, flow }] = events[..] else { panic!("{events:?}") };
    assert_eq!((flow.src, flow.dst), (a_to_b().src, a_to_b().dst));
    assert!(pair.a.wan_out().is_empty() && pair.a.linux_out().is_empty());
    assert_eq!(pair.a.db.policy(11).expect("policy").packets(), 0, "not decided yet");
    // An SA that does not matter releases nothing.
    let mut other = sa_config(&spec, Side::A);
    other.reqid = 9;
    other.params.spi = 0x9999;
    pair.a.db.add_sa(other.clone(), make_sa(&other.params)).expect("new");
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 11);
    // The right one releases all, before what comes in the same round.
    pair.a.add_sas(&spec);
    pair.a.put_lan(&a_to_b().sized(100, 11));
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 0);
    pair.carry(Side::A);
    let arrived: Vec<u16> = pair.b.lan_out().iter().map(|p| number(p)).collect();
    assert_eq!(arrived, (0..12).collect::<Vec<u16>>());
    assert_eq!(pair.a.events(), []);
    assert_eq!(pair.a.db.policy(11).expect("policy").packets(), 12, "each counted once");
}

#[test]
fn time_runs_out_and_the_next_packet_asks_again() {
    let mut pair = waiting(&Spec::default());
    pair.a.put_lan(&a_to_b().sized(100, 1));
    pair.a.run();
    assert_eq!(pair.a.events().len(), 1);
    pair.a.pass_ns(4_999_999_999);
    assert_eq!(pair.a.counters.totals().held, 1);
    pair.a.pass_ns(1);
    assert_eq!(pair.a.drops(), [(DropReason::HoldTimeout, 1)]);
    pair.a.put_lan(&a_to_b().sized(100, 2));
    pair.a.run();
    assert!(matches!(pair.a.events()[..], [Event::Acquire { .. }]));
}

/// The peer is down for a while, and traffic never stops: it must not be asked only once.
#[test]
fn steady_traffic_asks_again_every_time_out() {
    let spec = Spec::default();
    let mut pair = waiting(&spec);
    for n in 0..400 {
        pair.a.put_lan(&a_to_b().sized(100, n));
        pair.a.pass_ns(50_000_000);
    }
    // 20 seconds, 5 for each.
    let acquires = pair.a.events().len();
    assert!((4..=5).contains(&acquires), "{acquires}");
    assert_eq!(pair.a.counters.work.acquires.value(), acquires as u64);
    pair.a.add_sas(&spec);
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 0);
    assert_eq!(pair.a.events(), []);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let spec = Spec::default();
    let mut pair = waiting(&spec);
    for n in 0..HELD + 6 {
        pair.a.put_lan(&a_to_b().sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, HELD.into());
    assert_eq!(pair.a.drops(), [(DropReason::OutNoState, 6)]);
    assert_eq!(pair.a.events().len(), 1);
    pair.a.add_sas(&spec);
    pair.a.run();
    let sent: Vec<u16> = {
        pair.carry(Side::A);
        pair.b.lan_out().iter().map(|p| number(p)).collect()
    };
    assert_eq!(sent, (0..HELD).collect::<Vec<u16>>());
}

#[test]
fn a_policy_that_goes_releases_by_what_is_true_now() {
    let mut pair = waiting(&Spec::default());
    pair.a.put_lan(&a_to_b().sized(100, 1));
    pair.a.run();
    pair.a.db.remove_policy(11);
    pair.a.db.set_default(Direction::Out, Action::Block);
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::OutPolicyBlock, 1)]);
}

/// One policy, an SA for each pair of hosts: one host's SA must not spin on another's packet.
#[test]
fn in_transport_mode_each_pair_of_hosts_waits_alone() {
    let spec = Spec { mode: Mode::Transport, ..Spec::default() };
    let mut g = Gateway::new(Side::A);
    let all = Prefix { addr: ip("192.0.2.0"), len: 24 };
    let selector = Selector::between(all, all);
    g.db.put_policy(policy(1, Direction::Out, selector, vec![template(&spec, Side::A)]));
    let us = Side::A.wan(false);
    for n in 0..3 {
        g.put_linux(&Ip::new(us, Side::B.wan(false)).sized(100, n));
        g.put_linux(&Ip::new(us, ip("192.0.2.200")).sized(100, n));
    }
    g.run();
    let acquires = g.events();
    assert_eq!(acquires.len(), 2, "{acquires:?}");
    g.add_sas(&spec);
    g.run();
    assert_eq!(g.wan_out().len(), 3);
    assert_eq!(g.counters.totals().held, 3);
    assert_eq!(g.events(), [], "those that still wait do not ask again");
}

/// The SA's own selector takes one of two flows under one policy.
#[test]
fn a_narrow_sa_does_not_spin_on_what_it_does_not_carry() {
    let spec = Spec::default();
    let mut pair = waiting(&spec);
    pair.a.put_lan(&a_to_b().udp(1, 80, b"one"));
    pair.a.put_lan(&a_to_b().udp(1, 81, b"two"));
    pair.a.put_lan(&a_to_b().udp(1, 80, b"three"));
    pair.a.run();
    let mut config = sa_config(&spec, Side::A);
    let mut selector = Selector::between(Side::A.net(false), Side::B.net(false));
    selector.dst_port = policy::PortMask { value: 80, mask: 0xffff };
    config.selector = Some(selector);
    pair.a.db.add_sa(config.clone(), make_sa(&config.params)).expect("new");
    pair.a.events();
    pair.a.run();
    assert_eq!(pair.a.wan_out().len(), 1);
    let events = pair.a.events();
    let [Event::Acquire { flow, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!(flow.dst_port, 81, "another SA is needed");
    assert_eq!(pair.a.counters.totals().held, 2, "in order behind the one that waits");
    // Time releases those behind it too, one way or the other.
    pair.a.pass_ns(5_000_000_000);
    assert_eq!(pair.a.drops(), [(DropReason::HoldTimeout, 2)]);
}

#[test]
fn packets_wait_for_the_neighbour_in_order() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.set_neighbours(NeighbourState::Incomplete);
    for n in 0..10 {
        pair.a.put_lan(&a_to_b().sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 10);
    let resolve = Event::Resolve { ifindex: WAN, ip: Side::B.wan(false) };
    assert_eq!(pair.a.events(), [resolve]);
    pair.a.set_neighbours(NeighbourState::Reachable);
    pair.a.put_lan(&a_to_b().sized(100, 10));
    pair.a.run();
    pair.carry(Side::A);
    let arrived: Vec<u16> = pair.b.lan_out().iter().map(|p| number(p)).collect();
    assert_eq!(arrived, (0..11).collect::<Vec<u16>>());
    assert_eq!(pair.b.drops(), [], "also in the order of their numbers");
}

#[test]
fn neighbours_that_fail_or_never_answer() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.set_neighbours(NeighbourState::Incomplete);
    for n in 0..HELD + 6 {
        pair.a.put_lan(&a_to_b().sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::HoldQueueFull, 6)]);
    pair.a.pass_ns(3_000_000_000);
    assert_eq!(pair.a.dropped(DropReason::HoldTimeout), HELD.into());
    pair.a.put_lan(&a_to_b().sized(100, 0));
    pair.a.run();
    assert_eq!(pair.a.counters.totals().held, 1);
    pair.a.set_neighbours(NeighbourState::Failed);
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::NeighbourFailed), 1);
    // Each packet is a reason to ask again, but not more often than the limit.
    pair.a.events();
    for n in 0..50 {
        pair.a.put_lan(&a_to_b().sized(100, n));
    }
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::NeighbourFailed), 51);
    assert!((1..=20).contains(&pair.a.events().len()));
}

#[test]
fn a_neighbour_that_linux_does_not_know_is_asked_for_again() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.tables.neighbours.store(Default::default());
    for n in 0..100 {
        pair.a.put_lan(&a_to_b().sized(100, n));
        pair.a.pass_ns(10_000_000);
    }
    let asked = pair.a.events().len();
    assert!((20..=41).contains(&asked), "{asked} in a second");
}

#[test]
fn a_stale_neighbour_is_used_and_confirmed() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.set_neighbours(NeighbourState::Stale);
    pair.a.put_lan(&a_to_b().sized(100, 0));
    pair.a.run();
    assert_eq!(pair.a.wan_out().len(), 1);
    assert_eq!(pair.a.events(), [Event::Resolve { ifindex: WAN, ip: Side::B.wan(false) }]);
}
