//! Linux's XFRM databases in user space: what `net/xfrm` answers to IKE daemons and `ip xfrm`.
//!
//! * [`codec`]: the netlink formats.
//! * [`Database`]: SAD and SPD with Linux's behaviour, pure logic over a [`Backend`] (the data
//!   path).
//! * [`shim_protocol`]: what the preload library and the socket that stands in for `NETLINK_XFRM`
//!   say to each other beside netlink.
#![deny(unsafe_code)]

mod backend;
mod clock;
pub mod codec;
mod database;
mod failure;
pub mod shim_protocol;
mod suite;

pub use backend::{Backend, Counters, PolicyLive, Refusal, Replay, SaLive, Start};
pub use clock::Now;
pub use database::{
    Acquired, Change, Database, Dump, Flow, Group, Output, RecordKey, Sender, Settings,
};
pub use failure::Failure;
