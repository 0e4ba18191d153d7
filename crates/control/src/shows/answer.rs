//! Answers to the commands that show something.

use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeMap;
use std::net::IpAddr;

use config::nearest;
use crypto::Providers;
use dataplane::{BOUNDS_NS, Counters, SaMtu, Times, Totals};
use esp::{Mode, Protocol, Sa};
use offload::{PacketSa, Placement, SaDirection};
use outcome::DropReason;
use policy::{
    Action, Direction, IptfsCounters, OutboundKey, PolicyConfig, PolicyEntry, SaEntry, SaState,
};
use report::rule_text;
use report::{
    self, Drops, Left, Outcomes, Owner, PolicyAction, PortKind, Refused, Request, Routes,
    SaProtocol, State, Stats, Status,
};
use serde::Serialize;

use crate::clock::Now;
use crate::control::Reply;
use crate::devices::device_of;
use crate::sources::builtin::Builtin;
use crate::sources::kernel::KernelSource;
use crate::texts::{
    binding_text, direction_text, end_text, mac_text, mark_text, mode_text, selected_protocol,
    spi_text, suite_text,
};
use crate::{Daemon, kernel_blocks, left, lifetimes, slots};

impl Daemon {
    /// The answer to a question: JSON text, or a capture.
    pub(crate) fn answer(&mut self, now: Now, request: Request) -> Reply {
        let text = match request {
            Request::Status => json(&self.status(now)),
            Request::Sa { show_keys, spi } => {
                if let Some(builtin) = self.sa.source.builtin_mut() {
                    builtin.read_devices();
                }
                json(&self.sas(now, show_keys, spi))
            }
            Request::Policy => json(&self.policies(now)),
            Request::Port => json(&self.port_rows()),
            Request::Nat { most, all } => {
                let report = self.linux.nat.as_ref().map(|nat| nat.report(most, all));
                json(&report.unwrap_or_default())
            }
            Request::Limits => json(&self.limits()),
            Request::LimitSet(set) => {
                json(&self.set_limit(&set).err().map(|error| Refused { error }))
            }
            Request::Route => json(&self.routes()),
            Request::Stats => json(&self.stats()),
            Request::Drops => json(&self.drops()),
            Request::Device => json(&self.offload.devices.borrow().rows()),
            Request::DeviceReset { device } => {
                let refused = self.offload.devices.borrow_mut().reset(&device).err();
                json(&refused.map(|error| Refused { error }))
            }
            Request::DeviceFault { device, fault } => {
                let refused = self.offload.devices.borrow_mut().set_fault(&device, &fault).err();
                json(&refused.map(|error| Refused { error }))
            }
            Request::Why(request) => json(&self.why(&request)),
            Request::Reload => json(&self.reload(now)),
            Request::Events { after, run } => json(&self.shows.event_log.after(after, run)),
            Request::Capture(request) => match self.capture(now, &request) {
                Ok(stream) => return Reply::Stream(Box::new(|client| stream.run(client))),
                Err(error) => json(&Refused { error }),
            },
            Request::Flows(request) => match self.flows(&request) {
                Ok(flows) => return Reply::Stream(Box::new(|client| flows.run(client))),
                Err(error) => json(&Refused { error }),
            },
            Request::Trace(request) => match self.trace(now, &request) {
                Ok(trace) => json(&trace),
                Err(error) => json(&Refused { error }),
            },
        };
        Reply::Text(text)
    }

    fn status(&self, now: Now) -> Status {
        let databases = self.sa.source.databases();
        let troubles: Vec<_> =
            self.crew.ports.troubles().chain(self.linux.memifs.troubles()).collect();
        let tunnels = self.tunnel_state(now);
        let warnings = self.warnings(now, tunnels.up > 0);
        let builtin = self.sa.source.builtin();
        Status {
            name: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: now.since(self.life.started).as_secs(),
            engine: self.shows.providers.to_string(),
            tunnels,
            connections: self.shows.vici.report(),
            sas: databases.sa_count(),
            policies: databases.policies().len(),
            restored: builtin.map_or(0, Builtin::restored),
            clients: builtin.map_or(0, Builtin::client_count),
            ports_up: troubles.iter().filter(|(_, why)| why.is_none()).count(),
            ports: troubles.len(),
            ports_by_kind: self.ports_by_kind(),
            default_blocks: self.defaults().directions().map(direction_text).collect(),
            guard_policies: self.sa.guard.standing().len(),
            guard_prefixes: self
                .guarded()
                .iter()
                .map(|p| format!("{}/{}", p.addr, p.len))
                .collect(),
            guard_blocked: self.kernel_blocked(),
            memory_kib: resident_kib(),
            buffers_kib: (self.crew.umem.chunks() * self.crew.umem.chunk_len() / 1024) as u64,
            buffers_pages: self.crew.umem.pages().to_string(),
            polling: self.crew.polling.to_string(),
            source: if self.sa.source.is_beside_kernel() { Owner::Kernel } else { Owner::Builtin },
            seccomp: self.life.confinement.to_string(),
            unprivileged: self.crew.esp_sockets.are_wanted(),
            workers: self.worker_rows(),
            configuration: self.life.reloads.report(),
            warnings,
        }
    }

    fn sas(&self, now: Now, show_keys: bool, spi: Option<u32>) -> Vec<report::Sa> {
        let mut entries: Vec<_> = self
            .sa
            .source
            .databases()
            .sas()
            .filter(|sa| spi.is_none_or(|spi| sa.config.params.spi == spi))
            .collect();
        entries.sort_by_key(|sa| (sa.config.added_s, sa.config.generation));
        let providers = &self.shows.providers;
        let mut rows: Vec<report::Sa> = entries
            .iter()
            .map(|sa| sa_row(now, sa, providers, self.crew.tables.sa_mtu(&sa.esp)))
            .collect();
        let mut left = self.sa.source.kernel().map(KernelSource::left).unwrap_or_default();
        left.retain(|sa| spi.is_none_or(|spi| sa.id.spi == spi));
        rows.extend(left.iter().map(|sa| left::row(now, sa)));
        let ends = entries.iter().map(|sa| (sa.config.id(), sa.config.params.src));
        let ends = ends.chain(left.iter().map(|sa| (sa.id, sa.src)));
        for (row, (id, src)) in rows.iter_mut().zip(ends) {
            row.direction = self.direction(src, id.dst);
            if let Some((direction, live, _)) = self.offload.devices.borrow_mut().live(&id) {
                match direction {
                    SaDirection::Outbound => row.sent_seq = live.number,
                    SaDirection::Inbound => (row.sent_seq, row.received_seq) = (0, live.number),
                }
            }
            if let Some(limits) = self.sa.source.limits_of(&id) {
                lifetimes::tell(row, &limits);
            }
        }
        if show_keys {
            for (row, sa) in rows.iter_mut().zip(&entries) {
                row.keys = self.sa.source.keys_of(&sa.config.id()).map(|keys| {
                    let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
                    [("cipher", &keys.cipher), ("salt", &keys.salt), ("auth", &keys.auth)]
                        .into_iter()
                        .filter(|(_, key)| !key.is_empty())
                        .map(|(name, key)| (name.to_owned(), hex(key)))
                        .collect::<BTreeMap<_, _>>()
                });
            }
        }
        rows
    }

    /// Which way an SA's packets go, by its ends.
    pub(crate) fn direction(&self, src: IpAddr, dst: IpAddr) -> Option<report::Direction> {
        let topology = self.crew.tables.topology.load();
        match (topology.is_local_addr(src), topology.is_local_addr(dst)) {
            (false, true) => Some(report::Direction::In),
            (true, false) => Some(report::Direction::Out),
            _ => None,
        }
    }

    fn policies(&self, now: Now) -> Vec<report::Policy> {
        let mut entries: Vec<_> = self.sa.source.databases().policies().collect();
        // As they are asked.
        entries.sort_by_key(|p| {
            let config = &p.config;
            (config.direction, config.flags.device.is_none(), config.priority, config.index)
        });
        let devices = self.offload.devices.borrow();
        let name = |ifindex| self.name_of(ifindex);
        let has_tunnel = |if_id| self.carries_if_id(if_id);
        entries
            .into_iter()
            .map(|p| report::Policy {
                why: self.sa.source.kernel().and_then(|kernel| kernel.why_left(p.config.index)),
                device: p.config.flags.device.and_then(|number| devices.packet.name(number)),
                ..policy_row(now, p, name, has_tunnel, self.has_sas(&p.config))
            })
            .collect()
    }

    /// Error text for an argument that names no interface.
    pub(crate) fn no_such_interface(&self, argument: &str, name: &str) -> String {
        let links = self.linux.observer.snapshot().links();
        let names: Vec<String> = links.map(|link| link.name.clone()).collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("{argument} {name}: there is no such interface{near}")
    }

    /// The name of an interface.
    pub(crate) fn name_of(&self, ifindex: u32) -> String {
        let link = self.linux.observer.snapshot().link(ifindex);
        link.map_or_else(|| format!("#{ifindex} (gone)"), |link| link.name.clone())
    }

    /// True if an outbound policy that protects has its SAs. `None` for another policy, and where
    /// SAs differ from host to host.
    pub(crate) fn has_sas(&self, policy: &PolicyConfig) -> Option<bool> {
        let is_asked = policy.direction == Direction::Out
            && policy.action == Action::Allow
            && policy.templates.iter().any(|template| !template.optional)
            && OutboundKey::of_policy(policy).is_some();
        is_asked.then(|| self.sa.source.databases().protecting(policy).is_some())
    }

    /// True if policies with an `if_id` are carried out: by a tunnel interface, or by the kernel
    /// where it owns them.
    pub(crate) fn carries_if_id(&self, if_id: u32) -> bool {
        self.sa.source.is_beside_kernel() || self.linux.tunnels.ifindex(if_id).is_some()
    }

    fn worker_rows(&self) -> Vec<report::Worker> {
        let plan = self.crew.workers.plan();
        let rows = plan.workers.iter().enumerate();
        rows.map(|(worker, cpu)| report::Worker {
            worker,
            cpu: *cpu,
            crypto_cpus: plan.crypto_of(worker).collect(),
        })
        .collect()
    }

    fn ports_by_kind(&self) -> BTreeMap<String, Vec<String>> {
        let ports = self.crew.ports.working_kinds();
        let memifs = self.linux.memifs.states().filter(|p| p.state == State::Up);
        let mut by_kind: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (interface, kind) in ports.chain(memifs.map(|p| (p.interface, "memif"))) {
            by_kind.entry(kind.into()).or_default().push(interface.into());
        }
        by_kind
    }

    fn port_rows(&self) -> Vec<report::Port> {
        let snapshot = self.linux.observer.snapshot();
        let workers = self.crew.workers.count();
        let row =
            |interface: &str, kind: PortKind, state, mode, passed, stats: Vec<io::PortStats>| {
                let link = snapshot.link_by_name(interface);
                let mac = link.and_then(|l| l.mac).map_or_else(|| "-".into(), mac_text);
                let mut sum = io::PortStats::default();
                stats.iter().for_each(|stats| sum += *stats);
                report::Port {
                    interface: interface.into(),
                    kind,
                    if_id: None,
                    vlan: Vec::new(),
                    state,
                    mode,
                    chosen: None,
                    stripped_tags: None,
                    queues: stats.len() as u32,
                    mtu: link.map_or(0, |l| l.mtu),
                    mac,
                    rx_packets: sum.rx_packets,
                    rx_bytes: sum.rx_bytes,
                    tx_packets: sum.tx_packets,
                    tx_bytes: sum.tx_bytes,
                    passed_to_linux: passed,
                    faults: port_faults(&sum),
                    by_queue: stats.iter().enumerate().map(|row| queue_row(row, workers)).collect(),
                }
            };
        let mut rows: Vec<_> = self
            .crew
            .ports
            .states()
            .map(|p| report::Port {
                chosen: p.chosen,
                stripped_tags: p.stripped_tags,
                queues: p.queues,
                ..row(p.interface, p.kind.into(), p.state.into(), p.mode.into(), p.passed, p.stats)
            })
            .collect();
        rows.extend(self.linux.memifs.states().map(|p| {
            let (state, mode) = (p.state, p.mode.into());
            let row = row(p.interface, PortKind::Memif, state, mode, p.passed, p.stats);
            let faults = p.faults.into_iter().map(|(fault, count)| (fault.to_owned(), count));
            report::Port { faults: faults.chain(row.faults).collect(), ..row }
        }));
        rows.extend(self.crew.esp_sockets.states().map(|(name, stats)| {
            row(&name, PortKind::Udp, State::Up, "ESP in UDP".into(), 0, vec![stats])
        }));
        let is_port = |name: &str| rows.iter().any(|row| row.interface == name);
        let vlans: Vec<_> = self.linux.vlans.states(snapshot, &self.config.vlans, is_port);
        rows.extend(vlans.into_iter().map(|vlan| {
            let ids: Vec<String> = vlan.ids.iter().rev().map(u16::to_string).collect();
            let mode = format!("VLAN {} of {}{}", ids.join(" in "), vlan.port, vlan.priorities);
            report::Port {
                vlan: vlan.ids,
                rx_packets: vlan.stats.rx_packets,
                rx_bytes: vlan.stats.rx_bytes,
                tx_packets: vlan.stats.tx_packets,
                tx_bytes: vlan.stats.tx_bytes,
                ..row(
                    &vlan.link.name,
                    PortKind::Vlan,
                    vlan.state.into(),
                    mode.into(),
                    0,
                    Vec::new(),
                )
            }
        }));
        let private = self.crew.private_counters.iter().map(|counters| counters.read()).collect();
        rows.push(row(
            &self.config.tun.interface,
            PortKind::Tun,
            State::Up,
            "vnet".into(),
            0,
            private,
        ));
        rows.extend(self.linux.tunnels.states().map(|(config, ifindex, stats)| {
            let state = match snapshot.link(ifindex) {
                Some(link) if link.up => "up",
                Some(_) => "down: set the interface up",
                None => "in another network namespace",
            };
            let if_id = Some(config.if_id).filter(|id| *id != 0);
            let mode = binding_text(config);
            let row =
                row(&config.interface, PortKind::Tunnel, state.into(), mode.into(), 0, vec![stats]);
            report::Port { if_id, ..row }
        }));
        rows
    }

    fn routes(&self) -> Routes {
        let snapshot = self.linux.observer.snapshot();
        let name = |ifindex: u32| {
            snapshot.link(ifindex).map_or_else(|| ifindex.to_string(), |l| l.name.clone())
        };
        let prefix = |p: mirror::Prefix| format!("{}/{}", p.addr, p.len);
        let rules = [mirror::Family::V4, mirror::Family::V6]
            .into_iter()
            .flat_map(|family| snapshot.rules(family))
            .map(|rule| {
                let family = match rule.family {
                    mirror::Family::V4 => "inet",
                    mirror::Family::V6 => "inet6",
                };
                format!("{family} {}: {}", rule.priority, rule_text::describe(rule))
            })
            .collect();
        let routes = snapshot
            .routes()
            .map(|r| report::Route {
                table: r.table,
                dst: prefix(r.dst),
                kind: format!("{:?}", r.kind).to_lowercase(),
                via: r.next_hops.iter().filter_map(|h| h.gateway).map(|g| g.to_string()).collect(),
                dev: r.next_hops.iter().map(|h| name(h.ifindex)).collect(),
                metric: r.metric,
            })
            .collect();
        let neighbours = snapshot
            .neighbours()
            .map(|n| report::Neighbour {
                dev: name(n.ifindex),
                address: n.ip.to_string(),
                mac: n.mac.map(mac_text),
                state: format!("{:?}", n.state).to_lowercase(),
            })
            .collect();
        let segments = self.linux.reflection.segments_seen().rows().to_vec();
        Routes { rules, routes, neighbours, segments }
    }

    fn stats(&self) -> Stats {
        // The counters balance between two bursts, not inside one.
        let mut totals = self.crew.workers.totals();
        for _ in 0..SETTLE_ATTEMPTS {
            if totals.balance() == 0 {
                break;
            }
            std::thread::sleep(SETTLE_PAUSE);
            totals = self.crew.workers.totals();
        }
        let by_worker: Vec<_> =
            self.crew.workers.counters().map(|c| stats(c.totals(), [c])).collect();
        Stats { by_worker, ..stats(totals, self.crew.workers.counters()) }
    }

    fn drops(&self) -> Drops {
        let drops = DropReason::ALL.iter();
        let drops =
            drops.map(|reason| (reason.name().to_owned(), self.crew.workers.dropped(*reason)));
        Drops { drops: drops.collect(), kernel: self.kernel_blocked() }
    }

    /// Packets that the guard's policies in the kernel have blocked, as far as Linux tells.
    fn kernel_blocked(&self) -> BTreeMap<String, u64> {
        match self.sa.guard.policies() {
            0 => BTreeMap::new(),
            _ => kernel_blocks::read(),
        }
    }
}

/// Frames that a port could not take or send.
fn port_faults(sum: &io::PortStats) -> BTreeMap<String, u64> {
    let faults = [("rx-refused", sum.rx_refused), ("tx-refused", sum.tx_refused)];
    faults.into_iter().filter(|(_, n)| *n > 0).map(|(fault, n)| (fault.to_owned(), n)).collect()
}

/// A queue of an interface, by number.
fn queue_row((queue, stats): (usize, &io::PortStats), workers: usize) -> report::Queue {
    report::Queue {
        queue,
        worker: slots::worker_of(queue, workers),
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
    }
}

/// Totals, and the work of one worker or all of them.
fn stats<'a>(totals: Totals, counters: impl IntoIterator<Item = &'a Counters>) -> Stats {
    let (mut work, mut gtpu) = (BTreeMap::new(), BTreeMap::<_, u64>::new());
    let mut times = Times::default();
    for counters in counters {
        for (name, n) in counters.work.iter() {
            *work.entry(name.to_owned()).or_default() += n;
        }
        for (name, n) in counters.gtpu.iter() {
            *gtpu.entry(name.to_owned()).or_default() += n;
        }
        times += counters.latency.times();
    }
    if gtpu.values().all(|n| *n == 0) {
        // As it is nearly everywhere.
        gtpu.clear();
    }
    Stats {
        received: totals.received,
        generated: totals.generated,
        handed_over: totals.handed_over,
        taken_over: totals.taken_over,
        outcomes: Outcomes {
            transmitted: totals.transmitted,
            to_linux: totals.to_linux,
            consumed: totals.consumed,
            held: totals.held,
            dropped: totals.dropped,
        },
        balance: totals.balance(),
        work,
        gtpu,
        latency: latency(&times),
        by_worker: Vec::new(),
    }
}

fn latency(times: &Times) -> report::Latency {
    let bounds = BOUNDS_NS.into_iter().map(Some).chain([None]);
    let ranges = bounds.zip(times.buckets);
    report::Latency {
        sampled: times.count(),
        sum_ns: times.sum_ns,
        p50_ns: times.quantile_ns(500),
        p99_ns: times.quantile_ns(990),
        ranges: ranges
            .map(|(up_to_ns, packets)| report::LatencyRange { up_to_ns, packets })
            .collect(),
    }
}

/// How often, and how long apart, counters are read anew while a burst is under way.
const SETTLE_ATTEMPTS: u32 = 200;
const SETTLE_PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .unwrap_or_else(|e| serde_json::json!({ "error": e.to_string() }).to_string())
}

fn sa_row(now: Now, sa: &SaEntry<Sa>, providers: &Providers, mtu: Option<SaMtu>) -> report::Sa {
    let (config, params, live) = (&sa.config, &sa.config.params, sa.esp.live());
    let now_s = now.wall_s();
    let last_use = live.last_use().load(Relaxed);
    let session = sa.esp.session();
    let packet = || Some((PacketSa::of(session)?.name(), Placement::Packet));
    let device = device_of(session).map(|name| (name, Placement::Crypto)).or_else(packet);
    let engine = providers.serving(params.suite);
    report::Sa {
        spi: spi_text(params.spi),
        src: params.src.to_string(),
        dst: params.dst.to_string(),
        protocol: match params.protocol {
            Protocol::Esp => SaProtocol::Esp,
            Protocol::Ah => SaProtocol::Ah,
            Protocol::IpComp => SaProtocol::Comp,
            // As `ip xfrm state` calls them.
            Protocol::IpInV4 => SaProtocol::IpInV4,
            Protocol::IpInV6 => SaProtocol::IpInV6,
        },
        mode: mode_text(params.mode).into(),
        suite: suite_text(params),
        esn: params.esn,
        encap: params.encap.map(|e| (e.src_port, e.dst_port)),
        reqid: config.reqid,
        mark: mark_text(config.mark),
        if_id: config.if_id,
        cpu: config.cpu,
        direction: None,
        weak: params.suite.weaknesses().map(Into::into).collect(),
        state: match sa.state() {
            SaState::Valid => "valid".into(),
            SaState::Dying => "dying".into(),
            SaState::Expired => "expired".into(),
        },
        placement: device.map_or(Placement::Cpu, |(_, placement)| placement).name().into(),
        why: None,
        engine: device.map_or_else(|| engine.map_or("none", |p| p.name()), |(name, _)| name).into(),
        bytes: live.bytes().load(Relaxed),
        packets: live.packets().load(Relaxed),
        age_s: now_s.saturating_sub(config.added_s),
        idle_s: (last_use > 0).then(|| now_s.saturating_sub(last_use)),
        sent_seq: live.sent().load(Relaxed),
        received_seq: live.edge().load(Relaxed),
        replay_window: params.replay_window,
        late_drops: live.too_old().load(Relaxed),
        duplicate_drops: live.replays().load(Relaxed),
        integrity_drops: live.integrity_failures().load(Relaxed),
        iptfs: by_name(sa.iptfs().map(IptfsCounters::iter)),
        iptfs_now: by_name(sa.iptfs().map(|counters| counters.now.iter())),
        inner_mtu: mtu.map(|mtu| mtu.inner),
        path_mtu: mtu.map(|mtu| mtu.outer),
        is_path_mtu_learnt: mtu.is_some_and(|mtu| mtu.is_learnt),
        until_rekey: Left::default(),
        until_expiry: Left::default(),
        keys: None,
    }
}

fn by_name(counts: Option<impl Iterator<Item = (&'static str, u64)>>) -> BTreeMap<String, u64> {
    counts.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn policy_row(
    now: Now,
    policy: &PolicyEntry,
    name: impl Fn(u32) -> String,
    has_tunnel: impl Fn(u32) -> bool,
    has_sas: Option<bool>,
) -> report::Policy {
    let config = &policy.config;
    let s = &config.selector;
    let last_use = policy.last_use_s();
    report::Policy {
        index: config.index,
        direction: direction_text(config.direction).into(),
        src: end_text(s.src, s.src_port),
        dst: end_text(s.dst, s.dst_port),
        protocol: selected_protocol(s.protocol).into(),
        dev: (s.ifindex != 0).then(|| name(s.ifindex)),
        priority: config.priority,
        device: None,
        action: match (config.action, config.templates.is_empty()) {
            _ if policy.is_unsupported() => PolicyAction::Unsupported,
            _ if config.if_id != 0 && !has_tunnel(config.if_id) => PolicyAction::NoTunnel,
            (Action::Block, _) => PolicyAction::Block,
            (Action::Leave, _) => PolicyAction::Leave,
            (Action::Allow, true) => PolicyAction::Bypass,
            (Action::Allow, false) => PolicyAction::Protect,
        },
        why: None,
        templates: config
            .templates
            .iter()
            .map(|t| {
                let mode = mode_text(t.mode);
                match t.mode {
                    Mode::Tunnel | Mode::Iptfs => {
                        format!("{mode} {} - {} reqid {}", t.src, t.dst, t.reqid)
                    }
                    Mode::Transport => format!("{mode} reqid {}", t.reqid),
                }
            })
            .collect(),
        mark: mark_text(policy.scope().mark),
        if_id: policy.scope().if_id,
        has_sas,
        packets: policy.packets(),
        bytes: policy.bytes(),
        idle_s: (last_use > 0).then(|| now.wall_s().saturating_sub(last_use)),
    }
}

/// Resident memory of this process, 0 where `/proc` does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
