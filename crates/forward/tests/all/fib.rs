//! Rules and routes, against what a Linux host does with the same ones.

use std::collections::HashMap;
use std::net::IpAddr;

use forward::{
    Fib, Hop, IcmpCause, RouteChange, RouteEntry, RouteKind, RouteResult, Routes, RuleAction,
    RuleEntry, SourceCheck, Subnet, table,
};
use outcome::DropReason;
use proptest::prelude::*;
use wire::Family;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> Subnet {
    let (addr, len) = text.split_once('/').unwrap();
    Subnet { addr: ip(addr), len: len.parse().unwrap() }
}

fn hop(ifindex: u32, gateway: Option<&str>) -> Hop {
    Hop { ifindex, gateway: gateway.map(ip), weight: 1 }
}

fn via(table: u32, dst: &str, ifindex: u32, gateway: Option<&str>) -> RouteEntry {
    RouteEntry {
        table,
        dst: net(dst),
        kind: RouteKind::Unicast,
        priority: 0,
        hops: vec![hop(ifindex, gateway)],
        mtu: None,
        src: None,
    }
}

fn kind(table: u32, dst: &str, kind: RouteKind) -> RouteEntry {
    RouteEntry { kind, hops: vec![], ..via(table, dst, 0, None) }
}

fn out(ifindex: u32, gateway: Option<&str>) -> RouteResult {
    RouteResult::Unicast { ifindex, gateway: gateway.map(ip), mtu: None, src: None }
}

fn host() -> Vec<RouteEntry> {
    vec![
        via(table::MAIN, "0.0.0.0/0", 2, Some("192.0.2.1")),
        via(table::MAIN, "192.0.2.0/24", 2, None),
        via(table::MAIN, "10.1.0.0/16", 3, None),
        kind(table::LOCAL, "192.0.2.9/32", RouteKind::Local),
        kind(table::LOCAL, "192.0.2.255/32", RouteKind::Local),
        via(table::MAIN, "2001:db8:1::/64", 3, None),
        via(table::MAIN, "::/0", 2, Some("fe80::1")),
        kind(table::LOCAL, "2001:db8:1::9/128", RouteKind::Local),
    ]
}

fn look(fib: &Fib, dst: &str) -> RouteResult {
    let src = if dst.contains(':') { "2001:db8:7::7" } else { "198.51.100.7" };
    fib.lookup(ip(dst), ip(src), 0, 1)
}

#[test]
fn a_host_with_default_rules() {
    let fib = Fib::new(host(), RuleEntry::defaults(), None);
    assert_eq!(fib.len(), 8);
    assert_eq!(look(&fib, "192.0.2.9"), RouteResult::Local);
    assert_eq!(look(&fib, "192.0.2.255"), RouteResult::Local);
    assert_eq!(look(&fib, "192.0.2.8"), out(2, None));
    assert_eq!(look(&fib, "10.1.255.255"), out(3, None));
    assert_eq!(look(&fib, "10.2.0.0"), out(2, Some("192.0.2.1")));
    assert_eq!(look(&fib, "2001:db8:1::9"), RouteResult::Local);
    assert_eq!(look(&fib, "2001:db8:1::8"), out(3, None));
    assert_eq!(look(&fib, "2001:db8:2::8"), out(2, Some("fe80::1")));
    let result = look(&fib, "10.1.0.5");
    assert_eq!(result.neighbour(ip("10.1.0.5")), Some((3, ip("10.1.0.5"))));
    let result = look(&fib, "10.9.0.5");
    assert_eq!(result.neighbour(ip("10.9.0.5")), Some((2, ip("192.0.2.1"))));
    assert_eq!(RouteResult::Local.neighbour(ip("10.1.0.5")), None);
}

#[test]
fn without_rules_or_routes_nothing_is_found() {
    assert_eq!(look(&Fib::new(host(), [], None), "10.1.0.1"), RouteResult::None);
    let fib = Fib::new([], RuleEntry::defaults(), None);
    assert!(fib.is_empty());
    assert_eq!(look(&fib, "10.1.0.1"), RouteResult::None);
    assert_eq!(look(&Fib::default(), "2001:db8::1"), RouteResult::None);
    // Of two families nothing is found, whatever the tables say.
    let fib = Fib::new(host(), RuleEntry::defaults(), None);
    assert_eq!(fib.lookup(ip("10.1.0.1"), ip("2001:db8::1"), 0, 1), RouteResult::None);
}

#[test]
fn addresses_that_are_never_forwarded() {
    let fib = Fib::new(host(), RuleEntry::defaults(), None);
    for local in ["224.0.0.5", "239.1.1.1", "255.255.255.255", "ff02::1", "ff0e::1", "fe80::1"] {
        assert_eq!(look(&fib, local), RouteResult::Local, "{local}");
    }
    for dst in ["127.0.0.1", "0.0.0.0", "0.1.2.3", "::1", "::"] {
        assert_eq!(look(&fib, dst), RouteResult::Blackhole, "{dst}");
    }
    for src in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"] {
        assert_eq!(fib.lookup(ip("10.1.0.1"), ip(src), 0, 1), RouteResult::Blackhole, "{src}");
    }
    for src in ["::1", "ff02::1", "fe80::7", "::"] {
        let to = |dst| fib.lookup(ip(dst), ip(src), 0, 1);
        assert_eq!(to("2001:db8:1::8"), RouteResult::Blackhole, "{src}");
    }
    // A neighbour on the link may talk to this host.
    assert_eq!(fib.lookup(ip("2001:db8:1::9"), ip("fe80::7"), 0, 1), RouteResult::Local);
}

#[test]
fn charon_table_comes_before_main_and_the_own_table_is_skipped() {
    let mut routes = host();
    routes.push(via(220, "10.2.0.0/16", 3, Some("10.1.0.1")));
    routes.push(via(4500, "10.2.0.0/16", 9, None));
    let mut rules = RuleEntry::defaults();
    rules.push(RuleEntry::table(Family::V4, 220, 220));
    rules.push(RuleEntry::table(Family::V4, 100, 4500));
    let all = Fib::new(routes.clone(), rules.clone(), None);
    assert_eq!(look(&all, "10.2.3.4"), out(9, None));
    let skipped = Fib::new(routes, rules, Some(4500));
    assert_eq!(look(&skipped, "10.2.3.4"), out(3, Some("10.1.0.1")));
    assert_eq!(look(&skipped, "10.3.3.4"), out(2, Some("192.0.2.1")));
    assert_eq!(skipped.len(), all.len() - 1);
}

#[test]
fn lower_priority_and_first_of_equals_win() {
    let mut worse = via(table::MAIN, "10.0.0.0/8", 5, None);
    worse.priority = 100;
    let mut better = via(table::MAIN, "10.0.0.0/8", 6, None);
    better.priority = 50;
    let mut same = better.clone();
    same.hops = vec![hop(7, None)];
    let mut long = via(table::MAIN, "10.9.0.0/16", 8, None);
    long.priority = 9999;
    let fib = Fib::new([worse.clone(), better, same, long], RuleEntry::defaults(), None);
    assert_eq!(look(&fib, "10.1.1.1"), out(6, None));
    assert_eq!(look(&fib, "10.9.1.1"), out(8, None), "the prefix comes before the priority");
    // A unicast route without a hop is no route.
    let mut dead = worse.clone();
    dead.priority = 0;
    dead.hops.clear();
    let fib = Fib::new([dead, worse], RuleEntry::defaults(), None);
    assert_eq!(look(&fib, "10.1.1.1"), out(5, None));
}

#[test]
fn kinds_of_routes() {
    let fib = Fib::new(
        [
            kind(table::MAIN, "10.1.0.0/16", RouteKind::Blackhole),
            kind(table::MAIN, "10.2.0.0/16", RouteKind::Unreachable),
            kind(table::MAIN, "10.3.0.0/16", RouteKind::Prohibit),
            kind(table::MAIN, "10.4.0.0/16", RouteKind::Throw),
            via(table::MAIN, "0.0.0.0/0", 2, None),
            via(table::DEFAULT, "10.4.5.0/24", 7, None),
        ],
        RuleEntry::defaults(),
        None,
    );
    let cases = [
        ("10.1.0.1", RouteResult::Blackhole, Some(DropReason::RouteProhibited), None),
        (
            "10.2.0.1",
            RouteResult::Unreachable,
            Some(DropReason::RouteProhibited),
            Some(IcmpCause::HostUnreachable),
        ),
        (
            "10.3.0.1",
            RouteResult::Prohibit,
            Some(DropReason::RouteProhibited),
            Some(IcmpCause::Prohibited),
        ),
        ("10.4.5.1", out(7, None), None, None),
        ("10.4.6.1", RouteResult::None, Some(DropReason::NoRoute), Some(IcmpCause::NoRoute)),
        ("10.5.0.1", out(2, None), None, None),
    ];
    for (dst, want, reason, cause) in cases {
        let found = look(&fib, dst);
        assert_eq!(found, want, "{dst}");
        assert_eq!((found.drop_reason(), found.icmp_cause(Family::V4)), (reason, cause), "{dst}");
    }
    assert_eq!(
        RouteResult::Unreachable.icmp_cause(Family::V6),
        Some(IcmpCause::NoRoute),
        "as Linux has it"
    );
}

#[test]
fn mtu_and_source_come_with_the_route() {
    let mut route = via(table::MAIN, "10.0.0.0/8", 4, Some("10.0.0.1"));
    route.mtu = Some(1400);
    route.src = Some(ip("10.0.0.9"));
    let fib = Fib::new([route], RuleEntry::defaults(), None);
    assert_eq!(
        look(&fib, "10.7.7.7"),
        RouteResult::Unicast {
            ifindex: 4,
            gateway: Some(ip("10.0.0.1")),
            mtu: Some(1400),
            src: Some(ip("10.0.0.9")),
        }
    );
}

/// A rule at 100 for table 50, which has a default route to interface 50.
fn ruled(change: impl FnOnce(&mut RuleEntry)) -> Fib {
    let mut rule = RuleEntry::table(Family::V4, 100, 50);
    change(&mut rule);
    let mut rules = RuleEntry::defaults();
    rules.push(rule);
    let mut routes = host();
    routes.push(via(50, "0.0.0.0/0", 50, None));
    Fib::new(routes, rules, None)
}

#[test]
fn an_address_is_local_to_all_unless_a_rule_with_conditions_comes_first() {
    let (ours, ours_v6) = (ip("192.0.2.9"), ip("2001:db8:1::9"));
    let plain = Fib::new(host(), RuleEntry::defaults(), None);
    assert!(plain.is_local_to_all(ours) && plain.is_local_to_all(ours_v6));
    for other in ["192.0.2.10", "10.1.0.1", "224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0"]
    {
        assert!(!plain.is_local_to_all(ip(other)), "{other}");
    }
    for other in ["2001:db8:1::a", "fe80::1", "ff02::1", "::", "::1"] {
        assert!(!plain.is_local_to_all(ip(other)), "{other}");
    }
    let later = ruled(|rule| rule.from = Some(net("10.7.0.0/16")));
    assert!(later.is_local_to_all(ours), "a rule behind the local table's");
    // The local table's rule behind one with a condition, as with `ip rule add pref 32765`.
    let mut rules = RuleEntry::defaults();
    rules[0].priority = 200;
    let mut first = RuleEntry::table(Family::V4, 100, 50);
    first.from = Some(net("10.7.0.0/16"));
    rules.push(first);
    let mut routes = host();
    routes.push(via(50, "0.0.0.0/0", 50, None));
    let moved = Fib::new(routes, rules, None);
    assert_eq!(moved.lookup(ours, ip("10.8.0.1"), 0, 1), RouteResult::Local);
    assert_eq!(moved.lookup(ours, ip("10.7.0.1"), 0, 1), out(50, None));
    assert!(!moved.is_local_to_all(ours), "a rule before the local table's");
    assert!(moved.is_local_to_all(ours_v6), "of the other family");
}

#[test]
fn conditions_of_rules() {
    let asked = |fib: &Fib, dst: &str, src: &str, mark: u32, iif: u32| {
        fib.lookup(ip(dst), ip(src), mark, iif) == out(50, None)
    };
    let from = ruled(|r| r.from = Some(net("10.7.0.0/16")));
    assert!(asked(&from, "10.1.0.1", "10.7.255.1", 0, 1));
    assert!(!asked(&from, "10.1.0.1", "10.8.0.1", 0, 1));
    let to = ruled(|r| r.to = Some(net("10.1.0.0/24")));
    assert!(asked(&to, "10.1.0.1", "10.7.0.1", 0, 1));
    assert!(!asked(&to, "10.1.1.1", "10.7.0.1", 0, 1));
    let iif = ruled(|r| r.iif = Some(4));
    assert!(asked(&iif, "10.1.0.1", "10.7.0.1", 0, 4));
    assert!(!asked(&iif, "10.1.0.1", "10.7.0.1", 0, 1));
    let oif = ruled(|r| r.oif = Some(4));
    assert!(!asked(&oif, "10.1.0.1", "10.7.0.1", 0, 4));
    let mark = ruled(|r| (r.fwmark, r.fwmask) = (0x10, 0xf0));
    assert!(asked(&mark, "10.1.0.1", "10.7.0.1", 0x1a, 1));
    assert!(!asked(&mark, "10.1.0.1", "10.7.0.1", 0x2a, 1));
    let not = ruled(|r| (r.from, r.invert) = (Some(net("10.7.0.0/16")), true));
    assert!(!asked(&not, "10.1.0.1", "10.7.255.1", 0, 1));
    assert!(asked(&not, "10.1.0.1", "10.8.0.1", 0, 1));
    let both = ruled(|r| (r.from, r.iif) = (Some(net("10.7.0.0/16")), Some(4)));
    assert!(asked(&both, "10.1.0.1", "10.7.0.1", 0, 4));
    assert!(!asked(&both, "10.1.0.1", "10.7.0.1", 0, 5));
    assert!(!asked(&both, "10.1.0.1", "10.8.0.1", 0, 4));
}

#[test]
fn suppressed_prefixes_do_not_count() {
    // As wg-quick does it: main without its default route first, then everything elsewhere.
    let mut main = RuleEntry::table(Family::V4, 10, table::MAIN);
    main.suppress_prefix_len = Some(0);
    let rules =
        [RuleEntry::table(Family::V4, 0, table::LOCAL), main, RuleEntry::table(Family::V4, 11, 50)];
    let mut routes = host();
    routes.push(via(50, "0.0.0.0/0", 50, None));
    let fib = Fib::new(routes, rules, None);
    assert_eq!(look(&fib, "10.1.0.1"), out(3, None));
    assert_eq!(look(&fib, "10.9.0.1"), out(50, None));
}

#[test]
fn actions_of_rules() {
    for (action, want) in [
        (RuleAction::Blackhole, RouteResult::Blackhole),
        (RuleAction::Unreachable, RouteResult::Unreachable),
        (RuleAction::Prohibit, RouteResult::Prohibit),
        (RuleAction::Opaque, RouteResult::Linux),
        (RuleAction::Table(77), out(3, None)),
        (RuleAction::Goto(32_767), RouteResult::None),
        (RuleAction::Goto(32_766), out(3, None)),
        (RuleAction::Goto(0), out(3, None)),
        (RuleAction::Goto(5000), out(3, None)),
    ] {
        assert_eq!(look(&ruled(|r| r.action = action), "10.1.0.1"), want, "{action:?}");
    }
    // What only Linux can judge stays that when it is inverted.
    let fib = ruled(|r| (r.action, r.invert) = (RuleAction::Opaque, true));
    assert_eq!(look(&fib, "10.1.0.1"), RouteResult::Linux);
}

#[test]
fn flows_are_spread_by_weight_and_stay_where_they_are() {
    let mut route = via(table::MAIN, "10.0.0.0/8", 1, None);
    route.hops = vec![
        Hop { ifindex: 1, gateway: None, weight: 1 },
        Hop { ifindex: 2, gateway: None, weight: 3 },
        Hop { ifindex: 3, gateway: None, weight: 0 },
    ];
    let fib = Fib::new([route], RuleEntry::defaults(), None);
    let mut counts: HashMap<u32, u32> = HashMap::new();
    for flow in 0..5000u32 {
        let (dst, src) = (IpAddr::V4((0x0a00_0000 + flow).into()), ip("192.0.2.7"));
        let RouteResult::Unicast { ifindex, .. } = fib.lookup(dst, src, 0, 1) else {
            panic!("no route")
        };
        *counts.entry(ifindex).or_default() += 1;
        for mark in 0..3 {
            assert_eq!(fib.lookup(dst, src, mark, 1), fib.lookup(dst, src, 0, 1));
        }
    }
    // Shares of 1/5, 3/5 and 1/5 within a tenth.
    assert!((900..=1100).contains(&counts[&1]), "{counts:?}");
    assert!((2700..=3300).contains(&counts[&2]), "{counts:?}");
    assert!((900..=1100).contains(&counts[&3]), "{counts:?}");
}

/// The definition: rules in order, in each table the longest prefix, of several routes to it the
/// lowest priority and the first.
fn linear_search(
    routes: &[RouteEntry],
    rules: &[RuleEntry],
    dst: IpAddr,
    src: IpAddr,
    (mark, iif): (u32, u32),
) -> RouteResult {
    let mut ordered: Vec<&RuleEntry> = rules.iter().collect();
    ordered.sort_by_key(|r| r.priority);
    let mut at = 0;
    while let Some(rule) = ordered.get(at) {
        at += 1;
        if !rule.matches(dst, src, mark, iif) {
            continue;
        }
        let table = match rule.action {
            RuleAction::Table(table) => table,
            RuleAction::Goto(priority) => {
                let target = ordered.iter().position(|r| r.priority == priority);
                at = target.filter(|t| *t >= at).unwrap_or(at);
                continue;
            }
            RuleAction::Blackhole => return RouteResult::Blackhole,
            RuleAction::Unreachable => return RouteResult::Unreachable,
            RuleAction::Prohibit => return RouteResult::Prohibit,
            RuleAction::Opaque => return RouteResult::Linux,
        };
        let best = routes
            .iter()
            .enumerate()
            .filter(|(_, r)| r.table == table && r.dst.contains(dst) && r.is_usable())
            .min_by_key(|(i, r)| (32 - r.dst.len, r.priority, *i));
        let Some((_, route)) = best else { continue };
        if rule.suppress_prefix_len.is_some_and(|l| route.dst.len <= l) {
            continue;
        }
        return match route.kind {
            RouteKind::Throw => continue,
            RouteKind::Local => RouteResult::Local,
            _ => out(route.hops[0].ifindex, None),
        };
    }
    RouteResult::None
}

fn addr(low: u32) -> IpAddr {
    IpAddr::V4((0x0a00_0000 | low << 4).into())
}

fn some_route() -> impl Strategy<Value = RouteEntry> {
    let kind = prop::sample::select(vec![
        RouteKind::Unicast,
        RouteKind::Unicast,
        RouteKind::Throw,
        RouteKind::Local,
    ]);
    let len = prop_oneof![6 => 20u8..=32, 1 => Just(0u8), 1 => Just(8u8)];
    (0u32..4, 0u32..64, len, 0u32..3, kind, 0u32..9).prop_map(
        |(table, low, len, priority, kind, way)| {
            // The first address: changes speak of prefixes without host bits.
            let bits = (0x0a00_0000 | low << 4) & !u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let hops = if way == 0 { vec![] } else { vec![hop(way, None)] };
            let dst = Subnet { addr: IpAddr::V4(bits.into()), len };
            RouteEntry { priority, kind, hops, dst, ..via(table, "0.0.0.0/0", 1, None) }
        },
    )
}

fn some_rule() -> impl Strategy<Value = RuleEntry> {
    let action = prop_oneof![
        12 => (0u32..4).prop_map(RuleAction::Table),
        2 => (0u32..8).prop_map(RuleAction::Goto),
        1 => prop::sample::select(vec![
            RuleAction::Blackhole,
            RuleAction::Unreachable,
            RuleAction::Prohibit,
            RuleAction::Opaque,
        ]),
    ];
    let subnet = || {
        prop_oneof![3 => Just(None), 1 => (0u32..64, 26u8..30).prop_map(|(a, len)| {
        Some(Subnet { addr: addr(a), len })
    }), 1 => Just(Some(Subnet { addr: addr(0), len: 0 }))]
    };
    let of_interface = || prop_oneof![6 => Just(None), 1 => (0u32..3).prop_map(Some)];
    let suppress = prop_oneof![4 => Just(None), 1 => (0u8..30).prop_map(Some)];
    let mark = prop_oneof![4 => Just((0, 0)), 1 => (0u32..4, 0u32..4)];
    let invert = prop_oneof![5 => Just(false), 1 => Just(true)];
    (
        (0u32..8, action, subnet(), subnet()),
        (of_interface(), of_interface(), suppress, mark, invert),
    )
        .prop_map(|((priority, action, from, to), (iif, oif, suppress, mark, invert))| {
            RuleEntry {
                action,
                from,
                to,
                iif,
                oif,
                fwmark: mark.0,
                fwmask: mark.1,
                invert,
                suppress_prefix_len: suppress,
                ..RuleEntry::table(Family::V4, priority, 0)
            }
        })
}

fn agree(
    fib: &Fib,
    routes: &[RouteEntry],
    rules: &[RuleEntry],
    lookups: &[(u32, u32, (u32, u32))],
) -> Result<(), TestCaseError> {
    for (d, s, conditions) in lookups {
        let (dst, src) = (addr(*d), addr(*s));
        let want = linear_search(routes, rules, dst, src, *conditions);
        prop_assert_eq!(fib.lookup(dst, src, conditions.0, conditions.1), want);
        prop_assert!(!fib.is_local_to_all(dst) || want == RouteResult::Local);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// However the tables have come to be what they are, the answers are those of the definition.
    #[test]
    fn equals_a_linear_search(
        mut routes in prop::collection::vec(some_route(), 0..60),
        rules in prop::collection::vec(some_rule(), 0..8),
        other_rules in prop::collection::vec(some_rule(), 0..8),
        lookups in prop::collection::vec((0u32..64, 0u32..64, (0u32..4, 0u32..3)), 30),
        changes in prop::collection::vec((some_route(), any::<bool>()), 0..30),
        // So many routes elsewhere that changes are made one by one.
        crowd in prop::sample::select(vec![0u32, 0, 10_000]),
    ) {
        let crowd = (0..crowd).map(|n| {
            let dst = Subnet { addr: IpAddr::V4((0x2000_0000 + (n << 8)).into()), len: 24 };
            RouteEntry { dst, ..via(0, "0.0.0.0/0", 1 + n % 9, None) }
        });
        let mut all = Routes::new(routes.iter().cloned().chain(crowd), rules.clone(), None);
        let first = all.fib();
        agree(&first, &routes, &rules, &lookups)?;
        let before: Vec<RouteResult> =
            lookups.iter().map(|(d, s, c)| first.lookup(addr(*d), addr(*s), c.0, c.1)).collect();

        let mut rules = rules;
        for (number, (route, is_new)) in changes.into_iter().enumerate() {
            let is_same = |r: &RouteEntry| (r.table, r.dst) == (route.table, route.dst);
            if is_new {
                routes.push(route.clone());
            } else if let Some(at) = routes.iter().position(|r| r.table == route.table) {
                let gone = routes.remove(at);
                let left = routes.iter().filter(|r| (r.table, r.dst) == (gone.table, gone.dst));
                all.change([RouteChange {
                    table: gone.table,
                    dst: gone.dst,
                    routes: left.cloned().collect(),
                }]);
            }
            let now = routes.iter().filter(|r| is_same(r)).cloned().collect();
            all.change([RouteChange { table: route.table, dst: route.dst, routes: now }]);
            if number == 10 {
                rules = other_rules.clone();
                all.set_rules(rules.clone());
            }
            if number % 5 == 0 {
                agree(&all.fib(), &routes, &rules, &lookups)?;
            }
        }
        agree(&all.fib(), &routes, &rules, &lookups)?;
        let after: Vec<RouteResult> =
            lookups.iter().map(|(d, s, c)| first.lookup(addr(*d), addr(*s), c.0, c.1)).collect();
        prop_assert_eq!(before, after, "what workers hold does not change");
    }
}

#[test]
fn tables_of_full_feeds() {
    for (family, count) in [(Family::V4, 30_000), (Family::V6, 10_000)] {
        let routes = forward::sample::routes(family, count, 1);
        assert_eq!(routes.len(), count);
        let mut all = Routes::new(routes.iter().cloned(), RuleEntry::defaults(), None);
        assert_eq!(all.len(), count);
        let find = |fib: &Fib, dst| {
            let src = if family == Family::V4 { "198.51.100.7" } else { "2001:db8:7::7" };
            fib.lookup(dst, ip(src), 0, 1)
        };
        let dsts = forward::sample::destinations(&routes, 200, 2);
        let definition = |routes: &[RouteEntry], dst| {
            let best = routes.iter().filter(|r| r.dst.contains(dst)).max_by_key(|r| r.dst.len);
            best.map_or(RouteResult::None, |r| RouteResult::Unicast {
                ifindex: r.hops[0].ifindex,
                gateway: r.hops[0].gateway,
                mtu: None,
                src: None,
            })
        };
        let fib = all.fib();
        for dst in &dsts {
            assert_eq!(find(&fib, *dst), definition(&routes, *dst), "{dst}");
        }
        // Every other route goes, one by one.
        for route in routes.iter().step_by(2) {
            all.change([RouteChange { table: route.table, dst: route.dst, routes: vec![] }]);
        }
        let left: Vec<RouteEntry> = routes.iter().skip(1).step_by(2).cloned().collect();
        let fib = all.fib();
        assert_eq!(fib.len(), left.len());
        for dst in &dsts {
            assert_eq!(find(&fib, *dst), definition(&left, *dst), "{dst}");
        }
        let bytes = fib.memory_bytes();
        assert!(bytes < 100 * count, "{bytes} bytes for {count} routes");
    }
}

#[test]
fn the_reverse_path_filter_is_linuxs() {
    use SourceCheck::{Loose, Off, Strict};
    let mut routes = host();
    routes[0] = kind(table::MAIN, "203.0.113.0/24", RouteKind::Blackhole);
    routes.push(RouteEntry {
        hops: vec![hop(4, Some("192.0.2.4")), hop(5, Some("192.0.2.5"))],
        ..via(table::MAIN, "10.9.0.0/16", 4, None)
    });
    let fib = Fib::new(routes, RuleEntry::defaults(), None);
    let passes = |src: &str, iif, check| {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[3] = 20;
        packet[8] = 64;
        packet[9] = 253;
        let IpAddr::V4(src) = ip(src) else { panic!("IPv4") };
        packet[12..16].copy_from_slice(&src.octets());
        packet[16..20].copy_from_slice(&[10, 2, 0, 1]);
        wire::ipv4::fill_checksum(&mut packet);
        fib.is_way_back(&wire::parse_ip(&packet).unwrap(), 0, iif, check)
    };
    // (source, ingress interface, off, loose, strict)
    for (src, iif, off, loose, strict) in [
        ("10.1.0.7", 3, true, true, true),
        ("10.1.0.7", 2, true, true, false),
        // Over any hop of several, whichever the flow would take.
        ("10.9.0.7", 4, true, true, true),
        ("10.9.0.7", 5, true, true, true),
        ("10.9.0.7", 3, true, true, false),
        // No way back, a black hole, and an address of this host.
        ("198.51.100.7", 2, true, false, false),
        ("203.0.113.7", 2, true, false, false),
        ("192.0.2.9", 2, true, false, false),
    ] {
        for (check, wanted) in [(Off, off), (Loose, loose), (Strict, strict)] {
            assert_eq!(passes(src, iif, check), wanted, "{src} by {iif}, {check:?}");
        }
    }
}
