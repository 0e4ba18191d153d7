//! Check of NAT: whether rules of Linux's are carried out on what the fast path forwards.

use super::facts::Facts;
use super::finding::Finding;

/// Nothing where Linux has no rules of NAT, and none are learnt.
pub fn check(facts: &Facts) -> Vec<Finding> {
    finding(facts).into_iter().collect()
}

fn finding(facts: &Facts) -> Option<Finding> {
    let is_on = facts.config().is_some_and(|config| config.nat.is_on());
    let families = ["IPv4", "IPv6"].into_iter().zip(facts.network.nat_rules);
    let families: Vec<&str> = families.filter_map(|(name, has)| has.then_some(name)).collect();
    let has = families.join(" and ");
    match (is_on, families.is_empty()) {
        (false, true) => None,
        // Counted as a firewall there.
        (false, false) if facts.is_beside_kernel() => None,
        (true, true) => Some(Finding::ok("nat", "learnt, and Linux has no rules of NAT")),
        (true, false) => Some(Finding::ok("nat", format!("learnt; Linux has rules for {has}"))),
        (false, false) => Some(Finding::warning(
            "nat",
            format!("Linux has rules of NAT for {has}, and nat.learn is \"off\""),
            "what goes through tunnels from port to port passes these rules by; everything else Linux translates",
            "nothing, where the rules leave tunnels alone; else learn = \"conntrack\" in [nat]",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::healthy;
    use super::super::finding::Outcome;
    use super::*;

    #[test]
    fn rules_that_are_passed_by_are_told() {
        let mut facts = healthy();
        assert!(check(&facts).is_empty());
        facts.network.nat_rules = [true, false];
        let told = finding(&facts).expect("a finding");
        assert_eq!(told.result, Outcome::Warning);
        assert!(told.seen.contains("IPv4") && !told.seen.contains("IPv6"), "{}", told.seen);
    }
}
