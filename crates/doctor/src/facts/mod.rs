//! Facts about a machine: plain values, which the checks judge and the tests make up.

mod apparmor;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

pub use self::apparmor::{AppArmor, Confinement, Denial, PROFILES_DIR};
use config::{Config, GuardConfig, PortConfig, Problem, Sockets, SourceChoice, TunConfig};
use mirror::{Family, Link, Route, Rule};
use report::{Owner, Policy, Port, PortKind, Sa, State, Status};
use steer::device::Device;

use super::processes::IkeProcess;

/// Everything that the checks look at.
#[derive(Debug)]
pub struct Facts {
    /// Kernel, privileges, crypto.
    pub machine: Machine,
    /// The configuration file.
    pub configuration: Configuration,
    /// The configured ports.
    pub ports: Vec<PortFacts>,
    /// Rules, routes and settings of the network namespace.
    pub network: Network,
    /// Programs that work with culvert.
    pub programs: Programs,
    /// The daemon, or what it left.
    pub instance: Instance,
    /// Other instances whose daemons run.
    pub others: Vec<OtherInstance>,
    /// True if the question is a start without ports.
    pub is_unprivileged: bool,
}

/// Another instance whose daemon runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherInstance {
    /// Name for `--name`.
    pub name: String,
    /// Name of its private interface.
    pub interface: Option<String>,
    /// The interfaces that are its ports.
    pub ports: Vec<String>,
}

/// Result of a trial.
pub type Trial = Result<(), Failed>;

/// Why a trial failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Message of the failure.
    pub text: String,
    /// Cause, as far as it is known.
    pub cause: Cause,
}

/// Cause of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Want of privileges: nothing is known then.
    NotPermitted,
    /// The program that tries is not installed.
    NoProgram,
    /// Any other, which the message tells.
    Other,
}

/// Kernel, privileges, crypto.
#[derive(Debug)]
pub struct Machine {
    /// The effective user is root.
    pub root: bool,
    /// Capabilities that the daemon needs and this process lacks.
    pub missing_capabilities: Vec<&'static str>,
    /// The kernel's release, as `uname -r` gives it.
    pub kernel: String,
    /// Clock source of the kernel; empty if it does not say.
    pub clock: String,
    /// Opening an AF_XDP socket.
    pub af_xdp: Trial,
    /// Loading the steering program.
    pub bpf: Trial,
    /// Result of opening `/dev/net/tun`.
    pub tun: Trial,
    /// Opening a NETLINK_XFRM socket.
    pub xfrm: Trial,
    /// Having the kernel check rules like the guard's.
    pub nft: Trial,
    /// ESP in the kernel.
    pub kernel_esp: KernelEsp,
    /// True if the kernel can offload ESP of IPv4 (`CONFIG_INET_ESP_OFFLOAD`). `None` where its
    /// configuration cannot be read.
    pub esp_offload: Option<bool>,
    /// How many SAs the kernel's own SAD holds, or why that is not known.
    pub kernel_sas: Result<u32, String>,
    /// Huge pages of the machine.
    pub huge_pages: HugePages,
    /// The fast engine: its description, or why it is not there.
    pub ipsec_mb: Result<String, String>,
    /// The portable engine.
    pub openssl: Result<String, String>,
    /// The version of nDPI, or why it cannot be asked, where the configuration wants it.
    pub ndpi: Option<Result<String, String>>,
}

/// Huge pages of 2 MiB, which packet buffers lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// All that are set aside, and those of them that are free; `None` if the kernel has none of this size.
    pub set_aside: Option<(u64, u64)>,
    /// How many `vm.nr_hugepages` of sysctl.conf(5) or the kernel's command line ask for.
    pub asked: Option<u64>,
    /// The kernel gives some to who has not set them aside.
    pub transparent: bool,
    /// `vm.nr_hugepages` is about this size.
    pub is_default_size: bool,
    /// Free memory, in KiB.
    pub available_kib: u64,
}

/// Availability of the kernel's own ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEsp {
    /// Built in, or its module is loaded.
    Present,
    /// A module is installed and not loaded.
    Loadable,
    /// No trace of it.
    Absent,
    /// The kernel does not tell.
    Unknown,
}

/// The configuration file.
#[derive(Debug)]
pub struct Configuration {
    /// Path of the file.
    pub path: PathBuf,
    /// The configuration, or the reason that it cannot be read at all.
    pub loaded: Result<Config, String>,
    /// True if this user may not read it.
    pub is_barred: bool,
    /// Problems of the file, by itself and on this machine.
    pub problems: Vec<Problem>,
    /// `--name`, as it was given or by default.
    pub name_asked: String,
}

/// A configured port and its interface.
#[derive(Debug)]
pub struct PortFacts {
    /// The port's part of the configuration.
    pub config: PortConfig,
    /// The interface, if it is there.
    pub link: Option<Link>,
    /// Facts from its driver.
    pub device: Result<Device, String>,
    /// Owner of the XDP program that is attached.
    pub xdp: XdpProgram,
    /// The interface below, if it is a VLAN.
    pub below: Option<String>,
    /// The VLANs on it.
    pub vlans: Vec<VlanFacts>,
    /// True if its driver offers `esp-hw-offload`.
    pub offers_esp: bool,
}

/// A VLAN of a port.
#[derive(Clone, Debug)]
pub struct VlanFacts {
    /// The device's name.
    pub name: String,
    /// How many tags its frames have.
    pub tags: u32,
    /// MTU of the VLAN's interface, in bytes.
    pub mtu: u32,
}

/// The XDP program of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XdpProgram {
    /// There is none.
    None,
    /// The one with this number.
    Attached(u64),
    /// The program could not be seen.
    Unknown(String),
}

/// Rules, routes and settings of the network namespace.
#[derive(Debug)]
pub struct Network {
    /// Why Linux's tables could not be read.
    pub trouble: Option<String>,
    /// All routing rules.
    pub rules: Vec<Rule>,
    /// Routes of the table that culvert uses, with the names of their interfaces.
    pub table_routes: Vec<(Route, Vec<String>)>,
    /// The names of all interfaces.
    pub interfaces: Vec<String>,
    /// True if Linux has routes with segments (SRv6).
    pub has_segments: bool,
    /// Overlays whose packets Linux sends by one device alone.
    pub bound_overlays: Vec<BoundOverlay>,
    /// The tables that have routes.
    pub tables: BTreeSet<u32>,
    /// Firewalls that packets between two interfaces meet, one line each.
    pub firewalls: Vec<String>,
    /// True if Linux has rules of NAT that such packets meet: of IPv4, of IPv6.
    pub nat_rules: [bool; 2],
    /// Linux's counts of its connections, where it tells them.
    pub connections: Option<conntrack::Statistics>,
    /// Forwarding of IPv4 and IPv6; `None` where the kernel lacks the protocol.
    pub forwarding: [(Family, Option<i64>); 2],
    /// `rp_filter` of `all`, `default`, the ports and the private interface, where they are.
    pub rp_filter: Vec<(String, i64)>,
    /// Ports that take default routes from router advertisements, though this host forwards.
    pub advertised: Vec<String>,
}

/// An overlay interface that is bound to a device (`dev` in `ip link add ... type vxlan`).
#[derive(Clone, Debug)]
pub struct BoundOverlay {
    /// Name of the overlay.
    pub interface: String,
    /// Name of the device.
    pub device: String,
    /// Far ends by its settings and its forwarding entries.
    pub far_ends: Vec<IpAddr>,
}

/// Programs that work with culvert.
#[derive(Debug)]
pub struct Programs {
    /// The preload library, or where it was looked for.
    pub preload: Result<PathBuf, String>,
    /// charon-systemd, charon or pluto.
    pub ike: Option<PathBuf>,
    /// swanctl, with what it says of its version.
    pub swanctl: Option<(PathBuf, Option<String>)>,
    /// Confinement of the IKE daemon.
    pub apparmor: AppArmor,
    /// Effect of a denial of its profile in the kernel.
    pub confinement: Confinement,
    /// Accesses that AppArmor has denied culvert or the IKE daemon, or would have.
    pub denials: Vec<Denial>,
    /// IKE daemons that run in this network namespace.
    pub running: Vec<IkeProcess>,
}

/// The daemon, or what it left.
#[derive(Debug)]
pub struct Instance {
    /// Name of the instance.
    pub name: String,
    /// Answers of the running daemon; `None` when none runs.
    pub daemon: Option<Result<Running, String>>,
    /// The installed barriers by the guard's list, or why it cannot be read.
    pub guard: Result<Standing, String>,
    /// Saved SAs and policies wait for the next start.
    pub saved: bool,
}

/// Answers of a running daemon.
#[derive(Debug)]
pub struct Running {
    /// As `culvert status`.
    pub status: Status,
    /// As `culvert port`.
    pub ports: Vec<Port>,
    /// As `culvert sa`.
    pub sas: Vec<Sa>,
    /// As `culvert policy`.
    pub policies: Vec<Policy>,
    /// Packets that have waited for SAs.
    pub waited: Waited,
    /// Packets that are not accounted for.
    pub balance: i64,
}

/// Packets that waited for an SA for as long as they are held; looked at only where some were waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// How many were dropped meanwhile.
    pub dropped: u64,
    /// Indices of the policies that had no SAs before.
    pub policies: Vec<u32>,
}

/// Barriers by where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// For policies of an IKE daemon.
    pub of_policies: usize,
    /// For the prefixes of the configuration.
    pub of_prefixes: usize,
}

/// By which sockets a port works, or will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Works {
    /// By AF_XDP, with or without a copy.
    Xdp,
    /// By packet sockets at tcx.
    Packet,
    /// Chosen when the port opens.
    Open,
}

impl Facts {
    /// By which sockets a port works: as a running daemon says, else as it is configured.
    pub fn works(&self, port: &PortFacts) -> Works {
        let kind = self.working_port(&port.config.interface).map(|working| &working.kind);
        match (kind, port.config.kind) {
            (Some(PortKind::AfXdp), _) | (None, Sockets::Xdp) => Works::Xdp,
            (Some(PortKind::Packet), _) | (None, Sockets::Packet) => Works::Packet,
            _ => Works::Open,
        }
    }

    /// True if there are no ports and no BPF: of a running daemon, or as the question is.
    pub fn is_unprivileged(&self) -> bool {
        match &self.instance.daemon {
            Some(Ok(running)) => running.status.unprivileged,
            _ => self.is_unprivileged,
        }
    }

    /// True if the kernel owns SAs and policies: of a running daemon, or after a start.
    pub fn is_beside_kernel(&self) -> bool {
        if let Some(Ok(running)) = &self.instance.daemon {
            return running.status.source == Owner::Kernel;
        }
        match self.config().map(|config| config.source).unwrap_or_default() {
            SourceChoice::Kernel => true,
            SourceChoice::Builtin => false,
            SourceChoice::Auto => {
                !self.instance.saved && self.machine.kernel_sas.as_ref().is_ok_and(|n| *n > 0)
            }
        }
    }

    /// The private interface's part of the configuration, or the default.
    pub fn tun(&self) -> TunConfig {
        self.config().map(|c| c.tun.clone()).unwrap_or_default()
    }

    /// The guard's part of the configuration, or the default.
    pub fn guard(&self) -> GuardConfig {
        self.config().map(|c| c.guard.clone()).unwrap_or_default()
    }

    /// The configuration, if it is valid.
    pub fn config(&self) -> Option<&Config> {
        self.configuration.loaded.as_ref().ok()
    }

    /// The running daemon's report on a port that works.
    pub fn working_port(&self, interface: &str) -> Option<&Port> {
        let running = self.instance.daemon.as_ref()?.as_ref().ok()?;
        running.ports.iter().find(|p| p.interface == interface && p.state == State::Up)
    }
}

/// A machine on which everything is as it should be, for tests to spoil.
#[cfg(test)]
pub fn healthy() -> Facts {
    let port = |name: &str| format!("[[port]]\ninterface = \"{name}\"\nkind = \"xdp\"\n");
    let text = format!("name = \"gwa\"\n{}{}", port("wan"), port("lan"));
    let config = Config::parse(&text, std::path::Path::new("culvert.toml")).expect("valid");
    let ports = (2..).zip(&config.ports).map(|(index, config)| healthy_port(index, config));
    Facts {
        others: Vec::new(),
        is_unprivileged: false,
        ports: ports.collect(),
        machine: Machine {
            root: true,
            missing_capabilities: Vec::new(),
            kernel: "6.1.0-18-amd64".into(),
            clock: "tsc".into(),
            af_xdp: Ok(()),
            bpf: Ok(()),
            tun: Ok(()),
            xfrm: Ok(()),
            nft: Ok(()),
            kernel_esp: KernelEsp::Absent,
            esp_offload: None,
            kernel_sas: Ok(0),
            huge_pages: HugePages {
                set_aside: Some((20, 20)),
                asked: Some(20),
                transparent: true,
                is_default_size: true,
                available_kib: 16 << 20,
            },
            ipsec_mb: Ok("1.3.0, AVX512".into()),
            openssl: Ok("OpenSSL 3.0.11".into()),
            ndpi: None,
        },
        configuration: Configuration {
            path: "culvert.toml".into(),
            loaded: Ok(config),
            is_barred: false,
            problems: Vec::new(),
            name_asked: "default".into(),
        },
        network: Network {
            trouble: None,
            rules: Vec::new(),
            table_routes: Vec::new(),
            interfaces: ["lo", "wan", "lan"].map(Into::into).to_vec(),
            has_segments: false,
            bound_overlays: Vec::new(),
            tables: [254, 255].into(),
            firewalls: Vec::new(),
            nat_rules: [false; 2],
            connections: None,
            forwarding: [(Family::V4, Some(1)), (Family::V6, Some(1))],
            rp_filter: vec![("all".into(), 0), ("default".into(), 2), ("wan".into(), 2)],
            advertised: Vec::new(),
        },
        programs: Programs {
            preload: Ok("/usr/lib/culvert/libculvert_preload.so".into()),
            ike: Some("/usr/sbin/charon-systemd".into()),
            swanctl: Some(("/usr/sbin/swanctl".into(), Some("5.9.8".into()))),
            apparmor: AppArmor::Aware,
            confinement: Confinement::Enforce,
            denials: Vec::new(),
            running: Vec::new(),
        },
        instance: Instance {
            name: "gwa".into(),
            daemon: None,
            guard: Ok(Standing::default()),
            saved: false,
        },
    }
}

#[cfg(test)]
fn healthy_port(index: u32, config: &PortConfig) -> PortFacts {
    PortFacts {
        config: config.clone(),
        link: Some(Link {
            index,
            name: config.interface.clone(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            running: true,
            ..Link::default()
        }),
        device: Ok(Device {
            name: config.interface.clone(),
            ifindex: index,
            driver: "mlx5_core".into(),
            mtu: 1500,
            rx_queues: 1,
            tx_queues: 1,
            tx_vlan_offload: false,
            rx_vlan_offload: false,
            tells_vlan_tags: false,
        }),
        xdp: XdpProgram::None,
        below: None,
        vlans: Vec::new(),
        offers_esp: false,
    }
}

/// A daemon that runs well.
#[cfg(test)]
pub fn healthy_daemon() -> Running {
    let port = |interface: &str| Port {
        interface: interface.into(),
        kind: "af-xdp".into(),
        if_id: None,
        vlan: Vec::new(),
        state: "up".into(),
        mode: "native, copy".into(),
        chosen: None,
        stripped_tags: None,
        queues: 1,
        mtu: 1500,
        mac: "02:00:00:00:00:01".into(),
        rx_packets: 0,
        rx_bytes: 0,
        tx_packets: 0,
        tx_bytes: 0,
        passed_to_linux: 0,
        faults: std::collections::BTreeMap::new(),
        by_queue: Vec::new(),
    };
    Running {
        status: Status {
            connections: None,
            name: "gwa".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: 77,
            uptime_s: 60,
            engine: "ipsec-mb".into(),
            tunnels: report::TunnelState { up: 1, has_ike: true, ..Default::default() },
            sas: 2,
            policies: 3,
            restored: 0,
            clients: 2,
            ports_up: 2,
            ports: 2,
            ports_by_kind: std::collections::BTreeMap::new(),
            default_blocks: Vec::new(),
            guard_policies: 3,
            guard_prefixes: Vec::new(),
            guard_blocked: std::collections::BTreeMap::new(),
            memory_kib: 1024,
            buffers_kib: 512,
            buffers_pages: report::BufferPages::Small,
            polling: "adaptive".into(),
            source: "builtin".into(),
            seccomp: "on".into(),
            unprivileged: false,
            workers: Vec::new(),
            configuration: report::Configuration::default(),
            warnings: report::Warnings::default(),
        },
        ports: vec![port("wan"), port("lan")],
        sas: Vec::new(),
        policies: Vec::new(),
        waited: Waited::default(),
        balance: 0,
    }
}

/// An inbound SA beside a kernel, which has it for this reason.
#[cfg(test)]
pub fn sa(why: Option<&str>) -> Sa {
    Sa {
        spi: "0x00001000".into(),
        src: "192.0.2.2".into(),
        dst: "192.0.2.1".into(),
        protocol: "esp".into(),
        mode: "tunnel".into(),
        suite: "aes128gcm16".into(),
        esn: false,
        encap: None,
        reqid: 1,
        mark: None,
        if_id: 0,
        cpu: None,
        direction: Some("in".into()),
        weak: Vec::new(),
        state: "valid".into(),
        placement: if why.is_some() { "kernel" } else { "software" }.into(),
        why: why.map(Into::into),
        engine: "ipsec-mb".into(),
        bytes: 0,
        packets: 0,
        age_s: 1,
        idle_s: None,
        sent_seq: 0,
        received_seq: 0,
        replay_window: 32,
        late_drops: 0,
        duplicate_drops: 0,
        integrity_drops: 0,
        iptfs: std::collections::BTreeMap::new(),
        iptfs_now: std::collections::BTreeMap::new(),
        inner_mtu: None,
        path_mtu: None,
        is_path_mtu_learnt: false,
        until_rekey: report::Left::default(),
        until_expiry: report::Left::default(),
        keys: None,
    }
}
