//! Congestion control of a constant rate (RFC 9347, section 2.4.2): TCP-friendly rate control (RFC 5348), told in the
//! header of sub-type 1.
//!
//! ```text
//!   inbound SA                                        outbound SA
//!   payload ──> [`Arrivals`] ── [`Report`] ─────────> [`Sender`] ──> header that leaves
//!               losses ──> loss event rate, its inverse         └──> payloads a second
//!               the value to send back
//!               what the other end says of what it got
//! ```
//!
//! | part | RFC 5348 |
//! | --- | --- |
//! | [`throughput`] | 3.1, 6.3.1 |
//! | [`losses`] | 5, 6 |
//! | [`sender`] | 4 |
//! | [`breaker`]: for a rate that does not follow | RFC 8084 |
//!
//! Times are microseconds of a clock that does not go back, one for both halves. What an inbound SA brings is told by the
//! outbound SA of the same pair; the halves may be with two threads, so they share nothing but reports.
//!
//! # Not handled
//!
//! Discounting of old intervals (section 5.5), which is optional. The rate at which the other end receives is not told
//! by the header: as payloads leave evenly, a doubling a round trip stands for section 4.3's limit by it.

pub mod arrivals;
pub mod breaker;
pub mod losses;
pub mod report;
pub mod sender;
pub mod throughput;

pub use arrivals::Arrivals;
pub use breaker::{Breaker, Cause, Change};
pub use report::{Heard, Report};
pub use sender::{Bounds, Sender};

/// Times of 32 bits: a round trip is shorter than the hour after which they come back.
const fn low_half(time_us: u64) -> u32 {
    time_us as u32 // the low half is meant
}
