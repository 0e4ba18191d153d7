//! The segment routing header (RFC 8754 §2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |  Next Header  |  Hdr Ext Len  |  Routing Type |  Segments Left|
//! +---------------+---------------+---------------+---------------+
//! |   Last Entry  |     Flags     |              Tag              |
//! +---------------+---------------+-------------------------------+
//! |           Segment List[0], 16 bytes: the last segment         |
//! |                              ...                              |
//! |      Segment List[Last Entry]: the first one, or the second   |
//! +---------------------------------------------------------------+
//! |                       TLVs (RFC 8754 §2.1)                    |
//! +---------------------------------------------------------------+
//! ```

use core::net::Ipv6Addr;

/// Routing type of the header.
pub(crate) const ROUTING_TYPE: u8 = 4;
/// Length of what stands in front of the list, in bytes.
pub(crate) const FIXED_LEN: usize = 8;
/// Length of a segment, in bytes.
pub(crate) const SEGMENT_LEN: usize = 16;
/// Where Segments Left lies, in bytes.
pub(crate) const SEGMENTS_LEFT: usize = 3;

const PAD1: u8 = 0;
const HMAC: u8 = 5;

/// A header whose length was checked.
#[derive(Clone, Copy, Debug)]
pub struct Srh<'a>(&'a [u8]);

impl<'a> Srh<'a> {
    /// The header that the bytes begin with; none if they are shorter than it says, or it is no such header.
    pub fn parse(bytes: &'a [u8]) -> Option<Srh<'a>> {
        let fixed = bytes.first_chunk::<FIXED_LEN>()?;
        let len = (usize::from(fixed[1]) + 1) * 8;
        (fixed[2] == ROUTING_TYPE).then_some(())?;
        bytes.get(..len).map(Srh)
    }

    /// All of it.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Protocol of what follows.
    pub fn next_header(&self) -> u8 {
        self.byte(0)
    }

    /// The header's length, in bytes.
    pub fn header_len(&self) -> usize {
        self.0.len()
    }

    /// Segments that follow the one that the packet is on its way to.
    pub fn segments_left(&self) -> u8 {
        self.byte(SEGMENTS_LEFT)
    }

    /// The list's last index, which is that of the first segment.
    pub fn last_entry(&self) -> u8 {
        self.byte(4)
    }

    /// Marks packets of a kind; 0 for none.
    pub fn tag(&self) -> u16 {
        u16::from_be_bytes([self.byte(6), self.byte(7)])
    }

    /// True if the list is inside of the header, and so are the segments left. A reduced list lacks
    /// the first segment, so that one more may be left (RFC 8986 §4.1, S08 and S09).
    pub fn is_consistent(&self) -> bool {
        let entries = (self.0.len() - FIXED_LEN) / SEGMENT_LEN;
        usize::from(self.last_entry()) < entries
            && u16::from(self.segments_left()) <= u16::from(self.last_entry()) + 1
    }

    /// A segment by its index: 0 is the last one.
    pub fn segment(&self, index: u8) -> Option<Ipv6Addr> {
        let at = FIXED_LEN + usize::from(index) * SEGMENT_LEN;
        let octets: &[u8; SEGMENT_LEN] = self.0.get(at..)?.first_chunk()?;
        Some(Ipv6Addr::from(*octets))
    }

    /// True if a TLV is an HMAC. TLVs that do not end where the header does count as none.
    pub fn has_hmac(&self) -> bool {
        let at = FIXED_LEN + (usize::from(self.last_entry()) + 1) * SEGMENT_LEN;
        let mut rest = self.0.get(at..).unwrap_or_default();
        while let [kind, after @ ..] = rest {
            match (*kind, after) {
                (HMAC, _) => return true,
                (PAD1, _) => rest = after,
                (_, [len, value @ ..]) => rest = value.get((*len).into()..).unwrap_or_default(),
                _ => return false,
            }
        }
        false
    }
}

/// A header's bytes. `list` is in the order of the list, the last segment first; the next header is 0, and to be
/// written.
///
/// None if the header would be longer than its length can say.
pub fn emit(list: &[Ipv6Addr], segments_left: u8) -> Option<Vec<u8>> {
    let len = u8::try_from(list.len().checked_mul(2)?).ok()?;
    let last_entry = u8::try_from(list.len().checked_sub(1)?).ok()?;
    let mut bytes = vec![0, len, ROUTING_TYPE, segments_left, last_entry, 0, 0, 0];
    list.iter().for_each(|segment| bytes.extend(segment.octets()));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tlvs_are_looked_through_for_an_hmac() {
        let of = |tlvs: &[u8]| {
            let mut bytes = emit(&[Ipv6Addr::LOCALHOST], 0).expect("short");
            bytes.extend(tlvs);
            bytes[1] += (tlvs.len() / 8) as u8;
            Srh::parse(&bytes).expect("whole").has_hmac()
        };
        assert!(!of(&[]));
        // PadN, Pad1, an unknown one.
        assert!(!of(&[4, 2, 0, 0, 0, 200, 1, 5]));
        assert!(of(&[0, 0, 5, 38, 0, 0, 0, 0]));
        assert!(!of(&[4, 200, 5, 5, 5, 5, 5, 5]), "beyond the end");
    }

    #[test]
    fn what_is_left_has_to_be_in_the_list() {
        let a = [Ipv6Addr::LOCALHOST; 2];
        let of = |left, last| {
            let mut bytes = emit(&a, left).expect("short");
            bytes[4] = last;
            Srh::parse(&bytes).expect("whole").is_consistent()
        };
        assert!(of(0, 1) && of(1, 1) && of(2, 1));
        assert!(!of(3, 1) && !of(0, 2));
        assert!(Srh::parse(&[0, 1, 4, 0, 0, 0, 0, 0]).is_none());
        assert!(Srh::parse(&[0, 0, 3, 0, 0, 0, 0, 0]).is_none());
    }
}
