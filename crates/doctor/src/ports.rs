//! Checks of the configured ports, and of the packet buffers that they share.

use config::{Config, Sockets, XdpMode};
use control::{FRAMES_PER_FULL_QUEUE, FRAMES_SPARE, QUEUES_PER_WORKER, frames_at_start};
use report::{Port, PortKind, PortMode, StrippedTags};
use steer::device::{Device, Finding as DeviceFinding};

use super::facts::{Facts, PortFacts, VlanFacts, Works, XdpProgram};
use super::finding::{Finding, Outcome};
use super::mend::Mend;

/// Every port, then the buffers.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let Some(config) = facts.config() else { return Vec::new() };
    let mut findings: Vec<Finding> =
        facts.ports.iter().flat_map(|port| port_findings(facts, config, port)).collect();
    if !config.ports.is_empty() {
        findings.push(buffers(facts, config));
    }
    findings
}

fn port_findings(facts: &Facts, config: &Config, port: &PortFacts) -> Vec<Finding> {
    let name = port.config.interface.as_str();
    let check = format!("port {name}");
    let Some(link) = &port.link else {
        return vec![Finding::problem(
            check,
            "no such interface in this network namespace",
            "its packets are not taken; culvert waits for it, and takes it when it comes",
            "ip -br link; or correct port.interface in the configuration",
        )];
    };
    if link.loopback {
        return vec![Finding::problem(
            check,
            "this is the loopback interface",
            "its traffic never leaves this host: there is nothing to protect",
            "name another interface: ip -br link",
        )];
    }
    if let Some(below) = &port.below {
        return vec![Finding::problem(
            check,
            format!("this is a VLAN of {below}"),
            format!("culvert does not open it: the VLANs of {below} are taken with {below}"),
            format!("interface = \"{below}\" in the configuration"),
        )];
    }
    let mut findings = Vec::new();
    if !link.up {
        findings.push(Finding::problem(
            &check,
            "the interface is down",
            "its packets are not taken; culvert waits, and takes it when it is up",
            format!("ip link set {name} up"),
        ));
    } else if !link.running {
        findings.push(Finding::warning(
            &check,
            "up, but without carrier",
            "nothing comes and nothing goes: the cable, or the other end, is missing",
            format!("ip link show {name}; ethtool {name}"),
        ));
    }
    if link.master.is_some() {
        findings.push(Finding::warning(
            &check,
            "the interface belongs to a bridge, a bond or a VRF",
            "packets that culvert takes here pass the bridge or bond by, and what it sends does too",
            format!("name the upper interface as the port, or: ip link set {name} nomaster"),
        ));
    }
    let (working, works) = (facts.working_port(name), facts.works(port));
    let lost_tags = port.device.as_ref().ok().and_then(|device| lost_tags(port, device, working));
    match &port.device {
        Ok(device) => {
            let lost_tags = lost_tags.as_deref();
            device_findings(&mut findings, &check, config, (port, works), device, lost_tags);
        }
        Err(reason) => findings.push(Finding::warning(
            &check,
            reason,
            "driver, queues and offloads are not known",
            format!("ethtool -i {name}"),
        )),
    }
    let is_xdp = works == Works::Xdp;
    match (&port.xdp, working) {
        (XdpProgram::Attached(id), None) if is_xdp && !facts.machine.root => {
            findings.push(Finding::warning(
                &check,
                format!(
                    "an XDP program (id {id}) is attached; whose it is cannot be seen without root"
                ),
                "it may be the running daemon's own",
                "sudo culvert doctor",
            ));
        }
        (XdpProgram::Attached(id), None) if is_xdp => {
            let other = facts.others.iter().find(|other| other.ports.iter().any(|p| p == name));
            let (whose, next) = match other {
                Some(other) => (
                    format!("it is that of instance {:?}", other.name),
                    "leave the port out of one of the two configurations".to_owned(),
                ),
                None => (
                    "it is not this instance's".to_owned(),
                    format!(
                        "bpftool net show dev {name} and bpftool prog show id {id} name it: have its owner let go \
                         of the interface, or leave the port out"
                    ),
                ),
            };
            findings.push(Finding::problem(
                &check,
                format!("an XDP program (id {id}) is attached, and {whose}"),
                "an interface takes one program: culvert cannot open the port",
                next,
            ));
        }
        (XdpProgram::Unknown(reason), None) if is_xdp => findings.push(Finding::warning(
            &check,
            format!("whether another XDP program is attached was not seen: {reason}"),
            "an interface takes one program: culvert cannot open a port that has another's",
            format!("apt-get install iproute2; ip -d link show {name}"),
        )),
        _ => {}
    }
    if port.offers_esp && facts.machine.esp_offload == Some(false) && facts.is_beside_kernel() {
        findings.push(Finding::warning(
            &check,
            "the driver offers esp-hw-offload, and this kernel is without CONFIG_INET_ESP_OFFLOAD",
            "SAs of IPv4 cannot be offloaded (\"Type doesn't support offload\"), whatever ethtool says",
            "leave hw_offload = no in swanctl.conf, or use a kernel with CONFIG_INET_ESP_OFFLOAD=m",
        ));
    }
    if let Some(working) = working
        && working.mode.is_generic()
        && port.config.mode == XdpMode::Auto
    {
        findings.push(Finding::warning(
            &check,
            format!("works in mode {}", working.mode),
            "the driver did not take the program: each packet costs several times as much, and \
             cleartext that policy leaves to Linux comes in by the private interface",
            format!("a lower MTU may do (ip link set {name} mtu 1500), or another driver"),
        ));
    }
    findings.extend(working.and_then(|working| refused(&check, working)));
    if findings.iter().all(|f| f.result == Outcome::Ok) {
        findings.push(Finding::ok(&check, summary(port, works, link.mtu)));
    }
    if let Some(working) = working
        && let Some(why) = &working.chosen
    {
        let by = if is_xdp { "AF_XDP" } else { "packet sockets" };
        findings.push(Finding::ok(&check, format!("chosen: {by}, as {why}")));
    }
    if let Ok(device) = &port.device
        && is_xdp
        && device.strips_vlan_tags()
        && lost_tags.is_none()
    {
        let seen = "VLAN offload is on: tags that lie beside frames are put back into them";
        findings.push(Finding::ok(&check, seen));
    }
    // Of those that are left open another choice was made with reason, and beside the kernel packet sockets may get nothing.
    if let Ok(device) = &port.device
        && port.config.kind == Sockets::Xdp
        && !facts.is_beside_kernel()
        && has_no_zero_copy(device, working.map(|w| &w.mode))
    {
        let seen = format!(
            "{} has no zero copy: without kind = \"xdp\" TCP would be faster, with encap = yes twice as fast",
            device.driver
        );
        findings.push(Finding::ok(check, seen));
    }
    findings
}

/// Frames that packet sockets got and could not hand on, where there are many: one in a thousand.
fn refused(check: &str, working: &Port) -> Option<Finding> {
    let refused = working.faults.get("rx-refused").copied().unwrap_or(0);
    let is_told = working.kind == PortKind::Packet && refused > working.rx_packets / 1000;
    is_told.then(|| {
        Finding::warning(
            check,
            format!("{refused} frames were refused, {} taken", working.rx_packets),
            "packet sockets lose what comes as super-packets inside tunnels that are not GRE, VXLAN, GENEVE or IP in \
             IP, or above 64 KiB (BIG TCP), and what a worker is too slow for",
            format!(
                "if it grows (culvert port --json, faults): kind = \"xdp\" for {}, or switch such super-packets off \
                 where they come from (ethtool -K DEV tx-udp_tnl-segmentation off)",
                working.interface
            ),
        )
    })
}

/// True if AF_XDP copies each frame: as the daemon sees it, else by the driver's name.
fn has_no_zero_copy(device: &Device, mode: Option<&PortMode>) -> bool {
    let is_virtual = matches!(device.driver.as_str(), "veth" | "virtio_net");
    is_virtual && mode.is_none_or(|mode| mode.copies() == Some(true))
}

fn summary(port: &PortFacts, works: Works, mtu: u32) -> String {
    match &port.device {
        Ok(device) => {
            let driver = if device.driver.is_empty() { "not named" } else { &device.driver };
            let queues = taken_queues(port, works, device);
            format!("up, driver {driver}, MTU {mtu}, {queues} of {} queues", device.rx_queues)
        }
        Err(_) => format!("up, MTU {mtu}"),
    }
}

/// Queues that culvert takes, by the configuration and by what is there.
fn taken_queues(port: &PortFacts, works: Works, device: &Device) -> u32 {
    if works == Works::Packet {
        // Of an interface's queues all, however many sockets there are.
        return device.rx_queues;
    }
    port.config.queues.unwrap_or(device.rx_queues).min(device.rx_queues)
}

fn device_findings(
    findings: &mut Vec<Finding>,
    check: &str,
    config: &Config,
    (port, works): (&PortFacts, Works),
    device: &Device,
    lost_tags: Option<&str>,
) {
    let name = port.config.interface.as_str();
    let is_xdp = works == Works::Xdp;
    let hinders = |finding: &DeviceFinding| {
        is_xdp || matches!(finding, DeviceFinding::MtuTooLargeForChunk { .. })
    };
    for finding in device.findings(config.worker.frame_bytes as usize, false) {
        if !hinders(&finding) {
            continue;
        }
        findings.push(match finding {
            DeviceFinding::MtuTooLargeForChunk { mtu, limit, .. } => {
                let larger = match config.worker.frame_bytes {
                    2048 => ", or worker.frame_bytes = 4096 in the configuration",
                    _ => "",
                };
                Finding::problem(
                    check,
                    format!(
                        "MTU {mtu}; a buffer of {} bytes takes {limit}",
                        config.worker.frame_bytes
                    ),
                    "frames must fit a packet buffer: culvert does not open the port",
                    format!("ip link set {name} mtu {limit}{larger}"),
                )
            }
            DeviceFinding::MtuTooLargeForNative { mtu, limit, .. } => {
                let make = match port.config.mode {
                    XdpMode::Native => Finding::problem,
                    XdpMode::Auto => Finding::warning,
                    // In the stack the driver's limit does not count.
                    XdpMode::Generic => continue,
                };
                make(
                    check.to_owned(),
                    format!("MTU {mtu}; the driver's native XDP takes {limit} at most"),
                    "the program can only be attached in generic mode, which is slow".to_owned(),
                    format!("ip link set {name} mtu {limit}"),
                )
            }
            DeviceFinding::VlanOffload { is_veth, .. } => match lost_tags {
                Some(why) => vlan_offload(check, port, is_veth, why),
                None => continue,
            },
        });
    }
    stacked_vlans(findings, check, port, device);
    let taken = taken_queues(port, works, device);
    let workers = config.worker.cpus().map_or_else(workers_left_out, |cpus| cpus.count());
    let most = workers * QUEUES_PER_WORKER;
    if taken as usize > most {
        findings.push(Finding::problem(
            check,
            format!("{taken} receive queues; {workers} workers take at most {most}"),
            "culvert does not open the port",
            format!("set more worker.cpus, or port.queues; or: ethtool -L {name} combined {most}"),
        ));
    } else if is_xdp && taken < device.rx_queues {
        findings.push(Finding::warning(
            check,
            format!("{taken} of {} receive queues are taken", device.rx_queues),
            "packets that arrive on the others are left to Linux, which cannot decrypt them",
            format!("leave port.queues out, or: ethtool -L {name} combined {taken}"),
        ));
    }
    if let Some(asked) = port.config.queues
        && is_xdp
        && asked > device.rx_queues
    {
        findings.push(Finding::warning(
            check,
            format!("port.queues = {asked}, and there are {}", device.rx_queues),
            "those that are there are taken",
            format!("ethtool -L {name} combined {asked}, or correct port.queues"),
        ));
    }
}

/// Why tags that travel beside the frame are lost: as the daemon knows, else by what the driver promises. `None` if
/// they are put back.
fn lost_tags(port: &PortFacts, device: &Device, working: Option<&Port>) -> Option<String> {
    if working.is_some_and(|working| working.kind == PortKind::Packet) {
        return None;
    }
    match working.map(|working| &working.stripped_tags) {
        Some(Some(StrippedTags::Lost(why))) => Some(why.clone()),
        Some(Some(StrippedTags::PutBack | StrippedTags::Other(_))) => None,
        Some(None) => Some("the offload was off when the port opened".to_owned()),
        None if port.config.mode == XdpMode::Generic => Some("mode = \"generic\"".to_owned()),
        None if device.tells_vlan_tags => None,
        None => Some("the driver does not tell them, or this kernel cannot ask".to_owned()),
    }
}

/// Tags that travel beside the frame. A veth's other end decides about what comes, and cannot be seen from here: it
/// begins with the same settings.
fn vlan_offload(check: &str, port: &PortFacts, is_veth: bool, why: &str) -> Finding {
    let name = port.config.interface.as_str();
    let (ends, offloads) = match is_veth {
        true => ("here and on the peer: ", "tx-vlan-offload off tx-vlan-stag-hw-insert off"),
        false => ("", "rx-vlan-offload off"),
    };
    let command = format!("ethtool -K {name} {offloads}");
    let vlans: Vec<&str> = port.vlans.iter().map(|vlan| vlan.name.as_str()).collect();
    let (make, seen, means): (fn(_, _, _, _) -> _, _, _) = match (vlans.is_empty(), is_veth) {
        (true, _) => (
            Finding::warning,
            "VLAN offload is on".to_owned(),
            "VLAN tags travel beside the frame and are lost through AF_XDP; without VLANs on this \
             interface it does not matter",
        ),
        (false, true) => (
            Finding::warning,
            format!("VLAN offload is on, and {} lies here", vlans.join(", ")),
            "if it is on at the peer too, VLAN tags travel beside the frame and are lost through \
             AF_XDP: frames are taken for those of the port itself",
        ),
        (false, false) => (
            Finding::problem,
            format!("VLAN offload is on, and {} lies here", vlans.join(", ")),
            "the driver takes VLAN tags out, and AF_XDP does not tell them: frames are taken for those \
             of the port itself",
        ),
    };
    let means = format!("{means}; they cannot be put back: {why}");
    make(check.to_owned(), seen, means, format!("{ends}{command}")).mended_by(Mend::new(command))
}

/// A veth lets frames pass that have one tag more than its MTU allows for, and drops those with two.
fn stacked_vlans(findings: &mut Vec<Finding>, check: &str, port: &PortFacts, device: &Device) {
    let is_cut = |vlan: &&VlanFacts| vlan.tags > 1 && vlan.mtu + 4 * (vlan.tags - 1) > device.mtu;
    let name = port.config.interface.as_str();
    let cut = port.vlans.iter().filter(|_| device.driver == "veth").find(is_cut);
    findings.extend(cut.map(|vlan| {
        let needed = vlan.mtu + 4 * (vlan.tags - 1);
        Finding::warning(
            check,
            format!(
                "MTU {}; {} has {} tags and MTU {}",
                device.mtu, vlan.name, vlan.tags, vlan.mtu
            ),
            "a veth drops its longest frames",
            format!("at both ends: ip link set {name} mtu {needed}"),
        )
    }));
}

/// The most workers where `worker.cpus` is left out.
fn workers_left_out() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn buffers(facts: &Facts, config: &Config) -> Finding {
    let check = "buffers";
    let frames = config.worker.frames;
    // The daemon starts with the first (`culvert check` says if it does not), and works with the second.
    let ports = &facts.ports;
    let taken = |port: &PortFacts, device| taken_queues(port, facts.works(port), device);
    let most = ports.iter().filter_map(|p| p.device.as_ref().ok().map(|d| taken(p, d)));
    let auto = workers_left_out().min(most.max().unwrap_or(1) as usize);
    let workers = config.worker.cpus().map_or(auto, |cpus| cpus.count());
    let at_start = frames_at_start(&config.ports, workers);
    let queues: u32 = ports.iter().map(|p| p.device.as_ref().map_or(1, |d| taken(p, d))).sum();
    let in_use = queues.saturating_mul(FRAMES_PER_FULL_QUEUE) + FRAMES_SPARE;
    let enough = format!("worker.frames = {}", at_start.max(in_use).next_power_of_two());
    if frames < in_use {
        return Finding::warning(
            check,
            format!("worker.frames = {frames}; {queues} queues can hold {in_use}"),
            "each queue has fewer buffers to receive into, and a burst may find none",
            enough,
        );
    }
    let mib = u64::from(frames) * u64::from(config.worker.frame_bytes) / (1 << 20);
    Finding::ok(check, format!("{frames} frames ({mib} MiB) for {queues} queues"))
}

#[cfg(test)]
mod tests {
    use config::{Cpus, SourceChoice};

    use super::super::facts::{OtherInstance, healthy, healthy_daemon};
    use super::super::rows::{Row, assert_rows};
    use super::*;

    fn config(facts: &mut Facts) -> &mut Config {
        facts.configuration.loaded.as_mut().unwrap()
    }

    fn device(facts: &mut Facts) -> &mut Device {
        facts.ports[0].device.as_mut().unwrap()
    }

    fn link(facts: &mut Facts) -> &mut mirror::Link {
        facts.ports[0].link.as_mut().unwrap()
    }

    /// One on the port, and one on that.
    fn vlans() -> Vec<VlanFacts> {
        let vlan = |name: &str, tags| VlanFacts { name: name.into(), tags, mtu: 1500 };
        vec![vlan("wan.7", 1), vlan("wan.7.9", 2)]
    }

    /// Each row spoils the first port.
    #[test]
    fn every_finding() {
        use Outcome::{Ok as Fine, Problem, Warning};
        let rows: &[Row] = &[
            (|f| f.ports[0].link = None, "port wan", Problem, &["no such interface"]),
            (|f| link(f).up = false, "port wan", Problem, &["ip link set wan up"]),
            (|f| link(f).loopback = true, "port wan", Problem, &["loopback"]),
            (|f| link(f).running = false, "port wan", Warning, &["carrier"]),
            (|f| link(f).master = Some(9), "port wan", Warning, &["bridge", "nomaster"]),
            (|f| f.ports[0].device = Err("EPERM".into()), "port wan", Warning, &["EPERM"]),
            (|f| device(f).mtu = 1771, "port wan", Problem, &["1771", "1770", "4096"]),
            (
                |f| {
                    config(f).worker.frame_bytes = 4096;
                    device(f).mtu = 9000;
                },
                "port wan",
                Problem,
                &["9000", "ip link set wan mtu 3818"],
            ),
            (
                |f| {
                    config(f).worker.frame_bytes = 4096;
                    device(f).driver = "veth".into();
                    device(f).mtu = 3600;
                },
                "port wan",
                Warning,
                &["3506", "generic"],
            ),
            (
                |f| {
                    config(f).worker.frame_bytes = 4096;
                    f.ports[0].config.mode = XdpMode::Native;
                    device(f).driver = "veth".into();
                    device(f).mtu = 3600;
                },
                "port wan",
                Problem,
                &["3506"],
            ),
            (
                |f| {
                    config(f).worker.frame_bytes = 4096;
                    f.ports[0].config.mode = XdpMode::Generic;
                    device(f).driver = "veth".into();
                    device(f).mtu = 3600;
                },
                "port wan",
                Fine,
                &["veth"],
            ),
            (|f| device(f).rx_vlan_offload = true, "port wan", Warning, &["rx-vlan-offload off"]),
            (
                |f| {
                    device(f).driver = "veth".into();
                    device(f).tx_vlan_offload = true;
                },
                "port wan",
                Warning,
                &["peer", "tx-vlan-offload off"],
            ),
            (
                |f| {
                    f.ports[0].vlans = vlans();
                    device(f).rx_vlan_offload = true;
                },
                "port wan",
                Problem,
                &["wan.7, wan.7.9 lies here", "rx-vlan-offload off"],
            ),
            (
                |f| {
                    f.ports[0].vlans = vlans();
                    device(f).driver = "veth".into();
                    device(f).mtu = 1504;
                    device(f).tx_vlan_offload = true;
                },
                "port wan",
                Warning,
                &["at the peer too", "tx-vlan-offload off"],
            ),
            (
                |f| {
                    f.ports[0].vlans = vlans();
                    device(f).driver = "veth".into();
                },
                "port wan",
                Warning,
                &["wan.7.9 has 2 tags", "wan mtu 1504"],
            ),
            (|f| f.ports[0].vlans = vlans(), "port wan", Fine, &["up"]),
            (
                |f| f.ports[0].below = Some("eth9".into()),
                "port wan",
                Problem,
                &["a VLAN of eth9", "are taken with eth9"],
            ),
            (
                |f| {
                    config(f).worker.frames = 65536;
                    config(f).worker.cpus = Some(Cpus::Count(1));
                    device(f).rx_queues = 17;
                },
                "port wan",
                Problem,
                &["17", "1 workers take at most 16", "ethtool -L wan combined 16"],
            ),
            (
                |f| {
                    f.ports[0].config.queues = Some(1);
                    device(f).rx_queues = 2;
                },
                "port wan",
                Warning,
                &["1 of 2", "cannot decrypt"],
            ),
            (|f| f.ports[0].config.queues = Some(2), "port wan", Warning, &["port.queues = 2"]),
            (
                |f| f.ports[0].xdp = XdpProgram::Attached(12),
                "port wan",
                Problem,
                &["id 12", "bpftool net show dev wan"],
            ),
            (
                |f| {
                    f.ports[0].xdp = XdpProgram::Attached(12);
                    f.others = vec![OtherInstance {
                        name: "first".into(),
                        interface: None,
                        ports: vec!["wan".into()],
                    }];
                },
                "port wan",
                Problem,
                &["that of instance", "first"],
            ),
            (
                |f| {
                    f.ports[0].xdp = XdpProgram::Attached(12);
                    f.machine.root = false;
                },
                "port wan",
                Warning,
                &["cannot be seen without root", "the running daemon's own"],
            ),
            (
                |f| {
                    f.ports[0].offers_esp = true;
                    f.machine.esp_offload = Some(false);
                    config(f).source = SourceChoice::Kernel;
                },
                "port wan",
                Warning,
                &["esp-hw-offload", "CONFIG_INET_ESP_OFFLOAD"],
            ),
            (
                |f| f.ports[0].xdp = XdpProgram::Unknown("no ip".into()),
                "port wan",
                Warning,
                &["no ip", "iproute2"],
            ),
            (|f| config(f).worker.frames = 4096, "buffers", Warning, &["8192", "= 8192"]),
            (|f| device(f).rx_queues = 7, "buffers", Warning, &["26624", "= 32768"]),
        ];
        assert_rows(check, rows);
    }

    /// A healthy gateway, seen by somebody who is not root: nothing that is advised does harm.
    #[test]
    fn without_root_nothing_is_advised_that_stops_packets() {
        let mut facts = healthy();
        facts.machine.root = false;
        facts.ports.iter_mut().for_each(|port| port.xdp = XdpProgram::Attached(7));
        for finding in super::super::examine(&facts) {
            let next = finding.next.clone().unwrap_or_default();
            for harm in ["xdp off", "rule del", "guard clear", "nomaster", "flush"] {
                assert!(!next.contains(harm), "{finding:?}");
            }
        }
    }

    #[test]
    fn well_means_one_line_that_says_what_is_there() {
        let findings = check(&healthy());
        let seen: Vec<&str> = findings.iter().map(|f| f.seen.as_str()).collect();
        let port = "up, driver mlx5_core, MTU 1500, 1 of 1 queues";
        assert_eq!(seen, [port, port, "16384 frames (32 MiB) for 2 queues"]);
    }

    #[test]
    fn the_program_of_this_instance_is_not_foreign() {
        let mut facts = healthy();
        facts.ports[0].xdp = XdpProgram::Attached(12);
        facts.instance.daemon = Some(Ok(healthy_daemon()));
        assert!(check(&facts).iter().all(|f| f.result == Outcome::Ok));
        // A daemon that did not get the port has no program there.
        let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!() };
        running.ports[0].state = "another XDP program is attached".into();
        assert!(check(&facts).iter().any(|f| f.result == Outcome::Problem));
    }

    #[test]
    fn a_driver_without_zero_copy_is_better_taken_by_packet_sockets() {
        let told =
            |facts: &Facts| check(facts).iter().any(|f| f.seen.contains("without kind = \"xdp\""));
        let mut facts = healthy();
        assert!(!told(&facts));
        device(&mut facts).driver = "virtio_net".into();
        assert!(told(&facts));
        // The daemon knows better.
        let mut running = healthy_daemon();
        running.ports[0].mode = "native, zero-copy".into();
        facts.instance.daemon = Some(Ok(running));
        assert!(!told(&facts));
        // Of packet sockets neither XDP programs nor tags that travel beside the frame are to be feared.
        facts.instance.daemon = None;
        facts.ports[0].config.kind = Sockets::Packet;
        facts.ports[0].xdp = XdpProgram::Attached(12);
        device(&mut facts).rx_vlan_offload = true;
        assert!(check(&facts).iter().all(|f| f.result == Outcome::Ok) && !told(&facts));
    }

    #[test]
    fn what_was_chosen_is_told_with_its_reason() {
        let mut facts = healthy();
        facts.ports[0].config.kind = Sockets::Auto;
        device(&mut facts).driver = "veth".into();
        facts.ports[0].xdp = XdpProgram::Attached(12);
        assert!(check(&facts).iter().all(|f| f.result == Outcome::Ok), "not chosen yet");
        let mut running = healthy_daemon();
        running.ports[0].kind = "packet".into();
        running.ports[0].chosen = Some("the driver has no zero copy".into());
        facts.instance.daemon = Some(Ok(running));
        let told = check(&facts);
        let said = "chosen: packet sockets, as the driver has no zero copy";
        assert!(told.iter().any(|f| f.seen == said), "{told:?}");
        assert!(
            told.iter().all(|f| f.result == Outcome::Ok && !f.seen.contains("would be faster"))
        );
        let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!("runs") };
        (running.ports[0].rx_packets, running.ports[0].faults) =
            (5000, [("rx-refused".into(), 6)].into());
        let lost = check(&facts);
        let lost = lost.iter().find(|f| f.result == Outcome::Warning).expect("one");
        assert!(lost.seen.contains("6 frames were refused"), "{}", lost.seen);
        assert!(lost.next.as_ref().is_some_and(|next| next.contains("kind = \"xdp\" for wan")));
        let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!("runs") };
        running.ports[0].faults.clear();
        // Where AF_XDP was asked for, but not where the kernel may take what packet sockets wait for.
        facts.ports[0].config.kind = Sockets::Xdp;
        let advises =
            |facts: &Facts| check(facts).iter().any(|f| f.seen.contains("would be faster"));
        let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!("runs") };
        running.ports[0].kind = "af-xdp".into();
        assert!(advises(&facts));
        let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!("runs") };
        running.status.source = "kernel".into();
        assert!(!advises(&facts));
    }

    #[test]
    fn tags_that_are_put_back_are_no_finding() {
        let mut facts = healthy();
        device(&mut facts).rx_vlan_offload = true;
        device(&mut facts).tells_vlan_tags = true;
        facts.ports[0].vlans = vlans();
        let told = |facts: &Facts| {
            let findings = check(facts);
            let found = findings.into_iter().find(|f| f.seen.contains("VLAN offload is on"));
            found.map(|f| (f.result, f.why.unwrap_or_default()))
        };
        let result = |facts: &Facts| told(facts).expect("one").0;
        assert_eq!(result(&facts), Outcome::Ok, "as the driver promises");
        facts.ports[0].config.mode = XdpMode::Generic;
        assert_eq!(result(&facts), Outcome::Problem);
        // The daemon knows better.
        let mut running = healthy_daemon();
        running.ports[0].stripped_tags = Some(StrippedTags::PutBack);
        facts.instance.daemon = Some(Ok(running));
        assert_eq!(result(&facts), Outcome::Ok);
        for (fate, why) in [(Some("no BTF"), "no BTF"), (None, "when the port opened")] {
            let Some(Ok(running)) = &mut facts.instance.daemon else { unreachable!("runs") };
            running.ports[0].stripped_tags = fate.map(|why: &str| StrippedTags::Lost(why.into()));
            let (result, means) = told(&facts).expect("one");
            assert_eq!(result, Outcome::Problem);
            assert!(means.contains(why), "{means}");
        }
    }

    #[test]
    fn generic_mode_is_told_unless_it_was_wanted() {
        let mut facts = healthy();
        let mut running = healthy_daemon();
        running.ports[0].mode = "generic, copy".into();
        facts.instance.daemon = Some(Ok(running));
        assert_eq!(check(&facts)[0].result, Outcome::Warning);
        facts.ports[0].config.mode = XdpMode::Generic;
        assert_eq!(check(&facts)[0].result, Outcome::Ok);
    }

    #[test]
    fn without_a_configuration_nothing_is_said() {
        let mut facts = healthy();
        facts.configuration.loaded = Err("no file".into());
        assert!(check(&facts).is_empty());
    }
}
