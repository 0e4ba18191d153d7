//! Path selection: rules choose among the paths that the routes allow.

use std::sync::Arc;

use dataplane::{
    Binding, Came, Interface, PathExit, SteerRule, Steering, Step, TrafficDirection, TrafficMatch,
    Tunnel,
};
use forward::{RouteKind, SourceCheck, Subnet, table};
use outcome::DropReason;
use policy::{Direction, SaConfig};
use selection::{Candidate, Choice};
use wire::MacAddr;

use crate::explain::ask;
use crate::packets::Ip;
use crate::route_based::everything;
use crate::support::{Gateway, LAN, Side, Spec, WAN, make_sa, policy, route, sa_config, template};

/// The paths: two tunnels, and the WAN in clear. The routes lead to the first.
const PATHS: [(&str, u32); 3] = [("one", 20), ("two", 21), ("clear", WAN)];
/// SPI of the first tunnel's SA.
const FIRST_SPI: u32 = 0x700;

/// Gateway A with a tunnel for each of the first two paths.
fn gateway() -> Gateway {
    let mut g = Gateway::new(Side::A);
    let dst = Subnet { addr: Side::B.lan(false, 0), len: 16 };
    let to_first = route(table::MAIN, dst, RouteKind::Unicast, Some(PATHS[0].1), None);
    let tunnels = PATHS.map(|(_, ifindex)| ifindex).into_iter().take(2);
    g.set_topology_but(vec![to_first], |topology| {
        topology.tunnels = tunnels
            .map(|ifindex| {
                let binding = Binding::IfId(ifindex);
                let interface = Interface {
                    port: None,
                    mac: MacAddr([0; 6]),
                    mtu: 1400,
                    up: true,
                    back: None,
                    binding: Some(binding),
                    source_check: SourceCheck::Off,
                    addr4: None,
                    addr6: None,
                };
                topology.interfaces.insert(ifindex, interface);
                (binding, Tunnel { ifindex, slot: None, is_elsewhere: false })
            })
            .collect();
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
    let exits = PATHS.map(|(name, ifindex)| {
        let gateway = (ifindex == WAN).then(|| Side::B.wan(false));
        Some(PathExit { name: name.into(), ifindex, gateway })
    });
    g.tables.steering.store(Arc::new(Steering::new(rules, exits.into())));
}

/// A rule that has chosen these paths, in equal shares.
fn rule(name: &str, matches: TrafficMatch, paths: &[u16]) -> SteerRule {
    let takers: Vec<_> = paths.iter().map(|path| Candidate { path: *path, weight: 1 }).collect();
    SteerRule { name: name.into(), matches, choice: Choice::new(takers) }
}

/// A packet of the flow to a host. The first packet's DSCP decides for its flow.
fn packet(host: u16, dscp: u8) -> Vec<u8> {
    let mut packet = Ip::new(Side::A.lan(false, 10), Side::B.lan(false, host)).sized(100, 1);
    packet[1] = dscp << 2;
    wire::ipv4::fill_checksum(&mut packet);
    packet
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
    assert!(told.contains(&Step::Path { rule: "all".into(), path: path("two") }), "{told:?}");
    steer(&g, vec![rule("all", TrafficMatch::default(), &[])]);
    let told = ask(&mut g, &packet(1, 0), Came::Port { ifindex: LAN }).steps;
    assert!(told.contains(&Step::Path { rule: "all".into(), path: None }), "{told:?}");
}

/// A gateway that stops a packet for want of a path.
pub fn produce() -> Gateway {
    let mut g = gateway();
    steer(&g, vec![rule("all", TrafficMatch::default(), &[])]);
    g.put_lan(&packet(1, 0));
    g
}
