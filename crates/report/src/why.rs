//! `culvert why`: what is asked, and what is answered.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{PacketFate, WhyQuestion};

/// A packet, and how it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyRequest {
    /// The packet in question.
    pub packet: WhyPacket,
    /// The interface that it is received by; none: what the routes say of its source.
    pub interface: Option<String>,
    /// SPI of the SA that decrypts it. `None`: it comes in clear.
    pub spi: Option<u32>,
    /// Mark, of a packet that Linux sends.
    pub mark: u32,
}

/// Headers of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyPacket {
    /// Source address of the packet.
    pub src: IpAddr,
    /// Destination address of the packet.
    pub dst: IpAddr,
    /// IP protocol of the packet.
    pub protocol: u8,
    /// Source port; ICMP's type.
    pub src_port: u16,
    /// Destination port; ICMP's code.
    pub dst_port: u16,
    /// Length with the IP header, in bytes.
    pub len: u16,
    /// True to set IPv4's DF.
    pub dont_fragment: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
}

/// Answer of the daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WhyAnswer {
    /// Fate of the packet, explained.
    Why(Why),
    /// The question makes no sense here.
    Refused {
        /// The mistake, and what would be right.
        error: String,
    },
}

/// Fate of a packet, with its reasons.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Why {
    /// The packet, in words.
    pub packet: String,
    /// How it comes, in words.
    pub came: String,
    /// Steps of the verdict, in the order in which the data path asks.
    pub steps: Vec<WhyStep>,
    /// Fate of the packet: `protected`, `forwarded`, `opened`, `to-linux`, `waits-for-sa`,
    /// `waits-for-fragments`, `answered` (by an ICMP error), `dropped` or `consumed`.
    pub fate: PacketFate,
    /// The same as a sentence.
    pub verdict: String,
    /// The reason of `culvert drops`, where it is dropped.
    pub drop_reason: Option<String>,
    /// Changes that would give another fate.
    pub hints: Vec<String>,
    /// The worker that was asked.
    pub worker: usize,
}

/// One question and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyStep {
    /// Question of the step.
    pub question: WhyQuestion,
    /// Answer of the step.
    pub answer: String,
    /// The index of the policy that says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<u32>,
    /// The SPI of the SA that says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spi: Option<String>,
    /// The interface that it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interface: Option<String>,
}
