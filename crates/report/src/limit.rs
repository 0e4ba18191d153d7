//! `culvert limit`: what is asked, and what is answered.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The algorithm of a limit.
    LimitAlgorithm, "An algorithm that is not known here." {
        /// One rate, two colours.
        Single = "single",
        /// One rate, three colours (RFC 2697).
        OneRate = "rfc2697",
        /// Two rates, three colours (RFC 2698).
        TwoRates = "rfc2698",
        /// Two rates that are independent of one another (RFC 4115).
        Differentiated = "rfc4115",
    }
}

words! {
    /// Which way packets of a limit go.
    LimitWay, "A way that is not known here." {
        /// Packets to peers, or in clear.
        Out = "out",
        /// Packets from peers.
        In = "in",
        /// Packets of both ways.
        Both = "both",
    }
}

words! {
    /// The owner of buckets of their own.
    LimitEach, "An owner that is not known here." {
        /// Each flow has buckets.
        Flow = "flow",
        /// Each tunnel has buckets.
        Tunnel = "tunnel",
    }
}

words! {
    /// How workers share a limit.
    LimitBy, "A way that is not known here." {
        /// Each leases tokens ahead.
        Leases = "leases",
        /// One has it at a time.
        Atomic = "atomic",
    }
}

words! {
    /// The class of packets that wait (RFC 4594).
    LimitClass, "A class that is not known here." {
        /// The first to leave.
        Urgent = "urgent",
        /// The second to leave.
        Assured = "assured",
        /// The third to leave.
        Usual = "usual",
        /// The last to leave.
        Lesser = "lesser",
    }
}

words! {
    /// The treatment of packets of a colour.
    LimitTreatment, "The packets are marked: `dscp N`." {
        /// The packets pass.
        Pass = "pass",
        /// The packets are dropped.
        Drop = "drop",
    }
}

/// A rate limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Name of the limit.
    pub name: String,
    /// The limit that its packets are under as well.
    pub parent: Option<String>,
    /// `single`, `rfc2697`, `rfc2698` or `rfc4115`.
    pub algorithm: LimitAlgorithm,
    /// True if the colour that packets come with counts.
    pub aware: bool,
    /// Bytes that are counted for each packet beyond its own length.
    pub overhead: u16,
    /// `out`, `in` or `both`.
    pub direction: LimitWay,
    /// Packets that are under it; empty if it is only a parent.
    pub about: String,
    /// Owner of buckets: `flow` or `tunnel`; `None` if all packets share them.
    pub each: Option<LimitEach>,
    /// How workers share it: `leases` or `atomic`.
    #[serde(default)]
    pub by: LimitBy,
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
    pub class: LimitClass,
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
    pub becomes: LimitTreatment,
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
