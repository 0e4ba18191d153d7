//! The ICMP header (RFC 792, RFC 1191).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     Type      |     Code      |           Checksum            |
//! +---------------+---------------+-------------------------------+
//! |     Rest of header; in "fragmentation needed": 0, then MTU    |
//! +---------------------------------------------------------------+
//! |  In errors: IP header and beginning of the offending packet   |
//! ```

use crate::error::ParseError;
use crate::icmp::HEADER_LEN;
use crate::protocol;

/// Message types (IANA "ICMP Type Numbers").
pub mod kind {
    /// Echo reply (RFC 792).
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable (RFC 792).
    pub const DESTINATION_UNREACHABLE: u8 = 3;
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect message (RFC 792).
    pub const REDIRECT: u8 = 5;
    /// Echo request (RFC 792).
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded (RFC 792).
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem (RFC 792).
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of "destination unreachable" (RFC 792, RFC 1812 §5.2.7.1).
pub mod unreachable {
    /// Network unreachable: no route.
    pub const NET: u8 = 0;
    /// Host unreachable: no answer to ARP.
    pub const HOST: u8 = 1;
    /// Protocol unreachable: nothing listens to it.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable: nothing listens on it.
    pub const PORT: u8 = 3;
    /// Fragmentation needed and DF set (RFC 1191 §4).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Communication administratively prohibited.
    pub const ADMINISTRATIVE: u8 = 13;
}

/// True if a message of this type reports an error about another packet. None may be sent about it
/// (RFC 1122 §3.2.2).
pub const fn is_error(message_type: u8) -> bool {
    matches!(
        message_type,
        kind::DESTINATION_UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// A message whose length was checked.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv4Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Icmpv4Header<'a> {
    /// Parses the message that an IP payload is. The checksum is not verified; see
    /// [`verify_l4_checksum`](crate::verify_l4_checksum).
    ///
    /// # Errors
    /// The payload is shorter than the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, body) =
            bytes.split_first_chunk().ok_or(ParseError::UpperTruncated(protocol::ICMP))?;
        Ok(Self { fixed, body })
    }

    /// Type, as in [`kind`].
    pub const fn kind(&self) -> u8 {
        self.fixed[0]
    }

    /// ICMP code, whose meaning depends on the type.
    pub const fn code(&self) -> u8 {
        self.fixed[1]
    }

    /// Checksum of the message, as received.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// The second half of the header's last word: the next-hop MTU in "fragmentation needed".
    pub const fn mtu(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// Bytes behind the header: in an error, the beginning of the offending packet.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}
