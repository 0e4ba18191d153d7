//! memif 2.0: packets to and from another program (DPDK, VPP, an application) by memory that both map.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`message`] | the messages of the control channel, 128 bytes each |
//! | [`channel`] | the control channel: a SEQPACKET socket that carries messages and descriptors |
//! | [`region`] | shared memory: seals, bounds, copies |
//! | [`ring`] | a ring of descriptors in it |
//! | [`receive`], [`transmit`] | the two ends of a ring: packets out of it, packets into it |
//! | [`queue`] | one ring of each direction |
//! | [`server`], [`client`] | how the two roles come to terms |
//! | [`link`](mod@link) | a peer: its channel, and how far it has come |
//! | [`port`] | a queue as a packet port ([`io::Port`]) |
//! | [`fault`] | what peers do wrong, counted by name |
//!
//! # Who owns what
//!
//! The client owns the memory, the rings in it, and the index `head` of each ring; the server owns `tail`.
//!
//! ```text
//!   client to server   client: fills a buffer, head += 1    server: reads it, tail += 1
//!   server to client   client: gives an empty buffer, head += 1    server: fills it, tail += 1
//! ```
//!
//! # One copy
//!
//! A packet is copied once between the client's buffer and a frame of our own. Nothing is parsed where it lies
//! in shared memory: a client that writes there while a packet is looked at could have one packet judged and another
//! one encrypted. A client need not copy: its buffers may be where its own packets are (`zero-copy=yes` of DPDK).
//!
//! # A peer is not trusted
//!
//! - What is in shared memory is read once, as an atomic or by a copy, and checked after it was read: region,
//!   offset, length, flags and index of each descriptor.
//! - A region must be a memory file that cannot be made shorter (`F_SEAL_SHRINK`), or a peer could end this
//!   process by cutting it (SIGBUS). [`region::Trust`] has the exception, for peers that are as trusted as we are.
//! - Its regions are bounded in all ([`ServerConfig::most_bytes`]): a hole in one becomes this process's memory when it
//!   is touched, and a worker that touches one while the peer punches it waits for as long as that takes.
//! - A packet with a bad descriptor is dropped and counted ([`fault::Fault`]). An index that cannot be, or a bad buffer to
//!   write to, ends the connection.
//! - What a peer waits on is the peer's to block: no worker touches it (`bell`).
//! - Whatever a peer does, a call works on at most one ring's length of descriptors.
//!
//! # Threads
//!
//! A [`link::Link`] is one thread's. Each queue that it hands out may go to a thread of its own.

#![deny(unsafe_code)]

mod bell;
pub mod channel;
pub mod client;
pub mod fault;
pub mod fuzz;
pub mod link;
pub mod message;
pub mod port;
pub mod queue;
pub mod receive;
pub mod region;
pub mod ring;
pub mod server;
pub mod transmit;

pub use channel::{Channel, ChannelError, Listener};
pub use client::ClientConfig;
pub use fault::{Fault, Faults};
pub use link::{Link, LinkError};
pub use port::{MemifPort, Parts};
pub use queue::Queue;
pub use region::Trust;
pub use server::ServerConfig;

/// The largest ring, as a power of two: what DPDK takes.
pub const MAX_LOG2_RING_SIZE: u8 = 14;

/// The most regions of a peer.
pub const MAX_REGIONS: u16 = 64;
