//! Bidirectional Forwarding Detection (RFC 5880, 5881, 5883), and FRR's protocol for data planes.
//!
//! | part | content |
//! | --- | --- |
//! | [`Packet`] | control packets: checks on reception, and bytes to send |
//! | [`Session`] | one session: state, timers, poll sequences |
//! | [`Standing`] | a session as it stands, for who manages it |
//! | [`dplane`] | messages between FRR's `bfdd` and a data plane (`bfdd --dplaneaddr`) |
//!
//! The crate does no I/O. Times are monotonic nanoseconds of the caller; intervals are microseconds, as on the wire.
//!
//! # Not handled
//!
//! Authentication and point-to-multipoint sessions. A packet that asks for them is refused by name ([`Refused`]). A peer in
//! demand mode gets its way; this end never asks for it. Echo packets of peers are the caller's to send back; this end sends
//! none.

#![forbid(unsafe_code)]

pub mod dplane;
pub mod fuzz;
mod packet;
mod session;
mod standing;
mod state;

pub use packet::{PACKET_LEN, Packet, Refused};
pub use session::{Session, Settings, Timers};
pub use standing::{Counts, PeerSaid, Standing};
pub use state::{Diagnostic, State};

/// UDP port of single-hop sessions (RFC 5881 §4).
pub const SINGLE_HOP_PORT: u16 = 3784;

/// UDP port of multi-hop sessions (RFC 5883 §5).
pub const MULTI_HOP_PORT: u16 = 4784;

/// UDP port of echo packets (RFC 5881 §4).
pub const ECHO_PORT: u16 = 3785;

/// First of the source ports that senders use (RFC 5881 §4).
pub const FIRST_SOURCE_PORT: u16 = 49_152;

/// TTL of packets, and of those of single-hop sessions where they arrive (RFC 5881 §5).
pub const TTL: u8 = 255;
