//! Answers of the daemon over its control socket, which `--json` prints as they are, and the client that asks.
//!
//! | module | what it is |
//! | --- | --- |
//! | this one | requests, and the answers to most of them |
//! | `app`, `capture`, `connections`, `event`, `flows`, `limit`, `measured`, `nat`, `reload`, `why` | the answers of a command each |
//! | `warning` | warnings of a running daemon |
//! | `words` | fields that are one of a few words |
//! | [`client`] | asks a running daemon |
//! | [`paths`] | where an instance keeps its sockets and its state |
//! | [`protocol`] | names of IP protocols |
//! | [`rule_text`] | routing rules in iproute2's words |
//! | [`terminal`] | whether output may have colours |
//! | [`units`] | numbers, times and spans for people |
#![forbid(unsafe_code)]

mod app;
mod bfd;
mod capture;
pub mod client;
mod connections;
mod event;
mod flows;
mod limit;
mod measured;
mod nat;
pub mod paths;
pub mod protocol;
mod reload;
pub mod rule_text;
mod steering;
pub mod terminal;
pub mod units;
mod warning;
mod why;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use app::{App, AppFlow, AppOnPath, Apps, AppsNdpi};
pub use bfd::{BfdConnection, BfdRow, BfdSessions};
pub use capture::{CaptureRequest, Network, PacketFilter, Refused, Trace, TraceRequest, Traced};
pub use connections::{ConfiguredChild, Connections};
pub use event::{Event, Events, Gone, Occurrence, SaGone, SaIdentity};
pub use flows::{Flow, Flows, FlowsRequest};
pub use limit::{
    Limit, LimitAlgorithm, LimitBucket, LimitBy, LimitClass, LimitColour, LimitEach, LimitSet,
    LimitTreatment, LimitWaiting, LimitWay,
};
pub use measured::{MeasuredPath, MeasuredPaths, PathState, ReflectorCounts, TrafficLoss};
pub use nat::{Nat, NatConnection, NatEnds, NatTable};
pub use reload::{Configuration, Refusal, Reloaded};
pub use steering::{PathStanding, Steer, SteerCopies, SteerParity, SteerPath, SteerUnasked};
pub use warning::{Warning, WarningKind, Warnings};
pub use why::{Why, WhyAnswer, WhyPacket, WhyRequest, WhyStep};
pub use words::{
    BfdState, BufferPages, DeviceKind, Direction, NeighbourState, Owner, PacketFate, PolicyAction,
    PolicyProtocol, Polling, PortKind, PortMode, RouteKind, SaMode, SaPlacement, SaProtocol,
    SaState, State, StrippedTags, Tap, WhyQuestion,
};

/// Request of a command to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Asks for [`Status`].
    Status,
    /// A list of [`Sa`].
    Sa {
        /// True to tell keys.
        show_keys: bool,
        /// Only this SPI.
        spi: Option<u32>,
    },
    /// A list of [`Policy`].
    Policy,
    /// A list of [`Port`].
    Port,
    /// Asks for [`Nat`].
    Nat {
        /// So many connections at most.
        most: usize,
        /// True for those that are not translated, too.
        all: bool,
    },
    /// Asks for [`Apps`].
    App {
        /// So many of the last verdicts.
        recent: usize,
    },
    /// A list of [`Limit`].
    Limits,
    /// Asks for [`BfdSessions`].
    Bfd,
    /// Asks for [`MeasuredPaths`].
    Path,
    /// A list of [`Steer`].
    Steer,
    /// [`Refused`], or null.
    LimitSet(LimitSet),
    /// Asks for [`Routes`].
    Route,
    /// Asks for [`Stats`].
    Stats,
    /// Asks for [`Drops`].
    Drops,
    /// A list of [`Device`].
    Device,
    /// Resets an offload device; [`Refused`], or null.
    DeviceReset {
        /// Name of the device.
        device: String,
    },
    /// Has a modelled device be faulty; [`Refused`], or null.
    DeviceFault {
        /// Name of the device.
        device: String,
        /// The fault's name, or `none`.
        fault: String,
    },
    /// Asks for [`WhyAnswer`].
    Why(WhyRequest),
    /// pcapng, or [`Refused`].
    Capture(CaptureRequest),
    /// [`Flows`], one a line, or [`Refused`].
    Flows(FlowsRequest),
    /// [`Trace`], or [`Refused`].
    Trace(TraceRequest),
    /// The configuration is read again; the answer is [`Reloaded`].
    Reload,
    /// Asks for [`Events`].
    Events {
        /// Number of the last event known, counted in the run that `run` names. Of another run all
        /// are told.
        after: u64,
        /// Run of that number: [`Events::run`].
        run: u64,
    },
}

impl Request {
    /// How long the answer may take.
    pub fn patience(&self) -> Duration {
        match self {
            // Ports are opened meanwhile.
            Request::Reload => Duration::from_secs(60),
            _ => Duration::from_secs(2),
        }
    }
}

/// Refusal for clients that only read.
#[derive(Debug, Serialize, Deserialize)]
pub struct NotAllowed {
    /// Why, and what would be right.
    pub not_allowed: String,
}

/// State of the tunnels: they are up, or why they are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelState {
    /// Pairs of ends that have an SA to send by, each once for its reqid, `if_id` and mark.
    pub up: usize,
    /// True if an IKE daemon is connected that would negotiate SAs. Beside a kernel that is not
    /// known, and true.
    pub has_ike: bool,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// Step that would bring one up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}

/// Answer to `culvert status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// Name of the instance.
    pub name: String,
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// The crypto engines in order of preference, each with version, code path and how many suites it
    /// serves.
    pub engine: String,
    /// State of the tunnels: they are up, or why they are not.
    #[serde(default)]
    pub tunnels: TunnelState,
    /// The IKE daemon's connections, where `[vici]` has it asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connections: Option<Connections>,
    /// SAs that are installed.
    pub sas: usize,
    /// Policies that are installed.
    pub policies: usize,
    /// SAs and policies restored from the run before.
    pub restored: usize,
    /// Connected programs (netlink sockets that are served).
    pub clients: usize,
    /// Ports that work, of those configured.
    pub ports_up: usize,
    /// Ports of the configuration.
    pub ports: usize,
    /// The interfaces of ports that work, by what they work by: `af-xdp`, `packet` or `memif`.
    #[serde(default)]
    pub ports_by_kind: BTreeMap<String, Vec<String>>,
    /// Directions in which packets that no policy is about are blocked: `in`, `out`, `fwd`.
    #[serde(default)]
    pub default_blocks: Vec<String>,
    /// The guard's barriers in the kernel.
    pub guard_policies: usize,
    /// Prefixes that the guard blocks until policies name them: `prefixes` of `[guard]`.
    #[serde(default)]
    pub guard_prefixes: Vec<String>,
    /// Packets that barriers have blocked, as [`Drops::kernel`].
    #[serde(default)]
    pub guard_blocked: BTreeMap<String, u64>,
    /// Resident memory of the daemon, in KiB.
    pub memory_kib: u64,
    /// Of which packet buffers, in KiB.
    pub buffers_kib: u64,
    /// Kind of pages that the packet buffers are on.
    pub buffers_pages: BufferPages,
    /// Behaviour of a worker when no packets come: `adaptive` or `always`.
    pub polling: Polling,
    /// Owner of SAs and policies: `builtin` or `kernel`.
    #[serde(default)]
    pub source: Owner,
    /// State of the seccomp filters: on, or why they are not.
    #[serde(default)]
    pub seccomp: String,
    /// True if it runs without ports: ESP in UDP alone, by the sockets of IKE daemons.
    #[serde(default)]
    pub unprivileged: bool,
    /// The workers, by number.
    pub workers: Vec<Worker>,
    /// The configuration file, and what has become of reloads.
    #[serde(default)]
    pub configuration: Configuration,
    /// Warnings for the operator, with their kinds.
    #[serde(flatten)]
    pub warnings: Warnings,
}

/// State of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Worker {
    /// Number of the worker.
    pub worker: usize,
    /// The core that it is pinned to, if it is.
    pub cpu: Option<usize>,
    /// The cores of the crypto threads that serve it.
    pub crypto_cpus: Vec<usize>,
}

/// One line of `culvert sa`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sa {
    /// SPI in hexadecimal: `0x…`.
    pub spi: String,
    /// Source of the outer header.
    pub src: String,
    /// Destination of the outer header.
    pub dst: String,
    /// `esp` or `ah`.
    pub protocol: SaProtocol,
    /// `tunnel`, `transport` or `iptfs`.
    pub mode: SaMode,
    /// Algorithms of the SA.
    pub suite: String,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Source and destination port of UDP encapsulation.
    pub encap: Option<(u16, u16)>,
    /// Ties it to policies.
    pub reqid: u32,
    /// Mark, as `value/mask`, if any.
    pub mark: Option<String>,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// The worker whose packets leave by it (RFC 9611); none for those of all.
    pub cpu: Option<u32>,
    /// `in` or `out`, where exactly one of its ends is this host's.
    #[serde(default)]
    pub direction: Option<Direction>,
    /// Algorithms of the SA that are weak.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub weak: Vec<String>,
    /// `valid`, `dying` (soft limit reached), `expired` (hard limit reached).
    pub state: SaState,
    /// Where its packets are worked on: `software`, or `kernel` where the kernel owns SAs and has this one.
    pub placement: SaPlacement,
    /// Why the kernel has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The crypto engine that has its keys.
    pub engine: String,
    /// Bytes that the SA has carried.
    pub bytes: u64,
    /// Packets that the SA has carried.
    pub packets: u64,
    /// Seconds since it was installed.
    pub age_s: u64,
    /// Seconds since its last packet.
    pub idle_s: Option<u64>,
    /// Last outbound sequence number.
    pub sent_seq: u64,
    /// Highest inbound sequence number.
    pub received_seq: u64,
    /// Replay window in packets.
    pub replay_window: u32,
    /// Packets dropped as older than the replay window.
    pub late_drops: u64,
    /// Packets dropped as received before.
    pub duplicate_drops: u64,
    /// Packets dropped for a wrong ICV.
    pub integrity_drops: u64,
    /// Counters of an SA of IP-TFS mode, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub iptfs: BTreeMap<String, u64>,
    /// Present values of an SA of IP-TFS mode: rate, round-trip time, losses, circuit breaker.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub iptfs_now: BTreeMap<String, u64>,
    /// The longest packet that fits the path once it is sealed, in bytes; of outbound SAs.
    pub inner_mtu: Option<usize>,
    /// MTU of the path to the peer, in bytes.
    pub path_mtu: Option<usize>,
    /// True if a router reported that MTU.
    pub is_path_mtu_learnt: bool,
    /// Rest until the IKE daemon is told to rekey: the soft limits.
    #[serde(default)]
    pub until_rekey: Left,
    /// Rest until it is gone: the hard limits.
    #[serde(default)]
    pub until_expiry: Left,
    /// Keys in hexadecimal, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<BTreeMap<String, String>>,
}

/// Rest of an SA's limits of one kind, `None` where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Seconds that are left.
    pub s: Option<u64>,
    /// Bytes that are left.
    pub bytes: Option<u64>,
    /// Packets that are left.
    pub packets: Option<u64>,
}

/// One line of `culvert policy`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Policy {
    /// The database's number.
    pub index: u32,
    /// `in`, `out`, `fwd`.
    pub direction: Direction,
    /// Source prefix with port.
    pub src: String,
    /// Destination prefix with port.
    pub dst: String,
    /// Protocol, `any` for all.
    pub protocol: PolicyProtocol,
    /// The interface that its packets' routes lead to, if it names one.
    pub dev: Option<String>,
    /// Lower comes first, among those of devices and among those of software.
    pub priority: u32,
    /// The offload device that has it, and so comes before all of software's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// `protect`, `bypass`, `block`; `block (unsupported)` for what culvert cannot carry out and so
    /// blocks, `none (no tunnel)` where no tunnel interface has its `if_id`, `leave` where the kernel carries it out.
    pub action: PolicyAction,
    /// Why the kernel carries it out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// The protecting SA's end points and reqid, if it protects.
    pub templates: Vec<String>,
    /// Of an outbound one that protects: whether there are SAs for its templates. None where these differ from
    /// host to host.
    #[serde(default)]
    pub has_sas: Option<bool>,
    /// Mark, as `value/mask`, if any.
    pub mark: Option<String>,
    /// XFRM interface id, 0 for none.
    pub if_id: u32,
    /// Packets that it decided on.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Seconds since the last of them.
    pub idle_s: Option<u64>,
}

impl Policy {
    /// The action for people: with a word where it cannot be carried out for want of an SA, and with the device that
    /// carries it out.
    pub fn action_text(&self) -> String {
        let device = self.device.as_deref().map(|device| format!(" by {device}"));
        let no_sa = if self.has_sas == Some(false) { " (no SA)" } else { "" };
        format!("{}{}{no_sa}", self.action, device.unwrap_or_default())
    }
}

/// One line of `culvert device`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Device {
    /// Name in the configuration.
    pub name: String,
    /// Kind of the device.
    pub kind: DeviceKind,
    /// The port that SAs name to be in it.
    pub port: String,
    /// Work of the device: `crypto offload`.
    pub placement: SaPlacement,
    /// Which SAs it has: `asked`, `auto`.
    pub has: String,
    /// `up`, or why it is given nothing.
    pub state: State,
    /// How full its tables are.
    pub tables: Vec<DeviceTable>,
    /// Packets that it has sealed.
    pub sealed: u64,
    /// Packets that it has opened.
    pub opened: u64,
    /// Packets with a wrong ICV.
    pub wrong_icv: u64,
    /// Packets that it was given and did not work on.
    pub refused: u64,
    /// Packets of its SAs that software has worked on.
    pub in_software: u64,
    /// Packets that software has worked on beside it, to compare.
    pub compared: u64,
    /// Resets so far.
    pub resets: u64,
    /// The last moves of SAs, and what happened to it, the oldest first.
    pub moves: Vec<DeviceMove>,
}

/// An SA that has moved into an offload device or out of it, or something that happened to the device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceMove {
    /// How long ago, in seconds.
    pub age_s: u64,
    /// The SA's SPI, if it is about one.
    pub spi: Option<String>,
    /// Outer destination of the SA.
    pub dst: Option<String>,
    /// Where to: the device's name, or `software`; nothing if it is about the device.
    pub to: Option<String>,
    /// Reason of the move.
    pub why: String,
}

/// A table of an offload device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DeviceTable {
    /// Name of the table.
    pub name: String,
    /// Entries that are taken.
    pub used: usize,
    /// Entries of the table.
    pub most: usize,
}

/// One line of `culvert port`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Port {
    /// Name of the interface.
    pub interface: String,
    /// `af-xdp`, `packet`, `auto` (before one of these is chosen), `memif`, `vlan`, `tun` or `tunnel`.
    pub kind: PortKind,
    /// Of a tunnel interface: the `if_id` of its policies and SAs, if it has one.
    pub if_id: Option<u32>,
    /// Of a VLAN of a port: its identifier; of one that lies on another VLAN, that one's first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vlan: Vec<u16>,
    /// `up`, `down`, `missing`, with the reason.
    pub state: State,
    /// `native` or `generic`, and `copy` or `zero-copy`; of memif `server` or `client`; of a VLAN which, and of
    /// which port.
    pub mode: PortMode,
    /// Why it is of this kind, where the configuration leaves that open (`kind = "auto"`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<String>,
    /// Where the driver takes VLAN tags out of frames: `put back`, or `lost` and why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stripped_tags: Option<StrippedTags>,
    /// Queues that are taken.
    pub queues: u32,
    /// MTU in bytes.
    pub mtu: u32,
    /// MAC address of the interface.
    pub mac: String,
    /// Packets received by culvert.
    pub rx_packets: u64,
    /// Bytes received by culvert.
    pub rx_bytes: u64,
    /// Packets sent by culvert.
    pub tx_packets: u64,
    /// Bytes sent by culvert.
    pub tx_bytes: u64,
    /// Frames that XDP, or a memif port, left to Linux.
    pub passed_to_linux: u64,
    /// Faults of a memif port's peers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub faults: BTreeMap<String, u64>,
    /// The same by queue.
    pub by_queue: Vec<Queue>,
}

impl Port {
    /// True if it is a VLAN of another port.
    pub fn is_vlan(&self) -> bool {
        !self.vlan.is_empty()
    }
}

/// One line of `culvert port --queues`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// Number of the queue.
    pub queue: usize,
    /// The worker that has it.
    pub worker: usize,
    /// Packets that were received.
    pub rx_packets: u64,
    /// Bytes that were received.
    pub rx_bytes: u64,
    /// Packets that were sent.
    pub tx_packets: u64,
    /// Bytes that were sent.
    pub tx_bytes: u64,
}

/// Answer to `culvert route`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Routes {
    /// Rules, in the order of preference.
    pub rules: Vec<String>,
    /// Routes in the order of their tables.
    pub routes: Vec<Route>,
    /// Neighbours of the ports.
    pub neighbours: Vec<Neighbour>,
    /// Routes with segments that the fast path follows, and segments of this host.
    #[serde(default)]
    pub segments: Vec<SegmentRow>,
    /// Overlay interfaces of Linux, and which of them the fast path carries out.
    #[serde(default)]
    pub overlays: Vec<OverlayRow>,
}

/// An overlay interface of Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayRow {
    /// Name of the interface.
    pub interface: String,
    /// Kind as `ip -d link` calls it.
    pub kind: String,
    /// Address of this end, or `any`.
    pub local: String,
    /// Address of the far end, or `any`.
    pub remote: String,
    /// Key, or network identifier and UDP port.
    pub id: String,
    /// MTU of the interface in bytes.
    pub mtu: u32,
    /// Number of far ends that packets are sent to.
    pub far_ends: usize,
    /// True if the fast path carries it out.
    pub carried: bool,
    /// Reason for which it is left to Linux; empty if it is not.
    pub why: String,
}

/// A route with segments (SRv6), or a segment of this host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SegmentRow {
    /// Prefix of the destinations.
    pub dst: String,
    /// Routing table; none of what the configuration has.
    pub table: Option<u32>,
    /// Effect on packets, nearly as iproute2 writes it.
    pub does: String,
}

/// One route of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Route {
    /// Number of the table.
    pub table: u32,
    /// Prefix of the destinations.
    pub dst: String,
    /// `unicast`, `local`, `blackhole`, …
    pub kind: RouteKind,
    /// Addresses of the gateways.
    pub via: Vec<String>,
    /// Names of the interfaces.
    pub dev: Vec<String>,
    /// Metric of the route.
    pub metric: u32,
}

/// One neighbour of a port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// Name of the interface.
    pub dev: String,
    /// IP address of the neighbour.
    pub address: String,
    /// MAC address, if known.
    pub mac: Option<String>,
    /// `reachable`, `stale`, `failed`, …
    pub state: NeighbourState,
}

/// `culvert stats`: packets in, and how each ended; of all workers, or of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Packets received from ports and from Linux.
    pub received: u64,
    /// Packets that culvert made itself: fragments beyond the first, ICMP errors.
    pub generated: u64,
    /// Packets that a worker handed over to another, which has their SA or a queue of their port.
    pub handed_over: u64,
    /// Packets that a worker took over. What was handed over and not taken over is under way.
    pub taken_over: u64,
    /// How they ended.
    pub outcomes: Outcomes,
    /// Received, generated and taken over, less handed over and the sum of outcomes: 0, or a packet was
    /// lost uncounted.
    pub balance: i64,
    /// Work done, by kind.
    pub work: BTreeMap<String, u64>,
    /// Messages of GTP-U for applications, by what they are; none without applications.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gtpu: BTreeMap<String, u64>,
    /// How long packets were here.
    #[serde(default)]
    pub latency: Latency,
    /// The same for each worker by number, ended ones included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_worker: Vec<Stats>,
}

/// How long packets were here, from when they were taken from a port to when they were given to one; of one in
/// about a thousand.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Packets that were measured.
    pub sampled: u64,
    /// All their times together, in nanoseconds.
    pub sum_ns: u64,
    /// Median in nanoseconds. Those of a range count as spread evenly over it.
    pub p50_ns: Option<u64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Packets by range of times.
    pub ranges: Vec<LatencyRange>,
}

/// Packets that were here for longer than those of the range before, and not longer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyRange {
    /// The longest time, in nanoseconds; none in the last range.
    pub up_to_ns: Option<u64>,
    /// Packets in the range.
    pub packets: u64,
}

/// How packets ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcomes {
    /// Sent out of a port.
    pub transmitted: u64,
    /// Handed to Linux.
    pub to_linux: u64,
    /// Consumed by culvert itself.
    pub consumed: u64,
    /// Waiting now for a neighbour or an SA.
    pub held: u64,
    /// Dropped, for whatever reason.
    pub dropped: u64,
}

/// Answer to `culvert drops`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Drops {
    /// Count by reason; every reason is there.
    pub drops: BTreeMap<String, u64>,
    /// Packets that policies in the kernel have blocked, by Linux's own statistic; empty where no guard stands, or
    /// where Linux does not count.
    #[serde(default)]
    pub kernel: BTreeMap<String, u64>,
}
