//! One port: how it is opened, attached and closed.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use config::{PortConfig, Sockets, XdpMode};
use io::{
    PacketConfig, PacketSocket, Port, PortCounters, PortStats, XskConfig, XskMode, XskQueue,
    XskRegion, XskTransfer,
};
use mirror::{Link, Snapshot};
use steer::device::{Device, Finding};
use steer::{Attached, Hook, Loader, Mode, Steer, SteerError, StrippedTags};
use tracing::{info, warn};
use wire::VlanTags;

use super::choice::{NoPacketPort, Reason, choose};
use super::programs::{Program, load};
use crate::heartbeat::Heartbeat;
use crate::slots;
use crate::steering::Steering;
use crate::workers::Workers;

/// Ring sizes of one queue, in frames.
///
/// A worker that shares its core is away for some milliseconds at a time, and TCP sends what its
/// window allows: with 1024 frames to receive into, iperf3 lost a packet in 250, with 2048 none.
pub(super) const RINGS: XskConfig =
    XskConfig { fill: 2048, ready: 2048, rx: 2048, tx: 1024, mode: io::XskMode::Auto };

/// The longest MTU of a port, with buffers of 4096 bytes.
const LONGEST_MTU: u32 = 3818;

/// The state of a port that was never tried.
const NOT_OPENED: &str = "not opened yet";

/// The state of a port whose interface is down.
pub(super) const DOWN: &str = "down: taken when the interface is set up";

/// How long the first opening waits for another program to go.
const RELEASE_WAIT: Duration = Duration::from_millis(500);

/// An open port, whose sockets the workers have.
pub(super) struct Working {
    pub(super) ifindex: u32,
    pub(super) steer: Steer,
    /// `None` until its program is attached: its frames pass to Linux.
    pub(super) attached: Option<Attached>,
    pub(super) heartbeat: Heartbeat,
    pub(super) transfer: Transfer,
    pub(super) queues: u32,
    /// One for each queue.
    pub(super) counters: Vec<Arc<PortCounters>>,
    /// A finding that matters only where VLANs are used.
    pub(super) vlan_trouble: Option<Finding>,
    /// Why it is of its kind, where the configuration leaves that open.
    pub(super) chosen: Option<String>,
    /// The interface is down: sockets and program stay, and carry again when it is up.
    pub(super) is_down: bool,
}

impl Working {
    /// True if its sockets outlast their interface being down. Packet sockets get an error, which
    /// ends them.
    pub(super) fn outlasts_down(&self) -> bool {
        matches!(self.transfer, Transfer::Xdp(_))
    }
}

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Xdp(XskTransfer),
    /// By packet sockets, as super-packets.
    Packet,
}

impl Transfer {
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Transfer::Xdp(_) => "af-xdp",
            Transfer::Packet => "packet",
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Transfer::Xdp(XskTransfer::Copy) => "copy",
            Transfer::Xdp(XskTransfer::ZeroCopy) => "zero-copy",
            Transfer::Packet => "super-packets",
        }
    }
}

/// One configured port.
pub(super) struct Entry {
    pub(super) config: PortConfig,
    /// Its slot at the workers.
    pub(super) slot: usize,
    pub(super) working: Option<Working>,
    /// For its next opening.
    pub(super) program: Option<Program>,
    /// Why it does not work.
    pub(super) trouble: String,
    /// The last attempt to open it failed.
    pub(super) has_failed: bool,
    /// Counts until it was closed last, by queue, and packets that its programs had left to Linux
    /// until then.
    before: (Vec<PortStats>, u64),
    /// True if its program's tables are out of date: an update failed.
    pub(super) is_stale: bool,
    /// Lost VLAN tags were warned of.
    pub(super) is_vlan_told: bool,
    /// The tags of its VLANs that are taken.
    pub(super) vlans: BTreeSet<VlanTags>,
}

/// Parts for opening a port.
pub(super) struct OpeningKit<'a> {
    pub(super) loader: &'a Loader,
    pub(super) region: &'a XskRegion,
    pub(super) workers: &'a Workers,
    pub(super) steering: &'a Steering,
    pub(super) queues_in_all: u32,
    pub(super) given_back: u32,
    /// Directions of known flows.
    pub(super) flows: u32,
}

impl Entry {
    /// The configured port number `place`, which is not open yet.
    pub(super) fn new(config: &PortConfig, place: usize) -> Entry {
        Entry {
            config: config.clone(),
            slot: slots::of_port(place),
            working: None,
            program: None,
            trouble: NOT_OPENED.into(),
            has_failed: false,
            before: (Vec::new(), 0),
            is_stale: false,
            is_vlan_told: false,
            vlans: BTreeSet::new(),
        }
    }

    /// Counters of each queue, and frames that were left to Linux, of all its openings.
    pub(super) fn counted(&self) -> (Vec<PortStats>, u64) {
        let (mut queues, mut passed) = self.before.clone();
        if let Some(working) = &self.working {
            add(&mut queues, working.counters.iter().map(|counters| counters.read()));
            passed += working.steer.stats().map_or(0, |stats| stats.passed());
        }
        (queues, passed)
    }

    /// Updates the program's tables.
    pub(super) fn steer(&mut self, steering: &Steering) {
        let Some(working) = &mut self.working else { return };
        let vlans = working.steer.set_vlans(self.vlans.iter().copied());
        let result = steering.apply(&mut working.steer);
        match result.and(vlans.map_err(|error| error.to_string())) {
            Ok(()) => (self.is_stale, self.trouble) = (false, String::new()),
            Err(error) => self.stale(&error),
        }
    }

    /// Logs once that the tables are out of date; the port's state shows it until they are not.
    pub(super) fn stale(&mut self, error: &str) {
        let trouble = format!("up, but it does not take all that it should: {error}");
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
        self.is_stale = true;
    }

    /// Follows the interface of an open port, which goes down and up. True if that is news.
    pub(super) fn follow_link(&mut self, is_up: bool) -> bool {
        let Some(working) = &mut self.working else { return false };
        if working.is_down != is_up {
            return false;
        }
        working.is_down = !is_up;
        match is_up {
            true => {
                info!(port = self.config.interface, "the interface is up again");
                if !self.is_stale {
                    self.trouble.clear();
                }
            }
            false => info!(port = self.config.interface, "{DOWN}"),
        }
        true
    }

    /// Logs once that the interface is not there or not up.
    pub(super) fn wait(&mut self, why: &str) {
        self.has_failed = false;
        if self.trouble != why {
            warn!(port = self.config.interface, "{why}");
            self.trouble = why.into();
        }
    }

    /// Warns once that VLAN tags are lost, where there is a VLAN.
    pub(super) fn look_for_vlans(&mut self, snapshot: &Snapshot) {
        let Some(working) = &self.working else { return };
        let Some(trouble) = &working.vlan_trouble else { return };
        let StrippedTags::Lost(why) = working.steer.stripped_tags() else { return };
        let is_below = |link: &Link| link.vlan.is_some() && link.lower == Some(working.ifindex);
        if !self.is_vlan_told && snapshot.links().any(is_below) {
            warn!(port = self.config.interface, why, "{trouble}");
            self.is_vlan_told = true;
        }
    }

    /// Opens a port. A failure is logged once; the next attempt is due when the interface changes.
    pub(super) fn open(&mut self, ifindex: u32, kit: &OpeningKit<'_>) -> bool {
        match self.try_open(ifindex, kit) {
            Ok(working) => {
                self.working = Some(working);
                self.has_failed = false;
                true
            }
            Err(trouble) => {
                self.fail(trouble);
                false
            }
        }
    }

    /// The last step of opening a port; one that fails closes it again.
    pub(super) fn attach(&mut self, workers: &Workers) {
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
        let puts_tags_back = *working.steer.stripped_tags() == StrippedTags::PutBack;
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
        if let (true, StrippedTags::Lost(why)) = (puts_tags_back, working.steer.stripped_tags()) {
            warn!(port = self.config.interface, why, "VLAN tags that lie beside frames are lost");
        }
        info!(
            port = self.config.interface,
            kind = working.transfer.kind(),
            mode = %attached,
            transfer = working.transfer.name(),
            queues = working.queues,
            why = working.chosen,
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
        self.has_failed = true;
        if self.trouble != trouble {
            warn!(port = self.config.interface, "{trouble}");
            self.trouble = trouble;
        }
    }

    fn try_open(&mut self, ifindex: u32, kit: &OpeningKit<'_>) -> Result<Working, String> {
        let device = Device::look(&self.config.interface).map_err(|e| e.to_string())?;
        for finding in device.findings(kit.region.umem().chunk_len(), false) {
            if let Finding::MtuTooLargeForChunk { mtu, .. } = finding {
                let is_enough = kit.region.umem().chunk_len() < 4096 && mtu <= LONGEST_MTU;
                let larger =
                    if is_enough { ", or set worker.frame_bytes = 4096 and restart" } else { "" };
                return Err(format!("{finding}{larger}"));
            }
        }
        self.is_stale = false;
        match self.config.kind {
            Sockets::Auto => self.open_best(ifindex, &device, kit),
            Sockets::Xdp => self.open_xdp(ifindex, &device, kit, None),
            Sockets::Packet => self.open_packet(ifindex, kit).map_err(|e| e.to_string()),
        }
    }

    /// Opens what is best, by what the driver and the kernel answer.
    fn open_best(
        &mut self,
        ifindex: u32,
        device: &Device,
        kit: &OpeningKit<'_>,
    ) -> Result<Working, String> {
        let zero_copy = XskConfig { mode: XskMode::ZeroCopy, ..kit.rings()? };
        let bound = XskQueue::new(kit.region, ifindex, 0, &zero_copy);
        let (mut reason, first) =
            choose(bound, kit.steering.is_beside_kernel).map_err(|e| e.to_string())?;
        let working = match reason.hook() {
            Hook::Xdp => self.open_xdp(ifindex, device, kit, first),
            Hook::Packet => match self.open_packet(ifindex, kit) {
                Err(NoPacketPort::Lacks(lack)) => {
                    reason = Reason::NoPacketSockets(lack);
                    self.open_xdp(ifindex, device, kit, None)
                }
                result => result.map_err(|e| e.to_string()),
            },
        };
        working.map(|working| Working { chosen: Some(reason.to_string()), ..working })
    }

    /// The port's program, with its tables, not attached yet.
    fn program(
        &mut self,
        ifindex: u32,
        hook: Hook,
        kit: &OpeningKit<'_>,
    ) -> Result<Steer, NoPacketPort> {
        let loaded = self.program.take();
        let fits = |p: &Program| p.as_ref().is_ok_and(|p| p.hook() == hook && p.is_for(ifindex));
        let interface = self.config.interface.as_str();
        let program = loaded.filter(fits);
        let mut steer = program.unwrap_or_else(|| load(kit.loader, interface, hook, kit.flows))?;
        kit.steering.apply(&mut steer).map_err(NoPacketPort::Fails)?;
        steer.set_given_back(kit.given_back)?;
        Ok(steer)
    }

    /// Opens AF_XDP, with the first queue where it is bound already.
    fn open_xdp(
        &mut self,
        ifindex: u32,
        device: &Device,
        kit: &OpeningKit<'_>,
        first: Option<(XskQueue, XskTransfer)>,
    ) -> Result<Working, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let OpeningKit { region, workers, .. } = *kit;
        let rings = kit.rings()?;
        let mut steer = self.program(ifindex, Hook::Xdp, kit).map_err(|e| text(&e))?;
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
        let mut sockets: Vec<_> = first.into_iter().collect();
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
            workers.add_port(self.slot, queue, ifindex, port);
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
            chosen: None,
            is_down: false,
        })
    }

    /// Opens packet sockets, one for each worker unless told otherwise.
    fn open_packet(&mut self, ifindex: u32, kit: &OpeningKit<'_>) -> Result<Working, NoPacketPort> {
        let workers = kit.workers;
        let mut steer = self.program(ifindex, Hook::Packet, kit)?;
        steer.prepare()?;
        let most = workers.count() * slots::QUEUES_PER_WORKER;
        let queues = self.config.queues.map_or(workers.count(), |queues| queues as usize).min(most);
        let config =
            PacketConfig { interface: &self.config.interface, ifindex, filter: steer.filter()? };
        let sockets = PacketSocket::open_several(&config, queues)?;
        let counters = sockets.iter().map(Port::counters).collect();
        for (queue, socket) in (0..).zip(sockets) {
            workers.add_port(self.slot, queue, ifindex, Box::new(socket));
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
            chosen: None,
            is_down: false,
        })
    }

    pub(super) fn close(&mut self, workers: &Workers, why: &str) {
        if let Some(working) = self.working.take() {
            self.before.1 += working.steer.stats().map_or(0, |stats| stats.passed());
            // The program first: from then on frames pass to Linux, and meet the guard.
            drop(working.steer);
            // So that the same queues can be opened again.
            workers.remove_ports(working.ifindex);
            add(&mut self.before.0, working.counters.iter().map(|counters| counters.read()));
            info!(port = self.config.interface, why, "port closed");
            self.trouble = why.into();
        }
    }
}

/// Adds the counters of queues, each to that of its number.
fn add(sums: &mut Vec<PortStats>, queues: impl Iterator<Item = PortStats>) {
    for (place, queue) in queues.enumerate() {
        match sums.get_mut(place) {
            Some(sum) => *sum += queue,
            None => sums.push(queue),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_go_on_where_they_were() {
        let stats = |rx_packets| PortStats { rx_packets, ..PortStats::default() };
        let packets = |sums: &[PortStats]| sums.iter().map(|s| s.rx_packets).collect::<Vec<_>>();
        let mut sums = Vec::new();
        add(&mut sums, [stats(3), stats(4)].into_iter());
        // Opened again with fewer queues, and with more.
        add(&mut sums, [stats(10)].into_iter());
        add(&mut sums, [stats(0), stats(1), stats(7)].into_iter());
        assert_eq!(packets(&sums), [13, 5, 7]);
    }
}
