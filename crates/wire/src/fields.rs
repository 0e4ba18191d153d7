//! Fields of the headers that moving a packet of a known flow takes, in one word.
//!
//! ```text
//!   bits   0         16         32    40          48              56
//!          total_len header_len ttl   protocol    traffic class   family, DF, fragment
//! ```

use core::fmt;

use crate::fragment::Fragment;
use crate::headers::{Family, Headers};
use crate::ipv6::HEADER_LEN;

/// Lengths, TTL, protocol, traffic class, family and fragmentation of a packet: [`Headers`] without
/// what tells flows apart.
///
/// One word, so that it goes from one step to the next in a register: what is written in parts and
/// read as a whole waits for the store buffer. The default is that of no packet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields(u64);

impl Fields {
    /// From the word's parts; `ttl_protocol` is the TTL and, above it, the protocol.
    #[inline(always)]
    pub(crate) const fn new(
        total_len: u16,
        header_len: u16,
        ttl_protocol: u16,
        traffic_class: u8,
        flags: u8,
    ) -> Fields {
        Fields(
            total_len as u64
                | (header_len as u64) << 16
                | (ttl_protocol as u64) << 32
                | (traffic_class as u64) << 48
                | (flags as u64) << 56,
        )
    }

    /// Of bytes that are no packet, and travel as one of IPv4 would, which is whole.
    pub const fn opaque(len: u16, traffic_class: u8, dont_fragment: bool) -> Fields {
        let flags = if dont_fragment { flag::DONT_FRAGMENT } else { 0 };
        Fields::new(len, 0, 0, traffic_class, flags)
    }

    /// Of a whole IPv6 packet that begins with these bytes, with an upper layer of this protocol behind headers of
    /// `header_len` bytes together. None if it is longer than any packet.
    #[inline]
    pub const fn of_v6(start: [u8; 8], header_len: u16, protocol: u8) -> Option<Fields> {
        let [first, second, _, _, high, low, _, ttl] = start;
        let Some(total_len) = u16::from_be_bytes([high, low]).checked_add(HEADER_LEN as u16) else {
            return None;
        };
        let ttl_protocol = u16::from_le_bytes([ttl, protocol]);
        let traffic_class = first << 4 | second >> 4;
        let flags = flag::V6 | flag::DONT_FRAGMENT;
        Some(Fields::new(total_len, header_len, ttl_protocol, traffic_class, flags))
    }

    /// See [`Headers::total_len`], in bytes.
    #[inline(always)]
    pub const fn total_len(self) -> u16 {
        self.0 as u16
    }

    /// See [`Headers::header_len`], in bytes.
    #[inline(always)]
    pub const fn header_len(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// See [`Headers::ttl`]: TTL or hop limit.
    #[inline(always)]
    pub const fn ttl(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// See [`Headers::protocol`]: the upper layer.
    #[inline(always)]
    pub const fn protocol(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// See [`Headers::traffic_class`]: DSCP and ECN.
    #[inline(always)]
    pub const fn traffic_class(self) -> u8 {
        (self.0 >> 48) as u8
    }

    /// These fields with another traffic class.
    #[inline(always)]
    #[must_use]
    pub const fn with_traffic_class(self, class: u8) -> Fields {
        Fields(self.0 & !(0xff << 48) | (class as u64) << 48)
    }

    /// The same with another TTL or hop limit.
    #[inline(always)]
    pub const fn with_ttl(self, ttl: u8) -> Fields {
        Fields(self.0 & !(0xff << 32) | (ttl as u64) << 32)
    }

    /// See [`Headers::family`]: IPv4 or IPv6.
    #[inline(always)]
    pub const fn family(self) -> Family {
        if self.has(flag::V6) { Family::V6 } else { Family::V4 }
    }

    /// See [`Headers::dont_fragment`]: IPv4's DF.
    #[inline(always)]
    pub const fn dont_fragment(self) -> bool {
        self.has(flag::DONT_FRAGMENT)
    }

    /// See [`Headers::fragment`]: its place in the packet.
    #[inline(always)]
    pub const fn fragment(self) -> Fragment {
        match (self.has(flag::FIRST), self.has(flag::LATER)) {
            (false, false) => Fragment::Whole,
            (true, _) => Fragment::First,
            (false, true) => Fragment::Later,
        }
    }

    #[inline(always)]
    const fn has(self, flag: u8) -> bool {
        self.0 >> 56 & flag as u64 != 0
    }
}

/// Bits of the flags.
pub(crate) mod flag {
    pub const V6: u8 = 1;
    pub const DONT_FRAGMENT: u8 = 2;
    pub const FIRST: u8 = 4;
    pub const LATER: u8 = 8;
}

impl From<&Headers> for Fields {
    #[inline]
    fn from(h: &Headers) -> Fields {
        let family = match h.family() {
            Family::V4 => 0,
            Family::V6 => flag::V6,
        };
        let fragment = match h.fragment {
            Fragment::Whole => 0,
            Fragment::First => flag::FIRST,
            Fragment::Later => flag::LATER,
        };
        let dont_fragment = if h.dont_fragment { flag::DONT_FRAGMENT } else { 0 };
        let ttl_protocol = u16::from_le_bytes([h.ttl, h.protocol]);
        let flags = family | fragment | dont_fragment;
        Fields::new(h.total_len, h.header_len, ttl_protocol, h.traffic_class, flags)
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields")
            .field("total_len", &self.total_len())
            .field("header_len", &self.header_len())
            .field("ttl", &self.ttl())
            .field("protocol", &self.protocol())
            .field("traffic_class", &self.traffic_class())
            .field("family", &self.family())
            .field("dont_fragment", &self.dont_fragment())
            .field("fragment", &self.fragment())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn says_what_the_headers_say(
            is_v4: bool,
            numbers: (u8, u8, u8, u16, u16),
            dont_fragment: bool,
            fragment in prop::sample::select(vec![Fragment::Whole, Fragment::First, Fragment::Later]),
            other_class: u8,
        ) {
            let (protocol, ttl, traffic_class, header_len, total_len) = numbers;
            let addr: IpAddr = if is_v4 { [1, 2, 3, 4].into() } else { [9; 16].into() };
            let h = Headers {
                src: addr, dst: addr, protocol, ttl, traffic_class, dont_fragment, fragment,
                header_len, total_len, src_port: 1, dst_port: 2,
            };
            let fields = Fields::from(&h);
            prop_assert_eq!(fields.total_len(), h.total_len);
            prop_assert_eq!(fields.header_len(), h.header_len);
            prop_assert_eq!(fields.ttl(), h.ttl);
            prop_assert_eq!(fields.protocol(), h.protocol);
            prop_assert_eq!(fields.traffic_class(), h.traffic_class);
            prop_assert_eq!(fields.family(), h.family());
            prop_assert_eq!(fields.dont_fragment(), h.dont_fragment);
            prop_assert_eq!(fields.fragment(), h.fragment);
            let changed = Headers { traffic_class: other_class, ..h };
            prop_assert_eq!(fields.with_traffic_class(other_class), Fields::from(&changed));
        }
    }
}
