//! Comparing tags.

use core::hint::black_box;

/// True if an ICV is the beginning of a tag. The time depends on its length alone.
pub(crate) fn is_right(tag: &[u8], icv: &[u8]) -> bool {
    let Some(tag) = tag.get(..icv.len()) else { return false };
    // The compiler is kept from a loop that ends early.
    let differences = tag.iter().zip(icv).fold(0, |all, (a, b)| black_box(all | a ^ b));
    differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let tag: [u8; 16] = core::array::from_fn(|at| at as u8);
        for len in [8, 12, 16] {
            assert!(is_right(&tag, &tag[..len]));
            for bit in 0..8 * len {
                let mut icv = tag;
                icv[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_right(&tag, &icv[..len]));
            }
        }
        assert!(!is_right(&tag, &[0; 17]));
    }
}
