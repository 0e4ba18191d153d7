//! Arguments of `culvert limit`.

use clap::{Args, Subcommand};

/// Below the help.
pub const EXAMPLES: &str = "Examples:\n  \
    culvert limit show\n  \
    culvert limit show tenant-a --json\n  \
    culvert limit set tenant-a --rate 200Mbit --burst 256kB\n  \
    culvert limit set site-b --queue 500kB --queue-packets 400";

/// The commands of `culvert limit`.
#[derive(Debug, Subcommand)]
pub enum LimitCommand {
    /// Show limits: rates, what their buckets hold, packets by colour, and those that wait.
    Show(LimitShowArgs),
    /// Change rates, bursts or queues of a limit of the running daemon, until its configuration is loaded again.
    ///
    /// Its counters go on, and its buckets hold what they held, as far as it fits. What waits goes on waiting, also where
    /// it is more than a new queue would take.
    Set(LimitSetArgs),
}

/// Arguments of `culvert limit show`.
#[derive(Debug, Args)]
pub struct LimitShowArgs {
    /// Only this one, and those below it.
    #[arg(value_name = "NAME")]
    pub limit: Option<String>,
}

/// Arguments of `culvert limit set`.
#[derive(Debug, Args)]
#[group(id = "what", required = true, multiple = true, args = ["rate", "burst", "peak", "peak_burst", "excess", "excess_burst", "queue", "queue_packets"])]
pub struct LimitSetArgs {
    /// Name of the limit.
    #[arg(value_name = "NAME")]
    pub limit: String,
    /// The committed rate: 100Mbit, 10kpps.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// The committed burst: 64kB, 32packets.
    #[arg(long, value_name = "BURST")]
    pub burst: Option<String>,
    /// The peak rate (RFC 2698).
    #[arg(long, value_name = "RATE")]
    pub peak: Option<String>,
    /// The peak burst.
    #[arg(long, value_name = "BURST")]
    pub peak_burst: Option<String>,
    /// The excess rate (RFC 4115).
    #[arg(long, value_name = "RATE")]
    pub excess: Option<String>,
    /// The excess burst (RFC 2697, RFC 4115).
    #[arg(long, value_name = "BURST")]
    pub excess_burst: Option<String>,
    /// Where packets wait (mode = "shape"): the bytes that do at most, at each worker: 500kB.
    #[arg(long, value_name = "BYTES")]
    pub queue: Option<String>,
    /// The packets that wait at most, at each worker: 1 to 65536.
    #[arg(long, value_name = "COUNT")]
    pub queue_packets: Option<u32>,
}
