//! The gateway path in memory: how many packets a second one core seals or opens, and what part of
//! that the cipher alone would take.
//!
//! What is timed is [`dataplane::Worker::round_at`] over memory ports, as the daemon runs it: parse,
//! policy or SA look-up, replay check, lifetimes and counters, headers, cipher, neighbour, Ethernet
//! header, transmit queue. What is not timed is what a network card and a peer would do: packets
//! are written, and for the inbound direction sealed with fresh sequence numbers, between the timed
//! pieces. The buffers together are larger than a second-level cache.
//!
//! The raw cipher is measured in turns with it, by an engine of the same provider, in the same
//! buffers: bursts of jobs that are ready, and nothing else.

#![deny(unsafe_code)]

mod bed;
mod cycles;
mod measure;

use core::time::Duration;

use crypto::{EngineError, Provider, Suite};
use outcome::DropReason;
use serde::Serialize;

pub use measure::esp;

/// Which way a benchmark's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Cleartext in, ESP out.
    Outbound,
    /// ESP in, cleartext out.
    Inbound,
}

/// What to measure: each suite with each size in each direction.
pub struct EspOptions<'p> {
    /// Makes the engines and sessions.
    pub provider: &'p dyn Provider,
    /// Suites; see [`suite_by_name`].
    pub suites: Vec<Suite>,
    /// Lengths of the inner IP packet in bytes, from [`MIN_SIZE`] to what fits an MTU of 1500.
    pub sizes: Vec<usize>,
    /// Directions.
    pub directions: Vec<Direction>,
    /// SAs that packets take turns in, each with a policy of its own; at least 1.
    pub sas: usize,
    /// Repetitions, at least 1; their median counts.
    pub repeat: usize,
    /// Timed length of a repetition.
    pub duration: Duration,
    /// The core to run on; `None` for the one that the system chooses first.
    pub cpu: Option<usize>,
    /// Packets under way at once, each in a buffer of 2048 bytes; at least 64.
    pub frames: u32,
    /// How many allocations this thread has made so far, if the program counts them.
    pub allocations: Option<fn() -> u64>,
}

impl<'p> EspOptions<'p> {
    /// AES-128-GCM both ways, in sizes from 64 to 1400 bytes, five times 200 ms each.
    pub fn new(provider: &'p dyn Provider) -> EspOptions<'p> {
        EspOptions {
            provider,
            suites: suite_by_name("aes128gcm16").into_iter().collect(),
            sizes: vec![64, 128, 256, 512, 1024, 1400],
            directions: vec![Direction::Outbound, Direction::Inbound],
            sas: 1,
            repeat: 5,
            duration: Duration::from_millis(200),
            cpu: None,
            // 16 MiB.
            frames: 8192,
            allocations: None,
        }
    }
}

/// The shortest inner packet: IPv4 and UDP headers, in bytes.
pub const MIN_SIZE: usize = 28;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which benchmark: `esp`.
    pub bench: &'static str,
    /// The crypto engine's name.
    pub engine: &'static str,
    /// The suite, as strongSwan's proposals name it.
    pub suite: String,
    /// Which way.
    pub direction: Direction,
    /// Length of the inner IP packet in bytes.
    pub size_bytes: usize,
    /// SAs in use.
    pub sas: usize,
    /// Cores in use.
    pub cores: usize,
    /// Million packets a second: the repetitions' median.
    pub mpps_median: f64,
    /// The slowest repetition.
    pub mpps_min: f64,
    /// The fastest repetition.
    pub mpps_max: f64,
    /// Gbit/s of inner IP packets, at the median.
    pub gbps_median: f64,
    /// Time-stamp counter cycles for each packet, the median; none where there is no such counter.
    pub cycles_per_packet: Option<f64>,
    /// Million packets a second of the cipher alone: the median.
    pub raw_mpps: f64,
    /// The gateway's rate as a part of the cipher's.
    pub ratio_raw: f64,
    /// Allocations for each packet, where the program counts them.
    pub allocations_per_packet: Option<f64>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The caller asked for nothing, or for something impossible.
    #[error("{what} is {given}; allowed: {allowed}")]
    Option {
        /// Which option.
        what: &'static str,
        /// What it was.
        given: usize,
        /// What it may be.
        allowed: &'static str,
    },
    /// The packet would not fit the MTU.
    #[error("an inner packet of {size} bytes is above {max}, the most that {suite} leaves of 1500")]
    TooLong {
        /// The inner packet's length in bytes.
        size: usize,
        /// The suite.
        suite: Suite,
        /// The longest in bytes.
        max: usize,
    },
    /// The engine cannot do it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No memory for packets.
    #[error(transparent)]
    Memory(#[from] io::UmemError),
    /// The process has no free descriptor, or may not use the core.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The gateway did not do its work, so its speed says nothing.
    #[error("the gateway sent {sent} of {given} packets; most dropped: {reason:?}")]
    Lost {
        /// Packets that should have come out.
        given: usize,
        /// Packets that came out.
        sent: usize,
        /// The reason that most of the others were dropped for.
        reason: Option<DropReason>,
    },
    /// The cipher's result was wrong.
    #[error("the engine did not seal and open a packet of {suite} right")]
    Wrong {
        /// The suite.
        suite: Suite,
    },
}

/// The suite that strongSwan's proposals spell so, such as `aes128gcm16` or `aes256-sha256`.
pub fn suite_by_name(name: &str) -> Option<Suite> {
    Suite::all().find(|suite| suite.to_string() == name)
}
