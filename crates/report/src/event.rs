//! `culvert events`: what has happened.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use xfrm::SaEnd;

use crate::PathState;

/// The events after the one that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// In the order in which they happened.
    pub events: Vec<Event>,
    /// The run of the daemon that they are of: when it began, in milliseconds since 1970.
    pub run: u64,
    /// The number of the last one here: what to ask for next.
    pub last: u64,
    /// Events before these that are not remembered any more.
    pub lost: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up from 1 since the daemon's start.
    pub number: u64,
    /// When: milliseconds since 1970, UTC.
    pub time_ms: u64,
    /// The occurrence itself.
    #[serde(flatten)]
    pub what: Occurrence,
}

/// Kind of an event, with its details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Occurrence {
    /// The first SA from one address to another for its reqid.
    SaUp(SaIdentity),
    /// One more: packets change over to it.
    SaRekeyed(SaIdentity),
    /// One of several is gone.
    SaRemoved(SaGone),
    /// The last one is gone.
    SaDown(SaGone),
    /// An SA has reached a limit in bytes or packets.
    SaLimit {
        /// SPI in hexadecimal.
        spi: String,
        /// Outer destination of the SA.
        dst: IpAddr,
        /// True if it may not be used any more. False if it is time for another one.
        hard: bool,
    },
    /// A packet needs an SA that is not there.
    Acquire {
        /// Index of its policy.
        policy: u32,
        /// The packet's source.
        src: IpAddr,
        /// The packet's destination.
        dst: IpAddr,
        /// The packet's protocol.
        protocol: String,
    },
    /// The peer of an SA in UDP sends from another address or port.
    PeerMoved {
        /// SPI in hexadecimal.
        spi: String,
        /// From where now.
        src: IpAddr,
        /// From which port.
        port: u16,
    },
    /// The circuit breaker of a constant rate of IP-TFS has opened.
    RateBroken {
        /// SPI in hexadecimal.
        spi: String,
        /// Outer destination of the SA.
        dst: IpAddr,
        /// Reason, in a line.
        why: String,
    },
    /// The circuit breaker has closed.
    RateRestored {
        /// SPI in hexadecimal.
        spi: String,
        /// Outer destination of the SA.
        dst: IpAddr,
    },
    /// The state of a measured path has changed.
    PathState {
        /// Name of the path.
        path: String,
        /// Class in which it is measured.
        dscp: u8,
        /// State that the path had until then.
        from: PathState,
        /// State after the change.
        to: PathState,
    },
    /// A session of BFD has another state.
    BfdState {
        /// Address of the peer.
        peer: IpAddr,
        /// State before: `admin-down`, `down`, `init` or `up`.
        from: String,
        /// State after the change.
        to: String,
        /// Reason for it.
        why: String,
    },
    /// The connection to `bfdd` has come up, or ended.
    BfdConnection {
        /// Address at which `bfdd` listens.
        address: String,
        /// Reason that it has ended; none: it has come up.
        why: Option<String>,
    },
    /// The flows of a rule take other paths.
    Steered {
        /// Name of the rule.
        rule: String,
        /// Names of the paths; none: its packets are stopped.
        paths: Vec<String>,
    },
    /// A router said what a path carries.
    PathMtu {
        /// Outer destination of the SA.
        dst: IpAddr,
        /// New MTU of the path, in bytes.
        mtu: u32,
    },
    /// A port works.
    PortUp {
        /// Name of the port's interface.
        port: String,
    },
    /// A port does not work any more.
    PortDown {
        /// Name of the port's interface.
        port: String,
        /// Reason, in a line.
        why: String,
    },
    /// An offload device works again.
    DeviceUp {
        /// Name of the device.
        device: String,
    },
    /// An offload device is given nothing any more.
    DeviceDown {
        /// Name of the device.
        device: String,
        /// Reason, in a line.
        why: String,
    },
    /// Another configuration counts.
    Reloaded {
        /// Keys that take effect only with a restart.
        #[serde(default)]
        waits_for_restart: Vec<String>,
    },
    /// A configuration was refused, and that of before counts.
    ReloadRefused {
        /// The fault, in a line.
        why: String,
    },
    /// Many packets are dropped for one reason.
    DropBurst {
        /// The reason, as `culvert drops` has it.
        reason: String,
        /// In the last second.
        packets: u64,
    },
    /// The burst of drops is over.
    DropBurstOver {
        /// Reason of the drops.
        reason: String,
        /// Dropped since it began.
        packets: u64,
        /// How long it lasted.
        seconds: u64,
    },
}

/// Identity and algorithms of an SA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaIdentity {
    /// SPI in hexadecimal.
    pub spi: String,
    /// Outer source of the SA.
    pub src: IpAddr,
    /// Outer destination of the SA.
    pub dst: IpAddr,
    /// Algorithms of the SA.
    pub suite: String,
    /// Ties it to policies.
    pub reqid: u32,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
}

/// An SA that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaGone {
    /// The SA that is gone.
    #[serde(flatten)]
    pub sa: SaIdentity,
    /// Cause of its end.
    pub why: Gone,
}

/// Why an SA is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gone {
    /// The owner has deleted it.
    Deleted,
    /// A hard limit was reached, and nobody deleted it before.
    Expired,
    /// The kernel has its packets again.
    LeftToKernel,
}

impl From<SaEnd> for Gone {
    fn from(end: SaEnd) -> Gone {
        match end {
            SaEnd::Deleted => Gone::Deleted,
            SaEnd::Expired => Gone::Expired,
        }
    }
}
