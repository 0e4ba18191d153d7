//! The interfaces that culvert takes over: they come, go, and come back.

mod choice;
pub mod entry;
pub mod opening;
pub mod program;
mod programs;
pub mod rings;
mod taken;
pub mod working;

use config::{PortConfig, Sockets};
use io::PortStats;
use mirror::Snapshot;
use steer::{Attached, StrippedTags};

use crate::nat::TakenFlows;
use crate::slots;
use crate::steering::Steering;
use crate::vlans;
use crate::vrfs::Vrfs;
use crate::way_back::WorkingPort;
use crate::workers::Workers;

pub use programs::Programs;

use entry::{DOWN, Entry};
use opening::{Opener, OpeningKit};
use rings::RunningPort;

/// All configured ports.
pub struct Ports {
    entries: Vec<Entry>,
    /// Ports that were removed while a plan is carried out: one that comes again goes on counting.
    removed: Vec<Entry>,
    opener: Box<dyn Opener>,
    steering: Steering,
    flows: TakenFlows,
    /// The mark of what the private interface gives back to a port.
    given_back: u32,
}

/// A port as the operator sees it.
pub struct PortState<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// `af-xdp` or `packet`; `auto` before that is chosen.
    pub kind: &'static str,
    /// `up`, or what is the matter.
    pub state: String,
    /// `native, copy` and the like.
    pub mode: String,
    /// Why it is of this kind, where the configuration leaves that open.
    pub chosen: Option<String>,
    /// Treatment of VLAN tags that the driver takes out; `None` if it takes none out.
    pub stripped_tags: Option<report::StrippedTags>,
    /// Queues taken now.
    pub queues: u32,
    /// Frames that the steering program left to Linux, however often the port was closed meanwhile.
    pub passed: u64,
    /// The counters of each queue, likewise.
    pub stats: Vec<PortStats>,
}

impl Ports {
    /// No port yet. What the private interface gives back to ports has the mark `given_back`; ports take `flows`.
    pub fn none(opener: Box<dyn Opener>, given_back: u32, flows: TakenFlows) -> Ports {
        let (entries, removed, steering) = (Vec::new(), Vec::new(), Steering::default());
        Ports { entries, removed, opener, steering, flows, given_back }
    }

    /// A port more, which [`Ports::follow`] opens. `is_taken` tells if a place among all ports has another port.
    pub fn add(&mut self, config: &PortConfig, is_taken: impl Fn(usize) -> bool) {
        let is_free = |place: &usize| !self.has_place(*place) && !is_taken(*place);
        let place = (0..slots::MAX_PORTS).find(is_free).unwrap_or(slots::MAX_PORTS - 1);
        let is_it = |entry: &Entry| entry.config.interface == config.interface;
        let entry = match self.removed.iter().position(is_it) {
            Some(at) => self.removed.swap_remove(at).again(config, place),
            None => Entry::new(config, place),
        };
        self.entries.push(entry);
    }

    /// Closes a port: its frames pass to Linux.
    pub fn remove(&mut self, config: &PortConfig, workers: &Workers) {
        for mut entry in self.entries.extract_if(.., |entry| entry.config == *config) {
            entry.close(workers, "the configuration has changed");
            self.removed.push(entry);
        }
    }

    /// Ends a change of ports, which are shown in this order from now on.
    pub fn settle(&mut self, order: &[PortConfig]) {
        self.removed.clear();
        let place = |entry: &Entry| order.iter().position(|config| *config == entry.config);
        self.entries.sort_by_key(place);
    }

    /// True if one has a place among all ports.
    pub fn has_place(&self, place: usize) -> bool {
        self.entries.iter().any(|entry| entry.place == place)
    }

    /// All ports, as a plan looks at them.
    pub fn running(&self) -> impl Iterator<Item = RunningPort> {
        self.entries.iter().map(|entry| RunningPort {
            config: entry.config.clone(),
            ready: entry.working.as_ref().and_then(|working| working.ready),
            has_failed: entry.has_failed,
        })
    }

    /// The workers' slot for packets that leave by an interface.
    pub fn slot(&self, ifindex: u32) -> Option<usize> {
        let entry =
            self.entries.iter().find(|e| e.working.as_ref().is_some_and(|w| w.ifindex == ifindex));
        entry.map(Entry::slot)
    }

    /// The ports whose programs take frames.
    pub fn working(&self) -> impl Iterator<Item = WorkingPort<'_>> {
        self.entries.iter().filter_map(|entry| {
            let working = entry.working.as_ref()?;
            let attached = working.attached?;
            Some(WorkingPort {
                interface: &entry.config.interface,
                ifindex: working.ifindex,
                tag: entry.place as u16 + 1,
                takes_back: attached != Attached::Generic,
                unmarks: attached == Attached::Tcx,
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
            let fit = link.filter(|l| is_fit && !l.loopback);
            let is_up = fit.is_some_and(|l| l.up);
            let present = fit.filter(|l| l.up).map(|l| l.index);
            if let Some(working) = &entry.working {
                let is_there = fit.is_some_and(|l| l.index == working.ifindex);
                // Queues can only be others after it was down.
                let has_its_queues = !is_up
                    || !working.is_down
                    || working.queues == self.opener.queues(&entry.config);
                if is_there && has_its_queues && (is_up || working.outlasts_down()) {
                    changed |= entry.follow_link(is_up);
                } else {
                    entry.close(workers, "the interface went down, away, or into a VRF");
                    changed = true;
                }
            }
            match (present, link) {
                (Some(ifindex), _) if entry.working.is_none() => {
                    let kit = OpeningKit {
                        workers,
                        steering: &self.steering,
                        queues_in_all: queues,
                        given_back: self.given_back,
                        flows: self.flows.room,
                    };
                    changed |= entry.open(ifindex, &mut *self.opener, &kit);
                    if let Some(working) = &mut entry.working {
                        self.flows.fill(&mut *working.steer);
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
                (None, Some(link)) if link.loopback => entry.wait(
                    "the loopback interface: its traffic never leaves this host; name another in port.interface",
                ),
                (None, Some(_)) if entry.working.is_some() => {}
                (None, Some(_)) => entry.wait(DOWN),
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
            None => self.opener.queues(&entry.config),
        });
        queues.sum()
    }

    /// Queues of the port that has the most.
    pub fn most_queues(&self) -> u32 {
        let queues = self.entries.iter().map(|e| e.working.as_ref().map_or(0, |w| w.queues));
        queues.max().unwrap_or(0)
    }

    /// True if a port waits for [`Ports::attach`].
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

    /// Tries again what failed: ports that did not open, programs that are not up to date. True if
    /// a port opened.
    pub fn retry(&mut self, snapshot: &Snapshot, workers: &Workers) -> bool {
        for entry in self.entries.iter_mut().filter(|e| e.is_stale) {
            entry.steer(&self.steering);
        }
        self.entries.iter().any(|e| e.working.is_none()) && self.follow(snapshot, workers)
    }

    /// Ports whose interfaces are there and up, and that could not be opened all the same.
    pub fn failures(&self) -> impl Iterator<Item = (&PortConfig, &str)> {
        let failed = self.entries.iter().filter(|entry| entry.has_failed);
        failed.map(|entry| (&entry.config, entry.trouble.as_str()))
    }

    /// Every port's interface, and why it does not work, if so.
    pub fn troubles(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.entries.iter().map(|entry| {
            let why = match &entry.working {
                None => Some(entry.trouble.as_str()),
                Some(working) => working.is_down.then_some(DOWN),
            };
            (entry.config.interface.as_str(), why)
        })
    }

    /// The interfaces of ports that work, each with what it works by.
    pub fn working_kinds(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.entries.iter().filter_map(|entry| {
            let working = entry.working.as_ref()?;
            Some((entry.config.interface.as_str(), working.transfer.kind()))
        })
    }

    /// Every port as the operator sees it.
    pub fn states(&self) -> impl Iterator<Item = PortState<'_>> {
        self.entries.iter().map(|entry| {
            let interface = entry.config.interface.as_str();
            let (stats, passed) = entry.counted();
            match &entry.working {
                Some(working) => PortState {
                    interface,
                    kind: working.transfer.kind(),
                    state: match (working.is_down, entry.is_stale) {
                        (true, _) => DOWN.into(),
                        (false, true) => entry.trouble.clone(),
                        (false, false) => "up".into(),
                    },
                    mode: match working.attached {
                        Some(attached) => {
                            format!("{attached}, {}", working.transfer.name())
                        }
                        None => "-".into(),
                    },
                    chosen: working.chosen.clone(),
                    stripped_tags: match working.steer.stripped_tags() {
                        StrippedTags::None => None,
                        StrippedTags::PutBack => Some(report::StrippedTags::PutBack),
                        StrippedTags::Lost(why) => Some(report::StrippedTags::Lost(why.clone())),
                    },
                    queues: working.queues,
                    passed,
                    stats,
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
                    chosen: None,
                    stripped_tags: None,
                    queues: 0,
                    passed,
                    stats,
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
