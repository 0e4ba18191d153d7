//! Cases in the kernel of a network namespace: barriers put up, left and taken away.

use super::*;
use crate::testing::{in_namespace, run};
use policy::{Action, Mark, PolicyFlags, Template};

fn prefix(text: &str) -> Prefix {
    let (addr, len) = text.split_once('/').unwrap();
    Prefix { addr: addr.parse().unwrap(), len: len.parse().unwrap() }
}

pub(crate) fn protecting(src: &str, dst: &str, direction: Direction) -> PolicyConfig {
    let end: std::net::IpAddr = "192.0.2.1".parse().unwrap();
    let (src, dst) = (prefix(src), prefix(dst));
    PolicyConfig {
        index: 1,
        direction,
        selector: Selector::between(src, dst),
        priority: 1000,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: vec![Template {
            src: end,
            dst: end,
            spi: 0,
            protocol: 50,
            mode: esp::Mode::Tunnel,
            reqid: 1,
            optional: false,
        }],
        mark: Mark::default(),
        if_id: 0,
    }
}

/// A namespace with a way out and the private interface's stand-in, which is exempt.
pub(crate) fn two_ways_out() {
    for command in [
        "ip link set lo up",
        "ip link add out0 arp off type veth peer name out1",
        "ip link set out0 up",
        "ip link set out1 up",
        "ip addr add 10.1.0.1/16 dev out0",
        "ip -6 addr add fd01::1/64 dev out0 nodad",
        "ip route add default dev out0",
        "ip -6 route add default dev out0",
        "ip link add culvert0 arp off type veth peer name culvert1",
        "sysctl -qw net.ipv4.conf.culvert0.disable_xfrm=1",
        "ip link set culvert0 up",
        "ip link set culvert1 up",
        "ip route add 10.2.1.0/24 dev culvert0",
        "ip -6 route add fd02:0:0:1::/64 dev culvert0",
    ] {
        let (ok, text) = run(command);
        assert!(ok, "{command}: {text}");
    }
    // Linux sends nothing on a link before it has handled the carrier's coming, which it does
    // in its own time.
    let deadline = Instant::now() + Duration::from_secs(60);
    for interface in ["out0", "culvert0"] {
        while !run(&format!("ip link show {interface}")).1.contains("state UP") {
            assert!(Instant::now() < deadline, "{interface} has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn sent(interface: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find(|l| l.trim_start().starts_with(interface)).unwrap();
    line.split(':').nth(1).unwrap().split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// True if a UDP packet to an address leaves by the interface.
pub(crate) fn leaves(to: &str, interface: &str) -> bool {
    let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = std::net::UdpSocket::bind(any).unwrap();
    let before = sent(interface);
    let to: std::net::IpAddr = to.parse().unwrap();
    let result = socket.send_to(b"in the clear", (to, 9));
    let after = sent(interface);
    // Router and neighbour solicitations of the interface may come between: a refused packet
    // is told by the error as well.
    result.is_ok() && after > before
}

#[test]
fn what_is_left_to_linux_has_no_barrier() {
    for direction in [Direction::Out, Direction::In, Direction::Forward] {
        let taken = protecting("10.1.0.0/16", "10.2.0.0/16", direction);
        let left = PolicyConfig { action: Action::Leave, ..taken.clone() };
        assert!(Barrier::of_policy(&taken).is_some());
        assert_eq!(Barrier::of_policy(&left), None);
    }
}

#[test]
fn protected_prefixes_stay_in_and_the_private_interface_is_spared() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        assert!(leaves("10.2.0.1", "out0"));
        assert!(leaves("fd02::1", "out0"));
        let policies = [
            protecting("10.1.0.0/16", "10.2.0.0/16", Direction::Out),
            protecting("fd01::/32", "fd02::/32", Direction::Out),
            protecting("10.2.0.0/16", "10.1.0.0/16", Direction::Forward),
        ];
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        assert!(!leaves("10.2.0.1", "out0"), "IPv4 leaked");
        assert!(!leaves("fd02::1", "out0"), "IPv6 leaked");
        assert!(leaves("10.2.1.1", "culvert0"), "the private interface was blocked");
        assert!(leaves("fd02:0:0:1::1", "culvert0"), "the private interface was blocked");
        assert!(leaves("10.9.0.1", "out0"), "what no policy names was blocked");
        guard.spare(["out0".into()]);
        guard.set(&policies, &[], Instant::now()).unwrap();
        assert!(leaves("fd02::1", "out0"), "a tunnel interface was blocked");
        guard.spare([]);
        guard.set(&policies, &[], Instant::now()).unwrap();
        drop(guard);
        assert!(!leaves("10.2.0.1", "out0"), "the guard died with its owner");
        assert!(!leaves("fd02::1", "out0"), "the guard died with its owner");

        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        assert!(guard.standing().len() >= 3);
        guard.clear(Instant::now()).unwrap();
        assert!(leaves("10.2.0.1", "out0"));
        assert!(leaves("fd02::1", "out0"));
        assert_eq!(run("ip xfrm policy").1, "");
        assert!(!run("nft list ruleset").1.contains("culvert"));
        assert!(!directory.path().join("guard.json").exists());
    });
}

#[test]
fn prefixes_guard_before_any_policy_and_bypass_wins() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let prefixes = [prefix("10.2.0.0/16"), prefix("fd02::/32")];
        guard.set(&[], &prefixes, Instant::now()).unwrap();
        assert!(!leaves("10.2.0.1", "out0"));
        assert!(!leaves("fd02::1", "out0"));
        let bypass = |src, dst| PolicyConfig {
            templates: Vec::new(),
            ..protecting(src, dst, Direction::Out)
        };
        let policies = [bypass("10.1.0.0/16", "10.2.9.0/24"), bypass("fd01::/32", "fd02:9::/32")];
        guard.set(&policies, &prefixes, Instant::now()).unwrap();
        assert!(leaves("10.2.9.1", "out0"));
        assert!(!leaves("10.2.0.1", "out0"));
        guard.clear(Instant::now()).unwrap();
    });
}

#[test]
fn two_barriers_with_one_identity_leave_the_first_in_order() {
    in_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let mut strict = protecting("0.0.0.0/0", "10.2.0.0/16", Direction::Out);
        strict.priority = 7;
        guard.set([&strict], &[prefix("10.2.0.0/16")], Instant::now()).unwrap();
        let listed = run("ip xfrm policy").1;
        assert!(listed.contains("priority 7"), "{listed}");
        guard.set(&[], &[], Instant::now()).unwrap();
        assert_eq!(run("ip xfrm policy").1, "");
    });
}

#[test]
fn what_somebody_flushed_stands_again_after_a_restart() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let policies = [
            protecting("10.1.0.0/16", "10.2.0.0/16", Direction::Out),
            protecting("fd01::/32", "fd02::/32", Direction::Out),
        ];
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        drop(guard);
        assert!(run("nft flush ruleset").0);
        assert!(run("ip xfrm policy flush").0);
        assert!(leaves("10.2.0.1", "out0") && leaves("fd02::1", "out0"));
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        assert!(!leaves("10.2.0.1", "out0"), "IPv4 leaked");
        assert!(!leaves("fd02::1", "out0"), "IPv6 leaked");
        // And while it runs.
        assert!(!guard.check(Instant::now()).unwrap(), "nothing was gone");
        for flush in ["nft flush ruleset", "ip xfrm policy flush"] {
            assert!(run(flush).0);
            assert!(guard.check(Instant::now()).unwrap(), "{flush}");
            assert!(!leaves("10.2.0.1", "out0"), "IPv4 leaked after {flush}");
            assert!(!leaves("fd02::1", "out0"), "IPv6 leaked after {flush}");
        }
        guard.clear(Instant::now()).unwrap();
    });
}

#[test]
fn each_change_stands_at_once_however_many_there_are() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let policy = |n: u32, v6: bool| match v6 {
            // Half of them are of one class, the others of classes of their own.
            true => PolicyConfig {
                priority: if n.is_multiple_of(2) { 1000 } else { 1000 + n },
                ..protecting("fd01::/32", &format!("fd02:{n:x}::/48"), Direction::Out)
            },
            false => protecting(
                "10.1.0.0/16",
                &format!("10.{}.{}.0/24", 3 + (n >> 8), n & 255),
                Direction::Out,
            ),
        };
        // Not always the last one: a pause before it may have been long enough.
        let mut was_put_off = false;
        for n in 0..300 {
            for v6 in [false, true] {
                guard.change(None, Some(&policy(n, v6)));
                guard.settle(Instant::now()).unwrap();
                was_put_off |= guard.due().is_some();
            }
            if n % 50 == 1 {
                let four = format!("10.{}.{}.1", 3 + (n >> 8), n & 255);
                assert!(!leaves(&four, "out0"), "{four} leaked");
                assert!(!leaves(&format!("fd02:{n:x}::1"), "out0"), "IPv6 {n} leaked");
            }
        }
        assert!(was_put_off, "nothing was put off: too few rules for this test");
        assert!(!leaves("fd02:12b::1", "out0"), "the last one leaked");
        let mut reopened = Guard::open("test", "culvert0", directory.path()).unwrap();
        assert_eq!(reopened.standing().len(), 600, "the list misses some");
        for n in 0..300 {
            for v6 in [false, true] {
                guard.change(Some(&policy(n, v6)), None);
                guard.settle(Instant::now()).unwrap();
            }
        }
        guard.finish(Instant::now()).unwrap();
        assert_eq!(guard.due(), None);
        assert_eq!(run("ip xfrm policy").1, "");
        assert!(!run("nft list ruleset").1.contains("culvert"));
        assert!(!directory.path().join("guard.json").exists());
        reopened.clear(Instant::now()).unwrap();
    });
}

#[test]
fn a_restart_puts_up_what_is_gone_or_differs_and_leaves_the_rest() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let to = |net: u8| format!("10.{net}.0.0/16");
        let policies: Vec<PolicyConfig> =
            (3..7).map(|n| protecting("10.1.0.0/16", &to(n), Direction::Out)).collect();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        drop(guard);
        let index = |net: u8| {
            let (_, text) = run(&format!("ip -s xfrm policy list dst {}", to(net)));
            text.split_once(" index ").unwrap().1.split(' ').next().unwrap().to_owned()
        };
        let untouched = index(3);
        let named = |n: u8| format!("src 10.1.0.0/16 dst {} dir out", to(n));
        for change in [
            format!("delete {}", named(4)),
            format!("update {} priority 1000 action allow", named(5)),
            format!("update {} priority 1000 action block limit time-hard 1", named(6)),
        ] {
            assert!(run(&format!("ip xfrm policy {change}")).0, "{change}");
        }
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        assert_eq!(index(3), untouched, "what stood was put up again");
        let (_, text) = run("ip -s xfrm policy");
        assert!(!text.contains("expire add: soft 0(sec), hard 1(sec)"), "{text}");
        for net in 3..7 {
            assert!(!leaves(&format!("10.{net}.0.1"), "out0"), "10.{net}.0.1 leaked");
        }
        guard.clear(Instant::now()).unwrap();
    });
}

#[test]
fn a_broken_list_is_named() {
    in_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("guard.json"), "[{]\n").unwrap();
        let error = Guard::open("test", "culvert0", directory.path()).unwrap_err();
        assert!(error.to_string().contains("guard.json"));
    });
}

#[test]
fn what_nft_refuses_is_blocked_more_widely_and_the_rest_stands() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let mut nowhere = protecting("fd01::/32", "fd07::/32", Direction::Out);
        nowhere.selector.ifindex = u32::MAX;
        // There is no such type of ICMPv6; nft says so, and XFRM does not.
        let mut odd = protecting("fd01::/32", "fd08::/32", Direction::Out);
        odd.selector.protocol = 58;
        odd.selector.src_port = policy::PortMask { value: 300, mask: u16::MAX };
        let passed = PolicyConfig { templates: Vec::new(), priority: 2000, ..odd.clone() };
        let good = protecting("fd01::/32", "fd02::/32", Direction::Out);
        // After a start, and one by one.
        guard.set([&nowhere, &odd, &good], &[], Instant::now()).unwrap();
        for _ in 0..2 {
            for to in ["fd02::1", "fd07::1", "fd08::1"] {
                assert!(!leaves(to, "out0"), "{to} leaked");
            }
            assert!(leaves("fd09::1", "out0"), "what nothing is about was blocked");
            let named = guard.refusals();
            assert_eq!(named.len(), 2, "{named:#?}");
            assert!(named[0].why.contains("no interface can have the index -1"), "{named:#?}");
            assert!(named[1].why.contains("nft: "), "{named:#?}");
            assert!(named.iter().all(|refusal| !refusal.leaves_a_gap()));
            assert!(guard.is_complete() && guard.due().is_some());
            guard.clear(Instant::now()).unwrap();
            assert!(leaves("fd02::1", "out0") && leaves("fd07::1", "out0"));
            assert!(guard.refusals().is_empty());
            for policy in [&nowhere, &odd, &good] {
                guard.change(None, Some(policy));
                guard.settle(Instant::now()).unwrap();
            }
        }
        // One that would let pass is left out.
        let mut other = passed;
        other.selector.dst_port = policy::PortMask { value: 1, mask: u16::MAX };
        guard.change(None, Some(&other));
        guard.settle(Instant::now()).unwrap();
        assert!(!leaves("fd08::1", "out0"));
        assert!(guard.refusals().iter().any(|r| r.instead.is_none() && !r.leaves_a_gap()));
        guard.change(Some(&other), None);
        for policy in [&nowhere, &good] {
            guard.change(Some(policy), None);
            guard.settle(Instant::now()).unwrap();
        }
        assert!(
            leaves("fd02::1", "out0") && leaves("fd07::1", "out0") && !leaves("fd08::1", "out0")
        );
        guard.clear(Instant::now()).unwrap();
        assert!(!run("nft list ruleset").1.contains("culvert"));
        assert!(!directory.path().join("guard.json").exists());
    });
}

#[test]
fn what_is_for_all_addresses_goes_with_its_policy() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let protects = protecting("fd01::/32", "fd02::/32", Direction::Out);
        let passes = PolicyConfig {
            templates: Vec::new(),
            priority: 10,
            ..protecting("::/0", "::/0", Direction::Out)
        };
        for policy in [&protects, &passes] {
            guard.change(None, Some(policy));
            guard.settle(Instant::now()).unwrap();
        }
        assert!(leaves("fd02::1", "out0"), "what a policy lets pass was blocked");
        guard.change(Some(&passes), None);
        guard.settle(Instant::now()).unwrap();
        assert!(!leaves("fd02::1", "out0"), "it leaked by a policy that is gone");
        guard.clear(Instant::now()).unwrap();
    });
}

#[test]
fn stale_barriers_are_known_by_the_kernel_s_dump_and_others_stay() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let policies = [
            protecting("10.1.0.0/16", "10.2.0.0/16", Direction::Out),
            protecting("fd01::/32", "fd02::/32", Direction::Out),
        ];
        Guard::open("test", "culvert0", directory.path())
            .unwrap()
            .set(&policies, &[], Instant::now())
            .unwrap();
        std::fs::remove_file(directory.path().join("guard.json")).unwrap();
        let other = tempfile::tempdir().unwrap();
        let far = protecting("10.1.0.0/16", "10.3.0.0/16", Direction::Out);
        let mut of_another = Guard::open("other", "culvert0", other.path()).unwrap();
        of_another.set([&far], &[], Instant::now()).unwrap();
        let stranger = "src 10.1.0.0/16 dst 10.4.0.0/16 dir out action block priority 1000";
        assert!(run(&format!("ip xfrm policy add {stranger}")).0);
        // Prefixes before a start take nothing away: the list may be what was lost.
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.add_prefixes(&[prefix("10.5.0.0/16")], Instant::now()).unwrap();
        assert!(!leaves("10.2.0.1", "out0") && !leaves("fd02::1", "out0"));
        guard.set(&[], &[], Instant::now()).unwrap();
        assert!(leaves("10.2.0.1", "out0"), "a stale policy was left");
        assert!(leaves("fd02::1", "out0"), "a stale table was left");
        let (_, left) = run("ip xfrm policy");
        assert!(left.contains("10.3.0.0/16") && left.contains("10.4.0.0/16"), "{left}");
        assert_eq!(left.matches("src ").count(), 2, "{left}");
        of_another.clear(Instant::now()).unwrap();
    });
}

#[test]
fn a_mark_with_bits_outside_its_mask_blocks_and_goes_again() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let mark = Mark { value: 0xff, mask: 0x0f };
        for (src, dst) in [("10.1.0.0/16", "10.2.0.0/16"), ("fd01::/32", "fd02::/32")] {
            let policy = PolicyConfig { mark, ..protecting(src, dst, Direction::Out) };
            guard.change(None, Some(&policy));
            guard.settle(Instant::now()).unwrap();
            let to = dst.replace("0.0/16", "0.1").replace("/32", "1");
            let is_blocked = |mark: u32| {
                let before = sent("out0");
                run(&format!("ping -n -q -c 30 -i 0.002 -W 0.1 -m {mark} {to}"));
                // Solicitations of the interface may come between.
                sent("out0") < before + 15
            };
            assert!(is_blocked(15) && is_blocked(0x2f), "{to} leaked");
            assert!(!is_blocked(14), "{to}: another mark was blocked");
            guard.change(Some(&policy), None);
            guard.settle(Instant::now()).unwrap();
        }
        assert_eq!(run("ip xfrm policy").1, "", "left behind");
        assert!(!directory.path().join("guard.json").exists());
    });
}

#[test]
fn what_the_kernel_has_lost_is_compared_with_its_dump() {
    in_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let to = |n: u8| protecting("10.1.0.0/16", &format!("10.{n}.0.0/16"), Direction::Out);
        let policies: Vec<PolicyConfig> = (2..6).map(to).collect();
        guard.set(&policies, &[], Instant::now()).unwrap();
        // One is gone, and one of ours stands that is not known here.
        assert!(run("ip xfrm policy delete src 10.1.0.0/16 dst 10.2.0.0/16 dir out").0);
        let stale = Barrier::of_policy(&to(9)).unwrap();
        guard.kernel.put(&[stale]).pop().unwrap().unwrap();
        guard.change(Some(&policies[0]), None);
        guard.settle(Instant::now()).unwrap();
        assert!(guard.is_complete());
        let (_, left) = run("ip xfrm policy");
        assert!(!left.contains("10.9.0.0/16") && left.matches("src ").count() == 3, "{left}");
        guard.clear(Instant::now()).unwrap();
    });
}
