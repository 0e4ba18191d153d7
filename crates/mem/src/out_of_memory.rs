//! An end in words for a program that the system gives no more memory.
//!
//! The language's answer to an allocation that fails is to abort, with a trace of the stack that
//! leads nowhere: whatever came next is where it happens to fail. What its user needs to know is
//! that memory is short, and which limits there are.

use core::fmt;
use std::alloc::{GlobalAlloc, Layout};

/// An allocator that ends the process with status 1 and a message where another has no memory.
/// Nothing is cleaned up then, as with a crash.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrExit<A>(pub A);

// SAFETY: every call is handed to the allocator unchanged, and so are its answers.
unsafe impl<A: GlobalAlloc> GlobalAlloc for OrExit<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that allocator's.
        let block = unsafe { self.0.alloc(layout) };
        if block.is_null() {
            exit(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        if block.is_null() {
            exit(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { self.0.realloc(old, layout, new_len) };
        if block.is_null() {
            exit(new_len);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }
}

#[cold]
#[inline(never)]
fn exit(len: usize) -> ! {
    let mut text = Text { bytes: [0; 256], len: 0 };
    // A message that does not fit is cut.
    let _ = message(&mut text, len);
    let text = text.bytes.get(..text.len).unwrap_or_default();
    #[cfg(not(miri))]
    {
        // SAFETY: the bytes are valid for reads of their length.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        // SAFETY: takes no pointer.
        unsafe { libc::_exit(1) }
    }
    #[cfg(miri)]
    panic!("{text:?}")
}

fn message(out: &mut impl fmt::Write, len: usize) -> fmt::Result {
    writeln!(
        out,
        "culvert: out of memory: the system has no {len} bytes more for this process\n  see \
         `ulimit -v` (RLIMIT_AS), the control group's memory.max, and vm.overcommit_memory"
    )
}

/// Text without an allocation.
struct Text {
    bytes: [u8; 256],
    len: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..).unwrap_or_default();
        let taken = room.len().min(s.len());
        for (to, from) in room.iter_mut().zip(s.bytes()) {
            *to = from;
        }
        self.len += taken;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_fits_whatever_was_asked_for() {
        let mut text = Text { bytes: [0; 256], len: 0 };
        message(&mut text, usize::MAX).unwrap();
        let text = core::str::from_utf8(&text.bytes[..text.len]).unwrap();
        assert!(text.contains(&usize::MAX.to_string()) && text.ends_with("overcommit_memory\n"));
    }
}
