//! Both engines against published vectors and against each other.
//!
//! Where libipsec-mb is missing, the vectors still run on the OpenSSL engine, and the comparison
//! compares that engine with itself.

mod allocations;
mod bare;
mod batches;
mod bounds;
mod common;
mod differential;
mod many;
mod providers;
mod refusals;
mod rfc;
mod self_test;
mod wycheproof_aead;
mod wycheproof_cbc;
mod wycheproof_mac;
