//! Atomics and cells that the queues are made of: the language's, or the model checker's.
//!
//! Under `--cfg loom` every atomic, cell and reference count comes from loom, which then tries the
//! interleavings and the stale reads that the memory model allows. The names are the same.

use core::ops::Deref;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
};

/// A cell with loom's interface: the pointer to its content goes to a closure.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    #[inline(always)]
    pub(crate) const fn new(content: T) -> Self {
        Self(core::cell::UnsafeCell::new(content))
    }

    /// Hands out the pointer, to be read and written through.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// A value with cache lines of its own, so that its writer disturbs nobody who reads a neighbour.
///
/// 128 bytes: x86-64 fetches lines in pairs, and some aarch64 cores have lines of that length.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
