//! The IPv4 header (RFC 791, RFC 2474, RFC 3168).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! |Version|  IHL  | Traffic Class |          Total Length         |
//! +-------+-------+---------------+-----+-------------------------+
//! |         Identification        |Flags|     Fragment Offset     |
//! +---------------+---------------+-----+-------------------------+
//! |      TTL      |   Protocol    |        Header Checksum        |
//! +---------------+---------------+-------------------------------+
//! |                         Source Address                        |
//! +---------------------------------------------------------------+
//! |                      Destination Address                      |
//! +---------------------------------------------------------------+
//! |                  Options, up to 40 bytes ...                  |
//! ```

use core::net::Ipv4Addr;

use crate::checksum;
use crate::error::{NoRoom, ParseError};

/// Length of the header without options, in bytes.
pub const MIN_HEADER_LEN: usize = 20;
/// Length of the longest header, in bytes.
pub const MAX_HEADER_LEN: usize = 60;

/// Where each field begins, in bytes.
pub mod field {
    /// DS field and ECN.
    pub const TRAFFIC_CLASS: usize = 1;
    /// Total length, 2 bytes.
    pub const TOTAL_LEN: usize = 2;
    /// Identification, 2 bytes.
    pub const IDENT: usize = 4;
    /// Flags and fragment offset, 2 bytes.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol of the payload, 1 byte.
    pub const PROTOCOL: usize = 9;
    /// Header checksum, 2 bytes.
    pub const CHECKSUM: usize = 10;
    /// Source address, 4 bytes.
    pub const SRC: usize = 12;
    /// Destination address, 4 bytes.
    pub const DST: usize = 16;
}

/// Don't Fragment, in the 16-bit word of flags and offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// More Fragments, in the same word.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The fragment offset in units of 8 bytes, in the same word.
pub const OFFSET_MASK: u16 = 0x1fff;

/// A header whose lengths and checksum were checked.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Header<'a> {
    fixed: &'a [u8; MIN_HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4Header<'a> {
    /// Checks version, header length, total length and checksum of the packet that `packet`
    /// begins with; bytes after the total length (Ethernet padding) are allowed.
    ///
    /// # Errors
    /// The first check that fails, as a [`ParseError`].
    pub fn parse(packet: &'a [u8]) -> Result<Self, ParseError> {
        let header = Self::parse_quoted(packet)?;
        if packet.len() < usize::from(header.total_len()) {
            return Err(ParseError::TotalLen);
        }
        if checksum::add(checksum::sum(header.fixed), checksum::sum(header.options)) != 0xffff {
            return Err(ParseError::Checksum);
        }
        Ok(header)
    }

    /// As [`Ipv4Header::parse`], for a packet quoted in an ICMP error: its end may be missing and
    /// routers on the way may have left its checksum as it was, so neither is checked.
    ///
    /// # Errors
    /// The header itself is truncated or contradicts itself.
    pub fn parse_quoted(packet: &'a [u8]) -> Result<Self, ParseError> {
        let Some((fixed, rest)) = packet.split_first_chunk::<MIN_HEADER_LEN>() else {
            return Err(ParseError::Truncated);
        };
        if fixed[0] >> 4 != 4 {
            return Err(ParseError::Version(fixed[0] >> 4));
        }
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let options_len = header_len.checked_sub(MIN_HEADER_LEN).ok_or(ParseError::HeaderLen)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(ParseError::HeaderLen)?;
        let total_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let payload_len = total_len.checked_sub(header_len).ok_or(ParseError::TotalLen)?;
        let payload = payload.get(..payload_len).unwrap_or(payload);
        Ok(Self { fixed, options, payload })
    }

    /// Length of the header with options, in bytes: 20 to 60.
    pub const fn header_len(&self) -> u16 {
        (self.fixed[0] & 0x0f) as u16 * 4
    }

    /// DS field and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[1]
    }

    /// The packet's length with its header, in bytes.
    pub const fn total_len(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Identification: common to the fragments of one packet.
    pub const fn ident(&self) -> u16 {
        u16::from_be_bytes([self.fixed[4], self.fixed[5]])
    }

    /// Flags and fragment offset as one word.
    const fn fragment_word(&self) -> u16 {
        u16::from_be_bytes([self.fixed[6], self.fixed[7]])
    }

    /// DF: routers must not fragment the packet.
    pub const fn dont_fragment(&self) -> bool {
        self.fragment_word() & DONT_FRAGMENT != 0
    }

    /// MF: this fragment is not the last.
    pub const fn more_fragments(&self) -> bool {
        self.fragment_word() & MORE_FRAGMENTS != 0
    }

    /// Where the payload lies in the unfragmented packet's payload, in bytes.
    pub const fn fragment_offset(&self) -> usize {
        (self.fragment_word() & OFFSET_MASK) as usize * 8
    }

    /// Time to live.
    pub const fn ttl(&self) -> u8 {
        self.fixed[8]
    }

    /// Protocol of the payload (IANA).
    pub const fn protocol(&self) -> u8 {
        self.fixed[9]
    }

    /// Checksum of the header, as received.
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.fixed[10], self.fixed[11]])
    }

    /// Source address of the packet.
    pub const fn src(&self) -> Ipv4Addr {
        let f = self.fixed;
        Ipv4Addr::new(f[12], f[13], f[14], f[15])
    }

    /// Destination address of the packet.
    pub const fn dst(&self) -> Ipv4Addr {
        let f = self.fixed;
        Ipv4Addr::new(f[16], f[17], f[18], f[19])
    }

    /// The options, a multiple of 4 bytes long.
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Bytes behind the header, up to the total length.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The fields of a header without options, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// DS field and ECN.
    pub traffic_class: u8,
    /// The packet's length with this header, in bytes.
    pub total_len: u16,
    /// Identification, host byte order: fragments of one packet have the same.
    pub ident: u16,
    /// Don't Fragment; the packet is no fragment.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload (IANA).
    pub protocol: u8,
    /// Source address of the packet.
    pub src: Ipv4Addr,
    /// Destination address of the packet.
    pub dst: Ipv4Addr,
}

impl Ipv4Fields {
    /// The header's bytes, checksum filled in.
    pub fn to_bytes(&self) -> [u8; MIN_HEADER_LEN] {
        let [len_hi, len_lo] = self.total_len.to_be_bytes();
        let [id_hi, id_lo] = self.ident.to_be_bytes();
        let [flags, offset] = if self.dont_fragment { DONT_FRAGMENT } else { 0 }.to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        let mut bytes = [
            0x45,
            self.traffic_class,
            len_hi,
            len_lo,
            id_hi,
            id_lo,
            flags,
            offset,
            self.ttl,
            self.protocol,
            0,
            0,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ];
        [bytes[10], bytes[11]] = checksum::checksum(&bytes).to_be_bytes();
        bytes
    }

    /// Writes the header to the buffer's beginning.
    ///
    /// # Errors
    /// The buffer is shorter than 20 bytes.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        *out.first_chunk_mut().ok_or(NoRoom)? = self.to_bytes();
        Ok(())
    }
}

/// Recomputes the header checksum of a packet whose header length was checked before; does
/// nothing to a slice that is shorter than its header.
pub fn fill_checksum(packet: &mut [u8]) {
    let Some(first) = packet.first() else { return };
    let header_len = usize::from(first & 0x0f) * 4;
    let Some(header) = packet.get_mut(..header_len) else { return };
    if let Some(field) = header.get_mut(field::CHECKSUM..field::CHECKSUM + 2) {
        field.fill(0);
    }
    let value = checksum::checksum(header);
    if let Some(field) = header.get_mut(field::CHECKSUM..field::CHECKSUM + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
