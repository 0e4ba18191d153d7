//! The interfaces that culvert takes over: they come, go, and come back.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::AsFd;

use dataplane::{Command, MAX_PORTS};
use io::{Port, Umem, XskConfig, XskQueue, XskTransfer};
use mirror::Snapshot;
use policy::{Action, PolicyConfig};
use steer::device::Device;
use steer::{Attached, Mode, Prefix, Steer, SteerConfig, SteerError};
use tracing::{info, warn};

use super::way_back::WorkingPort;
use super::worker::WorkerHandle;
use crate::config::{PortConfig, XdpMode};

/// Ring sizes of one queue, in frames.
///
/// A worker that shares its core is away for some milliseconds at a time, and TCP sends what its
/// window allows: with 1024 frames to receive into, iperf3 lost a packet in 250, with 2048 none.
const RINGS: XskConfig = XskConfig { fill: 2048, rx: 2048, tx: 1024, mode: io::XskMode::Auto };

/// Frames that one queue needs: what it receives into. What is sent comes from there as well.
pub const FRAMES_PER_QUEUE: u32 = RINGS.fill;

/// Frames that one queue may hold at a time.
pub const FRAMES_PER_FULL_QUEUE: u32 = RINGS.fill + RINGS.tx;

/// What the steering programs take from their interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Addresses of this host.
    pub local: HashSet<IpAddr>,
    /// Destinations that policies protect or block, and how many do.
    pub protected: HashMap<Prefix, usize>,
}

impl Steering {
    /// For these addresses of this host and these policies.
    pub fn new<'a>(
        local: HashSet<IpAddr>,
        policies: impl IntoIterator<Item = &'a PolicyConfig>,
    ) -> Steering {
        let mut protected = HashMap::new();
        for prefix in policies.into_iter().filter_map(taken) {
            *protected.entry(prefix).or_default() += 1;
        }
        Steering { local, protected }
    }
}

/// The destination that a policy wants taken.
fn taken(policy: &PolicyConfig) -> Option<Prefix> {
    let dst = policy.selector.dst;
    let is_taken = policy.action == Action::Block || !policy.templates.is_empty();
    is_taken.then(|| Prefix::new(dst.addr, dst.len)).flatten()
}

/// A port that works.
struct Working {
    ifindex: u32,
    steer: Steer,
    attached: Attached,
    transfer: XskTransfer,
    queues: u32,
}

/// One configured port.
struct Entry {
    config: PortConfig,
    /// The worker's places that are kept for its queues.
    first_slot: usize,
    working: Option<Working>,
    /// Why it does not work.
    trouble: String,
    /// Its program did not take everything that it should.
    is_stale: bool,
}

/// All configured ports.
pub struct Ports {
    entries: Vec<Entry>,
    steering: Steering,
    chunk_len: usize,
}

/// Queues of one port that culvert can take.
pub const MAX_QUEUES: usize = 16;

/// A port as the operator sees it.
pub struct PortState<'a> {
    /// Interface.
    pub interface: &'a str,
    /// Its index, while it works.
    pub ifindex: Option<u32>,
    /// `up`, or what is the matter.
    pub state: String,
    /// `native, copy` and the like.
    pub mode: String,
    /// Queues taken.
    pub queues: u32,
    /// Frames that the steering program left to Linux.
    pub passed: u64,
}

impl Ports {
    /// The configured ports, none of them open yet. Places in the worker begin at 1: 0 is the
    /// private interface's.
    pub fn new(configs: &[PortConfig], chunk_len: usize) -> Ports {
        let entries = configs
            .iter()
            .enumerate()
            .map(|(i, config)| Entry {
                config: config.clone(),
                first_slot: 1 + i * MAX_QUEUES,
                working: None,
                trouble: "not opened yet".into(),
                is_stale: false,
            })
            .collect();
        Ports { entries, steering: Steering::default(), chunk_len }
    }

    /// The most ports that fit into a worker.
    pub const MAX: usize = (MAX_PORTS - 1) / MAX_QUEUES;

    /// The worker's place for packets that leave by an interface.
    pub fn slot(&self, ifindex: u32) -> Option<usize> {
        let entry =
            self.entries.iter().find(|e| e.working.as_ref().is_some_and(|w| w.ifindex == ifindex));
        entry.map(|e| e.first_slot)
    }

    /// The ports that work.
    pub fn working(&self) -> impl Iterator<Item = WorkingPort<'_>> {
        self.entries.iter().zip(1..).filter_map(|(entry, tag)| {
            let working = entry.working.as_ref()?;
            Some(WorkingPort {
                interface: &entry.config.interface,
                ifindex: working.ifindex,
                tag,
                is_native: working.attached == Attached::Native,
            })
        })
    }

    /// Opens the ports whose interfaces are there and up, and closes those whose interfaces went.
    /// True if anything changed.
    pub fn follow(&mut self, snapshot: &Snapshot, umem: &Umem, worker: &WorkerHandle) -> bool {
        let mut changed = false;
        for entry in &mut self.entries {
            let link = snapshot.link_by_name(&entry.config.interface);
            let present = link.filter(|l| l.up).map(|l| l.index);
            if let Some(working) = &entry.working
                && present != Some(working.ifindex)
            {
                entry.close(worker, "the interface went down or away");
                changed = true;
            }
            match (present, link) {
                (Some(ifindex), _) if entry.working.is_none() => {
                    changed |= entry.open(ifindex, umem, worker, &self.steering, self.chunk_len);
                }
                (None, None) => entry.wait("missing: no such interface; taken when it comes"),
                (None, Some(_)) => entry.wait("down: taken when the interface is set up"),
                (Some(_), _) => {}
            }
        }
        changed
    }

    /// A worker has closed the ports of an interface.
    pub fn lost(&mut self, ifindex: u32, worker: &WorkerHandle) {
        for entry in &mut self.entries {
            if entry.working.as_ref().is_some_and(|w| w.ifindex == ifindex) {
                entry.close(worker, "the interface went away");
            }
        }
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

    /// A policy came, went, or took another's place.
    pub fn steer_policy(&mut self, old: Option<&PolicyConfig>, new: Option<&PolicyConfig>) {
        // What comes is taken before what goes is let go.
        if let Some(prefix) = new.and_then(taken) {
            let users = self.steering.protected.entry(prefix).or_default();
            *users += 1;
            if *users == 1 {
                self.each_program(|steer| steer.add_protected(prefix));
            }
        }
        if let Some(prefix) = old.and_then(taken)
            && let Some(users) = self.steering.protected.get_mut(&prefix)
        {
            *users -= 1;
            if *users == 0 {
                self.steering.protected.remove(&prefix);
                self.each_program(|steer| steer.remove_protected(prefix));
            }
        }
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
    pub fn retry(&mut self, snapshot: &Snapshot, umem: &Umem, worker: &WorkerHandle) -> bool {
        for entry in self.entries.iter_mut().filter(|e| e.is_stale) {
            entry.steer(&self.steering);
        }
        self.entries.iter().any(|e| e.working.is_none()) && self.follow(snapshot, umem, worker)
    }

    /// Every port as the operator sees it.
    pub fn states(&self) -> impl Iterator<Item = PortState<'_>> {
        self.entries.iter().map(|entry| {
            let interface = entry.config.interface.as_str();
            match &entry.working {
                Some(working) => PortState {
                    interface,
                    ifindex: Some(working.ifindex),
                    state: match entry.is_stale {
                        true => entry.trouble.clone(),
                        false => "up".into(),
                    },
                    mode: format!("{}, {}", working.attached, transfer_name(working.transfer)),
                    queues: working.queues,
                    passed: working.steer.stats().map_or(0, |stats| stats.passed()),
                },
                None => PortState {
                    interface,
                    ifindex: None,
                    state: entry.trouble.clone(),
                    mode: "-".into(),
                    queues: 0,
                    passed: 0,
                },
            }
        })
    }

    /// Closes every port: the programs are detached, frames pass to Linux.
    pub fn close(&mut self, worker: &WorkerHandle) {
        for entry in &mut self.entries {
            entry.close(worker, "closed");
        }
    }
}

impl Entry {
    /// Makes the program take what it should.
    fn steer(&mut self, steering: &Steering) {
        let Some(working) = &mut self.working else { return };
        match apply(&mut working.steer, steering) {
            Ok(()) => (self.is_stale, self.trouble) = (false, String::new()),
            Err(error) => self.stale(&error),
        }
    }

    /// Said once, and in the port's state until it is made good.
    fn stale(&mut self, error: &str) {
        let trouble = format!("up, but it does not take all that it should: {error}");
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
        self.is_stale = true;
    }

    /// The interface is not there or not up: said once.
    fn wait(&mut self, why: &str) {
        if self.trouble != why {
            warn!(port = self.config.interface, "{why}");
            self.trouble = why.into();
        }
    }

    /// Opens a port; what fails is told once and tried again when the interface changes.
    fn open(
        &mut self,
        ifindex: u32,
        umem: &Umem,
        worker: &WorkerHandle,
        steering: &Steering,
        chunk_len: usize,
    ) -> bool {
        match self.try_open(ifindex, umem, worker, steering, chunk_len) {
            Ok(working) => {
                info!(
                    port = self.config.interface,
                    mode = %working.attached,
                    transfer = transfer_name(working.transfer),
                    queues = working.queues,
                    "port open"
                );
                if working.attached == Attached::Generic && self.config.mode == XdpMode::Auto {
                    warn!(
                        port = self.config.interface,
                        "the driver has no native XDP: generic mode works, but slowly"
                    );
                }
                self.working = Some(working);
                self.is_stale = false;
                self.trouble.clear();
                true
            }
            Err(trouble) => {
                if self.trouble != trouble {
                    warn!(port = self.config.interface, "{trouble}");
                    self.trouble = trouble;
                }
                false
            }
        }
    }

    fn try_open(
        &self,
        ifindex: u32,
        umem: &Umem,
        worker: &WorkerHandle,
        steering: &Steering,
        chunk_len: usize,
    ) -> Result<Working, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let device = Device::look(&self.config.interface).map_err(|e| text(&e))?;
        for finding in device.findings(chunk_len, false) {
            match finding {
                steer::device::Finding::MtuTooLargeForChunk { .. } => {
                    return Err(format!("{finding}; or set worker.frame_bytes = 4096"));
                }
                _ => warn!(port = self.config.interface, "{finding}"),
            }
        }
        let mode = match self.config.mode {
            XdpMode::Auto => Mode::Auto,
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
        };
        let config = SteerConfig { mode, ..SteerConfig::default() };
        let (mut steer, attached) =
            Steer::load_and_attach(&self.config.interface, &config).map_err(|e| text(&e))?;
        // The kernel has no ESP: what we do not know it would answer with an ICMP error.
        steer.set_take_unknown_esp(true).map_err(|e| text(&e))?;
        apply(&mut steer, steering)?;
        let queues = self.config.queues.unwrap_or(device.rx_queues).min(device.rx_queues);
        if queues as usize > MAX_QUEUES {
            return Err(format!(
                "{} has {queues} queues, culvert takes at most {MAX_QUEUES}: set port.queues, or \
                 `ethtool -L {} combined {MAX_QUEUES}`",
                self.config.interface, self.config.interface
            ));
        }
        let mut sockets = Vec::new();
        for queue in 0..queues {
            sockets.push(XskQueue::new(umem, ifindex, queue, &RINGS).map_err(|e| text(&e))?);
        }
        let mut transfer = XskTransfer::Copy;
        for (queue, (socket, got)) in (0..).zip(sockets) {
            transfer = got;
            // The map holds the socket by itself; ours goes to the worker.
            let fd = socket.socket().try_clone_to_owned().map_err(|e| {
                worker.send(Command::RemovePorts { ifindex });
                text(&e)
            })?;
            let port: Box<dyn Port> = Box::new(socket);
            let slot = self.first_slot + queue as usize;
            // The worker fills the ring before the first frame is steered to it.
            worker.send_and_wait(|done| Command::AddPort {
                slot,
                ifindex,
                port,
                is_linux: false,
                done,
            });
            steer.set_socket(queue, fd.as_fd()).map_err(|e| {
                worker.send(Command::RemovePorts { ifindex });
                text(&e)
            })?;
        }
        Ok(Working { ifindex, steer, attached, transfer, queues })
    }

    fn close(&mut self, worker: &WorkerHandle, why: &str) {
        if let Some(working) = self.working.take() {
            // The program first: from then on frames pass to Linux, where the guard stands.
            drop(working.steer);
            worker.send(Command::RemovePorts { ifindex: working.ifindex });
            // Whoever opens the same queues next finds them free.
            worker.wait_for_commands();
            info!(port = self.config.interface, why, "port closed");
            self.trouble = why.into();
        }
    }
}

fn apply(steer: &mut Steer, steering: &Steering) -> Result<(), String> {
    // Both, whatever becomes of the first.
    let protected = steer.set_protected(steering.protected.keys().copied());
    let local = steer.set_local(steering.local.iter().copied());
    protected.and(local).map_err(|e| e.to_string())
}

fn transfer_name(transfer: XskTransfer) -> &'static str {
    match transfer {
        XskTransfer::Copy => "copy",
        XskTransfer::ZeroCopy => "zero-copy",
    }
}
