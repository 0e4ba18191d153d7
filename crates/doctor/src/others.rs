//! Other instances of culvert in this network namespace, and what this one would have in common with them.

use mirror::RuleAction;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::facts::{Facts, OtherInstance};
use super::finding::Finding;

const CHECK: &str = "instances";

/// Before this instance's daemon runs: one that runs has what it needs.
pub fn check(facts: &Facts) -> Vec<Finding> {
    if facts.instance.daemon.is_some() || !facts.machine.root || facts.config().is_none() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    findings.extend(private_interface(facts));
    findings.extend(ports(facts));
    findings.extend(tables(facts));
    findings
}

/// The private interface is made at the start: one of that name hinders it.
fn private_interface(facts: &Facts) -> Option<Finding> {
    let name = facts.tun().interface;
    let is_there = facts.network.interfaces.contains(&name);
    let owner = facts.others.iter().find(|other| other.interface.as_ref() == Some(&name));
    let owner = match owner {
        Some(other) => format!("instance {:?} has it", other.name),
        None => "somebody else has made it".to_owned(),
    };
    let others =
        facts.network.interfaces.iter().filter(|i| i.starts_with("culvert")).count().max(1);
    let tun = facts.tun();
    is_there.then(|| {
        Finding::problem(
            CHECK,
            format!("tun.interface = {name:?} is there already: {owner}"),
            "the daemon makes it, and does not start (TUNSETIFF: device or resource busy)",
            format!(
                "a second instance needs its own of these: [tun] interface = \"culvert{others}\", table = {}, \
                 marked_table = {}, rule_preference = {}",
                tun.table + 10,
                tun.marked_table + 10,
                tun.rule_preference.saturating_sub(5)
            ),
        )
    })
}

/// An interface is one instance's.
fn ports(facts: &Facts) -> Vec<Finding> {
    let Some(config) = facts.config() else { return Vec::new() };
    let names = config.port_names();
    let taken = |other: &OtherInstance| {
        let both: Vec<&str> =
            other.ports.iter().filter(|p| names.contains(*p)).map(String::as_str).collect();
        (!both.is_empty()).then(|| both.join(", "))
    };
    let all = facts.others.iter().filter_map(|other| Some((other, taken(other)?)));
    all.map(|(other, both)| {
        Finding::problem(
            CHECK,
            format!("{both}: a port of instance {:?}, which runs", other.name),
            "an interface can be a port of one instance",
            "leave it out of one of the two configurations",
        )
    })
    .collect()
}

/// Another instance's routing table and rules.
fn tables(facts: &Facts) -> Vec<Finding> {
    let tun = facts.tun();
    let leads = facts.network.rules.iter().filter(|rule| {
        let is_other = rule
            .iif
            .as_ref()
            .is_some_and(|name| *name != tun.interface && facts.network.interfaces.contains(name));
        rule.protocol == ROUTE_PROTOCOL
            && rule.invert
            && rule.action == RuleAction::Lookup
            && is_other
    });
    let mut findings = Vec::new();
    let mut said = std::collections::BTreeSet::new();
    for rule in leads {
        let interface = rule.iif.as_deref().unwrap_or_default();
        if rule.table == tun.table && said.insert(("table", rule.table)) {
            findings.push(Finding::problem(
                CHECK,
                format!("tun.table = {} is that of the instance with {interface}", tun.table),
                "each would send what the other protects by its own interface",
                format!("tun.table = {}, and another tun.marked_table", tun.table + 10),
            ));
        }
        let ours = tun.rule_preference - 1..=tun.rule_preference + 1;
        if ours.contains(&rule.priority) && said.insert(("preference", rule.priority)) {
            findings.push(Finding::problem(
                CHECK,
                format!(
                    "tun.rule_preference = {} meets that of the instance with {interface} ({})",
                    tun.rule_preference, rule.priority
                ),
                "an instance has three preferences; which of two comes first would depend on the start",
                format!("tun.rule_preference = {}", tun.rule_preference.saturating_sub(5)),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use mirror::{Family, Rule};

    use super::super::facts::healthy;
    use super::super::finding::Outcome::Problem;
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn first() -> OtherInstance {
        OtherInstance {
            name: "first".into(),
            interface: Some("culvert0".into()),
            ports: vec!["lan".into(), "dmz".into()],
        }
    }

    fn lead(interface: &str, priority: u32, table: u32) -> Rule {
        Rule {
            iif: Some(interface.into()),
            invert: true,
            protocol: ROUTE_PROTOCOL,
            ..Rule::new(Family::V4, priority, table)
        }
    }

    #[test]
    fn every_finding() {
        let rows: &[Row] = &[
            (
                |f| {
                    f.network.interfaces.push("culvert0".into());
                    f.others = vec![first()];
                    f.others[0].ports.clear();
                },
                CHECK,
                Problem,
                &[
                    "instance \\\"first\\\" has it",
                    "TUNSETIFF",
                    "interface = \\\"culvert1\\\"",
                    "table = 229",
                ],
            ),
            (
                |f| f.network.interfaces.push("culvert0".into()),
                CHECK,
                Problem,
                &["somebody else has made it"],
            ),
            (|f| f.others = vec![first()], CHECK, Problem, &["lan: a port of instance"]),
            (
                |f| {
                    f.network.interfaces.push("culvert7".into());
                    f.network.rules = vec![lead("culvert7", 190, 219)];
                },
                CHECK,
                Problem,
                &["tun.table = 219 is that of the instance with culvert7"],
            ),
            (
                |f| {
                    f.network.interfaces.push("culvert7".into());
                    f.network.rules = vec![lead("culvert7", 209, 229)];
                },
                CHECK,
                Problem,
                &["rule_preference = 210 meets", "(209)", "rule_preference = 205"],
            ),
        ];
        assert_rows(check, rows);
    }

    #[test]
    fn instances_apart_are_no_finding() {
        let mut facts = healthy();
        facts.network.interfaces.push("culvert7".into());
        facts.network.rules = vec![lead("culvert7", 205, 229)];
        let interface = Some("culvert7".into());
        facts.others = vec![OtherInstance { interface, ports: vec!["dmz".into()], ..first() }];
        assert!(check(&facts).is_empty(), "{:#?}", check(&facts));
        // Its own, while it runs; and without root nobody knows whose they are.
        facts.network.interfaces.push("culvert0".into());
        facts.instance.daemon = Some(Err("busy".into()));
        assert!(check(&facts).is_empty());
        facts.instance.daemon = None;
        facts.machine.root = false;
        assert!(check(&facts).is_empty());
    }
}
