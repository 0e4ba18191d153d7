//! Segments of SRv6 that no packet may come to.

use super::facts::Facts;
use super::finding::Finding;

/// Why it matters.
pub const WHY: &str = "only the domain of SRv6 may choose segments (RFC 8754, section 5.1), and which interfaces are \
                       inside it Linux does not say";

/// Next step of the finding.
pub const NEXT: &str = "name the interfaces inside the domain: srv6.domain = [\"wan\"]; srv6.trust_sas = true for \
                        segments through IPsec";

/// Nothing while a daemon runs, which says it itself.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(config) = facts.config() else { return Vec::new() };
    let has_segments = facts.network.has_segments || !config.sids.is_empty();
    if facts.instance.daemon.is_some() || facts.network.trouble.is_some() || !has_segments {
        return Vec::new();
    }
    let is_there = |name: &str| facts.network.interfaces.iter().any(|known| known == name);
    config.srv6.closed(is_there).map(|seen| Finding::warning("srv6", seen, WHY, NEXT)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{healthy, healthy_daemon};
    use super::super::finding::Outcome;
    use super::*;

    #[test]
    fn segments_without_a_domain_are_told() {
        let mut facts = healthy();
        assert!(check(&facts).is_empty(), "there are no segments");
        facts.network.has_segments = true;
        let [found] = &check(&facts)[..] else { panic!("one finding") };
        assert_eq!(found.result, Outcome::Warning);
        assert!(found.seen.contains("no interface is inside the domain"), "{}", found.seen);
        let config = facts.configuration.loaded.as_mut().expect("loaded");
        config.srv6.domain = ["wan", "wam"].map(str::to_owned).to_vec();
        let [found] = &check(&facts)[..] else { panic!("one finding") };
        assert!(found.seen.contains("\"wam\": there is no such interface"), "{}", found.seen);
        // A daemon says it itself.
        facts.instance.daemon = Some(Ok(healthy_daemon()));
        assert!(check(&facts).is_empty());
    }
}
