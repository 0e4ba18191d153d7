//! Writing the ICMP header, which has one form in both versions (RFC 792, RFC 4443 §2.1).
//!
//! The meaning of the fields is for [`icmpv4`](crate::icmpv4) and [`icmpv6`](crate::icmpv6) to know.

use crate::error::NoRoom;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// The fields of a header, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpFields {
    /// ICMP type: see [`crate::icmpv4::kind`], [`crate::icmpv6::kind`].
    pub kind: u8,
    /// ICMP code, whose meaning depends on the type.
    pub code: u8,
    /// The word after the checksum.
    pub rest: u32,
}

impl IcmpFields {
    /// The header's bytes with a checksum of zero, to be filled in once the body stands.
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.rest.to_be_bytes();
        [self.kind, self.code, 0, 0, a, b, c, d]
    }

    /// Writes the header to the buffer's beginning, with a checksum of zero.
    ///
    /// # Errors
    /// The buffer is shorter than 8 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        *out.first_chunk_mut().ok_or(NoRoom)? = self.to_bytes();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_header_and_no_more() {
        let fields = IcmpFields { kind: 3, code: 4, rest: 0x0001_05dc };
        let mut out = [0xff; 9];
        assert_eq!(fields.emit(&mut out), Ok(()));
        assert_eq!(out, [3, 4, 0, 0, 0, 1, 5, 0xdc, 0xff]);
        assert_eq!(fields.emit(&mut out[..7]), Err(NoRoom));
    }
}
