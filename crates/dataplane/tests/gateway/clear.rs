//! Packets in clear that policy lets pass, blocks, or wants protected.

use dataplane::Event;
use outcome::DropReason;
use policy::{Action, Direction, PortMask, Prefix, Selector};
use wire::{L4Checksum, parse_ip};

use crate::packets::{Ip, hopped};
use crate::support::{
    Gateway, LAN, OTHER, Pair, Side, Spec, WAN, elsewhere, ethernet, ip, make_sa, policy,
    sa_config, template,
};

fn everything() -> Selector {
    let any = Prefix { addr: ip("0.0.0.0"), len: 0 };
    Selector::between(any, any)
}

#[test]
fn without_policies_everything_is_linuxs() {
    let mut g = Gateway::new(Side::A);
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    g.put_lan(&packet);
    g.put_lan(&Ip::new(Side::A.lan(true, 10), Side::A.lan(true, 1)).sized(100, 1));
    g.run();
    assert_eq!(g.linux_out()[0], packet, "TTL as it was: Linux forwards");
    assert!(g.wan_out().is_empty() && g.drops().is_empty());
    g.db.set_default(Direction::Out, Action::Block);
    g.put_lan(&packet);
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutPolicyBlock, 1)]);
    g.db.set_default(Direction::Forward, Action::Block);
    g.put_lan(&packet);
    g.run();
    assert_eq!(g.dropped(DropReason::InPolicyBlock), 1);
    assert!(g.linux_out().is_empty());
}

#[test]
fn bypass_and_block_come_before_protect_by_priority() {
    let mut pair = Pair::new(&Spec::default());
    let mut selector = Selector::between(Side::A.net(false), Side::B.net(false));
    selector.protocol = 17;
    selector.dst_port = PortMask { value: 53, mask: 0xffff };
    let mut bypass = policy(31, Direction::Out, selector, vec![]);
    bypass.priority = 1;
    pair.a.db.put_policy(bypass.clone());
    selector.dst_port.value = 54;
    let mut block = policy(32, Direction::Out, selector, vec![]);
    block.priority = 2;
    block.action = Action::Block;
    pair.a.db.put_policy(block);
    let host = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    let packets = [53, 54, 55].map(|port| host.udp(9, port, b"x"));
    packets.iter().for_each(|p| pair.a.put_lan(p));
    pair.a.run();
    assert_eq!(pair.a.linux_out(), [packets[0].clone()]);
    assert_eq!(pair.a.drops(), [(DropReason::OutPolicyBlock, 1)]);
    assert_eq!(pair.carry(Side::A).len(), 1);
    assert_eq!(pair.b.lan_out(), [hopped(&packets[2], 2)]);
    assert_eq!(pair.a.db.policy(31).expect("policy").packets(), 1);
    assert_eq!(pair.a.db.policy(32).expect("policy").packets(), 1);
}

/// Linux sends a packet here because another source is protected; with a policy that lets it pass it leaves.
#[test]
fn to_a_guarded_prefix_nothing_leaves_in_clear_without_a_policy() {
    let mut pair = Pair::new(&Spec::default());
    pair.a.set_topology_but(vec![], |topology| topology.guarded = vec![Side::B.net(false)]);
    let own = Ip::new(Side::A.wan(false), Side::B.lan(false, 10)).sized(100, 1);
    let protected = Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(100, 1);
    let other = Ip::new(Side::A.wan(false), Side::B.wan(false)).sized(100, 1);
    for packet in [&own, &own, &protected, &other] {
        pair.a.put_linux(packet);
    }
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::OutPolicyBlock, 2)]);
    let sent = pair.a.wan_out();
    assert_eq!(sent.len(), 2);
    assert!(sent.contains(&other));
    let selector =
        Selector::between(Prefix { addr: Side::A.wan(false), len: 32 }, Side::B.net(false));
    pair.a.db.put_policy(policy(31, Direction::Out, selector, vec![]));
    let lets_pass = pair.a.db.policy(31).expect("policy").packets();
    pair.a.put_linux(&own);
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::OutPolicyBlock), 2, "the policy comes first");
    assert_eq!(pair.a.db.policy(31).expect("policy").packets(), lets_pass + 1);
    // What came to a port goes back as it came: the guard stops it there.
    let mut g = Gateway::new(Side::A);
    g.set_topology_but(vec![], |topology| topology.guarded = vec![Side::B.net(false)]);
    let forwarded = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    g.put_lan(&forwarded);
    g.run();
    assert_eq!((g.linux_out(), g.drops()), (vec![forwarded], vec![]));
}

#[test]
fn cleartext_of_a_protected_prefix_is_refused() {
    let mut pair = Pair::new(&Spec::default());
    for v6 in [false, true] {
        pair.b.put_wan(&Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10)).sized(100, 1));
        pair.b.put_wan(&Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 1)).sized(100, 1));
    }
    pair.b.run();
    assert_eq!(pair.b.drops(), [(DropReason::InCleartext, 4)]);
    assert!(pair.b.lan_out().is_empty() && pair.b.linux_out().is_empty());
}

#[test]
fn templates_that_cannot_be_done_block() {
    let mut g = Gateway::new(Side::A);
    let mut ipcomp = template(&Spec::default(), Side::A);
    ipcomp.protocol = 108;
    let selector = Selector::between(Side::A.net(false), Side::B.net(false));
    g.db.put_policy(policy(1, Direction::Out, selector, vec![ipcomp]));
    g.put_lan(&Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1));
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutUnsupported, 1)]);
}

#[test]
fn ike_passes_only_for_this_host() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    // Everything is to be protected, and there is no SA: only IKE may leave.
    let all = everything();
    g.db.put_policy(policy(1, Direction::Out, all, vec![template(&spec, Side::A)]));
    g.db.put_policy(policy(2, Direction::In, all, vec![template(&spec, Side::B)]));
    g.db.put_policy(policy(3, Direction::Forward, all, vec![template(&spec, Side::B)]));
    let own = Ip::new(Side::A.wan(false), Side::B.wan(false));
    let ike = own.udp(500, 500, &[1; 28]);
    let natt_ike = own.udp(4500, 4500, &[&[0; 4][..], &[1; 28]].concat());
    let keepalive = own.udp(4500, 4500, &[0xff]);
    for packet in [&ike, &natt_ike, &keepalive] {
        g.put_linux(packet);
    }
    g.run();
    assert_eq!(g.wan_out(), [ike, natt_ike, keepalive]);
    // Not IKE, from the same port: no way out in clear.
    g.put_linux(&own.udp(4500, 4500, &[9; 28]));
    g.put_linux(&own.udp(1234, 4500, b"data that is no IKE"));
    // Somebody else's, forwarded by Linux or by us.
    let foreign = Ip::new(Side::A.lan(false, 10), Side::B.wan(false));
    g.put_linux(&foreign.udp(500, 500, &[1; 28]));
    g.run();
    assert_eq!(g.counters.totals().held, 3);
    g.put_lan(&foreign.udp(500, 500, &[1; 28]));
    g.run();
    assert!(g.wan_out().is_empty());
    assert_eq!(g.drops(), [(DropReason::InCleartext, 1)]);
    // What arrives for this host: IKE on either port goes to Linux, keepalives end here.
    let to_us = Ip::new(Side::B.wan(false), Side::A.wan(false));
    let ike = to_us.udp(500, 500, &[1; 28]);
    let natt_ike = to_us.udp(4500, 4500, &[&[0; 4][..], &[1; 28]].concat());
    g.put_wan(&ike);
    g.put_wan(&natt_ike);
    g.put_wan(&to_us.udp(4500, 4500, &[0xff]));
    g.run();
    assert_eq!(g.linux_out(), [ike, natt_ike]);
    assert_eq!(g.counters.totals().consumed, 1);
}

#[test]
fn a_forged_source_does_not_make_ike_ours() {
    let mut g = Gateway::new(Side::A);
    let all = everything();
    g.db.put_policy(policy(1, Direction::Out, all, vec![template(&Spec::default(), Side::A)]));
    let forged = Ip::new(Side::A.wan(false), Side::B.wan(false));
    g.put_lan(&forged.udp(500, 500, &[1; 28]));
    g.put_lan(&forged.udp(4500, 4500, &[0; 28]));
    g.run();
    assert_eq!(g.drops(), [(DropReason::MartianSource, 2)]);
    assert!(g.wan_out().is_empty() && g.linux_out().is_empty());
}

#[test]
fn sources_that_cannot_be() {
    let mut pair = Pair::new(&Spec::default());
    let v4 = ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "10.1.0.1", "192.0.2.1"];
    for src in v4 {
        pair.a.put_lan(&Ip::new(ip(src), Side::B.lan(false, 10)).sized(100, 1));
        pair.a.put_lan(&Ip::new(ip(src), Side::A.lan(false, 1)).sized(100, 1));
    }
    for src in ["::", "::1", "ff02::1", "2001:db8:1::1", "fe80::1"] {
        pair.a.put_lan(&Ip::new(ip(src), Side::B.lan(true, 10)).sized(100, 1));
    }
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::MartianSource, 17)]);
    // A link-local one speaks to this host, not through it.
    pair.a.put_lan(&Ip::new(ip("fe80::1"), Side::A.lan(true, 1)).sized(100, 1));
    pair.a.run();
    assert_eq!(pair.a.linux_out().len(), 1);
    // From a tunnel neither, whatever its selectors allow.
    let mut config = pair.a.db.policy(11).expect("policy").config.clone();
    config.selector.src.len = 0;
    pair.a.db.put_policy(config);
    let mut config = pair.b.db.policy(13).expect("policy").config.clone();
    config.selector.src.len = 0;
    pair.b.db.put_policy(config);
    for src in [Side::B.lan(false, 1), Side::A.lan(false, 10)] {
        pair.a.put_linux(&Ip::new(src, Side::B.lan(false, 10)).sized(100, 1));
    }
    pair.a.run();
    assert_eq!(pair.carry(Side::A).len(), 2);
    assert_eq!(pair.b.drops(), [(DropReason::MartianSource, 1)]);
    assert_eq!(pair.b.lan_out().len(), 1);
}

#[test]
fn partial_checksums_are_completed_before_encryption() {
    let mut pair = Pair::new(&Spec::default());
    for v6 in [false, true] {
        let whole = Ip::new(Side::A.lan(v6, 10), Side::B.lan(v6, 10)).sized(301, 5);
        let mut partial = whole.clone();
        let h = parse_ip(&partial).expect("packet");
        let at = usize::from(h.header_len);
        let len = partial.len() - at;
        // What a veth peer leaves there: the pseudo header's sum.
        let sum = match (h.src, h.dst) {
            (std::net::IpAddr::V4(s), std::net::IpAddr::V4(d)) => {
                wire::checksum::pseudo_header_v4(s, d, 17, len as u16)
            }
            (std::net::IpAddr::V6(s), std::net::IpAddr::V6(d)) => {
                wire::checksum::pseudo_header_v6(s, d, 17, len as u32)
            }
            _ => unreachable!(),
        };
        partial[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(wire::verify_l4_checksum(&partial, &h), L4Checksum::Invalid);
        pair.a.put_lan(&partial);
        pair.a.run();
        pair.carry(Side::A);
        assert_eq!(pair.b.lan_out(), [hopped(&whole, 2)]);
    }
    assert_eq!(pair.a.counters.work.checksums_completed.value(), 2);
}

#[test]
fn frames_that_are_not_for_this_port() {
    let mut pair = Pair::new(&Spec::default());
    let packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    let lan = pair.a.lan.clone();
    let src = Side::A.host_mac(10);
    // Another station's, flooded by a switch; and a broadcast that routers do not forward.
    pair.a.put(&lan, &ethernet(Side::A.host_mac(11), src, &packet));
    pair.a.put(&lan, &ethernet(wire::MacAddr::BROADCAST, src, &packet));
    pair.a.run();
    assert_eq!(pair.a.drops(), [(DropReason::OtherHost, 2)]);
    // ARP; a VLAN that no port stands for; the same in a service VLAN.
    let mut arp = ethernet(Side::A.mac(LAN), src, &[0; 46]);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    pair.a.put(&lan, &arp);
    let tagged = |tags: &[u8]| {
        let mut frame = ethernet(Side::A.mac(LAN), src, &packet);
        frame.splice(12..12, tags.iter().copied());
        frame
    };
    pair.a.put(&lan, &tagged(&[0x81, 0x00, 0x00, 0x64]));
    pair.a.put(&lan, &tagged(&[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x00]));
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::UnexpectedProtocol), 1);
    assert_eq!(pair.a.dropped(DropReason::UnknownVlan), 2);
    assert!(pair.a.wan_out().is_empty() && pair.a.linux_out().is_empty());
    // A tag that carries a priority and no VLAN is as good as none.
    pair.a.put(&lan, &tagged(&[0x81, 0x00, 0xa0, 0x00]));
    pair.a.run();
    assert_eq!(pair.a.wan_out().len(), 1);
    // The EtherType and the version contradict each other; and short frames.
    let mut wrong = ethernet(Side::A.mac(LAN), src, &packet);
    wrong[12..14].copy_from_slice(&[0x86, 0xdd]);
    pair.a.put(&lan, &wrong);
    pair.a.put(&lan, &wrong[..13]);
    pair.a.run();
    assert_eq!(pair.a.dropped(DropReason::MalformedIp), 1);
    assert_eq!(pair.a.dropped(DropReason::MalformedEthernet), 1);
}

#[test]
fn what_linux_sends_here_without_a_policy_for_it() {
    let mut g = Gateway::new(Side::A);
    // Forwarded by the tables, or back to Linux where the way is Linux's; errors for local programs.
    let us = Side::A.wan(false);
    let out = Ip::new(us, ip("203.0.113.5")).sized(100, 1);
    let other = Ip::new(us, ip("198.51.100.5")).sized(100, 2);
    g.put_linux(&out);
    g.put_linux(&other);
    g.run();
    assert_eq!((g.wan_out(), g.linux_out()), (vec![out], vec![other]));
    // A loop, and what Linux sends to the private interface's own link.
    g.put_linux(&Ip::new(us, Side::A.lan(false, 1)).sized(100, 3));
    g.put_linux(&Ip { ttl: 255, ..Ip::new(ip("fe80::1"), ip("ff02::2")) }.sized(100, 4));
    g.run();
    assert_eq!(g.drops(), [(DropReason::ForwardLoop, 1)]);
    assert_eq!(g.counters.totals().consumed, 1);
    assert!(g.linux_out().is_empty());
    // No route, prohibited, blackhole.
    for (dst, code) in [("10.99.0.1", Some(0)), ("198.18.0.1", Some(13)), ("198.18.1.1", None)] {
        g.put_linux(&Ip::new(us, ip(dst)).sized(100, 5));
        g.run();
        let errors: Vec<u8> = g.linux_out().iter().map(|p| p[21]).collect();
        assert_eq!(errors, Vec::from_iter(code), "{dst}");
    }
    assert_eq!(g.dropped(DropReason::NoRoute), 1);
    assert_eq!(g.dropped(DropReason::RouteProhibited), 2);
    assert!(!g.events().iter().any(|e| matches!(e, Event::Acquire { .. })));
}

/// A policy that blocks what is routed to an interface.
fn block_dev(index: u32, direction: Direction, ifindex: u32) -> policy::PolicyConfig {
    let selector = Selector { ifindex, ..everything() };
    policy::PolicyConfig { action: Action::Block, ..policy(index, direction, selector, vec![]) }
}

#[test]
fn a_policy_of_an_interface_is_for_what_leaves_by_it() {
    let mut g = Gateway::new(Side::A);
    g.db.put_policy(block_dev(1, Direction::Out, WAN));
    let to = |src, dst: &str| Ip::new(src, ip(dst)).sized(100, 1);
    let (host, own) = (Side::A.lan(false, 10), Side::A.wan(false));
    let (by_wan, by_other) = (to(host, "203.0.113.9"), to(host, "198.51.100.9"));
    for _ in 0..2 {
        g.put_lan(&by_wan);
        g.put_lan(&by_other);
        g.put_linux(&to(own, "203.0.113.9"));
        g.put_linux(&to(own, "10.1.0.10"));
        g.run();
    }
    assert_eq!(g.drops(), [(DropReason::OutPolicyBlock, 4)]);
    assert_eq!(g.linux_out(), [by_other.clone(), by_other.clone()]);
    assert_eq!(g.lan_out().len(), 2);
    // The route changes under flows whose plan is kept.
    g.set_topology(1500, vec![elsewhere()]);
    g.put_lan(&by_wan);
    g.run();
    assert_eq!(g.linux_out(), core::slice::from_ref(&by_wan));
    g.set_topology(1500, vec![]);
    g.put_lan(&by_wan);
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutPolicyBlock, 5)]);
    g.db.remove_policy(1);
    g.put_lan(&by_wan);
    g.run();
    assert_eq!(g.linux_out(), [by_wan]);
}

#[test]
fn what_arrives_is_checked_by_the_interface_it_goes_to() {
    let mut pair = Pair::new(&Spec::default());
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    let local = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 1)).sized(100, 1);
    let mut arrive = |config: policy::PolicyConfig| {
        let before = pair.b.dropped(DropReason::InPolicyBlock);
        pair.b.db.put_policy(policy::PolicyConfig { priority: 1, ..config });
        pair.a.put_lan(&flow);
        pair.a.put_lan(&local);
        pair.a.run();
        pair.carry(Side::A);
        let (forwarded, delivered) = (pair.b.lan_out().len(), pair.b.linux_out().len());
        pair.b.db.remove_policy(99);
        (forwarded, delivered, pair.b.dropped(DropReason::InPolicyBlock) - before)
    };
    // As the kernel does, whose check takes the interface from the packet's route.
    assert_eq!(arrive(block_dev(99, Direction::Forward, LAN)), (0, 1, 1));
    assert_eq!(arrive(block_dev(99, Direction::Forward, WAN)), (1, 1, 0));
    assert_eq!(arrive(block_dev(99, Direction::In, WAN)), (1, 1, 0));
    assert_eq!(arrive(block_dev(99, Direction::In, 1)), (1, 0, 1));
    assert_eq!(arrive(block_dev(99, Direction::Forward, OTHER)), (1, 1, 0));
}

#[test]
fn a_bypass_of_an_interface_lets_nothing_else_pass() {
    let spec = Spec::default();
    let mut g = Gateway::new(Side::A);
    let all = everything();
    g.db.put_policy(policy(1, Direction::Out, all, vec![template(&spec, Side::A)]));
    let mut bypass = policy(2, Direction::Out, Selector { ifindex: OTHER, ..all }, vec![]);
    bypass.priority = 1;
    g.db.put_policy(bypass);
    let other = Ip::new(Side::A.lan(false, 10), ip("198.51.100.9")).sized(100, 1);
    g.put_lan(&other);
    let by_wan = Ip::new(Side::A.lan(false, 10), ip("203.0.113.9")).sized(100, 1);
    g.put_lan(&by_wan);
    // No route: the interface is not known, and nothing that lets pass is taken to match.
    g.put_lan(&Ip::new(Side::A.lan(false, 10), ip("100.64.0.9")).sized(100, 1));
    g.run();
    assert_eq!(g.linux_out(), [other]);
    assert_eq!((g.counters.totals().held, g.wan_out().len()), (2, 0));
    assert!(matches!(g.events()[..], [Event::Acquire { policy: 1, .. }]));
    // What waits is judged again by the same question.
    g.set_topology(1500, vec![elsewhere()]);
    g.db.put_policy(policy(3, Direction::Out, all, vec![]));
    g.run();
    assert_eq!((g.counters.totals().held, g.linux_out()), (1, vec![by_wan]), "by way of OTHER now");
    g.db.remove_policy(1);
    g.run();
    assert_eq!(g.counters.totals().held, 0);
}

#[test]
fn an_sa_that_asks_packets_to_carry_something_carries_none() {
    let spec = Spec::default();
    let flow = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(100, 1);
    let mark = policy::Mark { value: 10, mask: u32::MAX };
    // Without a mark or an interface in the policies: those are for the SAs of old.
    for scope in
        [policy::Scope { mark, if_id: 0 }, policy::Scope { if_id: 7, ..Default::default() }]
    {
        let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
        pair.a.add_policies(&spec);
        pair.b.add_policies(&spec);
        pair.b.add_sas(&spec);
        let mut config = sa_config(&spec, Side::A);
        (config.mark, config.if_id) = (scope.mark, scope.if_id);
        let sa = make_sa(&config.params);
        pair.a.db.add_sa(config.clone(), sa).expect("new");
        pair.a.put_lan(&flow);
        pair.a.run();
        assert_eq!((pair.a.counters.totals().held, pair.a.wan_out().len()), (1, 0), "{scope:?}");

        // The other way round: a packet by an SA without, which here is one with.
        let mut pair = Pair::new(&spec);
        pair.b.db.remove_sa(&sa_config(&spec, Side::A).id());
        let sa = make_sa(&config.params);
        pair.b.db.add_sa(config, sa).expect("new");
        pair.a.put_lan(&flow);
        pair.a.run();
        assert_eq!(pair.carry(Side::A).len(), 1);
        assert!(pair.b.lan_out().is_empty(), "{scope:?}");
        let reason = if scope.if_id == 0 { DropReason::InNoState } else { DropReason::InPolicy };
        assert_eq!(pair.b.drops(), [(reason, 1)]);
    }
}
