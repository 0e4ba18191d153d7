//! The fast crypto engine for x86-64, on Intel's multi-buffer crypto library for IPsec.
//!
//! AES-GCM runs packet by packet through the library's direct calls, which are fastest at every
//! size; everything else is queued and run as one burst over all sessions and suites, so that the
//! library fills its lanes with packets of different SAs.
//!
//! Where the library was missing at build time, or the processor lacks AES instructions,
//! [`IpsecMbProvider::new`] says so, and another engine has to be used.
//!
//! Keys: a [`crypto::Session`] holds the expanded keys and zeroises them when it is dropped. The
//! library's manager, one per worker, keeps copies of the last packets' HMAC states in its lanes;
//! they are wiped when the engine is dropped, not earlier.

#[cfg(not(ipsec_mb_present))]
mod absent;
#[cfg(ipsec_mb_present)]
mod engine;
#[cfg(ipsec_mb_present)]
mod manager;
#[cfg(ipsec_mb_present)]
mod provider;
#[cfg(ipsec_mb_present)]
mod slab;
#[cfg(ipsec_mb_present)]
mod state;

#[cfg(not(ipsec_mb_present))]
pub use absent::IpsecMbProvider;
#[cfg(ipsec_mb_present)]
pub use provider::IpsecMbProvider;

/// The engine's name.
const NAME: &str = "ipsec-mb";
