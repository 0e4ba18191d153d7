//! `[paths]` and `[[path]]`: which paths are measured, and who may measure this host.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::Deserialize;

use super::clear_reflector::ClearReflectorConfig;
use super::marks::Dscp;
use super::names::{valid_interface, valid_name};
use super::prefix::AddressPrefix;

/// `[paths]`: the reflector for probes of others, and what all probes have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathsConfig {
    /// True if probes of others are sent back.
    pub reflector: bool,
    /// UDP port that the reflector answers at.
    pub port: u16,
    /// Files of the keys that probes of others have; none: probes have no key.
    pub key_files: Vec<PathBuf>,
    /// Reflections a second at most.
    pub per_second: u32,
    /// True if reflections are counted for each session (a stateful reflector).
    pub counts: bool,
    /// The first UDP port of this host's probes. Sessions between the same addresses have one each.
    pub source_port: u16,
    /// True if second copies of others' packets are removed, and their senders are told so.
    pub remove_copies: bool,
    /// How long packets out of copies wait for those before them, in milliseconds; 0: not at all.
    pub copies_wait_ms: u32,
    /// The reflector for probes that come in clear; none are answered without it.
    pub clear: Option<ClearReflectorConfig>,
}

impl Default for PathsConfig {
    fn default() -> Self {
        PathsConfig {
            reflector: false,
            port: paths::stamp::PORT,
            key_files: Vec::new(),
            per_second: 10_000,
            counts: false,
            source_port: 49_862,
            remove_copies: false,
            copies_wait_ms: 50,
            clear: None,
        }
    }
}

/// `[[path]]`: a path that is measured, in each of its classes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// Name of the path.
    pub name: String,
    /// The tunnel interface by which probes leave; as policies and routes lead when left out.
    #[serde(default)]
    pub tunnel: Option<String>,
    /// The interface of an uplink by which the path's packets leave in clear, in place of a tunnel.
    #[serde(default)]
    pub uplink: Option<String>,
    /// Mark by which rules of Linux's lead packets out of the uplink; 0: its routes do without.
    #[serde(default)]
    pub mark: u32,
    /// True if Linux translates what leaves by the uplink (masquerading).
    #[serde(default)]
    pub translated: bool,
    /// Prefixes of the addresses that Linux translates to there, beside those of the uplink itself (NPTv6, pools).
    #[serde(default)]
    pub translated_to: Vec<AddressPrefix>,
    /// Address of this host that probes come from; unspecified for the one that the uplink has.
    #[serde(default = "unspecified")]
    pub source: IpAddr,
    /// Address of the far end.
    pub to: IpAddr,
    /// Cost of the path, against those of others.
    #[serde(default)]
    pub cost: u32,
    /// Classes that are measured, one session each.
    #[serde(default = "best_effort")]
    pub dscp: Vec<Dscp>,
    /// Kind of probes.
    #[serde(default)]
    pub mode: PathMode,
    /// UDP port of the far end's reflector.
    #[serde(default = "stamp_port")]
    pub port: u16,
    /// File of the key of authenticated mode; none: probes have no key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// True if the far end is asked how many packets of the path it has received and sent, so that their loss is measured.
    #[serde(default)]
    pub count_traffic: bool,
    /// Time from one probe to the next, in milliseconds.
    #[serde(default = "interval_ms")]
    pub interval_ms: u32,
    /// Time after which a probe is lost, in milliseconds.
    #[serde(default)]
    timeout_ms: Option<u32>,
    /// Probes in a row without a reply that make the path dead.
    #[serde(default = "misses")]
    pub misses: u32,
    /// Probes that are measured over.
    #[serde(default = "window")]
    pub window: u32,
    /// Seconds for which a path is better before its state is.
    #[serde(default = "hold_s")]
    pub hold_s: u32,
    /// Loss of a good path at most, in percent.
    #[serde(default = "max_loss_percent")]
    pub max_loss_percent: f64,
    /// Median of delays of a good path at most, in milliseconds.
    #[serde(default)]
    pub max_delay_ms: Option<u32>,
    /// Jitter of a good path at most, in milliseconds.
    #[serde(default)]
    pub max_jitter_ms: Option<u32>,
}

/// Kind of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathMode {
    /// STAMP, for far ends with a reflector.
    #[default]
    Stamp,
    /// ICMP echo requests.
    Icmp,
}

const fn unspecified() -> IpAddr {
    IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

fn best_effort() -> Vec<Dscp> {
    vec![Dscp(0)]
}

const fn stamp_port() -> u16 {
    paths::stamp::PORT
}

const fn interval_ms() -> u32 {
    100
}

const fn misses() -> u32 {
    5
}

const fn window() -> u32 {
    100
}

const fn hold_s() -> u32 {
    10
}

const fn max_loss_percent() -> f64 {
    2.0
}

/// Most sessions of an instance.
const MOST_SESSIONS: usize = 50_000;

/// Most probes a second of an instance: 1 to 2 MB of them.
const MOST_A_SECOND: u64 = 10_000;

/// Most sessions between the same addresses.
const MOST_BETWEEN: usize = 256;

impl PathConfig {
    /// Time after which a probe is lost, in milliseconds: a second, or three intervals if that is longer.
    pub fn timeout_ms(&self) -> u32 {
        self.timeout_ms.unwrap_or(self.interval_ms.saturating_mul(3).max(1000))
    }

    /// The settings of its sessions.
    pub fn plan(&self) -> paths::Plan {
        let ns = |ms: u32| u64::from(ms) * 1_000_000;
        let bounds = paths::Bounds {
            // A percent has ten thousand parts of a million.
            loss_ppm: (self.max_loss_percent * 10_000.0) as u32,
            delay_ns: self.max_delay_ms.map(ns),
            jitter_ns: self.max_jitter_ms.map(ns),
        };
        paths::Plan {
            interval_ns: ns(self.interval_ms),
            timeout_ns: ns(self.timeout_ms()),
            misses: self.misses,
            window: self.window as usize,
            bounds,
            hold_ns: ns(self.hold_s.saturating_mul(1000)),
        }
    }

    /// The first of an uplink's keys that cannot be.
    fn wrong_uplink(&self) -> Option<(&'static str, String, &'static str)> {
        let Some(uplink) = &self.uplink else {
            return match (self.mark, self.translated || !self.translated_to.is_empty()) {
                (0, false) => None,
                (0, true) => Some(("translated", "true".into(), "false, or a path with an uplink")),
                (mark, _) => Some(("mark", format!("{mark:#x}"), "0, or a path with an uplink")),
            };
        };
        if self.tunnel.is_some() {
            let allowed = "either a tunnel, or an uplink whose packets leave in clear";
            return Some(("uplink", uplink.clone(), allowed));
        }
        if !self.translated && !self.translated_to.is_empty() {
            let value = format!("{} prefixes", self.translated_to.len());
            return Some(("translated_to", value, "none, or translated = true"));
        }
        let allowed = "an interface of 1 to 15 characters";
        (!valid_interface(uplink)).then(|| ("uplink", uplink.clone(), allowed))
    }

    /// The first value that cannot be: its key, itself, and what is allowed.
    fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let between = |key, value: u32, range: core::ops::RangeInclusive<u32>, allowed| {
            (!range.contains(&value)).then(|| (key, value.to_string(), allowed))
        };
        let is_unusable = |addr: IpAddr| addr.is_unspecified() || addr.is_multicast();
        let name = (!valid_name(&self.name)).then(|| {
            ("name", self.name.clone(), "1 to 64 letters, digits, '-' and '_', each name once")
        });
        let tunnel = self.tunnel.as_ref().filter(|tunnel| !valid_interface(tunnel));
        let dscp = match self.dscp.as_slice() {
            [] => Some(("dscp", "[]".to_owned(), "at least one class, as [\"BE\"]")),
            _ => None,
        };
        let twice = self
            .dscp
            .iter()
            .enumerate()
            .find(|(at, class)| self.dscp.iter().take(*at).any(|before| before == *class));
        let mode = self.mode == PathMode::Icmp;
        let loss = self.max_loss_percent;
        name.or_else(|| {
            tunnel.map(|tunnel| ("tunnel", tunnel.clone(), "an interface of 1 to 15 characters"))
        })
        .or_else(|| self.wrong_uplink())
        .or_else(|| {
            let allowed = "an address of this host; a path with an uplink may do without";
            let is_own = self.uplink.is_some() && self.source.is_unspecified();
            let is_wrong = is_unusable(self.source) && !is_own;
            is_wrong.then(|| ("source", self.source.to_string(), allowed))
        })
        .or_else(|| {
            let is_other = self.to.is_ipv4() != self.source.is_ipv4();
            let is_wrong = is_unusable(self.to)
                || self.to == self.source
                || is_other && !self.source.is_unspecified();
            let allowed = "an address of the far end, of the family of source";
            is_wrong.then(|| ("to", self.to.to_string(), allowed))
        })
        .or(dscp)
        .or_else(|| {
            let allowed = "each class once";
            twice.map(|(_, class)| ("dscp", class.0.to_string(), allowed))
        })
        .or_else(|| {
            let is_wrong = self.key_file.as_ref().is_some_and(|file| mode || !file.is_absolute());
            let file = self.key_file.iter().find(|_| is_wrong)?;
            let allowed = "an absolute path, and mode = \"stamp\"";
            Some(("key_file", file.display().to_string(), allowed))
        })
        .or_else(|| {
            let is_wrong = self.count_traffic && (mode || self.uplink.is_some());
            let allowed = "false with mode = \"icmp\" or an uplink";
            is_wrong.then(|| ("count_traffic", "true".to_owned(), allowed))
        })
        .or_else(|| between("port", self.port.into(), 1..=65_535, "1 to 65535"))
        .or_else(|| {
            between("interval_ms", self.interval_ms, 10..=60_000, "10 to 60000 milliseconds")
        })
        .or_else(|| {
            let is_wrong = self.timeout_ms() < self.interval_ms || !self.plan().is_rememberable();
            let allowed = "from interval_ms to 250 times as long";
            is_wrong.then(|| ("timeout_ms", self.timeout_ms().to_string(), allowed))
        })
        .or_else(|| between("misses", self.misses, 2..=100, "2 to 100 probes in a row"))
        .or_else(|| between("window", self.window, 20..=512, "20 to 512 probes"))
        .or_else(|| between("hold_s", self.hold_s, 0..=3600, "0 to 3600 seconds"))
        .or_else(|| {
            let is_wrong = !(0.0..=100.0).contains(&loss);
            is_wrong.then(|| ("max_loss_percent", loss.to_string(), "0 to 100"))
        })
        .or_else(|| {
            between(
                "max_delay_ms",
                self.max_delay_ms.unwrap_or(1),
                1..=60_000,
                "1 to 60000 milliseconds",
            )
        })
        .or_else(|| {
            between(
                "max_jitter_ms",
                self.max_jitter_ms.unwrap_or(1),
                1..=60_000,
                "1 to 60000 milliseconds",
            )
        })
        .or_else(|| {
            let bounds =
                [("max_delay_ms", self.max_delay_ms), ("max_jitter_ms", self.max_jitter_ms)];
            let beyond = |(_, bound): &(_, Option<u32>)| *bound > Some(self.timeout_ms());
            let (key, bound) = bounds.into_iter().find(beyond)?;
            let allowed = "at most timeout_ms, after which a probe counts as lost";
            Some((key, bound?.to_string(), allowed))
        })
    }
}

/// A value that cannot be: its key, itself, and what is allowed.
pub(super) type Wrong = (String, String, String);

/// Settings of other sections that uplinks need.
pub(super) struct Around {
    /// Bits of the marks that culvert gives.
    pub(super) own_marks: u32,
    /// True if translations of Linux's are learnt.
    pub(super) learns_nat: bool,
    /// True if the kernel owns SAs and policies.
    pub(super) is_beside_kernel: bool,
}

impl Around {
    /// The first key of an uplink that does not fit them.
    fn problem(&self, path: &PathConfig) -> Option<(&'static str, String, &'static str)> {
        let uplink = path.uplink.as_ref()?;
        if self.is_beside_kernel {
            let allowed = "a tunnel, or source = \"builtin\": policies of the kernel are not asked before its packets leave in clear";
            return Some(("uplink", uplink.clone(), allowed));
        }
        if path.mark & self.own_marks != 0 {
            let allowed = "a mark without bits of tun.mark and tun.judged_mark";
            return Some(("mark", format!("{:#x}", path.mark), allowed));
        }
        let allowed =
            "false, or nat.learn = \"conntrack\", by which Linux's translations are known";
        (path.translated && !self.learns_nat).then(|| ("translated", "true".into(), allowed))
    }
}

/// Of both sections the values that cannot be.
pub(super) fn problems(of_all: &PathsConfig, paths: &[PathConfig], around: &Around) -> Vec<Wrong> {
    let mut found = Vec::new();
    let mut add = |key: String, value: String, allowed: &str| {
        found.push((key, value, allowed.to_owned()));
    };
    let (mut names, mut classes_between) = (HashSet::new(), HashMap::new());
    for (at, path) in paths.iter().enumerate() {
        let key = |key| format!("path[{at}].{key}");
        let is_new = names.insert(path.name.as_str());
        if let Some((wrong, value, allowed)) = path.problem().or_else(|| around.problem(path)) {
            add(key(wrong), value, allowed);
        } else if !is_new {
            add(key("name"), path.name.clone(), "a name that no other path has");
        }
        let classes: &mut usize = classes_between.entry((path.source, path.to)).or_default();
        *classes += path.dscp.len();
        if *classes > MOST_BETWEEN {
            add(
                key("to"),
                path.to.to_string(),
                "at most 256 classes of all paths between two addresses",
            );
        }
    }
    let sessions: usize = paths.iter().map(|path| path.dscp.len()).sum();
    if sessions > MOST_SESSIONS {
        add("path".into(), sessions.to_string(), "at most 50000 classes of all paths");
    }
    let a_second =
        |path: &PathConfig| path.dscp.len() as u64 * 1000 / u64::from(path.interval_ms.max(1));
    let a_second: u64 = paths.iter().map(a_second).sum();
    if a_second > MOST_A_SECOND {
        let allowed = format!(
            "at most {MOST_A_SECOND} probes a second of all paths, and these are {a_second}: a longer interval_ms"
        );
        add("path".into(), String::new(), &allowed);
    }
    for (at, file) in of_all.key_files.iter().enumerate() {
        if !file.is_absolute() {
            add(format!("paths.key_files[{at}]"), file.display().to_string(), "an absolute path");
        }
    }
    if of_all.key_files.len() > MOST_KEYS {
        add("paths.key_files".into(), of_all.key_files.len().to_string(), "at most 8 files");
    }
    if of_all.port == 0 {
        add("paths.port".into(), "0".into(), "1 to 65535");
    }
    if !(1..=100_000).contains(&of_all.per_second) {
        add("paths.per_second".into(), of_all.per_second.to_string(), "1 to 100000");
    }
    if of_all.remove_copies && !of_all.reflector {
        let allowed =
            "reflector = true too: by its reflections senders learn that copies are removed";
        add("paths.remove_copies".into(), "true".into(), allowed);
    }
    if of_all.copies_wait_ms > 500 {
        let allowed = "0 to 500 milliseconds";
        add("paths.copies_wait_ms".into(), of_all.copies_wait_ms.to_string(), allowed);
    }
    let clear = of_all.clear.iter();
    for (key, value, allowed) in clear.flat_map(|clear| clear.problems(around.is_beside_kernel)) {
        add(key, value, &allowed);
    }
    let last = usize::from(of_all.source_port) + MOST_BETWEEN;
    if of_all.source_port < 1024 || last > 65_536 {
        add("paths.source_port".into(), of_all.source_port.to_string(), "1024 to 65280");
    } else if (usize::from(of_all.source_port)..last).contains(&usize::from(of_all.port)) {
        let allowed = "a port that is none of the 256 from paths.source_port on";
        add("paths.port".into(), of_all.port.to_string(), allowed);
    }
    found
}

/// Most keys of the reflector.
const MOST_KEYS: usize = 8;

#[cfg(test)]
mod tests {
    use crate::Config;

    const PATH: &str = "[[path]]\nname = \"a\"\nsource = \"10.0.0.1\"\nto = \"10.0.0.2\"\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, std::path::Path::new("culvert.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_has_what_is_usual() {
        let config = parse(PATH).unwrap();
        let path = &config.paths[0];
        let plan = path.plan();
        assert_eq!((path.interval_ms, path.timeout_ms(), path.port), (100, 1000, 862));
        assert_eq!((plan.interval_ns, plan.bounds.loss_ppm), (100_000_000, 20_000));
        assert!(!path.count_traffic);
        assert_eq!(path.dscp.iter().map(|class| class.0).collect::<Vec<_>>(), [0]);
        let slow = parse(&format!("{PATH}interval_ms = 1000\n")).unwrap();
        assert_eq!(slow.paths[0].timeout_ms(), 3000);
        assert!(!config.path_options.reflector && config.path_options.port == 862);
    }

    #[test]
    fn an_uplink_may_be_translated_where_translations_are_learnt() {
        let keys = "uplink = \"wan\"\nmark = 0x100\ntranslated = true\n";
        let config = parse(&format!("[nat]\nlearn = \"conntrack\"\n{PATH}{keys}")).unwrap();
        let path = &config.paths[0];
        assert_eq!((path.uplink.as_deref(), path.mark), (Some("wan"), 0x100));
        assert!(path.translated);
    }

    #[test]
    fn an_uplink_has_a_source_of_its_own() {
        for to in ["10.0.0.2", "2001:db8::2"] {
            let path = PATH.replace("source = \"10.0.0.1\"\n", "").replace("10.0.0.2", to);
            assert!(parse(&path).unwrap_err().contains("path[0].source"));
            let config = parse(&format!("{path}uplink = \"wan\"\n")).unwrap();
            assert!(config.paths[0].source.is_unspecified());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let of = |keys: &str| format!("{PATH}{keys}\n");
        let eighty: String = (0..80)
            .map(|n| {
                PATH.replace("\"a\"", &format!("\"p{n}\"")) + "dscp = [0, 10]\ninterval_ms = 10\n"
            })
            .collect();
        for (text, named) in [
            (PATH.replace("\"a\"", "\"\""), "path[0].name"),
            (format!("{PATH}{PATH}"), "path[1].name"),
            (of("tunnel = \"a/b\""), "path[0].tunnel"),
            (PATH.replace("10.0.0.2", "10.0.0.1"), "path[0].to"),
            (PATH.replace("10.0.0.2", "2001:db8::1"), "path[0].to"),
            (PATH.replace("10.0.0.1", "0.0.0.0"), "path[0].source"),
            (of("uplink = \"a/b\""), "path[0].uplink"),
            (of("tunnel = \"ipsec0\"\nuplink = \"wan\""), "either a tunnel, or an uplink"),
            (of("mark = 1"), "path[0].mark"),
            (of("translated = true"), "path[0].translated"),
            (of("uplink = \"wan\"\nmark = 0x10000001"), "tun.mark"),
            (of("uplink = \"wan\"\nmark = 1\ntranslated = true"), "nat.learn"),
            (format!("source = \"kernel\"\n{}", of("uplink = \"wan\"")), "builtin"),
            (of("uplink = \"wan\"\ntranslated_to = [\"10.9.0.0/24\"]"), "path[0].translated_to"),
            (of("dscp = []"), "path[0].dscp"),
            (of("dscp = [\"EF\", 46]"), "path[0].dscp"),
            (of("key_file = \"key\""), "path[0].key_file"),
            (of("key_file = \"/key\"\nmode = \"icmp\""), "path[0].key_file"),
            (of("count_traffic = true\nmode = \"icmp\""), "path[0].count_traffic"),
            (of("count_traffic = true\nuplink = \"wan\""), "path[0].count_traffic"),
            (of("port = 0"), "path[0].port"),
            (of("interval_ms = 9"), "path[0].interval_ms"),
            (of("timeout_ms = 99"), "path[0].timeout_ms"),
            (of("timeout_ms = 25400"), "path[0].timeout_ms"),
            (of("misses = 1"), "path[0].misses"),
            (of("window = 19"), "path[0].window"),
            (of("hold_s = 3601"), "path[0].hold_s"),
            (of("max_loss_percent = 101"), "path[0].max_loss_percent"),
            (of("max_delay_ms = 0"), "path[0].max_delay_ms"),
            (of("max_jitter_ms = 60001"), "path[0].max_jitter_ms"),
            (
                of("max_delay_ms = 1001"),
                "max_delay_ms = 1001: this cannot be\n  at most timeout_ms",
            ),
            (of("timeout_ms = 500\nmax_jitter_ms = 501"), "path[0].max_jitter_ms = 501"),
            (of("mode = \"bfd\""), "stamp, icmp"),
            (eighty, "probes a second"),
            ("[paths]\nkey_files = [\"key\"]\n".into(), "paths.key_files[0]"),
            ("[paths]\nper_second = 0\n".into(), "paths.per_second"),
            ("[paths]\nport = 0\n".into(), "paths.port"),
            ("[paths]\nremove_copies = true\n".into(), "paths.remove_copies"),
            ("[paths]\ncopies_wait_ms = 501\n".into(), "paths.copies_wait_ms"),
            ("[paths]\nport = 50000\n".into(), "paths.port"),
            ("[paths]\nsource_port = 65500\n".into(), "paths.source_port"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
