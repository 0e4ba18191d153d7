//! Policies that are left to Linux: it gets what is theirs, wherever that comes from, and nothing leaves in
//! clear here.

use dataplane::Binding;
use outcome::DropReason;
use policy::{Action, Direction, Mark, PolicyConfig, Prefix, Selector};

use crate::back::{LAN_TAG, WAN_TAG, give_back, tagged};
use crate::packets::{Ip, hopped};
use crate::route_based::{IF_ID, TAG, everything, gateway, gateway_with, marked};
use crate::support::{
    Gateway, LAN, Pair, Side, Spec, WAN, craft_esp, esp_text, ethernet, ip, policy, template,
};
use crate::vti::vti;

/// Leaves a policy to Linux, or takes it over.
fn put(g: &mut Gateway, index: u32, action: Action) {
    let config = g.db.policy(index).expect("policy").config.clone();
    g.db.put_policy(PolicyConfig { action, ..config });
}

fn frame(side: Side, ifindex: u32, packet: &[u8]) -> Vec<u8> {
    let from = if ifindex == LAN { side.host_mac(10) } else { side.other().mac(WAN) };
    ethernet(side.mac(ifindex), from, packet)
}

/// A policy that is left to Linux, in front of all others.
fn left(index: u32, dst: Prefix) -> PolicyConfig {
    let any = Prefix { addr: ip("0.0.0.0"), len: 0 };
    let templates = vec![template(&Spec::default(), Side::B)];
    let config = policy(index, Direction::Out, Selector::between(any, dst), templates);
    PolicyConfig { priority: 1, action: Action::Leave, ..config }
}

#[test]
fn what_a_port_brought_goes_back_to_it() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.a;
    put(g, 11, Action::Leave);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    // Without a way back by the private interface; as it came, for Linux forwards it.
    for given in [packet.clone(), tagged(LAN_TAG, &frame(Side::A, LAN, &packet))] {
        for round in 0..3 {
            g.put_lan(&packet);
            g.run();
            assert_eq!(g.linux_out(), core::slice::from_ref(&given), "round {round}");
        }
        give_back(g);
    }
    let work = &g.counters.work;
    assert_eq!((work.flow_misses.value(), work.flow_hits.value()), (2, 4));
    assert_eq!(g.db.policy(11).expect("policy").packets(), 6);
    assert!(g.drops().is_empty() && g.wan_out().is_empty());
}

#[test]
fn what_linux_sent_goes_back_to_it() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.a;
    let packet = Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(100, 1);
    // A plan of before does not outlive the change, either way.
    for action in [Action::Allow, Action::Leave, Action::Allow, Action::Leave] {
        put(g, 11, action);
        for round in 0..3 {
            g.put_linux(&packet);
            g.run();
            let (sealed, left) = (g.wan_out(), g.linux_out());
            let is_left = action == Action::Leave;
            assert_eq!((sealed.len(), left.len()), if is_left { (0, 1) } else { (1, 0) });
            assert!(sealed.iter().all(|packet| packet[9] == 50), "round {round}");
            assert!(left.iter().all(|left| *left == packet), "round {round}");
        }
    }
    assert!(g.drops().is_empty());
}

/// A policy of an XFRM interface is not found again for what comes in by the private interface, nor one of
/// a mark that Linux cannot be told.
#[test]
fn what_linux_could_not_find_the_policy_of_is_dropped() {
    let packet = Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(100, 1);
    let (mut g, tunnel) = gateway(Side::A);
    g.db.put_policy(PolicyConfig { if_id: IF_ID, ..left(1, everything().dst) });
    g.put(&tunnel, &packet);
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutUnsupported, 1)]);
    // From a port: Linux gets it, routes it to the tunnel interface, and so on.
    g.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1));
    g.run();
    assert_eq!(g.linux_out().len(), 1);
    assert!(g.wan_out().is_empty());

    let (mut g, tunnel) = gateway_with(Side::A, Binding::Vti(vti(Side::A)));
    let mark = Mark { value: vti(Side::A).okey, mask: !0 };
    g.db.put_policy(PolicyConfig { mark, ..left(1, everything().dst) });
    g.put(&tunnel, &packet);
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutUnsupported, 1)]);
    assert!(g.wan_out().is_empty() && g.linux_out().is_empty());
}

#[test]
fn linux_is_told_the_mark_that_chose_the_policy() {
    let (mut g, _) = gateway(Side::A);
    g.set_topology_but(Vec::new(), |topology| {
        topology.marks.insert(policy::Marks::of_mark(10), TAG);
    });
    let packet = Ip::new(Side::A.lan(false, 1), ip("203.0.113.9")).sized(100, 1);
    let exactly = |value| Mark { value, mask: !0 };
    for (index, value) in [(1, 10), (2, 11)] {
        g.db.put_policy(PolicyConfig { mark: exactly(value), ..left(index, everything().dst) });
    }
    for mark in [10, 10, 11, 11] {
        g.put_linux(&marked(mark, &packet));
        g.run();
    }
    let given = g.linux_out();
    assert_eq!(given.len(), 2);
    for packet_and_tag in given {
        assert_eq!(packet_and_tag[..4], [0x81, 0x00, 0, TAG as u8]);
        assert_eq!(packet_and_tag[20..], packet);
    }
    assert_eq!(g.drops(), [(DropReason::OutUnsupported, 2)]);
    // Where it makes no difference it need not be told.
    g.db.put_policy(PolicyConfig { priority: 0, ..left(3, everything().dst) });
    g.put_linux(&marked(11, &packet));
    g.run();
    assert_eq!(g.linux_out(), core::slice::from_ref(&packet));
    // One without the mark would decide otherwise.
    let lets_pass = policy(4, Direction::Out, everything(), vec![]);
    g.db.put_policy(PolicyConfig { priority: 0, mark: exactly(0), ..lets_pass });
    g.db.put_policy(PolicyConfig { priority: 1, ..left(3, everything().dst) });
    g.db.remove_policy(2);
    g.put_linux(&marked(11, &packet));
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutUnsupported, 3)]);
    assert!(g.wan_out().is_empty() && g.linux_out().is_empty());
}

#[test]
fn what_was_decrypted_and_errors_about_it_are_linuxs() {
    let mut g = Gateway::new(Side::B);
    g.protect(&Spec::default());
    // Back into the tunnel, and what is for the hosts that are said to be behind it.
    g.db.put_policy(left(1, Side::A.net(false)));
    g.db.put_policy(left(2, Prefix { addr: ip("203.0.113.0"), len: 24 }));
    let theirs = vec![template(&Spec::default(), Side::A)];
    g.db.put_policy(policy(3, Direction::Forward, everything(), theirs));
    let onwards = Ip::new(Side::A.lan(false, 10), ip("203.0.113.9")).sized(100, 1);
    for (n, to_linux) in [(1, onwards.clone()), (2, onwards)] {
        g.put_wan(&craft_esp(Side::A, n, &esp_text(&to_linux, 4), 0));
        g.run();
        assert_eq!(g.linux_out(), [to_linux], "its hop is Linux's");
    }
    // The gateway's own ICMP error: Linux protects it.
    let ends = Ip { ttl: 1, ..Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)) };
    g.put_wan(&craft_esp(Side::A, 3, &esp_text(&ends.sized(100, 1), 4), 0));
    g.run();
    let errors = g.linux_out();
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0][9], errors[0][20]), (1, 11), "time exceeded");
    assert_eq!(g.drops(), [(DropReason::TtlExceeded, 1)]);
    assert!(g.wan_out().is_empty());
}

#[test]
fn cleartext_is_linuxs_to_judge_where_it_came_in() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.b;
    for index in [12, 13] {
        put(g, index, Action::Leave);
    }
    let transit = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    let local = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1)).sized(100, 2);
    let all = [&transit, &local];
    // Linux does not judge what comes in by the private interface.
    for packet in all {
        g.put_wan(packet);
    }
    g.run();
    assert_eq!(g.drops(), [(DropReason::InCleartext, 2)]);
    assert!(g.linux_out().is_empty());
    // Its reverse path filter is Linux's to apply as well.
    give_back(g);
    for round in 0..3 {
        for packet in all {
            g.put_wan(packet);
        }
        g.run();
        let given = all.map(|packet| tagged(WAN_TAG, &frame(Side::B, WAN, packet)));
        assert_eq!(g.linux_out(), given, "round {round}");
    }
    // What asks for no protection may come in by the other.
    g.set_topology(1500, vec![]);
    for index in [12, 13] {
        let config = g.db.policy(index).expect("policy").config.clone();
        let any = everything();
        g.db.put_policy(PolicyConfig { templates: vec![], selector: any, ..config });
    }
    let passes = Ip::new(ip("203.0.113.9"), Side::B.lan(false, 10)).sized(100, 1);
    g.put_wan(&passes);
    g.run();
    assert_eq!(g.linux_out(), [passes]);
    assert_eq!(g.drops(), [(DropReason::InCleartext, 2)]);
    assert!(g.lan_out().is_empty() && g.wan_out().is_empty());
}

/// Linux judges it before anybody protects it.
#[test]
fn transit_that_linux_has_to_judge_is_not_protected_before() {
    let mut pair = Pair::new(&Spec::default());
    let g = &mut pair.a;
    let back = Selector::between(Side::A.net(false), Side::B.net(false));
    let judge = policy(1, Direction::Forward, back, vec![]);
    g.db.put_policy(PolicyConfig { action: Action::Leave, ..judge });
    give_back(g);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    for _ in 0..2 {
        g.put_lan(&packet);
        g.run();
        assert_eq!(g.linux_out(), [tagged(LAN_TAG, &frame(Side::A, LAN, &packet))]);
    }
    // Linux forwards it, and is led here.
    g.put_linux(&packet);
    g.run();
    assert_eq!(g.wan_out().len(), 1);
    assert!(g.drops().is_empty());
}

#[test]
fn what_was_decrypted_here_cannot_be_left() {
    for (index, host) in [(12, 1), (13, 10)] {
        let mut pair = Pair::new(&Spec::default());
        let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, host)).sized(100, 1);
        put(&mut pair.b, index, Action::Leave);
        for n in 1..3 {
            pair.a.put_lan(&packet);
            pair.a.run();
            pair.carry(Side::A);
            assert_eq!(pair.b.drops(), [(DropReason::InPolicy, n)]);
        }
        put(&mut pair.b, index, Action::Allow);
        pair.a.put_lan(&packet);
        pair.a.run();
        pair.carry(Side::A);
        let out = [pair.b.lan_out(), pair.b.linux_out()].concat();
        assert_eq!(out, [hopped(&packet, if host == 1 { 1 } else { 2 })]);
    }
}

/// Packets that wait for an SA go to Linux at once, in their order, when Linux has the policy again.
#[test]
fn what_is_held_goes_to_linux() {
    let mut g = Gateway::new(Side::A);
    g.add_policies(&Spec::default());
    give_back(&g);
    let from = |host, n| Ip::new(Side::A.lan(false, host), Side::B.lan(false, 10)).sized(100, n);
    for n in 0..3 {
        g.put_lan(&from(10, n));
        g.put_linux(&from(1, n));
    }
    g.run();
    assert_eq!((g.counters.totals().held, g.linux_out().len()), (6, 0));
    put(&mut g, 11, Action::Leave);
    g.run();
    assert_eq!(g.counters.totals().held, 0);
    let given = g.linux_out();
    let (by_port, own): (Vec<_>, Vec<_>) = given.into_iter().partition(|p| p[0] == 0x81);
    let frames = [0, 1, 2].map(|n| tagged(LAN_TAG, &frame(Side::A, LAN, &from(10, n))));
    assert_eq!(by_port, frames);
    assert_eq!(own, [0, 1, 2].map(|n| from(1, n)));
    assert!(g.drops().is_empty() && g.wan_out().is_empty());
}
