//! `culvert capture` and `culvert trace`: what is asked, and what is answered.

use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{PacketFate, Tap, WhyStep};

/// Which packets are wanted; of what is not given, all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFilter {
    /// Where: `wire`, `plain` or `frame`.
    pub tap: Option<Tap>,
    /// Which way: out to peers, or in from them.
    pub is_outbound: Option<bool>,
    /// Names of interfaces that it came in or left by.
    pub interfaces: Vec<String>,
    /// The SPI of its SA.
    pub spi: Option<u32>,
    /// The reqid of its SA.
    pub reqid: Option<u32>,
    /// The index of the policy that decided.
    pub policy: Option<u32>,
    /// Where it comes from.
    pub src: Option<Network>,
    /// Where it goes.
    pub dst: Option<Network>,
    /// Where it comes from or goes.
    pub host: Option<Network>,
    /// IP protocol. `None`: all.
    pub protocol: Option<u8>,
    /// Source port; ICMP's type.
    pub src_port: Option<u16>,
    /// Destination port; ICMP's code.
    pub dst_port: Option<u16>,
    /// One of both ports.
    pub port: Option<u16>,
    /// True for dropped packets only.
    pub drops: bool,
    /// Reason of the drops.
    pub reason: Option<String>,
}

/// An address, or the addresses of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Address of the network.
    pub addr: IpAddr,
    /// The length of the prefix, in bits.
    pub len: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || "an address or a prefix, such as 10.1.0.5 or 2001:db8::/32".to_owned();
        let (addr, len) = match text.split_once('/') {
            Some((addr, len)) => (addr, Some(len.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(most);
        if len <= most { Ok(Network { addr, len }) } else { Err(wrong()) }
    }
}

/// A capture. The answer is pcapng, until the client shuts its side down; or [`Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRequest {
    /// Filter for the packets.
    pub filter: PacketFilter,
    /// Bytes of each packet at most.
    pub snap_len: u32,
    /// Packets after which it ends.
    pub count: Option<u64>,
    /// Seconds after which it ends.
    pub seconds: Option<u64>,
}

/// Why a capture or a trace does not begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The mistake, and what would be right.
    pub error: String,
}

/// Request of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceRequest {
    /// Begin: the answer is a [`Trace`] with its number.
    Begin {
        /// Filter for the packets.
        filter: PacketFilter,
        /// Packets to be traced.
        count: u64,
    },
    /// Asks for the packets since the last answer.
    Next {
        /// The trace's number.
        trace: u64,
    },
}

/// Answer of a trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// Number of the trace.
    pub trace: u64,
    /// Packets, in their order.
    pub packets: Vec<Traced>,
    /// True at its end: as many packets have come as were asked for, or the daemon has ended it.
    pub is_over: bool,
}

/// A live packet, what was decided about it, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Traced {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// The packet, in words.
    pub packet: String,
    /// How it came, in words.
    pub came: String,
    /// `wire`, `plain` or `frame`.
    pub tap: Tap,
    /// Steps of the data path, as of `culvert why`; empty for ESP, whose SA decides.
    pub steps: Vec<WhyStep>,
    /// Fate of the packet, as a word.
    pub fate: PacketFate,
    /// The same as a sentence.
    pub verdict: String,
    /// The reason of `culvert drops`, where it was dropped.
    pub drop_reason: Option<String>,
    /// The worker that had it.
    pub worker: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_prefixes() {
        let network = |text: &str| text.parse::<Network>();
        let addr = |text: &str| text.parse().expect("an address");
        assert_eq!(network("10.1.0.5"), Ok(Network { addr: addr("10.1.0.5"), len: 32 }));
        assert_eq!(network("fd00::/8"), Ok(Network { addr: addr("fd00::"), len: 8 }));
        for wrong in ["10.1", "10.1.0.0/33", "fd00::/129", "10.1.0.0/", "lan"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
