//! The data path: what a worker does to bursts of packets, from port to port.
//!
//! ```text
//!   port ──> receive ──> classify ──> flows ──hit─> features ─┬──────────────────────> out ──> port
//!   Linux ─>                            │ miss         ^     └─ seal, open ─> crypt ──┘ │
//!                                       v              │ verdict                │       ├──> Linux
//!                                      slow ─ resolve ─┘         inner packet <─┘       ├──> held
//!                                                                to flows               └──> dropped
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `worker` | a round over all ports, commands, sleep; helpers, which take whole bursts |
//! | `burst` | the passes of a burst |
//! | `model` | nouns that several of the parts below name: actions, next hops, how packets come and go on |
//! | `view` | what a burst is judged by: tables, databases, time; stands still for the burst |
//! | `burst::classify` | pass 1: Ethernet and IP headers, whether it is ESP for this host, the flow's key |
//! | `flows` | pass 2: the flow cache, its plans, and what voids them |
//! | `slow` | misses: resolve, remember, carry out; packets that wait for an SA, ICMP errors |
//! | `resolve` | decisions: policy, SA, route, size. Looks everything up and changes nothing |
//! | `features` | pass 3: actions carried out, fresh and cached ones alike; a room for each feature |
//! | `crypt` | seal and open work by the burst: numbered, submitted to the engine, polled |
//! | `out` | ports, packets that wait for a neighbour, and `Out`, the only exit |
//! | `team`, `host_limits` | a set of workers: who hands packets to whom, and the limits of all of them |
//! | `explain` | what would be done with a packet, and why |
//! | `capture` | records of packets before and after IPsec, for who captures |
//! | `burst::prefetch` | many SAs: what a burst will touch, a level of pointers at a time |
//! | [`Tables`], [`Command`], [`Event`], [`Counters`] | what passes between the control thread and a worker |
//!
//! # A packet's way
//!
//! 1. [`Worker::round`] takes over what has changed, and receives a burst from each port.
//! 2. Every packet is classified and hashed, and looked for in the flow cache.
//! 3. A plan that holds for the packet is carried out. Otherwise the packet is a miss: `resolve` returns
//!    a verdict, and an action that is good for the whole flow becomes its plan.
//! 4. What is to be encrypted or decrypted is gathered, and goes through the engine by the burst.
//!    Numbers are leased before the cipher; the replay window is moved after it, in the order of
//!    arrival. A decrypted packet goes on as one of the inner flow, from step 2.
//! 5. `Out` sends it, hands it to Linux, holds it, or ends it with a reason. Each packet ends in exactly
//!    one [`outcome::Outcome`], and between two rounds the counters balance.
//!
//! ICMP errors are resolved when the burst is done, and so are packets whose fragments have all come. Held packets go on
//! when their SA or neighbour is there. Each does so as a packet of its own. A packet out of IPComp or IP in IP goes on at
//! once, as an inner one.
//!
//! # Threads
//!
//! A [`Worker`] is owned by one thread. The control thread publishes [`Tables`], changes the
//! databases behind the worker's reader, sends [`Command`]s and reads [`Counters`]; nothing of
//! that makes the worker wait.
//!
//! An SA has one writer of its numbers, window and counters at a time: the worker that is its home, the
//! first that met it ([`policy::SaEntry::home`]). The others of a [`Team`] hand its packets over,
//! before anything of them is counted; a full queue drops them (`hand-over-full`). Packets of one flow
//! take one way, so their order is kept.
//!
//! A home with helpers ([`Worker::add_crypto_pool`], [`CryptoWorker`]) shares its bursts with them. The
//! writer is then the holder of the turn, which goes from burst to burst in the order of arrival.
//! Everything else of a burst (headers, look-ups, cipher) touches the packets and what the thread has for
//! itself.
//!
//! No packet of a known flow waits for a lock, and nothing is allocated or logged for it. The two SAs of a pair of IP-TFS
//! try the lock of their reports, and report later where it is taken.
//!
//! For another set of workers the control thread pauses all of them ([`Command::Pause`]) and calls
//! [`Worker::settle`], [`Worker::take_ports`], [`Worker::adopt`] and [`Worker::set_team`] while none runs.
//!
//! # Not handled
//!
//! - More than two VLAN tags: such a frame is dropped.
//! - A home that moves while workers run: the homes of all SAs are vacated with a change of workers.
#![forbid(unsafe_code)]

mod burst;
mod capture;
mod counters;
mod crypt;
mod event;
mod explain;
mod features;
mod flows;
pub mod gtpu;
mod host_limits;
mod latency;
mod model;
mod out;
mod resolve;
mod slow;
mod tables;
mod team;
mod view;
mod worker;

pub use crate::model::{
    Came, Explanation, FIRST_SEGMENTS, FIRST_VLAN_SLOT, Fate, MAX_OVERLAYS, MAX_SEGMENT_ROUTES,
    NatSays, Now, PathBy, PolicySays, PortKind, Probe, Step, Way, slots,
};

pub use capture::{
    Buffer, Drops, Filter, FlowFilter, Gone, MAX_TAPS, OfSa, Place, PolicyFilter, Record, Recorder,
    TapConfig, TapReader, Verdict, tap,
};
pub use counters::{Counters, Totals, Work};
pub use event::{
    Cause as BreakCause, Event, EventReceiver, EventSender, PathState, Waker, channel,
};
pub use features::bfd::{BfdAsked, BfdChange, BfdRefusals, BfdReports, BfdSession, is_link_local};
pub use features::device::DevicePacket;
pub use features::look::{Copier, Copies, CopyCounts, CopyReader, NoMore as NoMoreCopies, copies};
pub use features::paths::{
    ClearReflector, PathReflector, PathReport, PathReports, PathSession, PathSetup, ProbeExit,
    Probes,
};
pub use latency::{BOUNDS_NS, BUCKETS, EVERY, Latency, Times};
pub use tables::applications::Applications;
pub use tables::links::Links;
pub use tables::mark_rule::MarkRule;
pub use tables::overlays::{FarEnd, OverlayLink, Overlays};
pub use tables::path_ends::{ClearEnds, PathEnds};
pub use tables::rate_rules::{Each, RateRule, RateRules};
pub use tables::remark::{CodePoints, Remark};
pub use tables::replication::{Beside, CopyRemoval, CopyWay, ParityPlan, Replication, Streams};
pub use tables::segments::{Function, SegmentRoute, Segments};
pub use tables::steering::{ClearExit, PathExit, SteerRule, Steering};
pub use tables::traffic::{TrafficDirection, TrafficMatch};
pub use tables::tunnel::{Binding, Tunnel, Tunnels, Vti};
pub use tables::vlan::{Priorities, Vlan, VlanCounters, VlanStats, Vlans};
pub use tables::{Interface, SaMtu, SocketWay, Tables, Topology};
pub use team::{MAX_WORKERS, Team};
pub use worker::{
    Command, CryptoParts, CryptoWorker, DEFAULT_FLOWS, Polling, TakenPort, Worker, WorkerParts,
};
