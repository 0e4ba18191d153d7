//! Setup of the worker that measures, by the control thread, and its reports.

use core::net::IpAddr;
use std::collections::HashMap;

use paths::{Prober, Quality, Reflections, Reflector, Refusals, Removal, State};
use policy::Prefix;

/// Everything that is measured.
#[derive(Debug, Default)]
pub struct PathSetup {
    /// Sessions of this host.
    pub sessions: Vec<PathSession>,
    /// Reflector of this host.
    pub reflector: Option<PathReflector>,
    /// Reflector for probes that come in clear.
    pub clear: Option<ClearReflector>,
}

/// A session: one path in one class.
#[derive(Debug)]
pub struct PathSession {
    /// Identity of the session. One that the worker has already goes on with what it has measured.
    pub id: u32,
    /// Address of this host.
    pub local: IpAddr,
    /// Address of the far end.
    pub far: IpAddr,
    /// Form of the probes.
    pub probes: Probes,
    /// DSCP of the probes.
    pub dscp: u8,
    /// How probes leave.
    pub exit: ProbeExit,
    /// Sender, with what it has measured.
    pub prober: Prober,
}

/// How probes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeExit {
    /// By the tunnel interface with this index; 0 for the way that policies and routes lead, never in clear.
    Tunnel(u32),
    /// In clear by an uplink, and by nothing else.
    Uplink {
        /// Index of its interface.
        ifindex: u32,
        /// Mark by which rules of Linux's lead out of it.
        mark: u32,
    },
}

/// Form of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probes {
    /// STAMP, between these UDP ports.
    Stamp {
        /// Port of this host.
        local: u16,
        /// Port of the far end.
        far: u16,
    },
    /// ICMP echoes with this identifier.
    Echo(u16),
}

/// Reflector for the probes of others.
#[derive(Debug)]
pub struct PathReflector {
    /// Identity of the reflector. One that the worker has already goes on.
    pub id: u32,
    /// UDP port that it answers at.
    pub port: u16,
    /// Reflector, with its counts.
    pub reflector: Reflector,
}

/// Reflector for the probes of others that come in clear.
#[derive(Debug)]
pub struct ClearReflector {
    /// Identity of the reflector. One that the worker has already goes on.
    pub id: u32,
    /// Senders that are answered.
    pub senders: Vec<Prefix>,
    /// Marks by which rules of Linux's lead answers out of an uplink, by the address that they come from; 0 for others.
    pub marks: HashMap<IpAddr, u32>,
    /// Reflector, with its counts: [`Reflector::in_clear`].
    pub reflector: Reflector,
}

/// Measurements of some sessions.
#[derive(Clone, Debug, Default)]
pub struct PathReports {
    /// Some sessions, in the order of the setup.
    pub sessions: Vec<PathReport>,
    /// Sessions behind these.
    pub left: usize,
    /// Counts of the reflector.
    pub reflections: Option<Reflections>,
    /// Counts of the reflector in clear.
    pub in_clear: Option<Reflections>,
}

/// Measurements of a session.
#[derive(Clone, Copy, Debug)]
pub struct PathReport {
    /// Identity of the session.
    pub id: u32,
    /// State of the path.
    pub state: State,
    /// Quality by the session's window.
    pub quality: Quality,
    /// Probes that were sent.
    pub sent: u64,
    /// Probes that were answered.
    pub answered: u64,
    /// Replies that measured nothing.
    pub refusals: Refusals,
    /// Consent of the far end to copies, if it was asked.
    pub removal: Option<Removal>,
}
