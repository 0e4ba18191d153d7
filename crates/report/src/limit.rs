//! `culvert limit`: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

/// A rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// The limit that its packets are under as well.
    pub parent: Option<String>,
    /// `single`, `rfc2697`, `rfc2698` or `rfc4115`.
    pub algorithm: String,
    /// Whether the colour that packets come with counts.
    pub aware: bool,
    /// Bytes that are counted for each packet beyond its own length.
    pub overhead: u16,
    /// `out`, `in` or `both`.
    pub direction: String,
    /// What packets it is about; nothing if it is only a parent.
    pub about: String,
    /// What has buckets of its own: `flow` or `tunnel`; nothing if all share.
    pub each: Option<String>,
    /// How workers share it: `leases` or `atomic`.
    #[serde(default)]
    pub by: String,
    /// The worker that has it and those above, where it is `atomic` and one has met it.
    #[serde(default)]
    pub home: Option<usize>,
    /// The committed bucket, and that of the peak or excess.
    pub buckets: Vec<LimitBucket>,
    /// Green packets.
    pub green: LimitColour,
    /// Yellow ones.
    pub yellow: LimitColour,
    /// Red ones.
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

/// What waits of a class, and has waited.
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
    /// On average.
    pub mean_us: u64,
    /// The longest that one of them has.
    pub longest_us: u64,
}

/// A bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitBucket {
    /// How fast it fills.
    pub rate: String,
    /// What it holds at most.
    pub burst: String,
    /// What it holds now, leases of workers included; none where flows or tunnels have buckets of their own.
    pub left: Option<String>,
}

/// What was counted of a colour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitColour {
    /// Packets. Those that were dropped count with the limit that dropped them, and with no other.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What becomes of them: `pass`, `drop`, or `dscp N`.
    pub becomes: String,
}

/// Other rates, bursts or bounds of the queue for a limit, until the configuration is loaded again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSet {
    /// Its name.
    pub name: String,
    /// As in the configuration.
    pub rate: Option<String>,
    /// Likewise.
    pub burst: Option<String>,
    /// Likewise.
    pub peak: Option<String>,
    /// Likewise.
    pub peak_burst: Option<String>,
    /// Likewise.
    pub excess: Option<String>,
    /// Likewise.
    pub excess_burst: Option<String>,
    /// Likewise.
    #[serde(default)]
    pub queue: Option<String>,
    /// Likewise.
    #[serde(default)]
    pub queue_packets: Option<u32>,
}
