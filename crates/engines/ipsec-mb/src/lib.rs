//! The fast crypto engine for x86-64, on Intel's multi-buffer crypto library for IPsec.
//!
//! AES-GCM runs packet by packet through the library's direct calls, which are fastest at every
//! size. AES-CBC and HMAC run in the library's synchronous bursts, one for each function, over all
//! packets of a suite and direction, so that its lanes fill with packets of different SAs;
//! ChaCha20-Poly1305 in a burst of its own. The library's scheduler runs AES-CTR, AES-CCM, AES-XCBC and AES-CMAC.
//!
//! Where the library was missing at build time, or the processor lacks AES instructions,
//! [`IpsecMbProvider::new`] says so, and another engine has to be used.
//!
//! # Trust in the library
//!
//! It fails silently where it can, and its fastest calls check nothing. So nothing reaches it that
//! it could refuse: lengths are checked against the suite before, every pointer comes from a
//! reference, and a session is known to be this crate's own. After each call its answer is
//! checked: the error number behind each AES-GCM packet, the count and every job's status behind
//! each burst. A burst that is not whole has failed for all its packets, and the manager is set up
//! afresh, so that no pointer stays in it. The error number of direct calls is one for the process:
//! it can be lost or be somebody else's when several workers run, which is why it is the second
//! line of defence only.
//!
//! # Keys
//!
//! A [`crypto::Session`] holds the expanded keys and zeroises them when it is dropped. The library's
//! manager, one per worker, keeps copies of the last packets' HMAC states in its lanes; they are
//! wiped when the engine is dropped, not earlier.

#[cfg(not(ipsec_mb_present))]
mod absent;
#[cfg(ipsec_mb_present)]
mod bare;
#[cfg(ipsec_mb_present)]
mod burst;
#[cfg(ipsec_mb_present)]
mod code_path;
#[cfg(ipsec_mb_present)]
mod edge;
#[cfg(ipsec_mb_present)]
mod engine;
#[cfg(ipsec_mb_present)]
mod gcm;
#[cfg(ipsec_mb_present)]
mod gmac;
#[cfg(ipsec_mb_present)]
mod keys;
#[cfg(ipsec_mb_present)]
mod manager;
#[cfg(ipsec_mb_present)]
mod provider;
#[cfg(ipsec_mb_present)]
mod scheduled;
#[cfg(ipsec_mb_present)]
mod slab;
#[cfg(ipsec_mb_present)]
mod slot;
#[cfg(ipsec_mb_present)]
mod suites;
#[cfg(ipsec_mb_present)]
mod tag;

#[cfg(not(ipsec_mb_present))]
pub use absent::{CodePath, IpsecMbProvider};
#[cfg(ipsec_mb_present)]
pub use code_path::CodePath;
#[cfg(ipsec_mb_present)]
pub use provider::IpsecMbProvider;

/// The engine's name.
const NAME: &str = "ipsec-mb";
