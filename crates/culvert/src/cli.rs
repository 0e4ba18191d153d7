//! The command line, defined once: help, man pages and completion come from here.

mod app;
mod bfd;
mod capture;
mod events;
mod extcap;
mod filter;
mod flows;
mod limit;
mod metrics;
mod nat;
pub mod number;
mod path;
mod top;
mod trace;
mod web;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use control::RunOptions;

pub use app::AppArgs;
pub use capture::CaptureArgs;
pub use events::EventsArgs;
pub use extcap::ExtcapArgs;
pub use filter::FilterArgs;
pub use flows::FlowsArgs;
pub use limit::LimitCommand;
pub use metrics::MetricsArgs;
pub use nat::NatArgs;
pub use path::PathArgs;
pub use top::{KEYS as TOP_KEYS, TopArgs};
pub use trace::TraceArgs;
pub use web::{
    CaptureQuery, EventsQuery, Listen, MOST_PACKETS, MOST_SECONDS, NoQuery, QueryError, SaQuery,
    WebArgs, WhyQuery, parse_query,
};
pub use why::WhyArgs;

use config::DEFAULT_NAME;

/// A fast path for IPsec on Linux.
///
/// Culvert serves the kernel's XFRM interface to an unmodified IKE daemon, takes over the packets
/// of its tunnels, and forwards them in user space. Configuration stays where it is: swanctl, ip,
/// nft. The daemon is `culvert run`; every other command asks a running daemon, or prepares one.
#[derive(Debug, Parser)]
#[command(name = "culvert", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "A first look at it all: `make demo` in the source tree.\n\
    The instance that a command talks to is named by --name (default `default`).")]
pub struct Cli {
    /// The instance, as its configuration's `name` says; decides /run/culvert/NAME.
    #[arg(long, short = 'n', global = true, default_value = DEFAULT_NAME, value_name = "NAME")]
    pub name: String,

    /// Machine-readable output. An error is an object `{"error": ...}` on standard error then.
    #[arg(long, global = true)]
    pub json: bool,

    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon in the foreground.
    ///
    /// Needs root, with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_PERFMON; gives up every other
    /// capability. Runs in the network namespace that it is started in. SIGTERM and SIGINT stop it
    /// in order, SIGHUP reloads the configuration file as `culvert reload` does.
    Run(RunArgs),
    /// Check a configuration file and say all that is wrong with it, without touching anything.
    ///
    /// A file that this accepts, `culvert run` and `culvert reload` take on the same machine: cores, interfaces,
    /// queues and memory are looked at, in the network namespace that it is started in. What passes by itself, such
    /// as an interface that is not there, is a warning. The exit status is 1 if there are problems.
    Check(CheckArgs),
    /// Have the running daemon read its configuration file again: all of it, or nothing.
    ///
    /// Everything is checked first, as by `culvert check`. Where something is wrong nothing is changed, the problems are
    /// listed, and the exit status is 1; `culvert status`, `culvert events` and `culvert metrics` tell it, too. Keys that take
    /// effect only with a restart are named.
    Reload(ReloadArgs),
    /// The daemon at a glance: ports, counts, warnings.
    Status(StatusArgs),
    /// Security associations, with live counters.
    Sa(SaArgs),
    /// Policies, in the order in which they are looked up.
    Policy,
    /// The ports: interfaces that culvert has taken over, and the private one.
    Port(PortArgs),
    /// Offload devices: their tables, what they have done, and the last moves of SAs.
    ///
    /// Which SA is in which device, `culvert sa` says as its engine.
    Device(DeviceArgs),
    /// Connections that Linux translates, and what the fast path has carried of them (`[nat]`).
    Nat(NatArgs),
    /// Applications of flows (`[applications]`): flows, packets and bytes of each, and what they are known by.
    App(AppArgs),
    /// Rate limits (`[[limit]]`): what passes, what is dropped, marked or waits; other rates at run time.
    #[command(subcommand, after_help = limit::EXAMPLES)]
    Limit(LimitCommand),
    /// Paths that are measured (`[[path]]`): delay, loss, jitter, and state.
    ///
    /// Each path has a row for each of its classes. Delay is the median of the window's, there and back, without the time in
    /// the reflector; jitter is the 95th percentile of delays less the shortest (RFC 5481). A path is untried before its first
    /// replies, good within its bounds, degraded beyond one, bad beyond twice one, and dead without replies; its penalty is that of
    /// the state and its cost. Below the table: what this host lacks for a path, replies that measured nothing, by kind,
    /// and what the reflector has sent back.
    #[command(after_help = path::EXAMPLES)]
    Path(PathArgs),
    /// Sessions of BFD that FRR's bfdd has handed over (`[bfd]`): state, intervals, packets.
    ///
    /// A session is DOWN after the detection time without a packet of its peer. What its peers send wrong is counted
    /// below by its kind.
    #[command(after_help = bfd::EXAMPLES)]
    Bfd,
    /// Path selection (`[[steer]]`): which traffic takes which of the measured paths.
    ///
    /// Each rule has a row for each of its paths, the preferred one first: how it stands under the rule's bounds, and its share of
    /// the flows.
    #[command(after_help = "Example: watch -n 1 culvert steer")]
    Steer,
    /// Routes and neighbours as the data path sees them.
    Route,
    /// Packets in, and how each of them ended.
    Stats(StatsArgs),
    /// Dropped packets by reason.
    Drops(DropsArgs),
    /// Explain what would be done with a packet. Nothing is sent.
    ///
    /// Each question that the data path would ask is listed with its answer and the policy, SA, route or
    /// neighbour that gives it, then the verdict, and what would change it.
    #[command(after_help = why::EXAMPLES)]
    Why(WhyArgs),
    /// Record packets before and after IPsec, for Wireshark.
    ///
    /// Packets that SAs protect are recorded twice: on the wire's side, encrypted, and in clear. The file is pcapng
    /// with an interface for each of these taps (wire, plain, and frame for what is no IP packet); each packet says
    /// which way it goes, and its comments what became of it, its SA, its policy, its interface, its application,
    /// and why it was dropped.
    ///
    /// Packets are lost where this command, or who reads from it, is slower than they come: how many is told at
    /// the end and in the file. While a capture runs, helpers (worker.crypto_cpus) rest. 4 of captures,
    /// traces and counts of flows can run at a time. Without one nothing is slower.
    #[command(after_help = capture::EXAMPLES)]
    Capture(Box<CaptureArgs>),
    /// Answer Wireshark, which calls this for its interfaces.
    ///
    /// Each daemon that runs is an interface of Wireshark's then, with the filters of `culvert capture` as its
    /// options. A script of one line in Wireshark's folder for extcaps calls this (packaging/wireshark/culvert).
    /// Wireshark has to run as root, as the daemon answers nobody else.
    Extcap(Box<ExtcapArgs>),
    /// Explain what is done with live packets.
    ///
    /// Of each packet that matches, until there are as many as asked for: the questions that the data path asks,
    /// each with its answer and the policy, SA, route or neighbour that gives it (as `culvert why`), and what
    /// became of it.
    #[command(after_help = trace::EXAMPLES)]
    Trace(TraceArgs),
    /// Flows, by how much they carry, and what becomes of them.
    ///
    /// Packets of one interval are counted where they are in clear, with the SA that protects them; those that were
    /// dropped with their reasons, too. Meanwhile workers look at each packet that matches, as for `culvert capture`:
    /// a busy gateway's rate falls, and helpers (worker.crypto_cpus) rest. Without this nothing is slower.
    #[command(after_help = flows::EXAMPLES)]
    Flows(FlowsArgs),
    /// Show events as they happen: SAs, peers, ports, bursts of drops.
    ///
    /// First what is remembered of this run of the daemon, 4096 events at most, then each new one within
    /// half a second, until interrupted. With --json each is an object on a line of its own.
    Events(EventsArgs),
    /// Rates of ports, workers, SAs, policies, drops and flows, live.
    ///
    /// SAs are listed by what ends first, with the share of their soft and hard limits that is used, of whichever of time,
    /// bytes and packets is nearest. Enter shows an SA with its policies, flows and drops. Flows are counted only while they
    /// are shown, as by `culvert flows`. Needs a terminal of 80 by 24. `--once` prints the rates of one interval instead, for
    /// scripts; with --json each limit has its share.
    #[command(after_help = top::KEYS)]
    Top(TopArgs),
    /// Counters of the daemon, for Prometheus.
    ///
    /// Printed once, or served by HTTP, in Prometheus's text format or OpenMetrics. Series per SA and policy are bounded in number; the rest does not
    /// grow with them.
    #[command(after_help = metrics::EXAMPLES)]
    Metrics(MetricsArgs),
    /// A page for a browser: tunnels, rates, drops, `why` as a form.
    ///
    /// Off unless this runs, for this machine alone unless it is told otherwise, and only for who has the token that is
    /// in the URL. Nothing can be changed there. It needs nothing from the network but the browser.
    #[command(after_help = web::EXAMPLES)]
    Web(Box<WebArgs>),
    /// Start a program whose NETLINK_XFRM sockets go to culvert.
    ///
    /// The program itself stays unmodified: an IKE daemon such as charon-systemd, or `ip xfrm`.
    /// It replaces this process, so signals and the exit status are the program's own.
    Exec(ExecArgs),
    /// The guard: kernel policies that block protected traffic while no daemon forwards it.
    #[command(subcommand)]
    Guard(GuardCommand),
    /// Look for what keeps culvert from working well on this machine, and say what to do.
    ///
    /// Nothing is changed without --fix. Looks at the network namespace that it is started in, and sees all of it
    /// only as root. The exit status is 1 if there are problems, 0 with warnings alone.
    Doctor(DoctorArgs),
    /// Answer the daemon what nDPI makes of packets: the daemon begins this, with a queue as standard input.
    #[command(hide = true)]
    Ndpi,
    /// Write man pages and shell completions into a directory.
    #[command(hide = true)]
    Docs {
        /// The directory; made if missing.
        directory: PathBuf,
    },
}

/// Arguments of `culvert run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration file (TOML).
    #[command(flatten)]
    pub config: ConfigArg,
    /// Never sleep: workers look for packets all the time, which gives the shortest latency and
    /// takes a whole core each (as `poll = "always"` in the configuration's `[worker]`).
    ///
    /// Without it a worker sleeps when nothing comes, and does not while packets come every few
    /// microseconds.
    #[arg(long)]
    pub poll: bool,
    /// Run without ports, BPF and rights over the machine, as in a container: ESP in UDP alone (`encap = yes`),
    /// by the UDP socket of an IKE daemon that `culvert exec` has started.
    ///
    /// CAP_NET_ADMIN over its own network namespace and /dev/net/tun are all that it needs.
    #[arg(long)]
    pub unprivileged: bool,
    /// Log as JSON objects, one a line.
    #[arg(long)]
    pub log_json: bool,
}

impl RunArgs {
    /// The same, as the daemon takes it.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            config: self.config.config.clone(),
            poll: self.poll,
            unprivileged: self.unprivileged,
            log_json: self.log_json,
        }
    }
}

/// Arguments of `culvert check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration file (TOML).
    #[command(flatten)]
    pub config: ConfigArg,
    /// Look at the file alone: for a configuration of another machine.
    #[arg(long)]
    pub offline: bool,
    /// Judge by what `culvert run --unprivileged` can do.
    #[arg(long, conflicts_with = "offline")]
    pub unprivileged: bool,
}

/// Arguments of `culvert reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The daemon with this process id, whatever its name is: for service managers.
    #[arg(long, value_name = "PID")]
    pub pid: Option<i32>,
}

/// Names a configuration file.
#[derive(Debug, Args)]
pub struct ConfigArg {
    /// The configuration file (TOML).
    #[arg(long, short = 'c', value_name = "FILE", default_value = "/etc/culvert/culvert.toml")]
    pub config: PathBuf,
}

/// Arguments of `culvert doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// The configuration file (TOML).
    #[command(flatten)]
    pub config: ConfigArg,
    /// Judge by what `culvert run --unprivileged` needs. A daemon that runs so is judged by that in any case.
    #[arg(long)]
    pub unprivileged: bool,
    /// Do what mends findings and is safe: settings of ports and of memory, offloads that AF_XDP loses tags
    /// by, routing rules of a culvert that is gone.
    ///
    /// Commands that would be run are shown, and asked about. Then everything is looked at again, and it is said what
    /// has helped; the exit status is 1 if something has not. SAs, policies, firewalls and the IKE daemon's
    /// configuration are never touched.
    #[arg(long)]
    pub fix: bool,
    /// With --fix: do not ask. Without a terminal to ask at, nothing is changed unless this is given.
    #[arg(long, short = 'y', requires = "fix")]
    pub yes: bool,
}

impl DoctorArgs {
    /// The same, as the examination takes it, with the preload library that was found or not.
    pub fn options(&self, preload: Result<PathBuf, String>) -> doctor::Options {
        doctor::Options {
            config: self.config.config.clone(),
            unprivileged: self.unprivileged,
            fix: self.fix,
            yes: self.yes,
            preload,
        }
    }
}

/// Arguments of `culvert status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Version, process, engines, workers, clients, guard and memory too. (In JSON they are always there.)
    #[arg(long, short = 'v')]
    pub verbose: bool,
}

/// Arguments of `culvert sa`.
#[derive(Debug, Args)]
pub struct SaArgs {
    /// Show keys. They are secret: with them the traffic can be read.
    #[arg(long)]
    pub show_keys: bool,
    /// Only the SA with this SPI, in hexadecimal (0x...) or decimal.
    #[arg(long, value_name = "SPI", value_parser = number::spi)]
    pub spi: Option<u32>,
}

/// Arguments of `culvert port`.
#[derive(Debug, Args)]
pub struct PortArgs {
    /// Each receive queue, with the worker that has it. (In JSON they are always there.)
    #[arg(long, short = 'q')]
    pub queues: bool,
}

/// Arguments of `culvert device`.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Reset this device, and load its SAs again. Packets meanwhile are worked on in software.
    #[arg(long, value_name = "DEVICE")]
    pub reset: Option<String>,
    /// Have a modelled device be faulty, to try what becomes of its SAs: hang, wrong-icv, wrong-cipher, in-clear,
    /// false-alarm, wrong-text, or none.
    #[arg(long, num_args = 2, value_names = ["DEVICE", "FAULT"], conflicts_with = "reset")]
    pub fault: Option<Vec<String>>,
}

/// Arguments of `culvert stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// A column for each worker. (In JSON they are always there.)
    #[arg(long, short = 'w')]
    pub workers: bool,
    /// The drops by the names of Linux's statistics, as /proc/net/xfrm_stat has them.
    #[arg(long, short = 'x', conflicts_with = "workers")]
    pub xfrm: bool,
}

/// Arguments of `culvert drops`.
#[derive(Debug, Args)]
pub struct DropsArgs {
    /// Also the reasons that have not occurred.
    #[arg(long, short = 'a')]
    pub all: bool,
}

/// Arguments of `culvert exec`.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// The preload library, if it does not lie beside the binary or in its library directory.
    #[arg(long, value_name = "FILE", env = "CULVERT_PRELOAD")]
    pub preload: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The commands of `culvert guard`.
#[derive(Debug, Subcommand)]
pub enum GuardCommand {
    /// Show the barriers that stand in the kernel.
    ///
    /// A barrier is a policy of the kernel's own XFRM, or for IPv6 a rule of nftables, that stands for a policy of
    /// the IKE daemon or for a prefix of [guard]: packets that its selector matches are blocked, or passed, in the
    /// order of their priorities, wherever culvert does not carry them itself.
    Show,
    /// Put up the guard for the prefixes that the configuration names, before the daemon starts.
    Apply(ConfigArg),
    /// Take the guard down, and forget saved SAs. Traffic that was protected can then leave in clear.
    ///
    /// Routing rules that a daemon which was killed has left are removed too. Where SAs or policies are saved for the
    /// next start, what would be lost is said and asked about.
    Clear(ClearArgs),
}

/// Arguments of `culvert guard clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    /// Do not ask. Without a terminal to ask at, saved SAs and policies are kept unless this is given.
    #[arg(long, short = 'y')]
    pub yes: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
