//! The entries of culvert's table, by policies and Linux's routes, rules and addresses.

use std::net::IpAddr;

use esp::Mode;
use mirror::{
    Address, Change, Family, NextHop, Prefix, Route, RouteKind, Rule, RuleAction, Snapshot,
};
use policy::{Action, Direction, Mark, PolicyConfig, PolicyFlags, Selector, Template};
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::linux_way::Linux;
use super::own_table::{Entry, OwnTable};
use crate::sources::testing::xfrm_interface;
use crate::tunnels::Tunnels;

const WAN: u32 = 2;
const LAN: u32 = 3;
const PRIVATE: u32 = 9;

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (address, len) = text.split_once('/').unwrap();
    Prefix { addr: addr(address), len: len.parse().unwrap() }
}

fn address(ifindex: u32, text: &str) -> Change {
    let Prefix { addr, len } = prefix(text);
    Change::Address(Address {
        ifindex,
        addr,
        prefix_len: len,
        scope: 0,
        tentative: false,
        secondary: false,
        deprecated: false,
    })
}

fn route(dst: &str, ifindex: u32, gateway: Option<&str>) -> Route {
    Route { table: 254, ..Route::new(prefix(dst), NextHop::new(ifindex, gateway.map(addr))) }
}

/// A host with two interfaces, whose lowest address is not the one that leads out.
fn host() -> Vec<Change> {
    let mut host = Vec::new();
    for family in [Family::V4, Family::V6] {
        let ours = Rule { protocol: ROUTE_PROTOCOL, ..Rule::new(family, 210, 219) };
        host.extend(
            [
                Rule::new(family, 0, 255),
                ours,
                Rule::new(family, 220, 220),
                Rule::new(family, 32_766, 254),
            ]
            .map(Change::Rule),
        );
    }
    host.extend([
        address(LAN, "10.1.0.1/24"),
        address(WAN, "192.0.2.1/24"),
        address(LAN, "2001:db8:1::1/64"),
        address(WAN, "2001:db8:f::1/64"),
    ]);
    host.extend(
        [
            route("10.1.0.0/24", LAN, None),
            route("192.0.2.0/24", WAN, None),
            route("0.0.0.0/0", WAN, Some("192.0.2.254")),
            route("2001:db8:1::/64", LAN, None),
            route("::/0", WAN, Some("2001:db8:f::254")),
            // Culvert's own, which must not count.
            Route { table: 219, ..route("0.0.0.0/0", PRIVATE, None) },
            route("10.77.0.0/16", PRIVATE, None),
        ]
        .map(Change::Route),
    );
    host
}

fn linux(snapshot: &Snapshot) -> Linux<'_> {
    linux_with(snapshot, Box::leak(Box::default()))
}

fn linux_with<'s>(snapshot: &'s Snapshot, tunnels: &'s Tunnels) -> Linux<'s> {
    Linux::new(snapshot, 210, ROUTE_PROTOCOL, PRIVATE, tunnels.led())
}

fn selector(src: &str, dst: &str) -> Selector {
    let of = |text| {
        let Prefix { addr, len } = prefix(text);
        policy::Prefix { addr, len }
    };
    Selector::between(of(src), of(dst))
}

fn pass(index: u32, priority: u32, src: &str, dst: &str) -> PolicyConfig {
    PolicyConfig {
        index,
        direction: Direction::Out,
        selector: selector(src, dst),
        priority,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: Vec::new(),
        mark: Mark::default(),
        if_id: 0,
    }
}

fn protect(index: u32, priority: u32, src: &str, dst: &str) -> PolicyConfig {
    let template = Template {
        src: addr("192.0.2.1"),
        dst: addr("192.0.2.2"),
        spi: 0,
        protocol: 50,
        mode: Mode::Tunnel,
        reqid: 1,
        optional: false,
    };
    PolicyConfig { templates: vec![template], ..pass(index, priority, src, dst) }
}

/// A policy that is left to Linux.
fn leave(index: u32, priority: u32, src: &str, dst: &str) -> PolicyConfig {
    PolicyConfig { action: Action::Leave, ..pass(index, priority, src, dst) }
}

/// The table as text, in order: "DST SRC" or "DST throw".
fn shown(table: &OwnTable) -> Vec<String> {
    let line = |(dst, entry): (Prefix, Entry)| {
        let what = match entry {
            Entry::Culvert(Some(src)) => src.to_string(),
            Entry::Culvert(None) => "-".into(),
            Entry::Throw => "throw".into(),
        };
        format!("{}/{} {what}", dst.addr, dst.len)
    };
    table.entries().map(line).collect()
}

fn decided(policies: &[PolicyConfig], host: Vec<Change>) -> Vec<String> {
    let snapshot = host.into_iter().collect();
    let mut table = OwnTable::default();
    table.set(policies, &linux(&snapshot));
    // One after the other leads to the same, in whatever order.
    for reversed in [false, true] {
        let mut other = OwnTable::default();
        let mut list: Vec<&PolicyConfig> = policies.iter().collect();
        if reversed {
            list.reverse();
        }
        for policy in &list {
            other.change(None, Some(policy), &linux(&snapshot));
        }
        assert_eq!(shown(&other), shown(&table));
        for policy in &list {
            other.change(Some(policy), None, &linux(&snapshot));
        }
        assert_eq!(other.entries().count(), 0, "{:?}", shown(&other));
    }
    shown(&table)
}

#[test]
fn the_source_is_the_one_that_linux_takes() {
    let any = [protect(1, 9, "0.0.0.0/0", "0.0.0.0/0"), protect(2, 9, "::/0", "::/0")];
    assert_eq!(
        decided(&any, host()),
        [
            "0.0.0.0/0 192.0.2.1",
            "10.1.0.0/24 10.1.0.1",
            "224.0.0.0/4 throw",
            "255.255.255.255/32 throw",
            "::/0 2001:db8:f::1",
            "2001:db8:1::/64 2001:db8:1::1",
            "fe80::/10 throw",
            "ff00::/8 throw",
        ]
    );
}

#[test]
fn an_address_outside_the_selector_is_no_source() {
    let net = protect(1, 9, "10.1.0.0/24", "10.2.0.0/24");
    assert_eq!(decided(&[net], host()), ["10.2.0.0/24 10.1.0.1"]);
    // None of this host's is inside: as without culvert.
    let transit = protect(1, 9, "10.8.0.0/24", "10.2.0.0/24");
    assert_eq!(decided(&[transit], host()), ["10.2.0.0/24 192.0.2.1"]);
    // The egress interface's comes first, primary before secondary.
    let mut changes = host();
    let Change::Address(second) = address(WAN, "10.0.0.7/8") else { unreachable!() };
    changes.push(Change::Address(Address { secondary: true, ..second }));
    changes.push(address(WAN, "10.0.0.9/8"));
    let wide = protect(1, 9, "10.0.0.0/8", "10.2.0.0/24");
    assert_eq!(decided(&[wide], changes), ["10.2.0.0/24 10.0.0.9"]);
}

#[test]
fn a_routes_own_source_comes_first() {
    let mut changes = host();
    changes.push(address(LAN, "10.3.0.1/32"));
    let vip = Route {
        table: 220,
        prefsrc: Some(addr("10.3.0.1")),
        ..route("0.0.0.0/0", WAN, Some("192.0.2.2"))
    };
    changes.push(Change::Route(vip));
    // What strongSwan's table has comes before the main one, for all of it.
    let all = [protect(1, 9, "0.0.0.0/0", "0.0.0.0/0")];
    let lines = decided(&all, changes.clone());
    assert_eq!(lines[0], "0.0.0.0/0 10.3.0.1");
    assert!(lines.iter().all(|l| !l.starts_with("10.1.0.0")), "{lines:?}");
    // But for what it throws.
    let thrown =
        Route { kind: RouteKind::Throw, next_hops: vec![], ..route("10.1.0.0/24", 0, None) };
    changes.push(Change::Route(Route { table: 220, ..thrown }));
    let lines = decided(&all, changes);
    assert_eq!(lines[1], "10.1.0.0/24 10.1.0.1");
}

#[test]
fn what_passes_is_linuxs() {
    let mut changes = host();
    changes.push(address(LAN, "10.3.0.1/32"));
    let tunnel = protect(1, 20, "10.3.0.1/32", "0.0.0.0/0");
    let lan = pass(2, 10, "10.1.0.0/24", "10.1.0.0/24");
    let thrown = "10.1.0.0/24 throw".to_owned();
    let has = |policies: &[PolicyConfig]| decided(policies, changes.clone()).contains(&thrown);
    assert!(has(&[tunnel.clone(), lan.clone()]));
    // Without anything protected around it there is nothing to throw from.
    assert!(decided(std::slice::from_ref(&lan), changes.clone()).is_empty());
    // The address that Linux takes is not one that passes.
    assert!(!has(&[tunnel.clone(), pass(2, 10, "10.1.0.99/32", "10.1.0.0/24")]));
    // A policy that comes first protects.
    assert!(!has(&[tunnel.clone(), lan.clone(), protect(3, 5, "10.1.0.0/16", "10.0.0.0/8")]));
    assert!(has(&[tunnel.clone(), lan.clone(), protect(3, 15, "10.1.0.0/16", "10.0.0.0/8")]));
    // It passes only some.
    let mut some = lan.clone();
    some.selector.protocol = 6;
    assert!(!has(&[tunnel.clone(), some]));
    // What is protected inside stays so.
    let inner = protect(4, 1, "10.1.0.0/24", "10.1.0.128/25");
    let lines = decided(&[tunnel, lan, inner], changes.clone());
    assert!(lines.contains(&thrown), "{lines:?}");
    assert!(lines.contains(&"10.1.0.128/25 10.1.0.1".to_owned()), "{lines:?}");
}

/// Linux's own tables decide about it, as about what passes.
#[test]
fn what_is_left_to_linux_is_not_led_here() {
    let net = |priority| leave(1, priority, "10.1.0.0/24", "10.2.0.0/24");
    assert!(decided(&[net(9)], host()).is_empty());
    // Inside of what is protected it goes by Linux's tables, unless what protects comes first.
    let thrown = "10.2.0.0/24 throw".to_owned();
    let changes = || {
        let mut changes = host();
        changes.push(Change::Route(route("10.2.0.0/24", LAN, None)));
        changes
    };
    let wide = protect(2, 9, "0.0.0.0/0", "0.0.0.0/0");
    assert!(decided(&[wide.clone(), net(5)], changes()).contains(&thrown));
    assert!(!decided(&[wide.clone(), net(10)], changes()).contains(&thrown));
    // Where only some of it is left, all comes here, and culvert gives that back.
    let mut some = net(5);
    some.selector.protocol = 6;
    assert!(!decided(&[wide, some], changes()).contains(&thrown));
    // Taken over, and given back.
    let snapshot = host().into_iter().collect();
    let taken = protect(1, 9, "10.1.0.0/24", "10.2.0.0/24");
    let mut table = OwnTable::default();
    table.change(None, Some(&net(9)), &linux(&snapshot));
    assert_eq!(table.change(Some(&net(9)), Some(&taken), &linux(&snapshot)).len(), 1);
    assert_eq!(shown(&table), ["10.2.0.0/24 10.1.0.1"]);
    assert_eq!(table.change(Some(&taken), Some(&net(9)), &linux(&snapshot)).len(), 1);
    assert!(shown(&table).is_empty());
}

#[test]
fn a_policy_that_is_renewed_stays() {
    let snapshot = host().into_iter().collect();
    let mut table = OwnTable::default();
    let policy = protect(1, 9, "10.1.0.0/24", "10.2.0.0/24");
    assert_eq!(table.change(None, Some(&policy), &linux(&snapshot)).len(), 1);
    assert!(table.change(Some(&policy), Some(&policy), &linux(&snapshot)).is_empty());
    assert_eq!(shown(&table), ["10.2.0.0/24 10.1.0.1"]);
    let moved = protect(1, 9, "10.1.0.0/24", "10.4.0.0/24");
    assert_eq!(table.change(Some(&policy), Some(&moved), &linux(&snapshot)).len(), 2);
    assert_eq!(shown(&table), ["10.4.0.0/24 10.1.0.1"]);
}

#[test]
fn routes_are_followed_one_by_one() {
    let policies =
        [protect(1, 9, "0.0.0.0/0", "0.0.0.0/0"), protect(2, 9, "0.0.0.0/0", "10.2.0.0/24")];
    let mut changes = host();
    let mut table = OwnTable::default();
    let start: Snapshot = changes.clone().into_iter().collect();
    table.set(&policies, &linux(&start));
    let steps = [
        Change::Route(route("10.9.0.0/16", LAN, None)),
        Change::Route(route("10.0.0.0/8", LAN, None)),
        Change::Route(route("10.9.9.0/24", WAN, Some("192.0.2.7"))),
        Change::RouteRemoved(route("10.0.0.0/8", LAN, None)),
        Change::RouteRemoved(route("0.0.0.0/0", WAN, Some("192.0.2.254"))),
        Change::RouteRemoved(route("10.9.9.0/24", WAN, Some("192.0.2.7"))),
    ];
    for step in steps {
        let (Change::Route(r) | Change::RouteRemoved(r)) = &step else { unreachable!() };
        let dst = r.dst;
        changes.push(step);
        let now: Snapshot = changes.clone().into_iter().collect();
        table.routes_changed([dst], &linux(&now));
        let mut anew = OwnTable::default();
        anew.set(&policies, &linux(&now));
        assert_eq!(shown(&table), shown(&anew), "{dst:?}");
    }
}

#[test]
fn routes_inside_a_prefix_are_bounded() {
    let mut changes = host();
    for n in 0..300u32 {
        let dst = format!("10.{}.{}.0/24", 100 + n / 200, n % 200);
        changes.push(Change::Route(route(&dst, LAN, None)));
    }
    let snapshot = changes.into_iter().collect();
    let mut table = OwnTable::default();
    table.set(&[protect(1, 9, "0.0.0.0/0", "0.0.0.0/0")], &linux(&snapshot));
    assert_eq!(table.entries().count(), 256 + 3);
    assert_eq!(table.take_crowded().into_iter().collect::<Vec<_>>(), [prefix("0.0.0.0/0")]);
}

#[test]
fn rules_that_ask_for_what_is_not_known_do_not_apply() {
    let other = Route { table: 100, ..route("0.0.0.0/0", LAN, None) };
    let rules = [
        Rule { from: Some(prefix("10.0.0.0/8")), ..Rule::new(Family::V4, 300, 100) },
        Rule { fwmark: 1, fwmask: 1, ..Rule::new(Family::V4, 300, 100) },
        Rule { iif: Some("lan".into()), ..Rule::new(Family::V4, 300, 100) },
        Rule { oif: Some("lan".into()), ..Rule::new(Family::V4, 300, 100) },
        Rule { sport: Some((1, 2)), ..Rule::new(Family::V4, 300, 100) },
        Rule { has_more: true, ..Rule::new(Family::V4, 300, 100) },
        Rule { action: RuleAction::Nop, ..Rule::new(Family::V4, 300, 100) },
        Rule { suppress_prefix_len: Some(0), ..Rule::new(Family::V4, 300, 100) },
        // It comes before culvert's, and has decided already.
        Rule::new(Family::V4, 100, 100),
    ];
    let policies = [protect(1, 9, "0.0.0.0/0", "198.51.100.0/24")];
    let with = |rule: Rule| {
        let mut changes = host();
        changes.extend([Change::Route(other.clone()), Change::Rule(rule)]);
        decided(&policies, changes)
    };
    for rule in rules {
        let said = format!("{rule:?}");
        assert_eq!(with(rule), ["198.51.100.0/24 192.0.2.1"], "{said}");
    }
    for rule in [
        Rule::new(Family::V4, 300, 100),
        Rule { iif: Some("lo".into()), ..Rule::new(Family::V4, 300, 100) },
        Rule { invert: true, fwmark: 1, fwmask: 1, ..Rule::new(Family::V4, 300, 100) },
        Rule { to: Some(prefix("198.51.0.0/16")), ..Rule::new(Family::V4, 300, 100) },
    ] {
        let said = format!("{rule:?}");
        assert_eq!(with(rule), ["198.51.100.0/24 10.1.0.1"], "{said}");
    }
    // For a part of the destination: that part alone.
    let part = Rule { to: Some(prefix("198.51.100.8/32")), ..Rule::new(Family::V4, 300, 100) };
    assert_eq!(with(part), ["198.51.100.0/24 192.0.2.1", "198.51.100.8/32 10.1.0.1"]);
    let past = Rule { action: RuleAction::Goto(400), ..Rule::new(Family::V4, 300, 0) };
    assert_eq!(with(past), ["198.51.100.0/24 192.0.2.1"]);
}

/// A change costs what it touches: with ten times the policies it is not ten times as much.
#[test]
fn many_destinations_do_not_make_a_change_dear() {
    let time = |count: u32| {
        let snapshot: Snapshot = host().into_iter().collect();
        let linux = linux(&snapshot);
        let mut table = OwnTable::default();
        let start = std::time::Instant::now();
        for n in 0..count {
            let dst = format!("10.{}.{}.0/24", 2 + n / 250, n % 250);
            table.change(None, Some(&protect(n + 1, 9, "10.1.0.0/24", &dst)), &linux);
        }
        start.elapsed()
    };
    let (few, many) = (time(2_000), time(20_000));
    assert!(many < few * 40, "{few:?} for 2000, {many:?} for 20000");
}

/// A host with an XFRM interface, whose SAs are culvert's for IPv4, and another one, whose are not.
fn with_interfaces() -> (Vec<Change>, Tunnels) {
    let mut host = host();
    for (index, if_id) in [(IPSEC, 42), (OTHER, 43)] {
        host.push(Change::Link(xfrm_interface(index, if_id)));
    }
    host.push(address(IPSEC, "10.9.0.1/24"));
    let mut tunnels = Tunnels::default();
    tunnels.follow_links(&host.iter().cloned().collect());
    let everything = protect(1, 9, "0.0.0.0/0", "0.0.0.0/0");
    tunnels.follow_policy(None, Some(&PolicyConfig { if_id: 42, ..everything }));
    (host, tunnels)
}

const IPSEC: u32 = 4;
const OTHER: u32 = 5;

/// The table for these policies and further routes; however they come, it is the same.
fn led(policies: &[PolicyConfig], routes: &[Route]) -> Vec<String> {
    let (mut changes, mut tunnels) = with_interfaces();
    let mut table = OwnTable::default();
    let start: Snapshot = changes.iter().cloned().collect();
    tunnels.follow_all_routes(&start);
    table.set(policies, &linux_with(&start, &tunnels));
    let mut steps: Vec<Change> = routes.iter().cloned().map(Change::Route).collect();
    let there = steps.len();
    steps.extend(routes.iter().cloned().map(Change::RouteRemoved));
    let mut all = Vec::new();
    for (n, step) in steps.into_iter().enumerate() {
        let (Change::Route(r) | Change::RouteRemoved(r)) = step.clone() else { unreachable!() };
        changes.push(step);
        let now: Snapshot = changes.iter().cloned().collect();
        tunnels.follow_route(&now, &r);
        table.routes_changed([r.dst], &linux_with(&now, &tunnels));
        let mut anew = OwnTable::default();
        anew.set(policies, &linux_with(&now, &tunnels));
        assert_eq!(shown(&table), shown(&anew), "{r:?}");
        if n + 1 == there {
            all = shown(&table);
        }
    }
    all
}

#[test]
fn what_is_routed_to_an_xfrm_interface_is_led_here() {
    let to = |dst: &str, ifindex| route(dst, ifindex, None);
    let own = Route { prefsrc: Some(addr("10.1.0.1")), ..to("10.3.0.0/16", IPSEC) };
    let routes = [
        to("10.9.0.0/24", IPSEC),
        to("10.2.0.0/16", IPSEC),
        own,
        // Its SAs are the kernel's; and for IPv6 those of the first one are.
        to("10.4.0.0/16", OTHER),
        to("2001:db8:2::/64", IPSEC),
    ];
    assert_eq!(
        led(&[], &routes),
        ["10.2.0.0/16 10.9.0.1", "10.3.0.0/16 10.1.0.1", "10.9.0.0/24 10.9.0.1"]
    );
    // What is led elsewhere inside of it is Linux's.
    let mut routes = routes.to_vec();
    routes.push(route("10.2.5.0/24", WAN, Some("192.0.2.7")));
    routes.push(to("10.2.5.128/25", IPSEC));
    assert_eq!(
        led(&[], &routes),
        [
            "10.2.0.0/16 10.9.0.1",
            "10.2.5.0/24 throw",
            "10.2.5.128/25 10.9.0.1",
            "10.3.0.0/16 10.1.0.1",
            "10.9.0.0/24 10.9.0.1"
        ]
    );
}

#[test]
fn everything_may_be_routed_to_an_xfrm_interface() {
    let via = Route { metric: 0, ..route("0.0.0.0/1", IPSEC, None) };
    let other = route("128.0.0.0/1", IPSEC, None);
    let peer = route("192.0.2.77/32", WAN, None);
    assert_eq!(
        led(&[], &[via, other, peer]),
        [
            "0.0.0.0/1 10.9.0.1",
            "10.1.0.0/24 throw",
            "128.0.0.0/1 10.9.0.1",
            "192.0.2.0/24 throw",
            "224.0.0.0/4 throw",
            "255.255.255.255/32 throw"
        ]
    );
}

#[test]
fn policies_come_before_routes_to_xfrm_interfaces() {
    let routes = [route("10.2.0.0/16", IPSEC, None), route("10.2.5.0/24", WAN, Some("192.0.2.7"))];
    // A policy that protects takes what it is for, wherever routes lead.
    let around = protect(1, 9, "10.1.0.0/24", "10.0.0.0/8");
    let lines = led(&[around], &routes);
    assert!(lines.contains(&"10.2.0.0/16 10.9.0.1".into()), "{lines:?}");
    assert!(lines.contains(&"10.2.5.0/24 10.1.0.1".into()), "{lines:?}");
    // One that lets pass leaves it to the routes.
    let passes = pass(2, 9, "0.0.0.0/0", "10.2.0.0/16");
    assert_eq!(led(&[passes], &routes), ["10.2.0.0/16 10.9.0.1", "10.2.5.0/24 throw"]);
    // The same destination for both.
    let same = protect(3, 9, "10.1.0.0/24", "10.2.0.0/16");
    let lines = led(&[same], &routes);
    assert_eq!(lines[0], "10.2.0.0/16 10.9.0.1");
}
