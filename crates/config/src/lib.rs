//! The configuration file: what Linux has no word for.
//!
//! Read in three steps, each of which finds all that is wrong: keys and types (`shape`), values (`check`), and what the
//! machine cannot do, which the caller says. A [`Problem`] has its place, and what would be right.
//!
//! | Module           | What it knows                                  |
//! |------------------|------------------------------------------------|
//! | this one         | the file, its parts, and how reading it fails  |
//! | `worker`         | `[worker]`                                     |
//! | `bfd`            | `[bfd]`                                        |
//! | `device`         | `[device.NAME]`                                |
//! | `engine`         | `crypto.engine`                                |
//! | `applications`   | `[applications]`, `[[application]]`            |
//! | `gtpu`           | `[[gtpu]]`                                     |
//! | `iptfs`          | `[[iptfs]]`                                    |
//! | `limit`, `limit_values` | `[[limit]]`                             |
//! | `marks`          | `[[mark]]`                                     |
//! | `vlan`           | `[[vlan]]`                                     |
//! | `port`           | `[[port]]`                                     |
//! | `memif`          | `[[port]]` of the kind `memif`                 |
//! | `names`          | names of instances and interfaces              |
//! | `nat`            | `[nat]`                                        |
//! | `paths`          | `[paths]`, `[[path]]`                          |
//! | `clear_reflector` | `[paths.clear]`                               |
//! | `srv6`           | `[srv6]`, `[[sid]]`                            |
//! | `steer`          | `[[steer]]`                                    |
//! | `security`       | `[security]`                                   |
//! | `vici`           | `[vici]`                                       |
//! | `tunnel_headers` | `[tunnel_headers]`                             |
//! | `prefix`         | how an address prefix is written               |
//! | `document`       | the file as a tree with places                 |
//! | `keys`           | tables and their keys                          |
//! | `shape`          | unknown keys, wrong types                      |
//! | `check`          | which values cannot be                         |
//! | `fixed`          | which keys take effect only with a restart     |
//! | `problem`        | how what is wrong is said                      |
//! | `schema`         | tests: every key is in the example and in the reference |
#![forbid(unsafe_code)]

mod applications;
mod bfd;
mod check;
mod clear_reflector;
mod device;
mod document;
mod engine;
mod fixed;
mod gtpu;
mod iptfs;
mod keys;
mod limit;
mod limit_shape;
mod limit_values;
mod marks;
mod memif;
mod names;
mod nat;
mod overlay;
mod packets;
mod paths;
mod port;
mod prefix;
mod problem;
#[cfg(test)]
mod schema;
mod security;
mod shape;
mod srv6;
mod steer;
mod tunnel;
mod tunnel_headers;
mod vici;
mod vlan;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

pub use self::applications::{ApplicationConfig, ApplicationsConfig, built_in, catalogue};
pub use self::bfd::{BfdConfig, DataPlane};
pub use self::clear_reflector::ClearReflectorConfig;
pub use self::device::{BusyBy, DeviceConfig, DeviceKind, PlacementChoice};
use self::document::Document;
pub use self::engine::EngineChoice;
pub use self::gtpu::{GtpuConfig, GtpuOtherwise};
pub use self::iptfs::{IptfsConfig, IptfsRates};
pub use self::limit::{By as LimitBy, EachOf as LimitEachOf, LimitConfig};
pub use self::limit_values::{Burst, Rate};
pub use self::marks::Dscp;
pub use self::marks::MarkConfig;
pub use self::memif::{MemifConfig, MemifRole};
use self::names::valid_interface;
pub use self::names::valid_name;
pub use self::nat::NatConfig;
pub use self::overlay::{L2SpecType, OverlayConfig};
pub use self::packets::{Packets, Way};
pub use self::paths::{PathConfig, PathMode, PathsConfig};
use self::port::{Port, PortSection};
pub use self::port::{PortConfig, Sockets, XdpMode};
pub use self::prefix::AddressPrefix;
use self::problem::Place;
pub use self::problem::{Listed, Problem, instead, nearest};
pub use self::security::SecurityConfig;
pub use self::srv6::{SidConfig, Srv6Config};
pub use self::steer::SteerConfig;
pub use self::tunnel::{TunnelConfig, or_any};
pub use self::tunnel_headers::TunnelHeadersConfig;
pub use self::vici::ViciConfig;
pub use self::vlan::VlanConfig;
pub use self::worker::{Cpus, WorkerConfig};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The instance's name; decides /run/culvert/NAME.
    #[serde(default = "default_name")]
    pub name: String,
    /// Owner of SAs and policies.
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
    /// Rate limits, in order.
    #[serde(default, rename = "limit")]
    pub limits: Vec<LimitConfig>,
    /// Recognition of applications.
    #[serde(default)]
    pub applications: ApplicationsConfig,
    /// Applications beside those that are built in.
    #[serde(default, rename = "application")]
    pub application_list: Vec<ApplicationConfig>,
    /// GTP-U services and their applications.
    #[serde(default)]
    pub gtpu: Vec<GtpuConfig>,
    /// Constant rates of IP-TFS.
    #[serde(default)]
    pub iptfs: Vec<IptfsConfig>,
    /// Settings of the workers.
    #[serde(default)]
    pub worker: WorkerConfig,
    /// Settings of the guard.
    #[serde(default)]
    pub guard: GuardConfig,
    /// The kernel as the owner of SAs and policies.
    #[serde(default)]
    pub kernel: KernelConfig,
    /// Settings of crypto.
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
    /// Overlays that are carried out here.
    #[serde(default)]
    pub overlay: OverlayConfig,
    /// Settings of SRv6.
    #[serde(default)]
    pub srv6: Srv6Config,
    /// Segments of this host that Linux does not have.
    #[serde(default, rename = "sid")]
    pub sids: Vec<SidConfig>,
    /// Settings of all measured paths, and the reflector.
    #[serde(default, rename = "paths")]
    pub path_options: PathsConfig,
    /// Paths that are measured.
    #[serde(default, rename = "path")]
    pub paths: Vec<PathConfig>,
    /// Which traffic takes which of the paths, in order.
    #[serde(default, rename = "steer")]
    pub steers: Vec<SteerConfig>,
    /// Sessions of BFD.
    #[serde(default)]
    pub bfd: BfdConfig,
    /// Settings of path MTUs.
    #[serde(default)]
    pub path_mtu: PathMtuConfig,
    /// Where charon tells its connections.
    #[serde(default)]
    pub vici: ViciConfig,
    /// Privileges and confinement of the daemon.
    #[serde(default)]
    pub security: SecurityConfig,
    /// Settings of logs.
    #[serde(default)]
    pub log: LogConfig,
}

/// Owner of SAs and policies.
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
    /// Name of the interface.
    pub interface: String,
    /// MTU: the longest packet that Linux may send into a tunnel without a "too big".
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
    /// True if protected selectors are blocked in the kernel at all.
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

/// Treatment of policies whose packets a firewall of Linux's would see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Firewall {
    /// They stay with the kernel.
    #[default]
    Respect,
    /// They are taken; the firewall sees no packet of theirs.
    Bypass,
}

/// Section `[crypto]` of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CryptoConfig {
    /// Choice of the engine.
    pub engine: EngineChoice,
    /// True if SAs with DES, 3DES or MD5 are taken, for peers that have nothing better.
    pub allow_weak: bool,
}

/// `[path_mtu]`: what the paths to peers carry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathMtuConfig {
    /// True if ICMP errors about culvert's own ESP are believed.
    pub learn: bool,
    /// Seconds until what was learnt is forgotten.
    pub lifetime_s: u32,
    /// True if the MSS of TCP connections through SAs is clamped to the path.
    pub clamp_mss: bool,
}

impl Default for PathMtuConfig {
    fn default() -> Self {
        PathMtuConfig { learn: true, lifetime_s: 600, clamp_mss: false }
    }
}

/// Section `[log]` of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Level: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `control=debug,info`.
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
    /// Where the refused file is.
    pub path: PathBuf,
    /// Problems of the file, with their places.
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
    /// The configuration without what is wrong. `None` where that would not make sense.
    pub config: Option<Config>,
    /// Value of `name`, if it can be read.
    pub name: Option<String>,
    /// Where that stands.
    name_at: Option<Place>,
    /// Problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Settings that are possible, and have no effect.
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
            let problem = Problem::new("name", &name, wrong, remedy);
            self.problems.push(Problem { place: self.name_at, ..problem });
        }
        self
    }

    /// The configuration, if nothing is wrong with it.
    ///
    /// # Errors
    /// The values that are right.
    pub fn accept(self, path: &Path) -> Result<(Config, Vec<Problem>), ConfigError> {
        match self.config {
            Some(config) if self.problems.is_empty() => Ok((config, self.warnings)),
            _ => Err(ConfigError { path: path.into(), problems: self.problems }),
        }
    }
}

/// Problems and warnings of a configuration on one machine.
pub type Verdict = (Vec<Problem>, Vec<Problem>);

/// Verdict of no machine in particular.
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
            shape::read::<Config>(&document, &keys::owners::<Config>);
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
        let name_at = document.place_of("name");
        Examined { config: Some(config), name, name_at, problems, warnings }
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
    /// Settings that are possible, and have no effect, as far as the file alone tells.
    fn warnings(&self) -> Vec<Problem> {
        let warning = |text| Problem::new("", &"", text, "");
        let mut warnings: Vec<Problem> = match self.sids.is_empty() {
            true => Vec::new(),
            false => self.srv6.closed(|_| true).map(warning).collect(),
        };
        warnings.extend(steer::warnings(&self.steers, &self.paths));
        warnings
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

#[cfg(test)]
mod tests;
