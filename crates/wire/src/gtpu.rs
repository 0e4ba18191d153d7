//! The GTP-U header (3GPP TS 29.281 §5.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----+-+-+-+-+-+---------------+-------------------------------+
//! | Ver |P|0|E|S|N| Message Type  |            Length             |
//! +-----+-+-+-+-+-+---------------+-------------------------------+
//! |                Tunnel Endpoint Identifier                     |
//! +-------------------------------+---------------+---------------+
//! |  Sequence Number              | N-PDU Number  | Next Ext Type |   if E, S or N is set
//! +-------------------------------+---------------+---------------+
//! | Length / 4    | content ...                   | Next Ext Type |   while there is a next one
//! +---------------+-------------------------------+---------------+
//! ```
//!
//! The length is that of all behind the first 8 bytes.

/// The UDP port (TS 29.281 §4.4.2).
pub const PORT: u16 = 2152;

/// Length of the part that each header has, in bytes.
pub const MIN_HEADER_LEN: usize = 8;

/// Length with sequence number, N-PDU number and extension type.
const LONG_HEADER_LEN: usize = 12;

/// Message type of a user's packet.
pub const G_PDU: u8 = 255;

/// A Tunnel Endpoint Identifier, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Teid(pub u32);

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GtpuError {
    /// There are fewer bytes than the header has.
    #[error("the GTP-U header is truncated")]
    Truncated,
    /// Not version 1, or GTP' (PT is 0).
    #[error("not GTP-U version 1")]
    Version,
    /// The length field says more than there is.
    #[error("the GTP-U length is beyond the datagram")]
    Length,
    /// An extension header has no length, or is longer than the message.
    #[error("a GTP-U extension header does not fit")]
    Extension,
}

impl From<GtpuError> for outcome::DropReason {
    fn from(_: GtpuError) -> Self {
        outcome::DropReason::MalformedGtpu
    }
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpuHeader {
    /// Message type.
    pub message_type: u8,
    /// The tunnel's identifier.
    pub teid: Teid,
    /// Where the content begins: behind the last extension header.
    pub content_offset: usize,
    /// Where it ends.
    pub end: usize,
}

impl GtpuHeader {
    /// Parses a UDP payload.
    ///
    /// # Errors
    /// [`GtpuError`].
    pub fn parse(payload: &[u8]) -> Result<Self, GtpuError> {
        let Some((fixed, rest)) = payload.split_first_chunk::<MIN_HEADER_LEN>() else {
            return Err(GtpuError::Truncated);
        };
        let [flags, message_type, len_high, len_low, teid @ ..] = *fixed;
        if flags >> 4 != 0b0011 {
            return Err(GtpuError::Version);
        }
        let end = MIN_HEADER_LEN + usize::from(u16::from_be_bytes([len_high, len_low]));
        let message = payload.get(..end).ok_or(GtpuError::Length)?;
        let mut content_offset = MIN_HEADER_LEN;
        if flags & 0b0111 != 0 {
            content_offset = LONG_HEADER_LEN;
            let Some(&[.., mut next]) = rest.first_chunk::<4>() else {
                return Err(GtpuError::Truncated);
            };
            if end < LONG_HEADER_LEN {
                return Err(GtpuError::Length);
            }
            // The type counts only where E says so.
            while flags & 0b0100 != 0 && next != 0 {
                let len = message.get(content_offset).map_or(0, |units| 4 * usize::from(*units));
                content_offset += len;
                next = match content_offset.checked_sub(1).and_then(|at| message.get(at)) {
                    Some(next) if len > 0 => *next,
                    _ => return Err(GtpuError::Extension),
                };
            }
        }
        Ok(Self { message_type, teid: Teid(u32::from_be_bytes(teid)), content_offset, end })
    }
}

/// Whether a UDP datagram has a sound GTP-U header in it.
pub fn is_sound(datagram: &[u8]) -> bool {
    datagram.get(crate::udp::HEADER_LEN..).is_some_and(|p| GtpuHeader::parse(p).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers() {
        // A G-PDU of 4 bytes.
        let plain = [0x30, 255, 0, 4, 0, 0, 0, 7, 1, 2, 3, 4];
        let header = GtpuHeader::parse(&plain).unwrap();
        assert_eq!((header.message_type, header.teid), (G_PDU, Teid(7)));
        assert_eq!((header.content_offset, header.end), (8, 12));
        // With a sequence number; with a PDU session container of 4 bytes and another one of 8.
        let numbered = [0x32, 255, 0, 6, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 2];
        assert_eq!(GtpuHeader::parse(&numbered).map(|h| h.content_offset), Ok(12));
        let extended = [
            0x34, 255, 0, 18, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0, 9, 0x40, 2, 0, 0, 0, 0, 0, 0, 0, 5,
            6,
        ];
        assert_eq!(GtpuHeader::parse(&extended).map(|h| (h.content_offset, h.end)), Ok((24, 26)));
    }

    #[test]
    fn what_is_malformed() {
        for (bytes, error) in [
            (&[0x30, 255, 0, 0, 0, 0, 0][..], GtpuError::Truncated),
            (&[0x20, 255, 0, 0, 0, 0, 0, 0], GtpuError::Version),
            (&[0x50, 255, 0, 0, 0, 0, 0, 0], GtpuError::Version),
            (&[0x30, 255, 0, 1, 0, 0, 0, 0], GtpuError::Length),
            (&[0x32, 255, 0, 0, 0, 0, 0, 0], GtpuError::Truncated),
            (&[0x32, 255, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0], GtpuError::Length),
            (&[0x34, 255, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x85], GtpuError::Extension),
            (&[0x34, 255, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x85, 0, 0, 0, 0], GtpuError::Extension),
            (&[0x34, 255, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x85, 2, 0, 0, 0], GtpuError::Extension),
        ] {
            assert_eq!(GtpuHeader::parse(bytes), Err(error), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn offsets_lie_inside(bytes in prop::collection::vec(any::<u8>(), 0..80), flags in 0x30_u8..0x38) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = flags;
            }
            if let Ok(header) = GtpuHeader::parse(&bytes) {
                prop_assert!(header.content_offset <= header.end && header.end <= bytes.len());
            }
        }
    }
}
