//! Linux's XFRM databases in user space: what `net/xfrm` answers to IKE daemons and `ip xfrm`.
//!
//! * [`codec`]: the netlink formats.
//! * [`Database`]: SAD and SPD with Linux's behaviour, pure logic over a [`Backend`] (the data
//!   path).
//! * [`KernelSad`]: how many SAs the kernel's own SAD holds, on machines whose kernel has ESP.
//! * [`Server`]: the socket that stands in for `NETLINK_XFRM`, and [`shim_protocol`], what the
//!   preload library says to it beside netlink.
//!
//! One thread owns all of it; time comes in as an argument ([`Now`]). What a request changes has
//! reached the [`Backend`] and the journal before its answer is sent.
//!
//! Refused, with Linux's errno and a reason: AH, IPComp, BEET, migration, packet offload,
//! algorithms that the backend does not have. Kept and given back, without an effect on packets:
//! marks and interface ids, as far as the backend goes.
#![deny(unsafe_code)]

mod backend;
mod clock;
pub mod codec;
mod database;
mod failure;
pub mod fuzz;
mod kernel;
mod server;
pub mod shim_protocol;
mod suite;

pub use backend::{Backend, Counters, PolicyLive, Refusal, Replay, SaLive, Start};
pub use clock::Now;
pub use database::{
    Acquired, Change, Database, Dump, Flow, Flush, Group, Output, RecordKey, Sender, Settings,
};
pub use failure::Failure;
pub use kernel::KernelSad;
pub use server::{Server, ServerLimits};
