//! `culvert limit`: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

/// A rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Name of the limit.
    pub name: String,
    /// The limit that its packets are under as well.
    pub parent: Option<String>,
    /// `single`, `rfc2697`, `rfc2698` or `rfc4115`.
    pub algorithm: String,
    /// True if the colour that packets come with counts.
    pub aware: bool,
    /// Bytes that are counted for each packet beyond its own length.
    pub overhead: u16,
    /// `out`, `in` or `both`.
    pub direction: String,
    /// Packets that are under it; empty if it is only a parent.
    pub about: String,
    /// Owner of buckets: `flow` or `tunnel`; `None` if all packets share them.
    pub each: Option<String>,
    /// How workers share it: `leases` or `atomic`.
    #[serde(default)]
    pub by: String,
    /// The worker that has it and those above, where it is `atomic` and one has met it.
    #[serde(default)]
    pub home: Option<usize>,
    /// The committed bucket, and that of the peak or excess.
    pub buckets: Vec<LimitBucket>,
    /// Counts of green packets.
    pub green: LimitColour,
    /// Counts of yellow packets.
    pub yellow: LimitColour,
    /// Counts of red packets.
    pub red: LimitColour,
    /// Bytes that wait for tokens at most, at each worker; nothing where none do.
    #[serde(default)]
    pub queue: Option<String>,
    /// Packets that do.
    #[serde(default)]
    pub queue_packets: Option<u32>,
    /// Packets that wait for tokens, where they do: by class, the first to leave first.
    #[serde(default)]
    pub waiting: Vec<LimitWaiting>,
}

/// Packets of a class that wait, and that have waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitWaiting {
    /// `urgent`, `assured`, `usual` or `lesser`.
    pub class: String,
    /// Packets that wait now.
    pub now: u64,
    /// Packets that have waited and went on.
    pub gone: u64,
    /// Packets that found no room, or have waited too long.
    pub dropped: u64,
    /// How long those that went on have waited, in sum, in microseconds.
    #[serde(default)]
    pub total_us: u64,
    /// Time of waiting on average, in microseconds.
    pub mean_us: u64,
    /// The longest that one of them has.
    pub longest_us: u64,
}

/// A bucket of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitBucket {
    /// How fast it fills.
    pub rate: String,
    /// Burst: the most that it holds.
    pub burst: String,
    /// Present level, leases of workers included. `None` where flows or tunnels have buckets of
    /// their own.
    pub left: Option<String>,
}

/// Counts of a colour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitColour {
    /// Packets. Those that were dropped count with the limit that dropped them, and with no other.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Treatment of the packets: `pass`, `drop`, or `dscp N`.
    pub becomes: String,
}

/// Other rates, bursts or bounds of the queue for a limit, until the configuration is loaded again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSet {
    /// Name of the limit.
    pub name: String,
    /// As in the configuration.
    pub rate: Option<String>,
    /// New burst; `None` to keep it.
    pub burst: Option<String>,
    /// New peak rate; `None` to keep it.
    pub peak: Option<String>,
    /// New peak burst; `None` to keep it.
    pub peak_burst: Option<String>,
    /// New excess rate; `None` to keep it.
    pub excess: Option<String>,
    /// New excess burst; `None` to keep it.
    pub excess_burst: Option<String>,
    /// New size of the queue in bytes; `None` to keep it.
    #[serde(default)]
    pub queue: Option<String>,
    /// New size of the queue in packets; `None` to keep it.
    #[serde(default)]
    pub queue_packets: Option<u32>,
}
