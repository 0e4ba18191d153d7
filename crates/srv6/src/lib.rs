//! SRv6 on packets: what a headend does to them, and what a segment that ends here does.
//!
//! Bytes in, bytes out: no tables, no I/O. A [`Headend`] puts segments on a packet (RFC 8986 §5), a [`Sid`]
//! takes one step of them (RFC 8986 §4) and says where the packet goes on: by another look-up, by a table, by a
//! next hop ([`Next`]), or why it does not ([`Refusal`]), with the ICMP error that its sender is told.
//!
//! ```text
//!   packet ── Headend::apply ──> IPv6 | SRH | packet ── Sid::process ──> IPv6 | SRH | packet   (next segment)
//!                                                              └───────> packet               (decapsulated)
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `srh` | the segment routing header (RFC 8754 §2) |
//! | `chain` | where it and the upper layer stand in a packet |
//! | `headend` | H.Encaps, H.Insert, H.L2Encaps, each reduced or not |
//! | `sid` | what a segment is: behaviour, flavours, compression |
//! | `endpoint` | the step that a packet takes at a segment |
//! | `csid` | compressed segments: NEXT-CSID and REPLACE-CSID (RFC 9800) |
//! | `quoted` | what ICMPv6 errors quote of a headend's packets |
//!
//! # Not handled
//!
//! - The HMAC TLV (RFC 8754 §2.1.2): a packet that has one is refused, [`Fault::Hmac`].
//! - Outer packets in fragments: their upper layer is not to be had, [`Fault::Fragment`].
#![forbid(unsafe_code)]

mod chain;
mod csid;
mod endpoint;
mod fault;
pub mod fuzz;
mod headend;
mod quoted;
mod sid;
mod srh;

pub use csid::Csid;
pub use endpoint::{Done, Inner};
pub use fault::{Fault, Icmp, Refusal};
pub use headend::{Headend, HeadendError, MAX_SEGMENTS, Mode};
pub use quoted::Quoted;
pub use sid::{Behaviour, Flavours, Next, Sid};
pub use srh::{Srh, emit};

/// The protocol number of Ethernet in IPv6 (RFC 8986 §9.1).
pub const ETHERNET: u8 = 143;
