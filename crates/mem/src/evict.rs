//! Eviction: puts cache lines back into memory, where a device that bypasses the caches leaves them.
//!
//! For benchmarks: what a core has just written lies in its caches, what a card has received may not.

/// Writes every cache line of `bytes` back to memory and drops it from the caches of all cores; done when it
/// returns. Where programs have no instruction for that, nothing happens.
pub fn evict(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if !bytes.is_empty() {
        let in_front = bytes.as_ptr().addr() % crate::LINE_LEN;
        let first = bytes.as_ptr().wrapping_sub(in_front);
        for line in 0..(in_front + bytes.len()).div_ceil(crate::LINE_LEN) {
            // SAFETY: a part of the line is in `bytes`, so it is mapped; what is in it does not change.
            unsafe {
                core::arch::x86_64::_mm_clflush(first.wrapping_add(line * crate::LINE_LEN));
            }
        }
        // SAFETY: waits, and has no other effect.
        unsafe {
            core::arch::x86_64::_mm_mfence();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_evicted_stays_as_it_is() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for part in [0..0, 0..5000, 1..2, 63..64, 64..65, 100..300, 4999..5000] {
            evict(bytes.get(part).unwrap());
        }
        assert!(bytes.iter().zip((0..=255).cycle()).all(|(is, was): (&u8, u8)| *is == was));
    }
}
