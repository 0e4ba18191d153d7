//! Linux's XFRM databases in user space: what `net/xfrm` answers to IKE daemons and `ip xfrm`.
//!
//! ```text
//!   charon, ip xfrm                   Server              Database<B>               B: Backend
//!   NETLINK_XFRM socket ──shim──> SEQPACKET socket ──> request ──> SAD, SPD ──> sa_add, policy_put, ...
//!                       <──────── send: answers    <── Output  <── tick, acquire, volume_expired
//!                                                         └──> Change ──> journal
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`codec`] | the netlink formats: structs, attributes, framing |
//! | [`Database`] | SAD and SPD with Linux's behaviour and errnos; pure logic over a [`Backend`] |
//! | [`Backend`] | the data path's side: installs, removes, gives live numbers, may refuse |
//! | [`Output`], [`Group`] | answers, dumps, notifications and journal records, in order |
//! | [`Change`], [`Database::restore`] | what a restart needs, and how it is restored |
//! | [`Server`], [`shim_protocol`] | the socket that stands in for `NETLINK_XFRM`, and what the preload library says beside netlink |
//! | [`Kernel`], [`KernelEvents`], [`KernelSad`] | the kernel's own databases, where the kernel has ESP |
//!
//! # Example
//!
//! A request for an SA that is not there, and Linux's answer.
//!
//! ```
//! use xfrm::codec::{Be32, MessageWriter, SaId, flag, kind};
//! use xfrm::{Database, Now, Output, Sender, Settings};
//! # use crypto::Keys;
//! # use policy::{Action, Direction, PolicyConfig, SaConfig, SaId as Id};
//! # use xfrm::{Backend, Counters, PolicyLive, Refusal, Replay, SaLive, Start};
//! #
//! # struct NoPath;
//! # impl Backend for NoPath {
//! #     fn sa_add(&mut self, _: &SaConfig, _: &Keys, _: &Start) -> Result<(), Refusal> { Ok(()) }
//! #     fn sa_update(&mut self, _: &SaConfig) -> Result<(), Refusal> { Ok(()) }
//! #     fn sa_delete(&mut self, _: &Id, _: &Keys, _: xfrm::SaEnd) {}
//! #     fn sa_live(&self, _: &Id) -> Option<SaLive> { None }
//! #     fn sa_set_replay(&mut self, _: &Id, _: &Replay) -> Result<(), Refusal> { Ok(()) }
//! #     fn sa_set_counters(&mut self, _: &Id, _: &Counters) -> Result<(), Refusal> { Ok(()) }
//! #     fn policy_put(&mut self, _: &PolicyConfig) -> Result<(), Refusal> { Ok(()) }
//! #     fn ask_again(&mut self, _: u32) {}
//! #     fn policy_delete(&mut self, _: u32) {}
//! #     fn policy_live(&self, _: u32) -> Option<PolicyLive> { None }
//! #     fn set_default(&mut self, _: Direction, _: Action) {}
//! # }
//!
//! // `NoPath` implements `Backend` and does nothing.
//! let mut database = Database::new(NoPath, Settings::default());
//!
//! let dst = core::net::IpAddr::from([192, 0, 2, 2]).into();
//! let id = SaId { dst, spi: Be32(0x1001), family: 2, protocol: 50, ..SaId::default() };
//! let request = MessageWriter::new(kind::GETSA, flag::REQUEST | flag::ACK, 1, 0).fixed(&id).take();
//!
//! let (now, mut out) = (Now { wall_s: 1_800_000_000, mono_ms: 1 }, Vec::new());
//! database.request(&Sender::default(), &request, now, &mut out);
//! let [Output::Reply(answer)] = &out[..] else { panic!("one answer") };
//! // nlmsghdr, then the errno of nlmsgerr.
//! assert_eq!(answer[4..6], kind::ERROR.to_ne_bytes());
//! assert_eq!(answer[16..20], (-libc::ESRCH).to_ne_bytes());
//! ```
//!
//! # Threads and time
//!
//! One thread owns all of it; time comes in as an argument ([`Now`]). What a request changes has
//! reached the [`Backend`] and the journal before its answer is sent. Long work takes turns: a dump
//! is taken piece by piece ([`Database::dump_chunk`]), a flush goes on between other requests
//! ([`Output::Flush`]).
//!
//! # Not handled
//!
//! Refused, with Linux's errno and a reason: BEET, IP-TFS, algorithms that the backend does not
//! have. Marks and interface ids are kept and given back; what
//! they do to packets is up to the backend.
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

pub use backend::{Backend, Counters, PolicyLive, Refusal, Replay, SaEnd, SaLive, Start};
pub use clock::Now;
pub use database::{
    Acquired, Change, Database, Dump, Flow, Flush, GivenBack, Group, KernelNumbers, LearntPolicy,
    LearntSa, Output, RecordKey, Sender, Settings, Wanted,
};
pub use failure::Failure;
pub use kernel::{Bypass, Kernel, KernelEvent, KernelEvents, KernelSad};
pub use server::{Handed, Server, ServerLimits, peer_uid};
