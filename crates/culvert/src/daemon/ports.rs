//! The interfaces that culvert takes over: they come, go, and come back.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use io::{
    PacketConfig, PacketSocket, Port, PortCounters, PortStats, Umem, XskConfig, XskMode, XskQueue,
    XskRegion, XskTransfer,
};
use mirror::{Link, Snapshot};
use policy::PolicyConfig;
use steer::device::{Device, Finding};
use steer::{Attached, Hook, Loader, Mode, Prefix, Sizes, Steer, SteerConfig, SteerError};
use tracing::{info, warn};
use wire::VlanTags;

use super::heartbeat::{Heartbeat, now_ns};
use super::nat::{FlowStep, TakenFlows};
use super::slots;
use super::sources::SaStep;
use super::steering::{Steering, TakenEsp};
use super::vlans::{self, Vlans};
use super::vrfs::Vrfs;
use super::way_back::WorkingPort;
use super::workers::Workers;
use crate::config::{MarkConfig, PortConfig, Sockets, XdpMode};

/// Ring sizes of one queue, in frames.
///
/// A worker that shares its core is away for some milliseconds at a time, and TCP sends what its
/// window allows: with 1024 frames to receive into, iperf3 lost a packet in 250, with 2048 none.
const RINGS: XskConfig =
    XskConfig { fill: 2048, ready: 2048, rx: 2048, tx: 1024, mode: io::XskMode::Auto };

/// Frames without which one queue does not work: the least in its fill ring, and as many in flight.
pub const FRAMES_PER_QUEUE: u32 = 2 * io::MIN_READY;

/// Frames that one queue may hold at a time.
pub const FRAMES_PER_FULL_QUEUE: u32 = RINGS.fill + RINGS.tx;

/// An open port, whose sockets the workers have.
struct Working {
    ifindex: u32,
    steer: Steer,
    /// `None` until its program is attached: its frames pass to Linux.
    attached: Option<Attached>,
    heartbeat: Heartbeat,
    transfer: Transfer,
    queues: u32,
    /// One for each queue.
    counters: Vec<Arc<PortCounters>>,
    /// A finding that matters only where VLANs are used.
    vlan_trouble: Option<Finding>,
}

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transfer {
    Xdp(XskTransfer),
    /// By packet sockets, as super-packets.
    Packet,
}

impl Transfer {
    const fn kind(self) -> &'static str {
        match self {
            Transfer::Xdp(_) => "af-xdp",
            Transfer::Packet => "packet",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Transfer::Xdp(XskTransfer::Copy) => "copy",
            Transfer::Xdp(XskTransfer::ZeroCopy) => "zero-copy",
            Transfer::Packet => "super-packets",
        }
    }
}

/// A loaded program that is not attached, or why there is none.
type Program = Result<Steer, SteerError>;

/// One configured port.
struct Entry {
    config: PortConfig,
    /// The first of the workers' slots that are reserved for its queues.
    first_slot: usize,
    working: Option<Working>,
    /// For its next opening.
    program: Option<Program>,
    /// Why it does not work.
    trouble: String,
    /// Its program's tables are out of date: an update failed.
    is_stale: bool,
    /// Lost VLAN tags were warned of.
    is_vlan_told: bool,
    /// The tags of its VLANs that are taken.
    vlans: BTreeSet<VlanTags>,
}

/// All configured ports.
pub struct Ports {
    entries: Vec<Entry>,
    loader: Option<Loader>,
    steering: Steering,
    flows: TakenFlows,
    region: XskRegion,
    /// The mark of what the private interface gives back to a port.
    given_back: u32,
}

/// Programs that are being loaded: half of a start's time, spent in parallel.
pub struct Programs(thread::JoinHandle<(Loader, Vec<Program>)>);

impl Programs {
    /// Loads one for each port, on threads of their own; with room for so many directions of known flows.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn load(configs: &[PortConfig], flows: u32) -> std::io::Result<Programs> {
        let ports = configs.iter().map(|c| (c.interface.clone(), likely_hook(c.kind)));
        let ports: Vec<(String, Hook)> = ports.collect();
        let thread = thread::Builder::new().name("culvert-bpf".into()).spawn(move || {
            let loader = Loader::new();
            let load = |(interface, hook): &(String, Hook)| load(&loader, interface, *hook, flows);
            let load = &load;
            let programs = thread::scope(|scope| {
                let start = |i| thread::Builder::new().spawn_scoped(scope, move || load(i));
                let threads: Vec<_> = ports.iter().map(|i| (i, start(i).ok())).collect();
                // Without a thread of its own, or after a panic of it, a program is loaded here.
                let join = |(i, t): (_, Option<thread::ScopedJoinHandle<'_, Program>>)| {
                    t.and_then(|t| t.join().ok()).unwrap_or_else(|| load(i))
                };
                threads.into_iter().map(join).collect()
            });
            (loader, programs)
        })?;
        Ok(Programs(thread))
    }
}

/// Queues to take of a port; at least one for an interface that is not there.
pub fn wanted_queues(config: &PortConfig) -> u32 {
    match Device::look(&config.interface) {
        Ok(device) => config.queues.unwrap_or(device.rx_queues).min(device.rx_queues),
        Err(_) => config.queues.unwrap_or(1),
    }
}

/// Queues of the port that has the most.
pub fn most_queues(configs: &[PortConfig]) -> u32 {
    configs.iter().map(wanted_queues).max().unwrap_or(0)
}

/// Whether workers beyond the queues of ports get packets from some: from packet sockets.
pub fn spread_over_workers(configs: &[PortConfig]) -> bool {
    configs.iter().any(|config| config.kind == Sockets::Packet && config.queues.is_none())
}

/// The hook of the program that a port most likely needs: zero copy is rare where packet sockets are asked for.
fn likely_hook(kind: Sockets) -> Hook {
    match kind {
        Sockets::Xdp => Hook::Xdp,
        Sockets::Packet | Sockets::Auto => Hook::Packet,
    }
}

fn load(loader: &Loader, interface: &str, hook: Hook, flows: u32) -> Program {
    let sizes = Sizes { flows, ..Sizes::default() };
    let config = SteerConfig { hook, sizes, ..SteerConfig::default() };
    let mut steer = Steer::load(loader, interface, &config)?;
    // A kernel without ESP answers unknown SPIs with an ICMP error.
    steer.set_take_unknown_esp(true)?;
    Ok(steer)
}

/// The state of a port that was never tried.
const NOT_OPENED: &str = "not opened yet";

/// How long the first opening waits for another program to go.
const RELEASE_WAIT: Duration = Duration::from_millis(500);

/// A port as the operator sees it.
pub struct PortState<'a> {
    /// Interface.
    pub interface: &'a str,
    /// `af-xdp` or `packet`.
    pub kind: &'static str,
    /// `up`, or what is the matter.
    pub state: String,
    /// `native, copy` and the like.
    pub mode: String,
    /// Frames that the steering program left to Linux.
    pub passed: u64,
    /// The counters of each queue.
    pub stats: Vec<PortStats>,
}

impl Ports {
    /// The configured ports, none of them open yet.
    /// What the private interface gives back to them has the mark `given_back`.
    pub fn new(configs: &[PortConfig], umem: &Umem, given_back: u32) -> Ports {
        let entries = configs
            .iter()
            .enumerate()
            .map(|(i, config)| Entry {
                config: config.clone(),
                first_slot: slots::first_slot(i),
                working: None,
                program: None,
                trouble: NOT_OPENED.into(),
                is_stale: false,
                is_vlan_told: false,
                vlans: BTreeSet::new(),
            })
            .collect();
        let region = XskRegion::new(umem);
        let (steering, flows) = (Steering::default(), TakenFlows::default());
        Ports { entries, loader: None, steering, flows, region, given_back }
    }

    /// Takes in what was loaded for these ports.
    pub fn take_in(&mut self, programs: Programs) {
        // A thread that panicked has loaded nothing: that is done when a port is opened.
        let Ok((loader, programs)) = programs.0.join() else { return };
        self.loader = Some(loader);
        for (entry, program) in self.entries.iter_mut().zip(programs) {
            entry.program = Some(program);
        }
    }

    /// The most ports.
    pub const MAX: usize = slots::MAX_INTERFACES;

    /// The workers' slot for packets that leave by an interface.
    pub fn slot(&self, ifindex: u32) -> Option<usize> {
        let entry =
            self.entries.iter().find(|e| e.working.as_ref().is_some_and(|w| w.ifindex == ifindex));
        entry.map(|e| e.first_slot)
    }

    /// The ports whose programs take frames.
    pub fn working(&self) -> impl Iterator<Item = WorkingPort<'_>> {
        self.entries.iter().zip(1..).filter_map(|(entry, tag)| {
            let working = entry.working.as_ref()?;
            let attached = working.attached?;
            Some(WorkingPort {
                interface: &entry.config.interface,
                ifindex: working.ifindex,
                tag,
                takes_back: attached != Attached::Generic,
            })
        })
    }

    /// Opens the ports whose interfaces are there and up, and closes those whose interfaces went.
    /// True if anything changed; then the worker's tables have to follow, and [`Ports::attach`] is
    /// next: no frame is taken before.
    pub fn follow(&mut self, snapshot: &Snapshot, workers: &Workers) -> bool {
        let mut changed = false;
        let queues = self.queues();
        let vrfs = match self.steering.is_beside_kernel {
            true => Vrfs::of(snapshot),
            false => Vrfs::default(),
        };
        for entry in &mut self.entries {
            let link = snapshot.link_by_name(&entry.config.interface);
            let vrf = link.and_then(|l| vrfs.of_interface(l.index));
            let below = link.and_then(|l| vlans::port_below(snapshot, l)).map(|(port, _)| port);
            let is_fit = vrf.is_none() && below.is_none();
            let present = link.filter(|l| l.up && is_fit).map(|l| l.index);
            if let Some(working) = &entry.working
                && present != Some(working.ifindex)
            {
                entry.close(workers, "the interface went down, away, or into a VRF");
                changed = true;
            }
            match (present, link) {
                (Some(ifindex), _) if entry.working.is_none() => {
                    let kit = OpeningKit {
                        loader: self.loader.get_or_insert_with(Loader::new),
                        region: &self.region,
                        workers,
                        steering: &self.steering,
                        queues_in_all: queues,
                        given_back: self.given_back,
                        flows: self.flows.room,
                    };
                    changed |= entry.open(ifindex, &kit);
                    if let Some(working) = &mut entry.working {
                        self.flows.fill(&mut working.steer);
                    }
                }
                (None, None) => entry.wait("missing: no such interface; taken when it comes"),
                (None, Some(_)) if let Some(below) = below => entry.wait(&format!(
                    "a VLAN of {0}: set interface = \"{0}\", whose VLANs are all taken with it",
                    below.name
                )),
                (None, Some(_)) if let Some(vrf) = vrf => entry.wait(&format!(
                    "in the VRF {vrf}, which stays with the kernel: taken when it is in none"
                )),
                (None, Some(_)) => entry.wait("down: taken when the interface is set up"),
                (Some(_), _) => {}
            }
            entry.look_for_vlans(snapshot);
        }
        changed
    }

    /// The queues of all ports, open or not, which share the region's frames.
    fn queues(&self) -> u32 {
        let queues = self.entries.iter().map(|entry| match &entry.working {
            Some(working) => working.queues,
            None => wanted_queues(&entry.config),
        });
        queues.sum()
    }

    /// Queues of the port that has the most.
    pub fn most_queues(&self) -> u32 {
        let queues = self.entries.iter().map(|e| e.working.as_ref().map_or(0, |w| w.queues));
        queues.max().unwrap_or(0)
    }

    /// Whether a port waits for [`Ports::attach`].
    pub fn is_any_unattached(&self) -> bool {
        self.entries.iter().flat_map(|e| &e.working).any(|w| w.attached.is_none())
    }

    /// Attaches the programs of ports that were opened. A port whose program cannot be attached is
    /// closed again.
    pub fn attach(&mut self, workers: &Workers) {
        for entry in &mut self.entries {
            entry.attach(workers);
        }
    }

    /// A worker has closed the ports of an interface.
    pub fn lost(&mut self, ifindex: u32, workers: &Workers) {
        for entry in &mut self.entries {
            if entry.working.as_ref().is_some_and(|w| w.ifindex == ifindex) {
                entry.close(workers, "the interface went away");
            }
        }
    }

    /// What the steering programs take.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Packets that arrive at a port get these marks. Steering has to be set anew then.
    pub fn set_marks(&mut self, rules: &[MarkConfig]) {
        self.steering.marks = rules.iter().map(|rule| rule.mark).collect();
    }

    /// Ports take these connections. To be told before one is open.
    pub fn set_flows(&mut self, flows: TakenFlows) {
        self.flows = flows;
    }

    /// What ports take of connections, for others in their place.
    pub fn take_flows(&mut self) -> TakenFlows {
        std::mem::take(&mut self.flows)
    }

    /// Follows a direction of a connection.
    pub fn steer_flow(&mut self, step: FlowStep) {
        let working = self.entries.iter_mut().filter_map(|entry| entry.working.as_mut());
        working.for_each(|working| self.flows.follow(&mut working.steer, &step));
    }

    /// Tells the steering programs what to take.
    pub fn steer(&mut self, steering: Steering) {
        if steering == self.steering {
            return;
        }
        self.steering = steering;
        for entry in &mut self.entries {
            entry.steer(&self.steering);
        }
    }

    /// Tells the steering programs whose frames are taken beside those without tags. A port that opens later is told
    /// then.
    pub fn steer_vlans(&mut self, vlans: &Vlans) {
        for entry in &mut self.entries {
            let Some(working) = &mut entry.working else { continue };
            let ifindex = working.ifindex;
            entry.vlans =
                vlans.taken().filter(|vlan| vlan.port == ifindex).map(|vlan| vlan.tags).collect();
            if let Err(error) = working.steer.set_vlans(entry.vlans.iter().copied()) {
                entry.stale(&error.to_string());
            }
        }
    }

    /// The kernel has SAs and policies too. To be told before policies are, and before a port is open.
    pub fn set_beside_kernel(&mut self) {
        self.steering.is_beside_kernel = true;
    }

    /// Follows a policy that was added, removed or replaced.
    pub fn steer_policy(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        // Additions come before removals.
        if let Some(prefix) = new.and_then(|policy| self.steering.taken(policy)) {
            self.take_prefix(prefix);
        }
        if let Some(prefix) = old.and_then(|policy| self.steering.taken(policy)) {
            self.leave_prefix(prefix);
        }
    }

    /// One reason more to take what goes to a destination: a policy, or a route to a tunnel interface.
    pub fn take_prefix(&mut self, prefix: Prefix) {
        let users = self.steering.protected.entry(prefix).or_default();
        *users += 1;
        if *users == 1 {
            self.each_program(|steer| steer.add_protected(prefix));
        }
    }

    /// The longest prefix around an address whose packets ports take.
    pub fn taken_by(&self, addr: IpAddr) -> Option<Prefix> {
        let longest = match addr {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let prefixes = (0..=longest).rev().filter_map(|len| Prefix::new(addr, len));
        prefixes.into_iter().find(|prefix| self.steering.protected.contains_key(prefix))
    }

    /// One reason less.
    pub fn leave_prefix(&mut self, prefix: Prefix) {
        let Some(users) = self.steering.protected.get_mut(&prefix) else { return };
        *users -= 1;
        if *users == 0 {
            self.steering.protected.remove(&prefix);
            self.each_program(|steer| steer.remove_protected(prefix));
        }
    }

    /// The kernel has SAs: from now on only ESP of culvert's own is taken.
    pub fn leave_unknown_esp(&mut self, own: impl IntoIterator<Item = (IpAddr, u32)>) {
        let mut sas = HashMap::new();
        for sa in own {
            *sas.entry(sa).or_default() += 1;
        }
        let esp = TakenEsp::Own(sas);
        self.steer(Steering { esp, ..self.steering.clone() });
    }

    /// Takes fragments of UDP to this host, or leaves them to Linux.
    pub fn steer_udp_fragments(&mut self, are_taken: bool) {
        if self.steering.udp_fragments != are_taken {
            self.steering.udp_fragments = are_taken;
            self.each_program(|steer| steer.set_take_udp_fragments(are_taken));
        }
    }

    /// Follows an SA of culvert's that was added or removed.
    pub fn steer_sa(&mut self, SaStep { dst, spi, is_added }: SaStep) {
        let TakenEsp::Own(sas) = &mut self.steering.esp else { return };
        let users = sas.entry((dst, spi)).or_default();
        *users = if is_added { *users + 1 } else { users.saturating_sub(1) };
        match (*users, is_added) {
            (1, true) => self.each_program(|steer| steer.add_sa(dst, spi)),
            (0, _) => {
                sas.remove(&(dst, spi));
                self.each_program(|steer| steer.remove_sa(dst, spi));
            }
            _ => {}
        }
    }

    /// Tells the watchdog, if there is one, that the control thread works. To be called in each round.
    pub fn beat(&mut self) {
        if !self.steering.is_beside_kernel {
            return;
        }
        let (now, now_ns) = (Instant::now(), now_ns());
        for entry in &mut self.entries {
            if let Some(working) = &mut entry.working
                && let Some(until_ns) = working.heartbeat.due(now, now_ns)
                && let Err(error) = working.steer.beat(until_ns)
            {
                entry.stale(&error.to_string());
            }
        }
    }

    /// Leaves the next packet of an SA to Linux, which sees by it that the SA is in use. Each port has tables
    /// of its own, and the SA's packets may come by any: one packet passes at each port where one comes, so
    /// at one port as a rule, and at another, if the way changes, one more that was asked for earlier.
    /// Does nothing at a port that does not have the SA.
    pub fn sample_sa(&mut self, dst: IpAddr, spi: u32) {
        self.each_program(|steer| steer.sample_sa(dst, spi).map(drop));
    }

    fn each_program(&mut self, mut change: impl FnMut(&mut Steer) -> Result<(), SteerError>) {
        for entry in &mut self.entries {
            if let Some(working) = &mut entry.working
                && let Err(error) = change(&mut working.steer)
            {
                entry.stale(&error.to_string());
            }
        }
    }

    /// Tries again what failed: ports that did not open, programs that are not up to date. True if
    /// a port opened.
    pub fn retry(&mut self, snapshot: &Snapshot, workers: &Workers) -> bool {
        for entry in self.entries.iter_mut().filter(|e| e.is_stale) {
            entry.steer(&self.steering);
        }
        self.entries.iter().any(|e| e.working.is_none()) && self.follow(snapshot, workers)
    }

    /// Every port's interface, and why it does not work, if so.
    pub fn troubles(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.entries.iter().map(|entry| {
            let why = entry.working.is_none().then_some(entry.trouble.as_str());
            (entry.config.interface.as_str(), why)
        })
    }

    /// Every port as the operator sees it.
    pub fn states(&self) -> impl Iterator<Item = PortState<'_>> {
        self.entries.iter().map(|entry| {
            let interface = entry.config.interface.as_str();
            match &entry.working {
                Some(working) => PortState {
                    interface,
                    kind: working.transfer.kind(),
                    state: match entry.is_stale {
                        true => entry.trouble.clone(),
                        false => "up".into(),
                    },
                    mode: match working.attached {
                        Some(attached) => {
                            format!("{attached}, {}", working.transfer.name())
                        }
                        None => "-".into(),
                    },
                    passed: working.steer.stats().map_or(0, |stats| stats.passed()),
                    stats: working.counters.iter().map(|counters| counters.read()).collect(),
                },
                None => PortState {
                    interface,
                    kind: match entry.config.kind {
                        Sockets::Xdp => "af-xdp",
                        Sockets::Packet => "packet",
                        Sockets::Auto => "auto",
                    },
                    state: entry.trouble.clone(),
                    mode: "-".into(),
                    passed: 0,
                    stats: Vec::new(),
                },
            }
        })
    }

    /// Detaches every program: frames pass to Linux. The workers, if there are any, keep the sockets.
    pub fn detach(&mut self) {
        for entry in &mut self.entries {
            entry.working = None;
        }
    }

    /// Closes every port: the programs are detached, frames pass to Linux.
    pub fn close(&mut self, workers: &Workers) {
        for entry in &mut self.entries {
            entry.close(workers, "closed");
        }
    }
}

/// What a port is opened with.
struct OpeningKit<'a> {
    loader: &'a Loader,
    region: &'a XskRegion,
    workers: &'a Workers,
    steering: &'a Steering,
    queues_in_all: u32,
    given_back: u32,
    /// Directions of known flows.
    flows: u32,
}

impl Entry {
    /// Updates the program's tables.
    fn steer(&mut self, steering: &Steering) {
        let Some(working) = &mut self.working else { return };
        let vlans = working.steer.set_vlans(self.vlans.iter().copied());
        let result = steering.apply(&mut working.steer);
        match result.and(vlans.map_err(|error| error.to_string())) {
            Ok(()) => (self.is_stale, self.trouble) = (false, String::new()),
            Err(error) => self.stale(&error),
        }
    }

    /// Logs once that the tables are out of date; the port's state shows it until they are not.
    fn stale(&mut self, error: &str) {
        let trouble = format!("up, but it does not take all that it should: {error}");
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
        self.is_stale = true;
    }

    /// Logs once that the interface is not there or not up.
    fn wait(&mut self, why: &str) {
        if self.trouble != why {
            warn!(port = self.config.interface, "{why}");
            self.trouble = why.into();
        }
    }

    /// Warns once that VLAN tags are lost, where there is a VLAN.
    fn look_for_vlans(&mut self, snapshot: &Snapshot) {
        let Some(working) = &self.working else { return };
        let Some(trouble) = &working.vlan_trouble else { return };
        let is_below = |link: &Link| link.vlan.is_some() && link.lower == Some(working.ifindex);
        if !self.is_vlan_told && snapshot.links().any(is_below) {
            warn!(port = self.config.interface, "{trouble}");
            self.is_vlan_told = true;
        }
    }

    /// Opens a port. A failure is logged once; the next attempt is due when the interface changes.
    fn open(&mut self, ifindex: u32, kit: &OpeningKit<'_>) -> bool {
        match self.try_open(ifindex, kit) {
            Ok(working) => {
                self.working = Some(working);
                true
            }
            Err(trouble) => {
                self.fail(trouble);
                false
            }
        }
    }

    /// The last step of opening a port; one that fails closes it again.
    fn attach(&mut self, workers: &Workers) {
        let Some(working) = self.working.as_mut().filter(|w| w.attached.is_none()) else {
            return;
        };
        let mode = match self.config.mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        };
        // At the start, the program of a daemon that is just ending may still be attached.
        let patience = if self.trouble == NOT_OPENED { RELEASE_WAIT } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        let result = loop {
            match working.steer.attach(mode) {
                Err(SteerError::Foreign { .. }) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                result => break result,
            }
        };
        let attached = match result {
            Ok(attached) => attached,
            Err(error) => {
                let ifindex = working.ifindex;
                self.working = None;
                workers.remove_ports(ifindex);
                self.fail(error.to_string());
                return;
            }
        };
        working.attached = Some(attached);
        info!(
            port = self.config.interface,
            mode = %attached,
            transfer = working.transfer.name(),
            queues = working.queues,
            "port open"
        );
        if attached == Attached::Generic && self.config.mode == XdpMode::Auto {
            warn!(
                port = self.config.interface,
                "the driver has no native XDP: generic mode works, but slowly"
            );
        }
        if !self.is_stale {
            self.trouble.clear();
        }
    }

    /// Logs a failure once; the port's state shows it until it works.
    fn fail(&mut self, trouble: String) {
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
    }

    fn try_open(&mut self, ifindex: u32, kit: &OpeningKit<'_>) -> Result<Working, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let OpeningKit { region, workers, steering, .. } = *kit;
        let device = Device::look(&self.config.interface).map_err(|e| text(&e))?;
        for finding in device.findings(region.umem().chunk_len(), false) {
            if let Finding::MtuTooLargeForChunk { .. } = finding {
                return Err(format!("{finding}; or set worker.frame_bytes = 4096"));
            }
        }
        let zero_copy = match self.config.kind {
            Sockets::Auto => self.try_zero_copy(ifindex, kit)?,
            _ => None,
        };
        let hook = match (self.config.kind, &zero_copy) {
            (Sockets::Xdp, _) | (_, Some(_)) => Hook::Xdp,
            _ => Hook::Packet,
        };
        let interface = self.config.interface.as_str();
        let program = self.program.take().filter(|p| p.as_ref().is_ok_and(|p| p.hook() == hook));
        let program = program.unwrap_or_else(|| load(kit.loader, interface, hook, kit.flows));
        let mut steer = program.map_err(|e| text(&e))?;
        steering.apply(&mut steer)?;
        steer.set_given_back(kit.given_back).map_err(|e| text(&e))?;
        self.is_stale = false;
        if hook == Hook::Packet {
            return self.open_packet(ifindex, steer, workers);
        }
        let mut vlan_trouble = None;
        for finding in device.findings(region.umem().chunk_len(), false) {
            match finding {
                Finding::VlanOffload { .. } => vlan_trouble = Some(finding),
                Finding::MtuTooLargeForNative { .. } => {
                    warn!(port = self.config.interface, "{finding}");
                }
                Finding::MtuTooLargeForChunk { .. } => {}
            }
        }
        let queues = self.config.queues.unwrap_or(device.rx_queues).min(device.rx_queues);
        let most = workers.count() * slots::QUEUES_PER_WORKER;
        if queues as usize > most {
            return Err(format!(
                "{0} has {queues} queues, and {1} workers take at most {most}: set port.queues, or more \
                 workers (worker.cpus), or `ethtool -L {0} combined {most}`",
                self.config.interface,
                workers.count()
            ));
        }
        let rings = kit.rings()?;
        let mut sockets: Vec<_> = zero_copy.into_iter().collect();
        for queue in sockets.len() as u32..queues {
            sockets.push(XskQueue::new(region, ifindex, queue, &rings).map_err(|e| text(&e))?);
        }
        let mut transfer = XskTransfer::Copy;
        let counters = sockets.iter().map(|(socket, _)| socket.counters()).collect();
        for (queue, (socket, got)) in (0..).zip(sockets) {
            transfer = got;
            // The map holds the socket by itself; ours goes to the worker.
            let fd = socket.socket().try_clone_to_owned().map_err(|e| {
                workers.remove_ports(ifindex);
                text(&e)
            })?;
            let port: Box<dyn Port> = Box::new(socket);
            // The worker fills the ring before the first frame is steered to it.
            workers.add_port(self.first_slot, queue, ifindex, port);
            steer.set_socket(queue, fd.as_fd()).map_err(|e| {
                workers.remove_ports(ifindex);
                text(&e)
            })?;
        }
        Ok(Working {
            ifindex,
            steer,
            attached: None,
            heartbeat: Heartbeat::default(),
            transfer: Transfer::Xdp(transfer),
            queues,
            counters,
            vlan_trouble,
        })
    }

    /// Binds the first queue with zero copy. `None` if the driver has none; that is logged.
    fn try_zero_copy(
        &self,
        ifindex: u32,
        kit: &OpeningKit<'_>,
    ) -> Result<Option<(XskQueue, XskTransfer)>, String> {
        let rings = XskConfig { mode: XskMode::ZeroCopy, ..kit.rings()? };
        match XskQueue::new(kit.region, ifindex, 0, &rings) {
            Ok(bound) => Ok(Some(bound)),
            Err(error) => {
                let reason = error.source;
                info!(
                    port = self.config.interface,
                    "kind = \"auto\": packet sockets, as the driver has no zero copy ({reason})"
                );
                Ok(None)
            }
        }
    }

    /// Opens packet sockets, one for each worker unless told otherwise.
    fn open_packet(
        &self,
        ifindex: u32,
        mut steer: Steer,
        workers: &Workers,
    ) -> Result<Working, String> {
        let most = workers.count() * slots::QUEUES_PER_WORKER;
        let queues = self.config.queues.map_or(workers.count(), |queues| queues as usize).min(most);
        let filter = steer.filter().map_err(|e| e.to_string())?;
        let config = PacketConfig { interface: &self.config.interface, ifindex, filter };
        let sockets = PacketSocket::open_several(&config, queues).map_err(|e| e.to_string())?;
        let counters = sockets.iter().map(Port::counters).collect();
        for (queue, socket) in (0..).zip(sockets) {
            workers.add_port(self.first_slot, queue, ifindex, Box::new(socket));
        }
        Ok(Working {
            ifindex,
            steer,
            attached: None,
            heartbeat: Heartbeat::default(),
            transfer: Transfer::Packet,
            queues: queues as u32,
            counters,
            vlan_trouble: None,
        })
    }

    fn close(&mut self, workers: &Workers, why: &str) {
        if let Some(working) = self.working.take() {
            // The program first: from then on frames pass to Linux, and meet the guard.
            drop(working.steer);
            // So that the same queues can be opened again.
            workers.remove_ports(working.ifindex);
            info!(port = self.config.interface, why, "port closed");
            self.trouble = why.into();
        }
    }
}

impl OpeningKit<'_> {
    /// The rings of each queue.
    fn rings(&self) -> Result<XskConfig, String> {
        RINGS
            .share(self.region.umem().chunks() as u32, self.queues_in_all)
            .map_err(|error| format!("worker.frames: {error}"))
    }
}
