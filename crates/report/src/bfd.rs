//! `culvert bfd`: sessions of BFD that FRR's `bfdd` has handed over.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::words::BfdState;

/// Connection to `bfdd`, and its sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BfdSessions {
    /// Connection to `bfdd`. `None` if none is configured.
    pub dataplane: Option<BfdConnection>,
    /// Sessions by their discriminators.
    pub sessions: Vec<BfdRow>,
    /// Packets between the ends of a session that were refused, by their kind.
    pub refused: BTreeMap<String, u64>,
}

/// Connection to `bfdd`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BfdConnection {
    /// Address at which `bfdd` listens.
    pub address: String,
    /// True if `bfdd` is connected.
    pub connected: bool,
    /// Reason that it is not, or was not the last time.
    pub why: Option<String>,
    /// Version of the protocol that `bfdd` speaks. `None` before its first message.
    pub version: Option<u8>,
}

/// A session, as `bfdd` has described it and as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BfdRow {
    /// Discriminator of this end.
    pub discriminator: u32,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Address of this host. `None` while it has none that leads to the peer.
    pub local: Option<IpAddr>,
    /// True if the peer may be several hops away.
    pub multi_hop: bool,
    /// Interface of the session. `None` for any.
    pub interface: Option<String>,
    /// State of this end.
    pub state: BfdState,
    /// Seconds for which it has had the state.
    pub since_s: u64,
    /// Reason that this end last left the state `up`.
    pub diagnostic: String,
    /// Reason that nothing is sent for the session. `None` if packets are.
    pub refused: Option<String>,
    /// Function that is asked for and that the session goes without. `None` if it has all of them.
    pub without: Option<String>,
    /// Discriminator of the peer; 0 while nothing is heard.
    pub peer_discriminator: u32,
    /// Reason that the peer gives for its state.
    pub peer_diagnostic: String,
    /// Milliseconds between packets that are sent, before the jitter. `None`: none are sent by themselves.
    pub transmit_ms: Option<f64>,
    /// Milliseconds without a packet after which the session is down. `None` while nothing is heard.
    pub detection_ms: Option<f64>,
    /// Packets that the session has heard.
    pub received: u64,
    /// Packets that were sent.
    pub sent: u64,
}
