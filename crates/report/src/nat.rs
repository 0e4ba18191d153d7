//! `culvert nat`: what is asked, and what is answered.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Connections that Linux tracks and the fast path may carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nat {
    /// True if `[nat]` has connections learnt.
    pub learns: bool,
    /// True if Linux has rules of NAT: for IPv4, for IPv6.
    pub rules: [bool; 2],
    /// Directions of connections that are known: two for each.
    pub directions: usize,
    /// Times that Linux was told that a connection is alive.
    pub refreshed: u64,
    /// Updates that Linux refused: of connections that had just gone.
    pub refused: u64,
    /// Times that events were lost, and everything was read anew.
    pub overruns: u64,
    /// Linux's counts of its own table, where it tells them.
    #[serde(default)]
    pub table: Option<NatTable>,
    /// The connections, or some of them.
    pub connections: Vec<NatConnection>,
    /// Connections that are not told.
    pub others: usize,
}

/// Linux's table of connections, and what it refused since the network namespace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NatTable {
    /// Connections that there are.
    pub entries: u32,
    /// The most that there may be; 0 where the kernel does not say.
    pub most: u32,
    /// Connections that did not come in: no port was left for them, or one with the same tuple came in before.
    pub insert_failed: u64,
    /// Packets that were dropped: most of those that did not come in, and others for lack of room.
    pub dropped: u64,
    /// Connections that were ended to make room for others.
    pub early_dropped: u64,
}

/// A connection that may be carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NatConnection {
    /// Linux's number of it.
    pub id: u32,
    /// IP protocol of the connection.
    pub protocol: u8,
    /// Packets as they arrive.
    pub original: NatEnds,
    /// Packets after the translation.
    pub translated: NatEnds,
    /// True if the two differ.
    pub is_translated: bool,
    /// True if answers are carried as well: Linux has seen one.
    pub both: bool,
    /// Packets carried: of the connection, and of answers.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NatEnds {
    /// Where it comes from.
    pub src: IpAddr,
    /// Source port, or the identifier of an ICMP query.
    pub src_port: u16,
    /// Where it goes.
    pub dst: IpAddr,
    /// Destination port; of an ICMP query 0.
    pub dst_port: u16,
}
