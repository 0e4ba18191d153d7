//! Tunnel interfaces and marks: what travels beside a packet decides which policy is for it.

use dataplane::{Binding, Interface, MarkRule, PortKind, Topology, Tunnel};
use forward::{RouteEntry, RouteKind, SourceCheck, Subnet, table};
use io::MemoryHandle;
use outcome::DropReason;
use policy::{Direction, Mark, Marks, Prefix, SaConfig, Selector};
use wire::MacAddr;

use crate::packets::{Ip, hopped};
use crate::support::{Gateway, OTHER, Side, Spec, ip, make_sa, policy, route, sa_config, template};

/// The tunnel interface of both gateways.
pub const TUNNEL: u32 = 20;
const SLOT: usize = 5;
/// MTU of tunnel interfaces.
pub const MTU: u32 = 1400;
pub const IF_ID: u32 = 42;

/// Tag of the mark in `MARKED`.
pub const TAG: u16 = 64;

pub fn everything() -> Selector {
    let all = Prefix { addr: ip("0.0.0.0"), len: 0 };
    Selector::between(all, all)
}

/// The other side's network, by the tunnel interface.
fn by_tunnel(side: Side) -> RouteEntry {
    let dst = Subnet { addr: side.other().lan(false, 0), len: 16 };
    route(table::MAIN, dst, RouteKind::Unicast, Some(TUNNEL), None)
}

fn interface(binding: Binding) -> Interface {
    Interface {
        port: None,
        mac: MacAddr([0; 6]),
        mtu: MTU,
        up: true,
        back: None,
        binding: Some(binding),
        source_check: SourceCheck::Off,
        addr4: None,
        addr6: None,
    }
}

/// Tunnel interfaces without a port, each for the `if_id` that is its index.
pub fn set_tunnels(topology: &mut Topology, ifindices: impl IntoIterator<Item = u32>) {
    let tunnels = ifindices.into_iter().map(|ifindex| {
        let binding = Binding::IfId(ifindex);
        topology.interfaces.insert(ifindex, interface(binding));
        (binding, Tunnel { ifindex, slot: None, is_elsewhere: false })
    });
    topology.tunnels = tunnels.collect();
}

/// A gateway with a tunnel interface, without SAs and policies.
pub fn gateway(side: Side) -> (Gateway, MemoryHandle) {
    gateway_with(side, Binding::IfId(IF_ID))
}

pub fn gateway_with(side: Side, binding: Binding) -> (Gateway, MemoryHandle) {
    let mut gateway = Gateway::new(side);
    let port = MemoryHandle::new("tunnel", 512);
    gateway.worker.add_port(SLOT, TUNNEL, port.port(), PortKind::Tunnel);
    gateway.more.push(port.clone());
    set_topology_with(&gateway, binding, vec![by_tunnel(side)], |_| ());
    (gateway, port)
}

/// Publishes other routes of a gateway with the tunnel interface, and what else is changed.
pub fn set_topology(
    gateway: &Gateway,
    routes: Vec<RouteEntry>,
    change: impl FnOnce(&mut Topology),
) {
    set_topology_with(gateway, Binding::IfId(IF_ID), routes, change);
}

fn set_topology_with(
    gateway: &Gateway,
    binding: Binding,
    routes: Vec<RouteEntry>,
    change: impl FnOnce(&mut Topology),
) {
    gateway.set_topology_but(routes, |topology| {
        topology.interfaces.insert(TUNNEL, interface(binding));
        let tunnel = Tunnel { ifindex: TUNNEL, slot: Some(SLOT as u16), is_elsewhere: false };
        topology.tunnels = [(binding, tunnel)].into_iter().collect();
        topology.marks.insert(Marks::of_mark(10), TAG);
        change(topology);
    });
}

/// Policies for everything in the tunnel, both SAs, and the other gateway's the same.
fn tunnelled() -> [(Gateway, MemoryHandle); 2] {
    [Side::A, Side::B].map(|side| {
        let (mut gateway, port) = gateway(side);
        let spec = Spec::default();
        for (index, direction) in [(1, Direction::Out), (2, Direction::In), (3, Direction::Forward)]
        {
            let from = if direction == Direction::Out { side } else { side.other() };
            let mut config = policy(index, direction, everything(), vec![template(&spec, from)]);
            config.if_id = IF_ID;
            gateway.db.put_policy(config);
        }
        for from in [Side::A, Side::B] {
            add_sa(&mut gateway, SaConfig { if_id: IF_ID, ..sa_config(&spec, from) });
        }
        (gateway, port)
    })
}

pub fn add_sa(gateway: &mut Gateway, config: SaConfig) {
    let sa = make_sa(&config.params);
    gateway.db.add_sa(config, sa).expect("new");
}

pub fn carry(from: &mut Gateway, to: &mut Gateway) -> usize {
    let packets = from.wan_out();
    packets.iter().for_each(|packet| to.put_wan(packet));
    to.run();
    packets.len()
}

pub fn flow(host: u16) -> Vec<u8> {
    Ip::new(Side::A.lan(false, 10), Side::B.lan(false, host)).sized(100, 1)
}

#[test]
fn what_is_routed_to_a_tunnel_is_protected_by_its_policies() {
    let [(mut a, a_tunnel), (mut b, b_tunnel)] = tunnelled();
    // From Linux by the interface, and from a port by the route to it; twice, the second time planned.
    for round in 0..2 {
        a.put(&a_tunnel, &flow(10));
        a.run();
        a.put_lan(&flow(10));
        a.run();
        assert_eq!(carry(&mut a, &mut b), 2, "round {round}");
        assert_eq!(b.lan_out().len(), 2, "forwarded");
    }
    let work = &a.counters.work;
    assert_eq!((work.flow_misses.value(), work.flow_hits.value()), (2, 2));
    // For the gateway itself: by its interface.
    for _ in 0..2 {
        a.put(&a_tunnel, &flow(1));
        a.run();
        assert_eq!(carry(&mut a, &mut b), 1);
        assert_eq!((b.take(&b_tunnel), b.linux_out().len()), (vec![flow(1)], 0));
    }
}

/// Decrypted packets go there whatever the tables here say, if policy takes them in; what is sent there is protected.
#[test]
fn an_interface_in_another_namespace_has_its_tunnel() {
    let [(mut a, a_tunnel), (mut b, b_tunnel)] = tunnelled();
    let tunnel = Tunnel { ifindex: TUNNEL, slot: Some(SLOT as u16), is_elsewhere: true };
    b.set_topology_but(vec![], |topology| {
        topology.interfaces.insert(TUNNEL, interface(Binding::IfId(IF_ID)));
        topology.tunnels = [(Binding::IfId(IF_ID), tunnel)].into_iter().collect();
        topology.marks.insert(Marks::of_mark(10), TAG);
    });
    // A host of this LAN, this host, and one that no route leads to; twice, the second time planned.
    let nowhere = Ip::new(Side::A.lan(false, 10), ip("100.64.0.1")).sized(100, 1);
    for packet in [flow(10), flow(1), nowhere] {
        for round in 0..2 {
            a.put(&a_tunnel, &packet);
            a.run();
            assert_eq!(carry(&mut a, &mut b), 1, "round {round}");
            assert_eq!(b.take(&b_tunnel), std::slice::from_ref(&packet));
            assert_eq!((b.lan_out().len(), b.linux_out().len()), (0, 0));
        }
    }
    let reply = Ip::new(Side::B.lan(false, 1), Side::A.lan(false, 10)).sized(100, 1);
    b.put(&b_tunnel, &reply);
    b.run();
    assert_eq!(carry(&mut b, &mut a), 1);
    assert_eq!(a.lan_out(), [hopped(&reply, 1)]);
    // Policy is asked as for this host.
    b.db.remove_policy(2);
    b.db.put_policy(policy(9, Direction::In, everything(), vec![]));
    a.put(&a_tunnel, &flow(10));
    a.run();
    assert_eq!(carry(&mut a, &mut b), 1);
    assert_eq!((b.take(&b_tunnel).len(), b.drops()), (0, vec![(DropReason::InPolicy, 1)]));
}

#[test]
fn without_a_policy_nothing_leaves_a_tunnel() {
    let (mut g, port) = gateway(Side::A);
    // One that has no id lets pass, and is asked first; it is not the tunnel's.
    g.db.put_policy(policy(1, Direction::Out, everything(), vec![]));
    g.put(&port, &flow(10));
    g.put_lan(&flow(10));
    g.run();
    assert_eq!(g.drops(), [(DropReason::OutNoTunnel, 2)]);
    assert!(g.wan_out().is_empty());
    // Each sender hears of it: host unreachable.
    let errors = g.lan_out();
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|error| error[20..22] == [3, 1]), "{errors:?}");
}

#[test]
fn a_packet_that_is_too_long_for_a_tunnel_is_answered() {
    let [(mut a, _), _] = tunnelled();
    let mut long = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
    long.dont_fragment = true;
    a.put_lan(&long.sized(1401, 1));
    a.run();
    assert_eq!(a.drops(), [(DropReason::OutTooBig, 1)]);
    let errors = a.lan_out();
    // Destination unreachable, fragmentation needed, 1400 bytes.
    assert_eq!((&errors[0][20..22], &errors[0][26..28]), (&[3, 4][..], &[0x05, 0x78][..]));
}

#[test]
fn what_waits_for_a_tunnels_sa_goes_on_when_it_comes() {
    let (mut g, port) = gateway(Side::A);
    let spec = Spec::default();
    let mut config = policy(1, Direction::Out, everything(), vec![template(&spec, Side::A)]);
    config.if_id = IF_ID;
    g.db.put_policy(config);
    for _ in 0..2 {
        g.put(&port, &flow(10));
        g.put_lan(&flow(10));
    }
    g.run();
    assert_eq!((g.counters.totals().held, g.events().len()), (4, 1));
    // One of the same ends, and of no interface, is not theirs.
    let config = sa_config(&spec, Side::A);
    add_sa(
        &mut g,
        SaConfig { params: esp::SaParams { spi: 7, ..config.params.clone() }, ..config },
    );
    g.run();
    assert_eq!((g.counters.totals().held, g.wan_out().len()), (4, 0));
    add_sa(&mut g, SaConfig { if_id: IF_ID, ..sa_config(&spec, Side::A) });
    g.run();
    assert_eq!((g.counters.totals().held, g.wan_out().len()), (0, 4));
}

#[test]
fn what_a_tunnels_sa_decrypts_needs_its_interface() {
    let [(mut a, a_tunnel), (mut b, b_tunnel)] = tunnelled();
    a.put(&a_tunnel, &flow(10));
    a.run();
    // Down: no packet belongs to it.
    b.set_topology_but(vec![by_tunnel(Side::B)], |_| {});
    assert_eq!(carry(&mut a, &mut b), 1);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 1)]);
    assert!(b.lan_out().is_empty() && b.take(&b_tunnel).is_empty());
}

/// A packet as Linux hands it over with its mark.
pub fn marked(mark: u32, packet: &[u8]) -> Vec<u8> {
    [&[0xf0, 0, 0, 0][..], &mark.to_be_bytes(), &[0; 8], packet].concat()
}

#[test]
fn a_mark_of_linux_s_chooses_the_policy() {
    let spec = Spec::default();
    let (mut g, _) = gateway(Side::A);
    g.set_topology(1500, Vec::new());
    for (n, mark) in [(1, 11), (2, 21)] {
        let mut config = policy(n, Direction::Out, everything(), vec![template(&spec, Side::A)]);
        (config.mark, config.templates[0].reqid) = (Mark { value: mark, mask: u32::MAX }, n);
        g.db.put_policy(config);
        let sa = sa_config(&spec, Side::A);
        let params = esp::SaParams { spi: 0x100 * n, ..sa.params.clone() };
        add_sa(&mut g, SaConfig { params, reqid: n, ..sa });
    }
    let packet = Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(100, 1);
    // Twice: the second time by plans, which marks tell apart.
    for _ in 0..2 {
        for mark in [21, 11] {
            g.put_linux(&marked(mark, &packet));
        }
        g.run();
        let spis: Vec<u8> = g.wan_out().iter().map(|packet| packet[22]).collect();
        assert_eq!(spis, [2, 1]);
    }
    assert_eq!(g.counters.work.flow_hits.value(), 2);
    // Without one of these no policy is for it: in clear by the tables, which know no such network.
    g.put_linux(&marked(12, &packet));
    g.put_linux(&packet);
    g.run();
    assert_eq!((g.drops(), g.wan_out().len()), (vec![(DropReason::NoRoute, 2)], 0));
}

#[test]
fn what_an_sa_decrypts_gets_its_mark_and_is_judged_by_it() {
    let spec = Spec::default();
    let (mut a, _) = gateway(Side::A);
    a.set_topology(1500, Vec::new());
    a.protect(&spec);
    let (mut b, _) = gateway(Side::B);
    let set_mark = Mark { value: 10, mask: u32::MAX };
    add_sa(&mut b, SaConfig { set_mark, ..sa_config(&spec, Side::A) });
    for (index, direction) in [(2, Direction::In), (3, Direction::Forward)] {
        let theirs = vec![template(&spec, Side::A)];
        let mut config = policy(index, direction, everything(), theirs);
        config.mark = Mark { value: 10, mask: 0xff };
        b.db.put_policy(config);
    }
    // For a host behind it and for itself: Linux's rules are to see the mark.
    for host in [10, 10, 1] {
        a.put_lan(&flow(host));
        a.run();
        assert_eq!(carry(&mut a, &mut b), 1);
        let given = b.linux_out();
        let [packet] = &given[..] else { panic!("{given:?} {:?}", b.drops()) };
        assert_eq!(packet[..6], [0x81, 0x00, 0, TAG as u8, 0x08, 0x00]);
        assert_eq!(
            (&packet[18..20], &packet[20..]),
            (&[0x08, 0x00][..], &hopped(&flow(host), 1)[..])
        );
        assert!(b.lan_out().is_empty());
    }
    // Another mark: no policy allows it.
    b.db.remove_sa(&sa_config(&spec, Side::A).id());
    let set_mark = Mark { value: 11, mask: u32::MAX };
    add_sa(&mut b, SaConfig { set_mark, ..sa_config(&spec, Side::A) });
    a.put_lan(&flow(10));
    a.run();
    carry(&mut a, &mut b);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 1)]);
    // One that Linux cannot be told.
    let mut config = policy(2, Direction::Forward, everything(), vec![template(&spec, Side::A)]);
    config.mark = Mark { value: 11, mask: u32::MAX };
    b.db.put_policy(config);
    a.put_lan(&flow(10));
    a.run();
    carry(&mut a, &mut b);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 1), (DropReason::InMark, 1)]);
}

/// With the kernel's IPsec Linux's rules mark the ESP packet, and what was inside keeps the mark. Groups are this
/// host's where it has joined them.
#[test]
fn what_is_decrypted_for_this_host_has_a_rule_s_mark() {
    let spec = Spec::default();
    let group = ip("224.0.0.251");
    let rule = |mark| MarkRule { ifindex: 0, dscp: None, src: None, dst: None, mark };
    let sides = [(Side::A, 10), (Side::B, 10), (Side::B, 11)];
    let [mut a, mut told, mut untold] = sides.map(|(side, mark)| {
        let joined = Subnet { addr: group, len: 32 };
        let joined = route(table::LOCAL, joined, RouteKind::Local, None, None);
        let mut gateway = Gateway::new(side);
        gateway.set_topology_but(vec![joined], |topology| {
            topology.mark_rules.push(rule(mark));
            topology.marks.insert(Marks::of_mark(10), TAG);
        });
        gateway.add_sas(&spec);
        for (index, direction) in [(1, Direction::Out), (2, Direction::In)] {
            let from = if direction == Direction::Out { side } else { side.other() };
            let mut config = policy(index, direction, everything(), vec![template(&spec, from)]);
            config.mark = Mark { value: mark, mask: !0 };
            gateway.db.put_policy(config);
        }
        gateway
    });
    // Twice, the second time by plans. From Linux, with the mark.
    for _ in 0..2 {
        let cast = Ip { ttl: 1, ..Ip::new(Side::A.lan(false, 10), group) }.sized(100, 1);
        a.put_linux(&marked(10, &cast));
        a.run();
        let sealed = a.wan_out();
        assert_eq!((sealed.len(), a.drops()), (1, vec![]));
        for b in [&mut told, &mut untold] {
            sealed.iter().for_each(|packet| b.put_wan(packet));
            b.run();
            assert_eq!(b.drops(), []);
        }
        let given = told.linux_out();
        let [packet] = &given[..] else { panic!("{given:?}") };
        assert_eq!(packet[..6], [0x81, 0x00, 0, TAG as u8, 0x08, 0x00]);
        assert_eq!(packet[20..], cast, "no hop of its one");
        assert_eq!(untold.linux_out(), [cast]);
    }
}

#[test]
fn a_rule_marks_what_arrives_by_its_class_in_both_directions() {
    let spec = Spec::default();
    let rules = |ifindex| {
        [(46, 20), (0, 10)].map(|(dscp, mark)| MarkRule {
            ifindex,
            dscp: Some(dscp),
            src: None,
            dst: Some(Prefix { addr: ip("10.0.0.0"), len: 8 }),
            mark,
        })
    };
    let [mut a, mut b] = [Side::A, Side::B].map(|side| {
        let mut gateway = Gateway::new(side);
        gateway.set_topology_but(vec![], |topology| {
            topology.mark_rules.extend(rules(0));
            // Of another interface: for none of these.
            topology
                .mark_rules
                .splice(0..0, rules(OTHER).map(|rule| MarkRule { mark: 99, ..rule }));
        });
        for (n, mark) in [(1, 10), (2, 20)] {
            for (index, direction) in
                [(0, Direction::Out), (1, Direction::In), (2, Direction::Forward)]
            {
                let from = if direction == Direction::Out { side } else { side.other() };
                let templates = vec![template(&spec, from)];
                let selector = Selector::between(from.net(false), from.other().net(false));
                let mut config = policy(10 * n + index, direction, selector, templates);
                (config.mark, config.templates[0].reqid) = (Mark { value: mark, mask: !0 }, n);
                gateway.db.put_policy(config);
            }
            for from in [Side::A, Side::B] {
                let sa = sa_config(&spec, from);
                let spi = 0x1000 * from as u32 + n;
                let params = esp::SaParams { spi, ..sa.params.clone() };
                add_sa(&mut gateway, SaConfig { params, reqid: n, ..sa });
            }
        }
        gateway
    });
    let of_class = |class: u8| {
        let ip = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10));
        Ip { traffic_class: class << 2, ..ip }.sized(100, 1)
    };
    // One flow but for the class; twice, the second time by plans.
    for _ in 0..2 {
        for class in [0, 46, 46, 0] {
            a.put_lan(&of_class(class));
        }
        a.run();
        let sealed = a.wan_out();
        let spis: Vec<u8> = sealed.iter().map(|packet| packet[23]).collect();
        assert_eq!(spis, [1, 2, 2, 1]);
        sealed.iter().for_each(|packet| b.put_wan(packet));
        b.run();
        assert_eq!((b.lan_out().len(), b.drops()), (4, vec![]));
    }
    assert_eq!(a.counters.work.flow_hits.value(), 4);
    // A class without a rule has no policy; one that came by the other's SA is not allowed.
    a.put_lan(&of_class(8));
    a.run();
    assert_eq!((a.wan_out().len(), a.linux_out(), a.drops()), (0, vec![of_class(8)], vec![]));
    for n in [1, 2] {
        let mut config = a.db.policy(10 * n).expect("policy").config.clone();
        config.templates[0].reqid = 3 - n;
        a.db.put_policy(config);
    }
    a.put_lan(&of_class(46));
    a.run();
    assert_eq!(carry(&mut a, &mut b), 1);
    assert_eq!(b.drops(), [(DropReason::InPolicy, 1)]);
}

/// The same as Linux's own interface: not a port of the worker's.
fn linux_own(gateway: &mut Gateway) {
    gateway.set_topology_but(vec![by_tunnel(gateway.side)], |topology| {
        let binding = Binding::IfId(IF_ID);
        topology.interfaces.insert(TUNNEL, interface(binding));
        topology.tunnels = [(binding, Tunnel { ifindex: TUNNEL, slot: None, is_elsewhere: false })]
            .into_iter()
            .collect();
    });
}

#[test]
fn an_interface_of_linuxs_own_protects_what_ports_and_linux_send() {
    let [(mut a, _), (mut b, _)] = tunnelled();
    linux_own(&mut a);
    linux_own(&mut b);
    for _ in 0..2 {
        a.put_lan(&flow(10));
        a.put_linux(&flow(10));
        a.run();
        assert_eq!(carry(&mut a, &mut b), 2);
        assert_eq!(b.lan_out().len(), 2);
        // What is for the gateway itself comes in by the private interface.
        a.put_lan(&flow(1));
        a.run();
        assert_eq!(carry(&mut a, &mut b), 1);
        assert_eq!(b.linux_out().len(), 1);
    }
    assert!(a.drops().is_empty() && b.drops().is_empty());
}

#[test]
fn policies_of_an_interface_of_linuxs_own_may_be_left_to_linux() {
    let [(mut a, _), _] = tunnelled();
    linux_own(&mut a);
    let config = a.db.policy(1).expect("policy").config.clone();
    a.db.put_policy(policy::PolicyConfig { action: policy::Action::Leave, ..config });
    for _ in 0..2 {
        a.put_lan(&flow(10));
        a.put_linux(&flow(10));
        a.run();
        assert!(a.wan_out().is_empty() && a.drops().is_empty(), "{:?}", a.drops());
        // Its routes lead it to the interface, which protects it.
        assert_eq!(a.linux_out().len(), 2);
    }
    // One with a mark is told of it only where Linux can be.
    a.put_linux(&marked(10, &flow(11)));
    a.run();
    assert_eq!(a.linux_out().len(), 1);
}
