//! Why bytes from outside were refused, and why bytes could not be written.

use outcome::DropReason;

/// Why a packet does not parse. The fault is the sender's (or the wire's) in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the fixed header has.
    #[error("the packet is shorter than its fixed header")]
    Truncated,
    /// The version field says neither 4 nor 6 (or not the one that the caller asked for).
    #[error("the IP version is {0}")]
    Version(u8),
    /// IPv4's header length is below 20 bytes or beyond the packet's end.
    #[error("the IPv4 header length contradicts the packet")]
    HeaderLen,
    /// The length by the header is beyond the bytes at hand, or below the header's own length.
    #[error("the length in the IP header contradicts the packet")]
    TotalLen,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    Checksum,
    /// The fragment would end beyond the largest IP packet.
    #[error("the fragment ends beyond 65535 bytes")]
    FragmentBounds,
    /// An IPv6 extension header reaches beyond the packet's end.
    #[error("an IPv6 extension header is truncated")]
    ExtensionTruncated,
    /// Hop-by-hop options elsewhere than first, or a second fragment header (RFC 8200 §4.1).
    #[error("the IPv6 extension headers are in an order that cannot be")]
    ExtensionOrder,
    /// More extension headers than a sensible packet has.
    #[error("too many IPv6 extension headers")]
    ExtensionCount,
    /// An IPv6 jumbogram (RFC 2675), or a packet above 65535 bytes with its header.
    #[error("the IPv6 packet is longer than 65535 bytes")]
    Jumbogram,
    /// The header above IP is shorter than its ports, or than its ICMP type and code.
    #[error("the header of protocol {0} is truncated")]
    UpperTruncated(u8),
}

impl From<ParseError> for DropReason {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Checksum => DropReason::BadIpChecksum,
            ParseError::UpperTruncated(_) => DropReason::MalformedUpper,
            _ => DropReason::MalformedIp,
        }
    }
}

/// The buffer is shorter than what was to be written. The fault is the caller's; nothing was
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the buffer is too short for the header")]
pub struct NoRoom;
