//! Check of NAT: whether rules of Linux's are carried out on what the fast path forwards, and whether Linux has ports and
//! room for what they ask.

use conntrack::Statistics;

use super::facts::Facts;
use super::finding::Finding;

/// Nothing where Linux has no rules of NAT, and none are learnt.
pub fn check(facts: &Facts) -> Vec<Finding> {
    if !facts.machine.root {
        return vec![Finding::warning(
            "nat",
            "not seen without root: the firewall's rules",
            "whether Linux translates what goes through tunnels is not known",
            "sudo culvert doctor",
        )];
    }
    let Some(found) = finding(facts) else { return Vec::new() };
    let refusals = facts.network.connections.iter().flat_map(refusals);
    [found].into_iter().chain(refusals).collect()
}

/// Connections that Linux has refused, and those that it is about to refuse.
fn refusals(linux: &Statistics) -> Vec<Finding> {
    let Statistics { entries, most, insert_failed, early_dropped, .. } = *linux;
    let without_room = linux.without_room();
    let mut found = Vec::new();
    if insert_failed > 0 {
        found.push(Finding::warning(
            "nat",
            format!("{insert_failed} connections did not come into Linux's table (insert_failed)"),
            "no port was left for them to be translated to, or two packets began one connection at the same time; their first packet was dropped",
            "if it grows (conntrack -S): more addresses or ports in the rule of NAT, as by masquerade to :1024-65535, or a shorter net.netfilter.nf_conntrack_udp_timeout",
        ));
    }
    let room = format!(
        "sysctl -w net.netfilter.nf_conntrack_max={}, or shorter times in net.netfilter.nf_conntrack_*_timeout",
        u64::from(most.max(entries)) * 2
    );
    if without_room + early_dropped > 0 {
        found.push(Finding::warning(
            "nat",
            format!("for lack of room in its table of connections Linux dropped {without_room} packets (drop) and ended {early_dropped} connections (early_drop)"),
            "new connections fail, or old ones end that are in use",
            room,
        ));
    } else if linux.is_nearly_full() {
        found.push(Finding::warning(
            "nat",
            format!("Linux's table of connections has {entries} of {most} entries"),
            "once it is full the first packets of new connections are dropped",
            room,
        ));
    }
    found
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
    fn without_root_no_rules_are_claimed() {
        let mut facts = healthy();
        facts.machine.root = false;
        // As it is taken where they cannot be read.
        facts.network.nat_rules = [true; 2];
        let [told] = &check(&facts)[..] else { panic!("one finding") };
        assert!(told.seen.starts_with("not seen without root"), "{told:?}");
    }

    #[test]
    fn what_linux_refuses_is_told_with_what_mends_it() {
        let mut facts = healthy();
        let seen = |facts: &Facts| {
            check(facts).into_iter().skip(1).map(|f| (f.seen, f.next.unwrap())).collect::<Vec<_>>()
        };
        let calm = Statistics { entries: 5, most: 100, ..Statistics::default() };
        let none = Statistics { insert_failed: 2, dropped: 2, ..calm };
        facts.network.connections = Some(none);
        assert!(check(&facts).is_empty(), "nothing is translated");
        facts.network.nat_rules = [true, false];
        let [(found, next)] = &seen(&facts)[..] else { panic!("one finding") };
        assert!(found.starts_with("2 connections") && next.contains("masquerade to"), "{found}");
        facts.network.connections = Some(calm);
        assert!(seen(&facts).is_empty());
        facts.network.connections = Some(Statistics { entries: 90, ..calm });
        let [(found, next)] = &seen(&facts)[..] else { panic!("one finding") };
        assert!(found.contains("90 of 100") && next.contains("nf_conntrack_max=200"), "{next}");
        // That it is full is said once.
        facts.network.connections = Some(Statistics { entries: 100, dropped: 4, ..calm });
        let [(found, _)] = &seen(&facts)[..] else { panic!("one finding") };
        assert!(found.contains("dropped 4 packets"), "{found}");
    }

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
