//! The TCP header (RFC 9293 §3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          Source Port          |       Destination Port        |
//! +-------------------------------+-------------------------------+
//! |                        Sequence Number                        |
//! +---------------------------------------------------------------+
//! |                    Acknowledgment Number                      |
//! +-------+-------+---------------+-------------------------------+
//! | Offset| Rsrvd |CEUAPRSF flags |            Window             |
//! +-------+-------+---------------+-------------------------------+
//! |           Checksum            |         Urgent Pointer        |
//! +-------------------------------+-------------------------------+
//! |                  Options, up to 40 bytes ...                  |
//! ```

use crate::error::ParseError;
use crate::protocol;

/// Length of the header without options, in bytes.
pub const MIN_HEADER_LEN: usize = 20;
/// Option kind: end of the option list.
const OPTION_END: u8 = 0;
/// Option kind: no operation, one byte.
const OPTION_NOP: u8 = 1;
/// Option kind: maximum segment size, 4 bytes (RFC 9293 §3.7.1).
const OPTION_MSS: u8 = 2;

/// Flag bits of the header's 14th byte.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 0x10;
}

/// A header whose data offset was checked.
#[derive(Clone, Copy, Debug)]
pub struct TcpHeader<'a> {
    fixed: &'a [u8; MIN_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpHeader<'a> {
    /// Parses the segment that an IP payload is.
    ///
    /// # Errors
    /// The payload is shorter than the header, or the data offset is below 20 bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        const SHORT: ParseError = ParseError::UpperTruncated(protocol::TCP);
        let (fixed, rest) = bytes.split_first_chunk::<MIN_HEADER_LEN>().ok_or(SHORT)?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let options_len = header_len.checked_sub(MIN_HEADER_LEN).ok_or(SHORT)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(SHORT)?;
        Ok(Self { fixed, options, payload })
    }

    /// Source port.
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port.
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Sequence number.
    pub const fn seq(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Acknowledgment number.
    pub const fn ack(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// Flags, as in [`flag`].
    pub const fn flags(&self) -> u8 {
        self.fixed[13]
    }

    /// Window, unscaled.
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// Checksum.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[16], self.fixed[17]])
    }

    /// Length of the header with options, in bytes.
    pub const fn header_len(&self) -> usize {
        MIN_HEADER_LEN + self.options.len()
    }

    /// The maximum segment size that the sender announces, if the options have one; options
    /// after a malformed one are not looked at.
    pub fn mss(&self) -> Option<u16> {
        let mut rest = self.options;
        while let [kind, after @ ..] = rest {
            match *kind {
                OPTION_END => return None,
                OPTION_NOP => rest = after,
                kind => {
                    let len = usize::from(*after.first()?);
                    if kind == OPTION_MSS
                        && let [_, 4, hi, lo, ..] = rest
                    {
                        return Some(u16::from_be_bytes([*hi, *lo]));
                    }
                    // A length below 2 would never end the walk.
                    rest = rest.get(len.max(2)..)?;
                }
            }
        }
        None
    }

    /// What follows the header.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
