//! Overlays whose own packets pass by the policies that are to protect them.

use std::net::IpAddr;

use mirror::Prefix;
use report::{Direction, Policy, PolicyAction};

use super::facts::{BoundOverlay, Facts};
use super::finding::Finding;

/// One finding for each overlay that is bound to a device, and has a far end that a policy protects what goes to.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let (Some(config), Some(Ok(running))) = (facts.config(), &facts.instance.daemon) else {
        return Vec::new();
    };
    let named = facts.network.bound_overlays.iter().filter(|o| config.overlay.names(&o.interface));
    let found = named.filter_map(|overlay| {
        let protecting = |far_end: &IpAddr| {
            let policy = running.policies.iter().find(|policy| protects(policy, *far_end))?;
            Some((*far_end, policy))
        };
        let (far_end, policy) = overlay.far_ends.iter().find_map(protecting)?;
        Some(finding(overlay, far_end, policy))
    });
    found.collect()
}

fn finding(overlay: &BoundOverlay, far_end: IpAddr, policy: &Policy) -> Finding {
    let BoundOverlay { interface, device, .. } = overlay;
    Finding::warning(
        "overlay",
        format!(
            "overlay {interface} is bound to {device}, and policy {} protects what goes to its far end {far_end}",
            policy.index
        ),
        "Linux sends by that device what it puts into the overlay itself, such as ARP and BGP, past the routes that lead to \
         culvert: it is not encrypted, and the guard stops it",
        format!(
            "make {interface} anew without dev {device}: the route to {far_end} finds the device"
        ),
    )
}

/// True if a policy protects what this host sends to an address, of any protocol or of a tunnel's.
fn protects(policy: &Policy, far_end: IpAddr) -> bool {
    let prefix = policy.dst.split(" port ").next().and_then(|dst| dst.split_once('/'));
    let prefix = prefix
        .and_then(|(addr, len)| Some(Prefix::of(addr.parse::<IpAddr>().ok()?, len.parse().ok()?)));
    policy.direction == Direction::Out
        && policy.action == PolicyAction::Protect
        && policy.if_id == 0
        && prefix.is_some_and(|prefix| prefix.contains(far_end))
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Running, healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    #[test]
    fn an_overlay_of_a_device_under_a_policy_is_told() {
        let mut facts = healthy();
        let bound = BoundOverlay {
            interface: "vx0".into(),
            device: "wan".into(),
            far_ends: vec!["192.0.2.7".parse().expect("one"), "192.0.2.2".parse().expect("one")],
        };
        facts.network.bound_overlays.push(bound);
        let config = facts.configuration.loaded.as_mut().expect("loaded");
        config.overlay.interfaces = vec!["vx*".into()];
        let policy = |dst: &str, action: &str| Policy {
            index: 9,
            direction: "out".into(),
            src: "192.0.2.1/32".into(),
            dst: dst.into(),
            action: action.into(),
            ..Policy::default()
        };
        let mut with = |policy: Policy| {
            let policies = vec![policy];
            facts.instance.daemon = Some(Ok(Running { policies, ..healthy_daemon() }));
            check(&facts)
        };
        assert_eq!(with(policy("192.0.2.3/32", "protect")), [], "to another");
        assert_eq!(with(policy("192.0.2.2/32", "bypass")), [], "in clear");
        let [found] = &with(policy("192.0.2.2/32 port 4789", "protect"))[..] else {
            panic!("one finding")
        };
        assert_eq!(found.result, Outcome::Warning);
        assert!(found.seen.contains("vx0 is bound to wan, and policy 9"), "{}", found.seen);
        let is_named = |facts: &Facts| !check(facts).is_empty();
        assert!(is_named(&facts));
        facts.configuration.loaded.as_mut().expect("loaded").overlay.interfaces.clear();
        assert!(!is_named(&facts), "Linux's alone");
    }
}
