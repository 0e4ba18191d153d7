//! Where a packet lies inside a larger buffer.

use core::ops::Range;

/// A packet inside a buffer that has room before and after it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the packet's first byte in the buffer.
    pub start: usize,
    /// The packet's length.
    pub len: usize,
}

impl Span {
    /// One past the packet's last byte.
    pub const fn end(self) -> usize {
        self.start + self.len
    }

    /// As a range, to index the buffer with.
    pub const fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}
