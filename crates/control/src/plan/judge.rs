//! Everything that is wrong with a configuration on a machine, and for a daemon that runs.
//!
//! A fault that passes by itself is a warning, and refuses nothing: an interface that is not there may come. Rights, another daemon
//! of the same name and what an earlier run has saved are no matter of the file: `culvert doctor` looks at these.

use std::collections::BTreeSet;

use config::{Config, Cpus, EngineChoice, PortConfig, Problem, Sockets, SourceChoice, nearest};
use steer::device::Finding;

use super::machine::{Machine, TUN};
use super::running::Running;
use crate::layout::{Layout, LayoutError, ranges};
use crate::ports::rings::{rings_problem, spread_over_workers};
use crate::{limits, unprivileged};

/// Problems, warnings, and the set of workers if there can be one.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
    pub layout: Option<Layout>,
}

/// Judges a configuration.
pub(super) fn judge(running: &Running, wanted: &Config, machine: &Machine) -> Judged {
    let mut judged = Judged::default();
    let Judged { problems, warnings, .. } = &mut judged;
    of_services(wanted, machine, problems);
    if let Some(why) = &machine.lacks_ndpi {
        let wrong = format!("flows that culvert does not read stay unknown: {why}");
        let remedy = "mend that, or leave ndpi out: it is tried again, at least every ten minutes";
        warnings.push(Problem::new("applications.ndpi", &true, wrong, remedy));
    }
    // Of a file that names the kernel they are told already.
    if running.is_beside_kernel && wanted.source != SourceChoice::Kernel {
        problems.extend(wanted.problems_beside_kernel());
    }
    if machine.is_unprivileged {
        problems.extend(unprivileged::problems(wanted));
    }
    of_names(wanted, machine, problems);
    of_named_interfaces(wanted, machine, warnings);
    let lost: Vec<&str> =
        running.given_up(wanted).filter(|name| machine.names.iter().any(|n| n == name)).collect();
    for port in &wanted.ports {
        of_port(wanted, port, (machine, &lost), problems, warnings);
    }
    for memif in wanted.memifs.iter().filter(|m| machine.lost_sockets.contains(&m.interface)) {
        warnings.push(Problem::new(
            wanted.port_key(&memif.interface, "socket"),
            &memif.socket.display(),
            "there is no such directory, so no application can connect yet",
            "make it; the socket is tried again every 10 s",
        ));
    }
    if let (Some((wrong, remedy)), Some(address)) = (&machine.lacks_bfdd, &wanted.bfd.dataplane) {
        warnings.push(Problem::new("bfd.dataplane", address, wrong.clone(), remedy.clone()));
    }
    if has_all_cores(wanted, machine, problems) {
        judged.layout = of_workers(running, wanted, machine, problems, warnings);
    }
    judged
}

/// Problems that were found by trying.
fn of_services(config: &Config, machine: &Machine, problems: &mut Vec<Problem>) {
    if let Some(why) = &machine.lacks_engine {
        let engine = match config.crypto.engine {
            EngineChoice::Auto => "auto",
            EngineChoice::IpsecMb => "ipsec-mb",
            EngineChoice::Openssl => "openssl",
        };
        let remedy = "another engine; \"auto\" takes what there is";
        problems.push(Problem::new("crypto.engine", &engine, why.clone(), remedy));
    }
    for (key, file, why) in &machine.lacks_keys {
        let remedy = "a file with 16 to 64 bytes as hexadecimal digits: openssl rand -hex 32";
        problems.push(Problem::new(key.clone(), file, why.clone(), remedy));
    }
    if let Some(why) = &machine.lacks_conntrack {
        let wrong = format!("connection tracking cannot be asked: {why}");
        let remedy = "modprobe nf_conntrack_netlink, or nat.learn = \"off\"";
        problems.push(Problem::new("nat.learn", &"conntrack", wrong, remedy));
    }
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

/// Interfaces that sections name which do not make them, each where it stands first: an entry about one that is not there
/// does nothing until it comes.
fn of_named_interfaces(config: &Config, machine: &Machine, warnings: &mut Vec<Problem>) {
    let paths = config.paths.iter().enumerate().filter_map(|(i, path)| {
        let tunnel = path.tunnel.as_ref().map(|name| (format!("path[{i}].tunnel"), name));
        tunnel.or_else(|| Some((format!("path[{i}].uplink"), path.uplink.as_ref()?)))
    });
    let steers = config.steers.iter().map(|rule| rule.interface.as_ref());
    let limits = config.limits.iter().map(|limit| limit.interface.as_ref());
    let marks = config.marks.iter().map(|mark| mark.interface.as_ref());
    let named = steers.enumerate().map(|at| ("steer", at));
    let named = named.chain(limits.enumerate().map(|at| ("limit", at)));
    let named = named.chain(marks.enumerate().map(|at| ("mark", at)));
    let named =
        named.filter_map(|(section, (i, name))| Some((format!("{section}[{i}].interface"), name?)));
    let tunnels = config.tunnels.iter().map(|tunnel| tunnel.interface.as_str());
    let ports = config.port_names();
    let made =
        tunnels.chain(ports.iter().map(String::as_str)).chain([config.tun.interface.as_str()]);
    let there = machine.names.iter().map(String::as_str);
    let known: BTreeSet<&str> = there.chain(made).collect();
    let lost = paths.chain(named).filter(|(_, name)| !known.contains(name.as_str()));
    // Thousands of paths may name one tunnel.
    let mut told = BTreeSet::new();
    for (key, name) in lost.filter(|(_, name)| told.insert(*name)) {
        let near = nearest(name, known.iter().copied().filter(|name| *name != "lo"));
        let meant = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        let remedy = format!("{meant}It counts when it comes: see ip link");
        warnings.push(Problem::new(key, name, "there is no such interface", remedy));
    }
}

fn of_port(
    config: &Config,
    port: &PortConfig,
    (machine, lost): (&Machine, &[&str]),
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) {
    let name = port.interface.as_str();
    let key = |key: &str| config.port_key(name, key);
    let Some(device) = machine.devices.get(name) else {
        // A slip of the pen would stop a port that works.
        if let Some(lost) = nearest(name, lost.iter().copied()) {
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

/// True if all cores are there that are named.
fn has_all_cores(config: &Config, machine: &Machine, problems: &mut Vec<Problem>) -> bool {
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
    has_all
}

/// Workers, and buffers for them and for the queues of ports.
fn of_workers(
    running: &Running,
    config: &Config,
    machine: &Machine,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Option<Layout> {
    let worker = &config.worker;
    let queues = config.ports.iter().map(|port| machine.queues_of(port)).max().unwrap_or(0);
    let layout = Layout::new(worker, queues, &machine.cores).ok()?;
    let in_all = machine.queues_in_all(config);
    let short = |frames| {
        let problem = limits::frames_problem(frames, &config.ports, &layout);
        problem.or_else(|| rings_problem(frames, in_all))
    };
    let of_running = running.config.as_ref().map(|running| running.worker.frames);
    let of_running = of_running.filter(|frames| *frames != worker.frames);
    if let Some(problem) = short(worker.frames) {
        problems.push(problem);
    } else if let Some((frames, problem)) = of_running.and_then(|n| Some((n, short(n)?))) {
        let wrong = format!("{}, and the daemon has {frames} until a restart", problem.wrong);
        let remedy = "a restart in the place of a reload; no SA is lost";
        problems.push(Problem::new(problem.key, &worker.frames, wrong, remedy));
    }
    for port in &config.ports {
        let Err(LayoutError::TooManyQueues { queues, workers, most }) =
            layout.check_queues(machine.queues_of(port))
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
    if let Some(warning) = layout.warning(queues)
        && !spread_over_workers(&config.ports)
    {
        let count = layout.workers.len();
        let warning = warning.trim_start_matches("worker.cpus: ").to_owned();
        warnings.push(Problem::new(
            "worker.cpus",
            &count,
            warning,
            "fewer workers, or more queues",
        ));
    }
    let short_of_memory = match &running.config {
        Some(before) => {
            let more = layout.threads().saturating_sub(running.layout.threads());
            limits::growth_problem(before, more, &machine.memory)
        }
        // Memory that the daemon of this name has is free when this one takes its place.
        None if machine.is_instance_running => None,
        None => limits::problem(config, layout.workers.len(), &machine.memory),
    };
    problems.extend(short_of_memory);
    Some(layout)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, device, machine, running};
    use super::*;

    #[test]
    fn a_name_like_that_of_a_port_that_works_takes_it_not_away() {
        let text = "[[port]]\ninterface = \"lann\"\n";
        let (problems, _) = of_reload(LAN, text, &machine());
        assert!(
            problems[0].contains("did you mean lan? Else reload once without lan"),
            "{problems:?}"
        );
        // Of another name it may come.
        let (problems, warnings) = of_reload(LAN, "[[port]]\ninterface = \"wwan0\"\n", &machine());
        assert!(problems.is_empty() && warnings[0].contains("no such interface"), "{warnings:?}");
        assert!(said(text, &machine()).0.is_empty(), "at a start nothing is lost");
    }

    const LAN: &str = "[[port]]\ninterface = \"lan\"\n";

    /// Problems and warnings of a text, for a start on this machine.
    fn said(text: &str, machine: &Machine) -> (Vec<String>, Vec<String>) {
        of_text(&Running::nothing(), text, machine)
    }

    /// The same, for a daemon that runs with another text.
    fn of_reload(before: &str, text: &str, machine: &Machine) -> (Vec<String>, Vec<String>) {
        of_text(&running(&config(before), machine), text, machine)
    }

    fn of_text(running: &Running, text: &str, machine: &Machine) -> (Vec<String>, Vec<String>) {
        let examined = Config::examine(text, |config| {
            let judged = judge(running, config, machine);
            (judged.problems, judged.warnings)
        });
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
    fn a_library_that_is_not_there_refuses_nothing() {
        let text = "[applications]\nenabled = true\nndpi = true\n";
        let lacks_ndpi = Some("libndpi.so.4.2: no such file; apt install libndpi4.2".into());
        let (problems, warnings) = said(text, &Machine { lacks_ndpi, ..machine() });
        assert!(problems.is_empty(), "{problems:?}");
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        for piece in ["applications.ndpi = true", "stay unknown", "apt install libndpi4.2"] {
            assert!(warning.contains(piece), "{warning}");
        }
        assert!(said(text, &machine()).1.is_empty());
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
        // Frames wait for a restart.
        let text = "[worker]\ncpus = 64\nframes = 65536\n";
        assert!(said(text, &machine()).0.is_empty());
        let (problems, _) = of_reload("", text, &machine());
        for part in ["worker.frames = 65536: 64 workers", "has 16384 until"] {
            assert!(problems[0].contains(part), "{problems:?}");
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
        let (problems, _) = said(&few, &many_of(40));
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
    fn interfaces_that_nothing_has_are_named_with_their_likes() {
        let path = |keys: &str| {
            format!("[[path]]\nname = \"a\"\nsource = \"10.0.0.1\"\nto = \"10.0.0.2\"\n{keys}\n")
        };
        let tunnel = "[[tunnel]]\ninterface = \"ipsec0\"\nif_id = 1\n";
        let steer = "[[steer]]\nname = \"r\"\npaths = [\"a\"]\ninterface = \"lna\"\n";
        for (text, part) in [
            (path("tunnel = \"ipsec9\"") + tunnel, "path[0].tunnel = \"ipsec9\": there is no such"),
            (path("tunnel = \"ipsec9\"") + tunnel, "did you mean ipsec0? It counts"),
            (path("uplink = \"wam\""), "path[0].uplink = \"wam\""),
            (path("tunnel = \"ipsec0\"") + tunnel + steer, "steer[0].interface = \"lna\""),
            ("[[mark]]\nmark = 1\ninterface = \"wwan7\"\n".into(), "mark[0].interface"),
            (
                "[[limit]]\nname = \"l\"\nrate = \"1Mbit\"\ninterface = \"wann\"\n".into(),
                "did you mean wan? It counts",
            ),
        ] {
            let (problems, warnings) = said(&text, &machine());
            assert!(problems.is_empty(), "{text}: {problems:?}");
            assert!(warnings.len() == 1 && warnings[0].contains(part), "{text}: {warnings:?}");
        }
        let (_, warnings) = said(&(path("tunnel = \"ipsec0\"") + tunnel), &machine());
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn beside_the_kernel_no_path_leaves_in_clear() {
        let path =
            "name = \"direct\"\nuplink = \"wan\"\nsource = \"192.0.2.1\"\nto = \"198.51.100.7\"\n";
        let text = format!("[[port]]\ninterface = \"wan\"\n[[path]]\n{path}");
        for (is_beside_kernel, problems) in [(false, 0), (true, 1)] {
            let running = Running { is_beside_kernel, ..Running::nothing() };
            let (found, _) = of_text(&running, &text, &machine());
            assert_eq!(found.len(), problems, "{found:?}");
            assert!(found.iter().all(|one| one.contains("path[0].uplink")), "{found:?}");
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
