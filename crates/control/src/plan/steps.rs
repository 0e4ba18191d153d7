//! The steps of a plan, and how each of them is taken back.
//!
//! | step | refused by | taken back by |
//! | --- | --- | --- |
//! | a tunnel interface is closed | nothing: its descriptor is closed, its interface stays until all is done | it is opened |
//! | a memif port is closed | nothing, likewise | it is opened |
//! | a port is closed | nothing: program and sockets are closed | it is opened |
//! | another set of workers | Linux and engines: no thread, no session | the set of before |
//! | a tunnel interface is opened | Linux: the name is taken, no memory | it is closed, and removed |
//! | a memif port is opened | Linux, likewise | it is closed, and its interface removed |
//! | charon is asked by another thread | Linux: no thread | the thread of before |
//! | other paths are measured | Linux: a file of keys that cannot be read | the paths of before |
//! | a port is opened | its driver, once all steps are done | it is closed |
//! | settings | nothing: they are values, checked before | the values of before |
//!
//! Removals come first, as they free what others need: an `if_id`, a socket's path, one of the places of ports. Workers come
//! next: they get what is opened. A port or an interface with other settings is closed and opened.

use std::fmt;

use config::{
    ApplicationConfig, ApplicationsConfig, BfdConfig, GtpuConfig, GuardConfig, LimitConfig,
    MarkConfig, MemifConfig, OverlayConfig, PathConfig, PathMtuConfig, PathsConfig, PortConfig,
    SidConfig, Srv6Config, SteerConfig, TunnelConfig, ViciConfig, VlanConfig,
};

use crate::layout::Layout;

/// A value as it is, and as it will be.
#[derive(Clone, Debug, PartialEq)]
pub struct Change<T> {
    /// The value that runs.
    pub from: T,
    /// The value that is wanted.
    pub to: T,
}

impl<T: Clone + PartialEq> Change<T> {
    /// The change between two values; `None` if they are equal.
    pub fn between(from: &T, to: &T) -> Option<Change<T>> {
        (from != to).then(|| Change { from: from.clone(), to: to.clone() })
    }

    fn back(&self) -> Change<T> {
        Change { from: self.to.clone(), to: self.from.clone() }
    }
}

/// One step. Names are those of interfaces.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A tunnel interface is closed.
    CloseTunnel(TunnelConfig),
    /// A memif port parts from its peer.
    CloseMemif(MemifConfig),
    /// A port is given back to Linux.
    ClosePort(PortConfig),
    /// Workers and crypto threads.
    Workers(Change<Layout>),
    /// A tunnel interface is made, or taken as an earlier run has left it.
    OpenTunnel(TunnelConfig),
    /// A memif port gets its interface, and listens.
    OpenMemif(MemifConfig),
    /// Charon is asked elsewhere, or not at all.
    Vici(Change<ViciConfig>),
    /// Measured paths and the reflector, with their keys, and which traffic takes which of them.
    Paths(Change<(PathsConfig, Vec<PathConfig>, Vec<SteerConfig>)>),
    /// A port is taken from Linux, if its interface is there; else when it comes.
    OpenPort(PortConfig),
    /// Marks of what arrives at ports.
    Marks(Change<Vec<MarkConfig>>),
    /// Priorities of VLANs.
    Vlans(Change<Vec<VlanConfig>>),
    /// GTP-U services and their applications.
    Gtpu(Change<Vec<GtpuConfig>>),
    /// Rate limits, in order.
    Limits(Change<Vec<LimitConfig>>),
    /// Recognition of applications, and those beside the built-in ones.
    Applications(Change<(ApplicationsConfig, Vec<ApplicationConfig>)>),
    /// Settings of SRv6, and segments of this host.
    Srv6(Change<(Srv6Config, Vec<SidConfig>)>),
    /// Overlays that are carried out here.
    Overlay(Change<OverlayConfig>),
    /// Another `bfdd` has the sessions of BFD, or none.
    Bfd(Change<BfdConfig>),
    /// Settings of the guard.
    Guard(Change<GuardConfig>),
    /// Settings of path MTUs.
    PathMtu(Change<PathMtuConfig>),
}

impl Step {
    /// Why it cannot be refused; `None` if it can.
    pub const fn cannot_fail(&self) -> Option<&'static str> {
        match self {
            Step::CloseTunnel(_) | Step::CloseMemif(_) | Step::ClosePort(_) => {
                Some("a descriptor is closed, and the interface stays")
            }
            Step::OpenTunnel(_)
            | Step::OpenMemif(_)
            | Step::Vici(_)
            | Step::Paths(_)
            | Step::Workers(_)
            | Step::OpenPort(_) => None,
            Step::Marks(_)
            | Step::Vlans(_)
            | Step::Gtpu(_)
            | Step::Limits(_)
            | Step::Applications(_)
            | Step::Srv6(_)
            | Step::Overlay(_)
            | Step::Bfd(_)
            | Step::Guard(_)
            | Step::PathMtu(_) => Some("a value that was checked"),
        }
    }

    /// The step that takes this one back.
    pub fn back(&self) -> Step {
        match self {
            Step::CloseTunnel(config) => Step::OpenTunnel(config.clone()),
            Step::OpenTunnel(config) => Step::CloseTunnel(config.clone()),
            Step::CloseMemif(config) => Step::OpenMemif(config.clone()),
            Step::OpenMemif(config) => Step::CloseMemif(config.clone()),
            Step::Vici(change) => Step::Vici(change.back()),
            Step::Paths(change) => Step::Paths(change.back()),
            Step::Workers(change) => Step::Workers(change.back()),
            Step::ClosePort(config) => Step::OpenPort(config.clone()),
            Step::OpenPort(config) => Step::ClosePort(config.clone()),
            Step::Marks(change) => Step::Marks(change.back()),
            Step::Vlans(change) => Step::Vlans(change.back()),
            Step::Gtpu(change) => Step::Gtpu(change.back()),
            Step::Limits(change) => Step::Limits(change.back()),
            Step::Applications(change) => Step::Applications(change.back()),
            Step::Srv6(change) => Step::Srv6(change.back()),
            Step::Overlay(change) => Step::Overlay(change.back()),
            Step::Bfd(change) => Step::Bfd(change.back()),
            Step::Guard(change) => Step::Guard(change.back()),
            Step::PathMtu(change) => Step::PathMtu(change.back()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::CloseTunnel(config) => {
                write!(f, "close the tunnel interface {}", config.interface)
            }
            Step::OpenTunnel(config) => write!(f, "open the tunnel interface {}", config.interface),
            Step::CloseMemif(config) => write!(f, "close the memif port {}", config.interface),
            Step::OpenMemif(config) => write!(f, "open the memif port {}", config.interface),
            Step::Vici(_) => f.write_str("follow [vici]"),
            Step::Paths(_) => f.write_str("follow [paths], [[path]] and [[steer]]"),
            Step::Workers(Change { from, to }) => {
                write!(f, "change from {} workers to {}", from.workers.len(), to.workers.len())
            }
            Step::ClosePort(config) => write!(f, "close the port {}", config.interface),
            Step::OpenPort(config) => write!(f, "open the port {}", config.interface),
            Step::Marks(_) => f.write_str("follow [[mark]]"),
            Step::Vlans(_) => f.write_str("follow [[vlan]]"),
            Step::Gtpu(_) => f.write_str("follow [[gtpu]]"),
            Step::Limits(_) => f.write_str("follow [[limit]]"),
            Step::Applications(_) => f.write_str("follow [applications] and [[application]]"),
            Step::Srv6(_) => f.write_str("follow [srv6] and [[sid]]"),
            Step::Overlay(_) => f.write_str("follow [overlay]"),
            Step::Bfd(_) => f.write_str("follow [bfd]"),
            Step::Guard(_) => f.write_str("follow [guard]"),
            Step::PathMtu(_) => f.write_str("follow [path_mtu]"),
        }
    }
}
