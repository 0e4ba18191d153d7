//! The configuration file: what Linux has no word for.
//!
//! Parsed once into valid types; an error names the file, the line and what would be right.
//!
//! | Module           | What it knows                                  |
//! |------------------|------------------------------------------------|
//! | this one         | the file, its parts, and how reading it fails  |
//! | `worker`         | `[worker]`                                     |
//! | `device`         | `[device.NAME]`                                |
//! | `gtpu`           | `[[gtpu]]`                                     |
//! | `iptfs`          | `[[iptfs]]`                                    |
//! | `limit`, `limit_values` | `[[limit]]`                             |
//! | `marks`          | `[[mark]]`                                     |
//! | `vlan`           | `[[vlan]]`                                     |
//! | `port`           | `[[port]]`                                     |
//! | `memif`          | `[[port]]` of the kind `memif`                 |
//! | `nat`            | `[nat]`                                        |
//! | `srv6`           | `[srv6]`, `[[sid]]`                            |
//! | `security`       | `[security]`                                   |
//! | `tunnel_headers` | `[tunnel_headers]`                             |
//! | `prefix`         | how an address prefix is written               |
//! | `check`          | which values cannot be                         |
//! | `schema`         | tests: every key is in the example and in the reference |

mod check;
mod device;
mod gtpu;
mod iptfs;
mod limit;
mod limit_shape;
mod limit_values;
mod marks;
mod memif;
mod nat;
mod port;
mod prefix;
#[cfg(test)]
mod schema;
mod security;
mod srv6;
mod tunnel;
mod tunnel_headers;
mod vlan;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

pub use self::device::{BusyBy, DeviceConfig, DeviceKind, PlacementChoice};
pub use self::gtpu::{GtpuConfig, GtpuOtherwise};
pub use self::iptfs::{IptfsConfig, IptfsRates};
pub use self::limit::LimitConfig;
pub use self::limit_values::{Burst, Rate};
pub use self::marks::MarkConfig;
pub use self::memif::{MemifConfig, MemifRole};
pub use self::nat::NatConfig;
use self::port::{Port, PortSection};
pub use self::port::{PortConfig, Sockets, XdpMode};
pub use self::prefix::AddressPrefix;
pub use self::security::SecurityConfig;
pub use self::srv6::{SidConfig, Srv6Config};
pub use self::tunnel::{TunnelConfig, or_any};
pub use self::tunnel_headers::TunnelHeadersConfig;
pub use self::vlan::VlanConfig;
pub use self::worker::{Cpus, WorkerConfig};
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
    /// Who owns SAs and policies.
    #[serde(default)]
    pub source: SourceChoice,
    /// The ports, as they are written.
    #[serde(default, rename = "port")]
    sections: Vec<PortSection>,
    /// The interfaces to take over.
    #[serde(skip)]
    pub ports: Vec<PortConfig>,
    /// The applications that share memory.
    #[serde(skip)]
    pub memifs: Vec<MemifConfig>,
    /// The private interface.
    #[serde(default)]
    pub tun: TunConfig,
    /// The tunnel interfaces.
    #[serde(default, rename = "tunnel")]
    pub tunnels: Vec<TunnelConfig>,
    /// The marks of packets that arrive at ports.
    #[serde(default, rename = "mark")]
    pub marks: Vec<MarkConfig>,
    /// The priorities of VLANs.
    #[serde(default, rename = "vlan")]
    pub vlans: Vec<VlanConfig>,
    /// Rate limits.
    #[serde(default, rename = "limit")]
    pub limits: Vec<LimitConfig>,
    /// Whose GTP-U is whose.
    #[serde(default)]
    pub gtpu: Vec<GtpuConfig>,
    /// Constant rates of IP-TFS.
    #[serde(default)]
    pub iptfs: Vec<IptfsConfig>,
    /// The worker.
    #[serde(default)]
    pub worker: WorkerConfig,
    /// The guard.
    #[serde(default)]
    pub guard: GuardConfig,
    /// The kernel as the owner of SAs and policies.
    #[serde(default)]
    pub kernel: KernelConfig,
    /// Crypto.
    #[serde(default)]
    pub crypto: CryptoConfig,
    /// Offload devices, by their names.
    #[serde(default, rename = "device")]
    pub devices: BTreeMap<String, DeviceConfig>,
    /// The headers of tunnels.
    #[serde(default)]
    pub tunnel_headers: TunnelHeadersConfig,
    /// NAT of Linux's.
    #[serde(default)]
    pub nat: NatConfig,
    /// SRv6.
    #[serde(default)]
    pub srv6: Srv6Config,
    /// Segments of this host that Linux does not have.
    #[serde(default, rename = "sid")]
    pub sids: Vec<SidConfig>,
    /// Path MTUs.
    #[serde(default)]
    pub path_mtu: PathMtuConfig,
    /// What the daemon may do.
    #[serde(default)]
    pub security: SecurityConfig,
    /// Logs.
    #[serde(default)]
    pub log: LogConfig,
}

/// Who owns SAs and policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceChoice {
    /// The kernel where it has SAs when the daemon starts, and none are saved; else the daemon.
    #[default]
    Auto,
    /// The daemon: IKE daemons and `ip xfrm` run under `culvert exec`.
    Builtin,
    /// The kernel: IKE daemons and `ip xfrm` know nothing of culvert.
    Kernel,
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
    /// Beside the kernel: the bits of the mark of what comes in by the interface; the kernel's IPv6 policies
    /// let it pass.
    pub judged_mark: u32,
    /// Packets of this host that go to the interface raise acquires before a packet filter can drop them.
    pub early_acquire: bool,
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
            judged_mark: 0x2000_0000,
            early_acquire: false,
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
    pub prefixes: Vec<AddressPrefix>,
}

impl Default for GuardConfig {
    fn default() -> Self {
        GuardConfig { enabled: true, prefixes: Vec::new() }
    }
}

/// `[kernel]`: what is taken from a kernel that owns SAs and policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelConfig {
    /// Firewalls that packets of the fast path would pass by.
    pub firewall: Firewall,
}

/// What becomes of policies whose packets a firewall of Linux's would see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firewall {
    /// They stay with the kernel.
    #[default]
    Respect,
    /// They are taken; the firewall sees no packet of theirs.
    Bypass,
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
    /// Level: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `culvert::daemon=debug,info`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig { level: "info".into() }
    }
}

/// The instance without --name, and without `name` in its configuration.
pub const DEFAULT_NAME: &str = "default";

fn default_name() -> String {
    DEFAULT_NAME.into()
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
    /// The command line names another instance.
    #[error(
        "--name {asked}: {path} has name = {name:?}, which counts; write name = {asked:?} there"
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// Its name.
        name: String,
        /// That of the command line.
        asked: String,
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

/// The parser's message, with what would be right where its words do not say it.
fn explained(error: &toml::de::Error) -> String {
    let text = error.to_string().trim_end().to_owned();
    let hint = if error.message().starts_with("invalid type: map, expected a sequence") {
        "\n  there may be several of these tables: write [[port]], with two brackets"
    } else if error.message().ends_with("expected a sequence") {
        "\n  a list is wanted: [\"...\", \"...\"]"
    } else {
        ""
    };
    text + hint
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

    /// The same for the instance that the command line names. The file's own name counts: another one is a mistake.
    ///
    /// # Errors
    /// As [`Config::load`], and [`ConfigError::Name`].
    pub fn load_as(path: &Path, asked: &str) -> Result<Config, ConfigError> {
        let config = Config::load(path)?;
        if asked != DEFAULT_NAME && asked != config.name {
            let (path, name, asked) = (path.into(), config.name, asked.to_owned());
            return Err(ConfigError::Name { path, name, asked });
        }
        Ok(config)
    }

    /// Checks a text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text)
            .map_err(|e| ConfigError::Syntax { path: path.into(), message: explained(&e) })?;
        let problem = config.sort_ports().err();
        match problem.or_else(|| config.problem()) {
            Some(problem) => Err(ConfigError::Value { path: path.into(), problem }),
            None => Ok(config),
        }
    }

    /// The interfaces of the ports.
    pub fn port_names(&self) -> BTreeSet<String> {
        let memifs = self.memifs.iter().map(|memif| memif.interface.clone());
        self.ports.iter().map(|port| port.interface.clone()).chain(memifs).collect()
    }

    /// Sorts the ports by their kind.
    fn sort_ports(&mut self) -> Result<(), Problem> {
        for (number, section) in self.sections.drain(..).enumerate() {
            let problem = |(key, value, allowed)| Problem {
                key: format!("port[{number}].{key}"),
                value,
                allowed,
            };
            match section.into_kind().map_err(problem)? {
                Port::Interface(port) => self.ports.push(port),
                Port::Memif(memif) => self.memifs.push(memif),
            }
        }
        Ok(())
    }

    /// The parts in which `next` differs and which a running daemon does not follow.
    pub fn fixed_changes(&self, next: &Config) -> Vec<&'static str> {
        // A new part has to be placed on one side or the other.
        let Config {
            name,
            source,
            sections: _,
            ports: _,
            memifs: _,
            tun,
            tunnels: _,
            marks: _,
            vlans: _,
            limits: _,
            gtpu: _,
            iptfs,
            worker,
            guard: _,
            kernel,
            crypto,
            devices,
            tunnel_headers,
            nat,
            srv6: _,
            sids: _,
            path_mtu: _,
            security,
            log,
        } = self;
        [
            ("name", *name != next.name),
            ("source", *source != next.source),
            ("[tun]", *tun != next.tun),
            ("[[iptfs]]", *iptfs != next.iptfs),
            ("[worker]", worker.fixed() != next.worker.fixed()),
            ("[kernel]", *kernel != next.kernel),
            ("[crypto]", *crypto != next.crypto),
            ("[device]", *devices != next.devices),
            ("[tunnel_headers]", *tunnel_headers != next.tunnel_headers),
            ("[nat]", *nat != next.nat),
            ("[security]", *security != next.security),
            ("[log]", *log != next.log),
        ]
        .into_iter()
        .filter_map(|(part, differs)| differs.then_some(part))
        .collect()
    }
}

impl Config {
    /// What can be, and does not do what it is there for, as far as the file alone tells; for people.
    pub fn warnings(&self) -> Vec<String> {
        match self.sids.is_empty() {
            true => Vec::new(),
            false => self.srv6.closed(|_| true).collect(),
        }
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
    fn what_the_parser_does_not_say_is_said() {
        let wrong = |text: &str| parse(text).unwrap_err().to_string();
        assert!(wrong("[port]\ninterface = \"wan\"\n").contains("write [[port]]"));
        assert!(wrong("[guard]\nprefixes = \"10.2.0.0/16\"\n").contains("a list is wanted"));
        // A word that is no level would be taken for a part of the program, and silence all others.
        let level = |level: &str| parse(&format!("[log]\nlevel = {level:?}\n"));
        assert!(level("verbose").unwrap_err().to_string().contains("log.level = \"verbose\""));
        assert!(level("info,loud").is_err() && level("culvert::daemon=loud").is_err());
        for right in ["debug", "WARN", "off", "xfrm=debug,info", "culvert::daemon=trace"] {
            assert!(level(right).is_ok(), "{right}");
        }
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
            ("[[iptfs]]\nrate_kbit_s = 1\n", &["[[iptfs]]"]),
            ("[worker]\ncpus = 3\ncrypto_cpus = [1]\n", &[]),
            ("[worker]\ncpus = 3\nframes = 1024\n", &["[worker]"]),
            ("[worker]\npoll = \"adaptive\"\n", &[]),
            ("[worker]\npoll = \"always\"\n", &["[worker]"]),
            ("[path_mtu]\nclamp_mss = true\n", &[]),
            ("[kernel]\nfirewall = \"bypass\"\n", &["[kernel]"]),
            ("[crypto]\nengine = \"openssl\"\n", &["[crypto]"]),
            ("[crypto]\nallow_weak = true\n", &["[crypto]"]),
            (
                "[[port]]\ninterface = \"wan\"\n[device.nic0]\nkind = \"nic-model\"\nport = \"wan\"\n",
                &["[device]"],
            ),
            ("[tunnel_headers]\ndf = \"set\"\n", &["[tunnel_headers]"]),
            ("[security]\nseccomp = false\n", &["[security]"]),
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
        assert_eq!(config.worker.poll, worker::PollMode::Always);
        assert_eq!(config.guard.prefixes.len(), 2);
        assert_eq!(config.crypto.engine, EngineChoice::Openssl);
        assert!(!config.crypto.allow_weak);
        let path_mtu = PathMtuConfig { learn: false, lifetime_s: 60, clamp_mss: true };
        assert_eq!(config.path_mtu, path_mtu);
        assert!(!parse("").unwrap().path_mtu.clamp_mss, "off unless asked for");
    }

    /// A memif port with these keys.
    fn memif(keys: &str) -> String {
        format!("[[port]]\ninterface = \"a\"\nkind = \"memif\"\n{keys}")
    }

    #[test]
    fn ports_are_sorted_by_their_kind() {
        let text = memif("socket = \"/s\"\nmac = \"02:00:00:00:00:0f\"");
        let config = parse(&format!("{text}\n[[port]]\ninterface = \"wan\"")).unwrap();
        let (port, memif) = (&config.ports[0], &config.memifs[0]);
        assert_eq!((port.interface.as_str(), memif.interface.as_str()), ("wan", "a"));
        assert_eq!((memif.id, memif.queues, memif.ring_size, memif.mtu), (0, 1, 1024, 1500));
        assert_eq!((memif.role, memif.mac), (MemifRole::Server, Some([2, 0, 0, 0, 0, 15])));
        assert!(!memif.unsealed && memif.secret.is_none());
        assert_eq!(memif.memory_bytes(), 16 << 20, "at least");
        assert!(config.port_names().contains("a") && config.port_names().contains("wan"));
        let kind = |kind: &str| {
            let config = parse(&format!("[[port]]\ninterface = \"a\"\nkind = \"{kind}\"")).unwrap();
            config.ports[0].kind
        };
        let kinds = ["interface", "packet", "auto"].map(kind);
        assert_eq!(kinds, [Sockets::Xdp, Sockets::Packet, Sockets::Auto]);
    }

    #[test]
    fn the_memory_of_an_application_is_what_its_rings_hold() {
        let mib = |keys: &str| {
            let config = parse(&memif(&format!("socket = \"/s\"\n{keys}"))).unwrap();
            config.memifs[0].memory_bytes() >> 20
        };
        assert_eq!(mib("queues = 4"), 32);
        assert_eq!(mib("queues = 64\nring_size = 16384"), 8192);
        assert_eq!(mib("unsealed = true"), 1024);
        assert_eq!(mib("unsealed = true\nmemory_mib = 256"), 256);
        assert_eq!(mib("memory_mib = 1"), 1);
    }

    /// Each row: a text, and what the error must name.
    #[test]
    fn every_error_names_the_place() {
        let rows: &[(&str, &[&str])] = &[
            ("name = \"a/b\"", &["culvert.toml", "name", "a/b", "letters"]),
            ("name = 3", &["culvert.toml", "line 1", "string"]),
            ("colour = 1", &["unknown field `colour`", "line 1"]),
            ("[[port]]\nmode = \"auto\"", &["missing field `interface`"]),
            ("[kernel]\nfirewall = \"off\"", &["line 2", "respect", "bypass"]),
            ("[path_mtu]\nlifetime_s = 0", &["path_mtu.lifetime_s", "86400"]),
            ("[[port]]\ninterface = \"wan\"\nmode = \"fast\"", &["line 3", "native", "generic"]),
            ("[[port]]\ninterface = \"seventeen-letters\"", &["port[0].interface", "15"]),
            (
                "[[port]]\ninterface = \"a\"\n[[port]]\ninterface = \"a\"",
                &["port[1].interface", "twice"],
            ),
            ("[[port]]\ninterface = \"a\"\nqueues = 0", &["port[0].queues", "1 to 64"]),
            ("[[port]]\ninterface = \"a\"\nkind = \"tap\"", &["line 3", "interface", "memif"]),
            ("[[port]]\ninterface = \"a\"\nmtu = 1400", &["port[0].mtu", "kind = \"memif\""]),
            (
                "[[port]]\ninterface = \"a\"\nkind = \"packet\"\nmode = \"native\"",
                &["port[0].mode"],
            ),
            ("[[port]]\ninterface = \"a\"\nkind = \"auto\"\nqueues = 0", &["port[0].queues"]),
            ("[[port]]\ninterface = \"a\"\nkind = \"packet\"\nid = 1", &["port[0].id"]),
            (&memif(""), &["port[0].socket", "the path"]),
            (&memif("socket = \"app.sock\""), &["port[0].socket", "absolute"]),
            (&memif("socket = \"/s\"\nmode = \"native\""), &["port[0].mode", "no XDP"]),
            (
                &memif("socket = \"/s\"\nmac = \"01:00:00:00:00:01\""),
                &["port[0].mac", "one station"],
            ),
            (&memif("socket = \"/s\"\nmac = \"2:0:0:0:0:1\""), &["port[0].mac", "six bytes"]),
            (&memif("socket = \"/s\"\nring_size = 1000"), &["ring_size", "power of two"]),
            (&memif("socket = \"/s\"\nsecret = \"\""), &["port[0].secret", "1 to 24"]),
            (&memif("socket = \"/s\"\nqueues = 65"), &["port[0].queues", "64 pairs"]),
            ("[security]\nreader = \"a:b\"", &["security.reader", "a:b", "name of a user"]),
            (&memif("socket = \"/s\"\nmemory_mib = 0"), &["port[0].memory_mib", "1 to 262144"]),
            (
                &memif("socket = \"/s\"\nrole = \"client\"\nmemory_mib = 9"),
                &["port[0].memory_mib", "leave it out"],
            ),
            (&memif("socket = \"/s\"\nmtu = 1771"), &["mtu of a", "1770", "3818"]),
            (&memif("socket = \"/s\"\nrole = \"master\""), &["server", "client"]),
            (
                &format!("{}\n{}", memif("socket = \"/s\""), memif("socket = \"/t\"")),
                &["port.interface", "not another port"],
            ),
            (&format!("{0}\n{0}", memif("socket = \"/s\"")), &["port.socket of a", "of its own"]),
            (
                "[device.nic0]\nkind = \"nic-model\"\nport = \"a\"",
                &["device.nic0.port", "one of the ports"],
            ),
            (
                "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\n\
                 [device.y]\nkind = \"nic-model\"\nport = \"a\"",
                &["device.x.port", "of its own"],
            ),
            (
                "[[port]]\ninterface = \"a\"\n[device.\"x y\"]\nkind = \"nic-model\"\nport = \"a\"",
                &["device.x y", "letters"],
            ),
            ("[device.x]\nkind = \"nic\"\nport = \"a\"", &["nic-model", "cryptodev"]),
            (
                "[device.x]\nkind = \"nic-model\"\nport = \"a\"\nargs = [\"a=1\"]",
                &["device.x.args", "cryptodev"],
            ),
            (
                "[device.x]\nkind = \"cryptodev\"\nport = \"a\"",
                &["device.x.driver", "crypto_openssl"],
            ),
            #[cfg(not(feature = "cryptodev"))]
            (
                "[device.x]\nkind = \"cryptodev\"\nport = \"a\"\ndriver = \"crypto_openssl\"",
                &["device.x.kind", "Cargo feature cryptodev"],
            ),
            #[cfg(not(feature = "rtl"))]
            (
                "[device.x]\nkind = \"rtl-simulation\"\nport = \"a\"",
                &["device.x.kind", "Cargo feature rtl"],
            ),
            (
                "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\ninterval_ms = 99",
                &["device.x.interval_ms", "100 to 3600000"],
            ),
            (
                "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\nplacement = \"on\"",
                &["asked", "auto"],
            ),
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
