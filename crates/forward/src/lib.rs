//! Where a packet goes, and what comes back when it cannot go there.
//!
//! - [`Routes`]: rules and routes as Linux has them, changed one by one; [`Fib`]: what they were at
//!   one moment, read by every worker.
//! - [`Neighbours`]: link-layer addresses of next hops.
//! - [`HoldQueue`]: packets that wait for a neighbour or for an SA.
//! - [`fragment`]: IPv4 fragmentation into buffers of the caller; [`fragment_v6`]: IPv6's, at the source.
//! - [`icmp_error`]: ICMP and ICMPv6 errors, and when none may be sent; [`RateLimiter`].
//!
//! No I/O, no clock: time comes in as an argument, in nanoseconds of any monotonic clock.
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
mod rate;
mod route;
mod routes;
pub mod sample;
mod targets;
mod trie;

pub use fib::{Fib, RouteResult, SourceCheck};
pub use hold::{Held, HoldLimits, HoldQueue, Refused};
pub use icmp_error::{IcmpCause, Reporter, Silence};
pub use neighbours::{NeighbourEntry, NeighbourState, Neighbours, Resolution};
pub use rate::RateLimiter;
pub use route::{Hop, RouteEntry, RouteKind, RuleAction, RuleEntry, Subnet, table};
pub use routes::{RouteChange, Routes};
