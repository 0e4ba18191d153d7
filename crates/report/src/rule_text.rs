//! Routing rules as text, in the words of iproute2.

use mirror::{Family, Rule, RuleAction};

use crate::protocol;

/// A rule, named with its family.
pub fn title(rule: &Rule) -> String {
    let family = if rule.family == Family::V6 { "IPv6" } else { "IPv4" };
    format!("{family} rule {}: {}", rule.priority, describe(rule))
}

/// A rule, as `ip rule` has it: everything that it looks at, and what it does.
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
    match (rule.fwmark, rule.fwmask) {
        (_, 0) => {}
        (mark, u32::MAX) => text.push_str(&format!(" fwmark {mark:#x}")),
        (mark, mask) => text.push_str(&format!(" fwmark {mark:#x}/{mask:#x}")),
    }
    for (word, name) in [("iif", &rule.iif), ("oif", &rule.oif)] {
        if let Some(name) = name {
            text.push_str(&format!(" {word} {name}"));
        }
    }
    if rule.l3mdev {
        text.push_str(" l3mdev");
    }
    if let Some(number) = rule.ip_protocol {
        text.push_str(&format!(" ipproto {}", protocol::name(number)));
    }
    for (word, ports) in [("sport", rule.sport), ("dport", rule.dport)] {
        match ports {
            Some((first, last)) if first == last => text.push_str(&format!(" {word} {first}")),
            Some((first, last)) => text.push_str(&format!(" {word} {first}-{last}")),
            None => {}
        }
    }
    if rule.has_more {
        text.push_str(" (and more)");
    }
    match rule.action {
        RuleAction::Lookup if rule.l3mdev && rule.table == 0 => text.push_str(" lookup of the VRF"),
        RuleAction::Lookup => text.push_str(&format!(" lookup {}", table_name(rule.table))),
        RuleAction::Goto(priority) => text.push_str(&format!(" goto {priority}")),
        RuleAction::Other(number) => text.push_str(&format!(" action {number}")),
        action => text.push_str(&format!(" {action:?}").to_lowercase()),
    }
    if let Some(len) = rule.suppress_prefix_len {
        text.push_str(&format!(" suppress_prefixlength {len}"));
    }
    text
}

/// A routing table: by name if it is one of Linux's own.
fn table_name(table: u32) -> String {
    match table {
        253 => "default".into(),
        254 => "main".into(),
        255 => "local".into(),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of a running daemon as Linux prints them, less `proto 219`.
    #[test]
    fn as_ip_rule_prints_them() {
        let rule = |priority| Rule::new(Family::V4, priority, 0);
        let ike = Rule {
            iif: Some("lo".into()),
            ip_protocol: Some(17),
            sport: Some((500, 500)),
            action: RuleAction::Goto(211),
            ..rule(209)
        };
        let theirs = Rule { sport: None, dport: Some((4500, 4501)), ..ike.clone() };
        let marked =
            Rule { fwmark: 4, fwmask: u32::MAX, action: RuleAction::Goto(211), ..rule(209) };
        let lead = Rule { iif: Some("culvert0".into()), invert: true, table: 219, ..rule(210) };
        let landing = Rule { ip_protocol: Some(17), action: RuleAction::Nop, ..rule(211) };
        let vrf = Rule { l3mdev: true, ..rule(1000) };
        let main = Rule { suppress_prefix_len: Some(0), table: 254, ..rule(32766) };
        let texts = [ike, theirs, marked, lead, landing, vrf, main].map(|rule| describe(&rule));
        assert_eq!(
            texts,
            [
                "from all iif lo ipproto udp sport 500 goto 211",
                "from all iif lo ipproto udp dport 4500-4501 goto 211",
                "from all fwmark 0x4 goto 211",
                "not from all iif culvert0 lookup 219",
                "from all ipproto udp nop",
                "from all l3mdev lookup of the VRF",
                "from all lookup main suppress_prefixlength 0",
            ]
        );
    }
}
