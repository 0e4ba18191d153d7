//! Linux's connection tracking, and the NAT that it decides, as the fast path sees them.
//!
//! Rules of nftables or iptables decide in Linux, which translates the first packets of each connection and
//! allocates its ports. What it has decided is learnt from ctnetlink, and carried out on the packets that follow.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`mod@tuple`] | what a packet belongs to a connection by, in one direction |
//! | [`entry`] | what Linux says of a connection, and whether the fast path may carry it |
//! | [`message`] | ctnetlink: dumps and events are read, updates written |
//! | [`bindings`] | the connections that the fast path may carry, found by tuple |
//! | [`rewrite`] | translates a packet |
//! | [`statistics`] | how full Linux's table is, and what it refused |
//!
//! # Threads
//!
//! [`Bindings`] has one writer, the control thread. Workers look tuples up at any time, and neither waits for the
//! other.
//!
//! # Not handled
//!
//! Zones other than 0, expectations and helpers (ALGs), sequence adjustment: such connections stay with Linux.
//! Marks and labels of connections are not looked at.
#![forbid(unsafe_code)]

pub mod bindings;
pub mod entry;
pub mod message;
pub mod rewrite;
pub mod statistics;
pub mod tuple;

pub use bindings::{Binding, Bindings, Change, Found};
pub use entry::{Entry, Status, TcpState};
pub use message::{Event, events};
pub use rewrite::{Rewrite, may_go};
pub use statistics::Statistics;
pub use tuple::{Direction, Tuple};
