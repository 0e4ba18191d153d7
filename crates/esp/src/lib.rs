//! One SA's packet work: sequence numbers, replay window, encapsulation, decapsulation.
//!
//! Everything here is pure: no I/O, no clock, no allocation per packet. The encryption itself is a
//! [`crypto::Engine`]'s, between the two halves of each direction:
//!
//! | outbound | inbound |
//! | --- | --- |
//! | [`Sa::lease`]: numbers for a run of packets | |
//! | [`Sa::seal_prepare`]: headers, IV, padding | [`Sa::open_prepare`]: lengths, replay |
//! | [`crypto::Job::esp`] with [`crypto::Op::Seal`] | [`crypto::Job::esp`] with [`crypto::Op::Open`] |
//! | [`Sa::seal_finish`]: status, UDP checksum | [`Opening::content`]: status, trailer, content |
//! | | [`Sa::open_accept`]: replay window, counters |
//!
//! A burst goes through each step as a whole. An SA's numbers have one writer: whoever leases,
//! counts ([`Sa::payload_len`]) and accepts. The steps between touch the packet alone, and may be
//! any thread's.
#![forbid(unsafe_code)]

mod cells;
mod ecn;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod iv;
mod open;
mod params;
mod replay;
mod ring;
mod sa;
mod seal;
mod sequence;
mod size;
mod transport;

pub use cells::Cells;
pub use ecn::EcnDecap;
pub use iv::IvSource;
pub use open::{Content, Opened, Opening};
pub use params::{Mode, SaFlags, SaParams, UdpEncap};
pub use replay::ReplayWindow;
pub use ring::MAX_REPLAY_WINDOW;
pub use sa::{Sa, SaError};
pub use seal::Sealing;
pub use sequence::{Headroom, Lease, Number};
