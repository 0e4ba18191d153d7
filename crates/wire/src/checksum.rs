//! The Internet checksum (RFC 1071): ones-complement sums, incremental update, pseudo headers.
//!
//! A *sum* here is the folded 16-bit ones-complement sum of big-endian words, not complemented,
//! as a number in host byte order; a *checksum* is the complement of a sum, which is what headers
//! carry. Sums of non-zero data are never zero, so zero means "nothing but zeros was summed".

use core::net::{Ipv4Addr, Ipv6Addr};

/// The sum of a slice. A slice of odd length counts as if one zero byte followed, so of several
/// slices only the last may be odd.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // Words are added in native byte order: ones-complement addition commutes with swapping the
    // bytes (RFC 1071 §2 (B)), so one swap at the end is enough. 32-bit words go into 64-bit
    // accumulators, which cannot overflow below 2^32 words; four of them let it vectorise.
    let mut lanes = [0u64; 4];
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut total: u64 = lanes.iter().sum();
    let (words, odd) = rest.as_chunks::<2>();
    for word in words {
        total += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = odd {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold_wide(total))
}

/// The ones-complement sum of two sums.
pub const fn add(a: u16, b: u16) -> u16 {
    let (value, carry) = a.overflowing_add(b);
    value + carry as u16
}

/// The checksum of a slice: the complement of its sum.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// True if an IPv4 header without options has the right checksum.
///
/// The same as a [`sum`] of 0xffff: the sum of all words is a multiple of 0xffff then, whatever
/// their byte order, as 2^16 is 1 modulo 0xffff. Only a header of nothing but zeros, which has no
/// version either, passes beside.
#[inline(always)]
pub fn is_valid(header: &[u8; 20]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    total.is_multiple_of(0xffff)
}

/// A checksum after one 16-bit word of the data changed (RFC 1624, equation 3).
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// A checksum after a stretch of the data changed; `old` and `new` are of one even length and
/// begin at an even offset.
pub fn update_slice(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    !add(add(!checksum, !sum(old)), sum(new))
}

/// The sum of IPv4's pseudo header (RFC 9293 §3.1); `len` is the upper layer's length in bytes.
pub fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> u16 {
    let (src, dst) = (src.to_bits(), dst.to_bits());
    let words = [src >> 16, src & 0xffff, dst >> 16, dst & 0xffff, protocol.into(), len.into()];
    fold(words.iter().sum())
}

/// The sum of IPv6's pseudo header (RFC 8200 §8.1); `dst` is the final destination, `len` the
/// upper layer's length in bytes.
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> u16 {
    let ends = u64::from(protocol) + u64::from(len);
    add(add(sum(&src.octets()), sum(&dst.octets())), fold_wide(ends))
}

/// Folds a sum of some 16-bit words to 16 bits with end-around carry; 0 for 0 alone.
pub const fn fold(total: u32) -> u16 {
    // At most 0x1fffe, and then at most 0xffff.
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

/// Folds a sum of 32-bit words in the same way.
pub(crate) const fn fold_wide(total: u64) -> u16 {
    // At most 0x1_ffff_fffe, and then at most 0xffff_ffff.
    let total = (total & 0xffff_ffff) + (total >> 32);
    fold(((total & 0xffff_ffff) + (total >> 32)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word.
    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut total = 0u64;
        for (i, b) in bytes.iter().enumerate() {
            total += if i % 2 == 0 { u64::from(*b) << 8 } else { u64::from(*b) };
        }
        fold_slowly(total)
    }

    fn fold_slowly(mut total: u64) -> u16 {
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn example_of_rfc_1071() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&data), 0xddf2);
        assert_eq!(checksum(&data), 0x220d);
    }

    #[test]
    fn example_of_rfc_1624() {
        // §4: a field goes from 0x5555 to 0x3285 under checksum 0xdd2f.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn zero_only_for_zeros() {
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0; 33]), 0);
        assert_eq!(sum(&[0xff; 32]), 0xffff);
    }

    proptest! {
        #[test]
        fn equals_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&bytes), slow_sum(&bytes));
        }

        #[test]
        fn folds_as_the_loop_does(total: u64, shift in 0u32..64) {
            let total = total >> shift;
            prop_assert_eq!(fold_wide(total), fold_slowly(total));
            prop_assert_eq!(fold(total as u32), fold_slowly(total & 0xffff_ffff));
        }

        #[test]
        fn a_valid_header_sums_up_to_ones(mut header: [u8; 20], is_filled: bool) {
            header[0] |= 0x40;
            if is_filled {
                [header[10], header[11]] = [0, 0];
                [header[10], header[11]] = checksum(&header).to_be_bytes();
            }
            prop_assert_eq!(is_valid(&header), sum(&header) == 0xffff);
            prop_assert!(is_valid(&header) || !is_filled);
        }

        #[test]
        fn splits_at_even_offsets(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..150) {
            let at = (at * 2).min(bytes.len() & !1);
            prop_assert_eq!(add(sum(&bytes[..at]), sum(&bytes[at..])), sum(&bytes));
        }

        #[test]
        fn update_equals_recomputation(mut bytes in prop::collection::vec(any::<u8>(), 40), at in 0usize..18, new: [u8; 4]) {
            bytes[0] = 0x45; // never all zeros, as no IP header is
            let before = checksum(&bytes);
            let old: [u8; 4] = bytes[at * 2 + 2..][..4].try_into().unwrap_or_default();
            bytes[at * 2 + 2..][..4].copy_from_slice(&new);
            prop_assert_eq!(update_slice(before, &old, &new), checksum(&bytes));
            let first = update(before, u16::from_be_bytes([old[0], old[1]]), u16::from_be_bytes([new[0], new[1]]));
            let both = update(first, u16::from_be_bytes([old[2], old[3]]), u16::from_be_bytes([new[2], new[3]]));
            prop_assert_eq!(both, checksum(&bytes));
        }

        #[test]
        fn pseudo_headers_equal_their_layout(s4: u32, d4: u32, s6: u128, d6: u128, p: u8, len: u16) {
            let mut v4 = Vec::new();
            v4.extend(s4.to_be_bytes());
            v4.extend(d4.to_be_bytes());
            v4.extend([0, p]);
            v4.extend(len.to_be_bytes());
            prop_assert_eq!(pseudo_header_v4(s4.into(), d4.into(), p, len), slow_sum(&v4));
            let mut v6 = Vec::new();
            v6.extend(s6.to_be_bytes());
            v6.extend(d6.to_be_bytes());
            v6.extend(u32::from(len).to_be_bytes());
            v6.extend([0, 0, 0, p]);
            prop_assert_eq!(pseudo_header_v6(s6.into(), d6.into(), p, len.into()), slow_sum(&v6));
        }
    }
}
