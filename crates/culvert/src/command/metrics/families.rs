//! The daemon's report, as metric families.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use report::{
    App, AppOnPath, Apps, Configuration, Connections, Device, DeviceTable, Limit, Policy, Port, Sa,
    State, Stats, Status, Worker,
};

use super::{bfd, latency, limits, paths};
use crate::command::collect::Seen;

/// Names and values of a series' labels.
type Labels = Vec<(&'static str, String)>;

/// A counter of some kind of thing: its name, what it is, and how it is read.
type Count<T> = (&'static str, &'static str, fn(&T) -> u64);

/// The text that a scrape gets.
pub fn exposition(seen: &Seen) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("culvert");
    let mut to = Families(&mut registry);
    of_status(&mut to, &seen.status);
    of_connections(&mut to, seen.status.connections.as_ref());
    of_stats(&mut to, &seen.stats);
    to.counters(
        "drops",
        "Dropped packets by reason",
        seen.drops.drops.iter().map(|(reason, n)| (vec![("reason", reason.clone())], *n)),
    );
    of_ports(&mut to, &seen.ports);
    of_devices(&mut to, &seen.devices);
    let packets =
        "Packets of a rate limit by colour; red ones are dropped unless it says otherwise";
    to.counters("limit_packets", packets, limits::series(&seen.limits, |colour| colour.packets));
    let bytes = "Bytes of a rate limit by colour";
    to.counters("limit_bytes", bytes, limits::series(&seen.limits, |colour| colour.bytes));
    of_waiting(&mut to, &seen.limits);
    of_applications(&mut to, &seen.apps);
    paths::register(to.0, &seen.paths);
    bfd::register(to.0, &seen.bfd);
    of_sas(&mut to, seen.sas.as_deref().unwrap_or_default());
    of_policies(&mut to, seen.policies.as_deref());
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Where families are put.
struct Families<'r>(&'r mut Registry);

impl Families<'_> {
    fn counters(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in series {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    fn gauges(&mut self, name: &str, help: &str, series: impl IntoIterator<Item = (Labels, u64)>) {
        let family = gauge_family(series);
        self.0.register(name, help, family);
    }

    fn sizes(&mut self, name: &str, help: &str, bytes: u64) {
        self.0.register_with_unit(name, help, Unit::Bytes, gauge_family([(vec![], bytes)]));
    }

    fn ages(&mut self, name: &str, help: &str, series: impl IntoIterator<Item = (Labels, u64)>) {
        self.0.register_with_unit(name, help, Unit::Seconds, gauge_family(series));
    }
}

fn gauge_family(series: impl IntoIterator<Item = (Labels, u64)>) -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    for (labels, value) in series {
        family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
    family
}

fn of_status(to: &mut Families<'_>, status: &Status) {
    let Status { name, version, source, polling, .. } = status;
    let about = vec![
        ("instance", name.clone()),
        ("version", version.clone()),
        ("source", source.to_string()),
        ("polling", polling.to_string()),
    ];
    to.gauges("build", "1, with what runs", [(about, 1)]);
    to.ages("uptime", "Since the daemon started", [(vec![], status.uptime_s)]);
    to.sizes("memory", "Resident memory of the daemon", status.memory_kib * 1024);
    to.sizes("packet_buffers", "Memory of packet buffers", status.buffers_kib * 1024);
    let counts = [
        ("sas", "SAs of the fast path", status.sas),
        ("policies", "Policies", status.policies),
        ("clients", "Programs whose XFRM is served", status.clients),
        (
            "guard_barriers",
            "Block policies that the guard has in the kernel",
            status.guard_policies,
        ),
        ("warnings", "What an operator should know: culvert status", status.warnings.len()),
        ("ports_configured", "Ports in the configuration", status.ports),
        ("ports_up", "Ports that work", status.ports_up),
    ];
    for (name, help, count) in counts {
        to.gauges(name, help, [(vec![], count as u64)]);
    }
    of_configuration(to, &status.configuration);
    let cpu = |worker: &Worker| worker.cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string());
    let workers = status
        .workers
        .iter()
        .map(|worker| (vec![("worker", worker.worker.to_string()), ("cpu", cpu(worker))], 1));
    to.gauges("worker", "1 for each worker, with its core", workers);
}

/// The configuration file, and what has become of reloads.
fn of_configuration(to: &mut Families<'_>, configuration: &Configuration) {
    let is_taken = u64::from(configuration.refusal.is_none());
    to.gauges(
        "config_last_reload_successful",
        "1, or 0 if the last reload was refused: culvert status says why",
        [(vec![], is_taken)],
    );
    let taken_s = configuration.taken_ms / 1000;
    to.ages(
        "config_last_reload_success_timestamp",
        "When the configuration was last taken, at the start or by a reload, since 1970",
        [(vec![], taken_s)],
    );
    let result = |result: &str| vec![("result", result.to_owned())];
    to.counters(
        "config_reloads",
        "Reloads of the configuration by result",
        [(result("taken"), configuration.reloads), (result("refused"), configuration.refused)],
    );
    to.gauges(
        "config_keys_waiting_for_restart",
        "Keys of the configuration that take effect only with a restart",
        [(vec![], configuration.waits_for_restart.len() as u64)],
    );
}

/// Metrics of charon's connections, where charon is asked.
fn of_connections(to: &mut Families<'_>, connections: Option<&Connections>) {
    let children = connections.iter().flat_map(|told| &told.children).map(|child| {
        let labels = vec![("connection", child.connection.clone()), ("child", child.child.clone())];
        (labels, u64::from(child.up))
    });
    let help = "Whether a configured child has SAs; without [vici], and while charon does not answer, none is told";
    to.gauges("connection_up", help, children);
    let reachable = connections.map(|told| (vec![], u64::from(told.reachable)));
    to.gauges("vici_reachable", "Whether charon answers what [vici] has it asked", reachable);
}

fn of_stats(to: &mut Families<'_>, stats: &Stats) {
    to.counters(
        "received_packets",
        "Packets from ports and from Linux",
        [(vec![], stats.received)],
    );
    to.counters(
        "generated_packets",
        "Packets made here: fragments beyond the first, ICMP errors",
        [(vec![], stats.generated)],
    );
    let ends = &stats.outcomes;
    let ends = [
        ("transmitted", ends.transmitted),
        ("to-linux", ends.to_linux),
        ("consumed", ends.consumed),
        ("dropped", ends.dropped),
    ];
    to.counters(
        "ended_packets",
        "Packets by how they ended",
        ends.map(|(end, n)| (vec![("outcome", end.to_owned())], n)),
    );
    to.gauges(
        "held_packets",
        "Packets that wait for an SA or a neighbour",
        [(vec![], stats.outcomes.held)],
    );
    to.counters(
        "work",
        "Work done, by kind",
        stats.work.iter().map(|(work, n)| (vec![("work", work.clone())], *n)),
    );
    to.counters(
        "gtpu_messages",
        "GTP-U messages for applications, by what they are",
        stats.gtpu.iter().map(|(kind, n)| (vec![("kind", kind.clone())], *n)),
    );
    let of_worker = |count: fn(&Stats) -> u64| {
        let workers = stats.by_worker.iter().enumerate();
        let rows = workers.map(move |(n, s)| (vec![("worker", n.to_string())], count(s)));
        rows.collect::<Vec<_>>()
    };
    to.counters("worker_received_packets", "Packets by worker", of_worker(|s| s.received));
    to.counters(
        "worker_handed_over_packets",
        "Packets that a worker handed over to another",
        of_worker(|s| s.handed_over),
    );
    latency::register(to.0, stats);
}

fn of_ports(to: &mut Families<'_>, ports: &[Port]) {
    let label =
        |port: &Port| vec![("port", port.interface.clone()), ("kind", port.kind.to_string())];
    let counts: [Count<Port>; 5] = [
        ("port_receive_packets", "Packets received by a port", |p| p.rx_packets),
        ("port_receive_bytes", "Bytes received by a port", |p| p.rx_bytes),
        ("port_transmit_packets", "Packets sent by a port", |p| p.tx_packets),
        ("port_transmit_bytes", "Bytes sent by a port", |p| p.tx_bytes),
        ("port_passed_frames", "Frames that XDP left to Linux", |p| p.passed_to_linux),
    ];
    for (name, help, count) in counts {
        to.counters(name, help, ports.iter().map(|port| (label(port), count(port))));
    }
    let faults = ports.iter().flat_map(|port| {
        let of = |(fault, count): (&String, &u64)| {
            (label(port).into_iter().chain([("fault", fault.clone())]).collect(), *count)
        };
        port.faults.iter().map(of)
    });
    to.counters(
        "port_faults",
        "Frames that a port could not take or send, and what applications did wrong",
        faults,
    );
    // A VLAN may be Linux's by intention.
    let own = ports.iter().filter(|port| !port.is_vlan());
    let is_up = own.map(|port| (label(port), u64::from(port.state == State::Up)));
    to.gauges("port_up", "Whether a port works", is_up);
    let info = ports.iter().filter(|port| !port.is_vlan()).map(|port| {
        let mode = ("mode", port.mode.to_string());
        let chosen = ("chosen", port.chosen.clone().unwrap_or_default());
        (label(port).into_iter().chain([mode, chosen]).collect(), 1)
    });
    to.gauges("port_info", "By what a port works, and why that was chosen", info);
}

fn of_devices(to: &mut Families<'_>, devices: &[Device]) {
    let label = |device: &Device| {
        vec![
            ("device", device.name.clone()),
            ("kind", device.kind.to_string()),
            ("port", device.port.clone()),
            ("placement", device.placement.to_string()),
        ]
    };
    let counts: [Count<Device>; 7] = [
        ("device_sealed_packets", "Packets that an offload device sealed", |d| d.sealed),
        ("device_opened_packets", "Packets that an offload device opened", |d| d.opened),
        ("device_integrity_drops", "Packets whose ICV an offload device found wrong", |d| {
            d.wrong_icv
        }),
        ("device_refused_packets", "Packets that an offload device did not work on", |d| d.refused),
        ("device_software_packets", "Packets that software worked on in a device's place", |d| {
            d.in_software
        }),
        ("device_compared_packets", "Packets of a device that software compared", |d| d.compared),
        ("device_resets", "Resets of an offload device", |d| d.resets),
    ];
    for (name, help, count) in counts {
        to.counters(name, help, devices.iter().map(|device| (label(device), count(device))));
    }
    let is_up = devices.iter().map(|device| (label(device), u64::from(device.state == State::Up)));
    to.gauges("device_up", "Whether an offload device is given packets", is_up);
    let tables = |of: fn(&DeviceTable) -> usize| {
        let each = devices.iter().flat_map(|device| {
            device.tables.iter().map(|table| {
                let labels = vec![("device", device.name.clone()), ("table", table.name.clone())];
                (labels, of(table) as u64)
            })
        });
        each.collect::<Vec<_>>()
    };
    let (used, most) = (tables(|table| table.used), tables(|table| table.most));
    to.gauges("device_table_entries", "Entries of an offload device's table", used);
    to.gauges("device_table_size", "Entries that an offload device's table takes", most);
}

/// Flows, packets and bytes by application, where flows are told apart.
fn of_applications(to: &mut Families<'_>, seen: &Apps) {
    let of = |app: &App| vec![("application", app.name.clone())];
    let flows = seen.applications.iter().flat_map(|app| {
        app.known_by.iter().map(|(by, flows)| {
            (vec![("application", app.name.clone()), ("known_by", by.clone())], *flows)
        })
    });
    to.counters("application_flows", "Flows of an application by what they are known by", flows);
    let packets = "Packets of an application, as far as its flows are known";
    to.counters(
        "application_packets",
        packets,
        seen.applications.iter().map(|app| (of(app), app.packets)),
    );
    let bytes = "Bytes of these packets, as IP packets";
    to.counters(
        "application_bytes",
        bytes,
        seen.applications.iter().map(|app| (of(app), app.bytes)),
    );
    let on_paths = |count: fn(&AppOnPath) -> u64| {
        let each = seen.applications.iter().flat_map(move |app| {
            app.paths.iter().map(move |(path, on)| {
                let labels = vec![("application", app.name.clone()), ("path", path.clone())];
                (labels, count(on))
            })
        });
        each.collect::<Vec<_>>()
    };
    let packets = "Packets of an application that took a path";
    to.counters("application_path_packets", packets, on_paths(|on| on.packets));
    let bytes = "Bytes of these packets";
    to.counters("application_path_bytes", bytes, on_paths(|on| on.bytes));
    let lost = "Packets that came too fast to be looked at for their application";
    to.counters("application_copies_lost", lost, [(vec![], seen.lost)]);
    let Some(ndpi) = &seen.ndpi else { return };
    let ends = [("crash", ndpi.crashes), ("hang", ndpi.hangs), ("refused", ndpi.refused)];
    let ends = ends.map(|(kind, count)| (vec![("kind", kind.to_owned())], count));
    to.counters("ndpi_failures", "Ends of the process that asks nDPI, by kind", ends);
    let unasked = "Packets that nDPI was not asked about, as too many waited or it did not run";
    to.counters("ndpi_unasked", unasked, [(vec![], ndpi.unasked)]);
}

fn of_waiting(to: &mut Families<'_>, limits: &[Limit]) {
    let now = "Packets that wait for tokens of a rate limit, by class";
    to.gauges("limit_waiting_packets", now, limits::of_classes(limits, |of| of.now));
    let dropped = "Packets that found no room in a rate limit's queue, or waited too long";
    to.counters("limit_queue_drops", dropped, limits::of_classes(limits, |of| of.dropped));
    limits::register_delays(to.0, limits);
}

fn of_sas(to: &mut Families<'_>, sas: &[Sa]) {
    let label = |sa: &Sa| {
        vec![
            ("spi", sa.spi.clone()),
            ("src", sa.src.clone()),
            ("dst", sa.dst.clone()),
            ("protocol", sa.protocol.to_string()),
            ("reqid", sa.reqid.to_string()),
            ("placement", sa.placement.to_string()),
        ]
    };
    let counts: [Count<Sa>; 5] = [
        ("sa_bytes", "Bytes that an SA carried", |sa| sa.bytes),
        ("sa_packets", "Packets that an SA carried", |sa| sa.packets),
        ("sa_late_drops", "Packets older than the replay window", |sa| sa.late_drops),
        ("sa_duplicate_drops", "Packets received before", |sa| sa.duplicate_drops),
        ("sa_integrity_drops", "Packets with a wrong ICV", |sa| sa.integrity_drops),
    ];
    for (name, help, count) in counts {
        to.counters(name, help, sas.iter().map(|sa| (label(sa), count(sa))));
    }
    let packed = sas.iter().flat_map(|sa| {
        // A longest time does not add up.
        let counters = sa.iptfs.iter().filter(|(counter, _)| !counter.starts_with("longest"));
        counters.map(move |(counter, count)| {
            let mut labels = label(sa);
            labels.push(("counter", counter.clone()));
            (labels, *count)
        })
    });
    let packed: Vec<_> = packed.collect();
    if !packed.is_empty() {
        to.counters("sa_iptfs", "What an SA of IP-TFS mode has packed or unpacked", packed);
    }
    let now = sas.iter().flat_map(|sa| {
        sa.iptfs_now.iter().map(move |(gauge, value)| {
            let mut labels = label(sa);
            labels.push(("gauge", gauge.clone()));
            (labels, *value)
        })
    });
    let now: Vec<_> = now.collect();
    if !now.is_empty() {
        to.gauges("sa_iptfs_now", "Rate, round-trip time and losses of an SA of IP-TFS mode", now);
    }
    to.ages("sa_age", "Since an SA was installed", sas.iter().map(|sa| (label(sa), sa.age_s)));
}

fn of_policies(to: &mut Families<'_>, policies: Option<&[Policy]>) {
    let label = |policy: &Policy| {
        vec![
            ("index", policy.index.to_string()),
            ("dir", policy.direction.to_string()),
            ("src", policy.src.clone()),
            ("dst", policy.dst.clone()),
            ("action", policy.action.to_string()),
        ]
    };
    let shown = policies.unwrap_or_default();
    to.counters(
        "policy_packets",
        "Packets that a policy decided on",
        shown.iter().map(|policy| (label(policy), policy.packets)),
    );
    to.counters(
        "policy_bytes",
        "Bytes that a policy decided on",
        shown.iter().map(|policy| (label(policy), policy.bytes)),
    );
    let down = policies.map(|all| all.iter().filter(|p| p.has_sas == Some(false)).count() as u64);
    to.gauges(
        "policies_without_sa",
        "Policies out that want protection and have no SA",
        down.map(|count| (vec![], count)),
    );
}

#[cfg(test)]
mod tests {
    use report::ConfiguredChild;

    use super::*;

    #[test]
    fn a_port_tells_by_what_it_works_and_why() {
        let port = Port {
            interface: "lan".into(),
            kind: "packet".into(),
            mode: "tcx, super-packets".into(),
            chosen: Some("the driver has no zero copy".into()),
            faults: [("rx-refused".into(), 7)].into(),
            ..Port::default()
        };
        let text = exposition(&Seen { ports: vec![port], ..Seen::default() }).unwrap();
        let line = "culvert_port_info{port=\"lan\",kind=\"packet\",mode=\"tcx, super-packets\",\
                    chosen=\"the driver has no zero copy\"} 1";
        let faults =
            "culvert_port_faults_total{port=\"lan\",kind=\"packet\",fault=\"rx-refused\"} 7";
        for line in [line, faults] {
            assert!(text.lines().any(|there| there == line), "{text}");
        }
    }

    #[test]
    fn connections_are_told_while_charon_answers() {
        let child = |child: &str, up: bool| ConfiguredChild {
            connection: "hq".into(),
            child: child.into(),
            up,
            down_since_ms: None,
        };
        let told = |connections: Option<Connections>| {
            let status = Status { connections, ..Status::default() };
            let text = exposition(&Seen { status, ..Seen::default() }).unwrap();
            let ours = |line: &&str| {
                line.starts_with("culvert_connection_up") || line.starts_with("culvert_vici")
            };
            text.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>()
        };
        let children = vec![child("net", true), child("dmz", false)];
        let mut lines =
            told(Some(Connections { reachable: true, children, ..Connections::default() }));
        lines.sort();
        let up = "culvert_connection_up{connection=\"hq\",child=";
        let wanted = [
            format!("{up}\"dmz\"}} 0"),
            format!("{up}\"net\"}} 1"),
            "culvert_vici_reachable 1".into(),
        ];
        assert_eq!(lines, wanted);
        assert_eq!(told(Some(Connections::default())), ["culvert_vici_reachable 0"]);
        assert_eq!(told(None), Vec::<String>::new());
    }

    #[test]
    fn a_device_tells_what_it_did_and_how_full_it_is() {
        let table = DeviceTable { name: "SAs in".into(), used: 3, most: 1024 };
        let device = Device {
            name: "nic0".into(),
            kind: "nic-model".into(),
            port: "wan".into(),
            placement: "crypto offload".into(),
            state: "down: its packets do not come back".into(),
            tables: vec![table],
            sealed: 7,
            wrong_icv: 1,
            in_software: 2,
            ..Device::default()
        };
        let text = exposition(&Seen { devices: vec![device], ..Seen::default() }).unwrap();
        let of = "{device=\"nic0\",kind=\"nic-model\",port=\"wan\",placement=\"crypto offload\"}";
        for line in [
            format!("culvert_device_sealed_packets_total{of} 7"),
            format!("culvert_device_opened_packets_total{of} 0"),
            format!("culvert_device_integrity_drops_total{of} 1"),
            format!("culvert_device_software_packets_total{of} 2"),
            format!("culvert_device_up{of} 0"),
            "culvert_device_table_entries{device=\"nic0\",table=\"SAs in\"} 3".to_owned(),
            "culvert_device_table_size{device=\"nic0\",table=\"SAs in\"} 1024".to_owned(),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
