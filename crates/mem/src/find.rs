//! A look at all values of a short row at once.

/// Which of eight values is the one that is wanted, the first if there are several.
///
/// Without a branch for each: in a row that is read for a hash, where the value stands is as good
/// as random.
#[inline(always)]
pub fn find_among_eight(values: &[u32; 8], wanted: u32) -> Option<usize> {
    let found = equal(values, wanted);
    (found != 0).then(|| found.trailing_zeros() as usize / 2)
}

/// Two bits for each value, set if it is the one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal(values: &[u32; 8], wanted: u32) -> u32 {
    use core::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi32,
        _mm_set1_epi32,
    };
    let equal_of_four = |four: &[u32; 4]| {
        let four: *const __m128i = four.as_ptr().cast();
        // SAFETY: sixteen bytes, and any alignment will do.
        let four = unsafe { _mm_loadu_si128(four) };
        // SAFETY: every x86-64 processor has SSE2.
        let wanted = unsafe { _mm_set1_epi32(wanted.cast_signed()) };
        // SAFETY: as above.
        unsafe { _mm_cmpeq_epi32(four, wanted) }
    };
    let [a, b, c, d, e, f, g, h] = *values;
    let (low, high) = (equal_of_four(&[a, b, c, d]), equal_of_four(&[e, f, g, h]));
    // SAFETY: as above.
    let found = unsafe { _mm_packs_epi32(low, high) };
    // SAFETY: as above.
    unsafe { _mm_movemask_epi8(found) }.cast_unsigned()
}

/// Two bits for each value, set if it is the one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal(values: &[u32; 8], wanted: u32) -> u32 {
    let each = values.iter().zip((0..).step_by(2));
    each.fold(0, |found, (value, at)| found | if *value == wanted { 3 << at } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_that_are_equal_is_found() {
        // Values that saturation or a look at a part of the bits would take for each other.
        let others = [0, 1, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x8000_0000, u32::MAX];
        for wanted in others {
            for fill in others.into_iter().filter(|other| *other != wanted) {
                assert_eq!(find_among_eight(&[fill; 8], wanted), None);
                for at in 0..8 {
                    for second in at..8 {
                        let mut values = [fill; 8];
                        (values[at], values[second]) = (wanted, wanted);
                        assert_eq!(find_among_eight(&values, wanted), Some(at));
                    }
                }
            }
        }
    }
}
