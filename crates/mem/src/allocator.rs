//! A program's allocator for many small things of whole cache lines: side by side on huge pages.
//!
//! An SA with its keys is a few objects of some hundred bytes, aligned to cache lines. With a
//! hundred thousand of them a packet misses the TLB at each, and even a prefetch then waits for the
//! page tables, which lie in memory themselves. Huge pages end that. The system's allocator cannot
//! be told to use them for these and not for others, and it spends a line or two on each aligned
//! object.
//!
//! A TLB may hold small pages all the same: a virtual machine's host decides. So what is allocated in
//! turn lies side by side, whatever its length: an SA's keys, its numbers and its entry are mostly on
//! one page, and a packet that misses the TLB there misses it once.
//!
//! | what is asked for | where it comes from |
//! | --- | --- |
//! | 1 to 32 lines, aligned to one | slots of that many lines, see below |
//! | 4 MiB or more | the system's allocator, on huge pages |
//! | anything else | the system's allocator |
//!
//! Slots are cut from one chunk after the other. Those that were freed serve the next that ask for as
//! many lines, the last one freed first: so neighbours that went together are used together again.
//! The first chunk is small, for programs that need little; all others are a huge page each. Chunks
//! are never given back.
//!
//! # What is freed is zero
//!
//! Keys lie in many blocks besides those that are made for them: answers as text, requests, the old
//! place of a vector that has grown. So every block is overwritten with zeros when it is freed, and
//! one that grows or shrinks moves to a new place, as the system's allocator leaves a copy where it
//! moves one. That costs as much as filling the block once more, which no packet of a known flow
//! pays: nothing is allocated for one.
//!
//! Huge pages are asked for (`MADV_HUGEPAGE`); the kernel gives them if it has some and
//! `/sys/kernel/mm/transparent_hugepage/enabled` is not `never`.

use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, PoisonError};

use crate::LINE_LEN;

/// The allocator: one for a program, as its `#[global_allocator]`.
///
/// A slot is taken and given back under the lock of its length's free slots, which is held for a few
/// instructions; a new one is cut under another, held for the system's allocator when a chunk
/// is needed. Nothing else takes a lock of this.
#[derive(Debug)]
pub struct Allocator {
    /// Free slots, by their length in lines, less one.
    free: [Mutex<Free>; LENGTHS],
    rest: Mutex<Rest>,
}

/// Free slots of one length: the first one, which begins with the address of the next; null for none.
#[derive(Debug)]
struct Free(*mut u8);

/// The part of the newest chunk that was never used.
#[derive(Debug)]
struct Rest {
    start: *mut u8,
    len: usize,
    /// Of the next chunk, in bytes, and its alignment.
    chunk_len: usize,
}

// SAFETY: free slots are nobody's but the list's.
unsafe impl Send for Free {}

// SAFETY: nobody else has the rest of a chunk.
unsafe impl Send for Rest {}

impl Free {
    /// A free slot; null if there is none.
    fn take(&mut self) -> *mut u8 {
        let slot = self.0;
        if !slot.is_null() {
            // SAFETY: a free slot begins with the address of the next one, and is aligned to a line.
            self.0 = unsafe { slot.cast::<*mut u8>().read() };
        }
        slot
    }

    /// Takes a slot in.
    ///
    /// # Safety
    /// The slot is of the list's length, and its last user is done with it.
    unsafe fn put(&mut self, slot: *mut u8) {
        // SAFETY: the caller says so; a slot is at least one line, and aligned to one.
        unsafe { slot.cast::<*mut u8>().write(self.0) };
        self.0 = slot;
    }
}

impl Rest {
    const EMPTY: Rest = Rest { start: ptr::null_mut(), len: 0, chunk_len: FIRST_CHUNK_LEN };

    /// A slot of `len` bytes, whole lines; null if there is no memory.
    fn take(&mut self, len: usize) -> *mut u8 {
        if self.len < len && !self.grow() {
            return ptr::null_mut();
        }
        let slot = self.start;
        self.start = slot.wrapping_add(len);
        self.len -= len;
        slot
    }

    /// Gets a chunk. What was left of the old one, less than a slot, is lost.
    #[cold]
    fn grow(&mut self) -> bool {
        let Ok(layout) = Layout::from_size_align(self.chunk_len, self.chunk_len) else {
            return false;
        };
        // SAFETY: the layout's size is not 0.
        let chunk = unsafe { System.alloc(layout) };
        if chunk.is_null() {
            return false;
        }
        ask_for_huge_pages(chunk, self.chunk_len);
        (self.start, self.len) = (chunk, self.chunk_len);
        self.chunk_len = HUGE_PAGE_LEN;
        true
    }
}

impl Allocator {
    /// Without any memory yet.
    pub const fn new() -> Allocator {
        Allocator {
            free: [const { Mutex::new(Free(ptr::null_mut())) }; LENGTHS],
            rest: Mutex::new(Rest::EMPTY),
        }
    }

    /// Where free slots for a layout are, and how long they are; `None` for the system.
    #[inline]
    fn free(&self, layout: Layout) -> Option<(&Mutex<Free>, usize)> {
        if layout.align() != LINE_LEN {
            return None;
        }
        let lines = layout.size().div_ceil(LINE_LEN);
        // No line at all: no slot either.
        Some((self.free.get(lines.wrapping_sub(1))?, lines * LINE_LEN))
    }
}

impl Default for Allocator {
    fn default() -> Allocator {
        Allocator::new()
    }
}

// SAFETY: a slot is as long and as aligned as the layout wants, and is handed out once before it
// comes back; a layout says which allocator a block is of, the same at both ends. All else is the
// system's.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some((free, len)) = self.free(layout) {
            let slot = free.lock().unwrap_or_else(PoisonError::into_inner).take();
            if !slot.is_null() {
                return slot;
            }
            return self.rest.lock().unwrap_or_else(PoisonError::into_inner).take(len);
        }
        // SAFETY: the caller's contract is the system allocator's.
        let block = unsafe { System.alloc(layout) };
        if layout.size() >= LARGE_LEN && !block.is_null() {
            ask_for_huge_pages(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if self.free(layout).is_some() {
            // SAFETY: the caller's contract.
            let slot = unsafe { self.alloc(layout) };
            if !slot.is_null() {
                // SAFETY: as many bytes as were just allocated.
                unsafe { slot.write_bytes(0, layout.size()) };
            }
            return slot;
        }
        // SAFETY: the caller's contract is the system allocator's.
        let block = unsafe { System.alloc_zeroed(layout) };
        if layout.size() >= LARGE_LEN && !block.is_null() {
            ask_for_huge_pages(block, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is as long, and its last user is done with it.
        unsafe { wipe(block, layout.size()) };
        match self.free(layout) {
            Some((free, _)) => {
                let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the layout is the one that the slot was taken for, so this is its length.
                unsafe { free.put(block) }
            }
            // SAFETY: the caller's contract is the system allocator's.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        let Ok(new_layout) = Layout::from_size_align(new_len, layout.align()) else {
            return ptr::null_mut();
        };
        // SAFETY: the caller sees to it that the length is not 0.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks have as many bytes, and the new one is nobody else's.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(new_len)) };
            // SAFETY: the caller's contract, and nobody uses the old block any more.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}

/// Overwrites a block that is about to be freed.
///
/// # Safety
/// The block has so many bytes, and nobody uses them any more.
#[inline]
unsafe fn wipe(block: *mut u8, len: usize) {
    // A compiler that sees that nobody reads the zeros would leave them out; it does not see into the
    // C library's function for this.
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the caller says so.
    unsafe {
        libc::explicit_bzero(block.cast(), len);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    // SAFETY: the caller says so.
    unsafe {
        block.write_bytes(0, len);
        core::hint::black_box(block);
    }
}

/// Asks the kernel for huge pages where whole ones lie in a block; a wish that nothing hangs on.
fn ask_for_huge_pages(block: *mut u8, len: usize) {
    let before = block.addr().wrapping_neg() % HUGE_PAGE_LEN;
    let len = len.saturating_sub(before) & !(HUGE_PAGE_LEN - 1);
    #[cfg(all(target_os = "linux", not(miri)))]
    if len != 0 {
        // SAFETY: the range is inside a block that was just allocated, and this advice changes
        // nothing of its content.
        unsafe { libc::madvise(block.wrapping_add(before).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = len;
}

/// Longer ones are left to the system.
const LENGTHS: usize = 32;
const HUGE_PAGE_LEN: usize = 2 << 20;
const FIRST_CHUNK_LEN: usize = 64 << 10;
/// From here on a block has a whole huge page wherever it begins.
const LARGE_LEN: usize = 2 * HUGE_PAGE_LEN;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn layout(len: usize, align: usize) -> Layout {
        Layout::from_size_align(len, align).unwrap()
    }

    /// A block filled with a byte.
    fn filled(a: &Allocator, layout: Layout, byte: u8) -> *mut u8 {
        // SAFETY: the length is not 0.
        let block = unsafe { a.alloc(layout) };
        assert!(!block.is_null());
        assert_eq!(block.addr() % layout.align(), 0);
        // SAFETY: as many bytes as were allocated.
        unsafe { block.write_bytes(byte, layout.size()) };
        block
    }

    fn is_filled(block: *mut u8, len: usize, byte: u8) -> bool {
        // SAFETY: the tests below ask about blocks that they have filled and not freed.
        let bytes = unsafe { core::slice::from_raw_parts(block, len) };
        bytes.iter().all(|b| *b == byte)
    }

    #[test]
    fn slots_do_not_overlap_and_are_used_again() {
        let a = Allocator::new();
        for lines in [1, 3, 17, 32] {
            let layout = layout(lines * LINE_LEN - 5, LINE_LEN);
            // More than the first chunk has.
            let count = 2 * FIRST_CHUNK_LEN / (lines * LINE_LEN);
            let blocks: Vec<_> = (0..count).map(|n| filled(&a, layout, n as u8)).collect();
            for (n, block) in blocks.iter().enumerate() {
                assert!(is_filled(*block, layout.size(), n as u8), "{lines} lines");
            }
            let before: HashSet<_> = blocks.iter().map(|block| block.addr()).collect();
            assert_eq!(before.len(), count);
            for block in blocks {
                // SAFETY: each was allocated with this layout, and is freed once.
                unsafe { a.dealloc(block, layout) };
            }
            let after: HashSet<_> = (0..count).map(|_| filled(&a, layout, 1).addr()).collect();
            assert_eq!(before, after);
        }
    }

    #[test]
    fn what_is_taken_in_turn_lies_side_by_side() {
        let a = Allocator::new();
        let layouts = [17, 3, 8].map(|lines| layout(lines * LINE_LEN, LINE_LEN));
        let group = || layouts.map(|layout| filled(&a, layout, 1));
        let groups = [group(), group(), group()];
        let first = groups[0][0];
        for (n, line) in [0, 17, 20, 28, 45, 48, 56].into_iter().enumerate() {
            assert_eq!(groups[n / 3][n % 3], first.wrapping_add(line * LINE_LEN), "{n}");
        }
        // Freed in any order, they come back together, the last one first.
        for group in groups {
            for n in [2, 0, 1] {
                // SAFETY: allocated above with this layout.
                unsafe { a.dealloc(group[n], layouts[n]) };
            }
        }
        assert_eq!([group(), group(), group()], [groups[2], groups[1], groups[0]]);
    }

    #[test]
    fn zeroed_is_zero_also_when_used_again() {
        let a = Allocator::new();
        for len in [1, 64, 100, 2048, 2049, 5 << 20] {
            let layout = layout(len, LINE_LEN);
            let dirty = filled(&a, layout, 0xff);
            // SAFETY: allocated above with this layout.
            unsafe { a.dealloc(dirty, layout) };
            // SAFETY: the length is not 0.
            let block = unsafe { a.alloc_zeroed(layout) };
            assert!(is_filled(block, len, 0), "{len}");
            // SAFETY: as above.
            unsafe { a.dealloc(block, layout) };
        }
    }

    #[test]
    fn what_moves_keeps_its_content() {
        let a = Allocator::new();
        for align in [8, LINE_LEN, 4096] {
            let mut len = 64;
            let mut block = filled(&a, layout(len, align), 7);
            for next in [128, 2048, 2049, 6 << 20, 100, 64, 1] {
                // SAFETY: the block has this length and alignment; the new length is not 0.
                block = unsafe { a.realloc(block, layout(len, align), next) };
                assert_eq!(block.addr() % align, 0);
                assert!(is_filled(block, len.min(next), 7), "{len} to {next}, align {align}");
                // SAFETY: as many bytes as there are now.
                unsafe { block.write_bytes(7, next) };
                len = next;
            }
            // SAFETY: as above.
            unsafe { a.dealloc(block, layout(len, align)) };
        }
    }

    #[test]
    fn a_freed_slot_has_nothing_of_its_last_user() {
        let a = Allocator::new();
        let layout = layout(500, LINE_LEN);
        let block = filled(&a, layout, 0xaa);
        // SAFETY: allocated above with this layout.
        unsafe { a.dealloc(block, layout) };
        // The same one: the last one that was freed.
        // SAFETY: the length is not 0.
        let again = unsafe { a.alloc(layout) };
        assert_eq!(again, block);
        // It began with the address of the next free slot, none.
        assert!(is_filled(again, 500, 0));
        // SAFETY: allocated above with this layout.
        unsafe { a.dealloc(again, layout) };
    }

    /// A chunk of the system's allocator that stays mapped when it is freed, where a test can look
    /// at it: the C library keeps small ones.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_freed_block_of_the_system_is_zero_also_where_it_has_moved() {
        const LEN: usize = 3000;
        let a = Allocator::new();
        let whole = layout(LEN, 8);
        let has_secret = || {
            let memory = std::fs::File::open("/proc/self/mem").unwrap();
            move |at: usize| {
                let mut bytes = vec![0; LEN];
                std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, at as u64).unwrap();
                bytes.windows(64).any(|part| part == [0xa7; 64])
            }
        };
        let has_secret = has_secret();
        let block = filled(&a, whole, 0xa7);
        // Keeps the chunk from being joined to the top, and given back.
        let behind = filled(&a, whole, 1);
        assert!(has_secret(block.addr()));
        // SAFETY: allocated above with this layout.
        let grown = unsafe { a.realloc(block, whole, 2 * LEN) };
        assert!(grown != block && has_secret(grown.addr()) && !has_secret(block.addr()));
        // SAFETY: it has this length now.
        let small = unsafe { a.realloc(grown, layout(2 * LEN, 8), 100) };
        assert!(!has_secret(grown.addr()));
        for (block, len) in [(small, 100), (behind, LEN)] {
            // SAFETY: each has this length.
            unsafe { a.dealloc(block, layout(len, 8)) };
        }
        assert!(!has_secret(behind.addr()));
    }

    #[test]
    fn threads_get_slots_of_their_own() {
        let a = Allocator::new();
        let layout = layout(200, LINE_LEN);
        std::thread::scope(|scope| {
            for byte in 1..=4 {
                let a = &a;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let blocks: [_; 16] = core::array::from_fn(|_| filled(a, layout, byte));
                        for block in blocks {
                            assert!(is_filled(block, 200, byte));
                            // SAFETY: allocated above with this layout.
                            unsafe { a.dealloc(block, layout) };
                        }
                    }
                });
            }
        });
    }
}
