//! Algorithm suites, key material and the [`Engine`] interface that every crypto engine implements.
//!
//! The interface is shaped for ESP (RFC 4303): a job is one packet, contiguous in memory, and the
//! engine works in place. Engines live in crates of their own and are handed to whoever needs one;
//! they refuse to start when [`self_test`] finds a wrong answer.
#![forbid(unsafe_code)]

mod engine;
mod key;
mod self_test;
mod suite;

pub use engine::{
    Engine, EngineError, Job, JobStatus, Layout, Op, Parts, Provider, Session, esn_aad,
};
pub use key::Keys;
pub use self_test::self_test;
pub use suite::{AesKey, Hmac, IcvLen, Suite};
