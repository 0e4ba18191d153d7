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
use crate::{checksum, protocol};

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
    /// RST: aborts the connection.
    pub const RST: u8 = 0x04;
    /// PSH: hands data on at once.
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

    /// Source port, host byte order.
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[0], self.fixed[1]])
    }

    /// Destination port, host byte order.
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.fixed[2], self.fixed[3]])
    }

    /// Sequence number of the segment's first byte.
    pub const fn seq(&self) -> u32 {
        u32::from_be_bytes([self.fixed[4], self.fixed[5], self.fixed[6], self.fixed[7]])
    }

    /// Next sequence number that the sender of the segment expects.
    pub const fn ack(&self) -> u32 {
        u32::from_be_bytes([self.fixed[8], self.fixed[9], self.fixed[10], self.fixed[11]])
    }

    /// Flags, as in [`flag`].
    pub const fn flags(&self) -> u8 {
        self.fixed[13]
    }

    /// Window in bytes, not scaled.
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.fixed[14], self.fixed[15]])
    }

    /// Checksum of the segment, as received.
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

    /// Bytes behind the header and its options.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Where the flags are, in bytes.
const FLAGS_AT: usize = 13;
/// Where the checksum is, in bytes.
const CHECKSUM_AT: usize = 16;

/// True if a segment opens a connection: the only kind that announces an MSS (RFC 9293 §3.7.1).
#[inline]
pub fn is_syn(segment: &[u8]) -> bool {
    segment.get(FLAGS_AT).is_some_and(|flags| flags & flag::SYN != 0)
}

/// Lowers the maximum segment size that a SYN announces to `most` bytes, and keeps its checksum right
/// (RFC 1624). True if it was higher. Where the option is missing, or stands behind a malformed one, nothing
/// changes: then 536 or 1220 bytes count.
pub fn clamp_mss(segment: &mut [u8], most: u16) -> bool {
    let Some(at) = mss_at(segment) else { return false };
    let Some(&[high, low]) = segment.get(at..).and_then(|rest| rest.first_chunk()) else {
        return false;
    };
    if u16::from_be_bytes([high, low]) <= most {
        return false;
    }
    // The one or two words that the value is part of, as the checksum adds them up.
    let words = at & !1..(at + 3) & !1;
    let mut old = [0; 4];
    let old = old.get_mut(..words.len()).unwrap_or_default();
    let Some(before) = segment.get(words.clone()) else { return false };
    old.copy_from_slice(before);
    if let Some(value) = segment.get_mut(at..at + 2) {
        value.copy_from_slice(&most.to_be_bytes());
    }
    let new = segment.get(words).unwrap_or_default();
    let Some(&[h, l]) = segment.get(CHECKSUM_AT..).and_then(|rest| rest.first_chunk()) else {
        return false;
    };
    let sum = checksum::update_slice(u16::from_be_bytes([h, l]), old, new);
    if let Some(place) = segment.get_mut(CHECKSUM_AT..CHECKSUM_AT + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// Where the value of a SYN's MSS option is.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let header = TcpHeader::parse(segment).ok()?;
    if header.flags() & flag::SYN == 0 {
        return None;
    }
    let end = header.header_len();
    let mut at = MIN_HEADER_LEN;
    while at < end {
        match *segment.get(at)? {
            OPTION_END => return None,
            OPTION_NOP => at += 1,
            kind => {
                let len = usize::from(*segment.get(at + 1)?);
                if kind == OPTION_MSS && len == 4 && at + 4 <= end {
                    return Some(at + 2);
                }
                // A length below 2 would never end the walk.
                at += len.max(2);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A segment with these options, padded, behind a pseudo header of IPv4; its checksum right.
    fn packet(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0; MIN_HEADER_LEN];
        tcp.extend(options);
        while !tcp.len().is_multiple_of(4) {
            tcp.push(OPTION_END);
        }
        tcp[12] = (tcp.len() as u8 / 4) << 4;
        tcp[FLAGS_AT] = flags;
        tcp.extend(payload);
        let fields = crate::ipv4::Ipv4Fields {
            traffic_class: 0,
            total_len: 20 + tcp.len() as u16,
            ident: 1,
            dont_fragment: true,
            ttl: 64,
            protocol: protocol::TCP,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
        };
        let mut packet = [&fields.to_bytes()[..], &tcp].concat();
        let h = crate::parse_ip(&packet).unwrap();
        assert!(crate::fill_l4_checksum(&mut packet, &h));
        packet
    }

    fn mss_of(packet: &[u8]) -> Option<u16> {
        TcpHeader::parse(&packet[20..]).unwrap().mss()
    }

    #[test]
    fn only_what_is_higher_and_only_in_a_syn() {
        let options = [2, 4, 0x05, 0xb4];
        for (flags, most, expected) in [
            (flag::SYN, 1360, Some(1360)),
            (flag::SYN | flag::ACK, 1360, Some(1360)),
            (flag::SYN, 1460, Some(1460)),
            (flag::SYN, 9000, Some(1460)),
            (flag::ACK, 1360, Some(1460)),
        ] {
            let mut packet = packet(flags, &options, b"data");
            let changed = clamp_mss(&mut packet[20..], most);
            assert_eq!(mss_of(&packet), expected);
            assert_eq!(changed, expected != Some(1460));
        }
        let mut without = packet(flag::SYN, &[1, 1, 3, 3, 7], b"");
        assert!(!clamp_mss(&mut without[20..], 1000));
        assert!(!clamp_mss(&mut [0; 19], 1000));
    }

    proptest! {
        /// Wherever the option stands, the checksum is what it would be if computed anew.
        #[test]
        fn the_checksum_stays_right(
            before in 0usize..20, after in prop::collection::vec(any::<u8>(), 0..10),
            value: u16, most: u16, payload in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut options = vec![OPTION_NOP; before];
            options.extend([2, 4]);
            options.extend(value.to_be_bytes());
            options.extend(&after);
            let mut packet = packet(flag::SYN, &options, &payload);
            let changed = clamp_mss(&mut packet[20..], most);
            prop_assert_eq!(changed, value > most);
            prop_assert_eq!(mss_of(&packet), Some(value.min(most)));
            let h = crate::parse_ip(&packet).unwrap();
            prop_assert_eq!(crate::verify_l4_checksum(&packet, &h), crate::L4Checksum::Valid);
        }

        #[test]
        fn noise_is_left_in_one_piece(bytes in prop::collection::vec(any::<u8>(), 0..80), most: u16) {
            let mut bytes = bytes;
            let before = bytes.len();
            clamp_mss(&mut bytes, most);
            prop_assert_eq!(bytes.len(), before);
        }
    }
}
