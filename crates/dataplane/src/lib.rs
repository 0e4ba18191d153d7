//! The worker: bursts of packets from port to port.
//!
//! A packet's way: [`Worker::round`] receives a burst from each port; a frame from an Ethernet
//! port is parsed once (`ingress.rs`); ESP for this host goes to `inbound.rs`, the rest and
//! everything decrypted to `outbound.rs`, which asks the policy database before any route;
//! `egress.rs` finds the neighbour and queues the frame. Crypto runs once per round and direction,
//! over all packets gathered. Every packet ends in exactly one [`outcome::Outcome`].
//!
//! # Not handled
//!
//! - VLAN interfaces and bridges above a port: their frames should be left to Linux by steering;
//!   a tagged frame that comes here all the same is dropped.
//! - ESP that arrives in fragments, and ESP inside ESP.
//! - Path MTUs that routers on the way to the peer tell by ICMP, unless Linux's route has them.
//! - Marks and XFRM interfaces: a packet has neither. Linux's reverse path filter (`rp_filter`).
//! - One SA on several workers.
//!
//! # Threads
//!
//! A [`Worker`] is owned by one thread. The control thread publishes [`Tables`], changes the
//! databases behind the worker's reader, sends [`Command`]s and reads [`Counters`]; nothing of
//! that makes the worker wait.
#![forbid(unsafe_code)]

mod counters;
mod egress;
mod event;
mod fit;
mod icmp;
mod inbound;
mod ingress;
mod outbound;
mod tables;
mod worker;

pub use counters::{Counter, Counters, Totals, Work};
pub use event::{Event, EventReceiver, EventSender, Waker, channel};
pub use tables::{Interface, Tables, Topology};
pub use worker::{Command, MAX_PORTS, Now, Worker, WorkerParts};
