//! A NIC with inline IPsec crypto: a model of the hardware, and the driver that makes an
//! [`offload::Device`] of it.
//!
//! The model follows Intel's 82599 family by its public data sheet: names and addresses of registers, sizes
//! of tables, fields of descriptors. It has what IPsec needs of them and nothing else: no MAC, no DMA, no rings.
//!
//! | part | file | stands for |
//! | --- | --- | --- |
//! | [`Nic`] | `model.rs`, `engine.rs` | the hardware: tables behind registers, cipher, descriptors |
//! | [`registers`] | | addresses and fields |
//! | [`descriptor`] | | what goes with a packet to and from the hardware |
//! | [`Fault`] | `fault.rs` | what can be wrong with the hardware, for tests |
//! | [`NicDevice`] | `driver.rs`, `shadow.rs`, `queue.rs` | the driver: shadow tables, reload after a reset, queues |
//!
//! # What it does
//!
//! | | |
//! | --- | --- |
//! | SAs | 1024 to transmit, 1024 to receive |
//! | addresses | 128 destinations of received packets, each shared by any number of SAs |
//! | algorithms | AES-128-GCM and AES-128-GMAC, ICV of 16 bytes |
//! | protocol, modes | ESP, tunnel and transport; the model's tables know AH, its driver offers none |
//! | numbers | 32 bits: no ESN |
//! | headers | IPv4 without options, IPv6 without extension headers, no fragments, no UDP encapsulation |
//!
//! # A packet's way
//!
//! Transmit: software writes headers, IV, padding and trailer, and leaves the ICV's bytes free. The context
//! descriptor names the SA's place, and where ESP is; the hardware encrypts and writes the ICV.
//!
//! Receive: the hardware finds the address, then the SA by address and SPI, and compares the protocol. Of a packet
//! that it knows, the descriptor says so (`SECP`), with an error: the protocol was another one, the length
//! cannot be, the ICV was wrong. What it does not know comes as it is, and software opens it.
//!
//! # Reset
//!
//! A reset empties every table and switches the engines off; until the driver has loaded the tables anew, packets
//! come and go without IPsec, and software works on them. Sequence numbers are software's, so none can be lost.

pub mod descriptor;
mod driver;
mod engine;
mod fault;
mod model;
mod queue;
pub mod registers;
mod shadow;
mod shared;

pub use driver::NicDevice;
pub use engine::EngineError;
pub use fault::{Fault, UnknownFault};
pub use model::{Counters, Nic, TransmitError};
pub use shared::SharedNic;
