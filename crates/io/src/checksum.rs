//! The Internet checksum (RFC 1071), as segmentation and coalescing need it.

/// A ones' complement sum in progress, over 16-bit words in network byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd last byte counts as if a zero followed, so only the last piece of a
    /// packet may be odd.
    #[inline]
    #[must_use]
    pub fn bytes(self, data: &[u8]) -> Self {
        Self(self.0 + u64::from(wire::checksum::sum(data)))
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// The sum itself, folded to 16 bits (what a partial checksum field holds).
    #[inline]
    pub const fn folded(self) -> u16 {
        let mut sum = fold(self.0);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Folds to at most 33 bits, so that later additions can't overflow.
const fn fold(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// The pseudo header's sum, without the length: `addresses` is source and destination, 8 bytes for
/// IPv4 (RFC 9293 §3.1) or 32 for IPv6 (RFC 8200 §8.1).
pub fn pseudo_header(addresses: &[u8], protocol: u8) -> Sum {
    Sum::default().bytes(addresses).word(u16::from(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_1071_example() {
        // RFC 1071 §3: the sum of these bytes is ddf2.
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.folded(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    proptest! {
        #[test]
        fn agrees_with_word_by_word(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut plain: u32 = 0;
            for pair in data.chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            prop_assert_eq!(u32::from(Sum::default().bytes(&data).folded()), plain);
        }

        #[test]
        fn pieces_add_up(data in prop::collection::vec(any::<u8>(), 0..500), cut in 0_usize..250) {
            let cut = (cut * 2).min(data.len() & !1);
            let (head, tail) = data.split_at(cut);
            prop_assert_eq!(
                Sum::default().bytes(head).bytes(tail).folded(),
                Sum::default().bytes(&data).folded()
            );
        }
    }
}
