//! Where a fragment belongs, of either family.

use crate::ipv4::Ipv4Header;
use crate::ipv6::{FRAGMENT_HEADER_LEN, HEADER_LEN, Ipv6Header};

/// Fields that identify a fragment and its place, of either family. Lengths and offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentFields {
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub ident: u32,
    /// Where the payload lies in the fragmentable part.
    pub offset: u16,
    /// The payload's length.
    pub len: u16,
    /// More fragments follow.
    pub more: bool,
    /// Length of the headers that every fragment has in front, without IPv6's fragment header: where
    /// the fragmentable part begins in the whole packet.
    pub head_len: u16,
    /// Where the payload begins in this packet.
    pub payload_at: u16,
}

impl FragmentFields {
    /// Of a packet that [`parse_ip`](crate::parse_ip) has accepted; `None` for whole packets.
    pub fn of(packet: &[u8]) -> Option<FragmentFields> {
        let fields = match packet.first()? >> 4 {
            4 => FragmentFields::of_v4(packet)?,
            6 => FragmentFields::of_v6(packet)?,
            _ => return None,
        };
        (fields.offset > 0 || fields.more).then_some(fields)
    }

    fn of_v4(packet: &[u8]) -> Option<FragmentFields> {
        let header = Ipv4Header::parse_quoted(packet).ok()?;
        let head_len = header.header_len();
        Some(FragmentFields {
            ident: header.ident().into(),
            // Eight times a number of 13 bits.
            offset: header.fragment_offset() as u16,
            len: header.total_len().checked_sub(head_len)?,
            more: header.more_fragments(),
            head_len,
            payload_at: head_len,
        })
    }

    fn of_v6(packet: &[u8]) -> Option<FragmentFields> {
        let header = Ipv6Header::parse(packet).ok()?;
        let info = header.extensions().ok()?.fragment?;
        let payload_at = info.header_offset + FRAGMENT_HEADER_LEN as u16;
        Some(FragmentFields {
            ident: info.ident,
            offset: info.offset,
            len: (HEADER_LEN as u16 + header.payload_len()).checked_sub(payload_at)?,
            more: info.more,
            head_len: info.header_offset,
            payload_at,
        })
    }
}
