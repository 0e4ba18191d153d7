//! `culvert why`: what is asked, and what is answered.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A packet, and how it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyRequest {
    /// The packet.
    pub packet: WhyPacket,
    /// The interface that it is received by; none: what the routes say of its source.
    pub interface: Option<String>,
    /// It is decrypted by the SA of this SPI.
    pub spi: Option<u32>,
    /// Its mark, of one that Linux sends.
    pub mark: u32,
}

/// What a packet has in its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyPacket {
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// Source port; ICMP's type.
    pub src_port: u16,
    /// Destination port; ICMP's code.
    pub dst_port: u16,
    /// Length with the IP header, in bytes.
    pub len: u16,
    /// IPv4's DF.
    pub dont_fragment: bool,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
}

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WhyAnswer {
    /// What would be done.
    Why(Why),
    /// The question makes no sense here.
    Refused {
        /// What is wrong with it, and what would be right.
        error: String,
    },
}

/// What would be done with the packet, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Why {
    /// The packet, in words.
    pub packet: String,
    /// How it comes, in words.
    pub came: String,
    /// What the verdict follows from, in the order in which the data path asks.
    pub steps: Vec<WhyStep>,
    /// What becomes of it: `protected`, `forwarded`, `opened`, `to-linux`, `waits-for-sa`, `waits-for-fragments`,
    /// `answered` (by an ICMP error), `dropped` or `consumed`.
    pub fate: String,
    /// The same as a sentence.
    pub verdict: String,
    /// The reason of `culvert drops`, where it is dropped.
    pub drop_reason: Option<String>,
    /// What would change it.
    pub hints: Vec<String>,
    /// The worker that was asked.
    pub worker: usize,
}

/// One question and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyStep {
    /// What is asked.
    pub question: String,
    /// The answer.
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
