//! `[[vlan]]` for interfaces that culvert gives no priorities to.

use config::VlanConfig;

use super::facts::Facts;
use super::finding::Finding;

/// Why it matters.
pub const WHY: &str = "a name with a slip in it, or an interface that is still to be made: until then nothing \
                       gets these priorities";

/// Next step of the finding.
pub const NEXT: &str = "ip -br link; then correct the entry or take it out, or make the interface (ip link add \
                        link PORT name NAME type vlan id ID)";

/// Nothing while a daemon runs, which says it itself.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(config) = facts.config() else { return Vec::new() };
    if facts.instance.daemon.is_some() || facts.network.trouble.is_some() {
        return Vec::new();
    }
    let is_on_port = |name: &str| {
        let is_on = facts.ports.iter().any(|port| {
            port.config.interface == name || port.vlans.iter().any(|vlan| vlan.name == name)
        });
        let is_there = is_on || facts.network.interfaces.iter().any(|known| known == name);
        is_there.then_some(is_on)
    };
    let idle = VlanConfig::idle(&config.vlans, is_on_port);
    idle.map(|seen| Finding::warning("vlan", seen, WHY, NEXT)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{VlanFacts, healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    fn entry(name: &str) -> VlanConfig {
        let (interface, dscp_to_pcp) = (name.to_owned(), Some([1; 64]));
        VlanConfig { interface, dscp_to_pcp, pcp_to_dscp: None }
    }

    #[test]
    fn an_interface_that_is_not_there_and_one_that_is_no_port_are_told() {
        let mut facts = healthy();
        assert!(check(&facts).is_empty());
        facts.ports[0].vlans = vec![VlanFacts { name: "wan.7".into(), tags: 1, mtu: 1500 }];
        let config = facts.configuration.loaded.as_mut().expect("loaded");
        config.vlans = ["wan", "wan.7", "wan.70", "lo"].map(entry).to_vec();
        let found = check(&facts);
        assert!(found.iter().all(|f| f.result == Outcome::Warning));
        let seen: Vec<_> = found.iter().map(|f| f.seen.as_str()).collect();
        assert!(
            matches!(seen[..], [a, b] if a.starts_with("vlan[2].interface = \"wan.70\"")
                && b.starts_with("vlan[3].interface = \"lo\": that is neither")),
            "{seen:?}"
        );
        // A daemon says it itself, and without netlink nothing is known.
        facts.instance.daemon = Some(Ok(healthy_daemon()));
        assert!(check(&facts).is_empty());
        facts.instance.daemon = None;
        facts.network.trouble = Some("no netlink".into());
        assert!(check(&facts).is_empty());
    }
}
