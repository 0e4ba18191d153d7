//! `culvert flows`: what is asked, and what is answered.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Direction, PacketFate, PacketFilter};

/// Flows, counted. The answer is a [`Flows`] on a line of its own for each interval, until the client shuts its side
/// down; or [`Refused`](super::Refused).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowsRequest {
    /// Packets that count.
    pub filter: PacketFilter,
    /// The length of an interval in milliseconds.
    pub interval_ms: u64,
    /// How many flows are told, those with the most bytes.
    pub most: usize,
    /// Application of flows that count. `None`: all, also where it is not known.
    #[serde(default)]
    pub application: Option<String>,
    /// Path of flows that count. `None`: all, also those without one.
    #[serde(default)]
    pub path: Option<String>,
}

/// The flows of one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// How long it was.
    pub seconds: f64,
    /// Flows, those with the most bytes first.
    pub flows: Vec<Flow>,
    /// Packets of all other flows.
    pub others: u64,
    /// Packets that were not looked at, as they came too fast.
    pub lost: u64,
}

/// A flow, as it is in clear; of what was dropped before it was decrypted, as it is on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Where it comes from.
    pub src: IpAddr,
    /// Where it goes.
    pub dst: IpAddr,
    /// IP protocol of the packets.
    pub protocol: u8,
    /// Source port, or ICMP's type; 0 where there is none.
    pub src_port: u16,
    /// Destination port, or ICMP's code.
    pub dst_port: u16,
    /// `in` from peers, or `out` to them and whatever needs no protection.
    pub direction: Direction,
    /// The SPI of the SA that protected its last packet, if one did.
    pub spi: Option<String>,
    /// Reqid of the SA.
    pub reqid: Option<u32>,
    /// The index of the policy that decided, as far as it is known.
    pub policy: Option<u32>,
    /// The application of the flow, where it is known.
    #[serde(default)]
    pub application: Option<String>,
    /// The path (`[[path]]`) that its last packet was sent by, of a flow that leaves by one.
    #[serde(default)]
    pub path: Option<String>,
    /// Packets of the interval.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Fate of the last packet: `sent`, `protected`, `to-linux`, `dropped`, ...
    pub fate: PacketFate,
    /// Packets that were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Flow {
    /// Packets that were dropped.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}
