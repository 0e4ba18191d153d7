//! DPDK behind safe types: all unsafe code of the crate.
//!
//! | type | is | whose |
//! | --- | --- | --- |
//! | [`start`] | the environment | the process's, once |
//! | [`Adapter`] | a crypto device | the control thread's |
//! | [`Session`] | the keys of one direction of an SA in it | shared: the device only reads it |
//! | [`Pair`] | a queue pair, and memory for its packets | one thread at a time |
//! | [`Events`] | an event device | the thread's that made it |
//!
//! Sessions and pairs keep their adapter open.
#![allow(unsafe_code)]

mod adapter;
mod events;
mod pair;
mod raw;
mod start;

pub use adapter::{Adapter, Session};
pub use events::{Events, Order, Taken};
pub use pair::{Done, Outcome, Packet, Pair};
pub use raw::{
    AEAD_CCM, AEAD_CHACHA, AEAD_GCM, AUTH_CMAC, AUTH_GMAC, AUTH_MD5, AUTH_SHA1, AUTH_SHA256,
    AUTH_SHA384, AUTH_SHA512, AUTH_XCBC, CIPHER_3DES_CBC, CIPHER_AES_CBC, CIPHER_AES_CTR,
    CIPHER_DES_CBC, KIND_AEAD, KIND_AUTH, KIND_CHAIN, Transform,
};
pub use start::{start, version};
