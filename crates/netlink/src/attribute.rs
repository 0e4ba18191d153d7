//! Attributes: type, length and value, padded to 4 bytes.
//!
//! ```text
//! +-------------+-----------+-------------------+---------+
//! | length  u16 | type  u16 | value             | padding |
//! +-------------+-----------+-------------------+---------+
//! ```
//! Both numbers are in native byte order. The length counts the header, and not the padding. The two
//! upper bits of the type are flags: the value is a list of attributes, or in network byte order.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The attributes in some bytes: type without its flags, and value.
///
/// Ends at the first one that does not fit, as Linux does, so that arbitrary bytes are harmless.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes that stand in a message behind its fixed struct, or in another attribute.
    pub const fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes(bytes)
    }

    /// The value of the last attribute of this type: that is the one that counts in Linux.
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.filter(|(k, _)| *k == kind).last().map(|(_, value)| value)
    }

    /// The attributes within the last attribute of this type; none if it is not there.
    pub fn within(self, kind: u16) -> Attributes<'a> {
        Attributes(self.find(kind).unwrap_or_default())
    }

    /// Bytes that were not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & TYPE_MASK;
        let value = self.0.get(HEADER_LEN..len)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// The 16-bit number in native byte order at an offset.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The 32-bit number in native byte order at an offset.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A value that begins with a 32-bit number in native byte order.
pub fn as_u32(value: &[u8]) -> Option<u32> {
    u32_at(value, 0)
}

/// A value that begins with a 16-bit number in network byte order.
pub fn as_be16(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*value.first_chunk()?))
}

/// A value that begins with a 32-bit number in network byte order.
pub fn as_be32(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*value.first_chunk()?))
}

/// A value that is an IPv4 or IPv6 address, by its length.
pub fn as_ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// A value that is text, with or without a final zero; what is not UTF-8 is replaced.
pub fn as_text(value: &[u8]) -> String {
    let text = value.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Rounds up to netlink's alignment.
pub(crate) const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// Length in bytes of an attribute's header.
pub const HEADER_LEN: usize = 4;

/// The flag of a type whose value is a list of attributes (`NLA_F_NESTED`).
pub const NESTED: u16 = 0x8000;

/// The bits of a type without its flags (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Field as _;
    use crate::message::{Header, MessageWriter};

    proptest! {
        #[test]
        fn what_is_written_is_read(list in prop::collection::vec((1..100u16, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let mut writer = MessageWriter::new(0, 0, 0, 0);
            for (kind, value) in &list {
                writer.attribute(*kind, value);
            }
            writer.nested(100, |inner| {
                for (kind, value) in &list {
                    inner.attribute(*kind, value);
                }
            });
            let bytes = writer.finish();
            let attributes = Attributes::new(&bytes[Header::LEN..]);
            let read: Vec<_> = attributes.map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(&read[..list.len()], &list[..]);
            prop_assert_eq!(read.len(), list.len() + 1);
            let within: Vec<_> = attributes.within(100).map(|(k, v)| (k, v.to_vec())).collect();
            prop_assert_eq!(&within, &list);
            for (kind, _) in &list {
                let last = list.iter().rfind(|(k, _)| k == kind).map(|(_, value)| &value[..]);
                prop_assert_eq!(attributes.find(*kind), last);
            }
        }

        #[test]
        fn noise_is_harmless(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // Each attribute takes at least its header.
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len() / HEADER_LEN);
        }
    }

    #[test]
    fn a_length_below_the_header_ends_the_list() {
        assert_eq!(Attributes::new(&[0, 0, 1, 0, 4, 0, 1, 0]).count(), 0);
        assert_eq!(Attributes::new(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(Attributes::new(&[4, 0, 1, 0]).count(), 1);
        assert_eq!(Attributes::new(&[5, 0, 1, 0]).count(), 0);
        // The padding of the last one may be missing.
        assert_eq!(Attributes::new(&[5, 0, 1, 0, 9]).count(), 1);
    }

    #[test]
    fn flags_are_no_part_of_the_type() {
        let bytes = [[4, 0].as_slice(), &(NESTED | 0x4000 | 7).to_ne_bytes()].concat();
        assert_eq!(Attributes::new(&bytes).next(), Some((7, &[][..])));
    }
}
