//! Commands that mend a finding, and which of them `culvert doctor --fix` may run.
//!
//! A check names the command; whether it is safe is for [`TABLE`] alone to say. A command that no row is about is left
//! to a person.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use super::processes;

/// A command that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Mend(String);

/// User that may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// `--fix`: it can be taken back by one command, loses no traffic, and lets nothing out in clear.
    Safe,
    /// A person, who knows what else hangs on it.
    Person,
}

/// Every command that a finding may name, with its mark and the reason for that. The first row that fits counts; `*`
/// stands for any part of a word, `**` for any words.
///
/// Nothing here is about SAs, policies, a firewall or an IKE daemon's configuration.
const TABLE: [(&str, Mark, &str); 13] = {
    use Mark::{Person, Safe};
    [
        ("sysctl -w net.ipv4.conf.all.rp_filter=*", Person, "loosens interfaces of others, too"),
        ("sysctl -w net.ipv4.conf.default.rp_filter=*", Person, "interfaces that come later"),
        (
            "sysctl -w net.ipv4.conf.*.rp_filter=2",
            Safe,
            "one port: a source still needs a route (RFC 3704, 2.4), and culvert's own checks stay",
        ),
        (
            "sysctl -w net.ipv4.conf.*.rp_filter=0",
            Safe,
            "culvert's own interface, as culvert sets it at its start",
        ),
        ("sysctl -w net.ipv4.ip_forward=1", Person, "makes a router of a host"),
        ("sysctl -w net.ipv6.conf.all.forwarding=1", Person, "makes a router of a host"),
        (
            "sysctl -w vm.nr_hugepages=*",
            Safe,
            "named only where memory for it is free several times",
        ),
        ("ethtool -K * rx-vlan-offload off", Safe, "Linux takes the tags out then"),
        // Of a veth both ends count, and the other one may be elsewhere.
        ("ethtool -K * tx-vlan-offload off tx-vlan-stag-hw-insert off", Person, "one of two ends"),
        // Others' rules have other protocols: ROUTE_PROTOCOL of crates/xfrm/src/shim_protocol.rs.
        ("ip rule del pref * ** protocol 219", Safe, "culvert's, and no culvert is there for it"),
        (
            "ip -6 rule del pref * ** protocol 219",
            Safe,
            "culvert's, and no culvert is there for it",
        ),
        ("ip rule del **", Person, "somebody's"),
        ("ip -6 rule del **", Person, "somebody's"),
    ]
};

impl Mend {
    /// A command line; its words have no spaces in them, and one between them.
    pub fn new(command: impl Into<String>) -> Mend {
        Mend(command.into())
    }

    /// `net.ipv4.conf.INTERFACE.SETTING`. Dots within a name are slashes for sysctl(8).
    pub fn of_interface(interface: &str, setting: &str, value: i64) -> Mend {
        let interface = interface.replace('.', "/");
        Mend::new(format!("sysctl -w net.ipv4.conf.{interface}.{setting}={value}"))
    }

    /// True if it may be run without a person who thinks about it.
    pub fn is_safe(&self) -> bool {
        let words: Vec<&str> = self.0.split(' ').collect();
        let fits = |pattern: &str| fits(&pattern.split(' ').collect::<Vec<_>>(), &words);
        let row = TABLE.iter().find(|(pattern, ..)| fits(pattern));
        row.is_some_and(|(_, mark, _)| *mark == Mark::Safe)
    }

    /// Subject of the command: the setting, or all of the command.
    pub fn subject(&self) -> &str {
        self.setting().and_then(|setting| setting.split_once('=')).map_or(&self.0, |(name, _)| name)
    }

    /// True for a setting of sysctl(8), which a boot forgets.
    pub fn is_setting(&self) -> bool {
        self.setting().is_some()
    }

    fn setting(&self) -> Option<&str> {
        self.0.strip_prefix("sysctl -w ")
    }

    /// Runs it. A setting is written where it lies: sysctl(8) need not be installed.
    ///
    /// # Errors
    /// The answer of the kernel or the program.
    pub fn run(&self) -> Result<(), String> {
        if let Some((path, value)) = self.setting().and_then(file_of) {
            let failed = |e| format!("{}: {e}", path.display());
            return fs::write(&path, format!("{value}\n")).map_err(failed);
        }
        let mut words = self.0.split(' ');
        let program = words.next().unwrap_or_default();
        let found = processes::find(program).ok_or_else(|| format!("{program} was not found"))?;
        processes::output(&found, &words.collect::<Vec<_>>(), "").map(drop)
    }
}

impl std::fmt::Display for Mend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The file of `NAME=VALUE`, and the value.
fn file_of(text: &str) -> Option<(PathBuf, &str)> {
    let (name, value) = text.split_once('=')?;
    let parts = name.split('.').map(|part| part.replace('/', "."));
    let path = std::iter::once("/proc/sys".to_owned()).chain(parts).collect();
    Some((path, value))
}

/// True if words fit a pattern.
fn fits(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], []) => true,
        (["**", rest @ ..], _) => (0..=words.len()).any(|n| fits(rest, &words[n..])),
        ([first, rest @ ..], [word, others @ ..]) => fits_word(first, word) && fits(rest, others),
        _ => false,
    }
}

/// True if a word fits a pattern with at most one `*`.
fn fits_word(pattern: &str, word: &str) -> bool {
    let Some((begin, end)) = pattern.split_once('*') else { return pattern == word };
    word.len() >= begin.len() + end.len() && word.starts_with(begin) && word.ends_with(end)
}

#[cfg(test)]
mod tests {
    use xfrm::shim_protocol::ROUTE_PROTOCOL;

    use super::*;

    #[test]
    fn the_table_decides() {
        let safe = [
            "sysctl -w net.ipv4.conf.wan.rp_filter=2",
            "sysctl -w net.ipv4.conf.wan/100.rp_filter=2",
            "sysctl -w net.ipv4.conf.culvert0.rp_filter=0",
            "sysctl -w vm.nr_hugepages=64",
            "ethtool -K eth0 rx-vlan-offload off",
            "ip rule del pref 208 not iif culvert7 table 217 protocol 219",
            "ip -6 rule del pref 208 nop protocol 219",
        ];
        for command in safe {
            assert!(Mend::new(command).is_safe(), "{command}");
        }
        let unsafe_ones = [
            "sysctl -w net.ipv4.conf.all.rp_filter=2",
            "sysctl -w net.ipv4.conf.default.rp_filter=2",
            "sysctl -w net.ipv4.conf.wan.rp_filter=1",
            "sysctl -w net.ipv4.ip_forward=1",
            "ethtool -K wan tx-vlan-offload off tx-vlan-stag-hw-insert off",
            "ip rule del pref 100",
            "ip rule del pref 100 protocol 4",
            // Of SAs, policies, firewalls and IKE daemons there is no row.
            "ip xfrm policy delete dir out index 8",
            "ip xfrm state deleteall",
            "nft flush ruleset",
            "iptables -F",
            "swanctl --load-all",
            "culvert guard clear",
            "systemctl restart strongswan",
            "",
        ];
        for command in unsafe_ones {
            assert!(!Mend::new(command).is_safe(), "{command}");
        }
    }

    #[test]
    fn the_table_is_about_nothing_that_protects_traffic() {
        for (pattern, mark, why) in TABLE {
            assert!(!why.is_empty());
            let words = ["xfrm", "nft", "iptables", "swanctl", "ipsec", "guard", "systemctl"];
            assert!(!words.iter().any(|word| pattern.contains(word)), "{pattern}");
            if mark == Mark::Safe && pattern.contains(" rule ") {
                assert!(pattern.ends_with(&format!("protocol {ROUTE_PROTOCOL}")), "{pattern}");
            }
        }
    }

    #[test]
    fn settings_are_files() {
        let path = |text| file_of(text).map(|(path, value)| (path.display().to_string(), value));
        let expected = "/proc/sys/net/ipv4/conf/wan.100/rp_filter".to_owned();
        assert_eq!(path("net.ipv4.conf.wan/100.rp_filter=2"), Some((expected, "2")));
        assert_eq!(path("nothing"), None);
        let mend = Mend::of_interface("wan.100", "rp_filter", 2);
        assert_eq!(mend.to_string(), "sysctl -w net.ipv4.conf.wan/100.rp_filter=2");
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let told = |command: &str| Mend::new(command).run().unwrap_err();
        assert!(told("sysctl -w net.no.such.setting=1").contains("/proc/sys/net/no/such/setting"));
        assert!(told("no-such-program-anywhere -x").contains("not found"));
        assert!(told("false").contains("false"));
        assert_eq!(Mend::new("true").run(), Ok(()));
    }
}
