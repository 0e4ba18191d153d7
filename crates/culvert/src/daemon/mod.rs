//! `culvert run`: the daemon.
//!
//! Two kinds of threads matter. **Workers** move packets and own ports and buffers. The **control
//! thread**, this one, owns everything else: the [source](sources) of SAs and policies, the mirror of
//! Linux's network state, the guard, the routes to the private interface, the steering programs.
//! It waits on all of their descriptors and publishes what changed.

mod carry_out;
mod install;
mod life;
mod linux;
mod offload;
mod reload;
mod sa;
mod shows;
mod slots;
mod sources;
mod start;
mod wants;
mod workers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crypto::Providers;
use dataplane::{Came, Event, EventReceiver, Polling, Probe, Tables};
use forward::SourceCheck;
use forward::path_mtu::PathMtuTable;
use guard::Guard;
use io::{PortCounters, TunConfig, Umem};
use mirror::{Change as LinuxChange, Observer, Route};
use policy::{Marks, PolicyEntry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use steer::SendMarks;
use tracing::error;
use wire::Headers;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use self::asked::Asked;
use self::by_sender::BySender;
use self::capture::{Slots, Traces};
use self::confinement::Confinement;
use self::control::{Control, Question, Reply};
use self::detour::PastDaemon;
use self::early::{Early, Reported, wanting};
use self::esp_sockets::EspSockets;
use self::events::{EventLog, Watch};
use self::inner_mtus::InnerMtus;
pub use self::install::{InstallOptions, InstallReport, bench_install};
use self::life::{
    confinement, detour, error, limits, log, privileges, reloads, unprivileged, watchdog,
};
use self::linux::{
    memifs, nat, nfnetlink, private, segments, services, topology, tunnels, vlan_entries,
    vlan_priorities, vlans, vrfs, way_back, xfrm_interfaces,
};
use self::memifs::Memifs;
use self::nat::{FlowStep, Nat};
use self::offload::{cryptodevs, device, devices, packet_devices, rtl_simulation};
use self::ports::Programs;
pub use self::ports::{FRAMES_PER_FULL_QUEUE, Ports};
use self::private::Private;
pub use self::private::is_ours as is_own_rule;
use self::rate_limits::RateLimits;
use self::reloads::Reloads;
use self::sa::{asked, by_sender, early, inner_mtus, left, lifetimes, path_mtus, shortfall};
use self::shortfall::Shortfalls;
use self::shows::{capture, clock, control, events, kernel_blocks, reader, texts, vici, why};
use self::sources::Source;
use self::steering::TakenEsp;
use self::texts::spi_text;
use self::tunnels::Tunnels;
use self::vlans::Vlans;
use self::wants::Wants;
use self::watchdog::Watchdog;
use self::way_back::WayBack;
use self::workers::{Death, Workers, WorkersError};
use self::workers::{engines, esp_sockets, heartbeat, plan, ports, rate_limits, steering};
use crate::config::Config;
use crate::protocol;
use crate::report::{Occurrence, Request};

pub use confinement::confine_server;
use devices::SharedDevices;
pub use engines::providers;
pub use life::examine::{Situation, examine};
pub use limits::{FRAMES_SPARE, frames_at_start};
pub use nat::statistics as connection_statistics;
pub use privileges::missing as missing_capabilities;
pub use privileges::{drop_all as drop_capabilities, forgo_all as forgo_capabilities};
pub use slots::{MAX_TUNNELS, QUEUES_PER_WORKER};
pub use sources::kernel::{firewalls, nat_rules};
pub use start::run;
pub use vlans::port_below as vlan_below;

/// Longest sleep of the control thread: some changes come without a notification.
const TICK: Duration = Duration::from_millis(1000);

/// How often what failed (ports, steering, routes, the journal) is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// How long a dump of Linux's tables waits that changes have overtaken.
const STALE_WAIT: Duration = Duration::from_millis(10);

/// How often devices that have SAs are asked for events.
const DEVICE_WAIT: Duration = Duration::from_millis(50);

/// Most events of workers that one round handles, so that everything else has its turn.
const EVENTS_PER_ROUND: usize = 1024;

/// Everything that the control thread owns.
struct Daemon {
    config: Config,
    wants: Wants,
    /// Clients' commands that the next round carries out.
    commands: Vec<Question>,
    config_path: std::path::PathBuf,
    reloads: Reloads,
    /// A reload has ended it.
    ending: Option<End>,
    providers: Providers,
    devices: SharedDevices,
    /// When the counters of SAs in devices were read.
    devices_read_at: Instant,
    started: Instant,
    confinement: Confinement,
    source: Box<dyn Source>,
    control: Control,
    _reader: Option<control::Listening>,
    vici: vici::Vici,
    observer: Observer,
    reflection: topology::Reflection,
    events: EventReceiver,
    tables: Arc<Tables>,
    workers: Workers,
    /// The cores that there were at the start, before any thread was pinned.
    cores: Vec<usize>,
    /// One for each queue of the private interface.
    private_counters: Vec<Arc<PortCounters>>,
    umem: Umem,
    polling: Polling,
    ports: Ports,
    memifs: Memifs,
    esp_sockets: EspSockets,
    vlans: Vlans,
    private: Private,
    nat: Option<Nat>,
    rate_limits: RateLimits,
    inner_mtus: InnerMtus,
    way_back: WayBack,
    /// Tells the marks of what Linux sends, where the kernel can.
    _send_marks: Option<SendMarks>,
    /// Leads what Linux sends past this daemon while it hangs, where Linux can carry on.
    past_daemon: PastDaemon,
    /// The service manager's, if it has one.
    watchdog: Option<Watchdog>,
    /// Gives what Linux sends to the worker of its CPU, where a policy has SAs for each.
    by_sender: BySender,
    /// Reports of packets that a packet filter may drop, and why there are none though they were asked for.
    early: Option<Early>,
    early_trouble: Option<String>,
    tunnels: Tunnels,
    /// Linux's own XFRM interfaces by which it takes what their SAs decrypt for this host: indices by `if_id`.
    brought_by: BTreeMap<u32, u32>,
    /// The marks that SAs set.
    set_marks: Vec<Marks>,
    guard: Guard,
    path_mtus: PathMtuTable,
    terminate: UnixStream,
    hang_ups: UnixStream,
    /// The policies that guard, routes and steering have followed, by index.
    followed: HashMap<u32, Arc<PolicyEntry>>,
    /// Policies that are not carried out, and which of them were logged.
    shortfalls: Shortfalls,
    is_interface_gone: bool,
    retry_at: Instant,
    check_at: Instant,
    guard_trouble: Option<String>,
    sas_followed: u64,
    event_log: EventLog,
    /// Policies that SAs were asked for.
    asked: Asked,
    watch: Watch,
    /// The captures, traces and counts of flows that run.
    tap_slots: Slots,
    traces: Traces,
}

/// Why the loop ended.
enum End {
    /// It was told to.
    Told,
    /// A worker panicked: nothing would move its packets any more.
    WorkerDied(Death),
    /// There are no workers any more.
    WorkersLost(WorkersError),
    /// Somebody deleted the private interface: Linux's own packets would not come any more.
    InterfaceGone,
}

/// Bytes of stack that a round of the control thread may use: journal, answers and their JSON text among them.
const ROUND_STACK_LEN: usize = 128 << 10;

impl Daemon {
    /// Works until told to stop.
    fn serve(&mut self) -> End {
        loop {
            self.wait();
            self.beat();
            if drain(&self.terminate) {
                return End::Told;
            }
            if let Some(death) = self.workers.dead() {
                return End::WorkerDied(death);
            }
            let replies = self.obey_commands();
            if drain(&self.hang_ups) {
                self.reload();
            }
            self.serve_source();
            self.hear_workers();
            self.hear_devices();
            self.hear_early();
            self.forget_path_mtus();
            self.memifs.serve(&self.workers);
            self.follow_esp_sockets();
            self.follow_nat();
            self.wake_workers();
            self.place_sas();
            self.hear_linux();
            if self.is_interface_gone {
                return End::InterfaceGone;
            }
            self.retry();
            self.carry_out();
            self.source.confirm();
            for (reply, client) in replies {
                // An error means that the client has gone.
                let _ = client.send(reply);
            }
            self.note_events();
            self.answer_questions();
            if let Some(end) = self.ending.take() {
                return end;
            }
            log::tell_left_out();
            // Requests and answers have keys in them.
            mem::wipe_stack::<ROUND_STACK_LEN>();
        }
    }

    /// Tells watchdogs that this thread works, where Linux can carry on in its place, and the service manager that all
    /// workers do.
    fn beat(&mut self) {
        self.ports.beat();
        self.past_daemon.set(self.source.is_beside_kernel());
        self.past_daemon.beat();
        let Some(watchdog) = &mut self.watchdog else { return };
        if watchdog.is_due(Instant::now(), || self.workers.rounds()) {
            // A manager that is not told ends the daemon and starts another, which is all that could be done here.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }

    /// Sleeps until a descriptor is readable or a deadline is reached.
    fn wait(&self) {
        let due = match self.wants.is_any() || !self.commands.is_empty() {
            true => Duration::ZERO,
            false => self.source.due_in().map_or(TICK, |due| due.min(TICK)),
        };
        let due = match self.source.is_beside_kernel() {
            true => due.min(heartbeat::LONGEST_SLEEP),
            false => due,
        };
        let due = self.devices.borrow().due_in().map_or(due, |placing| due.min(placing));
        let due = match self.devices.borrow().packet.has_sas() {
            true => due.min(DEVICE_WAIT),
            false => due,
        };
        let due = match self.nat.as_ref().and_then(Nat::due_in) {
            Some(upkeep) => due.min(upkeep),
            None => due,
        };
        let due = if self.observer.is_stale() { due.min(STALE_WAIT) } else { due };
        let due = match &self.watchdog {
            Some(watchdog) => due.min(watchdog.due_in(Instant::now())),
            None => due,
        };
        let due = match self.guard.due().filter(|_| self.is_guarded()) {
            Some(at) => due.min(at.saturating_duration_since(Instant::now())),
            None => due,
        };
        let mut fds = vec![
            self.observer.fd(),
            self.events.as_fd(),
            self.control.as_fd(),
            self.terminate.as_fd(),
            self.hang_ups.as_fd(),
        ];
        fds.extend(self.early.as_ref().map(Early::fd));
        fds.extend(self.memifs.fds());
        fds.extend(self.nat.iter().flat_map(Nat::fds));
        self.source.add_fds(&mut fds);
        let mut fds: Vec<_> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: due.as_secs().cast_signed(), tv_nsec: due.subsec_nanos().into() };
        // Interrupted or not, the round looks at everything.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Serves the source, and carries out what it wants of ports and workers.
    fn serve_source(&mut self) {
        if self.source.awaits_workers() {
            // One that is late drops what it would send by an SA that is gone.
            let _ = self.workers.wait_for_commands();
        }
        self.source.serve();
        for merge in self.source.take_merges() {
            let _ = self.workers.merge_window(&merge.sa, merge.edge, &merge.received);
        }
    }

    /// Takes the sockets of IKE daemons, where there are no ports.
    fn follow_esp_sockets(&mut self) {
        self.wants.topology |= self.esp_sockets.serve(&mut *self.source, &self.workers);
    }

    /// Learns what Linux's NAT has decided, and has ports take what it is about.
    fn follow_nat(&mut self) {
        let Some(nat) = &mut self.nat else { return };
        let topology = self.tables.topology.load();
        let steps = nat.serve(|addr| topology.is_local_addr(addr));
        let has_other_rules = nat.follow_rules();
        // To a port of this host where ESP in UDP comes, too: there are plans that open it.
        let may_be_esp = |step: &FlowStep| {
            step.tuple.protocol == wire::protocol::UDP && topology.is_natt_port(step.tuple.dst_port)
        };
        let is_anew = has_other_rules || steps.iter().any(may_be_esp);
        steps.into_iter().for_each(|step| self.ports.steer_flow(step));
        // Plans of before are void with it.
        self.wants.topology |= is_anew;
    }

    /// Wakes the workers after a change of SAs: packets may wait for what has come.
    fn wake_workers(&mut self) {
        let changes = self.source.sa_changes();
        if changes != self.sas_followed {
            self.sas_followed = changes;
            self.forget_answered();
            self.workers.wake();
        }
    }

    /// Handles the workers' events.
    fn hear_workers(&mut self) {
        self.events.clear();
        for left in (0..EVENTS_PER_ROUND).rev() {
            let Some(event) = self.events.next() else { break };
            if left == 0 {
                self.events.remind();
            }
            match event {
                Event::Acquire { policy, cpu, flow } => self.acquire(policy, cpu, &flow),
                Event::VolumeReached { sa, hard } => {
                    let spi = spi_text(sa.spi);
                    self.event_log.add(Occurrence::SaLimit { spi, dst: sa.dst, hard });
                    self.source.volume_reached(&sa, hard);
                }
                Event::MappingChanged { sa, src, src_port: port } => {
                    let spi = spi_text(sa.spi);
                    self.event_log.add(Occurrence::PeerMoved { spi, src, port });
                    self.source.mapping_changed(&sa, src, port);
                }
                Event::TooBig { sa, dst, mtu } => self.learn_path_mtu(&sa, dst, mtu),
                Event::SegmentsTooBig { path, mtu } => self.learn_segments_mtu(path, mtu),
                Event::RateBroken { sa, cause } => self.note_break(&sa, cause),
                Event::Resolve { ifindex, ip } => self.resolve(ifindex, ip),
                Event::PortGone { ifindex } => {
                    self.ports.lost(ifindex, &self.workers);
                    self.tunnels.lost(ifindex);
                    self.esp_sockets.lost(ifindex);
                    (self.wants.topology, self.wants.paths) = (true, true);
                }
            }
        }
    }

    /// Asks for the SAs that packets want which may not come.
    fn hear_early(&mut self) {
        let reports = self.early.as_mut().map(Early::reports).unwrap_or_default();
        for Reported { mark, packet } in reports {
            let Ok(headers) = wire::parse_ip(&packet) else { continue };
            let came = Came::Linux { tunnel: 0, mark };
            let Ok((_, explanation)) = self.ask(Probe { packet, came }) else { continue };
            if let Some(policy) = explanation.steps.iter().find_map(wanting) {
                self.acquire(policy, None, &headers);
            }
        }
    }

    /// A packet wants SAs that are not there.
    fn acquire(&mut self, policy: u32, cpu: Option<u32>, packet: &Headers) {
        let protocol = protocol::name(packet.protocol);
        let (src, dst) = (packet.src, packet.dst);
        self.event_log.add(Occurrence::Acquire { policy, src, dst, protocol });
        self.asked.add(policy);
        self.source.acquire(policy, cpu, packet);
    }

    /// Handles changes in Linux's tables.
    fn hear_linux(&mut self) {
        let changes = match self.observer.poll() {
            Ok(changes) => changes,
            Err(error) => {
                error!(%error, "the mirror of Linux's tables");
                // Changes that the snapshot has by now are not reported again.
                let own = own(&self.config, self.private.ifindex());
                let segments = core::mem::take(self.reflection.segments());
                self.reflection =
                    topology::Reflection::new(self.observer.snapshot(), own, segments);
                (self.wants.links, self.wants.neighbours) = (true, true);
                return;
            }
        };
        if changes.is_empty() {
            return;
        }
        self.reflection.follow(self.observer.snapshot(), &changes);
        self.wants.paths |= self.reflection.segments().have_prefixes_changed();
        let tables = [self.config.tun.table, self.config.tun.marked_table];
        for change in &changes {
            match change {
                LinuxChange::Neighbour(_) | LinuxChange::NeighbourRemoved(_) => {
                    self.wants.neighbours = true;
                }
                // Culvert's own tables: its look-ups leave those out.
                LinuxChange::Route(route) if tables.contains(&route.table) => {}
                LinuxChange::RouteRemoved(route) if tables.contains(&route.table) => {
                    let snapshot = self.observer.snapshot();
                    self.private.repair_route(route.table, route.dst, snapshot);
                }
                LinuxChange::Route(route) | LinuxChange::RouteRemoved(route) => {
                    self.wants.topology = true;
                    self.steer_route(route);
                    self.wants.routes.insert(route.dst);
                }
                // Culvert's own rules: they are for Linux's packets.
                LinuxChange::Rule(rule) if rule.protocol == ROUTE_PROTOCOL => {}
                LinuxChange::RuleRemoved(rule) if rule.protocol == ROUTE_PROTOCOL => {
                    self.wants.private = true;
                }
                // The sources of local traffic depend on Linux's rules.
                LinuxChange::Rule(_) | LinuxChange::RuleRemoved(_) => {
                    (self.wants.topology, self.wants.paths) = (true, true);
                }
                LinuxChange::LinkRemoved(link) if link.index == self.private.ifindex() => {
                    self.is_interface_gone = true;
                }
                LinuxChange::Link(link) | LinuxChange::LinkRemoved(link) => {
                    (self.wants.links, self.wants.neighbours) = (true, true);
                    self.wants.private |= link.index == self.private.ifindex();
                }
                LinuxChange::Address(_) | LinuxChange::AddressRemoved(_) => {
                    (self.wants.topology, self.wants.paths) = (true, true);
                }
            }
        }
        if self.wants.links {
            self.follow_device_ports();
        }
    }

    /// Has ports take what a route leads to a tunnel interface.
    fn steer_route(&mut self, route: &Route) {
        let Some(leads) = self.tunnels.follow_route(self.observer.snapshot(), route) else {
            return;
        };
        let Some(prefix) = steer::Prefix::new(route.dst.addr, route.dst.len) else { return };
        match leads {
            true => self.ports.take_prefix(prefix),
            false => self.ports.leave_prefix(prefix),
        }
    }

    /// Follows the kernel's own XFRM interfaces, where it owns SAs and policies.
    fn follow_interfaces(&mut self) {
        let snapshot = self.observer.snapshot();
        if self.source.is_beside_kernel() && self.tunnels.follow_links(snapshot) {
            let judged = self.source.set_interfaces(self.tunnels.of_linux());
            // Their way back is the private interface.
            let takes = |name: &str| private::source_check(name) != SourceCheck::Strict;
            self.brought_by = self.tunnels.bringing(snapshot, &judged, takes);
            self.wants.marks = true;
            self.follow_port_names(self.config.port_names());
            self.wants.paths = true;
        }
    }

    /// Tells the source by which interfaces packets come and go that Linux does not see.
    fn follow_port_names(&mut self, mut names: BTreeSet<String>) {
        let snapshot = self.observer.snapshot();
        let linux = self.tunnels.linux_indices();
        names.extend(linux.filter_map(|i| Some(snapshot.link(i)?.name.clone())));
        names.extend(self.vlans.taken().map(|vlan| vlan.name.to_owned()));
        self.source.set_ports(names);
    }

    /// Retries what failed, at intervals: nothing may announce that it would work by now.
    fn retry(&mut self) {
        if self.retry_at > Instant::now() {
            return;
        }
        self.retry_at = Instant::now() + RETRY_INTERVAL;
        self.source.retry();
        self.wants.private = true;
        self.memifs.retry();
        self.wants.topology |= self.ports.retry(self.observer.snapshot(), &self.workers);
    }

    /// Has Linux look after a neighbour. Flows to one that was stale have plans again from now on, and not only when Linux
    /// begins to probe it.
    fn resolve(&mut self, ifindex: u32, ip: IpAddr) {
        let change = self.private.resolve(ifindex, ip).then(|| self.observer.used(ifindex, ip));
        if let Some(change) = change.flatten() {
            self.reflection.follow(self.observer.snapshot(), &[change]);
            self.wants.neighbours = true;
        }
    }

    /// Tells the steering programs culvert's SAs, once the kernel has some too.
    fn follow_sas(&mut self) {
        if !self.source.owns_all_esp() && self.ports.steering().esp == TakenEsp::All {
            let own = self.source.follow_sas();
            self.ports.leave_unknown_esp(own);
        }
        self.ports.steer_udp_fragments(self.source.databases().has_encapsulated());
        for step in self.source.take_sa_steps() {
            self.ports.steer_sa(step);
        }
        for (dst, spi) in self.source.take_samples() {
            self.ports.sample_sa(dst, spi);
        }
    }

    /// Makes Linux know the marks that SAs set.
    fn follow_marks(&mut self) {
        let Some(wanted) = self.source.take_set_marks() else { return };
        self.set_marks = wanted;
        (self.wants.marks, self.wants.topology) = (true, true);
    }

    /// Those of SAs, and those that `[[mark]]` gives to what is decrypted.
    fn tell_marks(&mut self) {
        let (private, tunnels) = (self.private.ifindex(), &self.tunnels);
        let mut wanted = self.set_marks.clone();
        let judged = self.config.tun.judged_mark;
        wanted.extend(self.brought_by.keys().map(|if_id| Marks::of_interface(*if_id)));
        for marks in self.config.marks.iter().map(|rule| Marks::of_mark(rule.mark)) {
            if !wanted.contains(&marks) {
                wanted.push(marks);
            }
        }
        let brought_by = &self.brought_by;
        self.way_back.follow_marks(&wanted, |Marks { mark, if_id }| match (if_id, mark) {
            (0, _) => Some((private, mark)),
            // One of Linux's own.
            (_, 0) => brought_by.get(&if_id).map(|ifindex| (*ifindex, judged)),
            _ => tunnels.ifindex(if_id).map(|ifindex| (ifindex, mark)),
        });
    }

    /// Sets everything up for the first time. Nothing is taken from Linux, by a port or by a route,
    /// before the workers can send it on.
    fn begin(&mut self, programs: Programs) {
        if self.source.is_beside_kernel() {
            self.ports.set_beside_kernel();
        }
        self.follow_interfaces();
        let steps = self.changed_policies();
        self.follow_with_guard(&steps);
        self.ports.take_in(programs);
        self.beat();
        self.follow_sas();
        // Ports take this from their first frame on.
        let policies = self.followed.values().map(|p| &p.config);
        let local = self.observer.snapshot().addresses().map(|a| a.addr).collect();
        let tunnelled = self.tunnels.follow_all_routes(self.observer.snapshot());
        let tunnelled = tunnelled.into_iter().chain(self.reflection.segments().prefixes());
        let steering = self.ports.steering().with(local, policies, tunnelled);
        self.ports.steer(steering);
        self.follow_links();
        self.follow_marks();
        self.publish();
        self.follow_inner_mtus(&steps);
        // Ports are attached by now.
        self.carry_out();
    }

    /// Notes what has happened to SAs, ports and drop counters.
    fn note_events(&mut self) {
        self.event_log.follow(self.source.take_sa_history());
        let Some(passed) = self.watch.due(Instant::now()) else { return };
        let mut news = self.watch.ports.look(self.ports.troubles().chain(self.memifs.troubles()));
        let workers = &self.workers;
        news.extend(self.watch.drops.look(passed, |reason| workers.dropped(reason)));
        news.into_iter().for_each(|what| self.event_log.add(what));
    }

    /// Carries out the commands of clients, as far as that is not for the end of the round. They are answered then.
    fn obey_commands(&mut self) -> Vec<(Reply, Sender<Reply>)> {
        let commands = std::mem::take(&mut self.commands).into_iter();
        commands.map(|command| (self.answer(command.request), command.answer)).collect()
    }

    /// Answers questions; commands are left for the next round, which follows at once.
    fn answer_questions(&mut self) {
        let (commands, questions): (Vec<_>, Vec<_>) =
            self.control.questions().partition(Question::is_command);
        self.commands.extend(commands);
        if questions.iter().any(|question| matches!(question.request, Request::Sa { .. })) {
            self.source.refresh();
        }
        for question in questions {
            let reply = self.answer(question.request);
            // An error means that the client has gone.
            let _ = question.answer.send(reply);
        }
        self.traces.forget();
    }
}

/// What leads back to culvert.
fn own(config: &Config, ifindex: u32) -> topology::Own {
    topology::Own { tables: [config.tun.table, config.tun.marked_table], ifindex }
}

/// The private interface, as the configuration wants it.
fn tun_config(config: &Config) -> TunConfig {
    TunConfig { name: config.tun.interface.clone(), mtu: config.tun.mtu }
}

/// Whether a signal's pipe held anything; empties it.
fn drain(pipe: &UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0u8; 64];
    while rustix::io::read(pipe, &mut buffer).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}
