//! Algorithm suites, key material, and the interface that every crypto engine implements.
//!
//! The interface is shaped for ESP (RFC 4303): a job is one packet, contiguous in memory, and the
//! engine works in place. The crate has no cipher. Engines live in crates of their own and are
//! handed to their users as arguments, so a program may hold several.
//!
//! ```text
//!   Suite, Keys ──> Provider::session ──> Session   one for each SA, shared, read only
//!                   Provider::engine  ──> Engine    one for each thread
//!                                           │
//!       Job: session + packet in place ──> run(&mut [Job]) ──> JobStatus of each
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Suite`], [`Cipher`], [`Integrity`] | one combination of cipher and integrity, with every length that follows from it |
//! | [`Keys`] | what the key exchange hands over; zeroised when dropped, never shown |
//! | [`Provider`], [`Engine`] | what an engine's crate implements |
//! | [`Providers`] | an ordered list of them: the first that has a suite serves it |
//! | [`Job`], [`Layout`], [`Parts`] | one packet's work, and where its parts lie |
//! | [`Session`], [`KeyBlock`] | an SA's expanded keys, as the engine wants them in memory |
//! | [`self_test`](self_test()) | known answers for all suites; a provider with a wrong one must not be used |
//! | [`Bare`] | a library's best call without an engine around it, for benchmarks alone |
//!
//! # Example: an engine for tests, which encrypts nothing
//!
//! ```
//! use crypto::{AesKey, Engine, IcvLen, Job, JobStatus, Op, Session, Suite};
//!
//! struct Plain;
//!
//! impl Engine for Plain {
//!     fn run(&mut self, jobs: &mut [Job<'_>]) {
//!         for job in jobs {
//!             let op = job.op;
//!             job.status = match job.parts() {
//!                 None => JobStatus::Failed, // lengths that the suite does not allow
//!                 Some(parts) if op == Op::Seal => {
//!                     parts.icv.fill(0xaa);
//!                     JobStatus::Done
//!                 }
//!                 Some(parts) if parts.icv.iter().all(|byte| *byte == 0xaa) => JobStatus::Done,
//!                 Some(parts) => {
//!                     parts.text.fill(0); // no plaintext without the right ICV
//!                     JobStatus::BadIcv
//!                 }
//!             };
//!         }
//!     }
//! }
//!
//! let suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
//! let session = Session::new(suite, Box::new(()));
//! // ESP header, IV, 20 bytes of text, ICV.
//! let mut packet = vec![0; 8 + suite.iv_len_bytes() + 20 + suite.icv_len_bytes()];
//! let mut run = |op, packet: &mut [u8]| {
//!     let mut jobs = [Job::esp(&session, op, packet, None)];
//!     Plain.run(&mut jobs);
//!     jobs[0].status
//! };
//! assert_eq!(run(Op::Seal, &mut packet), JobStatus::Done);
//! packet[51] ^= 1;
//! assert_eq!(run(Op::Open, &mut packet), JobStatus::BadIcv);
//! assert_eq!(run(Op::Open, &mut packet[..30]), JobStatus::Failed);
//! ```
//!
//! # Threads
//!
//! A [`Provider`] is shared. It makes one [`Engine`] for each thread, which that thread alone uses,
//! and one [`Session`] for each SA, which any engine of the same provider may use at any time. A
//! session of another provider makes a job [`JobStatus::Failed`].
//!
//! # Not handled
//!
//! Algorithms that [`Suite`] does not list. Sequence numbers, IVs and padding are the caller's
//! (`esp`). Jobs end before [`Engine::run`] returns: a device that answers later does not fit this
//! interface.
#![forbid(unsafe_code)]

mod cipher;
mod engine;
mod integrity;
mod key;
mod providers;
mod self_test;
mod session;
mod suite;

pub use cipher::{AesKey, Cipher, IcvLen};
pub use engine::{Bare, Engine, EngineError, Job, JobStatus, Layout, Op, Parts, Provider, esn_aad};
pub use integrity::Integrity;
pub use key::Keys;
pub use providers::Providers;
pub use self_test::self_test;
pub use session::{KeyBlock, KeyLine, Maker, Session};
pub use suite::Suite;
