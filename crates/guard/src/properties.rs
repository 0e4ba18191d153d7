//! Whatever the kernel's tables look like inside: they pass and block what a walk over the policies by
//! priority says.

use std::time::Instant;

use policy::{Direction, PolicyConfig};

use crate::cases::{leaves, protecting, two_ways_out};
use crate::testing::{in_namespace, run};
use crate::threshold::FRESH;
use crate::{Barrier, Guard};

#[test]
fn many_are_hashed_and_block_what_a_walk_over_them_would() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        assert_eq!(guard.kernel.threshold().unwrap(), FRESH);
        // A fixed sequence: every run is the same.
        let mut state = 1u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        // Nested prefixes of several lengths below 10.8.0.0/16; priorities of their own.
        let mut policies: Vec<PolicyConfig> = Vec::new();
        for n in 0..700 {
            let len = [14, 20, 24, 24, 24, 24, 24, 28][random(8) as usize];
            let bits = 0x0a08_0000 | random(1 << 16);
            let dst = std::net::Ipv4Addr::from_bits(bits & (u32::MAX << (32 - len)));
            let mut policy = protecting("10.1.0.0/16", &format!("{dst}/{len}"), Direction::Out);
            policy.priority = 1 + (n * 389) % 7919;
            if random(2) == 0 || len < 20 {
                policy.templates.clear();
            }
            policies.retain(|p| p.selector != policy.selector);
            policies.push(policy);
        }
        for policy in &policies {
            guard.change(None, Some(policy));
            guard.settle(Instant::now()).unwrap();
        }
        let threshold = guard.kernel.threshold().unwrap();
        assert_ne!(threshold, FRESH, "the kernel has all of them in trees");
        let mut passed = 0;
        for _ in 0..200 {
            let addr = std::net::IpAddr::V4((0x0a08_0000 | random(1 << 16)).into());
            let matching = policies.iter().filter(|p| p.selector.dst.contains(addr));
            let first = matching.min_by_key(|p| p.priority);
            let expected = first.is_none_or(|p| p.templates.is_empty());
            assert_eq!(leaves(&addr.to_string(), "out0"), expected, "{addr} {first:?}");
            passed += u32::from(expected);
        }
        assert!((20..180).contains(&passed), "{passed} of 200 pass: no test of both");
        // A change of the threshold under way changes nothing either.
        guard.kernel.set_threshold(FRESH).unwrap();
        drop(guard);
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        guard.set(&policies, &[], Instant::now()).unwrap();
        assert_ne!(guard.kernel.threshold().unwrap(), FRESH);
        // All go and come again under the same guard.
        for policy in &policies {
            guard.change(Some(policy), None);
        }
        guard.settle(Instant::now()).unwrap();
        assert_eq!(guard.kernel.threshold().unwrap(), FRESH, "the last one gives it back");
        for policy in &policies {
            guard.change(None, Some(policy));
        }
        guard.settle(Instant::now()).unwrap();
        assert_ne!(guard.kernel.threshold().unwrap(), FRESH, "chosen once and never again");
        guard.clear(Instant::now()).unwrap();
        assert_eq!(guard.kernel.threshold().unwrap(), FRESH, "not given back");
    });
}

#[test]
fn classes_of_ipv6_block_what_a_walk_over_them_would() {
    in_namespace(|| {
        two_ways_out();
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        // Below fd08:0:0:0::/56, nested; few lengths and priorities, so that most share a class;
        // addresses with host bits, so that some are the same element.
        let mut policies: Vec<PolicyConfig> = Vec::new();
        let mut passed = 0;
        for n in 0..160 {
            let len = [56u32, 60, 64, 64, 64, 128][random(6) as usize];
            let dst = format!("fd08:0:0:{:x}::{}/{len}", random(256), random(2));
            let src = ["fd01::/32", "::/0", "fd01::/64"][random(3) as usize];
            let mut policy = protecting(src, &dst, Direction::Out);
            // The shorter the later, as IKE daemons have it; some at a place of their own.
            policy.priority = 10 * (200 - len) + [0, 0, random(10)][random(3) as usize];
            if random(2) == 0 {
                policy.templates.clear();
            }
            if random(4) == 0 && !policies.is_empty() {
                let at = random(u32::try_from(policies.len()).unwrap()) as usize;
                guard.change(Some(&policies.swap_remove(at)), None);
            }
            let old = policies.iter().position(|p| p.selector == policy.selector);
            let old = old.map(|at| policies.swap_remove(at));
            guard.change(old.as_ref(), Some(&policy));
            policies.push(policy);
            guard.settle(Instant::now()).unwrap();
            if n % 40 != 39 {
                continue;
            }
            guard.finish(Instant::now()).unwrap();
            for _ in 0..25 {
                let text = format!("fd08:0:0:{:x}::{}", random(256), random(2));
                let addr: std::net::IpAddr = text.parse().unwrap();
                let matching = policies.iter().filter(|p| p.selector.dst.contains(addr));
                let first =
                    matching.min_by_key(|p| Barrier::of_policy(p).map(|barrier| barrier.rank()));
                let expected = first.is_none_or(|p| p.templates.is_empty());
                assert_eq!(leaves(&text, "out0"), expected, "{n} {addr} {first:?}");
                passed += u32::from(expected);
            }
        }
        assert!((10..90).contains(&passed), "{passed} of 100 pass: no test of both");
        for policy in &policies {
            guard.change(Some(policy), None);
            guard.settle(Instant::now()).unwrap();
        }
        guard.finish(Instant::now()).unwrap();
        assert!(!run("nft list ruleset").1.contains("culvert"));
    });
}

#[test]
fn random_barriers_are_what_the_kernel_s_own_dump_says() {
    in_namespace(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut guard = Guard::open("test", "culvert0", directory.path()).unwrap();
        assert!(run("ip xfrm policy add src 10.7.0.0/16 dst 10.8.0.0/16 dir out action block").0);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut next = || {
            let tree = proptest::strategy::Strategy::new_tree(&crate::fuzz::config(), &mut runner);
            proptest::strategy::ValueTree::current(&tree.unwrap())
        };
        let mut policies: Vec<PolicyConfig> = Vec::new();
        for n in 0..400 {
            let new = next();
            if n % 3 == 2 && !policies.is_empty() {
                guard.change(Some(&policies.swap_remove(n % policies.len())), None);
            }
            guard.change(None, Some(&new));
            policies.push(new);
            // Whatever else: a refusal is named, not an error.
            guard.settle(Instant::now()).unwrap();
            if n % 40 != 39 {
                continue;
            }
            if n % 80 == 79 {
                drop(guard);
                guard = Guard::open("test", "culvert0", directory.path()).unwrap();
                guard.set(&policies, &[], Instant::now()).unwrap();
            }
            let listing = guard.kernel.listing().unwrap();
            let in_kernel = |b: &&Barrier| !b.is_netfilter();
            let missing: Vec<_> =
                guard.standing().filter(in_kernel).filter(|b| !listing.has(b)).collect();
            assert!(missing.is_empty(), "{n}: {missing:?}");
            let stale = listing.stale(guard.standing().filter(in_kernel));
            assert!(stale.is_empty(), "{n}: {stale:?}");
        }
        for policy in &policies {
            guard.change(Some(policy), None);
        }
        guard.settle(Instant::now()).unwrap();
        guard.finish(Instant::now()).unwrap();
        let (_, left) = run("ip xfrm policy");
        assert_eq!(left.matches("src ").count(), 1, "{left}");
        assert!(left.contains("10.7.0.0/16"), "a stranger's policy is gone: {left}");
        assert!(!run("nft list ruleset").1.contains("culvert"));
    });
}
