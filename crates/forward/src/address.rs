//! Addresses of both families as unsigned numbers, whose top bits choose a way through a trie.

/// An address as an unsigned number.
pub trait Address: Copy + Ord {
    /// Bits in an address.
    const BITS: u32;
    /// The lowest address.
    const MIN: Self;

    /// The first address of the prefix; a length above [`Address::BITS`] is that.
    fn first(self, prefix_len: u8) -> Self;
    /// The last address of the prefix; a length above [`Address::BITS`] is that.
    fn last(self, prefix_len: u8) -> Self;
    /// The next address, or `None` after the last.
    fn next(self) -> Option<Self>;
    /// The 8 bits from bit `from` on, counted from the top; those past the end are 0.
    fn byte(self, from: u32) -> usize;
    /// The 16 bits from bit `from` on, counted from the top; those past the end are 0.
    fn pair(self, from: u32) -> u16;
    /// The address without its first 8 bits.
    fn skip_byte(self) -> Self;
    /// The address without its first 16 bits.
    fn skip_pair(self) -> Self;
    /// The address with `bits` bits from bit `from` on set to `value`, where they were 0.
    fn with(self, from: u32, bits: u32, value: u32) -> Self;
}

macro_rules! address {
    ($type:ty) => {
        impl Address for $type {
            const BITS: u32 = <$type>::BITS;
            const MIN: Self = 0;

            fn first(self, prefix_len: u8) -> Self {
                self & !<$type>::MAX.checked_shr(prefix_len.into()).unwrap_or(0)
            }

            fn last(self, prefix_len: u8) -> Self {
                self | <$type>::MAX.checked_shr(prefix_len.into()).unwrap_or(0)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline(always)]
            fn byte(self, from: u32) -> usize {
                (self.checked_shl(from).unwrap_or(0) >> (<$type>::BITS - 8)) as usize
            }

            #[inline(always)]
            fn pair(self, from: u32) -> u16 {
                (self.checked_shl(from).unwrap_or(0) >> (<$type>::BITS - 16)) as u16
            }

            #[inline(always)]
            fn skip_byte(self) -> Self {
                self << 8
            }

            #[inline(always)]
            fn skip_pair(self) -> Self {
                self << 16
            }

            fn with(self, from: u32, bits: u32, value: u32) -> Self {
                let value = <$type>::from(value);
                match (from + bits).checked_sub(<$type>::BITS) {
                    None | Some(0) => self | value << (<$type>::BITS - from - bits),
                    Some(past) => self | value >> past,
                }
            }
        }
    };
}

address!(u32);
address!(u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_a_first_and_a_last_address() {
        let a = 0x0a01_02ff_u32;
        assert_eq!((a.first(0), a.last(0)), (0, u32::MAX));
        assert_eq!((a.first(24), a.last(24)), (0x0a01_0200, 0x0a01_02ff));
        assert_eq!((a.first(32), a.last(32)), (a, a));
        assert_eq!((a.first(40), a.last(255)), (a, a));
        assert_eq!((u32::MAX.next(), 7_u32.next()), (None, Some(8)));
    }

    #[test]
    fn pieces_are_taken_from_the_top() {
        let a = 0x0a01_02ff_u32;
        assert_eq!([a.byte(0), a.byte(8), a.byte(16), a.byte(24), a.byte(32)], [10, 1, 2, 255, 0]);
        assert_eq!(
            [a.pair(0), a.pair(8), a.pair(16), a.pair(24)],
            [0x0a01, 0x0102, 0x02ff, 0xff00]
        );
        assert_eq!((a.skip_byte(), a.skip_pair()), (0x0102_ff00, 0x02ff_0000));
        assert_eq!(0x0a00_0000_u32.with(8, 16, 0x0102).with(24, 8, 0xff), a);
        assert_eq!(0x0a01_0200_u32.with(24, 16, 0xff00), a);
        let b = 0x2001_0db8_u128 << 96 | 0xbeef;
        assert_eq!((b.pair(16), b.byte(112), b.pair(112)), (0x0db8, 0xbe, 0xbeef));
        assert_eq!((0x2001_u128 << 112).with(16, 16, 0x0db8).with(112, 16, 0xbeef), b);
    }
}
