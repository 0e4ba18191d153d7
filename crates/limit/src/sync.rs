//! Atomics that limiters are made of: the language's, or the model checker's.
//!
//! Under `--cfg loom` every atomic comes from loom, which then tries the interleavings and the stale reads that the memory
//! model allows.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
