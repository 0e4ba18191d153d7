//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use config::EngineChoice;

/// Measure culvert's data path in memory.
///
/// Each packet goes the way that the daemon's worker takes it, between ports that are lists in
/// memory; nothing is switched off that a gateway has on. Times are of one pinned core: keep
/// the machine quiet meanwhile.
#[derive(Debug, Parser)]
#[command(name = "culvert-bench", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// Each row as an object on a line of its own.
    #[arg(long, global = true)]
    pub json: bool,

    /// Which benchmark runs.
    #[command(subcommand)]
    pub command: BenchCommand,
}

/// The benchmarks, each with its options.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The whole gateway path: cycles a packet, and the ratio to the cipher alone.
    Esp(BenchArgs),
    /// Forwarding in clear: policy, route, neighbour.
    Forward(BenchArgs),
    /// The cipher alone, which bounds everything else.
    Crypto(BenchArgs),
    /// The gateway path with 1 to 100 000 SAs, and their memory.
    Sas(BenchArgs),
    /// The gateway path on one core, two cores, and so on.
    ///
    /// One worker that shares its SAs with crypto threads; workers of one gateway, with SAs of their own
    /// and with every packet handed over; and gateways that share nothing. --sas is for each worker.
    Scale(BenchArgs),
    /// Work of a core for a packet in clear, in software, and with crypto and packet offload.
    ///
    /// The devices are free: what they do themselves is left out of the time. On one core, and on two
    /// where there are so many.
    Offload(BenchArgs),
    /// Small packets in payloads of IP-TFS (RFC 9347), beside the same packets in ESP each.
    Iptfs(BenchArgs),
    /// SRv6 segments on packets and off (H.Encaps, End.DX6), beside the published rate of VPP, and Linux.
    ///
    /// As root, Linux's own routes with segments are measured in turns, in network namespaces that are made for it
    /// and removed.
    Srv6(BenchArgs),
    /// GRE and VXLAN inside of ESP in transport mode, beside ESP in tunnel mode alone.
    Overlay(BenchArgs),
    /// To an application in user space and back, through IPsec both ways, beside a published system.
    ///
    /// GTP-U from a core network is opened, goes to an application by shared memory (memif), which sends it
    /// back, and is sealed: 128 to 1400 bytes, one, two and four tunnels. Fails unless every packet went the whole
    /// way. --sas are tunnels, of which each has a worker where there are so many cores.
    SmallCell(BenchArgs),
    /// Cost of look-ups and packets as policies, routes and flows grow.
    Growth(BenchArgs),
    /// The gateway path while SAs are replaced.
    Rekey(BenchArgs),
    /// SAs a second, added while packets flow.
    Install(BenchArgs),
    /// The gateway in hardware, simulated: clock cycles a packet.
    ///
    /// Only where it was built in: `make -C hdl tools`, then `cargo build --release -p culvert-bench
    /// --features rtl`. Of the options those of suites, sizes and directions count.
    Rtl(BenchArgs),
    /// Rate limits: four ways for workers to share limiters.
    ///
    /// Leased tokens, which the data path has; atomic queues; one shared number; a lock. Packets a second with a rate far
    /// above what comes, and what is lost then; with one far below, what passes of it, and how equally by cores.
    Limits(BenchLimitsArgs),
    /// A path dies, and all flows on it take another one.
    ///
    /// Time of the worker until each flow has been decided on anew, as many other flows' packets between them, and how long
    /// a packet waits for the burst that it comes in, before and meanwhile.
    Moves(BenchMovesArgs),
    /// SAs and policies by netlink requests, as an IKE daemon sends them: how many a second.
    Requests(BenchRequestsArgs),
    /// Beside DPDK's ipsec-secgw, in turns on the same core; needs root and the peer.
    ///
    /// `bench/peer/build` builds the peer from the distribution's source package. Reserves 1 GiB of
    /// huge pages meanwhile.
    Peer(PeerArgs),
    /// All of them, and a report with the machine's description and charts.
    ///
    /// Ten minutes or more; under three with --quick. The bench `peer` is left out, and the report
    /// says why, where the peer is not there.
    All(AllArgs),
    /// Moves packets for scripts/instructions to count instructions of, and prints how many count.
    #[command(hide = true)]
    Count(CountArgs),
}

/// Arguments of `count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    /// The case; without one, their names are printed.
    pub case: Option<String>,
}

/// Arguments of `requests`.
#[derive(Debug, Args)]
pub struct BenchRequestsArgs {
    /// Numbers of SAs; with each two come three policies.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000,100000",
        value_parser = clap::value_parser!(u32).range(2..=200_000))]
    pub sas: Vec<u32>,
    /// Requests under way at a time.
    #[arg(long, default_value_t = 16)]
    pub window: u32,
    /// Where vault and socket are made, and removed at the end: a tmpfs.
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// Crypto engine to measure.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
}

/// Arguments of `moves`.
#[derive(Debug, Args)]
pub struct BenchMovesArgs {
    /// Flows that move, a multiple of 500; as many others stay.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(500..=400_000))]
    pub flows: usize,
    /// Bytes of a packet.
    #[arg(long, default_value_t = 128,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(64..=1400))]
    pub size: usize,
    /// How often the path dies.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub repeat: usize,
    /// The core to run on.
    #[arg(long)]
    pub cpu: Option<usize>,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub struct BenchLimitsArgs {
    /// Numbers of threads, each on a core of its own.
    #[arg(long, value_delimiter = ',', default_value = "1,2",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub cores: Vec<usize>,
    /// Numbers of limiters.
    #[arg(long, value_delimiter = ',', default_value = "1,100000",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub limiters: Vec<usize>,
    /// Numbers of flows; at least one for each limiter.
    #[arg(long, value_delimiter = ',', default_value = "1,2,64",
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub flows: Vec<usize>,
    /// Bytes of a packet.
    #[arg(long, default_value_t = 64,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(20..=9000))]
    pub size: usize,
    /// Repetitions; the fastest counts, as the least disturbed.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub repeat: usize,
    /// Milliseconds of each repetition.
    #[arg(long, default_value_t = 100)]
    pub millis: u64,
}

/// Arguments of `all`.
#[derive(Debug, Args)]
pub struct AllArgs {
    /// Where the report goes: DATE-PROCESSOR.md and .json, and a folder of charts.
    #[arg(long, value_name = "DIRECTORY")]
    pub report: Option<PathBuf>,
    /// Command that the report names to repeat it.
    #[arg(long, value_name = "COMMAND", hide = true)]
    pub command: Option<String>,
    /// Arguments of the single benchmarks.
    #[command(flatten)]
    pub peer: PeerArgs,
}

/// Arguments of `peer`.
#[derive(Debug, Args)]
pub struct PeerArgs {
    /// Arguments of all benchmarks.
    #[command(flatten)]
    pub bench: BenchArgs,
    /// The peer's program.
    #[arg(long, value_name = "FILE", default_value = "/var/tmp/culvert-peer/ipsec-secgw")]
    pub secgw: PathBuf,
}

/// Arguments of all benchmarks. Each benchmark has its own defaults for what is not given.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Suites, as strongSwan's proposals name them: aes128gcm16, aes256-sha256, ...
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub suite: Option<Vec<String>>,
    /// Sizes of the inner IP packet in bytes.
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    pub size: Option<Vec<usize>>,
    /// Directions to measure.
    #[arg(long, value_delimiter = ',', value_enum)]
    pub direction: Option<Vec<BenchDirection>>,
    /// Numbers of SAs.
    #[arg(long, value_delimiter = ',', value_name = "COUNT")]
    pub sas: Option<Vec<usize>>,
    /// Inner flows; at least one for each SA.
    #[arg(long, value_name = "COUNT")]
    pub flows: Option<usize>,
    /// Packets under way, each in a buffer of 2 KiB; 512 fit a second-level cache, 8192 do not.
    #[arg(long, value_name = "COUNT")]
    pub frames: Option<u32>,
    /// Repetitions; the median counts.
    #[arg(long, value_name = "COUNT")]
    pub repeat: Option<usize>,
    /// Milliseconds of each repetition.
    #[arg(long)]
    pub millis: Option<u64>,
    /// Core to pin to; with several cores, the first of them.
    #[arg(long, value_name = "CORE")]
    pub cpu: Option<usize>,
    /// Fewer sizes and repetitions: for a first look.
    #[arg(long)]
    pub quick: bool,
    /// Crypto engine to measure.
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub engine: Engine,
    /// Draw the rows: SVG files into this directory; made if missing.
    #[arg(long, value_name = "DIRECTORY")]
    pub plot: Option<PathBuf>,
}

/// Which crypto engine works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// ipsec-mb where it is there, else OpenSSL; for SM4 and SM3 culvert's own.
    Auto,
    /// Intel's multi-buffer library, or an error.
    IpsecMb,
    /// By the library OpenSSL.
    Openssl,
}

impl From<Engine> for EngineChoice {
    fn from(engine: Engine) -> EngineChoice {
        match engine {
            Engine::Auto => EngineChoice::Auto,
            Engine::IpsecMb => EngineChoice::IpsecMb,
            Engine::Openssl => EngineChoice::Openssl,
        }
    }
}

/// Which way a benchmark's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchDirection {
    /// Cleartext in, ESP out.
    Outbound,
    /// ESP in, cleartext out.
    Inbound,
}
