//! The Ethernet II header with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).
//!
//! ```text
//! +---------------------+---------------------+ - - - - - - - - - - - - - +-----------+--------
//! | Destination, 6 bytes|   Source, 6 bytes   | TPID, 2 | PCP DEI VID, 2  | EtherType | payload
//! +---------------------+---------------------+ - - - - - - - - - - - - - +-----------+--------
//!                                               0, 1 or 2 tags of 4 bytes
//! ```

use core::fmt;

use crate::error::NoRoom;

/// Length of the header without tags, in bytes.
pub const HEADER_LEN: usize = 14;
/// Length of one VLAN tag, in bytes.
pub const TAG_LEN: usize = 4;
/// Tags that are parsed; of a frame with more, the third tag's TPID is the EtherType.
pub const MAX_TAGS: usize = 2;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of every station.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// True if the address is for a group of stations (broadcast too).
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True if the address is for every station.
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An EtherType, in host byte order (IANA "IEEE 802 Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP: never parsed here, always left to Linux.
    pub const ARP: Self = Self(0x0806);
    /// An 802.1Q tag follows.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// An 802.1ad service tag follows.
    pub const SERVICE_VLAN: Self = Self(0x88a8);

    /// True if a VLAN tag follows.
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN)
    }
}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Which kind of tag: 802.1Q or 802.1ad.
    pub tpid: EtherType,
    /// Priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
    pub tci: u16,
}

impl Tag {
    /// The VLAN identifier: 0 for a priority tag, otherwise 1 to 4094.
    pub const fn vlan_id(self) -> u16 {
        self.tci & 0x0fff
    }

    /// The priority code point, 0 to 7.
    pub const fn pcp(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// True if the frame may be dropped first (DEI, IEEE 802.1Q §9.6).
    pub const fn is_drop_eligible(self) -> bool {
        self.tci & Self::DROP_ELIGIBLE != 0
    }

    /// The bit of that.
    pub const DROP_ELIGIBLE: u16 = 1 << 12;
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Destination station, or group.
    pub dst: MacAddr,
    /// Station that has sent the frame.
    pub src: MacAddr,
    /// The tags, outermost first; `None` only after the last one.
    pub tags: [Option<Tag>; MAX_TAGS],
    /// EtherType of the payload. Below 1536 it is an 802.3 length, not a type.
    pub ether_type: EtherType,
    /// Where the payload begins, in bytes from the first byte of the frame: 14, 18 or 22.
    pub payload_offset: usize,
}

/// The frame is shorter than its header and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the Ethernet frame is shorter than its headers")]
pub struct FrameTooShort;

impl From<FrameTooShort> for outcome::DropReason {
    fn from(_: FrameTooShort) -> Self {
        outcome::DropReason::MalformedEthernet
    }
}

impl EthernetHeader {
    /// Parses the header that a frame begins with.
    ///
    /// # Errors
    /// The frame ends inside the header or its tags.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, FrameTooShort> {
        let Some((fixed, rest)) = frame.split_first_chunk::<HEADER_LEN>() else {
            return Err(FrameTooShort);
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, hi, lo] = *fixed;
        let header = Self {
            dst: MacAddr([d0, d1, d2, d3, d4, d5]),
            src: MacAddr([s0, s1, s2, s3, s4, s5]),
            tags: [None; MAX_TAGS],
            ether_type: EtherType(u16::from_be_bytes([hi, lo])),
            payload_offset: HEADER_LEN,
        };
        if header.ether_type.is_vlan() { header.parse_tags(rest) } else { Ok(header) }
    }

    /// Takes the tags in that follow the addresses; `rest` is what follows the first one's TPID.
    #[inline(never)]
    fn parse_tags(mut self, mut rest: &[u8]) -> Result<Self, FrameTooShort> {
        let header = &mut self;
        for tag in &mut header.tags {
            if !header.ether_type.is_vlan() {
                break;
            }
            let ([a, b, c, d], after) = rest.split_first_chunk::<TAG_LEN>().ok_or(FrameTooShort)?;
            *tag = Some(Tag { tpid: header.ether_type, tci: u16::from_be_bytes([*a, *b]) });
            header.ether_type = EtherType(u16::from_be_bytes([*c, *d]));
            header.payload_offset += TAG_LEN;
            rest = after;
        }
        Ok(self)
    }

    /// Length of the header with its tags when written, in bytes.
    pub fn emit_len(&self) -> usize {
        HEADER_LEN + TAG_LEN * self.tags.iter().flatten().count()
    }

    /// Writes addresses, tags and EtherType to the buffer's beginning and returns their length.
    /// `payload_offset` is not looked at.
    ///
    /// # Errors
    /// The buffer is shorter than [`EthernetHeader::emit_len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.emit_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        let (dst, out) = out.split_first_chunk_mut::<6>().ok_or(NoRoom)?;
        let (src, mut out) = out.split_first_chunk_mut::<6>().ok_or(NoRoom)?;
        *dst = self.dst.0;
        *src = self.src.0;
        for tag in self.tags.iter().flatten() {
            let (bytes, rest) = out.split_first_chunk_mut::<TAG_LEN>().ok_or(NoRoom)?;
            let ([a, b], [c, d]) = (tag.tpid.0.to_be_bytes(), tag.tci.to_be_bytes());
            *bytes = [a, b, c, d];
            out = rest;
        }
        *out.first_chunk_mut().ok_or(NoRoom)? = self.ether_type.0.to_be_bytes();
        Ok(len)
    }
}

/// Writes an untagged header: destination, source, EtherType.
///
/// # Errors
/// The buffer is shorter than 14 bytes.
#[inline]
pub fn emit_untagged(
    out: &mut [u8],
    dst: MacAddr,
    src: MacAddr,
    ether_type: EtherType,
) -> Result<(), NoRoom> {
    let out = out.first_chunk_mut::<HEADER_LEN>().ok_or(NoRoom)?;
    out[..6].copy_from_slice(&dst.0);
    out[6..12].copy_from_slice(&src.0);
    out[12..].copy_from_slice(&ether_type.0.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DST: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SRC: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn frame(rest: &[u8]) -> Vec<u8> {
        [&DST[..], &SRC[..], rest].concat()
    }

    #[test]
    fn untagged_tagged_and_stacked() {
        let plain = EthernetHeader::parse(&frame(&[0x08, 0x00, 0x45])).unwrap();
        assert_eq!((plain.ether_type, plain.payload_offset), (EtherType::IPV4, 14));
        assert_eq!(plain.tags, [None, None]);
        let tagged = EthernetHeader::parse(&frame(&[0x81, 0, 0x60, 0x64, 0x86, 0xdd])).unwrap();
        assert_eq!((tagged.ether_type, tagged.payload_offset), (EtherType::IPV6, 18));
        assert_eq!(tagged.tags[0].map(Tag::vlan_id), Some(100));
        let stacked =
            EthernetHeader::parse(&frame(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x08, 0x06])).unwrap();
        assert_eq!((stacked.ether_type, stacked.payload_offset), (EtherType::ARP, 22));
        assert_eq!(stacked.tags.map(|t| t.map(Tag::vlan_id)), [Some(7), Some(9)]);
        let tag = Tag { tpid: EtherType::VLAN, tci: 0xb064 };
        assert_eq!((tag.pcp(), tag.is_drop_eligible(), tag.vlan_id()), (5, true, 100));
    }

    #[test]
    fn a_third_tag_is_the_ether_type() {
        let three = [0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0];
        let header = EthernetHeader::parse(&frame(&three)).unwrap();
        assert_eq!((header.ether_type, header.payload_offset), (EtherType::VLAN, 22));
    }

    #[test]
    fn cut_frames_are_refused() {
        let whole = frame(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x08, 0x00]);
        for len in 0..whole.len() {
            assert_eq!(EthernetHeader::parse(&whole[..len]), Err(FrameTooShort), "{len}");
        }
        assert!(EthernetHeader::parse(&whole).is_ok());
    }

    #[test]
    fn untagged_headers_are_headers_without_tags() {
        let (dst, src, ether_type) = (MacAddr(DST), MacAddr(SRC), EtherType::IPV6);
        let tags = [None; MAX_TAGS];
        let header = EthernetHeader { dst, src, tags, ether_type, payload_offset: HEADER_LEN };
        let (mut out, mut expected) = ([0xa5; 16], [0xa5; 16]);
        assert_eq!(header.emit(&mut expected), Ok(14));
        assert_eq!(emit_untagged(&mut out, dst, src, ether_type), Ok(()));
        assert_eq!(out, expected);
        assert_eq!(emit_untagged(&mut out[..13], dst, src, ether_type), Err(NoRoom));
    }

    #[test]
    fn group_addresses() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
        assert!(!MacAddr(DST).is_multicast());
        assert_eq!(MacAddr(DST).to_string(), "02:00:00:00:00:01");
    }

    proptest! {
        #[test]
        fn round_trip(bytes in prop::collection::vec(any::<u8>(), 0..40), tags in 0usize..4) {
            let mut bytes = bytes;
            for tag in 0..tags {
                if let Some(tpid) = bytes.get_mut(12 + 4 * tag..14 + 4 * tag) {
                    tpid.copy_from_slice(&[0x81, 0x00]);
                }
            }
            if let Ok(header) = EthernetHeader::parse(&bytes) {
                let mut out = [0u8; 22];
                let len = header.emit(&mut out).unwrap();
                prop_assert_eq!(len, header.payload_offset);
                prop_assert_eq!(&out[..len], &bytes[..len]);
                prop_assert_eq!(header.emit(&mut out[..len - 1]), Err(NoRoom));
            }
        }
    }
}
