//! Changes that culvert makes itself.

use std::net::IpAddr;
use std::sync::mpsc;
use std::thread;

use crate::common::{enter_new_namespace, in_namespace, ip, until, until_equal};
use mirror::{
    Control, Error, Family, NeighbourState, NextHop, Observer, Prefix, Route, RouteKind, Rule,
    RuleAction, Snapshot, interface_setting, set_interface_setting, tunnel_source,
};

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    let (address, len) = text.split_once('/').unwrap();
    Prefix { addr: addr(address), len: len.parse().unwrap() }
}

fn rule(priority: u32) -> Rule {
    Rule {
        from: Some(prefix("10.0.0.0/8")),
        to: Some(prefix("10.9.0.0/16")),
        iif: Some("lo".into()),
        fwmark: 0x20,
        fwmask: 0xf0,
        invert: true,
        suppress_prefix_len: Some(3),
        ip_protocol: Some(17),
        sport: Some((500, 501)),
        dport: Some((4500, 4500)),
        protocol: 77,
        ..Rule::new(Family::V4, priority, 4242)
    }
}

#[test]
fn rules_come_back_as_they_went() {
    in_namespace(|| {
        let mut control = Control::new().unwrap();
        let mut observer = Observer::new().unwrap();
        let v6 = Rule {
            family: Family::V6,
            from: None,
            to: Some(prefix("2001:db8::/32")),
            fwmark: 0,
            fwmask: 0,
            action: RuleAction::Prohibit,
            table: 0,
            invert: false,
            suppress_prefix_len: None,
            ..rule(101)
        };
        for rule in [rule(100), v6, Rule { action: RuleAction::Goto(32766), table: 0, ..rule(102) }]
        {
            control.add_rule(&rule).unwrap();
            until(&mut observer, |s| s.rules(rule.family).any(|r| *r == rule));
            let again = control.add_rule(&rule).unwrap_err();
            assert_eq!(again.errno(), Some(libc::EEXIST), "{again}");
            control.delete_rule(&rule).unwrap();
            until(&mut observer, |s| !s.rules(rule.family).any(|r| *r == rule));
            let gone = control.delete_rule(&rule).unwrap_err();
            assert_eq!(gone.errno(), Some(libc::ENOENT), "{gone}");
        }
        until_equal(&mut observer);
    });
}

#[test]
fn links_and_routes() {
    in_namespace(|| {
        ip("link add ea type veth peer name eb");
        ip("addr add 10.1.0.1/24 dev ea");
        ip("-6 addr add 2001:db8:1::1/64 dev ea nodad");
        let mut control = Control::new().unwrap();
        let mut observer = Observer::new().unwrap();
        let a = observer.snapshot().link_by_name("ea").unwrap().index;
        let b = observer.snapshot().link_by_name("eb").unwrap().index;
        let down = control.replace_route(&Route::new(prefix("10.9.0.0/16"), NextHop::new(a, None)));
        assert_eq!(down.unwrap_err().errno(), Some(libc::ENETDOWN));

        control.set_link_up(a, true).unwrap();
        control.set_link_up(b, true).unwrap();
        control.set_link_mtu(a, 1300).unwrap();
        until(&mut observer, |s| s.link(a).is_some_and(|l| l.running && l.mtu == 1300));

        let via = |ifindex, gateway| NextHop::new(ifindex, Some(addr(gateway)));
        let several = Route {
            next_hops: vec![NextHop { weight: 5, ..via(a, "10.1.0.2") }, via(a, "2001:db8:1::3")],
            ..Route::new(prefix("10.11.0.0/16"), via(a, "10.1.0.2"))
        };
        let blackhole = Route {
            kind: RouteKind::Blackhole,
            next_hops: vec![],
            ..Route::new(prefix("10.12.0.0/16"), via(a, "10.1.0.2"))
        };
        let full = Route {
            table: 70_000,
            metric: 9,
            prefsrc: Some(addr("10.1.0.1")),
            mtu: Some(1200),
            ..Route::new(prefix("10.10.0.0/16"), NextHop::new(a, None))
        };
        let v6 = Route {
            metric: 77,
            table: 220,
            mtu: Some(1290),
            ..Route::new(prefix("2001:db8:9::/48"), via(a, "2001:db8:1::2"))
        };
        for wanted in [full, several, blackhole, v6] {
            control.replace_route(&wanted).unwrap();
            until(&mut observer, |s| s.routes().any(|r| *r == wanted));
            let other = Route { mtu: Some(1111), ..wanted.clone() };
            control.replace_route(&other).unwrap();
            until(&mut observer, |s| s.routes().any(|r| *r == other));
            assert!(!observer.snapshot().routes().any(|r| *r == wanted));
            control.delete_route(&other).unwrap();
            until(&mut observer, |s| !s.routes().any(|r| r.key() == wanted.key()));
            let gone = control.delete_route(&other).unwrap_err();
            assert_eq!(gone.errno(), Some(libc::ESRCH), "{gone}");
        }
        control.set_link_up(a, false).unwrap();
        until(&mut observer, |s| s.link(a).is_some_and(|l| !l.up));
        until_equal(&mut observer);
    });
}

#[test]
fn refusals_say_what_and_why() {
    in_namespace(|| {
        let mut control = Control::new().unwrap();
        let missing = control.set_link_mtu(4711, 1500).unwrap_err();
        assert!(matches!(missing, Error::Refused { .. }));
        assert!(missing.to_string().contains("set a link's MTU"), "{missing}");
        assert_eq!(missing.errno(), Some(libc::ENODEV));
        // Linux adds words of its own to some.
        let wrong = Route::new(prefix("10.9.0.1/16"), NextHop::new(1, None));
        let wrong = control.replace_route(&wrong).unwrap_err();
        assert!(
            matches!(&wrong, Error::Refused { explanation: Some(text), .. } if !text.is_empty())
        );
        assert_eq!(wrong.errno(), Some(libc::EINVAL));
    });
}

#[test]
fn settings_are_read_and_written_and_nothing_else_is_reached() {
    in_namespace(|| {
        ip("link add a.b type veth peer name c");
        for (family, name) in [
            (Family::V4, "disable_xfrm"),
            (Family::V4, "disable_policy"),
            (Family::V4, "rp_filter"),
            (Family::V6, "accept_ra"),
            (Family::V6, "disable_policy"),
        ] {
            for value in [1, 0] {
                set_interface_setting(family, "a.b", name, value).unwrap();
                assert_eq!(interface_setting(family, "a.b", name).unwrap(), value, "{name}");
            }
        }
        let missing = set_interface_setting(Family::V4, "nobody", "rp_filter", 1).unwrap_err();
        assert_eq!(missing.errno(), Some(libc::ENOENT));
        assert!(missing.to_string().contains("nobody"));
        for (interface, name) in
            [("..", "rp_filter"), ("a/../all", "rp_filter"), ("a.b", "../c/rp_filter"), ("", "x")]
        {
            assert!(set_interface_setting(Family::V4, interface, name, 1).is_err());
            assert!(interface_setting(Family::V4, interface, name).is_err());
        }
    });
}

#[test]
fn neighbours_by_hand() {
    in_namespace(|| {
        ip("link add ea type veth peer name eb");
        ip("link set ea up");
        let mut control = Control::new().unwrap();
        let mut observer = Observer::new().unwrap();
        let a = observer.snapshot().link_by_name("ea").unwrap().index;
        for ip in [addr("10.1.0.2"), addr("2001:db8::2")] {
            for last in [1, 2] {
                let mac = [2, 0, 0, 0, 0, last];
                control.replace_neighbour(a, ip, mac).unwrap();
                let changes = until(&mut observer, |s| {
                    s.neighbour(a, ip).is_some_and(|n| n.mac == Some(mac))
                });
                assert!(!changes.is_empty());
            }
            let entry = observer.snapshot().neighbour(a, ip).unwrap();
            assert_eq!(entry.state, NeighbourState::Permanent);
            control.delete_neighbour(a, ip).unwrap();
            until(&mut observer, |s| s.neighbour(a, ip).is_none_or(|n| !n.state.is_usable()));
        }
    });
}

#[test]
fn linux_resolves_a_neighbour_on_request() {
    in_namespace(|| {
        // The neighbour lives in the namespace of another thread.
        let (tell_id, id) = mpsc::channel();
        let (linked, wait_for_link) = mpsc::channel::<()>();
        let (tell_ready, ready) = mpsc::channel();
        let (finish, finished) = mpsc::channel::<()>();
        thread::scope(move |scope| {
            scope.spawn(move || {
                assert!(enter_new_namespace());
                let me = std::fs::read_link("/proc/thread-self").unwrap();
                tell_id.send(me.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
                wait_for_link.recv().unwrap();
                ip("addr add 10.1.0.2/24 dev eb");
                ip("addr add 2001:db8::2/64 dev eb nodad");
                ip("link set eb address 02:00:00:00:00:0b up");
                tell_ready.send(()).unwrap();
                let _ = finished.recv();
            });
            ip("link add ea type veth peer name eb");
            ip("addr add 10.1.0.1/24 dev ea");
            ip("addr add 2001:db8::1/64 dev ea nodad");
            ip("link set ea up");
            ip(&format!("link set eb netns {}", id.recv().unwrap()));
            linked.send(()).unwrap();
            ready.recv().unwrap();

            // Dropped at the end of this closure, also by a panic: ends the other thread.
            let _finish = finish;
            let mut control = Control::new().unwrap();
            let mut observer = Observer::new().unwrap();
            let a = observer.snapshot().link_by_name("ea").unwrap().index;
            until(&mut observer, |s| s.link(a).unwrap().running);
            for ip in [addr("10.1.0.2"), addr("2001:db8::2")] {
                control.resolve(a, ip).unwrap();
                until(&mut observer, |s| {
                    s.neighbour(a, ip).is_some_and(|n| {
                        n.state == NeighbourState::Reachable && n.mac == Some([2, 0, 0, 0, 0, 0x0b])
                    })
                });
            }
            // Once known, asking again does no harm, and one that is not stale stays as it is.
            control.resolve(a, addr("10.1.0.2")).unwrap();
            assert!(observer.used(a, addr("10.1.0.2")).is_none());

            // Linux does not tell that a stale one is about to be confirmed.
            let known = addr("10.1.0.2");
            let state = |s: &Snapshot| s.neighbour(a, known).map(|n| n.state);
            ip("neigh change 10.1.0.2 dev ea nud stale");
            until(&mut observer, |s| state(s) == Some(NeighbourState::Stale));
            control.resolve(a, known).unwrap();
            assert!(observer.used(a, known).is_some());
            assert_eq!(state(observer.snapshot()), Some(NeighbourState::Delay));

            // Nobody answers for this one.
            let retrans = "/proc/sys/net/ipv4/neigh/ea/retrans_time_ms";
            std::fs::write(retrans, "20").unwrap();
            let nobody = addr("10.1.0.99");
            control.resolve(a, nobody).unwrap();
            until(&mut observer, |s| {
                s.neighbour(a, nobody).is_some_and(|n| n.state == NeighbourState::Failed)
            });
        });
    });
}

#[test]
fn the_source_of_outer_headers_is_what_ip_sr_says() {
    in_namespace(|| {
        assert_eq!(tunnel_source().unwrap(), None);
        ip("sr tunsrc set fc00::ff");
        assert_eq!(tunnel_source().unwrap(), Some("fc00::ff".parse().unwrap()));
    });
}

#[test]
fn what_no_driver_tells_is_an_error() {
    mirror::xdp_metadata(0).expect_err("no interface has the index 0");
}
