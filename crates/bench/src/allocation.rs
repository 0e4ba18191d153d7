//! Counting allocations, so that benchmarks can show that the data path makes none.
//!
//! A program that wants the count names [`Counting`] as its global allocator. The count is one
//! number for each thread, so that it costs one instruction and threads do not disturb each other.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout};

/// An allocator, counting for each thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting<A>(pub A);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How many allocations and reallocations this thread has made; 0 unless [`Counting`] is the
/// program's allocator.
pub fn count() -> u64 {
    COUNT.get()
}

fn note() {
    // A constant and no destructor: this neither allocates nor fails, also while a thread ends.
    COUNT.set(COUNT.get().wrapping_add(1));
}

#[allow(unsafe_code, reason = "an allocator is an unsafe trait")]
// SAFETY: every call is handed to the allocator unchanged; counting does not allocate.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's contract is that allocator's.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { self.0.realloc(old, layout, new_len) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(old, layout) }
    }
}
