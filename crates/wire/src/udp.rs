//! The UDP header (RFC 768).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |            Length             |           Checksum            |
//! +-------------------------------+-------------------------------+
//! ```

use crate::error::{NoRoom, ParseError};
use crate::protocol;

/// Length of the header, in bytes.
pub const HEADER_LEN: usize = 8;

/// A header whose length field was checked.
#[derive(Clone, Copy, Debug)]
pub struct UdpHeader<'a> {
    fixed: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> UdpHeader<'a> {
    /// Parses the datagram that an IP payload begins with.
    ///
    /// # Errors
    /// The payload is shorter than the header, or than the header's length field, or that field
    /// is below 8.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        const SHORT: ParseError = ParseError::UpperTruncated(protocol::UDP);
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(SHORT)?;
        let len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let payload = len.checked_sub(HEADER_LEN).and_then(|n| rest.get(..n)).ok_or(SHORT)?;
        Ok(Self { fixed, payload })
    }

    /// Source port, host byte order.
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port, host byte order.
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Length of header and payload, in bytes.
    pub const fn len(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// True if the payload is empty.
    pub const fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Checksum; 0 over IPv4 means that there is none.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// The payload, as long as the length field says.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The fields of a header, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFields {
    /// Source port, host byte order.
    pub src_port: u16,
    /// Destination port, host byte order.
    pub dst_port: u16,
    /// Length of header and payload, in bytes.
    pub len: u16,
    /// Checksum; 0 for none (RFC 3948 §2.1 for ESP), or to be filled in later with
    /// [`fill_l4_checksum`](crate::fill_l4_checksum).
    pub checksum: u16,
}

impl UdpFields {
    /// The header's bytes.
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let [a, b] = self.src_port.to_be_bytes();
        let [c, d] = self.dst_port.to_be_bytes();
        let [e, f] = self.len.to_be_bytes();
        let [g, h] = self.checksum.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Writes the header to the buffer's beginning.
    ///
    /// # Errors
    /// The buffer is shorter than 8 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        *out.first_chunk_mut().ok_or(NoRoom)? = self.to_bytes();
        Ok(())
    }
}
