//! Algorithm suites, key material and the [`Engine`] interface that every crypto engine implements.
//!
//! The interface is shaped for ESP (RFC 4303): a job is one packet, contiguous in memory, and the
//! engine works in place. Engines live in crates of their own and are handed to whoever needs one;
//! they refuse to start when [`self_test`] finds a wrong answer.
//!
//! # Threads
//!
//! A [`Provider`] is shared. It makes one [`Engine`] for each worker, which that worker alone uses,
//! and one [`Session`] for each SA, which any engine of the same provider can use at any time.
#![forbid(unsafe_code)]

mod engine;
mod key;
mod self_test;
mod session;
mod suite;

pub use engine::{Bare, Engine, EngineError, Job, JobStatus, Layout, Op, Parts, Provider, esn_aad};
pub use key::Keys;
pub use self_test::self_test;
pub use session::{KeyBlock, KeyLine, Maker, Session};
pub use suite::{AesKey, Hmac, IcvLen, Suite};
