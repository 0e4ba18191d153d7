//! Links, addresses, rules, routes and neighbours of a network namespace, as Linux has them.
//!
//! Linux stays in charge: an [`Observer`] follows its state by rtnetlink, and that of L2TP by generic netlink, into a [`Snapshot`] of
//! plain values, and a [`Control`] makes the few changes that culvert needs.
//!
//! ```text
//!             notifications                       Change, Change, ...
//!   Linux ───────────────────> Observer::poll ───────────────────────> the caller
//!         <─────────────────── dumps │
//!             requests               └──> Snapshot: what there is
//!         <─────────────────── Control
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Observer`] | one dump, then notifications; dumps again what notifications alone do not keep right |
//! | [`Snapshot`], [`Change`] | the state, and each step to it |
//! | [`Link`], [`Address`], [`Rule`], [`Route`], [`Neighbour`] | plain values, one for each kind of object |
//! | [`Control`] | adds and deletes rules, routes and neighbours; sets links up; has a neighbour resolved |
//! | [`decode()`], [`Message`] | the messages by themselves, for fuzzing |
//! | [`interface_setting`], [`set_interface_setting`] | `/proc/sys/net/*/conf/NAME` |
//! | [`tunnel_source`] | `ip sr tunsrc` |
//! | [`xdp_metadata()`] | what a driver tells XDP programs of frames |
//!
//! # Example
//!
//! ```no_run
//! use mirror::{Change, Observer};
//!
//! # fn main() -> Result<(), mirror::Error> {
//! let mut observer = Observer::new()?;
//! for link in observer.snapshot().links() {
//!     println!("{} {}, mtu {}", link.index, link.name, link.mtu);
//! }
//! loop {
//!     // Wait until one of `observer.fds()` is readable, for some seconds at most. Then:
//!     for change in observer.poll()? {
//!         if let Change::Route(route) = change {
//!             println!("{route:?}");
//!         }
//!     }
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Lost notifications
//!
//! When the kernel drops some (`ENOBUFS`), all is dumped anew. Until that is done the snapshot is
//! the old one, and [`Observer::is_stale`] says so. The changes that [`Observer::poll`] returns
//! lead from the old snapshot to the new one, whichever way the news came.
//!
//! # Why the decoder is its own
//!
//! Crates for rtnetlink refuse a whole message for one attribute that is not as expected. A mirror
//! has to take what it understands and pass over the rest.
//!
//! # Threads
//!
//! One thread owns observer, snapshot and control, and all three are of the network namespace that
//! it was in when it made them. Nothing blocks but the requests of [`Control`] and the dumps.
//!
//! # Not handled
//!
//! Forwarding tables of bridges, traffic control, nexthop objects by themselves. What the model of a
//! rule does not have (users, TOS) is not followed; the rule says that there is something.
//! Reading needs no privilege but for sessions of L2TP; they and changing need `CAP_NET_ADMIN`. A session is found by the
//! name that its interface was made with: one that was renamed is none of L2TP here.
#![forbid(unsafe_code)]

mod control;
mod decode;
mod error;
pub mod fuzz;
mod generic;
mod l2tp;
mod model;
mod observer;
mod overlay;
mod seg6;
mod sessions;
mod setting;
mod snapshot;
mod tunsrc;
mod uapi;
mod xdp_metadata;

pub use control::Control;
pub use decode::{Message, decode};
pub use error::Error;
pub use model::{
    Address, Family, Forwarding, Link, Neighbour, NeighbourState, NextHop, Prefix, Route, RouteKey,
    RouteKind, Rule, RuleAction, Vlan, XfrmInterface,
};
pub use observer::Observer;
pub use overlay::{L2tpSession, Overlay, OverlayDf, OverlayKind};
pub use seg6::{Encap, Seg6, Seg6Local, Seg6Mode, SidAction};
pub use setting::{interface_setting, set_interface_setting};
pub use snapshot::{Change, Snapshot};
pub use tunsrc::tunnel_source;
pub use xdp_metadata::{XDP_METADATA_VLAN_TAG, xdp_metadata};
