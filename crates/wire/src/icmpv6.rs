//! The ICMPv6 header (RFC 4443), and the types of neighbour discovery (RFC 4861).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     Type      |     Code      |           Checksum            |
//! +---------------+---------------+-------------------------------+
//! |           Rest of header; in "packet too big": MTU            |
//! +---------------------------------------------------------------+
//! |          In errors: beginning of the offending packet         |
//! ```

use crate::error::ParseError;
use crate::icmp::HEADER_LEN;
use crate::protocol;

/// Message types (IANA "ICMPv6 \"type\" Numbers").
pub mod kind {
    /// Destination unreachable (RFC 4443 §3.1).
    pub const DESTINATION_UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded (RFC 4443 §3.3).
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem (RFC 4443 §3.4).
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request (RFC 4443 §4.1).
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply (RFC 4443 §4.2).
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation (RFC 4861 §4.1).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement (RFC 4861 §4.2).
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation (RFC 4861 §4.3).
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement (RFC 4861 §4.4).
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    /// Redirect message (RFC 4861 §4.5).
    pub const REDIRECT: u8 = 137;
}

/// Codes of "destination unreachable" (RFC 4443 §3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Communication administratively prohibited.
    pub const ADMINISTRATIVE: u8 = 1;
    /// Address unreachable: no answer to neighbour discovery.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable: nothing listens on it.
    pub const PORT: u8 = 4;
    /// Reject route to the destination.
    pub const REJECT_ROUTE: u8 = 6;
}

/// True if a message of this type reports an error (RFC 4443 §2.1: the high bit is clear).
pub const fn is_error(message_type: u8) -> bool {
    message_type < 128
}

/// A message whose length was checked.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6Header<'a> {
    fixed: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Icmpv6Header<'a> {
    /// Parses the message that an IP payload is. The checksum is not verified; see
    /// [`verify_l4_checksum`](crate::verify_l4_checksum).
    ///
    /// # Errors
    /// The payload is shorter than the header.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, body) =
            bytes.split_first_chunk().ok_or(ParseError::UpperTruncated(protocol::ICMPV6))?;
        Ok(Self { fixed, body })
    }

    /// Type, as in [`kind`].
    pub const fn kind(&self) -> u8 {
        self.fixed[0]
    }

    /// ICMPv6 code, whose meaning depends on the type.
    pub const fn code(&self) -> u8 {
        self.fixed[1]
    }

    /// Checksum of the message, as received.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// The header's last word: the MTU in "packet too big".
    pub const fn mtu(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Bytes behind the header: in an error, the beginning of the offending packet.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}
