//! Memory for expanded keys: aligned as the library wants it, zeroised when dropped.

use core::ffi::c_void;

use zeroize::Zeroize;

/// Alignment of a slab, in bytes: a cache line, and the most that the library asks for.
pub(crate) const LINE_LEN: usize = 64;

#[derive(Clone, Copy, Zeroize)]
#[repr(C, align(64))]
struct Line([u8; LINE_LEN]);

/// Zero-initialised lines on the heap; they never move, so the library may keep pointers to them
/// as long as the slab lives.
pub(crate) struct Slab {
    lines: Box<[Line]>,
}

impl Slab {
    /// At least `len` bytes, and at least one line.
    pub(crate) fn new(len: usize) -> Slab {
        let lines = len.div_ceil(LINE_LEN).max(1);
        Slab { lines: vec![Line([0; LINE_LEN]); lines].into_boxed_slice() }
    }

    /// A slab that starts with these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Slab {
        let mut slab = Slab::new(bytes.len());
        for (line, from) in slab.lines.iter_mut().zip(bytes.chunks(LINE_LEN)) {
            for (to, from) in line.0.iter_mut().zip(from) {
                *to = *from;
            }
        }
        slab
    }

    /// Length in bytes, a multiple of [`LINE_LEN`].
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * LINE_LEN
    }

    /// The address of line number `line`; valid for reading from there to the slab's end.
    pub(crate) fn line(&self, line: usize) -> *const c_void {
        debug_assert!(line < self.lines.len());
        self.lines.as_ptr().wrapping_add(line).cast()
    }

    /// The same for reading and writing.
    pub(crate) fn line_mut(&mut self, line: usize) -> *mut c_void {
        debug_assert!(line < self.lines.len());
        self.lines.as_mut_ptr().wrapping_add(line).cast()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.lines.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_large_enough() {
        for (len, want) in [(0, 64), (1, 64), (64, 64), (65, 128), (1024, 1024)] {
            let slab = Slab::new(len);
            assert_eq!(slab.len(), want);
            assert_eq!(slab.line(0).addr() % LINE_LEN, 0);
        }
    }

    #[test]
    fn keeps_the_bytes_in_order() {
        let bytes: Vec<u8> = (0..100).collect();
        let slab = Slab::from_bytes(&bytes);
        let kept: Vec<u8> = slab.lines.iter().flat_map(|line| line.0).collect();
        assert_eq!(&kept[..100], &bytes[..]);
        assert!(kept[100..].iter().all(|byte| *byte == 0));
    }
}
