//! Problems of a configuration on this machine: the one place at which `culvert run`, `check`, `doctor` and a reload
//! look, so that what one of them accepts the others take.
//!
//! The file is first judged by itself ([`Config::examine`]), then by what is here: cores, interfaces with their queues,
//! memory, engines. What passes by itself is a warning, and refuses nothing: an interface that is not there may come.
//! Rights, another daemon of the same name and what an earlier run has saved are no matter of the file: `culvert doctor`
//! looks at these.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use config::{
    Config, Cpus, EngineChoice, Examined, MemifRole, PortConfig, Problem, Sockets, Verdict, nearest,
};
use report::client;
use report::paths;
use steer::device::{Device, Finding};

use crate::nat::Nat;
use crate::plan::{self, Plan, PlanError, ranges};
use crate::{limits, ports, unprivileged};

/// For whom a configuration is examined.
pub struct Situation<'r> {
    /// The cores that the daemon may use.
    cores: Vec<usize>,
    /// True for a run without ports and BPF.
    is_unprivileged: bool,
    /// Configuration of the running daemon; `None` before a start.
    running: Option<&'r Config>,
}

impl Situation<'_> {
    /// Of a daemon that this process could become.
    pub fn before_start(is_unprivileged: bool) -> Situation<'static> {
        Situation { cores: plan::cores(), is_unprivileged, running: None }
    }

    /// Of this daemon, which has other threads pinned: `cores` are those of its start.
    pub fn of_running<'r>(
        running: &'r Config,
        cores: &[usize],
        is_unprivileged: bool,
    ) -> Situation<'r> {
        Situation { cores: cores.to_vec(), is_unprivileged, running: Some(running) }
    }
}

/// Everything that is wrong with a file here.
pub fn examine(path: &Path, situation: &Situation<'_>) -> Examined {
    Config::examine_file(path, |config| judge(config, &Machine::look(config, situation)))
}

/// Facts about this machine that a configuration depends on.
pub(crate) struct Machine {
    pub(crate) cores: Vec<usize>,
    /// The interfaces that the configuration names.
    pub(crate) devices: BTreeMap<String, Device>,
    /// All that there are in this network namespace.
    pub(crate) names: Vec<String>,
    /// Owner of the private interface's name, where it may not be made.
    pub(crate) private_is: Option<String>,
    /// Problems found by trying: an engine that is missing, connection tracking that does not
    /// answer.
    pub(crate) others: Vec<Problem>,
    /// Buffers of the daemon that runs, which a reload does not change.
    pub(crate) running_frames: Option<u32>,
    /// Interfaces that are there, and that a reload takes no longer.
    pub(crate) given_up: Vec<String>,
    /// Directories of memif sockets that are not there, by interface.
    pub(crate) lost_sockets: Vec<String>,
    pub(crate) is_unprivileged: bool,
}

impl Machine {
    fn look(config: &Config, situation: &Situation<'_>) -> Machine {
        let named = config.ports.iter().map(|port| &port.interface);
        let named = named.chain(config.memifs.iter().map(|memif| &memif.interface));
        let named = named.chain(config.tunnels.iter().map(|tunnel| &tunnel.interface));
        let devices = named.chain([&config.tun.interface]);
        let devices: BTreeMap<_, _> =
            devices.filter_map(|name| Some((name.clone(), Device::look(name).ok()?))).collect();
        let private_is = match situation.running {
            Some(_) => None,
            None => devices.get(&config.tun.interface).and_then(|there| owner(config, there)),
        };
        let lost = config.memifs.iter().filter(|memif| {
            let directory = memif.socket.parent().unwrap_or(Path::new("/"));
            memif.role == MemifRole::Server && !directory.is_dir()
        });
        let names = interface_names();
        let running = situation.running.map(|running| running.ports.as_slice()).unwrap_or_default();
        let ports = running.iter().map(|port| port.interface.clone());
        let goes = |name: &String| names.contains(name) && !config.port_names().contains(name);
        Machine {
            cores: situation.cores.clone(),
            given_up: ports.filter(goes).collect(),
            names,
            private_is,
            others: others(config, situation),
            running_frames: situation.running.map(|running| running.worker.frames),
            lost_sockets: lost.map(|memif| memif.interface.clone()).collect(),
            is_unprivileged: situation.is_unprivileged,
            devices,
        }
    }
}

/// Behind two lines of headings, each interface has one that begins with its name.
fn interface_names() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.map(str::to_owned).collect()
}

/// Owner of an interface that has the private one's name. `None` if this instance's daemon has it,
/// or had it a moment ago.
fn owner(config: &Config, there: &Device) -> Option<String> {
    let name = config.tun.interface.as_str();
    if there.driver != TUN {
        return Some("an interface of another kind has this name".into());
    }
    let claims = |instance: &str| {
        fs::read_to_string(paths::interface_file(instance)).is_ok_and(|text| text.trim() == name)
    };
    if claims(&config.name) {
        return None;
    }
    let other = client::running().into_iter().find(|instance| claims(instance));
    Some(match other {
        Some(instance) => format!("the instance {instance} has an interface of this name"),
        None => "another program has an interface of this name".into(),
    })
}

/// The driver of TUN and TAP devices.
const TUN: &str = "tun";

/// Problems that are found by trying.
fn others(config: &Config, situation: &Situation<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let is_other_engine =
        situation.running.is_none_or(|running| running.crypto.engine != config.crypto.engine);
    if is_other_engine && let Some(why) = lacking_engine(config.crypto.engine) {
        let engine = match config.crypto.engine {
            EngineChoice::Auto => "auto",
            EngineChoice::IpsecMb => "ipsec-mb",
            EngineChoice::Openssl => "openssl",
        };
        let remedy = "another engine; \"auto\" takes what there is";
        found.push(Problem::new("crypto.engine", &engine, why, remedy));
    }
    if situation.running.is_some() {
        return found;
    }
    if config.nat.is_on()
        && rustix::process::geteuid().is_root()
        && let Err(error) = Nat::begin()
    {
        let wrong = format!("connection tracking cannot be asked: {error}");
        let remedy = "modprobe nf_conntrack_netlink, or nat.learn = \"off\"";
        found.push(Problem::new("nat.learn", &"conntrack", wrong, remedy));
    }
    found
}

fn lacking_engine(choice: EngineChoice) -> Option<String> {
    match choice {
        EngineChoice::IpsecMb => ipsec_mb::IpsecMbProvider::new().err().map(|e| e.to_string()),
        EngineChoice::Openssl => {
            engine_openssl::OpensslProvider::new().err().map(|error| error.to_string())
        }
        // Which of them there are the log says.
        EngineChoice::Auto => None,
    }
}

/// Problems and warnings.
pub(crate) fn judge(config: &Config, machine: &Machine) -> Verdict {
    let mut problems = machine.others.clone();
    let mut warnings = Vec::new();
    if machine.is_unprivileged {
        problems.extend(unprivileged::problems(config));
    }
    of_names(config, machine, &mut problems);
    for port in &config.ports {
        of_port(config, port, machine, &mut problems, &mut warnings);
    }
    for memif in config.memifs.iter().filter(|m| machine.lost_sockets.contains(&m.interface)) {
        warnings.push(Problem::new(
            config.port_key(&memif.interface, "socket"),
            &memif.socket.display(),
            "there is no such directory, so no application can connect yet",
            "make it; the socket is tried again every 10 s",
        ));
    }
    of_workers(config, machine, &mut problems, &mut warnings);
    (problems, warnings)
}

/// Interfaces that culvert makes, and names that are taken.
fn of_names(config: &Config, machine: &Machine, problems: &mut Vec<Problem>) {
    if let Some(who) = &machine.private_is {
        let remedy = "another name that no interface has; of several instances each has its own, and its own \
                      tun.table, tun.marked_table and tun.rule_preference";
        problems.push(Problem::new("tun.interface", &config.tun.interface, who.clone(), remedy));
    }
    let tunnels = config.tunnels.iter().enumerate();
    let tunnels = tunnels.map(|(i, tunnel)| (format!("tunnel[{i}].interface"), &tunnel.interface));
    let memifs = config
        .memifs
        .iter()
        .map(|memif| (config.port_key(&memif.interface, "interface"), &memif.interface));
    for (key, name) in tunnels.chain(memifs) {
        if machine.devices.get(name).is_some_and(|device| device.driver != TUN) {
            let wrong = "an interface of another kind has this name, and culvert makes this one";
            let remedy = "a name that no interface has: see ip link";
            problems.push(Problem::new(key, name, wrong, remedy));
        }
    }
}

fn of_port(
    config: &Config,
    port: &PortConfig,
    machine: &Machine,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) {
    let name = port.interface.as_str();
    let key = |key: &str| config.port_key(name, key);
    let Some(device) = machine.devices.get(name) else {
        // A slip of the pen would stop a port that works.
        if let Some(lost) = nearest(name, machine.given_up.iter().map(String::as_str)) {
            problems.push(Problem::new(
                key("interface"),
                &name,
                format!("there is no such interface, and the port {lost} would be given up for it"),
                format!("did you mean {lost}? Else reload once without {lost}, then with {name}"),
            ));
            return;
        }
        let known = config.port_names();
        let free = machine.names.iter().filter(|name| !known.contains(*name) && *name != "lo");
        let near = nearest(name, free.map(String::as_str));
        let meant = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        warnings.push(Problem::new(
            key("interface"),
            &name,
            "there is no such interface",
            format!("{meant}It is taken when it comes: see ip link"),
        ));
        return;
    };
    let is_xdp = port.kind != Sockets::Packet;
    if let Some(queues) = port.queues.filter(|queues| is_xdp && *queues > device.rx_queues) {
        let there = device.rx_queues;
        warnings.push(Problem::new(
            key("queues"),
            &queues,
            format!("the interface has {there}, and so many are taken"),
            format!("leave it out, or: ethtool -L {name} combined {queues}"),
        ));
    }
    for finding in device.findings(config.worker.frame_bytes as usize, false) {
        if let Finding::MtuTooLargeForChunk { .. } = finding {
            let remedy = "worker.frame_bytes = 4096";
            warnings.push(Problem::new(key("interface"), &name, finding.to_string(), remedy));
        }
    }
}

/// Cores, workers, and buffers for them and for the queues.
fn of_workers(
    config: &Config,
    machine: &Machine,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) {
    let worker = &config.worker;
    let cores = |list: &[usize]| {
        list.iter().copied().filter(|core| !machine.cores.contains(core)).collect::<Vec<_>>()
    };
    let list = match worker.cpus() {
        Some(Cpus::Cores(list)) => list,
        _ => Vec::new(),
    };
    let key = if worker.cpu.is_some() { "worker.cpu" } else { "worker.cpus" };
    let mut has_all = true;
    for (key, list) in [(key, &list), ("worker.crypto_cpus", &worker.crypto_cpus)] {
        let missing = cores(list);
        if !missing.is_empty() {
            has_all = false;
            let value = if worker.cpu.is_some() && key == "worker.cpu" {
                missing.first().copied().unwrap_or_default().to_string()
            } else {
                format!("{list:?}")
            };
            let (core, does) = if missing.len() == 1 { ("core", "does") } else { ("cores", "do") };
            problems.push(Problem::new(
                key,
                &value,
                format!(
                    "{core} {} {does} not exist, or this process may not use {}",
                    ranges(&missing),
                    if missing.len() == 1 { "it" } else { "them" }
                ),
                format!("it may use {}", ranges(&machine.cores)),
            ));
        }
    }
    if !has_all {
        return;
    }
    let wanted = |port: &PortConfig| {
        let there = machine.devices.get(&port.interface).map(|device| device.rx_queues);
        ports::queues_of(port, there)
    };
    let queues = config.ports.iter().map(wanted).max().unwrap_or(0);
    let Ok(plan) = Plan::new(worker, queues, &machine.cores) else { return };
    let in_all: u32 = config.ports.iter().map(wanted).sum();
    let short = |frames| {
        let problem = limits::frames_problem(frames, &config.ports, &plan);
        problem.or_else(|| ports::rings_problem(frames, in_all))
    };
    let of_running = machine.running_frames.filter(|frames| *frames != worker.frames);
    if let Some(problem) = short(worker.frames) {
        problems.push(problem);
    } else if let Some((frames, problem)) = of_running.and_then(|n| Some((n, short(n)?))) {
        let wrong = format!("{}, and the daemon has {frames} until a restart", problem.wrong);
        let remedy = "a restart in the place of a reload; no SA is lost";
        problems.push(Problem::new(problem.key, &worker.frames, wrong, remedy));
    }
    for port in &config.ports {
        let Err(PlanError::TooManyQueues { queues, workers, most }) =
            plan.check_queues(wanted(port))
        else {
            continue;
        };
        let name = &port.interface;
        let problem = Problem::new(
            config.port_key(name, "queues"),
            &port.queues.map(|n| n.to_string()).unwrap_or_default(),
            format!(
                "{name} has {queues} receive queues, and {workers} workers take at most {most}"
            ),
            format!(
                "port.queues = {most}, or more workers (worker.cpus), or: ethtool -L {name} combined {most}"
            ),
        );
        match port.kind {
            Sockets::Xdp => problems.push(problem),
            // By packet sockets it makes no difference.
            Sockets::Auto => warnings.push(problem),
            Sockets::Packet => {}
        }
    }
    if let Some(warning) = plan.warning(queues)
        && !ports::spread_over_workers(&config.ports)
    {
        let count = plan.workers.len();
        let warning = warning.trim_start_matches("worker.cpus: ").to_owned();
        warnings.push(Problem::new(
            "worker.cpus",
            &count,
            warning,
            "fewer workers, or more queues",
        ));
    }
    if machine.running_frames.is_none()
        && !client::is_running(&config.name)
        && let Some(problem) = limits::problem(config, plan.workers.len())
    {
        problems.push(problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, driver: &str, rx_queues: u32) -> (String, Device) {
        let device = Device {
            name: name.into(),
            ifindex: 7,
            driver: driver.into(),
            mtu: 1500,
            rx_queues,
            tx_queues: rx_queues,
            tx_vlan_offload: false,
            rx_vlan_offload: false,
            tells_vlan_tags: false,
        };
        (name.into(), device)
    }

    /// Four cores, and a port of one queue and one of eight.
    fn machine() -> Machine {
        let devices = [device("wan", "veth", 1), device("lan", "mlx5_core", 8)];
        Machine {
            cores: vec![0, 1, 2, 5],
            devices: devices.into_iter().collect(),
            names: ["lo", "wan", "lan", "eth0"].map(str::to_owned).into(),
            private_is: None,
            others: Vec::new(),
            running_frames: Some(16384),
            given_up: Vec::new(),
            lost_sockets: Vec::new(),
            is_unprivileged: false,
        }
    }

    #[test]
    fn a_name_like_that_of_a_port_that_works_takes_it_not_away() {
        let text = "[[port]]\ninterface = \"lann\"\n";
        let reload = Machine { given_up: vec!["lan".into()], ..machine() };
        let (problems, _) = said(text, &reload);
        assert!(
            problems[0].contains("did you mean lan? Else reload once without lan"),
            "{problems:?}"
        );
        // Of another name it may come.
        let (problems, warnings) = said("[[port]]\ninterface = \"wwan0\"\n", &reload);
        assert!(problems.is_empty() && warnings[0].contains("no such interface"), "{warnings:?}");
        assert!(said(text, &machine()).0.is_empty(), "at a start nothing is lost");
    }

    /// Problems and warnings about a text on this machine.
    fn said(text: &str, machine: &Machine) -> (Vec<String>, Vec<String>) {
        let examined = Config::examine(text, |config| judge(config, machine));
        let texts =
            |all: &[Problem]| all.iter().map(|p| format!("{p}").replace('\n', " ")).collect();
        (texts(&examined.problems), texts(&examined.warnings))
    }

    #[test]
    fn what_a_machine_has_is_taken() {
        for text in [
            "",
            "[[port]]\ninterface = \"wan\"\n[[port]]\ninterface = \"lan\"\n",
            "[[port]]\ninterface = \"lan\"\nqueues = 4\n[worker]\ncpus = [0, 5]\ncrypto_cpus = [1]\n",
            "[worker]\ncpus = 20\n",
            "[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\n",
        ] {
            let (problems, warnings) = said(text, &machine());
            assert!(problems.is_empty(), "{text}: {problems:?}");
            assert!(warnings.is_empty() || text.contains("cpus"), "{text}: {warnings:?}");
        }
    }

    #[test]
    fn what_it_has_not_is_a_problem_with_a_remedy() {
        let wan = "[[port]]\ninterface = \"wan\"\n";
        let lan = "[[port]]\ninterface = \"lan\"\n";
        let rows: &[(&str, &[&str])] = &[
            ("[worker]\ncpus = [0, 3]\n", &["worker.cpus = [0, 3]: core 3 does", "0-2, 5"]),
            (
                "[worker]\ncrypto_cpus = [3, 4]\n",
                &["worker.crypto_cpus", "cores 3-4 do not", "them"],
            ),
            ("[worker]\ncpu = 9\n", &["worker.cpu = 9: core 9"]),
            ("[worker]\ncpus = 64\n", &["worker.frames = 16384: 64 workers", "= 65536"]),
            // As many as a reload takes up now: frames wait for a restart.
            (
                "[worker]\ncpus = 64\nframes = 65536\n",
                &["worker.frames = 65536: 64 workers", "has 16384 until"],
            ),
            ("[[tunnel]]\ninterface = \"eth9\"\nif_id = 1\n", &[]),
            (
                "[[tunnel]]\ninterface = \"wan\"\nif_id = 1\n",
                &["tunnel[0].interface", "another kind"],
            ),
            (&format!("{wan}queues = 40\n[worker]\ncpus = 1\n"), &[]),
        ];
        for (text, parts) in rows {
            let (problems, _) = said(text, &machine());
            let all = problems.join("; ");
            assert_eq!(problems.len(), usize::from(!parts.is_empty()), "{text}: {all}");
            for part in *parts {
                assert!(all.contains(part), "{text}: {part:?} not in: {all}");
            }
        }
        let taken = Machine { private_is: Some("the instance gwb has".into()), ..machine() };
        let (problems, _) = said("", &taken);
        assert!(problems[0].contains("gwb") && problems[0].contains("tun.table"), "{problems:?}");
        let many_of = |queues| {
            let mut machine = machine();
            machine.devices.extend([device("lan", "mlx5_core", queues)]);
            machine
        };
        let many = many_of(80);
        let text = format!("{lan}kind = \"xdp\"\n[worker]\nframes = 65536\n");
        let (problems, _) = said(&text, &many);
        assert!(problems[0].contains("80 receive queues, and 4 workers take"), "{problems:?}");
        let few = format!("{lan}[worker]\nframes = 4096\n");
        let (problems, _) = said(&few, &Machine { running_frames: None, ..many_of(40) });
        assert!(
            problems[0].contains("40 receive queues of all ports need at least 5120"),
            "{problems:?}"
        );
        // By packet sockets it would work, and these may be chosen.
        for (kind, warnings) in [("packet", 0), ("auto", 1)] {
            let text = format!("{lan}kind = \"{kind}\"\n[worker]\nframes = 65536\n");
            let (problems, warned) = said(&text, &many);
            assert_eq!((problems, warned.len()), (Vec::<String>::new(), warnings), "{kind}");
        }
    }

    #[test]
    fn what_passes_by_itself_is_a_warning() {
        let rows: &[(&str, &str)] = &[
            ("[[port]]\ninterface = \"wann\"\n", "did you mean wan?"),
            ("[[port]]\ninterface = \"eht0\"\n", "did you mean eth0?"),
            ("[[port]]\ninterface = \"wan\"\nqueues = 64\n", "the interface has 1"),
            (
                "[worker]\ncpus = 4\n[[port]]\ninterface = \"wan\"\nkind = \"xdp\"\n",
                "4 workers, but no port",
            ),
        ];
        for (text, part) in rows {
            let (problems, warnings) = said(text, &machine());
            assert!(problems.is_empty(), "{text}: {problems:?}");
            let all = warnings.join("; ");
            assert!(all.contains(part), "{text}: {part:?} not in: {all}");
        }
    }

    #[test]
    fn without_rights_there_are_no_ports() {
        let alone = Machine { is_unprivileged: true, ..machine() };
        let text =
            "source = \"kernel\"\n[[port]]\ninterface = \"wan\"\n[nat]\nlearn = \"conntrack\"\n";
        let (problems, _) = said(text, &alone);
        let keys: Vec<&str> = problems.iter().filter_map(|p| p.split(' ').next()).collect();
        assert_eq!(keys, ["source", "port[0].interface", "nat.learn"], "{problems:?}");
    }
}
