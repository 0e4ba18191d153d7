//! A MAC's output.

/// Room for the longest truncated tag; a tag's first bytes count.
pub(crate) type Tag = [u8; 32];

/// Copies as much of `from` as fits to the start of `to`.
pub(crate) fn fill(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
