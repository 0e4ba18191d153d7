//! Accelerators through DPDK's cryptodev library, as offload devices: Intel QAT, NXP's SEC, AMD CCP, Marvell's, and
//! the drivers that are software. Each is a line of configuration, as DPDK's drivers make them all alike.
//!
//! Crypto offload: the device does cipher and ICV of one ESP packet, all else is software's.
//!
//! | part | file |
//! | --- | --- |
//! | what DPDK is started with | `settings.rs` |
//! | `CryptoDevice`, the device | `device.rs` |
//! | its SAs and sessions | `sa.rs` |
//! | a worker's queue: a queue pair | `queue.rs`, `shared.rs` |
//! | algorithm suites in DPDK's words | `algorithm.rs` |
//! | an ESP packet in a device's memory | `packet.rs` |
//! | which suites a device really has | `proof.rs` |
//! | DPDK behind safe types | `sys`, `shim/` |
//!
//! # What it costs
//!
//! A device reads and writes memory that DPDK knows alone, so a packet is copied there and back.
//!
//! # Which suites
//!
//! Those that the driver's capabilities name, and that give the known answers of `crypto::self_test` when the device
//! is opened. What a driver names and does otherwise is left to software.
//!
//! # Threads
//!
//! Queue pairs are for any thread, one at a time. DPDK's environment is the process's, and starts once: a device that
//! is not among those of the first `start` is not there.
//!
//! Without the feature `dpdk` the crate is empty.
#![cfg(feature = "dpdk")]
#![deny(unsafe_code)]

mod algorithm;
mod device;
mod error;
mod packet;
mod proof;
mod queue;
mod sa;
mod settings;
mod shared;
mod sys;

pub use device::CryptoDevice;
pub use error::{OpenError, StartError};
pub use settings::{Settings, start};
pub use sys::version;

/// Event devices (Intel DLB2, NXP, Marvell): queues between threads in hardware, of the kinds that the crate `dispatch` has in
/// memory. An example, which says how they compare; the data path has no use for it.
pub mod events {
    pub use crate::sys::{Events, Order, Taken};
}
