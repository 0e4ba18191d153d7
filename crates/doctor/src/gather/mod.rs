//! Looks at the machine. Thin: what it means is for the checks to say.
//!
//! Nothing is changed. Sockets are opened and closed, the steering program is loaded and let go
//! without being attached, the guard's rules are handed to `nft --check`. Whether the kernel has
//! ESP is read from its symbols rather than tried, because a trial would load a module.

mod apparmor;
mod denials;
mod huge_pages;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Config, Examined, Listed, PortConfig, TunConfig};
use control::{self, vlan_below};
use crypto::Provider;
use guard::{Effect, Guard, GuardError};
use mirror::{Encap, Family, Link, Observer, Route, Snapshot, interface_setting};
use outcome::DropReason;
use report::client::{self, ClientError};
use report::paths;
use report::{Drops, Policy, Port, PortKind, Request, Stats};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, netlink, socket_with};
use steer::device::Device;
use steer::{Steer, SteerConfig};
use xfrm::KernelSad;

use super::facts::{
    BoundOverlay, Cause, Configuration, Facts, Failed, Instance, KernelEsp, Machine, Network,
    OtherInstance, PortFacts, Programs, Running, Standing, Trial, VlanFacts, Waited, XdpProgram,
};
use super::options::Options;
use super::{policies, processes};

/// Looks at everything, in the calling thread's network namespace.
pub fn facts(name: &str, options: &Options) -> Facts {
    let (path, is_unprivileged) = (options.config.as_path(), options.unprivileged);
    let Examined { config, problems, .. } = control::examine(path, is_unprivileged);
    let loaded = config.ok_or_else(|| Listed { path, problems: &problems }.to_string());
    let config = loaded.as_ref().ok();
    let instance = config.map_or(name, |c| c.name.as_str()).to_owned();
    let tun = config.map(|c| c.tun.clone()).unwrap_or_default();
    let configured: &[PortConfig] = config.map_or(&[], |c| &c.ports);
    let observer = Observer::new();
    let snapshot = observer.as_ref().map(Observer::snapshot);
    let trouble = observer.as_ref().err().map(ToString::to_string);
    let ports = configured.iter().map(|port| port_facts(port, snapshot.ok())).collect();
    Facts {
        others: others(&instance),
        is_unprivileged,
        machine: machine(&tun.interface, config),
        ports,
        network: network(snapshot.ok(), trouble, &tun, configured),
        programs: programs(options.preload.clone()),
        instance: instance_facts(instance, &tun),
        configuration: Configuration {
            path: path.to_owned(),
            loaded,
            is_barred: is_barred(path),
            problems,
            name_asked: name.to_owned(),
        },
    }
}

/// True if a file is there that this user may not read.
fn is_barred(path: &Path) -> bool {
    File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Where the kernel says what it tells time by.
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

fn machine(tun: &str, config: Option<&Config>) -> Machine {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let clock = fs::read_to_string(CLOCK).unwrap_or_default();
    let describe = |provider: &dyn Provider| provider.description();
    Machine {
        root: rustix::process::geteuid().is_root(),
        missing_capabilities: control::missing_capabilities(true),
        kernel: release.trim().to_owned(),
        clock: clock.trim().to_owned(),
        af_xdp: open_socket("socket(AF_XDP)", AddressFamily::XDP, None),
        bpf: Steer::try_load(&SteerConfig::default()).map_err(|e| failed(text(&e))),
        tun: open_tun(),
        xfrm: open_socket("socket(NETLINK_XFRM)", AddressFamily::NETLINK, Some(netlink::XFRM)),
        nft: check_nft(tun),
        kernel_esp: kernel_esp(),
        esp_offload: esp_offload(),
        kernel_sas: KernelSad::open().map(|sad| sad.count()).map_err(|e| text(&e)),
        huge_pages: huge_pages::look(),
        ipsec_mb: ipsec_mb::IpsecMbProvider::new().map(|p| describe(&p)).map_err(|e| text(&e)),
        openssl: engine_openssl::OpensslProvider::new().map(|p| describe(&p)).map_err(|e| text(&e)),
        ndpi: config
            .is_some_and(|c| c.applications.enabled && c.applications.ndpi)
            .then(control::probe_ndpi),
    }
}

/// A failure that only has a text: `EPERM` and `EACCES` are in it as the standard library and the
/// kernel's tools write them.
fn failed(text: String) -> Failed {
    let signs = ["os error 1)", "os error 13)", "Operation not permitted", "Permission denied"];
    let cause = match signs.iter().any(|sign| text.contains(sign)) {
        true => Cause::NotPermitted,
        false => Cause::Other,
    };
    Failed { text, cause }
}

fn open_socket(what: &str, family: AddressFamily, protocol: Option<Protocol>) -> Trial {
    match socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol) {
        Ok(_closed) => Ok(()),
        Err(errno) => Err(failed(format!("{what}: {}", io::Error::from(errno)))),
    }
}

/// Opening the device makes no interface.
fn open_tun() -> Trial {
    let path = "/dev/net/tun";
    let result = File::options().read(true).write(true).open(path);
    result.map(drop).map_err(|e| failed(format!("{path}: {e}")))
}

/// Has the kernel check a table like the guard's; with `--check` it is never committed.
fn check_nft(tun: &str) -> Trial {
    let Some(nft) = processes::find("nft") else {
        return Err(Failed { text: "nft was not found".into(), cause: Cause::NoProgram });
    };
    let mut rules = String::from("table ip6 culvert-doctor {\n");
    for (hook, side) in [("output", "oifname"), ("forward", "oifname"), ("input", "iifname")] {
        rules.push_str(&format!(
            "chain {hook}ed {{\n type filter hook {hook} priority filter; policy accept;\n \
             {side} {{ \"lo\", \"{tun}\" }} accept\n icmpv6 type {{ 133, 134 }} accept\n \
             meta mark & 0x1 == 0x1 ip6 daddr 2001:db8::/32 meta l4proto 17 th dport 9 drop\n}}\n"
        ));
    }
    rules.push_str("}\n");
    let result = processes::output(&nft, &["--check", "--file", "-"], &rules);
    result.map(drop).map_err(failed)
}

fn kernel_esp() -> KernelEsp {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = Path::new("/lib/modules").join(release.trim()).join("modules.dep");
    esp_in(&symbols, &fs::read_to_string(modules).unwrap_or_default())
}

/// Where the kernel's configuration is: beside it, or in it.
fn esp_offload() -> Option<bool> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let beside = fs::read_to_string(format!("/boot/config-{}", release.trim())).ok();
    let text = beside.or_else(|| {
        let zgrep = processes::find("zgrep")?;
        // One line is always there, so that no answer is told from no configuration.
        processes::output(&zgrep, &["-E", "^CONFIG_NET=|INET_ESP_OFFLOAD", "/proc/config.gz"], "")
            .ok()
    })?;
    esp_offload_in(&text)
}

/// By a kernel's configuration.
fn esp_offload_in(text: &str) -> Option<bool> {
    let is_config = text.lines().any(|line| line.starts_with("CONFIG_NET="));
    let is_on = |line: &str| line.starts_with("CONFIG_INET_ESP_OFFLOAD=");
    is_config.then(|| text.lines().any(is_on))
}

/// By the symbols of a kernel and the list of its modules.
fn esp_in(symbols: &str, modules: &str) -> KernelEsp {
    let is_esp = |symbol: &str| symbol == "esp_init_state" || symbol == "esp6_init_state";
    if symbols.lines().any(|line| line.split_whitespace().nth(2).is_some_and(is_esp)) {
        KernelEsp::Present
    } else if modules.lines().any(|line| line.contains("/esp4.ko") || line.contains("/esp6.ko")) {
        KernelEsp::Loadable
    } else if symbols.is_empty() {
        KernelEsp::Unknown
    } else {
        KernelEsp::Absent
    }
}

fn port_facts(config: &PortConfig, snapshot: Option<&Snapshot>) -> PortFacts {
    let link = snapshot.and_then(|s| s.link_by_name(&config.interface)).cloned();
    let xdp = match &link {
        Some(_) => attached_program(&config.interface),
        None => XdpProgram::None,
    };
    let device = Device::look(&config.interface).map_err(|e| e.to_string());
    let below = snapshot.zip(link.as_ref()).and_then(|(s, link)| vlan_below(s, link));
    let below = below.map(|(port, _)| port.name.clone());
    let is_here = |port: &Link| Some(port.index) == link.as_ref().map(|l| l.index);
    let vlan = |s, vlan: &Link| {
        let (port, tags) = vlan_below(s, vlan)?;
        is_here(port).then(|| VlanFacts { name: vlan.name.clone(), tags, mtu: vlan.mtu })
    };
    let vlans = snapshot.into_iter().flat_map(|s| s.links().filter_map(move |l| vlan(s, l)));
    let vlans = vlans.collect();
    let offers_esp = link.is_some() && offers_esp(&config.interface);
    PortFacts { config: config.clone(), link, device, xdp, below, vlans, offers_esp }
}

/// Asks `ethtool`, where it is installed.
fn offers_esp(interface: &str) -> bool {
    let features = processes::find("ethtool")
        .and_then(|ethtool| processes::output(&ethtool, &["-k", interface], "").ok());
    features.is_some_and(|text| offers_esp_in(&text))
}

/// By what `ethtool -k` prints: `esp-hw-offload: off`, with `[fixed]` behind it where the driver has none.
fn offers_esp_in(features: &str) -> bool {
    let mut lines = features.lines().map(str::trim);
    lines.any(|line| line.starts_with("esp-hw-offload:") && !line.contains("[fixed]"))
}

/// The other instances that answer, with what they have.
fn others(instance: &str) -> Vec<OtherInstance> {
    let names = client::running().into_iter().filter(|name| name != instance);
    let other = |name: String| {
        let interface = fs::read_to_string(paths::interface_file(&name)).ok();
        let ports: Vec<Port> = client::ask(&name, Request::Port).unwrap_or_default();
        let taken =
            ports.into_iter().filter(|port| !matches!(port.kind, PortKind::Tun | PortKind::Tunnel));
        OtherInstance {
            interface: interface.map(|name| name.trim().to_owned()),
            ports: taken.map(|port| port.interface).collect(),
            name,
        }
    };
    names.map(other).collect()
}

/// Asks `ip`, which knows every way in which a program can be attached.
fn attached_program(interface: &str) -> XdpProgram {
    let Some(ip) = processes::find("ip") else {
        return XdpProgram::Unknown("ip was not found".into());
    };
    match processes::output(&ip, &["-json", "link", "show", "dev", interface], "") {
        Ok(json) => program_in(&json),
        Err(reason) => XdpProgram::Unknown(reason),
    }
}

/// The program in what `ip -json link show` prints: `"xdp": {"mode": 1, "prog": {"id": 7}}`, or
/// with several of them `"xdp": {"mode": 4, "attached": [{"mode": 1, "prog": {"id": 7}}]}`.
fn program_in(json: &str) -> XdpProgram {
    let Ok(links) = serde_json::from_str::<serde_json::Value>(json) else {
        return XdpProgram::Unknown("the answer of ip is not understood".into());
    };
    let xdp = &links[0]["xdp"];
    if xdp.is_null() {
        return XdpProgram::None;
    }
    let id = xdp["prog"]["id"].as_u64().or_else(|| xdp["attached"][0]["prog"]["id"].as_u64());
    XdpProgram::Attached(id.unwrap_or_default())
}

/// True if a route puts segments on packets, or is a segment.
fn has_segments(route: &Route) -> bool {
    let mut hops = route.next_hops.iter();
    hops.any(|hop| matches!(hop.encap.as_deref(), Some(Encap::Seg6(_) | Encap::Seg6Local(_))))
}

/// Overlays that are bound to a device, with the far ends that Linux knows.
fn bound_overlays(snapshot: &Snapshot) -> Vec<BoundOverlay> {
    let bound = snapshot.links().filter_map(|link| {
        let overlay = link.overlay.as_deref()?;
        let device = snapshot.link(link.lower?)?.name.clone();
        let entries = snapshot.forwarding_of(link.index).map(|entry| entry.far_end);
        let far_ends = overlay.remote.into_iter().chain(entries).collect();
        Some(BoundOverlay { interface: link.name.clone(), device, far_ends })
    });
    bound.collect()
}

fn network(
    snapshot: Option<&Snapshot>,
    trouble: Option<String>,
    tun: &TunConfig,
    ports: &[PortConfig],
) -> Network {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
    let name = |ifindex: u32| {
        let link = snapshot.and_then(|s| s.link(ifindex));
        link.map_or_else(|| ifindex.to_string(), |l| l.name.clone())
    };
    let rules = snapshot.map(|s| {
        [Family::V4, Family::V6].into_iter().flat_map(|family| s.rules(family)).cloned().collect()
    });
    let table_routes = snapshot.map(|s| {
        s.routes_of(tun.table)
            .map(|r| (r.clone(), r.next_hops.iter().map(|hop| name(hop.ifindex)).collect()))
            .collect()
    });
    let interfaces = snapshot.map(|s| s.links().map(|link| link.name.clone()).collect());
    let tables = snapshot.map(|s| s.routes().map(|route| route.table).collect());
    let is_port = |link: &Link| ports.iter().any(|port| port.interface == link.name);
    // And the VLANs on them.
    let vlans = snapshot.into_iter().flat_map(|s| {
        let is_vlan = move |l: &&Link| vlan_below(s, l).is_some_and(|(below, _)| is_port(below));
        s.links().filter(is_vlan).map(|link| link.name.clone())
    });
    let taken: BTreeSet<String> = ports.iter().map(|p| p.interface.clone()).chain(vlans).collect();
    let places = ["all", "default", tun.interface.as_str()];
    let places = places.into_iter().chain(taken.iter().map(String::as_str));
    Network {
        trouble,
        rules: rules.unwrap_or_default(),
        table_routes: table_routes.unwrap_or_default(),
        interfaces: interfaces.unwrap_or_default(),
        has_segments: snapshot.is_some_and(|s| s.routes().any(has_segments)),
        bound_overlays: snapshot.map(bound_overlays).unwrap_or_default(),
        tables: tables.unwrap_or_default(),
        firewalls: control::firewalls(taken.clone()),
        nat_rules: control::nat_rules(),
        connections: control::connection_statistics(),
        forwarding: [
            (Family::V4, number("/proc/sys/net/ipv4/ip_forward")),
            (Family::V6, number("/proc/sys/net/ipv6/conf/all/forwarding")),
        ],
        rp_filter: places
            .filter_map(|place| {
                let value = interface_setting(Family::V4, place, "rp_filter").ok()?;
                Some((place.to_owned(), value))
            })
            .collect(),
        advertised: taken.iter().filter(|name| takes_advertised(name)).cloned().collect(),
    }
}

/// True if an interface takes default routes from router advertisements, also while this host forwards.
fn takes_advertised(name: &str) -> bool {
    let is = |setting, wanted| {
        interface_setting(Family::V6, name, setting).is_ok_and(|value| value == wanted)
    };
    is("accept_ra", 2) && is("accept_ra_defrtr", 1)
}

fn programs(preload: Result<PathBuf, String>) -> Programs {
    let swanctl = processes::find("swanctl").map(|path| {
        let help = processes::output(&path, &["--help"], "").unwrap_or_default();
        (path, processes::strongswan_version(&help))
    });
    // Never asked for its version: charon-systemd takes every argument for a wish to start.
    let ike = processes::IKE_DAEMONS.into_iter().find_map(processes::find);
    Programs {
        preload,
        apparmor: apparmor::of_ike(ike.as_deref()),
        confinement: apparmor::confinement(ike.as_deref()),
        denials: denials::look(),
        ike,
        swanctl,
        running: processes::ike_processes(),
    }
}

fn instance_facts(name: String, tun: &TunConfig) -> Instance {
    let daemon = client::is_running(&name).then(|| running(&name).map_err(|e| e.to_string()));
    // Opening reads the list, and nothing else.
    let guard = match Guard::open(&name, &tun.interface, &paths::runtime_dir(&name)) {
        Ok(guard) => Ok(standing(&guard)),
        // The trial of NETLINK_XFRM says so already.
        Err(GuardError::Socket(_)) => Ok(Standing::default()),
        Err(error) => Err(error.to_string()),
    };
    Instance { daemon, guard, saved: paths::vault_dir(&name).exists(), name }
}

/// Barriers for prefixes come after every policy, by their priority.
fn standing(guard: &Guard) -> Standing {
    let mut standing = Standing::default();
    for barrier in guard.standing().filter(|barrier| barrier.effect() == Effect::Block) {
        match barrier.priority() {
            u32::MAX => standing.of_prefixes += 1,
            _ => standing.of_policies += 1,
        }
    }
    standing
}

fn running(name: &str) -> Result<Running, ClientError> {
    let waited = waited(name)?;
    let stats: Stats = client::ask(name, Request::Stats)?;
    Ok(Running {
        waited,
        status: client::ask(name, Request::Status)?,
        ports: client::ask(name, Request::Port)?,
        sas: client::ask(name, Request::Sa { show_keys: false, spi: None })?,
        policies: client::ask(name, Request::Policy)?,
        balance: stats.balance,
    })
}

/// Looks twice where packets wait for SAs now: most get one.
fn waited(name: &str) -> Result<Waited, ClientError> {
    let policies: Vec<Policy> = client::ask(name, Request::Policy)?;
    let policies: Vec<u32> = policies::without_sas(&policies).map(|p| p.index).collect();
    let stats: Stats = client::ask(name, Request::Stats)?;
    if policies.is_empty() || stats.outcomes.held == 0 {
        return Ok(Waited::default());
    }
    let dropped = || -> Result<u64, ClientError> {
        let drops: Drops = client::ask(name, Request::Drops)?;
        Ok(drops.drops.get(DropReason::HoldTimeout.name()).copied().unwrap_or(0))
    };
    let before = dropped()?;
    std::thread::sleep(Duration::from_secs(policies::PATIENCE_S));
    Ok(Waited { dropped: dropped()?.saturating_sub(before), policies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn esp_by_symbols_and_modules() {
        let absent = "0 t xfrm_init_state\n0 T esp_init_state_not\n";
        assert_eq!(esp_in(absent, ""), KernelEsp::Absent);
        assert_eq!(esp_in("0 t esp_init_state\n", ""), KernelEsp::Present);
        assert_eq!(esp_in("0 t esp6_init_state\t[esp6]\n", ""), KernelEsp::Present);
        let modules = "kernel/net/ipv4/esp4.ko.xz: kernel/net/xfrm/xfrm_algo.ko.xz\n";
        assert_eq!(esp_in(absent, modules), KernelEsp::Loadable);
        assert_eq!(esp_in("", modules), KernelEsp::Loadable);
        assert_eq!(esp_in("", "kernel/net/ipv4/esp4_offload.ko:\n"), KernelEsp::Unknown);
    }

    #[test]
    fn esp_offload_by_configuration_and_driver() {
        let set = "CONFIG_NET=y\nCONFIG_INET_ESP_OFFLOAD=m\n";
        let unset =
            "CONFIG_NET=y\n# CONFIG_INET_ESP_OFFLOAD is not set\nCONFIG_INET6_ESP_OFFLOAD=m\n";
        assert_eq!([set, unset, ""].map(esp_offload_in), [Some(true), Some(false), None]);
        assert!(offers_esp_in("Features for wan:\n\tesp-hw-offload: off\n"));
        assert!(!offers_esp_in("esp-hw-offload: off [fixed]\n") && !offers_esp_in(""));
    }

    #[test]
    fn programs_on_interfaces() {
        let rows = [
            ("[{\"ifname\":\"wan\"}]", XdpProgram::None),
            ("[{\"xdp\":{\"mode\":1,\"prog\":{\"id\":7,\"tag\":\"x\"}}}]", XdpProgram::Attached(7)),
            (
                "[{\"xdp\":{\"mode\":4,\"attached\":[{\"mode\":1,\"prog\":{\"id\":8}}]}}]",
                XdpProgram::Attached(8),
            ),
            ("[{\"xdp\":{\"mode\":1}}]", XdpProgram::Attached(0)),
            ("[]", XdpProgram::None),
        ];
        for (json, expected) in rows {
            assert_eq!(program_in(json), expected, "{json}");
        }
        assert!(matches!(program_in("no json"), XdpProgram::Unknown(_)));
    }

    #[test]
    fn what_is_not_permitted_is_known_by_its_words() {
        let cause = |text: &str| failed(text.to_owned()).cause;
        for text in ["bpf: Operation not permitted (os error 1)", "nft: Operation not permitted"] {
            assert_eq!(cause(text), Cause::NotPermitted, "{text}");
        }
        for text in ["Function not implemented (os error 38)", "Invalid argument (os error 11)"] {
            assert_eq!(cause(text), Cause::Other, "{text}");
        }
    }

    #[test]
    fn a_socket_of_a_family_that_is_there_opens() {
        assert_eq!(open_socket("unix", AddressFamily::UNIX, None), Ok(()));
        let nonsense = open_socket("socket(4711)", AddressFamily::from_raw(4711), None);
        assert!(nonsense.unwrap_err().text.starts_with("socket(4711): "));
    }
}
