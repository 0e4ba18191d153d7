//! Packet formats: parse, check, emit; no I/O.
//!
//! Every packet from outside is checked once, by [`parse_ip`] or, where its flow's key and a word of
//! lengths are enough, by [`digest`]; later stages read the [`Headers`] or the [`Digest`] that these
//! return. The modules hold one header each: a view with a checked constructor for those who need
//! more than [`Headers`] has, and a struct of fields that writes itself.
//!
//! Nothing here allocates, and nothing here panics, whatever the bytes.
#![forbid(unsafe_code)]

mod brief;
pub mod checksum;
mod digest;
mod edit;
mod error;
pub mod esp;
pub mod ethernet;
pub mod flow;
pub mod fuzz;
mod headers;
pub mod icmp;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
mod l4;
pub mod natt;
pub mod protocol;
mod span;
pub mod tcp;
pub mod udp;

pub use brief::Brief;
pub use digest::{Digest, digest};
pub use edit::{ECN_CE, ECN_MASK, decrement_ttl, set_ecn_ce, set_traffic_class, traffic_class};
pub use error::{NoRoom, ParseError};
pub use esp::Spi;
pub use ethernet::{EtherType, EthernetHeader, MacAddr};
pub use flow::{FlowKey, FlowSeed};
pub use headers::{Family, Fragment, Headers, parse_ip};
pub use l4::{L4Checksum, complete_partial, fill_l4_checksum, verify_l4_checksum};
pub use span::Span;
