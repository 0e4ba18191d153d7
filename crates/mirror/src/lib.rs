//! Links, addresses, rules, routes and neighbours of a network namespace, as Linux has them.
//!
//! Linux stays in charge: an [`Observer`] follows its state by rtnetlink into a [`Snapshot`] of
//! plain values, and a [`Control`] makes the few changes that culvert needs.
//!
//! The messages are decoded here, and not by one of the rtnetlink crates, because those refuse a
//! whole message for one attribute that is not as expected: a mirror has to take what it
//! understands and pass over the rest.
//!
//! When the kernel drops notifications (`ENOBUFS`), everything is dumped anew; until that is done
//! the snapshot is the old one. One thread owns observer, snapshot and control; nothing blocks but
//! the requests of [`Control`] and the dumps.
#![forbid(unsafe_code)]

mod attribute;
mod connection;
mod control;
mod decode;
mod error;
mod model;
mod observer;
mod setting;
mod snapshot;
mod uapi;

pub use control::Control;
pub use decode::{Incoming, Message, decode};
pub use error::Error;
pub use model::{
    Address, Family, Link, Neighbour, NeighbourState, NextHop, Prefix, Route, RouteKey, RouteKind,
    Rule, RuleAction,
};
pub use observer::Observer;
pub use setting::{interface_setting, set_interface_setting};
pub use snapshot::{Change, Snapshot};
