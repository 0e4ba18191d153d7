//! `[overlay]`: Linux's overlay interfaces that the fast path carries out.

use serde::Deserialize;

/// Section `[overlay]` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverlayConfig {
    /// Names of the interfaces; an asterisk at the end stands for any rest of a name.
    pub interfaces: Vec<String>,
    /// Sublayer of L2TPv3's sessions, where Linux does not tell of it.
    pub l2spec_type: Option<L2SpecType>,
}

/// L2-specific sublayer of L2TPv3, as `ip l2tp add session ... l2spec_type` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum L2SpecType {
    /// Four bytes behind the cookie (RFC 3931 §4.6).
    Default,
    /// The frame follows the cookie.
    None,
}

impl OverlayConfig {
    /// True if an interface is named.
    pub fn names(&self, interface: &str) -> bool {
        self.interfaces.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => interface.starts_with(start),
            None => name == interface,
        })
    }

    /// The first name that no interface can have.
    pub(super) fn wrong_name(&self, is_interface: fn(&str) -> bool) -> Option<(usize, &String)> {
        let is_wrong = |name: &str| match name.strip_suffix('*') {
            Some("") => false,
            Some(start) => !is_interface(start),
            None => !is_interface(name),
        };
        self.interfaces.iter().enumerate().find(|(_, name)| is_wrong(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_stands_for_the_rest_of_a_name() {
        let config = |names: &[&str]| OverlayConfig {
            interfaces: names.iter().map(|&name| name.into()).collect(),
            l2spec_type: None,
        };
        let found = config(&["gre1", "vx*"]);
        let named = ["gre1", "gre10", "vx", "vx7", "wan"].map(|name| found.names(name));
        assert_eq!(named, [true, false, true, true, false]);
        assert!(config(&["*"]).names("anything") && !config(&[]).names("gre1"));
        let is_interface = |name: &str| !name.contains('/') && name.len() < 16;
        assert_eq!(config(&["*", "vx*", "gre1"]).wrong_name(is_interface), None);
        let wrong = config(&["gre1", "a/b*"]);
        assert_eq!(wrong.wrong_name(is_interface), Some((1, &"a/b*".to_owned())));
    }
}
