//! `culvert nat`: what is asked, and what is answered.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Connections that Linux tracks and the fast path may carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nat {
    /// Whether `[nat]` has them learnt.
    pub learns: bool,
    /// Whether Linux has rules of NAT for IPv4, and for IPv6.
    pub rules: [bool; 2],
    /// Directions of connections that are known: two for each.
    pub directions: usize,
    /// Times that Linux was told that a connection is alive.
    pub refreshed: u64,
    /// Updates that Linux refused: of connections that had just gone.
    pub refused: u64,
    /// Times that events were lost, and everything was read anew.
    pub overruns: u64,
    /// The connections, or some of them.
    pub connections: Vec<NatConnection>,
    /// Connections that are not told.
    pub others: usize,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NatConnection {
    /// Linux's number of it.
    pub id: u32,
    /// IP protocol.
    pub protocol: u8,
    /// Its packets as they arrive.
    pub original: NatEnds,
    /// What they become.
    pub translated: NatEnds,
    /// Whether that is something else.
    pub is_translated: bool,
    /// Whether answers are carried as well: Linux has seen one.
    pub both: bool,
    /// What was carried of its packets, and of answers.
    pub packets: [u64; 2],
    /// The same in bytes.
    pub bytes: [u64; 2],
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NatEnds {
    /// Where it comes from.
    pub src: IpAddr,
    /// Its port, or the identifier of an ICMP query.
    pub src_port: u16,
    /// Where it goes.
    pub dst: IpAddr,
    /// Its port; of an ICMP query 0.
    pub dst_port: u16,
}
