//! `culvert run`: the daemon.
//!
//! Two kinds of threads matter. **Workers** move packets and own ports and buffers. The **control
//! thread**, this one, owns everything else: the source of SAs and policies, the mirror of
//! Linux's network state, the guard, the routes to the private interface, the steering programs.
//! It waits on all of their descriptors and publishes what changed.
#![forbid(unsafe_code)]

mod carry_out;
mod clock;
pub mod files;
#[cfg(test)]
mod in_memory;
mod install;
mod life;
mod linux;
mod offload;
pub mod pcapng;
mod reload;
mod sa;
mod shows;
mod slots;
mod sources;
mod start;
pub mod users;
mod wants;
mod workers;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::time::Duration;

use config::Config;
use dataplane::{Came, Event, Probe};
use forward::SourceCheck;
use io::TunConfig;
use mirror::{Change as LinuxChange, Route};
use policy::Marks;
use report::protocol;
use report::{Occurrence, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::error;
use wire::Headers;
use xfrm::shim_protocol::ROUTE_PROTOCOL;

use self::clock::Now;
use self::control::{Question, Reply};
use self::early::{Early, Reported, wanting};
pub use self::install::{InstallOptions, InstallReport, bench_install};
use self::life::end::End;
use self::life::{
    Life, confinement, detour, error, limits, log, privileges, reloads, unprivileged, watchdog,
};
use self::linux::{
    Linux, memifs, nat, private, segments, services, topology, tunnels, vlan_priorities, vlans,
    vrfs, way_back, xfrm_interfaces,
};
use self::nat::{FlowStep, Nat};
use self::offload::{Offload, cryptodevs, device, devices, packet_devices, rtl_simulation};
pub use self::ports::FRAMES_PER_FULL_QUEUE;
use self::ports::Programs;
pub use self::private::is_ours as is_own_rule;
use self::sa::{Sas, asked, by_sender, early, inner_mtus, left, lifetimes, path_mtus, shortfall};
use self::shows::{Shows, capture, control, events, kernel_blocks, reader, texts, vici, why};
use self::sources::kernel::KernelSource;
use self::steering::TakenEsp;
use self::texts::spi_text;
use self::wants::Wants;
use self::workers::Crew;
use self::workers::{engines, esp_sockets, heartbeat, plan, ports, rate_limits, steering};

pub use confinement::confine_server;
pub use engines::providers;
pub use error::StartError;
pub use life::examine::{Situation, examine};
pub use limits::{FRAMES_SPARE, frames_at_start};
pub use nat::statistics as connection_statistics;
pub use privileges::missing as missing_capabilities;
pub use privileges::{drop_all as drop_capabilities, forgo_all as forgo_capabilities};
pub use slots::QUEUES_PER_WORKER;
pub use sources::kernel::{firewalls, nat_rules};
pub use start::{RunOptions, run};
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
    linux: Linux,
    sa: Sas,
    offload: Offload,
    crew: Crew,
    shows: Shows,
    life: Life,
}

/// Bytes of stack that a round of the control thread may use: journal, answers and their JSON text among them.
const ROUND_STACK_LEN: usize = 128 << 10;

impl Daemon {
    /// Works until told to stop.
    fn serve(&mut self) -> End {
        loop {
            self.wait(Now::read());
            if let Some(end) = self.round(Now::read()) {
                return end;
            }
            log::tell_left_out();
            // Requests and answers have keys in them.
            mem::wipe_stack::<ROUND_STACK_LEN>();
        }
    }

    /// Hears of everything, and carries out what follows from it.
    fn round(&mut self, now: Now) -> Option<End> {
        self.offload.devices.borrow_mut().set_time(now);
        self.beat(now);
        if drain(&self.life.terminate) {
            return Some(End::Told);
        }
        if let Some(death) = self.crew.workers.dead() {
            return Some(End::WorkerDied(death));
        }
        let replies = self.obey_commands(now);
        if drain(&self.life.hang_ups) {
            self.reload(now);
        }
        self.serve_source(now);
        self.hear_workers(now);
        self.hear_devices(now);
        self.hear_early(now);
        self.forget_path_mtus(now);
        self.linux.memifs.serve(now, &self.crew.workers);
        self.follow_esp_sockets();
        self.follow_nat(now);
        self.wake_workers();
        self.place_sas(now);
        self.hear_linux();
        if self.linux.is_interface_gone {
            return Some(End::InterfaceGone);
        }
        self.retry(now);
        self.carry_out(now);
        if let Some(builtin) = self.sa.source.builtin_mut() {
            builtin.confirm();
        }
        for (reply, client) in replies {
            // An error means that the client has gone.
            let _ = client.send(reply);
        }
        self.note_events(now);
        self.answer_questions(now);
        self.life.ending.take()
    }

    /// Tells watchdogs that this thread works, where Linux can carry on in its place, and the service manager that all
    /// workers do.
    fn beat(&mut self, now: Now) {
        self.crew.ports.beat(now);
        self.life.past_daemon.set(now, self.sa.source.is_beside_kernel());
        self.life.past_daemon.beat(now);
        let Some(watchdog) = &mut self.life.watchdog else { return };
        if watchdog.is_due(now.at, || self.crew.workers.rounds()) {
            // A manager that is not told ends the daemon and starts another, which is all that could be done here.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }

    /// Sleeps until a descriptor is readable or a deadline is reached.
    fn wait(&self, now: Now) {
        let due = match self.wants.is_any() || !self.shows.commands.is_empty() {
            true => Duration::ZERO,
            false => self.sa.source.due_in(now).map_or(TICK, |due| due.min(TICK)),
        };
        let due = match self.sa.source.is_beside_kernel() {
            true => due.min(heartbeat::LONGEST_SLEEP),
            false => due,
        };
        let due = self.offload.devices.borrow().due_in().map_or(due, |placing| due.min(placing));
        let due = match self.offload.devices.borrow().packet.has_sas() {
            true => due.min(DEVICE_WAIT),
            false => due,
        };
        let due = match self.linux.nat.as_ref().and_then(|nat| nat.due_in(now)) {
            Some(upkeep) => due.min(upkeep),
            None => due,
        };
        let due = if self.linux.observer.is_stale() { due.min(STALE_WAIT) } else { due };
        let due = match &self.life.watchdog {
            Some(watchdog) => due.min(watchdog.due_in(now.at)),
            None => due,
        };
        let due = match self.sa.guard.due().filter(|_| self.is_guarded()) {
            Some(at) => due.min(now.until(at)),
            None => due,
        };
        let mut fds = vec![
            self.linux.observer.fd(),
            self.crew.events.as_fd(),
            self.shows.control.as_fd(),
            self.life.terminate.as_fd(),
            self.life.hang_ups.as_fd(),
        ];
        fds.extend(self.shows.early.as_ref().map(Early::fd));
        fds.extend(self.linux.memifs.fds(now));
        fds.extend(self.linux.nat.iter().flat_map(Nat::fds));
        self.sa.source.add_fds(&mut fds);
        let mut fds: Vec<_> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: due.as_secs().cast_signed(), tv_nsec: due.subsec_nanos().into() };
        // Interrupted or not, the round looks at everything.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Serves the source, and carries out what it wants of ports and workers.
    fn serve_source(&mut self, now: Now) {
        if self.sa.source.kernel().is_some_and(KernelSource::awaits_workers) {
            // One that is late drops what it would send by an SA that is gone.
            let _ = self.crew.workers.wait_for_commands();
        }
        self.sa.source.serve(now);
        let Some(kernel) = self.sa.source.kernel_mut() else { return };
        for merge in kernel.take_merges(now) {
            let _ = self.crew.workers.merge_window(&merge.sa, merge.edge, &merge.received);
        }
    }

    /// Takes the sockets of IKE daemons, where there are no ports.
    fn follow_esp_sockets(&mut self) {
        let Some(builtin) = self.sa.source.builtin_mut() else { return };
        self.wants.topology |= self.crew.esp_sockets.serve(builtin, &self.crew.workers);
    }

    /// Learns what Linux's NAT has decided, and has ports take what it is about.
    fn follow_nat(&mut self, now: Now) {
        let Some(nat) = &mut self.linux.nat else { return };
        let topology = self.crew.tables.topology.load();
        let steps = nat.serve(now, |addr| topology.is_local_addr(addr));
        let has_other_rules = nat.follow_rules(now);
        // To a port of this host where ESP in UDP comes, too: there are plans that open it.
        let may_be_esp = |step: &FlowStep| {
            step.tuple.protocol == wire::protocol::UDP && topology.is_natt_port(step.tuple.dst_port)
        };
        let is_anew = has_other_rules || steps.iter().any(may_be_esp);
        steps.into_iter().for_each(|step| self.crew.ports.steer_flow(step));
        // Plans of before are void with it.
        self.wants.topology |= is_anew;
    }

    /// Wakes the workers after a change of SAs: packets may wait for what has come.
    fn wake_workers(&mut self) {
        let changes = self.sa.source.changes().of_sas();
        if changes != self.sa.sas_followed {
            self.sa.sas_followed = changes;
            self.forget_answered();
            self.crew.workers.wake();
        }
    }

    /// Handles the workers' events.
    fn hear_workers(&mut self, now: Now) {
        self.crew.events.clear();
        for left in (0..EVENTS_PER_ROUND).rev() {
            let Some(event) = self.crew.events.next() else { break };
            if left == 0 {
                self.crew.events.remind();
            }
            match event {
                Event::Acquire { policy, cpu, flow } => self.acquire(now, policy, cpu, &flow),
                Event::VolumeReached { sa, hard } => {
                    let spi = spi_text(sa.spi);
                    self.shows.event_log.add(now, Occurrence::SaLimit { spi, dst: sa.dst, hard });
                    self.sa.source.volume_reached(&sa, hard);
                }
                Event::MappingChanged { sa, src, src_port: port } => {
                    let spi = spi_text(sa.spi);
                    self.shows.event_log.add(now, Occurrence::PeerMoved { spi, src, port });
                    self.sa.source.mapping_changed(now, &sa, src, port);
                }
                Event::TooBig { sa, dst, mtu } => self.learn_path_mtu(now, &sa, dst, mtu),
                Event::SegmentsTooBig { path, mtu } => self.learn_segments_mtu(now, path, mtu),
                Event::RateBroken { sa, cause } => self.note_break(now, &sa, cause),
                Event::Resolve { ifindex, ip } => self.resolve(ifindex, ip),
                Event::PortGone { ifindex } => {
                    self.crew.ports.lost(ifindex, &self.crew.workers);
                    self.linux.tunnels.lost(ifindex);
                    self.crew.esp_sockets.lost(ifindex);
                    (self.wants.topology, self.wants.paths) = (true, true);
                }
            }
        }
    }

    /// Asks for the SAs that packets want which may not come.
    fn hear_early(&mut self, now: Now) {
        let reports = self.shows.early.as_mut().map(Early::reports).unwrap_or_default();
        for Reported { mark, packet } in reports {
            let Ok(headers) = wire::parse_ip(&packet) else { continue };
            let came = Came::Linux { tunnel: 0, mark };
            let Ok((_, explanation)) = self.ask(Probe { packet, came }) else { continue };
            if let Some(policy) = explanation.steps.iter().find_map(wanting) {
                self.acquire(now, policy, None, &headers);
            }
        }
    }

    /// A packet wants SAs that are not there.
    fn acquire(&mut self, now: Now, policy: u32, cpu: Option<u32>, packet: &Headers) {
        let protocol = protocol::name(packet.protocol);
        let (src, dst) = (packet.src, packet.dst);
        self.shows.event_log.add(now, Occurrence::Acquire { policy, src, dst, protocol });
        self.shows.asked.add(now, policy);
        // The kernel asks by itself when Linux has the packet; what waits here waits for an SA that is being taken over.
        if let Some(builtin) = self.sa.source.builtin_mut() {
            builtin.acquire(now, policy, cpu, packet);
        }
    }

    /// Handles changes in Linux's tables.
    fn hear_linux(&mut self) {
        let changes = match self.linux.observer.poll() {
            Ok(changes) => changes,
            Err(error) => {
                error!(%error, "the mirror of Linux's tables");
                // Changes that the snapshot has by now are not reported again.
                let own = own(&self.config, self.linux.private.ifindex());
                let segments = core::mem::take(self.linux.reflection.segments());
                self.linux.reflection =
                    topology::Reflection::new(self.linux.observer.snapshot(), own, segments);
                (self.wants.links, self.wants.neighbours) = (true, true);
                return;
            }
        };
        if changes.is_empty() {
            return;
        }
        self.linux.reflection.follow(self.linux.observer.snapshot(), &changes);
        self.wants.paths |= self.linux.reflection.segments().have_prefixes_changed();
        let tables = [self.config.tun.table, self.config.tun.marked_table];
        for change in &changes {
            match change {
                LinuxChange::Neighbour(_) | LinuxChange::NeighbourRemoved(_) => {
                    self.wants.neighbours = true;
                }
                // Culvert's own tables: its look-ups leave those out.
                LinuxChange::Route(route) if tables.contains(&route.table) => {}
                LinuxChange::RouteRemoved(route) if tables.contains(&route.table) => {
                    let snapshot = self.linux.observer.snapshot();
                    self.linux.private.repair_route(route.table, route.dst, snapshot);
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
                LinuxChange::LinkRemoved(link) if link.index == self.linux.private.ifindex() => {
                    self.linux.is_interface_gone = true;
                }
                LinuxChange::Link(link) | LinuxChange::LinkRemoved(link) => {
                    (self.wants.links, self.wants.neighbours) = (true, true);
                    self.wants.private |= link.index == self.linux.private.ifindex();
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
        let Some(leads) = self.linux.tunnels.follow_route(self.linux.observer.snapshot(), route)
        else {
            return;
        };
        let Some(prefix) = steer::Prefix::new(route.dst.addr, route.dst.len) else { return };
        match leads {
            true => self.crew.ports.take_prefix(prefix),
            false => self.crew.ports.leave_prefix(prefix),
        }
    }

    /// Follows the kernel's own XFRM interfaces, where it owns SAs and policies.
    fn follow_interfaces(&mut self) {
        let snapshot = self.linux.observer.snapshot();
        if let Some(kernel) = self.sa.source.kernel_mut()
            && self.linux.tunnels.follow_links(snapshot)
        {
            let judged = kernel.set_interfaces(self.linux.tunnels.of_linux());
            // Their way back is the private interface.
            let takes = |name: &str| private::source_check(name) != SourceCheck::Strict;
            self.linux.brought_by = self.linux.tunnels.bringing(snapshot, &judged, takes);
            self.wants.marks = true;
            self.follow_port_names(self.config.port_names());
            self.wants.paths = true;
        }
    }

    /// Tells the source by which interfaces packets come and go that Linux does not see.
    fn follow_port_names(&mut self, mut names: BTreeSet<String>) {
        let Some(kernel) = self.sa.source.kernel_mut() else { return };
        let snapshot = self.linux.observer.snapshot();
        let linux = self.linux.tunnels.linux_indices();
        names.extend(linux.filter_map(|i| Some(snapshot.link(i)?.name.clone())));
        names.extend(self.linux.vlans.taken().map(|vlan| vlan.name.to_owned()));
        kernel.set_ports(names);
    }

    /// Retries what failed, at intervals: nothing may announce that it would work by now.
    fn retry(&mut self, now: Now) {
        if self.life.retry_at > now.at {
            return;
        }
        self.life.retry_at = now.at + RETRY_INTERVAL;
        self.sa.source.retry();
        self.wants.private = true;
        self.linux.memifs.retry();
        self.wants.topology |=
            self.crew.ports.retry(self.linux.observer.snapshot(), &self.crew.workers);
    }

    /// Has Linux look after a neighbour. Flows to one that was stale have plans again from now on, and not only when Linux
    /// begins to probe it.
    fn resolve(&mut self, ifindex: u32, ip: IpAddr) {
        let change =
            self.linux.private.resolve(ifindex, ip).then(|| self.linux.observer.used(ifindex, ip));
        if let Some(change) = change.flatten() {
            self.linux.reflection.follow(self.linux.observer.snapshot(), &[change]);
            self.wants.neighbours = true;
        }
    }

    /// Tells the steering programs culvert's SAs, once the kernel has some too.
    fn follow_sas(&mut self) {
        if self.crew.ports.steering().esp == TakenEsp::All
            && let Some(own) = self.sa.source.own_esp()
        {
            self.crew.ports.leave_unknown_esp(own);
        }
        self.crew.ports.steer_udp_fragments(self.sa.source.databases().has_encapsulated());
        for step in self.sa.source.changes().take_steps() {
            self.crew.ports.steer_sa(step);
        }
        let samples = self.sa.source.kernel_mut().map(KernelSource::take_samples);
        for (dst, spi) in samples.unwrap_or_default() {
            self.crew.ports.sample_sa(dst, spi);
        }
    }

    /// Makes Linux know the marks that SAs set.
    fn follow_marks(&mut self) {
        let Some(wanted) = self.sa.source.changes().take_set_marks() else { return };
        self.linux.set_marks = wanted;
        (self.wants.marks, self.wants.topology) = (true, true);
    }

    /// Those of SAs, and those that `[[mark]]` gives to what is decrypted.
    fn tell_marks(&mut self) {
        let (private, tunnels) = (self.linux.private.ifindex(), &self.linux.tunnels);
        let mut wanted = self.linux.set_marks.clone();
        let judged = self.config.tun.judged_mark;
        wanted.extend(self.linux.brought_by.keys().map(|if_id| Marks::of_interface(*if_id)));
        for marks in self.config.marks.iter().map(|rule| Marks::of_mark(rule.mark)) {
            if !wanted.contains(&marks) {
                wanted.push(marks);
            }
        }
        let brought_by = &self.linux.brought_by;
        self.linux.way_back.follow_marks(&wanted, |Marks { mark, if_id }| match (if_id, mark) {
            (0, _) => Some((private, mark)),
            // One of Linux's own.
            (_, 0) => brought_by.get(&if_id).map(|ifindex| (*ifindex, judged)),
            _ => tunnels.ifindex(if_id).map(|ifindex| (ifindex, mark)),
        });
    }

    /// Sets everything up for the first time. Nothing is taken from Linux, by a port or by a route,
    /// before the workers can send it on.
    fn begin(&mut self, now: Now, programs: Programs) {
        if self.sa.source.is_beside_kernel() {
            self.crew.ports.set_beside_kernel();
        }
        self.follow_interfaces();
        let steps = self.changed_policies();
        self.follow_with_guard(now, &steps);
        self.crew.ports.take_in(programs);
        self.beat(Now::read());
        self.follow_sas();
        // Ports take this from their first frame on.
        let policies = self.sa.followed.values().map(|p| &p.config);
        let local = self.linux.observer.snapshot().addresses().map(|a| a.addr).collect();
        let tunnelled = self.linux.tunnels.follow_all_routes(self.linux.observer.snapshot());
        let tunnelled = tunnelled.into_iter().chain(self.linux.reflection.segments().prefixes());
        let steering = self.crew.ports.steering().with(local, policies, tunnelled);
        self.crew.ports.steer(steering);
        self.follow_links(now);
        self.follow_marks();
        self.publish(now);
        self.follow_inner_mtus(now, &steps);
        // Ports are attached by now.
        self.carry_out(now);
    }

    /// Notes what has happened to SAs, ports and drop counters.
    fn note_events(&mut self, now: Now) {
        self.shows.event_log.follow(now, self.sa.source.changes().take_history());
        let Some(passed) = self.shows.watch.due(now.at) else { return };
        let mut news = self
            .shows
            .watch
            .ports
            .look(self.crew.ports.troubles().chain(self.linux.memifs.troubles()));
        let workers = &self.crew.workers;
        news.extend(self.shows.watch.drops.look(passed, |reason| workers.dropped(reason)));
        news.into_iter().for_each(|what| self.shows.event_log.add(now, what));
    }

    /// Carries out the commands of clients, as far as that is not for the end of the round. They are answered then.
    fn obey_commands(&mut self, now: Now) -> Vec<(Reply, Sender<Reply>)> {
        let commands = std::mem::take(&mut self.shows.commands).into_iter();
        commands.map(|command| (self.answer(now, command.request), command.answer)).collect()
    }

    /// Answers questions; commands are left for the next round, which follows at once.
    fn answer_questions(&mut self, now: Now) {
        let (commands, questions): (Vec<_>, Vec<_>) =
            self.shows.control.questions().partition(Question::is_command);
        self.shows.commands.extend(commands);
        let is_of_sas = |question: &Question| matches!(question.request, Request::Sa { .. });
        if questions.iter().any(is_of_sas)
            && let Some(kernel) = self.sa.source.kernel_mut()
        {
            kernel.refresh(now);
        }
        for question in questions {
            let reply = self.answer(now, question.request);
            // An error means that the client has gone.
            let _ = question.answer.send(reply);
        }
        self.shows.traces.forget(now);
    }
}

/// Routes and rules that lead back to culvert.
fn own(config: &Config, ifindex: u32) -> topology::Own {
    topology::Own { tables: [config.tun.table, config.tun.marked_table], ifindex }
}

/// The private interface, as the configuration wants it.
fn tun_config(config: &Config) -> TunConfig {
    TunConfig { name: config.tun.interface.clone(), mtu: config.tun.mtu }
}

/// True if a signal's pipe held anything. Empties it.
fn drain(pipe: &UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0u8; 64];
    while rustix::io::read(pipe, &mut buffer).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}
