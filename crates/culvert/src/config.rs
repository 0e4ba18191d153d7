//! The configuration file: what Linux has no word for.
//!
//! Parsed once into valid types; an error names the file, the line and what would be right.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

use crate::cli::EngineChoice;

/// The longest interface name that Linux takes (IFNAMSIZ less the terminating zero).
const INTERFACE_NAME_MAX_LEN: usize = 15;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The instance's name; decides /run/culvert/NAME.
    #[serde(default = "default_name")]
    pub name: String,
    /// The interfaces to take over.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortConfig>,
    /// The private interface.
    #[serde(default)]
    pub tun: TunConfig,
    /// The tunnel interfaces.
    #[serde(default, rename = "tunnel")]
    pub tunnels: Vec<TunnelConfig>,
    /// The marks of packets that arrive at ports.
    #[serde(default, rename = "mark")]
    pub marks: Vec<MarkConfig>,
    /// The worker.
    #[serde(default)]
    pub worker: WorkerConfig,
    /// The guard.
    #[serde(default)]
    pub guard: GuardConfig,
    /// Crypto.
    #[serde(default)]
    pub crypto: CryptoConfig,
    /// Path MTUs.
    #[serde(default)]
    pub path_mtu: PathMtuConfig,
    /// Logs.
    #[serde(default)]
    pub log: LogConfig,
}

/// `[[port]]`: an interface to take over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// The interface's name.
    pub interface: String,
    /// How the XDP program is attached.
    #[serde(default)]
    pub mode: XdpMode,
    /// How many receive queues to take; all of the interface's when left out. Queues that are not
    /// taken stay with Linux.
    #[serde(default)]
    pub queues: Option<u32>,
}

/// How the XDP program is attached to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver where it can, generic otherwise; the log says which.
    #[default]
    Auto,
    /// In the driver, or an error.
    Native,
    /// In the stack: works on every interface, and is slow.
    Generic,
}

/// `[tun]`: the private interface between Linux and culvert, and how Linux finds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TunConfig {
    /// Its name.
    pub interface: String,
    /// Its MTU: what Linux may send into a tunnel without being told "too big".
    pub mtu: u32,
    /// The routing table that holds the protected prefixes.
    pub table: u32,
    /// The preference of the rule that looks there; below 220, strongSwan's own. Those before and
    /// after it are culvert's too.
    pub rule_preference: u32,
    /// The routing table that holds the prefixes that policies with a mark protect.
    pub marked_table: u32,
    /// The bits of the mark of cleartext that goes back to its port; 0 for none.
    pub mark: u32,
}

impl Default for TunConfig {
    fn default() -> Self {
        TunConfig {
            interface: "culvert0".into(),
            mtu: 1500,
            table: 219,
            rule_preference: 210,
            marked_table: 218,
            mark: 0x1000_0000,
        }
    }
}

/// `[[tunnel]]`: a tunnel interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelConfig {
    /// Its name.
    pub interface: String,
    /// The `if_id` of the policies and SAs that protect what is routed to it.
    pub if_id: u32,
    /// Its MTU in bytes.
    #[serde(default = "default_tunnel_mtu")]
    pub mtu: u32,
}

const fn default_tunnel_mtu() -> u32 {
    1400
}

/// `[[mark]]`: the mark of packets that arrive at a port. The first entry that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkConfig {
    /// The interface that they come in by; any when left out.
    #[serde(default)]
    pub interface: Option<String>,
    /// Their DSCP; any when left out.
    #[serde(default)]
    pub dscp: Option<Dscp>,
    /// Where they come from; anywhere when left out.
    #[serde(default)]
    pub src: Option<GuardPrefix>,
    /// Where they go; anywhere when left out.
    #[serde(default)]
    pub dst: Option<GuardPrefix>,
    /// The mark, not 0.
    pub mark: u32,
}

/// A code point of Differentiated Services, as a number or by its class: `46`, `"EF"`, `"AF41"`, `"CS1"`,
/// `"BE"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(pub u8);

impl Dscp {
    /// RFC 2474 §4.2.2, RFC 2597 §6, RFC 3246 §2.7; `BE` is the default class, as nftables has it.
    fn of_class(name: &str) -> Option<Dscp> {
        let name = name.to_ascii_uppercase();
        let digit = |byte: u8, most: u8| (b'0'..=b'0' + most).contains(&byte).then(|| byte - b'0');
        let value = match name.as_bytes() {
            b"BE" => 0,
            b"EF" => 46,
            [b'C', b'S', class] => digit(*class, 7)? << 3,
            [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
                digit(*class, 4)? << 3 | digit(*drop, 3)? << 1
            }
            _ => return None,
        };
        Some(Dscp(value))
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Class(String),
        }
        let dscp = match Written::deserialize(deserializer)? {
            Written::Number(number @ 0..=63) => Some(Dscp(number as u8)),
            Written::Number(_) => None,
            Written::Class(name) => Dscp::of_class(&name),
        };
        dscp.ok_or_else(|| {
            serde::de::Error::custom(
                "not a DSCP; write 0 to 63, or a class: \"BE\", \"EF\", \"CS0\" to \"CS7\", \
                 \"AF11\" to \"AF43\"",
            )
        })
    }
}

/// `[worker]`: the threads that move packets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerConfig {
    /// How many workers, or their cores; one for each receive queue of the port with the most, as far
    /// as there are cores, when left out.
    pub cpus: Option<Cpus>,
    /// The core of the only worker.
    pub cpu: Option<usize>,
    /// Cores of threads that encrypt and decrypt for the workers, one thread each; none when left out.
    /// The first serves worker 0, the second worker 1, and round again.
    pub crypto_cpus: Vec<usize>,
    /// What a worker does when no packets come.
    pub poll: PollMode,
    /// Entries of each worker's flow cache; each takes some 160 bytes.
    pub flows: u32,
    /// Buffers for packets; each takes `frame_bytes`.
    pub frames: u32,
    /// Bytes of one buffer, 2048 or 4096; at least the largest MTU plus 512.
    pub frame_bytes: u32,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            cpus: None,
            cpu: None,
            crypto_cpus: Vec::new(),
            poll: PollMode::Adaptive,
            flows: dataplane::DEFAULT_FLOWS as u32,
            frames: 16384,
            frame_bytes: 2048,
        }
    }
}

impl WorkerConfig {
    /// How many workers, or on which cores, if the file says.
    pub fn cpus(&self) -> Option<Cpus> {
        self.cpus.clone().or_else(|| self.cpu.map(|core| Cpus::Cores(vec![core])))
    }

    /// The keys that take effect only with a restart.
    fn fixed(&self) -> WorkerConfig {
        WorkerConfig { cpus: None, cpu: None, crypto_cpus: Vec::new(), ..self.clone() }
    }
}

/// How many workers there are, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// So many, which Linux puts on cores.
    Count(usize),
    /// One for each core that is named, pinned to it; a core may be named more than once.
    Cores(Vec<usize>),
}

impl Cpus {
    /// The most workers.
    pub const MOST: usize = dataplane::MAX_WORKERS;

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Cpus::Count(count) => *count,
            Cpus::Cores(cores) => cores.len(),
        }
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Cpus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of workers or a list of cores, such as 4 or [0, 2, 3]")
            }

            fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Cpus, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(count), &self);
                usize::try_from(count).map(Cpus::Count).map_err(wrong)
            }

            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Cpus, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Unsigned(count), &self);
                usize::try_from(count).map(Cpus::Count).map_err(wrong)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Cpus, A::Error> {
                let mut cores = Vec::new();
                while let Some(core) = seq.next_element()? {
                    cores.push(core);
                }
                Ok(Cpus::Cores(cores))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// The most crypto threads.
const MAX_CRYPTO_CPUS: usize = 32;

/// What the worker does when no packets come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PollMode {
    /// Sleeps, but not while packets come every few microseconds.
    #[default]
    Adaptive,
    /// Never sleeps: uses a whole core.
    Always,
}

impl From<PollMode> for dataplane::Polling {
    fn from(mode: PollMode) -> Self {
        match mode {
            PollMode::Adaptive => Self::Adaptive,
            PollMode::Always => Self::Always,
        }
    }
}

/// `[guard]`: what stays in the kernel when the daemon is gone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// Whether protected selectors are blocked in the kernel at all.
    pub enabled: bool,
    /// Destination prefixes that are blocked from boot on (`culvert guard apply`), before any IKE
    /// daemon has told culvert its policies. Traffic to and from them needs protection.
    pub prefixes: Vec<GuardPrefix>,
}

impl Default for GuardConfig {
    fn default() -> Self {
        GuardConfig { enabled: true, prefixes: Vec::new() }
    }
}

/// An address prefix in the configuration: `10.2.0.0/16`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuardPrefix(pub policy::Prefix);

impl<'de> Deserialize<'de> for GuardPrefix {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is not an address prefix; write for instance `10.2.0.0/16` or \
                 `2001:db8::/32`"
            ))
        };
        let (addr, len) = text.split_once('/').ok_or_else(wrong)?;
        let addr: std::net::IpAddr = addr.parse().map_err(|_| wrong())?;
        let len: u8 = len.parse().map_err(|_| wrong())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        if len > most {
            return Err(wrong());
        }
        Ok(GuardPrefix(policy::Prefix { addr, len }))
    }
}

/// `[crypto]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CryptoConfig {
    /// The engine.
    pub engine: EngineChoice,
    /// Whether SAs with DES, 3DES or MD5 are taken, for peers that have nothing better.
    pub allow_weak: bool,
}

/// `[path_mtu]`: what the paths to peers carry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathMtuConfig {
    /// Whether ICMP errors about culvert's own ESP are believed.
    pub learn: bool,
    /// Seconds until what was learnt is forgotten.
    pub lifetime_s: u32,
    /// Whether the SYNs of TCP connections through SAs are told what fits.
    pub clamp_mss: bool,
}

impl Default for PathMtuConfig {
    fn default() -> Self {
        PathMtuConfig { learn: true, lifetime_s: 600, clamp_mss: false }
    }
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Level: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `xfrm=debug,info`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { level: "info".into() }
    }
}

fn default_name() -> String {
    "default".into()
}

/// What is wrong with a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}\n  write one, or name another with --config; an empty file is valid")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or a key or value is not known.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line, column and an excerpt.
        message: String,
    },
    /// A value is not possible.
    #[error("{path}: {problem}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Which key, and what would be right.
        problem: Problem,
    },
}

/// A value that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, with its table: `port[1].interface`.
    pub key: String,
    /// What it says.
    pub value: String,
    /// What would be right.
    pub allowed: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}: {}", self.key, self.value, self.allowed)
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it cannot be read, is not valid TOML, has unknown keys, or values that cannot be.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::parse(&text, path)
    }

    /// Checks a text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|e| ConfigError::Syntax {
            path: path.into(),
            message: e.to_string().trim_end().to_owned(),
        })?;
        match config.problem() {
            Some(problem) => Err(ConfigError::Value { path: path.into(), problem }),
            None => Ok(config),
        }
    }

    /// The parts in which `next` differs and which a running daemon does not follow.
    pub fn fixed_changes(&self, next: &Config) -> Vec<&'static str> {
        // A new part has to be placed on one side or the other.
        let Config {
            name,
            ports: _,
            tun,
            tunnels: _,
            marks: _,
            worker,
            guard: _,
            crypto,
            path_mtu: _,
            log,
        } = self;
        [
            ("name", *name != next.name),
            ("[tun]", *tun != next.tun),
            ("[worker]", worker.fixed() != next.worker.fixed()),
            ("[crypto]", *crypto != next.crypto),
            ("[log]", *log != next.log),
        ]
        .into_iter()
        .filter_map(|(part, differs)| differs.then_some(part))
        .collect()
    }

    /// The first value that cannot be.
    fn problem(&self) -> Option<Problem> {
        let problem = |key: String, value: &dyn fmt::Display, allowed| {
            Some(Problem { key, value: value.to_string(), allowed })
        };
        if !valid_name(&self.name) {
            return problem(
                "name".into(),
                &self.name,
                "a name has 1 to 64 letters, digits, '-' and '_': it becomes a directory's",
            );
        }
        let mut seen = HashSet::new();
        for (i, port) in self.ports.iter().enumerate() {
            if !valid_interface(&port.interface) {
                return problem(
                    format!("port[{i}].interface"),
                    &port.interface,
                    "an interface's name has 1 to 15 characters, without '/' and spaces",
                );
            }
            if !seen.insert(port.interface.as_str()) {
                return problem(
                    format!("port[{i}].interface"),
                    &port.interface,
                    "the interface is named twice; each can be one port",
                );
            }
            if let Some(0 | 65..) = port.queues {
                return problem(
                    format!("port[{i}].queues"),
                    &port.queues.unwrap_or_default(),
                    "1 to 64 queues, or leave it out for all of them",
                );
            }
        }
        if !valid_interface(&self.tun.interface) || seen.contains(self.tun.interface.as_str()) {
            return problem(
                "tun.interface".into(),
                &self.tun.interface,
                "1 to 15 characters, without '/' and spaces, and not one of the ports",
            );
        }
        for (i, rule) in self.marks.iter().enumerate() {
            let names = |prefix: &Option<GuardPrefix>| prefix.map(|p| p.0.addr.is_ipv4());
            if rule.mark == 0 {
                let allowed = "1 to 4294967295; packets that no entry matches have none";
                return problem(format!("mark[{i}].mark"), &rule.mark, allowed);
            }
            if let Some(name) = rule.interface.as_ref().filter(|name| !valid_interface(name)) {
                let allowed = "an interface's name has 1 to 15 characters, without '/' and spaces";
                return problem(format!("mark[{i}].interface"), name, allowed);
            }
            if let (Some(src), Some(dst)) = (names(&rule.src), names(&rule.dst))
                && src != dst
            {
                let allowed = "of the family of src, or the entry matches nothing";
                let dst = rule.dst.map_or(String::new(), |p| p.0.addr.to_string());
                return problem(format!("mark[{i}].dst"), &dst, allowed);
            }
        }
        if let Some(problem) = self.tunnel_problem(&mut seen) {
            return Some(problem);
        }
        if !(1280..=9000).contains(&self.tun.mtu) {
            return problem("tun.mtu".into(), &self.tun.mtu, "between 1280 and 9000");
        }
        let is_linux_s = |table: u32| table == 0 || (253..=255).contains(&table);
        if is_linux_s(self.tun.table) {
            return problem(
                "tun.table".into(),
                &self.tun.table,
                "a table of culvert's own: not 0, and not 253 to 255, which are Linux's",
            );
        }
        if is_linux_s(self.tun.marked_table) || self.tun.marked_table == self.tun.table {
            return problem(
                "tun.marked_table".into(),
                &self.tun.marked_table,
                "a table of culvert's own: not 0, not 253 to 255, and not tun.table",
            );
        }
        if !(2..219).contains(&self.tun.rule_preference) {
            return problem(
                "tun.rule_preference".into(),
                &self.tun.rule_preference,
                "2 to 218: it and the one after it must come before strongSwan's rule 220",
            );
        }
        if !(1024..=1 << 20).contains(&self.worker.flows) {
            return problem("worker.flows".into(), &self.worker.flows, "1024 to 1048576");
        }
        if self.worker.cpu.is_some() && self.worker.cpus.is_some() {
            return problem(
                "worker.cpu".into(),
                &self.worker.cpu.unwrap_or_default(),
                "leave it out where worker.cpus is",
            );
        }
        let cpus = self.worker.cpus();
        if let Some(cpus) = &cpus
            && !(1..=Cpus::MOST).contains(&cpus.count())
        {
            const { assert!(Cpus::MOST == 64) };
            return problem(
                "worker.cpus".into(),
                &cpus.count(),
                "1 to 64 workers: a number, or a list of so many cores",
            );
        }
        let crypto = &self.worker.crypto_cpus;
        if crypto.len() > MAX_CRYPTO_CPUS {
            return problem("worker.crypto_cpus".into(), &crypto.len(), "at most 32 cores");
        }
        let taken: &[usize] = match &cpus {
            Some(Cpus::Cores(cores)) => cores,
            _ => &[],
        };
        let is_taken = |(n, cpu): (usize, &usize)| {
            taken.contains(cpu) || crypto.iter().take(n).any(|other| other == cpu)
        };
        if let Some(n) = crypto.iter().enumerate().position(is_taken) {
            let allowed = "cores that differ from one another and from those of worker.cpus";
            return problem("worker.crypto_cpus".into(), &crypto.get(n).unwrap_or(&0), allowed);
        }
        if !(1..=86_400).contains(&self.path_mtu.lifetime_s) {
            return problem(
                "path_mtu.lifetime_s".into(),
                &self.path_mtu.lifetime_s,
                "1 to 86400 seconds",
            );
        }
        if ![2048, 4096].contains(&self.worker.frame_bytes) {
            return problem("worker.frame_bytes".into(), &self.worker.frame_bytes, "2048 or 4096");
        }
        if !(1024..=1_048_576).contains(&self.worker.frames)
            || !self.worker.frames.is_power_of_two()
        {
            return problem(
                "worker.frames".into(),
                &self.worker.frames,
                "a power of two from 1024 to 1048576",
            );
        }
        None
    }
}

impl Config {
    /// The first value of a tunnel interface that cannot be; `seen` are the ports.
    fn tunnel_problem<'c>(&'c self, seen: &mut HashSet<&'c str>) -> Option<Problem> {
        seen.insert(&self.tun.interface);
        let most = crate::daemon::MAX_TUNNELS;
        if self.tunnels.len() > most {
            const { assert!(crate::daemon::MAX_TUNNELS == 64) };
            let value = self.tunnels.len().to_string();
            return Some(Problem { key: "tunnel".into(), value, allowed: "at most 64 of them" });
        }
        let mut ids = HashSet::new();
        for (i, tunnel) in self.tunnels.iter().enumerate() {
            let problem = |key: &str, value: String, allowed| {
                Some(Problem { key: format!("tunnel[{i}].{key}"), value, allowed })
            };
            let name = tunnel.interface.as_str();
            if !valid_interface(name) || !seen.insert(name) {
                let allowed = "1 to 15 characters, without '/' and spaces, and not a port, the \
                               private interface or another tunnel interface";
                return problem("interface", name.into(), allowed);
            }
            if tunnel.if_id == 0 || !ids.insert(tunnel.if_id) {
                let allowed = "1 to 4294967295, and another one for each tunnel interface";
                return problem("if_id", tunnel.if_id.to_string(), allowed);
            }
            if !(1280..=9000).contains(&tunnel.mtu) {
                return problem("mtu", tunnel.mtu.to_string(), "between 1280 and 9000");
            }
        }
        None
    }
}

/// Whether a name can be an instance's, and so a directory's.
pub fn valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn valid_interface(name: &str) -> bool {
    (1..=INTERFACE_NAME_MAX_LEN).contains(&name.len())
        && !name.contains(['/', ':'])
        && !name.contains(char::is_whitespace)
        && name != "."
        && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("culvert.toml"))
    }

    #[test]
    fn empty_is_valid() {
        let config = parse("").unwrap();
        assert_eq!(config.name, "default");
        assert!(config.guard.enabled);
    }

    #[test]
    fn what_a_running_daemon_does_not_follow() {
        let rows: &[(&str, &[&str])] = &[
            ("", &[]),
            ("[[port]]\ninterface = \"wan\"\n[guard]\nenabled = false\n", &[]),
            ("name = \"gwa\"\n", &["name"]),
            ("[tun]\nmtu = 1400\n", &["[tun]"]),
            ("[worker]\ncpus = 3\ncrypto_cpus = [1]\n", &[]),
            ("[worker]\ncpus = 3\nframes = 1024\n", &["[worker]"]),
            ("[worker]\npoll = \"adaptive\"\n", &[]),
            ("[worker]\npoll = \"always\"\n", &["[worker]"]),
            ("[path_mtu]\nclamp_mss = true\n", &[]),
            ("[crypto]\nengine = \"openssl\"\n", &["[crypto]"]),
            ("[crypto]\nallow_weak = true\n", &["[crypto]"]),
            ("[log]\nlevel = \"debug\"\n", &["[log]"]),
            ("name = \"gwa\"\n[log]\nlevel = \"debug\"\n", &["name", "[log]"]),
        ];
        let running = parse("").unwrap();
        for (text, expected) in rows {
            assert_eq!(running.fixed_changes(&parse(text).unwrap()), *expected, "{text}");
        }
    }

    #[test]
    fn full_example() {
        let config = parse(
            "name = \"gwa\"\n[[port]]\ninterface = \"wan\"\nmode = \"generic\"\nqueues = 2\n\
             [[port]]\ninterface = \"lan\"\n[tun]\nmtu = 1400\n[worker]\ncpu = 1\npoll = \"always\"\n\
             [guard]\nprefixes = [\"10.2.0.0/16\", \"2001:db8::/32\"]\n\
             [path_mtu]\nlearn = false\nlifetime_s = 60\nclamp_mss = true\n\
             [crypto]\nengine = \"openssl\"\n[log]\nlevel = \"debug\"\n",
        )
        .unwrap();
        assert_eq!(config.ports[0].mode, XdpMode::Generic);
        assert_eq!(config.ports[1].mode, XdpMode::Auto);
        assert_eq!(config.worker.poll, PollMode::Always);
        assert_eq!(config.guard.prefixes.len(), 2);
        assert_eq!(config.crypto.engine, EngineChoice::Openssl);
        assert!(!config.crypto.allow_weak);
        let path_mtu = PathMtuConfig { learn: false, lifetime_s: 60, clamp_mss: true };
        assert_eq!(config.path_mtu, path_mtu);
        assert!(!parse("").unwrap().path_mtu.clamp_mss, "off unless asked for");
    }

    /// Each row: a text, and what the error must name.
    #[test]
    fn every_error_names_the_place() {
        let rows: &[(&str, &[&str])] = &[
            ("name = \"a/b\"", &["culvert.toml", "name", "a/b", "letters"]),
            ("name = 3", &["culvert.toml", "line 1", "string"]),
            ("colour = 1", &["unknown field `colour`", "line 1"]),
            ("[[port]]\nmode = \"auto\"", &["missing field `interface`"]),
            ("[path_mtu]\nlifetime_s = 0", &["path_mtu.lifetime_s", "86400"]),
            ("[[port]]\ninterface = \"wan\"\nmode = \"fast\"", &["line 3", "native", "generic"]),
            ("[[port]]\ninterface = \"seventeen-letters\"", &["port[0].interface", "15"]),
            (
                "[[port]]\ninterface = \"a\"\n[[port]]\ninterface = \"a\"",
                &["port[1].interface", "twice"],
            ),
            ("[[port]]\ninterface = \"a\"\nqueues = 0", &["port[0].queues", "1 to 64"]),
            ("[tun]\nmtu = 100", &["tun.mtu", "1280"]),
            ("[tun]\ntable = 254", &["tun.table"]),
            ("[tun]\nrule_preference = 219", &["tun.rule_preference", "218"]),
            ("[tun]\nrule_preference = 1", &["tun.rule_preference", "2"]),
            ("[worker]\nframe_bytes = 3000", &["worker.frame_bytes", "4096"]),
            ("[worker]\nflows = 100", &["worker.flows", "1024"]),
            ("[worker]\ncpu = 1\ncrypto_cpus = [2, 1]", &["worker.crypto_cpus", "worker.cpus"]),
            ("[worker]\ncpus = [0, 1]\ncrypto_cpus = [2, 1]", &["worker.crypto_cpus", "differ"]),
            ("[worker]\ncpus = 0", &["worker.cpus", "1 to 64"]),
            ("[worker]\ncpus = []", &["worker.cpus", "1 to 64"]),
            ("[worker]\ncpus = 65", &["worker.cpus", "65", "1 to 64"]),
            ("[worker]\ncpus = -1", &["line 2", "a list of cores"]),
            ("[worker]\ncpus = \"all\"", &["line 2", "a number of workers", "[0, 2, 3]"]),
            ("[worker]\ncpus = [0, -3]", &["line 2", "-3"]),
            ("[worker]\ncpus = 2\ncpu = 1", &["worker.cpu", "worker.cpus"]),
            ("[worker]\ncrypto_cpus = [2, 3, 2]", &["worker.crypto_cpus", "differ"]),
            ("[worker]\npoll = \"never\"", &["line 2", "adaptive", "always"]),
            ("[worker]\nframes = 1000", &["worker.frames", "power of two"]),
            ("[guard]\nprefixes = [\"10.2.0.0\"]", &["line 2", "10.2.0.0", "/16"]),
            ("[guard]\nprefixes = [\"10.2.0.0/33\"]", &["line 2", "10.2.0.0/33"]),
            ("[crypto]\nengine = \"qat\"", &["line 2", "ipsec-mb"]),
            ("[crypto]\nallow_weak = 1", &["line 2", "boolean"]),
            ("name = ", &["line 1"]),
        ];
        for (text, expected) in rows {
            let error = parse(text).expect_err(text).to_string();
            for part in *expected {
                assert!(error.contains(part), "{text:?}: {part:?} not in: {error}");
            }
        }
    }

    #[test]
    fn workers_by_number_by_core_and_by_the_older_key() {
        let cpus = |text: &str| parse(&format!("[worker]\n{text}")).unwrap().worker.cpus();
        assert_eq!(cpus(""), None);
        assert_eq!(cpus("cpus = 4"), Some(Cpus::Count(4)));
        assert_eq!(cpus("cpus = [0, 2, 2]"), Some(Cpus::Cores(vec![0, 2, 2])));
        assert_eq!(cpus("cpu = 3"), Some(Cpus::Cores(vec![3])));
    }

    /// A text that is nearly right, with some of its characters changed, cut or doubled.
    fn nearly_right() -> impl Strategy<Value = String> {
        const TEXT: &str = "name = \"gwa\"\n[[port]]\ninterface = \"wan\"\nqueues = 2\n\
            [tun]\nmtu = 1400\n[guard]\nprefixes = [\"10.2.0.0/16\", \"2001:db8::/32\"]\n\
            [crypto]\nengine = \"openssl\"\n[worker]\npoll = \"always\"\n";
        let edit = (0..TEXT.len(), 0..4u8, any::<char>());
        proptest::collection::vec(edit, 1..6).prop_map(|edits| {
            let mut text: Vec<char> = TEXT.chars().collect();
            for (at, how, with) in edits {
                let Some(last) = text.len().checked_sub(1) else { break };
                let at = at.min(last);
                match how {
                    0 => text[at] = with,
                    1 => drop(text.remove(at)),
                    2 => text.insert(at, text[at]),
                    _ => text.truncate(at.max(1)),
                }
            }
            text.into_iter().collect()
        })
    }

    proptest! {
        #[test]
        fn any_text_is_valid_or_refused_with_the_file_named(
            text in prop_oneof![nearly_right(), "\\PC*"],
        ) {
            match parse(&text) {
                Ok(config) => prop_assert!(config.problem().is_none()),
                Err(error) => prop_assert!(error.to_string().contains("culvert.toml")),
            }
        }
    }

    #[test]
    fn missing_file_is_named() {
        let error = Config::load(Path::new("/nonexistent/c.toml")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/c.toml") && error.contains("--config"));
    }
}
