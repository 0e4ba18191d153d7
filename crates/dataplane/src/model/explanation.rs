//! Explanations of a packet's fate: `culvert why`, and traces.

use forward::IcmpCause;
use outcome::DropReason;
use policy::SaId;

use crate::model::Step;

/// A packet that somebody asks about.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The IP packet.
    pub packet: Vec<u8>,
    /// How it comes.
    pub came: Came,
}

/// How a packet that is asked about comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Received in clear by the port of this interface.
    Port {
        /// Index of the interface.
        ifindex: u32,
    },
    /// From Linux: sent by this host, or forwarded by Linux.
    Linux {
        /// The tunnel interface that Linux routed it to; 0 for the private interface.
        tunnel: u32,
        /// Mark of the packet.
        mark: u32,
    },
    /// Was inside of an overlay's, which is carried out here.
    Inside {
        /// Index of the overlay's interface.
        ifindex: u32,
        /// Mark of the packet that it was inside of.
        mark: u32,
    },
    /// Decrypted by an SA.
    Decrypted {
        /// By this SA.
        sa: SaId,
        /// The interface that its ESP packet came in by.
        ifindex: u32,
    },
}

/// Fate of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet is for this host, and opened: its SPI says by which SA.
    Opened,
    /// Linux gets it.
    ToLinux {
        /// As received by the interface that it came in by, and not by the private one.
        as_received: bool,
    },
    /// Linux gets it, as received by the interface that it came in by, and brings it back by the private one once its NAT
    /// has seen it.
    ThroughNat,
    /// The packet is forwarded in clear.
    Forwarded,
    /// The packet is protected by the SAs of the steps, and sent.
    Protected {
        /// Longest fragment in bytes, if the packet is fragmented before that.
        cut: Option<usize>,
    },
    /// The packet takes the step of its segment (SRv6), and is resolved again.
    Stepped,
    /// The packet loses the headers of an overlay that they name, and is resolved again; Linux gets it where they name
    /// none that is carried out here.
    Decapsulated,
    /// The packet is a copy of another host's. The first one loses its headers, and is resolved again.
    Eliminated,
    /// The packet is given to the offload device that has its SA and policy.
    Offloaded,
    /// The packet is GTP-U of applications, and its TEID says of which.
    ToApplication,
    /// Another worker is the home of its SA, and has to be asked.
    HandedOver {
        /// Number of the worker.
        to: usize,
    },
    /// The packet waits until there is an SA for the policy.
    WaitsForSa {
        /// The policy's index.
        policy: u32,
    },
    /// The packet is a fragment, and waits for others.
    WaitsForFragments,
    /// The sender gets an ICMP error.
    Answered(IcmpCause, DropReason),
    /// The packet is dropped.
    Dropped(DropReason),
    /// The packet is consumed: it needs no further step.
    Consumed,
}

/// Explanation of what the data path would do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The mark that a rule gives it, or that it came with.
    pub mark: u32,
    /// In the order in which the questions were asked.
    pub steps: Vec<Step>,
    /// Fate after the steps.
    pub fate: Fate,
}
