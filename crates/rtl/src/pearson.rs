//! Pearson's hash (CACM 33 (6), 1990), with the permutation of `pearson_pkg.sv`.

use crate::registers::BUCKET_BITS;

/// The numbers 0 to 255, shuffled from the last place down: place i changes with place
/// (x >> 16) mod (i + 1), where x, at first 1, becomes 1664525 x + 1013904223 before each change.
const TABLE: [u8; 256] = {
    let mut places = [0; 256];
    let mut i = 0;
    while i < 256 {
        places[i] = i as u8;
        i += 1;
    }
    let mut x = 1u32;
    let mut i = 255;
    while i > 0 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let other = (x >> 16) as usize % (i + 1);
        let kept = places[i];
        places[i] = places[other];
        places[other] = kept;
        i -= 1;
    }
    places
};

/// The bucket of a text. Each 8 bits of it are a hash of their own, which begins with its number.
pub(crate) fn bucket(text: &[u8]) -> usize {
    let hash = |first: u32| text.iter().fold(first as u8, |h, b| TABLE[usize::from(h ^ b)]);
    let hashes = (0..BUCKET_BITS.div_ceil(8)).map(|k| usize::from(hash(k)) << (8 * k));
    hashes.sum::<usize>() & ((1 << BUCKET_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_a_permutation() {
        let mut seen = [false; 256];
        TABLE.iter().for_each(|place| seen[usize::from(*place)] = true);
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn texts_are_spread() {
        let mut buckets = vec![0; 1 << BUCKET_BITS];
        for n in 0..1024u32 {
            buckets[bucket(&n.to_be_bytes())] += 1;
        }
        assert!(buckets.iter().filter(|n| **n > 0).count() > 700);
        assert!(buckets.iter().all(|n| *n <= 6));
    }
}
