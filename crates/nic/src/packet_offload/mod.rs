//! A NIC that does all of IPsec for the packets of its SAs and policies (packet offload): a model of the hardware, and
//! the driver that makes an [`offload::Device`] of it.
//!
//! It is made after what Linux's drivers of such NICs offer (`xfrm_device.rst`, packet offload), and not after the
//! registers of one of them.
//!
//! | part | file | stands for |
//! | --- | --- | --- |
//! | hardware | `hardware.rs` | what becomes of a packet: policy, SA, limits, headers, numbers, cipher, window |
//! | policies | `policies.rs` | their look-up: a hash table for each shape of selector |
//! | SAs | `sas.rs` | their table, and what they count |
//! | [`PacketNic`] | `driver.rs`, `queue.rs` | the driver: what is put in and taken out, queues |
//!
//! # What it does
//!
//! | | |
//! | --- | --- |
//! | SAs | 65,536 of each direction |
//! | policies | 131,072 of each direction, in and out |
//! | algorithms | AES-GCM with keys of 128 and 256 bits, ICV of 16 bytes |
//! | protocol, modes | ESP, tunnel and transport, of IPv4 and IPv6; no UDP encapsulation |
//! | numbers | of 32 bits, and extended ones |
//! | replay windows | 32 to 256 packets |
//! | fragments | none: those of cleartext, of ESP and inside of ESP are dropped |
//!
//! A packet in clear to be sealed without a policy, and one that was opened and that no inbound policy with the SA's
//! reqid selects, are dropped.
//!
//! # Reset
//!
//! There is none: numbers, windows and counts are in the hardware, and would be lost.

mod driver;
mod hardware;
mod policies;
mod queue;
mod sa_index;
mod sas;

pub use driver::{Cord, PacketNic, PacketNicError, Sizes};
pub use policies::Policies;
pub use sa_index::SaIndex;
