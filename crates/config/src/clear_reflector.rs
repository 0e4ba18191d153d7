//! `[paths.clear]`: the reflector for probes that come in clear.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::prefix::AddressPrefix;

/// `[paths.clear]`: where probes that come in clear are answered, and whose.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClearReflectorConfig {
    /// Addresses of this host that it answers at.
    pub at: Vec<IpAddr>,
    /// Senders that are answered.
    pub from: Vec<AddressPrefix>,
    /// Files of the keys that probes have.
    pub key_files: Vec<PathBuf>,
    /// Reflections a second at most.
    pub per_second: u32,
}

impl Default for ClearReflectorConfig {
    fn default() -> Self {
        let (at, from, key_files) = (Vec::new(), Vec::new(), Vec::new());
        ClearReflectorConfig { at, from, key_files, per_second: 1000 }
    }
}

/// Most addresses, and most prefixes of senders: a probe is compared with each of them.
const MOST: usize = 64;

/// Most keys that a probe is checked with.
const MOST_KEYS: usize = 8;

impl ClearReflectorConfig {
    /// The values that cannot be: key, value, and what is allowed.
    pub(super) fn problems(&self, is_beside_kernel: bool) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        let mut add = |key: String, value: String, allowed: &str| {
            found.push((format!("paths.clear{key}"), value, allowed.to_owned()));
        };
        if is_beside_kernel {
            let allowed = "source = \"builtin\": policies of the kernel are not asked before an answer leaves in clear";
            add(String::new(), String::new(), allowed);
        }
        if !(1..=MOST).contains(&self.at.len()) {
            let allowed = "1 to 64 addresses of this host, at which probes in clear are answered";
            add(".at".into(), self.at.len().to_string(), allowed);
        }
        for (at, addr) in self.at.iter().enumerate() {
            if addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() {
                add(format!(".at[{at}]"), addr.to_string(), "an address of a port of this host");
            }
        }
        if !(1..=MOST).contains(&self.from.len()) {
            let allowed = "1 to 64 prefixes of senders: in clear no others are answered";
            add(".from".into(), self.from.len().to_string(), allowed);
        }
        for (at, AddressPrefix(prefix)) in self.from.iter().enumerate() {
            if prefix.len == 0 {
                let value = format!("{}/0", prefix.addr);
                add(format!(".from[{at}]"), value, "a prefix of named senders, not of all");
            }
        }
        if !(1..=MOST_KEYS).contains(&self.key_files.len()) {
            let allowed = "1 to 8 files with a key each: in clear probes are answered in authenticated mode alone, as anybody could have answers sent otherwise";
            add(".key_files".into(), self.key_files.len().to_string(), allowed);
        }
        for (at, file) in self.key_files.iter().enumerate() {
            if !file.is_absolute() {
                add(format!(".key_files[{at}]"), file.display().to_string(), "an absolute path");
            }
        }
        if !(1..=100_000).contains(&self.per_second) {
            add(".per_second".into(), self.per_second.to_string(), "1 to 100000");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, std::path::Path::new("culvert.toml")).map_err(|error| error.to_string())
    }

    const CLEAR: &str =
        "[paths.clear]\nat = [\"192.0.2.1\"]\nfrom = [\"192.0.2.2/32\"]\nkey_files = [\"/key\"]\n";

    #[test]
    fn has_addresses_senders_and_keys() {
        let clear = parse(CLEAR).unwrap().path_options.clear.expect("one");
        assert_eq!((clear.at.len(), clear.from.len(), clear.per_second), (1, 1, 1000));
        assert!(parse("").unwrap().path_options.clear.is_none());
    }

    #[test]
    fn without_keys_or_senders_it_is_refused() {
        for (from, to, named) in [
            ("key_files = [\"/key\"]\n", "", "paths.clear.key_files"),
            ("key_files = [\"/key\"]", "key_files = []", "authenticated mode alone"),
            ("\"/key\"", "\"key\"", "paths.clear.key_files[0]"),
            ("from = [\"192.0.2.2/32\"]\n", "", "paths.clear.from"),
            ("192.0.2.2/32", "0.0.0.0/0", "paths.clear.from[0]"),
            ("192.0.2.2/32", "192.0.2.3/31", "bits beyond"),
            ("at = [\"192.0.2.1\"]\n", "", "paths.clear.at"),
            ("\"192.0.2.1\"", "\"0.0.0.0\"", "paths.clear.at[0]"),
            ("[paths.clear]", "[paths.clear]\nper_second = 0", "paths.clear.per_second"),
            ("[paths.clear]", "[paths.clear]\nport = 862", "port"),
            ("[paths.clear]", "source = \"kernel\"\n[paths.clear]", "builtin"),
        ] {
            let text = CLEAR.replace(from, to);
            let error = parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
