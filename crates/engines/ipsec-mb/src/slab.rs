//! Working memory of the library: aligned as it wants it, zeroised when dropped.

use core::ffi::c_void;

use zeroize::Zeroize;

/// Alignment of a slab, in bytes: a cache line, and the most that the library asks for.
pub(crate) const LINE_LEN: usize = 64;

#[derive(Clone, Copy, Zeroize)]
#[repr(C, align(64))]
struct Line([u64; LINE_LEN / size_of::<u64>()]);

/// Zero-initialised lines on the heap; they never move, so the library may keep pointers to them
/// as long as the slab lives.
pub(crate) struct Slab {
    lines: Box<[Line]>,
}

impl Slab {
    /// At least `len` bytes, and at least one line.
    pub(crate) fn new(len: usize) -> Slab {
        let lines = len.div_ceil(LINE_LEN).max(1);
        Slab { lines: vec![Line(Default::default()); lines].into_boxed_slice() }
    }

    /// The address of line number `line`; valid for reading and writing from there to the slab's
    /// end.
    pub(crate) fn line_mut(&mut self, line: usize) -> *mut c_void {
        debug_assert!(line < self.lines.len());
        self.lines.as_mut_ptr().wrapping_add(line).cast()
    }

    /// Overwrites the slab with zeros.
    pub(crate) fn wipe(&mut self) {
        self.lines.zeroize();
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_large_enough() {
        for (len, want) in [(0, 64), (1, 64), (64, 64), (65, 128), (1024, 1024)] {
            let mut slab = Slab::new(len);
            assert_eq!(slab.lines.len() * LINE_LEN, want);
            assert_eq!(slab.line_mut(0).addr() % LINE_LEN, 0);
        }
    }
}
