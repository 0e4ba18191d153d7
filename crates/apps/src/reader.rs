//! A cursor over bytes from outside: every step says whether there is as much.

/// Bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader(bytes)
    }

    /// The bytes that are left.
    pub(crate) const fn rest(&self) -> &'b [u8] {
        self.0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `len` bytes. `None` if there are fewer; then nothing is read.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes, at most 8, big-endian.
    fn number(&mut self, len: usize) -> Option<u64> {
        Some(self.take(len)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.number(1).map(|n| n as u8)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|n| n as u16)
    }

    pub(crate) fn u24(&mut self) -> Option<usize> {
        self.number(3).map(|n| n as usize)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|n| n as u32)
    }

    /// Bytes behind their length, which has one byte.
    pub(crate) fn vec8(&mut self) -> Option<&'b [u8]> {
        let mut ahead = *self;
        let len = ahead.u8()?;
        let bytes = ahead.take(len.into())?;
        *self = ahead;
        Some(bytes)
    }

    /// Bytes behind their length, which has two bytes.
    pub(crate) fn vec16(&mut self) -> Option<&'b [u8]> {
        let mut ahead = *self;
        let len = ahead.u16()?;
        let bytes = ahead.take(len.into())?;
        *self = ahead;
        Some(bytes)
    }

    /// A variable-length integer of QUIC (RFC 9000 §16).
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let len = 1 << (first >> 6);
        let mask = u64::MAX >> (66 - 8 * len);
        self.number(len).map(|n| n & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers() {
        // RFC 9000 appendix A.1.
        let cases: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, number) in cases {
            let mut reader = Reader::new(bytes);
            assert_eq!((reader.varint(), reader.is_empty()), (Some(number), true));
            assert_eq!(Reader::new(&bytes[..bytes.len() - 1]).varint(), None, "cut");
        }
    }

    #[test]
    fn what_is_cut_is_not_read() {
        let mut reader = Reader::new(&[0, 3, 7, 7]);
        assert_eq!((reader.vec16(), reader.rest().len()), (None, 4));
        assert_eq!(reader.vec8(), Some(&[][..]));
    }
}
