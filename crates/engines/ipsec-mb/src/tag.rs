//! Comparison of tags.

use core::hint::black_box;

/// True if two tags of the same length are equal. The time does not depend on the bytes.
#[inline]
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && black_box(difference(a, b)) == 0
}

/// Zero if all bytes are equal; the lengths are.
#[inline]
fn difference(a: &[u8], b: &[u8]) -> u64 {
    // Most tags have 8 to 16 bytes: two words, which may overlap.
    if let 8..=16 = a.len()
        && let (Some(a0), Some(b0)) = (a.first_chunk(), b.first_chunk())
        && let (Some(a1), Some(b1)) = (a.last_chunk(), b.last_chunk())
    {
        return word(a0, b0) | word(a1, b1);
    }
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks(), b.as_chunks());
    let words = a.iter().zip(b).fold(0, |sum, (a, b)| sum | word(a, b));
    a_rest.iter().zip(b_rest).fold(words, |sum, (a, b)| sum | u64::from(a ^ b))
}

#[inline]
fn word(a: &[u8; 8], b: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_every_length_counts() {
        for len in 0..=40 {
            let tag = vec![0xa5; len];
            assert!(equal(&tag, &tag.clone()));
            for bit in 0..len * 8 {
                let mut other = tag.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!equal(&tag, &other), "bit {bit} of {len} bytes");
            }
        }
    }

    #[test]
    fn lengths_must_agree() {
        for (a, b) in [(0, 1), (12, 16), (8, 12), (16, 8), (24, 32)] {
            assert!(!equal(&vec![0; a], &vec![0; b]));
        }
    }
}
