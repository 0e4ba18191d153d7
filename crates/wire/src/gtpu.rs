//! GTP-U, the tunnels of mobile networks' user plane (3GPP TS 29.281).
//!
//! ```text
//!   0                   1                   2                   3
//!   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!  +-----+-+-+-+-+-+---------------+-------------------------------+
//!  | Ver |P|*|E|S|N| Message type  |            Length             |
//!  +-----+-+-+-+-+-+---------------+-------------------------------+
//!  |              Tunnel endpoint identifier (TEID)                |
//!  +-------------------------------+---------------+---------------+
//!  | Sequence number (S)           | N-PDU (N)     | Next ext. (E) |  if any of E, S, N
//!  +---------------+---------------+---------------+---------------+
//!  | Length, in 4s | ...                           | Next ext.     |  for each extension
//!  +---------------+-------------------------------+---------------+
//! ```
//!
//! Version 1; P, the protocol type, is 1 (0 is GTP', which charges). Length counts what follows the first 8 bytes.
//!
//! Not handled: what extension headers and information elements mean.

use crate::error::NoRoom;

/// The UDP port that messages go to (§4.4.2.0).
pub const PORT: u16 = 2152;

/// Length of the mandatory part, in bytes.
pub const HEADER_LEN: usize = 8;

/// Length of sequence number, N-PDU number and next extension header's type, which come together.
const OPTIONAL_LEN: usize = 4;

/// Unit of an extension header's length, in bytes.
const EXTENSION_UNIT: usize = 4;

const EXTENSION: u8 = 0x04;
const SEQUENCE: u8 = 0x02;
const N_PDU: u8 = 0x01;

/// Types of messages (§6.1).
pub mod message {
    /// Echo Request (§7.2.1).
    pub const ECHO_REQUEST: u8 = 1;
    /// Echo Response (§7.2.2).
    pub const ECHO_RESPONSE: u8 = 2;
    /// Error Indication: the sender has no tunnel of a TEID.
    pub const ERROR_INDICATION: u8 = 26;
    /// Supported Extension Headers Notification.
    pub const SUPPORTED_EXTENSION_HEADERS: u8 = 31;
    /// Tunnel Status (§7.3.3).
    pub const TUNNEL_STATUS: u8 = 253;
    /// End Marker (§7.3.2).
    pub const END_MARKER: u8 = 254;
    /// G-PDU: a user's packet.
    pub const G_PDU: u8 = 255;
}

/// A tunnel endpoint identifier: which tunnel of the receiver's a message is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Teid(pub u32);

/// Why bytes are no message: the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum GtpuError {
    /// The datagram is shorter than the header that it begins.
    #[error("GTP-U: shorter than its header")]
    Short,
    /// Another version than 1.
    #[error("GTP-U: version {0}")]
    Version(u8),
    /// The protocol type is 0: GTP'.
    #[error("GTP-U: protocol type 0 (GTP')")]
    ProtocolType,
    /// The length field is not the datagram's.
    #[error("GTP-U: its length field differs from the datagram's length")]
    Length,
    /// An extension header has length 0, or is longer than the message.
    #[error("GTP-U: an extension header of no length, or beyond the message's end")]
    Extension,
}

/// A message whose header and extension headers were checked.
#[derive(Clone, Copy, Debug)]
pub struct GtpuHeader<'a> {
    fixed: &'a [u8; HEADER_LEN],
    /// Sequence number, N-PDU number, next extension header.
    optional: Option<&'a [u8; OPTIONAL_LEN]>,
    extensions: &'a [u8],
    payload: &'a [u8],
}

impl<'a> GtpuHeader<'a> {
    /// Parses the message that a UDP payload is, as a whole.
    ///
    /// # Errors
    /// It is none; see [`GtpuError`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, GtpuError> {
        let (fixed, rest) = datagram.split_first_chunk::<HEADER_LEN>().ok_or(GtpuError::Short)?;
        let flags = fixed[0];
        if flags >> 5 != 1 {
            return Err(GtpuError::Version(flags >> 5));
        }
        if flags & 0x10 == 0 {
            return Err(GtpuError::ProtocolType);
        }
        if usize::from(u16::from_be_bytes([fixed[2], fixed[3]])) != rest.len() {
            return Err(GtpuError::Length);
        }
        if flags & (EXTENSION | SEQUENCE | N_PDU) == 0 {
            return Ok(Self { fixed, optional: None, extensions: &[], payload: rest });
        }
        let (optional, rest) = rest.split_first_chunk::<OPTIONAL_LEN>().ok_or(GtpuError::Short)?;
        // Without the flag the type is not to be evaluated (§5.1).
        let first = if flags & EXTENSION == 0 { 0 } else { optional[3] };
        let payload = skip_extensions(first, rest)?;
        let (extensions, payload) =
            rest.split_at_checked(rest.len() - payload.len()).ok_or(GtpuError::Extension)?;
        Ok(Self { fixed, optional: Some(optional), extensions, payload })
    }

    /// The message's type, see [`message`].
    pub const fn message(&self) -> u8 {
        self.fixed[1]
    }

    /// The tunnel; 0 in messages that are of no tunnel.
    pub const fn teid(&self) -> Teid {
        Teid(u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]]))
    }

    /// The sequence number, if there is one.
    pub const fn seq(&self) -> Option<u16> {
        match self.optional {
            Some(optional) if self.fixed[0] & SEQUENCE != 0 => {
                Some(u16::from_be_bytes([optional[0], optional[1]]))
            }
            _ => None,
        }
    }

    /// The extension headers, one behind the other.
    pub const fn extensions(&self) -> &'a [u8] {
        self.extensions
    }

    /// Payload of the message: the user's packet of a G-PDU, else information elements.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The bytes behind a chain of extension headers, the first of which has this type (§5.2).
fn skip_extensions(first: u8, bytes: &[u8]) -> Result<&[u8], GtpuError> {
    let (mut next, mut rest) = (first, bytes);
    while next != 0 {
        let units = usize::from(*rest.first().ok_or(GtpuError::Extension)?);
        let len = units * EXTENSION_UNIT;
        // Not shorter than 4 bytes, so the chain has an end.
        let (extension, behind) = rest
            .split_at_checked(len)
            .filter(|(extension, _)| !extension.is_empty())
            .ok_or(GtpuError::Extension)?;
        next = *extension.last().ok_or(GtpuError::Extension)?;
        rest = behind;
    }
    Ok(rest)
}

/// The fields of a header without optional ones, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpuFields {
    /// The message's type.
    pub message: u8,
    /// Bytes behind the header.
    pub payload_len: u16,
    /// TEID of the tunnel.
    pub teid: Teid,
}

impl GtpuFields {
    /// Writes the header to the buffer's beginning.
    ///
    /// # Errors
    /// The buffer is shorter than 8 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        let [a, b] = self.payload_len.to_be_bytes();
        let [c, d, e, f] = self.teid.0.to_be_bytes();
        *out.first_chunk_mut::<HEADER_LEN>().ok_or(NoRoom)? =
            [0x30, self.message, a, b, c, d, e, f];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(flags: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        let payload_len = rest.len() as u16;
        let fields = GtpuFields { message: kind, payload_len, teid: Teid(0x1234_5678) };
        fields.emit(&mut bytes).unwrap();
        bytes[0] |= flags;
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn a_user_s_packet_with_and_without_options() {
        let bytes = message_of(0, message::G_PDU, &[0x45, 1, 2]);
        let header = GtpuHeader::parse(&bytes).unwrap();
        assert_eq!((header.message(), header.teid()), (255, Teid(0x1234_5678)));
        assert_eq!((header.payload(), header.seq()), (&[0x45, 1, 2][..], None));
        // 5G's PDU session container (type 0x85), as base stations send it, behind a sequence number.
        let rest = [0, 7, 0, 0x85, 1, 0x10, 9, 0, 0x45];
        let bytes = message_of(EXTENSION | SEQUENCE, message::G_PDU, &rest);
        let header = GtpuHeader::parse(&bytes).unwrap();
        assert_eq!((header.extensions(), header.payload()), (&[1, 0x10, 9, 0][..], &[0x45][..]));
        assert_eq!(header.seq(), Some(7));
        // The type means nothing without its flag.
        let bytes = message_of(N_PDU, message::G_PDU, &[0, 0, 3, 0x85]);
        let header = GtpuHeader::parse(&bytes).unwrap();
        assert_eq!((header.extensions().len(), header.payload().len(), header.seq()), (0, 0, None));
    }

    #[test]
    fn extension_headers_follow_each_other() {
        let rest = [0, 0, 0, 0x40, 1, 8, 104, 0x85, 2, 0, 0, 0, 0, 0, 0, 0, 0x60];
        let bytes = message_of(EXTENSION, message::G_PDU, &rest);
        assert_eq!(GtpuHeader::parse(&bytes).unwrap().payload(), [0x60]);
    }

    #[test]
    fn what_is_wrong_has_its_name() {
        let good = message_of(0, 1, &[]);
        let parse = |bytes: &[u8]| GtpuHeader::parse(bytes).map(|_| ()).unwrap_err();
        assert_eq!(parse(&good[..7]), GtpuError::Short);
        assert_eq!(parse(&[&[0x50], &good[1..]].concat()), GtpuError::Version(2));
        assert_eq!(parse(&[&[0x20], &good[1..]].concat()), GtpuError::ProtocolType);
        assert_eq!(parse(&[&good[..], &[0]].concat()), GtpuError::Length);
        assert_eq!(parse(&message_of(0, 255, &[1, 2])[..9]), GtpuError::Length);
        assert_eq!(parse(&message_of(SEQUENCE, 1, &[0, 1, 0])), GtpuError::Short);
        for rest in [
            // No extension header where one is told, one of no length, one that is cut.
            &[0, 0, 0, 0x85][..],
            &[0, 0, 0, 0x85, 0, 0, 0, 0],
            &[0, 0, 0, 0x85, 2, 0, 0, 0],
            &[0, 0, 0, 0x85, 1, 0, 0, 0x40],
        ] {
            assert_eq!(parse(&message_of(EXTENSION, 255, rest)), GtpuError::Extension, "{rest:?}");
        }
    }

    #[test]
    fn a_chain_ends_whatever_it_says() {
        let mut rest = vec![0, 0, 0, 0x85];
        (0..300).for_each(|_| rest.extend([1, 0, 0, 0x85]));
        assert_eq!(
            GtpuHeader::parse(&message_of(EXTENSION, 255, &rest)).map(|_| ()),
            Err(GtpuError::Extension)
        );
    }
}
