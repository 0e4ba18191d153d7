//! Where a packet goes, and what comes back when it cannot go there.
//!
//! Linux's decisions in user space, from tables that `mirror` fills. No I/O and no clock: time
//! comes in as an argument, in nanoseconds of any monotonic clock.
//!
//! ```text
//!   destination ──> Fib::lookup ──> RouteResult::neighbour ──> Neighbours::resolve ──> MAC address
//!                       │ none, blackhole, ...                      │ not known yet
//!                       v                                           v
//!                   icmp_error, RateLimiter                     HoldQueue
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Routes`], [`RouteChange`] | rules and routes as Linux has them, changed one by one |
//! | [`Fib`], [`RouteResult`], [`SourceCheck`] | what they were at one moment; look-up, and the check of a source address |
//! | [`Neighbours`], [`Resolution`] | link-layer addresses of next hops |
//! | [`HoldQueue`] | packets that wait for a neighbour or for an SA; bounded, in order |
//! | [`fragment`], [`fragment_v6`] | fragmentation into buffers of the caller; of IPv6 at the source only |
//! | [`reassembly`] | fragments that wait for the others of their packet; bounded |
//! | [`PathMtus`], [`path_mtu::PathMtuTable`] | path MTUs that routers reported, and how long they are believed |
//! | [`icmp_error`], [`RateLimiter`] | ICMP and ICMPv6 errors, when none may be sent, and how many |
//!
//! # Example
//!
//! ```
//! use forward::{Hop, NeighbourEntry, NeighbourState, Neighbours, Resolution, RouteEntry};
//! use forward::{RouteKind, RouteResult, Routes, RuleEntry, Subnet, table};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let uplink = RouteEntry {
//!     table: table::MAIN, dst: Subnet { addr: "0.0.0.0".parse()?, len: 0 },
//!     kind: RouteKind::Unicast, priority: 0, mtu: None, src: None,
//!     hops: vec![Hop { ifindex: 2, gateway: Some("192.0.2.1".parse()?), weight: 1 }],
//! };
//! let fib = Routes::new([uplink], RuleEntry::defaults(), None).fib();
//!
//! let (dst, src) = ("198.51.100.7".parse()?, "10.1.0.1".parse()?);
//! let (mark, iif) = (0, 3);
//! let route = fib.lookup(dst, src, mark, iif);
//! let (ifindex, next_hop) = route.neighbour(dst).ok_or("no next hop")?;
//! assert_eq!((ifindex, next_hop), (2, "192.0.2.1".parse()?));
//!
//! let mut neighbours = Neighbours::default();
//! assert_eq!(neighbours.resolve(ifindex, next_hop), Resolution::Unknown, "hold, and have Linux ask");
//! let mac = wire::MacAddr([2, 0, 0, 0, 0, 1]);
//! let state = NeighbourState::Reachable;
//! neighbours.insert(NeighbourEntry { ifindex, addr: next_hop, mac: Some(mac), state });
//! assert!(matches!(neighbours.resolve(ifindex, next_hop), Resolution::Resolved { .. }));
//!
//! assert_eq!(fib.lookup("2001:db8::1".parse()?, src, mark, iif), RouteResult::None);
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! [`Routes`] and [`Neighbours`] have one writer. A [`Fib`] is immutable and shared; one that
//! follows another shares the pages of the trie that did not change. A [`HoldQueue`] is
//! one worker's; a [`RateLimiter`] may be shared by all. Look-ups allocate nothing.
//!
//! # Not handled
//!
//! Routes for one TOS only, and rules that only Linux can judge: a packet that such a rule may
//! match is left to Linux. Multicast forwarding, VRFs.
#![forbid(unsafe_code)]

mod address;
mod arena;
pub mod fib;
mod flat;
pub mod fragment;
pub mod fragment_v6;
pub mod fuzz;
mod grow;
pub mod hold;
pub mod icmp_error;
pub mod neighbours;
pub mod path_mtu;
pub mod reassembly;
mod route;
mod route_result;
mod routes;
pub mod sample;
mod targets;
mod token_bucket;
mod trie;

pub use fib::{Fib, SourceCheck};
pub use hold::{Held, HoldLimits, HoldQueue, Refused};
pub use icmp_error::{IcmpCause, Reporter, Silence};
pub use neighbours::{NeighbourEntry, NeighbourState, Neighbours, Resolution};
pub use path_mtu::{MtuPath, PathMtus};
pub use reassembly::{FragmentKey, Piece, Reassembler, ReassemblyLimits};
pub use route::{Hop, RouteEntry, RouteKind, RuleAction, RuleEntry, Subnet, table};
pub use route_result::RouteResult;
pub use routes::{RouteChange, Routes};
pub use token_bucket::RateLimiter;
