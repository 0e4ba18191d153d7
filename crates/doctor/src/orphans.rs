//! Routing rules of a culvert that is gone: one that was killed, and whose configuration is another since, or is no more.

use std::collections::BTreeSet;

use config::TunConfig;
use control::is_own_rule;
use mirror::{Family, Observer, Rule, RuleAction};
use report::rule_text::title;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use super::facts::{Facts, Network};
use super::finding::Finding;
use super::mend::Mend;

/// A finding for each.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let tun = facts.tun();
    let found = of(&facts.network, &tun).into_iter().map(|rule| {
        let mend = deletion(rule);
        Finding::warning(
            "rules",
            format!("{}, of a culvert that is gone", title(rule)),
            "nothing needs it: its interface is not there, and its table is empty",
            mend.to_string(),
        )
        .mended_by(mend)
    });
    found.chain(own(facts)).collect()
}

/// Rules of this instance, whose daemon was killed: the next start takes them up.
fn own(facts: &Facts) -> Option<Finding> {
    let tun = facts.tun();
    let is_seen = facts.machine.root && facts.instance.daemon.is_none();
    let left =
        abandoned(&facts.network.rules, &facts.network.interfaces, &facts.network.tables, |_| {
            false
        });
    let left: Vec<&Rule> = left.into_iter().filter(|rule| is_own_rule(rule, &tun)).collect();
    let (first, last) = (left.first()?.priority, left.last()?.priority);
    is_seen.then(|| {
        Finding::warning(
            "rules",
            format!(
                "{} rules of preference {first} to {last} are left of a daemon that was killed",
                left.len()
            ),
            "they do nothing without its interface, and the next start takes them up",
            format!(
                "culvert run; to remove them with all that it left: culvert guard clear --name {}",
                facts.instance.name
            ),
        )
    })
}

/// Removes the rules of every culvert in this network namespace that is gone, and returns how many these were. What
/// cannot be removed stays: the next start takes it up.
pub fn remove() -> usize {
    let Ok(observer) = Observer::new() else { return 0 };
    let snapshot = observer.snapshot();
    let rules: Vec<Rule> = [Family::V4, Family::V6]
        .into_iter()
        .flat_map(|family| snapshot.rules(family))
        .cloned()
        .collect();
    let interfaces: Vec<String> = snapshot.links().map(|link| link.name.clone()).collect();
    let tables = snapshot.routes().map(|route| route.table).collect();
    let left = abandoned(&rules, &interfaces, &tables, |_| false);
    left.into_iter().filter(|rule| deletion(rule).run().is_ok()).count()
}

/// Rules with culvert's protocol that lead to the table of an interface that is gone, and those around them, in the order in
/// which they can be deleted. Not those of this configuration, which the next start takes up.
pub fn of<'n>(network: &'n Network, tun: &TunConfig) -> Vec<&'n Rule> {
    let Network { rules, interfaces, tables, .. } = network;
    abandoned(rules, interfaces, tables, |rule| is_own_rule(rule, tun))
}

fn abandoned<'n>(
    rules: &'n [Rule],
    interfaces: &[String],
    tables: &BTreeSet<u32>,
    is_kept: impl Fn(&Rule) -> bool,
) -> Vec<&'n Rule> {
    let ours = |rule: &&Rule| rule.protocol == ROUTE_PROTOCOL && !is_kept(rule);
    let is_gone = |rule: &&Rule| {
        leads(rule).is_some_and(|name| !interfaces.iter().any(|known| known == name))
            && !tables.contains(&rule.table)
    };
    let leading: Vec<&Rule> = rules.iter().filter(ours).filter(is_gone).collect();
    let mut all = leading.clone();
    for lead in leading {
        let at = lead.priority;
        // Another instance may have the same preference, and needs what is around it.
        let is_shared = rules.iter().any(|rule| {
            rule.family == lead.family
                && rule.priority == at
                && rule.protocol == ROUTE_PROTOCOL
                && leads(rule).is_some()
                && !is_gone(&rule)
        });
        let belongs = |rule: &&Rule| match rule.action {
            RuleAction::Goto(to) => rule.priority + 1 == at && to == at + 1,
            RuleAction::Nop => rule.priority == at + 1,
            // Of marks.
            RuleAction::Lookup => {
                rule.priority == at && rule.iif.is_none() && !tables.contains(&rule.table)
            }
            _ => false,
        };
        if !is_shared {
            let around = rules.iter().filter(ours).filter(|r| r.family == lead.family);
            for rule in around.filter(belongs) {
                if !all.contains(&rule) {
                    all.push(rule);
                }
            }
        }
    }
    all.sort_by_key(|rule| (rule.family == Family::V6, rule.priority));
    all
}

/// The interface of a rule that leads what did not come in by it to culvert's table.
fn leads(rule: &Rule) -> Option<&str> {
    let name = rule.iif.as_deref()?;
    (rule.invert && rule.action == RuleAction::Lookup).then_some(name)
}

/// Command that deletes exactly this rule.
fn deletion(rule: &Rule) -> Mend {
    let flag = if rule.family == Family::V6 { "-6 " } else { "" };
    let mut words = format!("ip {flag}rule del pref {}", rule.priority);
    if rule.invert {
        words.push_str(" not");
    }
    if let Some(name) = &rule.iif {
        words.push_str(&format!(" iif {name}"));
    }
    if rule.fwmask != 0 {
        words.push_str(&format!(" fwmark {:#x}/{:#x}", rule.fwmark, rule.fwmask));
    }
    if rule.l3mdev {
        words.push_str(" l3mdev");
    }
    if let Some(protocol) = rule.ip_protocol {
        words.push_str(&format!(" ipproto {protocol}"));
    }
    for (word, ports) in [("sport", rule.sport), ("dport", rule.dport)] {
        if let Some((first, last)) = ports {
            words.push_str(&format!(" {word} {first}-{last}"));
        }
    }
    words.push_str(&match rule.action {
        RuleAction::Goto(to) => format!(" goto {to}"),
        RuleAction::Nop => " nop".to_owned(),
        _ => format!(" table {}", rule.table),
    });
    Mend::new(format!("{words} protocol {ROUTE_PROTOCOL}"))
}

#[cfg(test)]
mod tests {
    use super::super::facts::healthy;
    use super::*;

    const IKE: Option<(u16, u16)> = Some((500, 500));

    /// The rules of a daemon with this interface for IPv4.
    fn rules(interface: &str, at: u32, table: u32) -> Vec<Rule> {
        let rule = |priority, table| Rule {
            protocol: ROUTE_PROTOCOL,
            ..Rule::new(Family::V4, priority, table)
        };
        let goto = Rule {
            iif: Some("lo".into()),
            ip_protocol: Some(17),
            sport: IKE,
            action: RuleAction::Goto(at + 1),
            ..rule(at - 1, 0)
        };
        let lead = Rule { iif: Some(interface.into()), invert: true, ..rule(at, table) };
        let marked = Rule { fwmark: 4, fwmask: 0xff, ..rule(at, table - 1) };
        vec![goto, lead, marked, Rule { action: RuleAction::Nop, ..rule(at + 1, 0) }]
    }

    fn found(change: impl FnOnce(&mut Network)) -> Vec<String> {
        let mut facts = healthy();
        facts.network.rules = rules("culvert7", 207, 217);
        change(&mut facts.network);
        check(&facts).iter().filter_map(|f| Some(f.fix.as_ref()?.to_string())).collect()
    }

    #[test]
    fn all_rules_of_one_that_is_gone() {
        let commands = found(|_| {});
        assert_eq!(
            commands,
            [
                "ip rule del pref 206 iif lo ipproto 17 sport 500-500 goto 208 protocol 219",
                "ip rule del pref 207 not iif culvert7 table 217 protocol 219",
                "ip rule del pref 207 fwmark 0x4/0xff table 216 protocol 219",
                "ip rule del pref 208 nop protocol 219",
            ]
        );
        let v6 = found(|n| n.rules.iter_mut().for_each(|rule| rule.family = Family::V6));
        assert!(v6.len() == 4 && v6.iter().all(|c| c.starts_with("ip -6 rule del ")), "{v6:?}");
    }

    #[test]
    fn rules_of_a_daemon_that_was_killed_are_seen() {
        let mut facts = healthy();
        facts.network.rules = rules("culvert0", 210, 219);
        let tun = facts.tun();
        facts.network.rules.retain(|rule| is_own_rule(rule, &tun));
        let told = |facts: &Facts| check(facts).into_iter().map(|f| f.seen).collect::<Vec<_>>();
        let left = told(&facts);
        assert!(
            left.iter().any(|seen| seen.contains("left of a daemon that was killed")),
            "{left:?}"
        );
        facts.network.interfaces.push("culvert0".into());
        assert!(told(&facts).is_empty(), "its interface is there");
        facts.network.interfaces.pop();
        facts.machine.root = false;
        assert!(told(&facts).is_empty(), "whether a daemon runs is not seen without root");
    }

    #[test]
    fn what_something_needs_is_left() {
        assert!(found(|n| n.interfaces.push("culvert7".into())).is_empty(), "one that runs");
        assert!(found(|n| n.tables.extend([217])).is_empty(), "routes of somebody");
        assert!(
            found(|n| n.rules.iter_mut().for_each(|r| r.protocol = 4)).is_empty(),
            "a rule of others"
        );
        let own = found(|n| n.rules = rules("culvert0", 210, 219));
        assert!(
            !own.iter().any(|command| command.contains("not iif")),
            "the next start's: {own:?}"
        );
        let shared = found(|n| {
            n.rules.extend(rules("culvert8", 207, 227));
            n.interfaces.push("culvert8".into());
        });
        assert_eq!(shared, ["ip rule del pref 207 not iif culvert7 table 217 protocol 219"]);
    }
}
