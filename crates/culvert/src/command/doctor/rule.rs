//! Routing rules as text.

use mirror::{Family, Rule, RuleAction};

/// A rule, named with its family.
pub fn title(rule: &Rule) -> String {
    let family = if rule.family == Family::V6 { "IPv6" } else { "IPv4" };
    format!("{family} rule {}: {}", rule.priority, describe(rule))
}

/// A rule, as `ip rule` has it.
pub fn describe(rule: &Rule) -> String {
    let prefix = |p: mirror::Prefix| format!("{}/{}", p.addr, p.len);
    let mut text = String::new();
    if rule.invert {
        text.push_str("not ");
    }
    text.push_str("from ");
    text.push_str(&rule.from.map_or_else(|| "all".into(), prefix));
    if let Some(to) = rule.to {
        text.push_str(&format!(" to {}", prefix(to)));
    }
    for (word, name) in [("iif", &rule.iif), ("oif", &rule.oif)] {
        if let Some(name) = name {
            text.push_str(&format!(" {word} {name}"));
        }
    }
    if rule.fwmask != 0 {
        text.push_str(&format!(" fwmark {:#x}/{:#x}", rule.fwmark, rule.fwmask));
    }
    match rule.action {
        RuleAction::Lookup => text.push_str(&format!(" lookup {}", rule.table)),
        action => text.push_str(&format!(" {action:?}").to_lowercase()),
    }
    text
}
