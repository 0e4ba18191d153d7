//! The model follows what `ip` does.

use std::net::IpAddr;

use crate::common::{bridge, in_namespace, ip, until, until_equal};
use mirror::{
    Change, Family, NeighbourState, NextHop, Observer, OverlayDf, Prefix, Route, RouteKind,
    RuleAction, Snapshot,
};

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (address, len) = text.split_once('/').unwrap();
    Prefix { addr: addr(address), len: len.parse().unwrap() }
}

fn index(snapshot: &Snapshot, name: &str) -> u32 {
    snapshot.link_by_name(name).unwrap().index
}

fn route<'s>(snapshot: &'s Snapshot, table: u32, dst: &str) -> Option<&'s Route> {
    let dst = prefix(dst);
    snapshot.routes_of(table).find(|route| route.dst == dst)
}

/// A pair of links `ea` and `eb`, up, with addresses.
fn pair() -> Observer {
    ip("link set lo up");
    ip("link add ea type veth peer name eb");
    ip("link set ea up");
    ip("link set eb up");
    ip("addr add 10.1.0.1/24 dev ea");
    ip("addr add 10.2.0.1/24 dev eb");
    ip("addr add 2001:db8:1::1/64 dev ea nodad");
    ip("addr add 2001:db8:2::1/64 dev eb nodad");
    let mut observer = Observer::new().unwrap();
    until(&mut observer, |s| route(s, 254, "2001:db8:2::/64").is_some());
    observer
}

#[test]
fn links() {
    in_namespace(|| {
        let mut observer = Observer::new().unwrap();
        let lo = observer.snapshot().link_by_name("lo").unwrap();
        assert!(lo.loopback && !lo.up);
        assert_eq!((lo.index, lo.mac, &lo.kind), (1, None, &None));

        ip("link add ea address 02:00:00:00:00:0a type veth peer name eb");
        let changes = until(&mut observer, |s| s.link_by_name("ea").is_some());
        assert!(changes.iter().any(|c| matches!(c, Change::Link(link) if link.name == "ea")));
        let a = observer.snapshot().link_by_name("ea").unwrap().clone();
        assert_eq!(a.mac, Some([2, 0, 0, 0, 0, 10]));
        assert_eq!(a.kind.as_deref(), Some("veth"));
        assert_eq!((a.mtu, a.up, a.running, a.master), (1500, false, false, None));

        ip("link set ea up");
        // No carrier yet, which Linux notices in its own time.
        until(&mut observer, |s| s.link(a.index).is_some_and(|l| l.up && !l.running));
        ip("link set eb up");
        until(&mut observer, |s| s.link(a.index).unwrap().running);
        ip("link set ea mtu 1400");
        until(&mut observer, |s| s.link(a.index).unwrap().mtu == 1400);
        ip("link set ea down");
        ip("link set ea name other");
        until(&mut observer, |s| s.link_by_name("other").is_some_and(|l| l.index == a.index));

        ip("link del eb");
        let changes = until(&mut observer, |s| s.links().count() == 1);
        assert!(changes.iter().any(|c| matches!(c, Change::LinkRemoved(l) if l.index == a.index)));
        until_equal(&mut observer);
    });
}

#[test]
fn a_member_that_leaves_its_bridge_stays_a_link() {
    in_namespace(|| {
        let mut observer = Observer::new().unwrap();
        ip("link add ea type veth peer name eb");
        let Ok(output) =
            std::process::Command::new("ip").args(["link", "add", "br", "type", "bridge"]).output()
        else {
            return;
        };
        if !output.status.success() {
            eprintln!("skipped: this kernel has no bridges");
            return;
        }
        ip("link set ea master br");
        until(&mut observer, |s| {
            let bridge = s.link_by_name("br").map(|l| l.index);
            bridge.is_some() && s.link_by_name("ea").is_some_and(|l| l.master == bridge)
        });
        ip("link set ea nomaster");
        until(&mut observer, |s| s.link_by_name("ea").is_some_and(|l| l.master.is_none()));
        until_equal(&mut observer);
        assert!(observer.snapshot().link_by_name("ea").is_some());
    });
}

#[test]
fn addresses() {
    in_namespace(|| {
        let mut observer = pair();
        let a = index(observer.snapshot(), "ea");
        let mine: Vec<_> = observer.snapshot().addresses_of(a).map(|x| x.addr).collect();
        assert!(mine.contains(&addr("10.1.0.1")) && mine.contains(&addr("2001:db8:1::1")));
        let v4 = observer.snapshot().addresses_of(a).find(|x| x.addr.is_ipv4()).unwrap();
        assert_eq!((v4.prefix_len, v4.scope, v4.tentative), (24, 0, false));

        // On a point-to-point address the own one counts, not the peer's.
        ip("addr add 10.9.0.1 peer 10.9.0.2/32 dev ea");
        until(&mut observer, |s| s.addresses_of(a).any(|x| x.addr == addr("10.9.0.1")));
        assert!(!observer.snapshot().addresses().any(|x| x.addr == addr("10.9.0.2")));

        ip("addr del 10.1.0.1/24 dev ea");
        let changes = until(&mut observer, |s| !s.addresses().any(|x| x.addr == addr("10.1.0.1")));
        assert!(changes.iter().any(|c| matches!(c, Change::AddressRemoved(_))));
        assert_eq!(route(observer.snapshot(), 254, "10.1.0.0/24"), None, "goes with its address");
        until_equal(&mut observer);
    });
}

#[test]
fn rules() {
    in_namespace(|| {
        let mut observer = Observer::new().unwrap();
        let built_in: Vec<_> =
            observer.snapshot().rules(Family::V4).map(|r| (r.priority, r.table)).collect();
        assert_eq!(built_in, [(0, 255), (32766, 254), (32767, 253)]);

        ip(
            "rule add pref 100 from 10.0.0.0/8 to 10.1.0.0/16 iif ea oif eb fwmark 0x10/0xf0 table 220",
        );
        ip("rule add pref 101 not fwmark 7 table 100000");
        ip("rule add pref 102 table main suppress_prefixlength 0");
        ip("rule add pref 103 goto 32766");
        ip("rule add pref 104 to 10.2.0.0/16 prohibit");
        ip("rule add pref 105 sport 80 table main");
        ip("rule add pref 106 tos 0x10 table main");
        ip("-6 rule add pref 107 from 2001:db8::/32 blackhole");
        until(&mut observer, |s| s.rules(Family::V6).any(|r| r.priority == 107));

        let rules: Vec<_> = observer.snapshot().rules(Family::V4).cloned().collect();
        let by = |priority| rules.iter().find(|r| r.priority == priority).unwrap();
        let full = by(100);
        assert_eq!(full.from, Some(prefix("10.0.0.0/8")));
        assert_eq!(full.to, Some(prefix("10.1.0.0/16")));
        assert_eq!((full.iif.as_deref(), full.oif.as_deref()), (Some("ea"), Some("eb")));
        assert_eq!((full.fwmark, full.fwmask, full.table), (0x10, 0xf0, 220));
        assert_eq!((full.action, full.invert, full.has_more), (RuleAction::Lookup, false, false));
        assert!(by(101).invert);
        assert_eq!((by(101).fwmark, by(101).fwmask, by(101).table), (7, u32::MAX, 100_000));
        assert_eq!(by(102).suppress_prefix_len, Some(0));
        assert_eq!(by(0).suppress_prefix_len, None);
        assert_eq!(by(103).action, RuleAction::Goto(32766));
        assert_eq!(by(104).action, RuleAction::Prohibit);
        assert_eq!((by(105).sport, by(105).has_more), (Some((80, 80)), false));
        assert!(by(106).has_more && !by(104).has_more);
        let v6 = observer.snapshot().rules(Family::V6).find(|r| r.priority == 107).unwrap();
        assert_eq!((v6.action, v6.from), (RuleAction::Blackhole, Some(prefix("2001:db8::/32"))));
        let priorities: Vec<_> = rules.iter().map(|r| r.priority).collect();
        assert!(priorities.is_sorted());

        ip("rule add pref 104 from 10.3.0.0/16 table 5");
        until(&mut observer, |s| s.rules(Family::V4).any(|r| r.table == 5));
        until_equal(&mut observer);
        ip("rule del pref 104 to 10.2.0.0/16");
        let changes = until(&mut observer, |s| {
            !s.rules(Family::V4).any(|r| r.action == RuleAction::Prohibit)
        });
        assert!(matches!(changes.as_slice(), [Change::RuleRemoved(r)] if r.priority == 104));
        until_equal(&mut observer);
    });
}

#[test]
fn routes_with_segments() {
    use mirror::{Encap, Seg6, Seg6Local, Seg6Mode, SidAction};
    in_namespace(|| {
        let mut observer = pair();
        let b = index(observer.snapshot(), "eb");
        for route in [
            "10.60.0.0/16 encap seg6 mode encap.red segs fc00::1,fc00::2 dev ea",
            "2001:db8:60::/48 encap seg6 mode inline segs fc00::1,fc00::2 dev ea",
            "fc00:1::1/128 encap seg6local action End.X nh6 2001:db8:1::2 dev ea",
            "fc00:1::2/128 encap seg6local action End.DX2 oif eb dev ea",
            "fc00:1::3/128 encap seg6local action End.DT6 table 100 dev ea",
            "fc00:1::4/128 encap seg6local action End.B6.Encaps srh segs fc00::1,fc00::2 dev ea",
            "fc00:2::/48 encap seg6local action End flavors next-csid,psp lblen 40 nflen 24 dev ea",
        ] {
            ip(&format!(
                "{} route add {route}",
                if route.starts_with("10.") { "-4" } else { "-6" }
            ));
        }
        until(&mut observer, |s| route(s, 254, "fc00:2::/48").is_some());
        let encap = |dst| {
            let route = route(observer.snapshot(), 254, dst).unwrap_or_else(|| panic!("{dst}"));
            assert!(route.has_encap);
            route.next_hops[0].encap.as_deref().cloned().unwrap_or_else(|| panic!("{dst}"))
        };
        let v6 = |text: &str| text.parse().unwrap();
        let segments = vec![v6("fc00::1"), v6("fc00::2")];
        let seg6 = |mode| Encap::Seg6(Seg6 { mode, segments: segments.clone() });
        assert_eq!(encap("10.60.0.0/16"), seg6(Seg6Mode::EncapRed));
        assert_eq!(encap("2001:db8:60::/48"), seg6(Seg6Mode::Inline));
        let local = Seg6Local::new;
        let x = Seg6Local { nh6: Some(v6("2001:db8:1::2")), ..local(SidAction::EndX) };
        assert_eq!(encap("fc00:1::1/128"), Encap::Seg6Local(x));
        let dx2 = Seg6Local { oif: Some(b), ..local(SidAction::EndDx2) };
        assert_eq!(encap("fc00:1::2/128"), Encap::Seg6Local(dx2));
        let dt6 = Seg6Local { table: Some(100), ..local(SidAction::EndDt6) };
        assert_eq!(encap("fc00:1::3/128"), Encap::Seg6Local(dt6));
        let b6 = Seg6Local { segments: segments.clone(), ..local(SidAction::EndB6Encaps) };
        assert_eq!(encap("fc00:1::4/128"), Encap::Seg6Local(b6));
        let end = Seg6Local {
            flavours: [true, false, false],
            next_csid: Some((40, 24)),
            ..local(SidAction::End)
        };
        assert_eq!(encap("fc00:2::/48"), Encap::Seg6Local(end));
    });
}

#[test]
fn routes_of_every_kind() {
    in_namespace(|| {
        let mut observer = pair();
        let (a, b) = (index(observer.snapshot(), "ea"), index(observer.snapshot(), "eb"));
        let connected = route(observer.snapshot(), 254, "10.1.0.0/24").unwrap();
        assert_eq!(connected.next_hops, [NextHop::new(a, None)]);
        assert_eq!((connected.prefsrc, connected.protocol), (Some(addr("10.1.0.1")), 2));
        let local = route(observer.snapshot(), 255, "10.1.0.1/32").unwrap();
        assert_eq!(local.kind, RouteKind::Local);

        ip("route add default via 10.1.0.2");
        ip("route add 10.20.0.0/16 via 10.1.0.2 table 220 src 10.2.0.1 mtu 1400 metric 7");
        ip("route add 10.30.0.0/16 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2");
        ip("route add blackhole 10.40.0.0/16");
        ip("route add unreachable 10.41.0.0/16 table 1000");
        ip("route add prohibit 10.42.0.0/16");
        ip("route add throw 10.43.0.0/16 table 220");
        ip("route add 10.50.0.0/16 via inet6 2001:db8:1::2 dev ea");
        ip("-6 route add 2001:db8:20::/48 via 2001:db8:1::2 metric 5");
        ip("-6 route add blackhole 2001:db8:40::/48");
        until(&mut observer, |s| route(s, 254, "2001:db8:40::/48").is_some());

        let s = observer.snapshot();
        let get = |table, dst| route(s, table, dst).unwrap_or_else(|| panic!("{dst}"));
        let default = get(254, "0.0.0.0/0");
        assert_eq!(default.next_hops, [NextHop::new(a, Some(addr("10.1.0.2")))]);
        let full = get(220, "10.20.0.0/16");
        assert_eq!((full.prefsrc, full.mtu, full.metric), (Some(addr("10.2.0.1")), Some(1400), 7));
        let several = &get(254, "10.30.0.0/16").next_hops;
        let weighed = NextHop { weight: 3, ..NextHop::new(a, Some(addr("10.1.0.2"))) };
        assert_eq!(*several, [weighed, NextHop::new(b, Some(addr("10.2.0.2")))]);
        assert_eq!(get(254, "10.40.0.0/16").kind, RouteKind::Blackhole);
        assert!(get(254, "10.40.0.0/16").next_hops.is_empty());
        assert_eq!(get(1000, "10.41.0.0/16").kind, RouteKind::Unreachable);
        assert_eq!(get(254, "10.42.0.0/16").kind, RouteKind::Prohibit);
        assert_eq!(get(220, "10.43.0.0/16").kind, RouteKind::Throw);
        let via6 = NextHop::new(a, Some(addr("2001:db8:1::2")));
        assert_eq!(get(254, "10.50.0.0/16").next_hops, std::slice::from_ref(&via6));
        assert_eq!(get(254, "2001:db8:20::/48").next_hops, [via6]);
        assert_eq!(get(254, "2001:db8:20::/48").metric, 5);
        assert_eq!(get(254, "2001:db8:40::/48").kind, RouteKind::Blackhole);

        ip("route replace default via 10.2.0.2");
        until(&mut observer, |s| {
            route(s, 254, "0.0.0.0/0").is_some_and(|r| r.next_hops[0].ifindex == b)
        });
        ip("route del 10.40.0.0/16");
        until(&mut observer, |s| route(s, 254, "10.40.0.0/16").is_none());
        until_equal(&mut observer);
    });
}

#[test]
fn routes_that_go_without_a_word() {
    in_namespace(|| {
        let mut observer = pair();
        ip("route add 10.20.0.0/16 via 10.1.0.2");
        ip("route add 10.30.0.0/16 nexthop via 10.1.0.2 nexthop via 10.2.0.2");
        until(&mut observer, |s| route(s, 254, "10.30.0.0/16").is_some());
        ip("link set ea down");
        let changes = until(&mut observer, |s| route(s, 254, "10.20.0.0/16").is_none());
        assert!(
            changes
                .iter()
                .any(|c| matches!(c, Change::RouteRemoved(r) if r.dst == prefix("10.20.0.0/16")))
        );
        let several = route(observer.snapshot(), 254, "10.30.0.0/16").unwrap();
        assert!(several.next_hops[0].dead, "the first next hop's link is down");
        until_equal(&mut observer);
        ip("link del ea");
        until(&mut observer, |s| s.links().count() == 1);
        until_equal(&mut observer);
        assert!(!observer.snapshot().routes().any(|r| r.dst == prefix("10.30.0.0/16")));
    });
}

#[test]
fn several_routes_of_one_key() {
    in_namespace(|| {
        let mut observer = pair();
        for step in [
            "route add 10.20.0.0/16 via 10.1.0.2",
            "route append 10.20.0.0/16 via 10.2.0.2",
            "route prepend 10.20.0.0/16 via 10.1.0.3",
            "route del 10.20.0.0/16 via 10.1.0.2",
            "-6 route add 2001:db8:20::/48 via 2001:db8:1::2",
            "-6 route append 2001:db8:20::/48 via 2001:db8:2::2",
            "-6 route append 2001:db8:20::/48 via 2001:db8:2::3",
            "-6 route del 2001:db8:20::/48 via 2001:db8:1::2",
            "-6 route replace 2001:db8:20::/48 via 2001:db8:1::2",
            "-6 route add 2001:db8:30::/48 nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2",
            "-6 route del 2001:db8:30::/48",
            "route replace 10.20.0.0/16 via 10.2.0.3",
            "route flush 10.20.0.0/16",
        ] {
            ip(step);
            until_equal(&mut observer);
        }
        assert!(route(observer.snapshot(), 254, "10.20.0.0/16").is_none());
        let v6 = route(observer.snapshot(), 254, "2001:db8:20::/48").unwrap();
        assert_eq!(v6.next_hops[0].gateway, Some(addr("2001:db8:1::2")));
    });
}

#[test]
fn overlays_and_their_forwarding_entries() {
    in_namespace(|| {
        let mut observer = pair();
        ip(
            "link add vx type vxlan id 42 local 10.1.0.1 remote 10.1.0.9 dstport 4789 dev ea ttl 9 tos inherit df set",
        );
        let changes = until(&mut observer, |s| s.link_by_name("vx").is_some());
        assert!(changes.iter().any(|c| matches!(c, Change::Link(link) if link.name == "vx")));
        let vx = observer.snapshot().link_by_name("vx").unwrap().clone();
        let found = vx.overlay.expect("an overlay");
        let ends = (Some(addr("10.1.0.1")), Some(addr("10.1.0.9")));
        assert_eq!((found.local, found.remote), ends);
        assert_eq!((found.vni, found.port, found.ports), (42, 4789, None));
        assert_eq!((found.ttl, found.class, found.df), (Some(9), None, OverlayDf::Set));
        assert_eq!((found.learns, found.more), (true, None));
        let (index, ea) = (vx.index, index(observer.snapshot(), "ea"));
        // The one for all that have no entry is there with the interface.
        let of = |s: &Snapshot| s.forwarding_of(index).copied().collect::<Vec<_>>();
        until(&mut observer, |s| s.forwarding_of(index).next().is_some());
        let all = of(observer.snapshot());
        assert_eq!((all[0].mac, all[0].far_end, all[0].via), ([0; 6], addr("10.1.0.9"), Some(ea)));
        bridge("fdb add 02:00:00:00:00:07 dev vx dst 10.1.0.7");
        bridge("fdb add 02:00:00:00:00:08 dev vx dst 10.1.0.8 vni 43");
        ip("neigh add 10.9.0.7 lladdr 02:00:00:00:00:07 dev vx");
        until(&mut observer, |s| of(s).len() == 3 && s.neighbours_on(index).count() == 1);
        let all = of(observer.snapshot());
        assert_eq!((all[1].mac[5], all[1].far_end, all[1].has_more), (7, addr("10.1.0.7"), false));
        assert!(all[2].has_more);
        assert_eq!(of(Observer::new().unwrap().snapshot()), all, "as a dump has it");
        bridge("fdb del 02:00:00:00:00:07 dev vx dst 10.1.0.7");
        until(&mut observer, |s| of(s).len() == 2);
        ip("link del vx");
        until(&mut observer, |s| of(s).is_empty() && s.neighbours_on(index).count() == 0);
    });
}

#[test]
fn neighbours() {
    in_namespace(|| {
        let mut observer = pair();
        let a = index(observer.snapshot(), "ea");
        ip("neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev ea");
        ip("-6 neigh add 2001:db8:1::2 lladdr 02:00:00:00:00:06 router dev ea");
        ip("neigh add proxy 10.1.0.77 dev ea");
        until(&mut observer, |s| s.neighbour(a, addr("2001:db8:1::2")).is_some());
        let v4 = *observer.snapshot().neighbour(a, addr("10.1.0.2")).unwrap();
        assert_eq!((v4.mac, v4.state), (Some([2, 0, 0, 0, 0, 2]), NeighbourState::Permanent));
        assert!(v4.state.is_usable() && !v4.router);
        assert!(observer.snapshot().neighbour(a, addr("2001:db8:1::2")).unwrap().router);
        ip("neigh replace 10.1.0.2 lladdr 02:00:00:00:00:03 dev ea nud stale");
        until(&mut observer, |s| {
            s.neighbour(a, addr("10.1.0.2")).is_some_and(|n| n.state == NeighbourState::Stale)
        });
        ip("neigh del 10.1.0.2 dev ea");
        until(&mut observer, |s| {
            s.neighbour(a, addr("10.1.0.2")).is_none_or(|n| !n.state.is_usable())
        });
        // What this host answers for is no neighbour.
        assert!(observer.snapshot().neighbour(a, addr("10.1.0.77")).is_none());
        assert!(Observer::new().unwrap().snapshot().neighbour(a, addr("10.1.0.77")).is_none());
    });
}
