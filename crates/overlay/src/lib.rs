//! Overlays on packets: what the near end puts in front of them, and what the far end finds.
//!
//! Bytes in, bytes out: no tables, no I/O. An [`Encap`] has the headers of one tunnel to one far end and writes them
//! in front of IP packets; [`look`] says which tunnel an arriving packet names, and where the packet inside begins.
//!
//! ```text
//!   packet ── Encap::apply ──> outer IP | GRE | packet                          (RFC 2784, RFC 2890)
//!                              outer IP | GRE | Ethernet | packet
//!                              outer IP | UDP | VXLAN | Ethernet | packet       (RFC 7348)
//!                              outer IP | UDP | GENEVE | [Ethernet |] packet    (RFC 8926)
//!                              outer IP | [UDP |] L2TPv3 | Ethernet | packet    (RFC 3931, RFC 4719)
//!          <── look ─────────
//! ```
//!
//! | part | subject |
//! | --- | --- |
//! | `gre`, `vxlan`, `geneve`, `l2tp` | one header each |
//! | `outer` | the IP header in front: TTL, traffic class, DF |
//! | `encap` | headers of one tunnel to one far end |
//! | `arrived` | the tunnel that a packet names |
//!
//! # Not handled
//!
//! - Sequence numbers of GRE and L2TPv3, GRE's routing (RFC 1701), options of GENEVE, VXLAN-GPE, group policies, NSH.
//! - Fragments of outer packets: who calls puts them together.
//! - Congestion marks of the outer header: who takes it off tells them inside (RFC 6040 §4.2).
#![forbid(unsafe_code)]

mod arrived;
mod encap;
pub mod fuzz;
mod geneve;
mod gre;
mod l2tp;
mod outer;
mod vxlan;

pub use arrived::{Arrived, Id, Inner, PortKind, Unread, look};
pub use encap::{Encap, EncapError, Macs, Ports, Shape, Udp};
pub use geneve::PORT as GENEVE_PORT;
pub use l2tp::{Cookie, PROTOCOL as L2TP_PROTOCOL, Session};
pub use outer::{Class, DontFragment, EcnMode, Outer, Ttl};
pub use vxlan::PORT as VXLAN_PORT;

/// The protocol number of GRE (RFC 2784).
pub const GRE_PROTOCOL: u8 = 47;
