//! Path selection: rules choose among the paths that the routes allow.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use conntrack::{Binding as Connection, Bindings, Change, Direction as Way, Entry, Status, Tuple};
use dataplane::{
    Came, ClearExit, MarkRule, PathBy, PathExit, SteerRule, Steering, Step, Tables,
    TrafficDirection, TrafficMatch,
};
use forward::{Hop, RouteEntry, RouteKind, RuleEntry, Subnet, table};
use outcome::DropReason;
use policy::{Direction, PolicyConfig, Prefix, SaConfig, Selector, Template};
use selection::{Candidate, Choice};
use wire::Family;

use crate::back::tagged;
use crate::explain::ask;
use crate::packets::Ip;
use crate::route_based::{everything, marked, set_tunnels};
use crate::support::{
    Gateway, LAN, Side, Spec, WAN, ethernet, ip, make_sa, policy, route, sa_config, template,
};
use crate::taps::{records, tapped};

/// The paths: two tunnels, and the WAN in clear. The routes lead to the first.
const PATHS: [(&str, u32); 3] = [("one", 20), ("two", 21), ("clear", WAN)];
/// SPI of the first tunnel's SA.
const FIRST_SPI: u32 = 0x700;

/// Mark by which the routes lead out of the WAN.
const MARK: u32 = 0x100;
/// Tag by which Linux takes packets back as received by the LAN, with that mark.
const UPLINK_TAG: u16 = 300;
/// The table of that mark.
const TABLE: u32 = 101;

/// Network of addresses that Linux may translate to at the uplink, beside its own.
const POOL: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 7, 0));

/// Gateway A with a tunnel for each of the first two paths, and a policy that lets everything pass in clear.
fn gateway() -> Gateway {
    let mut g = gateway_with(Tables::default());
    g.db.put_policy(passes());
    g
}

/// A policy by which everything may leave in clear.
fn passes() -> PolicyConfig {
    policy(90, Direction::Out, everything(), vec![])
}

/// The gateway without a policy for what leaves in clear.
pub fn gateway_with(tables: Tables) -> Gateway {
    let mut g = Gateway::with_tables(Side::A, tables);
    let by_mark =
        RuleEntry { fwmark: MARK, fwmask: MARK, ..RuleEntry::table(Family::V4, 100, TABLE) };
    let default = Subnet { addr: ip("0.0.0.0"), len: 0 };
    let out_of_wan = RouteEntry {
        hops: vec![Hop { ifindex: WAN, gateway: Some(Side::B.wan(false)), weight: 1 }],
        ..route(TABLE, default, RouteKind::Unicast, Some(WAN), None)
    };
    let dst = Subnet { addr: Side::B.lan(false, 0), len: 16 };
    let to_first = route(table::MAIN, dst, RouteKind::Unicast, Some(PATHS[0].1), None);
    let dst = Subnet { addr: Side::B.lan(true, 0), len: 48 };
    let to_first_v6 = route(table::MAIN, dst, RouteKind::Unicast, Some(PATHS[0].1), None);
    g.set_topology_by(vec![to_first, to_first_v6, out_of_wan], vec![by_mark], |topology| {
        topology.uplink_tags.insert((LAN, MARK), UPLINK_TAG);
        set_tunnels(topology, PATHS[..2].iter().map(|(_, ifindex)| *ifindex));
    });
    let spec = Spec::default();
    for (at, (_, if_id)) in (1..).zip(&PATHS[..2]) {
        let mut template = template(&spec, Side::A);
        template.reqid = at;
        let mut out = policy(at, Direction::Out, everything(), vec![template]);
        out.if_id = *if_id;
        g.db.put_policy(out);
        let config = sa_config(&spec, Side::A);
        let mut params = config.params.clone();
        params.spi = FIRST_SPI + at - 1;
        let sa = make_sa(&params);
        g.db.add_sa(SaConfig { if_id: *if_id, reqid: at, params, ..config }, sa).expect("new");
    }
    g
}

fn steer(g: &Gateway, rules: Vec<SteerRule>) {
    steer_with(g, rules, false);
}

pub fn steer_with(g: &Gateway, rules: Vec<SteerRule>, is_translated: bool) {
    steer_from(g, rules, is_translated, Prefix { addr: POOL, len: 24 });
}

/// The same, for an uplink where Linux translates to addresses of a pool.
fn steer_from(g: &Gateway, rules: Vec<SteerRule>, is_translated: bool, pool: Prefix) {
    let exits = PATHS.map(|(name, ifindex)| {
        let addresses = vec![Side::A.wan(false)].into();
        let prefixes = vec![pool].into();
        let clear = ClearExit { mark: MARK, addresses, prefixes, is_translated };
        let clear = (ifindex == WAN).then_some(clear);
        Some(PathExit { name: name.into(), ifindex, clear })
    });
    g.tables.steer(Steering::new(rules, exits.into()));
}

/// A rule that has chosen these paths, in equal shares.
pub fn rule(name: &str, matches: TrafficMatch, paths: &[u16]) -> SteerRule {
    let takers: Vec<_> = paths
        .iter()
        .map(|path| Candidate { path: *path, lot: u64::from(*path), weight: 1 })
        .collect();
    SteerRule { name: name.into(), matches, choice: Choice::new(takers), copies: None }
}

/// A packet of the flow to a host. The first packet's DSCP decides for its flow.
fn packet(host: u16, dscp: u8) -> Vec<u8> {
    let mut packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, host)).sized(100, 1);
    packet[1] = dscp << 2;
    wire::ipv4::fill_checksum(&mut packet);
    packet
}

/// The rule `all` has chosen.
fn by_rule() -> PathBy {
    PathBy::Rule("all".into())
}

/// The paths that packets have taken.
fn taken(g: &mut Gateway) -> Vec<&'static str> {
    g.run();
    let way = |packet: Vec<u8>| match wire::parse_ip(&packet) {
        Ok(h) if h.protocol == wire::protocol::ESP => {
            let spi = u32::from_be_bytes(packet[20..24].try_into().expect("four bytes"));
            PATHS[(spi - FIRST_SPI) as usize].0
        }
        _ => "clear",
    };
    g.wan_out().into_iter().map(way).collect()
}

fn path_of(g: &mut Gateway, packet: &[u8]) -> Vec<&'static str> {
    g.put_lan(packet);
    taken(g)
}

#[test]
fn routes_decide_where_no_rule_does() {
    let mut g = gateway();
    assert_eq!(path_of(&mut g, &packet(1, 0)), ["one"]);
    let voice = TrafficMatch { dscp: Some(46), ..TrafficMatch::default() };
    steer(&g, vec![rule("voice", voice, &[1])]);
    assert_eq!(path_of(&mut g, &packet(1, 0)), ["one"]);
}

#[test]
fn the_first_rule_about_a_packet_decides() {
    let mut g = gateway();
    let voice = TrafficMatch { dscp: Some(46), ..TrafficMatch::default() };
    steer(&g, vec![rule("voice", voice, &[1]), rule("rest", TrafficMatch::default(), &[2])]);
    for _ in 0..2 {
        assert_eq!(path_of(&mut g, &packet(1, 46)), ["two"]);
        assert_eq!(path_of(&mut g, &packet(2, 0)), ["clear"]);
    }
    let work = &g.counters.work;
    assert_eq!((work.flow_misses.value(), work.flow_hits.value()), (2, 2), "decided once a flow");
}

#[test]
fn flows_move_when_the_choice_does() {
    let mut g = gateway();
    for path in [1, 0, 2, 1] {
        steer(&g, vec![rule("all", TrafficMatch::default(), &[path])]);
        assert_eq!(path_of(&mut g, &packet(1, 0)), [PATHS[usize::from(path)].0]);
    }
}

/// Only flows of a rule that answers otherwise are decided anew; plans of others, and of flows under no rule, hold.
#[test]
fn a_change_of_one_rule_leaves_other_plans_alone() {
    let mut g = gateway();
    let of = |dscp| TrafficMatch { dscp: Some(dscp), ..TrafficMatch::default() };
    let rules =
        |voice, video| vec![rule("voice", of(46), &[voice]), rule("video", of(34), &[video])];
    let flows = [packet(1, 46), packet(2, 34), packet(3, 0)];
    let cached = |g: &Gateway| {
        let work = &g.counters.work;
        (work.flow_hits.value(), work.flow_misses.value())
    };
    let steps = [
        ((1, 1), ["two", "two", "one"], (0, 3)),
        ((2, 1), ["clear", "two", "one"], (2, 1)),
        ((2, 2), ["clear", "clear", "one"], (2, 1)),
        ((2, 2), ["clear", "clear", "one"], (3, 0)),
        ((1, 1), ["two", "two", "one"], (1, 2)),
    ];
    for ((voice, video), ways, (hits, misses)) in steps {
        steer(&g, rules(voice, video));
        let before = cached(&g);
        let taken = flows.each_ref().map(|packet| path_of(&mut g, packet)).concat();
        assert_eq!(taken, ways);
        let now = cached(&g);
        assert_eq!((now.0 - before.0, now.1 - before.1), (hits, misses), "{voice}, {video}");
    }
    // Other rules may be about any packet.
    steer(&g, vec![rule("rest", TrafficMatch::default(), &[1])]);
    assert_eq!(path_of(&mut g, &packet(3, 0)), ["two"]);
    // A path that is gone may be that of any.
    let gone = PathExit { name: "one".into(), ifindex: PATHS[0].1, clear: None };
    let rest = vec![rule("rest", TrafficMatch::default(), &[1])];
    g.tables.steer(Steering::new(rest, vec![Some(gone), None]));
    g.put_lan(&packet(3, 0));
    g.run();
    assert_eq!(g.drops(), [(DropReason::NoPath, 1)]);
}

/// Changes that a worker has not seen one by one are felt all the same.
#[test]
fn a_rule_that_has_changed_twice_is_asked_again() {
    let mut g = gateway();
    let all = |path: u16| vec![rule("all", TrafficMatch::default(), &[path])];
    for path in [1, 0] {
        steer(&g, all(path));
        steer(&g, all(2));
        steer(&g, all(path));
        assert_eq!(path_of(&mut g, &packet(1, 0)), [PATHS[usize::from(path)].0]);
    }
}

#[test]
fn shares_move_no_other_flows() {
    let mut g = gateway();
    let all = |paths: &[u16]| vec![rule("all", TrafficMatch::default(), paths)];
    let ways = |g: &mut Gateway| {
        (10..74).flat_map(|host| path_of(g, &packet(host, 0))).collect::<Vec<_>>()
    };
    steer(&g, all(&[0, 1]));
    let before = ways(&mut g);
    let count = before.iter().filter(|path| **path == "one").count();
    assert!((16..=48).contains(&count), "{count} of 64 by the first path");
    steer(&g, all(&[0, 1, 2]));
    for (before, after) in before.iter().zip(ways(&mut g)) {
        assert!(*before == after || after == "clear", "{before} to {after}");
    }
    steer(&g, all(&[0, 1]));
    assert_eq!(ways(&mut g), before);
}

/// Every fragment of a packet takes one path, as its flow's first one alone has ports.
#[test]
fn fragments_of_a_packet_take_one_path() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[0, 1])]);
    for id in 0..16 {
        let long = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)).sized(700, 2000 + id);
        crate::packets::cut(&long, 200, id).iter().for_each(|fragment| g.put_lan(fragment));
        let mut ways = taken(&mut g);
        assert!(ways.len() > 3, "{ways:?}");
        ways.dedup();
        assert_eq!(ways.len(), 1, "{ways:?}");
    }
}

#[test]
fn a_rule_without_a_good_path_stops_its_packets() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[])]);
    g.put_lan(&packet(1, 0));
    g.run();
    assert_eq!((g.drops(), g.wan_out().len()), (vec![(DropReason::NoPath, 1)], 0));
    let errors = g.lan_out();
    let about = |packet: &Vec<u8>| (packet[9], packet[20], packet[21]);
    assert_eq!(errors.iter().map(about).collect::<Vec<_>>(), [(1, 3, 1)], "host unreachable");
}

#[test]
fn what_the_routes_lead_elsewhere_is_not_steered() {
    let mut g = gateway();
    let both = TrafficMatch { direction: TrafficDirection::Both, ..TrafficMatch::default() };
    steer(&g, vec![rule("all", both, &[1])]);
    g.put_linux(&Ip::new(Side::A.wan(false), Side::A.lan(false, 10)).sized(60, 1));
    g.run();
    assert_eq!((g.lan_out().len(), g.wan_out().len()), (1, 0), "to the network of this host");
    g.put_linux(&Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(60, 1));
    assert_eq!(taken(&mut g), ["two"], "by a path");
}

#[test]
fn decrypted_packets_are_steered_only_if_a_rule_says_so() {
    for (direction, wanted) in [(TrafficDirection::Out, "one"), (TrafficDirection::Both, "two")] {
        let mut g = gateway();
        steer(&g, vec![rule("all", TrafficMatch { direction, ..TrafficMatch::default() }, &[1])]);
        let spec = Spec::default();
        let inbound = SaConfig { if_id: PATHS[0].1, ..sa_config(&spec, Side::B) };
        let mut peer = Gateway::new(Side::B);
        peer.protect(&spec);
        let sa = make_sa(&inbound.params);
        g.db.add_sa(inbound, sa).expect("new");
        for (index, direction) in [(7, Direction::In), (8, Direction::Forward)] {
            let mut config = policy(index, direction, everything(), vec![template(&spec, Side::B)]);
            config.if_id = PATHS[0].1;
            g.db.put_policy(config);
        }
        // A spoke's packet for another spoke comes out of one tunnel, and goes on by one.
        let mut out = policy(9, Direction::Out, everything(), vec![template(&spec, Side::B)]);
        out.priority = 1;
        peer.db.put_policy(out);
        peer.put_lan(&Ip::new(Side::B.lan(false, 10), Side::B.lan(false, 11)).sized(80, 1));
        peer.run();
        let sealed = peer.wan_out();
        assert_eq!(sealed.len(), 1);
        sealed.iter().for_each(|packet| g.put_wan(packet));
        assert_eq!(taken(&mut g), [wanted]);
    }
}

#[test]
fn why_names_rule_and_path() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[1])]);
    let path = |name: &str| Some(Arc::from(name));
    let told = ask(&mut g, &packet(1, 0), Came::Port { ifindex: LAN }).steps;
    assert!(told.contains(&Step::Path { by: by_rule(), path: path("two") }), "{told:?}");
    steer(&g, vec![rule("all", TrafficMatch::default(), &[])]);
    let told = ask(&mut g, &packet(1, 0), Came::Port { ifindex: LAN }).steps;
    assert!(told.contains(&Step::Path { by: by_rule(), path: None }), "{told:?}");
}

/// By the mark that a rule gives what arrives, and by that of Linux for its own.
#[test]
fn rules_know_the_mark_of_packets_from_a_port_and_from_linux() {
    for mark in [0, 7] {
        let mut g = gateway();
        let topology = g.tables.topology.swap(Arc::default());
        let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
        let marks = MarkRule { ifindex: 0, dscp: None, src: None, dst: None, mark };
        topology.mark_rules.push(marks);
        g.tables.topology.store(Arc::new(topology));
        let sevens = TrafficMatch { mark: Some(7), ..TrafficMatch::default() };
        steer(&g, vec![rule("sevens", sevens, &[1])]);
        let wanted = if mark == 7 { ["two"] } else { ["one"] };
        assert_eq!(path_of(&mut g, &packet(1, 0)), wanted, "{mark}");
        g.put_linux(&marked(mark, &packet(2, 0)));
        assert_eq!(taken(&mut g), wanted, "{mark}");
    }
}

/// All that a gateway has sent on, and what Linux got: none of it in clear out of the WAN.
fn stopped(g: &mut Gateway) {
    g.run();
    assert_eq!((g.drops(), g.wan_out().len()), (vec![(DropReason::SteerCleartext, 1)], 0));
    assert!(g.linux_out().is_empty());
    let about = |packet: &Vec<u8>| (packet[9], packet[20], packet[21]);
    assert_eq!(g.lan_out().iter().map(about).collect::<Vec<_>>(), [(1, 3, 13)], "prohibited");
}

#[test]
fn a_rule_leads_nothing_into_clear_that_no_policy_lets_pass() {
    let mut g = gateway_with(Tables::default());
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_lan(&packet(1, 0));
    stopped(&mut g);
    let told = ask(&mut g, &packet(1, 0), Came::Port { ifindex: LAN }).steps;
    let path = Some(Arc::from("clear"));
    assert!(told.contains(&Step::Path { by: by_rule(), path }), "{told:?}");
}

#[test]
fn a_policy_that_protects_comes_before_any_rule() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    assert_eq!(path_of(&mut g, &packet(1, 0)), ["clear"]);
    // The same SA as that of the first tunnel, for packets of none.
    let spec = Spec::default();
    let config = sa_config(&spec, Side::A);
    let mut protects = policy(91, Direction::Out, everything(), vec![template(&spec, Side::A)]);
    protects.priority = 1;
    g.db.put_policy(protects);
    let sa = make_sa(&config.params);
    g.db.add_sa(config, sa).expect("new");
    g.put_lan(&packet(1, 0));
    g.run();
    let out = g.wan_out();
    assert_eq!(out.len(), 1);
    assert!(out.iter().all(|packet| packet[9] == wire::protocol::ESP), "{out:?}");
}

#[test]
fn a_flow_stops_when_its_policy_lets_it_pass_no_longer() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    for _ in 0..2 {
        assert_eq!(path_of(&mut g, &packet(1, 0)), ["clear"]);
    }
    assert!(g.db.remove_policy(90).is_some());
    g.put_lan(&packet(1, 0));
    stopped(&mut g);
}

#[test]
fn what_the_routes_lead_out_in_clear_needs_no_policy_unless_it_is_guarded() {
    for is_guarded in [false, true] {
        let mut g = gateway_with(Tables::default());
        if is_guarded {
            let guarded = Prefix { addr: ip("203.0.113.0"), len: 24 };
            let topology = g.tables.topology.swap(Arc::default());
            let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
            topology.guarded = vec![guarded];
            g.tables.topology.store(Arc::new(topology));
        }
        steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
        g.put_lan(&Ip::new(Side::A.lan(false, 10), ip("203.0.113.9")).sized(100, 1));
        let expected = if is_guarded { vec![] } else { vec!["clear"] };
        assert_eq!(taken(&mut g), expected);
        assert_eq!(g.dropped(DropReason::OutPolicyBlock), u64::from(is_guarded));
    }
}

#[test]
fn a_guarded_prefix_that_is_behind_a_tunnel_stays_there_whatever_policies_let_pass() {
    let mut g = gateway();
    let topology = g.tables.topology.swap(Arc::default());
    let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
    topology.guarded = vec![Prefix { addr: Side::B.lan(false, 0), len: 16 }];
    g.tables.topology.store(Arc::new(topology));
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_lan(&packet(1, 0));
    stopped(&mut g);
}

#[test]
fn an_uplink_without_a_way_to_the_destination_sends_nothing_elsewhere() {
    let mut g = gateway();
    let topology = g.tables.topology.load_full();
    let routes = vec![route(
        table::MAIN,
        Subnet { addr: Side::B.lan(false, 0), len: 16 },
        RouteKind::Unicast,
        Some(PATHS[0].1),
        None,
    )];
    let (interfaces, tunnels) = (topology.interfaces.clone(), topology.tunnels.clone());
    // Without the rule for the mark it leads into the tunnel.
    g.set_topology_but(routes, |topology| {
        (topology.interfaces, topology.tunnels) = (interfaces, tunnels);
    });
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_lan(&packet(1, 0));
    g.run();
    assert_eq!((g.drops(), g.wan_out().len()), (vec![(DropReason::NoRoute, 1)], 0));
}

#[test]
fn an_uplink_takes_packets_of_its_own_family() {
    let mut g = gateway();
    let all = Prefix { addr: ip("::"), len: 0 };
    g.db.put_policy(policy(92, Direction::Out, Selector::between(all, all), vec![]));
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_lan(&Ip::new(Side::A.lan(true, 10), Side::B.lan(true, 10)).sized(100, 1));
    g.run();
    // The routes lead into the tunnel, which has no policy for IPv6.
    assert_eq!((g.drops(), g.wan_out().len()), (vec![(DropReason::OutNoTunnel, 1)], 0));
}

#[test]
fn programs_of_this_host_take_no_uplink() {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_linux(&Ip::new(Side::A.lan(false, 1), Side::B.lan(false, 10)).sized(60, 1));
    assert_eq!(taken(&mut g), ["one"]);
}

/// A connection of UDP from the LAN, translated to the WAN's address or left as it is.
pub fn connection(port: u16, is_translated: bool) -> Entry {
    let (src, dst) = (Side::A.lan(false, 10), Side::B.lan(false, 10));
    let tuple = |src, dst, src_port, dst_port| Tuple {
        src,
        dst,
        protocol: wire::protocol::UDP,
        src_port,
        dst_port,
    };
    let (own, own_port) = match is_translated {
        true => (Side::A.wan(false), port + 40_000),
        false => (src, port),
    };
    Entry {
        original: tuple(src, dst, port, 53),
        reply: tuple(dst, own, 53, own_port),
        status: Status::CONFIRMED.with(Status::SEEN_REPLY),
        tcp: None,
        id: port.into(),
        zone: 0,
    }
}

pub fn learn(nat: &Bindings, entry: Entry) {
    let binding = Arc::new(Connection::new(entry));
    binding.carry_both();
    nat.apply([Way::Original, Way::Reply].map(|way| Change::Put(Arc::clone(&binding), way)));
}

/// A gateway that learns from Linux what it translates, as it does what leaves by the WAN in clear.
fn translating() -> (Gateway, Arc<Bindings>) {
    let nat = Arc::new(Bindings::default());
    nat.set_asks([true; 2]);
    let tables = Tables { nat: Some(Arc::clone(&nat)), ..Tables::default() };
    let g = gateway_with(tables);
    (g, nat)
}

fn datagram(port: u16, ttl: u8) -> Vec<u8> {
    let header = Ip { ttl, ..Ip::new(Side::A.lan(false, 10), Side::B.lan(false, 10)) };
    header.udp(port, 53, &[7; 40])
}

/// Frame by which Linux gets a packet that it is to send by the uplink.
pub fn by_uplink(g: &Gateway, packet: &[u8]) -> Vec<u8> {
    let frame = ethernet(g.side.mac(LAN), g.side.host_mac(10), packet);
    tagged(UPLINK_TAG, &frame)
}

#[test]
fn a_connection_begins_in_linux_with_the_mark_of_its_uplink_and_stays_there() {
    let (mut g, nat) = translating();
    g.db.put_policy(passes());
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
    g.put_lan(&datagram(1000, 64));
    g.run();
    assert_eq!(g.linux_out(), [by_uplink(&g, &datagram(1000, 64))]);
    learn(&nat, connection(1000, true));
    // The rule has chosen otherwise: that is for new connections.
    for path in [2, 0] {
        steer_with(&g, vec![rule("all", TrafficMatch::default(), &[path])], true);
        for _ in 0..2 {
            g.put_lan(&datagram(1000, 64));
            g.run();
            let out = g.wan_out();
            let h = wire::parse_ip(&out[0]).expect("a packet");
            assert_eq!(
                (h.src, h.src_port, h.dst),
                (Side::A.wan(false), 41_000, Side::B.lan(false, 10))
            );
            assert_eq!((out.len(), g.linux_out().len()), (1, 0));
        }
        // Linux answers for a TTL that ends, of the connection that it knows.
        g.put_lan(&datagram(1000, 1));
        g.run();
        assert_eq!(g.linux_out(), [by_uplink(&g, &datagram(1000, 1))]);
    }
    assert!(g.drops().is_empty());
}

/// As NPTv6 and pools of addresses have it.
#[test]
fn a_connection_belongs_to_the_uplink_whose_prefix_it_has() {
    for (own, way) in [("198.18.7.9", "clear"), ("198.18.8.9", "one")] {
        let (mut g, nat) = translating();
        g.db.put_policy(passes());
        steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
        let entry = connection(1000, true);
        learn(&nat, Entry { reply: Tuple { dst: ip(own), ..entry.reply }, ..entry });
        assert_eq!(path_of(&mut g, &datagram(1000, 64)), [way], "{own}");
    }
}

#[test]
fn a_mark_that_leads_elsewhere_sends_no_connection_to_linux() {
    let (mut g, _) = translating();
    g.db.put_policy(passes());
    let topology = g.tables.topology.load_full();
    let dst = Subnet { addr: Side::B.lan(false, 0), len: 16 };
    let to_first = route(table::MAIN, dst, RouteKind::Unicast, Some(PATHS[0].1), None);
    let (interfaces, tunnels) = (topology.interfaces.clone(), topology.tunnels.clone());
    let tags = topology.uplink_tags.clone();
    // Without the rule for the mark.
    g.set_topology_but(vec![to_first], |topology| {
        (topology.interfaces, topology.tunnels, topology.uplink_tags) = (interfaces, tunnels, tags);
    });
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
    g.put_lan(&datagram(1000, 64));
    g.run();
    assert_eq!((g.drops(), g.linux_out().len()), (vec![(DropReason::NoRoute, 1)], 0));
}

#[test]
fn a_connection_that_began_in_a_tunnel_stays_off_uplinks_that_translate() {
    let (mut g, nat) = translating();
    g.db.put_policy(passes());
    learn(&nat, connection(1000, false));
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
    assert_eq!(path_of(&mut g, &datagram(1000, 64)), ["one"]);
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[1])], true);
    assert_eq!(path_of(&mut g, &datagram(1000, 64)), ["two"]);
    // Nothing is translated there: it may go on by it.
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], false);
    assert_eq!(path_of(&mut g, &datagram(1000, 64)), ["clear"]);
}

/// Linux sees a packet of it whose TTL ends, and is told of no uplink.
#[test]
fn a_connection_that_began_in_a_tunnel_is_marked_for_no_uplink_that_translates() {
    for is_translated in [true, false] {
        let (mut g, nat) = translating();
        g.db.put_policy(passes());
        learn(&nat, connection(1000, false));
        steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], is_translated);
        g.put_lan(&datagram(1000, 1));
        g.run();
        let wanted =
            if is_translated { datagram(1000, 1) } else { by_uplink(&g, &datagram(1000, 1)) };
        assert_eq!(g.linux_out(), [wanted], "{is_translated}");
        assert!(g.wan_out().is_empty());
    }
}

/// The first rule leads it to an uplink of which nothing is known for its family: Linux sends it as its routes lead.
#[test]
fn no_connection_of_another_family_begins_with_the_mark_of_an_uplink() {
    let (mut g, _) = translating();
    let all = Prefix { addr: ip("::"), len: 0 };
    g.db.put_policy(policy(92, Direction::Out, Selector::between(all, all), vec![]));
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
    let packet = Ip::new(Side::A.lan(true, 10), Side::B.lan(true, 10)).udp(1000, 53, &[7; 40]);
    g.put_lan(&packet);
    g.run();
    assert_eq!((g.linux_out(), g.drops()), (vec![packet], vec![]));
}

/// The guard lets it pass only by the private interface, as nothing but Linux's policies knows that it need not be protected.
#[test]
fn what_a_policy_would_have_protected_on_arrival_gets_no_mark_of_an_uplink() {
    for optional in [false, true] {
        let (mut g, _) = translating();
        g.db.put_policy(passes());
        if optional {
            let wants = Template { optional, ..template(&Spec::default(), Side::B) };
            g.db.put_policy(policy(93, Direction::Forward, everything(), vec![wants]));
        }
        steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
        g.put_lan(&datagram(1000, 64));
        g.run();
        let wanted = if optional { datagram(1000, 64) } else { by_uplink(&g, &datagram(1000, 64)) };
        assert_eq!((g.linux_out(), g.drops()), (vec![wanted], vec![]));
    }
}

#[test]
fn no_connection_begins_in_clear_that_no_policy_lets_pass() {
    for is_known in [false, true] {
        let (mut g, nat) = translating();
        if is_known {
            learn(&nat, connection(1000, true));
        }
        steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
        g.put_lan(&datagram(1000, 64));
        stopped(&mut g);
    }
}

/// Linux has translated its connection to a pool just now, and no news of that has come. The routes lead the pool into a tunnel.
#[test]
fn the_first_answer_to_a_translated_connection_is_linuxs() {
    let (mut g, _) = translating();
    let pool = Prefix { addr: Side::B.lan(false, 0), len: 24 };
    steer_from(&g, vec![rule("all", TrafficMatch::default(), &[2])], true, pool);
    let answer = Ip::new(ip("203.0.113.9"), Side::B.lan(false, 7)).udp(53, 1000, &[7; 40]);
    g.put_wan(&answer);
    g.run();
    assert_eq!((g.linux_out(), g.drops()), (vec![answer], vec![]));
}

#[test]
fn a_translated_connection_stops_with_its_policy() {
    let (mut g, nat) = translating();
    g.db.put_policy(passes());
    learn(&nat, connection(1000, true));
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[2])], true);
    assert_eq!(path_of(&mut g, &datagram(1000, 64)), ["clear"]);
    assert!(g.db.remove_policy(90).is_some());
    g.put_lan(&datagram(1000, 64));
    stopped(&mut g);
}

/// Records of a tap name the path that each packet takes: the plan in force, which is another than the rules'
/// where Linux has translated the connection.
#[test]
fn records_name_the_path_that_packets_take() {
    let (mut g, nat) = translating();
    g.db.put_policy(passes());
    let reader = tapped(&g, dataplane::Filter::default());
    let named = |g: &mut Gateway, port| {
        g.put_lan(&datagram(port, 64));
        let ways = taken(g);
        let all = records(&reader);
        let plain = all.iter().filter(|(record, _)| record.place == dataplane::Place::Plain);
        (
            ways,
            plain.map(|(record, _)| record.path.as_deref().map(str::to_owned)).collect::<Vec<_>>(),
        )
    };
    let path = |name: &str| vec![Some(name.to_owned())];
    let rules = |path| vec![rule("all", TrafficMatch::default(), &[path])];
    learn(&nat, connection(1000, true));
    learn(&nat, connection(2000, false));
    for (chosen, untranslated) in [(2, "one"), (1, "two"), (0, "one"), (1, "two")] {
        steer_with(&g, rules(chosen), true);
        for _ in 0..2 {
            // A translated connection stays, and one that has begun in a tunnel does not come to the uplink.
            assert_eq!(named(&mut g, 1000), (vec!["clear"], path("clear")), "{chosen}");
            let ways = vec![untranslated];
            assert_eq!(named(&mut g, 2000), (ways, path(untranslated)), "{chosen}");
        }
    }
    // A new one begins in Linux, by the path that the rule has chosen.
    steer_with(&g, rules(2), true);
    assert_eq!(named(&mut g, 3000), (vec![], path("clear")));
    let told = ask(&mut g, &datagram(1000, 64), Came::Port { ifindex: LAN }).steps;
    let clear = Some(Arc::from("clear"));
    assert!(told.contains(&Step::Path { by: PathBy::Translation, path: clear }), "{told:?}");
    steer_with(&g, vec![], true);
    assert_eq!(named(&mut g, 2000), (vec!["one"], path("one")), "as the routes lead");
    let told = ask(&mut g, &datagram(2000, 64), Came::Port { ifindex: LAN }).steps;
    let one = Some(Arc::from("one"));
    assert!(told.contains(&Step::Path { by: PathBy::Routes, path: one }), "{told:?}");
    // A rule without a good path stops its packets, which take none.
    steer_with(&g, vec![rule("all", TrafficMatch::default(), &[])], true);
    let (ways, paths) = named(&mut g, 2000);
    assert!(ways.is_empty() && paths.iter().all(Option::is_none), "{ways:?} {paths:?}");
}

/// A gateway that stops what a rule leads into clear.
pub fn produce_in_clear() -> Gateway {
    let mut g = gateway_with(Tables::default());
    steer(&g, vec![rule("all", TrafficMatch::default(), &[2])]);
    g.put_lan(&packet(1, 0));
    g
}

/// A gateway that stops a packet for want of a path.
pub fn produce() -> Gateway {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[])]);
    g.put_lan(&packet(1, 0));
    g
}
