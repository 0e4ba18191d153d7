//! `[[vlan]]`: the priorities of VLANs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use dataplane::{CodePoints, Priorities};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::marks::Dscp;

/// `[[vlan]]`: what the priorities of a VLAN, or of all VLANs of a port, are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VlanConfig {
    /// The VLAN's interface, or a port.
    pub interface: String,
    /// The priority in the tag (PCP) of packets that leave by it, by their DSCP; Linux's when left out.
    #[serde(default, deserialize_with = "priorities")]
    pub dscp_to_pcp: Option<Priorities>,
    /// The DSCP of packets that come by it, by the priority in their tag; their own when left out.
    #[serde(default, deserialize_with = "code_points")]
    pub pcp_to_dscp: Option<CodePoints>,
}

impl VlanConfig {
    /// Of each entry the first value that cannot be: the entry's number, the key, the value, what is allowed.
    pub(super) fn problems(
        all: &[VlanConfig],
        is_interface: fn(&str) -> bool,
    ) -> impl Iterator<Item = (usize, &'static str, &str, &'static str)> {
        all.iter().enumerate().filter_map(move |(at, vlan)| {
            let name = vlan.interface.as_str();
            let is_named_before = all.iter().take(at).any(|other| other.interface == name);
            let says_nothing = vlan.dscp_to_pcp.is_none() && vlan.pcp_to_dscp.is_none();
            let (key, allowed) = match () {
                () if !is_interface(name) => (
                    "interface",
                    "an interface's name has 1 to 15 characters, without '/' and spaces",
                ),
                () if is_named_before => ("interface", "one entry for each interface"),
                () if says_nothing => ("interface", "with dscp_to_pcp, pcp_to_dscp, or both"),
                () => return None,
            };
            Some((at, key, name, allowed))
        })
    }

    /// The entries that no packet gets priorities by, for people. `is_on_port` tells whether an interface is a port
    /// or a VLAN of one; `None` if there is no such interface.
    pub fn idle(
        all: &[VlanConfig],
        is_on_port: impl Fn(&str) -> Option<bool>,
    ) -> impl Iterator<Item = String> {
        all.iter().enumerate().filter_map(move |(at, vlan)| {
            let name = &vlan.interface;
            let why = match is_on_port(name) {
                None => "there is no such interface",
                Some(false) => "that is neither a port nor a VLAN of one",
                Some(true) => return None,
            };
            Some(format!("vlan[{at}].interface = {name:?}: {why}, so the entry has no effect"))
        })
    }
}

/// Name of `default` in a table.
const DEFAULT: &str = "default";

/// The highest priority.
const MAX_PCP: u8 = 7;

/// A priority, 0 to 7.
struct Pcp(u8);

impl<'de> Deserialize<'de> for Pcp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = u8::deserialize(deserializer).ok().filter(|pcp| *pcp <= MAX_PCP);
        let wrong = || D::Error::custom(format!("this is no priority (PCP); write 0 to {MAX_PCP}"));
        written.map(Pcp).ok_or_else(wrong)
    }
}

/// `{ ef = 5, cs6 = 6, 8-15 = 1, default = 0 }`
fn priorities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Priorities>, D::Error> {
    let written = BTreeMap::<String, Pcp>::deserialize(deserializer)?;
    let mut named: BTreeMap<u8, (u8, &str)> = BTreeMap::new();
    let mut otherwise = 0;
    for (key, &Pcp(pcp)) in &written {
        if key == DEFAULT {
            otherwise = pcp;
            continue;
        }
        for dscp in code_points_of(key).map_err(D::Error::custom)? {
            match named.entry(dscp) {
                Entry::Vacant(place) => place.insert((pcp, key)),
                Entry::Occupied(place) => {
                    let (_, other) = place.get();
                    let twice = format!(
                        "DSCP {dscp} is named twice, by {other:?} and {key:?}; once is right"
                    );
                    return Err(D::Error::custom(twice));
                }
            };
        }
    }
    Ok(Some(std::array::from_fn(|dscp| {
        named.get(&(dscp as u8)).map_or(otherwise, |(pcp, _)| *pcp)
    })))
}

/// `{ 5 = "ef", 6 = "cs6", 1 = 8 }`
fn code_points<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CodePoints>, D::Error> {
    let mut all = CodePoints::default();
    for (key, dscp) in BTreeMap::<String, Dscp>::deserialize(deserializer)? {
        // As it is written alone: "05" would be 5 a second time.
        let place = all.iter_mut().enumerate().find(|(pcp, _)| pcp.to_string() == key);
        let Some((_, place)) = place else {
            let wrong = format!("{key:?} is no priority (PCP); write 0 to {MAX_PCP}");
            return Err(D::Error::custom(wrong));
        };
        *place = Some(dscp.0);
    }
    Ok(Some(all))
}

/// The code points of a key: one by its class or number, or all from one number to another.
fn code_points_of(key: &str) -> Result<std::ops::RangeInclusive<u8>, String> {
    let one = |text: &str| match text.parse::<u8>() {
        Ok(number) => (number <= Dscp::MAX.0).then_some(number),
        Err(_) => Dscp::of_class(text).map(|dscp| dscp.0),
    };
    let (first, last) = key.split_once('-').unwrap_or((key, key));
    match one(first).zip(one(last)) {
        Some((first, last)) if first <= last => Ok(first..=last),
        _ => Err(format!(
            "{key:?} is not a DSCP; write {}, 8-15 for several, or {DEFAULT}",
            Dscp::ALLOWED
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    fn parse(text: &str) -> Result<Vec<VlanConfig>, String> {
        let config = Config::parse(text, Path::new("culvert.toml"));
        config.map(|config| config.vlans).map_err(|error| error.to_string())
    }

    #[test]
    fn classes_numbers_ranges_and_the_rest() {
        let text = "[[vlan]]\ninterface = \"wan.100\"\n\
            dscp_to_pcp = { ef = 5, CS6 = 6, 56 = 7, 8-15 = 1, af41-38 = 4, default = 2 }\n\
            [vlan.pcp_to_dscp]\n5 = \"EF\"\n1 = 8\n0 = \"le\"\n";
        let [vlan] = &parse(text).expect("valid")[..] else { panic!("one entry") };
        let pcps = vlan.dscp_to_pcp.expect("a table");
        let of = [46, 48, 56, 8, 10, 15, 16, 34, 38, 39, 0].map(|dscp: usize| pcps[dscp]);
        assert_eq!(of, [5, 6, 7, 1, 1, 1, 2, 4, 4, 2, 2]);
        let dscps = [Some(1), Some(8), None, None, None, Some(46), None, None];
        assert_eq!(vlan.pcp_to_dscp, Some(dscps));
        // Without a default PCP is 0.
        let bare = parse("[[vlan]]\ninterface = \"wan\"\ndscp_to_pcp = { va = 5 }").expect("valid");
        assert_eq!(
            bare[0].dscp_to_pcp.expect("a table").iter().map(|p| u32::from(*p)).sum::<u32>(),
            5
        );
        assert_eq!(bare[0].pcp_to_dscp, None);
    }

    #[test]
    fn entries_without_effect_are_told_by_their_keys() {
        let entry = |name: &str| format!("[[vlan]]\ninterface = \"{name}\"\npcp_to_dscp = {{}}\n");
        let vlans = parse(&["wan.1", "wan.2", "lo"].map(entry).concat()).expect("valid");
        let idle: Vec<_> = VlanConfig::idle(&vlans, |name| match name {
            "wan.1" => Some(true),
            "lo" => Some(false),
            _ => None,
        })
        .collect();
        assert_eq!(idle.len(), 2, "{idle:?}");
        assert!(idle[0].starts_with("vlan[1].interface = \"wan.2\": there is no"), "{idle:?}");
        assert!(idle[1].starts_with("vlan[2].interface = \"lo\": that is neither"), "{idle:?}");
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (keys, named) in [
            ("dscp_to_pcp = { ef = 8 }", &["toml:3:", "ef = 8", "0 to 7"][..]),
            ("dscp_to_pcp = { ef = -1 }", &["ef = -1", "0 to 7"]),
            ("dscp_to_pcp = { default = 9 }", &["default = 9", "0 to 7"]),
            ("dscp_to_pcp = { 64 = 1 }", &["\"64\" is not a DSCP", "0 to 63", "AF43", "8-15"]),
            ("dscp_to_pcp = { gold = 1 }", &["\"gold\" is not a DSCP", "default"]),
            ("dscp_to_pcp = { 15-8 = 1 }", &["\"15-8\" is not a DSCP"]),
            ("dscp_to_pcp = { ef = 5, 40-47 = 4 }", &["DSCP 46", "twice", "\"40-47\" and \"ef\""]),
            ("dscp_to_pcp = { cs1 = 1, CS1 = 2 }", &["DSCP 8", "twice"]),
            ("dscp_to_pcp = { ef = \"5\" }", &["toml:3:", "0 to 7"]),
            ("dscp_to_pcp = 5", &["toml:3:", "a table"]),
            ("pcp_to_dscp = { 8 = \"ef\" }", &["\"8\"", "0 to 7"]),
            ("pcp_to_dscp = { 05 = \"ef\" }", &["\"05\"", "0 to 7"]),
            ("pcp_to_dscp = { 5 = \"gold\" }", &["not a DSCP", "AF43"]),
            ("pcp_to_dscp = { 5 = 64 }", &["not a DSCP", "0 to 63"]),
            ("", &["vlan[0].interface", "dscp_to_pcp"]),
            (
                "dscp-to-pcp = { ef = 5 }",
                &["unknown key \"dscp-to-pcp\"", "did you mean dscp_to_pcp?"],
            ),
        ] {
            let error =
                parse(&format!("[[vlan]]\ninterface = \"wan.1\"\n{keys}\n")).expect_err(keys);
            for part in named {
                assert!(error.contains(part), "{keys}: {part:?} not in: {error}");
            }
        }
        let entry =
            |name: &str| format!("[[vlan]]\ninterface = \"{name}\"\ndscp_to_pcp = {{ ef = 5 }}\n");
        let error = parse(&entry("wan/1")).expect_err("no interface");
        assert!(error.contains("vlan[0].interface"), "{error}");
        let error = parse(&entry("wan").repeat(2)).expect_err("twice");
        assert!(error.contains("vlan[1].interface") && error.contains("one entry"), "{error}");
    }
}
