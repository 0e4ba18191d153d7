//! Secrets that functions leave on the stack when they return.

use core::hint::black_box;

/// Overwrites `LEN` bytes of the stack below the caller's frame, where functions that have returned may have left parts
/// of keys: compilers spill registers and move values without a trace in the source, and zeroising cannot reach those
/// places.
///
/// `LEN` is more than those functions use. What was inlined into the caller is in its own frame, and stays.
#[inline(never)]
pub fn wipe_stack<const LEN: usize>() {
    let mut frame = [0u8; LEN];
    // The array is written as a whole, as somebody else might look at it.
    black_box(&mut frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves a secret in a frame of its own; returns where.
    #[inline(never)]
    fn leave_behind(secret: u8) -> usize {
        let mut frame = [secret; 4096];
        black_box(&mut frame);
        frame.as_ptr().addr()
    }

    /// By `/proc/self/mem`, as no reference leads to a frame that is gone.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn nothing_is_left_of_a_frame_that_is_gone() {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        let mut before = vec![0; 4096];
        let mut after = vec![0; 4096];
        let at = leave_behind(0xa7) as u64;
        memory.read_exact_at(&mut before, at).unwrap();
        wipe_stack::<{ 16 << 10 }>();
        memory.read_exact_at(&mut after, at).unwrap();
        assert!(before.windows(64).any(|part| part == [0xa7; 64]), "the test sees what was left");
        assert!(!after.windows(16).any(|part| part == [0xa7; 16]));
    }
}
