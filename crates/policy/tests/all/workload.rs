//! The databases to measure with are what they say.

use std::collections::HashSet;

use policy::{Action, Databases, Direction, Flow, PolicyConfig, workload};

type Build = fn(u32) -> Vec<PolicyConfig>;

const ALL: [(&str, Build); 5] = [
    ("remote access", workload::remote_access),
    ("hub", workload::hub),
    ("mixed", workload::mixed),
    ("many shapes", workload::many_shapes),
    ("many ports", workload::many_ports),
];

fn fill(policies: &[PolicyConfig]) -> Databases<()> {
    let mut databases = Databases::new();
    for policy in policies {
        databases.put_policy(policy.clone());
    }
    databases
}

/// A packet meets the best policy of all that match it, by a scan.
#[test]
fn a_hit_meets_its_policy_or_one_before_it() {
    for (name, build) in ALL {
        let policies = build(700);
        let databases = fill(&policies);
        assert_eq!(databases.policies().len(), policies.len(), "{name}: an index is there twice");
        let reader = databases.reader();
        for (n, policy) in policies.iter().enumerate() {
            let h = workload::hit(policy, n as u32);
            assert!(policy.selector.matches(&h), "{name}: {n}");
            let flow = Flow::new(&h, 1);
            let found = reader.policy(policy.direction, &flow).unwrap();
            let matching = policies
                .iter()
                .filter(|other| other.direction == policy.direction && other.selector.matches(&h));
            let best = matching.min_by_key(|other| other.priority).unwrap();
            assert_eq!(found.config.index, best.index, "{name}: {n}");
        }
    }
}

#[test]
fn most_hits_are_of_the_policy_that_they_are_made_for() {
    for (name, build) in ALL {
        let policies = build(2000);
        let databases = fill(&policies);
        let reader = databases.reader();
        let own = policies.iter().enumerate().filter(|(n, policy)| {
            let h = workload::hit(policy, *n as u32);
            let found = reader.policy(policy.direction, &Flow::new(&h, 1)).unwrap();
            found.config.index == policy.index
        });
        let share = own.count() * 100 / policies.len();
        let expected = if name == "many shapes" { 1 } else { 60 };
        assert!(share >= expected, "{name}: {share} %");
    }
}

#[test]
fn strangers_meet_no_tunnel() {
    for (name, build) in ALL {
        let databases = fill(&build(1000));
        let reader = databases.reader();
        for n in 0..1000 {
            let h = workload::miss(n);
            for direction in [Direction::In, Direction::Out, Direction::Forward] {
                let found = reader.policy(direction, &Flow::new(&h, 1));
                assert!(found.is_none_or(|p| p.config.templates.is_empty()), "{name}: {h:?}");
            }
        }
    }
}

/// The sizes are as promised: three policies for each tunnel, and selectors that are all distinct,
/// as Linux demands.
#[test]
fn selectors_are_distinct() {
    for (name, build) in ALL {
        let policies = build(10_000);
        let tunnels = policies.iter().filter(|p| !p.templates.is_empty());
        assert_eq!(tunnels.count(), 30_000, "{name}");
        assert!(policies.len() <= 30_000 + 15, "{name}");
        let distinct: HashSet<_> = policies.iter().map(|p| (p.direction, p.selector)).collect();
        assert_eq!(distinct.len(), policies.len(), "{name}");
        assert!(policies.iter().any(|p| p.action == Action::Allow));
    }
}

/// The figure that strongSwan gives two /24 networks, as `ip xfrm policy` shows it.
#[test]
fn priorities_are_those_of_strongswan() {
    assert_eq!(workload::hub(1)[0].priority, 375_423);
}
