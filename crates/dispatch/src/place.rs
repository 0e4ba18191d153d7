//! A place for one item: the one shared cell of the crate.
//!
//! A place does not know whether an item lies in it. The queue that owns it does, from its indices and
//! turn numbers, and they also say whose turn it is: at any moment one thread at most may touch the
//! place, and what the previous one did happened before. Each caller's `SAFETY` comment says why.

#![allow(
    unsafe_code,
    reason = "moves items in and out of shared cells; who may is for the queues to know"
)]

use core::mem::MaybeUninit;

use crate::sync::UnsafeCell;

/// A place for one item, which may be there or not.
pub(crate) struct Place<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: a place does nothing of itself. Each of its functions asks its caller to be alone with the
// place, with everything before ordered before; then an item only moves from thread to thread, which
// `Send` allows.
unsafe impl<T: Send> Sync for Place<T> {}

impl<T> Place<T> {
    /// A place without an item.
    pub(crate) fn empty() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Puts an item in.
    ///
    /// # Safety
    ///
    /// The caller is alone with the place, and no item is in it (one that is would be leaked).
    #[inline(always)]
    pub(crate) unsafe fn fill(&self, item: T) {
        self.0.with_mut(|place| {
            // SAFETY: the pointer is to a live cell, which the caller is alone with.
            unsafe { place.cast::<T>().write(item) }
        });
    }

    /// Takes the item out.
    ///
    /// # Safety
    ///
    /// The caller is alone with the place, an item is in it, and nobody takes it a second time.
    #[inline(always)]
    pub(crate) unsafe fn empty_out(&self) -> T {
        self.0.with_mut(|place| {
            // SAFETY: the pointer is to a live cell with an item in it, which the caller is alone
            // with and takes once.
            unsafe { place.cast::<T>().read() }
        })
    }

    /// The item, where it lies.
    ///
    /// # Safety
    ///
    /// For as long as the reference lives the caller is alone with the place and makes no other
    /// reference to the item; an item is in it.
    #[allow(
        clippy::mut_from_ref,
        reason = "a place is a cell; the contract above makes the reference the only one"
    )]
    #[inline(always)]
    pub(crate) unsafe fn item(&self) -> &mut T {
        self.0.with_mut(|place| {
            // SAFETY: the pointer is to a live cell with an item in it, and the caller makes no
            // second reference.
            unsafe { &mut *place.cast::<T>() }
        })
    }
}
