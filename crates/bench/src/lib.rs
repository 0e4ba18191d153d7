//! Culvert's benchmarks: how fast one core moves packets, and how much of that is the cipher's.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`options`], [`row`], [`error`] | what can be asked, what comes back |
//! | `esp` | the benches `esp`, `forward` and `sas`: the gateway's path on one core |
//! | `raw` | the bench `crypto`: the cipher alone, which bounds the others |
//! | `gateway`, `world`, `shape`, `traffic`, `port` | the gateway under test and everything around it |
//! | `timing`, `cycles`, [`allocation`], `random` | clocks, counts, and numbers that repeat |
//! | `round_trip`, `sibling` | how far apart two cores are, and whether others use them too |
//! | `growth`, `rekey`, `scale` | the benches `growth`, `rekey`, `install` and `scale` |
//! | `offloading`, `device_tables`, `free_device`, `free_cipher`, `outside` | the bench `offload`: beside devices whose own work costs nothing |
//! | `cell` | the bench `small-cell`: through IPsec to an application at a memif port, and back |
//! | `srv6` | the bench `srv6`: segments on packets, and off, beside Linux |
//! | `overlay` | the bench `overlay`: GRE and VXLAN inside of ESP |
//! | [`limits`] | the bench `limits`: ways to share rate limits |
//! | [`moves`] | the bench `moves`: a path dies, and its flows take another |
//! | `exchange` | of `scale`: workers that hand packets over |
//! | `rtl` (feature `rtl`) | the bench `rtl`: the gateway in hardware, simulated |
//! | `peer` | the bench `peer`: beside DPDK's gateway |
//! | `benches`, [`plot`] | all benchmarks by name, and their charts |
//! | `listener`, `rows` | rows are told as they come |
//! | [`guard`] | what the instruction guard counts |
//! | [`machine`], [`report`] | what it was measured on, and a report of it all |
//!
//! # Method
//!
//! [`dataplane::Worker::round`] is timed over ports in memory, as the daemon runs it: parse,
//! source check, policy or SA look-up, replay check, lifetimes and counters, headers, cipher, route,
//! neighbour, Ethernet header, transmit queue. Nothing is switched off that a gateway has on:
//! replay windows of 128, strict reverse path filters, volume limits, destination addresses of
//! frames. The work of a network card and a peer is not timed: packets are written, and
//! for the inbound direction sealed with fresh sequence numbers, between the timed pieces.
//!
//! The packets under way lie in 16 MiB of buffers, in random order, so they are not in the
//! second-level cache when their turn comes. They belong to 1024 flows. Every result is checked
//! once before it is timed: what comes out, opened by the peer, must be what went in.
//!
//! Pieces of time in which another process had the core are thrown away, and so are those before or
//! after which another machine worked on the core's other half (`sibling`), as long as there are others. Where
//! rates of a repetition still differ, the median counts, and the slowest and the fastest are told.
//!
//! The raw cipher is measured in turns with the gateway, in buffers of the same shape.

#![deny(unsafe_code)]

pub mod allocation;
mod benches;
mod cell;
mod cycles;
mod device_tables;
mod direction;
pub mod error;
mod esp;
mod exchange;
mod free_cipher;
mod free_device;
mod gateway;
mod growth;
pub mod guard;
mod iptfs;
pub mod limits;
mod listener;
pub mod machine;
pub mod moves;
mod offloading;
pub mod options;
mod outside;
mod overlay;
mod peer;
mod pin;
pub mod plot;
mod port;
mod random;
mod raw;
mod rekey;
pub mod report;
mod round_trip;
pub mod row;
mod rows;
#[cfg(feature = "rtl")]
mod rtl;
mod scale;
mod shape;
mod sibling;
mod srv6;
mod timing;
mod traffic;
mod world;

pub use benches::Bench;
pub use error::BenchError;
pub use listener::{Listener, Nobody};

pub use options::{Direction, MIN_SIZE, Options, suite_by_name};

pub use peer::Peer;
pub use row::Row;
