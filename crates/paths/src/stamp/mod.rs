//! STAMP: the Simple Two-Way Active Measurement Protocol (RFC 8762), with session identifiers and extensions (RFC 8972).
//!
//! A sender's test packet goes to UDP port [`PORT`] and comes back as a reflection of the same length.
//!
//! | | without a key | with a key |
//! | --- | --- | --- |
//! | length in bytes | 44 | 112 |
//! | number | 0 | 0 |
//! | timestamp | 4 | 16 |
//! | error estimate | 12 | 24 |
//! | session identifier | 14 | 26 |
//! | reflection: receive timestamp | 16 | 32 |
//! | reflection: number of the probe | 24 | 48 |
//! | reflection: timestamp of the probe | 28 | 64 |
//! | reflection: error estimate of the probe | 36 | 72 |
//! | reflection: TTL of the probe | 40 | 80 |
//! | HMAC | | 96 |
//!
//! Extensions follow it, see [`tlv`].

mod copies;
mod direct;
mod key;
mod packet;
mod time;
pub mod tlv;

pub use direct::Counts;
pub use key::{Key, KeyError};
pub(crate) use packet::received_of;
pub use packet::{Layout, Malformed, Reflection, TestPacket};
pub use time::{ErrorEstimate, Timestamp};

/// UDP port of reflectors (RFC 8762 §4.1).
pub const PORT: u16 = 862;

/// Questions of a sender's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    /// Identity of a sender that asks for removal of its second copies.
    pub(crate) sender: Option<u64>,
    /// Packets that it has sent, if the far end is to tell its counts.
    pub(crate) sent: Option<u32>,
}
