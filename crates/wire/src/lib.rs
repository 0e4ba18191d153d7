//! Packet formats: parse, check, emit, edit.
//!
//! The crate knows what bytes mean and nothing else: no I/O, no clock, no state. Nothing here
//! allocates, and nothing panics, whatever the bytes.
//!
//! A packet from outside is checked once. What later stages need of it is in the record that the
//! check returns, so they do not look at the bytes again:
//!
//! ```text
//!   frame    [ Ethernet, VLAN | IP header | upper layer ................ ]
//!              ethernet         parse_ip: every packet, gives Headers
//!                               summary: plain TCP, UDP and ESP only, gives FlowKey and Fields
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`parse_ip`], [`Headers`] | the whole check, and all that it found |
//! | [`summarize`](summarize()), [`Summary`], [`Fields`] | the same for common packets, in a few wide loads |
//! | [`FlowKey`], [`FlowSeed`] | what makes packets one flow; its keyed hash |
//! | [`ipv4`], [`ipv6`], [`tcp`], [`udp`], [`icmp`], [`icmpv4`], [`icmpv6`], [`mod@esp`], [`ethernet`] | one header each: its diagram, a view with a checked constructor, a struct of fields that writes itself |
//! | [`natt`] | what a UDP payload on port 4500 is (RFC 3948) |
//! | [`gtpu`] | GTP-U, and its extension headers (3GPP TS 29.281) |
//! | [`checksum`]; [`fill_l4_checksum`], [`verify_l4_checksum`], [`complete_partial`] | the Internet checksum, and the ones of TCP, UDP and ICMP |
//! | [`decrement_ttl`], [`set_traffic_class`], [`set_ecn_ce`] | changes in place that keep IPv4's checksum right |
//! | [`Fragment`], [`FragmentFields`] | whether a packet is a fragment, and which part of what |
//! | [`Span`] | where a packet lies in a buffer with room around it |
//! | [`ParseError`], [`NoRoom`] | the sender's fault; the caller's |
//!
//! # Example
//!
//! ```
//! use wire::{FlowKey, FlowSeed, L4Checksum, decrement_ttl, fill_l4_checksum, ipv4, parse_ip, udp};
//! use wire::{protocol, verify_l4_checksum};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let mut packet = [0; 32];
//! let ip = ipv4::Ipv4Fields {
//!     traffic_class: 0, total_len: 32, ident: 1, dont_fragment: true, ttl: 64,
//!     protocol: protocol::UDP, src: [10, 1, 0, 1].into(), dst: [10, 2, 0, 1].into(),
//! };
//! ip.emit(&mut packet)?;
//! udp::UdpFields { src_port: 4000, dst_port: 53, len: 12, checksum: 0 }.emit(&mut packet[20..])?;
//!
//! let headers = parse_ip(&packet)?;
//! assert_eq!((headers.protocol, headers.dst_port), (protocol::UDP, 53));
//! assert!(fill_l4_checksum(&mut packet, &headers));
//! assert!(decrement_ttl(&mut packet, &headers), "a router's step");
//! assert_eq!(verify_l4_checksum(&packet, &headers), L4Checksum::Valid);
//!
//! // The TTL is no part of the flow.
//! let seed = FlowSeed::new(7);
//! let hash = FlowKey::of(&headers).hash(&seed);
//! assert_eq!(FlowKey::of(&parse_ip(&packet)?).hash(&seed), hash);
//!
//! packet[8] = 1; // as a bit error on the wire: the header checksum no longer fits
//! assert!(parse_ip(&packet).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Units and threads
//!
//! Numbers are in host byte order, lengths and offsets in bytes from the first byte of the IP
//! header, unless a name says otherwise. All types are plain values; any thread may use any of
//! them.
//!
//! # Not handled
//!
//! Options of IPv4 and TCP but the MSS, IPv6 jumbograms, MPLS, PPPoE. More than two
//! VLAN tags are not looked past. That EtherType and IP version agree is the caller's to check.
#![forbid(unsafe_code)]

pub mod checksum;
mod edit;
mod error;
pub mod esp;
pub mod ethernet;
mod fields;
pub mod flow;
mod fragment;
mod fragment_fields;
pub mod fuzz;
pub mod gtpu;
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
mod summary;
pub mod tcp;
pub mod udp;
mod vlan;

pub use edit::{ECN_CE, ECN_MASK, decrement_ttl, set_ecn_ce, set_traffic_class, traffic_class};
pub use error::{NoRoom, ParseError};
pub use esp::Spi;
pub use ethernet::{EtherType, EthernetHeader, MacAddr};
pub use fields::Fields;
pub use flow::{FlowKey, FlowSeed};
pub use fragment::Fragment;
pub use fragment_fields::FragmentFields;
pub use headers::{Family, Headers, parse_ip, parse_quoted_ip};
pub use l4::{L4Checksum, complete_partial, fill_l4_checksum, verify_l4_checksum};
pub use span::Span;
pub use summary::{Summary, summarize};
pub use vlan::VlanTags;
