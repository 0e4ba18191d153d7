//! The worker: bursts of packets from port to port.
//!
//! A packet's way: [`Worker::round`] receives a burst from each port and takes it through passes
//! (`ingress.rs`): all packets are parsed once and hashed, all are looked for in the flow cache
//! (`flow_cache.rs`; of an encrypted packet the place may be guessed, `guess.rs`), and then each is
//! moved on. A packet whose flow has a plan that holds
//! (`plan.rs`) goes by it (`fast.rs`). Any other goes the full way, which is the reference: ESP for
//! this host to `inbound.rs`, the rest and everything decrypted to `outbound.rs`, which asks the
//! policy database before any route; `egress.rs` finds the neighbour and queues the frame. What is
//! to be encrypted or decrypted is gathered, and goes through the engine by the burst (`sealing.rs`,
//! `opening.rs`). Bursts may be shared with crypto threads (`batch.rs`, `crypto_pool.rs`). Every packet
//! ends in exactly one [`outcome::Outcome`].
//!
//! # Not handled
//!
//! - VLAN interfaces and bridges above a port: their frames should be left to Linux by steering;
//!   a tagged frame that comes here all the same is dropped.
//! - ESP that arrives in fragments, and ESP inside ESP.
//! - Path MTUs that routers on the way to the peer tell by ICMP, unless Linux's route has them.
//! - Marks and XFRM interfaces: a packet has neither. Linux's reverse path filter (`rp_filter`).
//! - One SA on several workers. Several cores for one SA are what [`Worker::add_crypto_pool`] is
//!   for.
//!
//! # Threads
//!
//! A [`Worker`] is owned by one thread. The control thread publishes [`Tables`], changes the
//! databases behind the worker's reader, sends [`Command`]s and reads [`Counters`]; nothing of
//! that makes the worker wait.
#![forbid(unsafe_code)]

mod apply;
mod burst;
mod classify;
mod counters;
mod crypt;
mod event;
mod flows;
mod packets;
mod prefetch;
mod resolve;
mod slow;
mod tables;
mod team;
mod view;
mod worker;

pub use counters::{Counter, Counters, Totals, Work};
pub use event::{Event, EventReceiver, EventSender, Waker, channel};
pub use packets::ports::MAX_PORTS;
pub use tables::{Interface, Tables, Topology};
pub use team::{MAX_WORKERS, Team};
pub use view::Now;
pub use worker::{
    Command, CryptoParts, CryptoWorker, DEFAULT_FLOWS, Polling, TakenPort, Worker, WorkerParts,
};
