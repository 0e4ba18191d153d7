//! Cleartext that policy leaves to Linux goes back to the port that it came in by.
//!
//! A program on the private interface does that ([`steer::GiveBack`]), so firewall rules, reverse path
//! filters and captures see such packets where they came. Their destinations are protected prefixes,
//! so Linux would route them to the private interface: they are marked, and a rule leads those with
//! the mark past culvert's own.
//!
//! A port in generic mode gets nothing back, for its program would take it again. Then, and where the
//! kernel lacks what the program needs, such packets come in by the private interface.

use std::collections::BTreeMap;

use mirror::{Control, Error, Family, Rule, RuleAction, Snapshot};
use steer::GiveBack;
use tracing::warn;

use crate::config::TunConfig;

/// A port that works, as far as its packets' way back is concerned.
#[derive(Clone, Copy, Debug)]
pub struct WorkingPort<'a> {
    /// Its interface.
    pub interface: &'a str,
    /// The interface's index.
    pub ifindex: u32,
    /// What tells it from other ports, from 1.
    pub tag: u16,
    /// Its program stands in the driver: what the stack receives does not meet it again.
    pub is_native: bool,
}

/// The program and its rules.
pub struct WayBack {
    program: Option<GiveBack>,
    control: Control,
    rules: Vec<Rule>,
    /// The ports that get their packets back: tags by interface.
    tags: BTreeMap<u32, u16>,
    /// Why the program or its rules are not there.
    trouble: Option<String>,
    /// What the operator should know of ports, by interface.
    warnings: BTreeMap<String, String>,
}

impl WayBack {
    /// Sets up what the kernel allows; what it does not is a warning.
    ///
    /// # Errors
    /// When there is no netlink socket to be had.
    pub fn set_up(config: &TunConfig) -> Result<WayBack, Error> {
        let name = config.interface.as_str();
        let mut way_back = WayBack {
            program: None,
            control: Control::new()?,
            rules: [Family::V4, Family::V6].iter().flat_map(|f| rules(config, *f)).collect(),
            tags: BTreeMap::new(),
            trouble: None,
            warnings: BTreeMap::new(),
        };
        for rule in &way_back.rules {
            match way_back.control.add_rule(rule) {
                // One that a daemon left that was killed.
                Err(error) if error.errno() != Some(EXISTS) => {
                    way_back.trouble = Some(by_private(name, &error));
                }
                _ => {}
            }
        }
        if way_back.trouble.is_none() {
            match GiveBack::load_and_attach(name, config.mark) {
                Ok(program) => way_back.program = Some(program),
                Err(error) => way_back.trouble = Some(by_private(name, &error)),
            }
        }
        if let Some(trouble) = &way_back.trouble {
            warn!("{trouble}");
        }
        Ok(way_back)
    }

    /// Follows the ports that work. To be told before workers are: what has a tag that the program
    /// does not know is dropped.
    pub fn follow<'a>(&mut self, ports: impl Iterator<Item = WorkingPort<'a>>) {
        self.tags.clear();
        let mut warnings = BTreeMap::new();
        let Some(program) = &mut self.program else { return };
        for port in ports {
            // An interface that went has left its index to none.
            let ifindex = if port.is_native { port.ifindex } else { 0 };
            match program.set(port.tag, ifindex) {
                Ok(()) if port.is_native => {
                    self.tags.insert(port.ifindex, port.tag);
                }
                Ok(()) => {
                    let why = "its XDP program is in generic mode, and would take them again";
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &why));
                }
                Err(error) => {
                    warnings.insert(port.interface.to_owned(), by_port(port.interface, &error));
                }
            }
        }
        for (interface, warning) in &warnings {
            if self.warnings.get(interface) != Some(warning) {
                warn!("{warning}");
            }
        }
        self.warnings = warnings;
    }

    /// The tag by which an interface gets its packets back.
    pub fn tag(&self, ifindex: u32) -> Option<u16> {
        self.tags.get(&ifindex).copied()
    }

    /// What the operator should know.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        self.trouble.iter().chain(self.warnings.values())
    }

    /// Puts back the rules that somebody took away.
    pub fn repair(&mut self, snapshot: &Snapshot) {
        for rule in &self.rules {
            let is_like = |other: &Rule| {
                (other.priority, other.action, other.fwmark, other.fwmask)
                    == (rule.priority, rule.action, rule.fwmark, rule.fwmask)
            };
            if snapshot.rules(rule.family).any(is_like) {
                continue;
            }
            match self.control.add_rule(rule) {
                Ok(()) => warn!(preference = rule.priority, "a rule for cleartext was gone"),
                Err(error) if error.errno() == Some(EXISTS) => {}
                Err(error) => warn!(%error, preference = rule.priority, "no rule for cleartext"),
            }
        }
    }

    /// Takes the rules away; the program goes with the interface.
    pub fn tear_down(&mut self) {
        for rule in self.rules.iter().rev() {
            match self.control.delete_rule(rule) {
                Err(error) if error.errno() != Some(NO_ENTRY) => warn!(%error, "rule not removed"),
                _ => {}
            }
        }
    }
}

/// Whether a rule is one of these.
pub fn is_ours(rule: &Rule, config: &TunConfig) -> bool {
    rules(config, rule.family).iter().any(|ours| {
        (ours.priority, ours.action, ours.fwmark) == (rule.priority, rule.action, rule.fwmark)
    })
}

/// `PREFERENCE-1: fwmark MARK/MARK goto PREFERENCE+1` and `PREFERENCE+1: nop`, where that leads to;
/// in the order in which they are to be added. None without a mark.
fn rules(config: &TunConfig, family: Family) -> Vec<Rule> {
    let (before, after) = (config.rule_preference - 1, config.rule_preference + 1);
    let rule = |priority, mark, action| Rule {
        family,
        priority,
        table: 0,
        from: None,
        to: None,
        iif: None,
        oif: None,
        fwmark: mark,
        fwmask: mark,
        invert: false,
        action,
        suppress_prefix_len: None,
        has_more: false,
    };
    match config.mark {
        0 => Vec::new(),
        mark => vec![rule(after, 0, RuleAction::Nop), rule(before, mark, RuleAction::Goto(after))],
    }
}

fn by_private(private: &str, why: &dyn std::fmt::Display) -> String {
    format!("cleartext that policy leaves to Linux comes in by {private}, not by its port: {why}")
}

fn by_port(port: &str, why: &dyn std::fmt::Display) -> String {
    format!(
        "port {port}: cleartext that policy leaves to Linux comes in by the private interface: {why}"
    )
}

/// `EEXIST`, `ENOENT`.
const EXISTS: i32 = 17;
const NO_ENTRY: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_lead_past_culverts_own() {
        let config = TunConfig::default();
        for family in [Family::V4, Family::V6] {
            let rules = rules(&config, family);
            let [target, jump] = rules.as_slice() else { panic!("{rules:?}") };
            assert_eq!((jump.fwmark, jump.fwmask), (config.mark, config.mark));
            assert_eq!(jump.action, RuleAction::Goto(target.priority));
            assert!(jump.priority < config.rule_preference);
            assert!(target.priority > config.rule_preference);
            assert!(rules.iter().all(|rule| is_ours(rule, &config)));
            let other = Rule { fwmark: 1, fwmask: 1, ..jump.clone() };
            assert!(!is_ours(&other, &config));
        }
        assert!(rules(&TunConfig { mark: 0, ..config }, Family::V4).is_empty());
    }
}
