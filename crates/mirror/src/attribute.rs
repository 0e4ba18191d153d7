//! Netlink attributes: read without trust, written with padding.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::uapi::{NLA_F_NESTED, NLA_TYPE_MASK, NLM_F_REQUEST, NLMSG_HEADER_LEN};

/// The attributes in some bytes: type without its flag bits, and payload.
///
/// Ends at the first one that does not fit, so that arbitrary bytes are harmless.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'b>(&'b [u8]);

impl<'b> Attributes<'b> {
    pub(crate) const fn new(bytes: &'b [u8]) -> Attributes<'b> {
        Attributes(bytes)
    }

    /// The payload of the last attribute of this type.
    pub(crate) fn find(self, kind: u16) -> Option<&'b [u8]> {
        self.filter(|(k, _)| *k == kind).last().map(|(_, payload)| payload)
    }
}

impl<'b> Iterator for Attributes<'b> {
    type Item = (u16, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & NLA_TYPE_MASK;
        let payload = self.0.get(4..len)?;
        self.0 = self.0.get(aligned(len)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// The 16-bit number in host byte order at an offset.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The 32-bit number in host byte order at an offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A payload that is one 32-bit number in host byte order.
pub(crate) fn as_u32(payload: &[u8]) -> Option<u32> {
    u32_at(payload, 0)
}

/// A payload that is an IPv4 or IPv6 address, by its length.
pub(crate) fn as_ip(payload: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(payload) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(payload).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// A payload that is text, with or without a final zero; what is not UTF-8 is replaced.
pub(crate) fn as_text(payload: &[u8]) -> String {
    let text = payload.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The address's bytes, in network byte order.
pub(crate) fn ip_bytes(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// Rounds up to netlink's alignment of 4 bytes.
pub(crate) const fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// A request under construction.
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// A request of this type with these flags beside `NLM_F_REQUEST`, and a fixed header.
    pub(crate) fn new(kind: u16, flags: u16, header: &[u8]) -> Request {
        let mut bytes = vec![0; NLMSG_HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        Request(bytes)
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, payload: &[u8]) -> Request {
        append(&mut self.0, kind, payload);
        self
    }

    /// Appends an attribute if there is one.
    pub(crate) fn optional(self, kind: u16, payload: Option<Vec<u8>>) -> Request {
        match payload {
            Some(payload) => self.attribute(kind, &payload),
            None => self,
        }
    }

    /// Appends an attribute that holds one other attribute.
    pub(crate) fn nested(self, kind: u16, inner_kind: u16, payload: &[u8]) -> Request {
        let mut inner = Vec::new();
        append(&mut inner, inner_kind, payload);
        self.attribute(kind | NLA_F_NESTED, &inner)
    }

    /// Appends attributes that are laid out already.
    pub(crate) fn raw(mut self, attributes: &[u8]) -> Request {
        self.0.extend_from_slice(attributes);
        self
    }

    /// The bytes to send, under this sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// Appends an attribute with its padding.
pub(crate) fn append(bytes: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    // All payloads are a few dozen bytes: the length fits.
    let len = (4 + payload.len()) as u16;
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes.resize(aligned(bytes.len()), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(list in prop::collection::vec((1..100u16, prop::collection::vec(any::<u8>(), 0..40)), 0..8)) {
            let mut bytes = Vec::new();
            for (kind, payload) in &list {
                append(&mut bytes, *kind, payload);
            }
            let read: Vec<_> = Attributes::new(&bytes).map(|(k, p)| (k, p.to_vec())).collect();
            prop_assert_eq!(read, list);
        }

        #[test]
        fn noise_is_harmless(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // Each attribute takes at least its header.
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len() / 4);
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
}
