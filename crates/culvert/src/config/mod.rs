//! The configuration file: what Linux has no word for.
//!
//! Read in three steps, each of which finds all that is wrong: keys and types (`shape`), values (`check`), and what the
//! machine cannot do, which the caller says. A [`Problem`] has its place, and what would be right.
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
//! | `document`       | the file as a tree with places                 |
//! | `shape`          | unknown keys, wrong types                      |
//! | `check`          | which values cannot be                         |
//! | `fixed`          | which keys take effect only with a restart     |
//! | `problem`        | how what is wrong is said                      |
//! | `schema`         | tests: every key is in the example and in the reference |

mod check;
mod device;
mod document;
mod fixed;
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
mod problem;
#[cfg(test)]
mod schema;
mod security;
mod shape;
mod srv6;
mod tunnel;
mod tunnel_headers;
mod vlan;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

pub use self::device::{BusyBy, DeviceConfig, DeviceKind, PlacementChoice};
use self::document::Document;
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
pub use self::problem::{Listed, Problem, nearest};
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
    /// The interfaces of all ports, as they are written.
    #[serde(skip)]
    port_order: Vec<String>,
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

/// A file that is refused.
#[derive(Debug, Error)]
#[error("{}", listed(path, problems))]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, with places.
    pub problems: Vec<Problem>,
}

fn listed(path: &Path, problems: &[Problem]) -> String {
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    format!("{}: {count}\n{}", path.display(), Listed { path, problems })
}

/// A file as far as it could be read.
#[derive(Debug, Default)]
pub struct Examined {
    /// What it says, without what is wrong; none where that would not make sense.
    pub config: Option<Config>,
    /// Its `name`, if that can be read.
    pub name: Option<String>,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
    /// What can be, and does not do what it is there for.
    pub warnings: Vec<Problem>,
}

impl Examined {
    /// Adds that the command line names another instance: the file's own name counts.
    #[must_use]
    pub fn named(mut self, asked: &str) -> Examined {
        let found = self.config.as_ref().map(|config| config.name.clone());
        if asked != DEFAULT_NAME
            && let Some(name) = found.filter(|name| name != asked)
        {
            let wrong = format!("--name {asked} asks for another, and the file's counts");
            let remedy = format!("write name = {asked:?} there, or give --name {name}");
            self.problems.push(Problem::new("name", &name, wrong, remedy));
        }
        self
    }

    /// The configuration, if nothing is wrong with it.
    ///
    /// # Errors
    /// What is.
    pub fn accept(self, path: &Path) -> Result<(Config, Vec<Problem>), ConfigError> {
        match self.config {
            Some(config) if self.problems.is_empty() => Ok((config, self.warnings)),
            _ => Err(ConfigError { path: path.into(), problems: self.problems }),
        }
    }
}

/// What a machine has to say to a configuration: problems, and warnings.
pub type Verdict = (Vec<Problem>, Vec<Problem>);

/// What a machine is not asked about.
pub fn any_machine(_: &Config) -> Verdict {
    Verdict::default()
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// When it cannot be read, is not valid TOML, has unknown keys, or values that cannot be.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        Ok(Config::examine_file(path, any_machine).accept(path)?.0)
    }

    /// Everything that is wrong with a file, by itself and for a machine.
    pub fn examine_file(path: &Path, machine: impl FnOnce(&Config) -> Verdict) -> Examined {
        match std::fs::read_to_string(path) {
            Ok(text) => Config::examine(&text, machine),
            Err(error) => {
                let remedy = "write one, or name another with --config; an empty file is valid";
                let problem = Problem::new("", &"", error.to_string(), remedy);
                Examined { problems: vec![problem], ..Examined::default() }
            }
        }
    }

    /// Checks a text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    #[cfg(test)]
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        Ok(Config::examine(text, any_machine).accept(path)?.0)
    }

    /// Everything that is wrong with a text, by itself and for a machine.
    pub fn examine(text: &str, machine: impl FnOnce(&Config) -> Verdict) -> Examined {
        let (document, problems) = Document::read(text);
        let name = document.root.text("name").map(str::to_owned);
        if !problems.is_empty() {
            return Examined { name, problems, ..Examined::default() };
        }
        let shape::Shaped { value, lacks_elements, mut problems } =
            shape::read::<Config>(&document);
        let Some(mut config) = value.filter(|_| !lacks_elements) else {
            return Examined { name, problems, ..Examined::default() };
        };
        let of_ports = config.sort_ports();
        let are_ports_wrong = !of_ports.is_empty();
        add_news(&mut problems, of_ports);
        let mut warnings = Vec::new();
        if !are_ports_wrong {
            add_news(&mut problems, config.problems());
            let (wrong, idle) = machine(&config);
            add_news(&mut problems, wrong);
            warnings = config.warnings();
            warnings.extend(idle);
        }
        for problem in problems.iter_mut().chain(&mut warnings) {
            problem.place = problem.place.or_else(|| document.place_of(&problem.key));
        }
        // What has no place is of no line.
        problems.sort_by_key(|problem| (problem.place.is_none(), problem.place));
        warnings.sort_by_key(|warning| (warning.place.is_none(), warning.place));
        Examined { config: Some(config), name, problems, warnings }
    }

    /// The key of a port, as problems write it.
    pub fn port_key(&self, interface: &str, key: &str) -> String {
        let at = self.port_order.iter().position(|name| name == interface).unwrap_or_default();
        format!("port[{at}].{key}")
    }

    /// The interfaces of the ports.
    pub fn port_names(&self) -> BTreeSet<String> {
        let memifs = self.memifs.iter().map(|memif| memif.interface.clone());
        self.ports.iter().map(|port| port.interface.clone()).chain(memifs).collect()
    }

    /// Sorts the ports by their kind; what cannot be of one of that kind.
    fn sort_ports(&mut self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (number, section) in self.sections.drain(..).enumerate() {
            self.port_order.push(section.interface().to_owned());
            match section.into_kind() {
                Ok(Port::Interface(port)) => self.ports.push(port),
                Ok(Port::Memif(memif)) => self.memifs.push(memif),
                Err((key, value, remedy)) => {
                    problems.push(Problem::of_value(
                        format!("port[{number}].{key}"),
                        &value,
                        remedy,
                    ));
                }
            }
        }
        problems
    }
}

impl Config {
    /// What can be, and does not do what it is there for, as far as the file alone tells.
    fn warnings(&self) -> Vec<Problem> {
        let warning = |text| Problem::new("", &"", text, "");
        match self.sids.is_empty() {
            true => Vec::new(),
            false => self.srv6.closed(|_| true).map(warning).collect(),
        }
    }
}

/// Adds what a later step has found to what is wrong already. What may follow from that is left out: another problem of the
/// same key, and one of an entry of a list that was read in part.
fn add_news(problems: &mut Vec<Problem>, found: Vec<Problem>) {
    let news = |new: &Problem| {
        let entry = entry_of(&new.key);
        let is_known =
            |old: &Problem| old.key == new.key || entry.is_some() && entry_of(&old.key) == entry;
        !problems.iter().any(is_known)
    };
    let news: Vec<Problem> = found.into_iter().filter(|new| news(new)).collect();
    problems.extend(news);
}

/// The entry of a list that a key is in: `port[1]` of `port[1].queues`.
fn entry_of(key: &str) -> Option<&str> {
    key.find(']').and_then(|end| key.get(..=end))
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
        assert!(wrong("[port]\ninterface = \"wan\"\n").contains("[[port]]"));
        assert!(wrong("[guard]\nprefixes = \"10.2.0.0/16\"\n").contains("write a list"));
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
            ("[tun]\nmtu = 1400\n", &["tun.mtu"]),
            ("[[iptfs]]\nrate_kbit_s = 1\n", &["iptfs"]),
            ("[worker]\ncpus = 3\ncrypto_cpus = [1]\n", &[]),
            ("[worker]\ncpus = 3\nframes = 1024\n", &["worker.frames"]),
            ("[worker]\npoll = \"adaptive\"\n", &[]),
            ("[worker]\npoll = \"always\"\n", &["worker.poll"]),
            ("[path_mtu]\nclamp_mss = true\n", &[]),
            ("[kernel]\nfirewall = \"bypass\"\n", &["kernel.firewall"]),
            ("[crypto]\nengine = \"openssl\"\n", &["crypto.engine"]),
            ("[crypto]\nallow_weak = true\n", &["crypto.allow_weak"]),
            (
                "[[port]]\ninterface = \"wan\"\n[device.nic0]\nkind = \"nic-model\"\nport = \"wan\"\n",
                &["device"],
            ),
            ("[tunnel_headers]\ndf = \"set\"\n", &["tunnel_headers.df"]),
            ("[security]\nseccomp = false\n", &["security.seccomp"]),
            ("[log]\nlevel = \"debug\"\n", &["log.level"]),
            ("name = \"gwa\"\n[log]\nlevel = \"debug\"\n", &["name", "log.level"]),
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
            ("name = \"a/b\"", &["culvert.toml:1:8", "name", "a/b", "letters"]),
            ("name = 3", &["culvert.toml:1:8", "this is a number", "text in quotes"]),
            ("colour = 1", &["unknown key \"colour\"", "toml:1:"]),
            ("[[port]]\nmode = \"auto\"", &["port[0].interface: this key is missing"]),
            ("[kernel]\nfirewall = \"off\"", &["toml:2:", "respect", "bypass"]),
            ("[path_mtu]\nlifetime_s = 0", &["path_mtu.lifetime_s", "86400"]),
            ("[[port]]\ninterface = \"wan\"\nmode = \"fast\"", &["toml:3:", "native", "generic"]),
            ("[[port]]\ninterface = \"seventeen-letters\"", &["port[0].interface", "15"]),
            (
                "[[port]]\ninterface = \"a\"\n[[port]]\ninterface = \"a\"",
                &["port[1].interface", "twice"],
            ),
            ("[[port]]\ninterface = \"a\"\nqueues = 0", &["port[0].queues", "1 to 64"]),
            ("[[port]]\ninterface = \"a\"\nkind = \"tap\"", &["toml:3:", "interface", "memif"]),
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
            (&memif("socket = \"/s\"\nmtu = 1771"), &["port[0].mtu", "1770", "3818"]),
            (&memif("socket = \"/s\"\nrole = \"master\""), &["server", "client"]),
            (
                &format!("{}\n{}", memif("socket = \"/s\""), memif("socket = \"/t\"")),
                &["port[1].interface", "not another port"],
            ),
            (&format!("{0}\n{0}", memif("socket = \"/s\"")), &["port[0].socket", "of its own"]),
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
            ("[worker]\ncpus = -1", &["toml:2:", "a list of cores"]),
            ("[worker]\ncpus = \"all\"", &["toml:2:", "a number of workers", "[0, 2, 3]"]),
            ("[worker]\ncpus = [0, -3]", &["toml:2:", "-3"]),
            ("[worker]\ncpus = 2\ncpu = 1", &["worker.cpu", "worker.cpus"]),
            ("[worker]\ncrypto_cpus = [2, 3, 2]", &["worker.crypto_cpus", "differ"]),
            ("[worker]\npoll = \"never\"", &["toml:2:", "adaptive", "always"]),
            ("[worker]\nframes = 1000", &["worker.frames", "power of two"]),
            ("[guard]\nprefixes = [\"10.2.0.0\"]", &["toml:2:", "10.2.0.0", "/16"]),
            ("[guard]\nprefixes = [\"10.2.0.0/33\"]", &["toml:2:", "10.2.0.0/33"]),
            ("[crypto]\nengine = \"qat\"", &["toml:2:", "ipsec-mb"]),
            ("[crypto]\nallow_weak = 1", &["toml:2:", "true or false"]),
            ("name = ", &["toml:1:"]),
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
                Ok(config) => prop_assert!(config.problems().is_empty()),
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
