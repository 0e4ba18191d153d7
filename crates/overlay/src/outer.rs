//! The IP header in front: what it has of a tunnel's settings, and what of the packet inside.

use core::net::IpAddr;

use wire::ipv4::{self, Ipv4Fields};
use wire::ipv6::{self, Ipv6Fields};
use wire::{ECN_MASK, Family, Fields, checksum};

/// The outer header's DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The inner packet's.
    Inherit,
    /// Of this traffic class; its ECN bits do not count.
    Fixed(u8),
}

/// The outer header's TTL or hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ttl {
    /// The inner packet's.
    Inherit,
    /// Always the same.
    Fixed(u8),
}

/// The bit DF of an outer IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DontFragment {
    /// DF is never set.
    Unset,
    /// DF is always set.
    Set,
    /// Set if the inner packet must not be fragmented.
    Inherit,
}

/// The outer header's ECN bits at encapsulation (RFC 6040 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EcnMode {
    /// The inner packet's.
    Normal,
    /// Not-ECT, for far ends that do not look at them.
    Compatibility,
}

/// Settings of the outer IP header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// Address of this end.
    pub src: IpAddr,
    /// Address of the far end, of the same family.
    pub dst: IpAddr,
    /// Source of its DSCP.
    pub class: Class,
    /// Source of its TTL or hop limit.
    pub ttl: Ttl,
    /// Of IPv4 alone.
    pub dont_fragment: DontFragment,
    /// Of IPv6 alone: the tunnel encapsulation limit that goes along in an option (RFC 2473 §4.1.1).
    pub encap_limit: Option<u8>,
    /// Source of its ECN bits.
    pub ecn: EcnMode,
}

/// The protocol number of destination options.
const DESTINATION_OPTIONS: u8 = 60;

impl Outer {
    /// The header of a tunnel whose next header is `protocol`. What hangs on the packet is zero.
    pub(crate) fn template(&self, protocol: u8) -> Option<Vec<u8>> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(
                Ipv4Fields {
                    traffic_class: 0,
                    total_len: 0,
                    ident: 0,
                    dont_fragment: false,
                    ttl: 0,
                    protocol,
                    src,
                    dst,
                }
                .to_bytes()
                .to_vec(),
            ),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let next_header = match self.encap_limit {
                    Some(_) => DESTINATION_OPTIONS,
                    None => protocol,
                };
                let fixed = Ipv6Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_len: 0,
                    next_header,
                    hop_limit: 0,
                    src,
                    dst,
                };
                let mut bytes = fixed.to_bytes().to_vec();
                if let Some(limit) = self.encap_limit {
                    // The option, and one of padding that is one byte long.
                    bytes.extend([protocol, 0, 4, 1, limit, 1, 1, 0]);
                }
                Some(bytes)
            }
            _ => None,
        }
    }

    /// Traffic class, TTL and DF around a packet.
    fn of_packet(&self, inner: Fields) -> (u8, u8, bool) {
        let class = match self.class {
            Class::Inherit => inner.traffic_class(),
            Class::Fixed(class) => class,
        };
        let ecn = match self.ecn {
            EcnMode::Normal => inner.traffic_class() & ECN_MASK,
            EcnMode::Compatibility => 0,
        };
        let class = class & !ECN_MASK | ecn;
        let ttl = match self.ttl {
            Ttl::Inherit => inner.ttl(),
            Ttl::Fixed(ttl) => ttl,
        };
        let dont_fragment = match self.dont_fragment {
            DontFragment::Unset => false,
            DontFragment::Set => true,
            DontFragment::Inherit => inner.dont_fragment() && inner.family() == Family::V4,
        };
        (class, ttl, dont_fragment)
    }

    /// Completes the template at the beginning of a packet that is this long as a whole. `entropy` becomes IPv6's
    /// flow label (RFC 6438), `ident` IPv4's identification where it may be fragmented.
    pub(crate) fn complete(&self, packet: &mut [u8], inner: Fields, entropy: u32, ident: u16) {
        let len = packet.len();
        let (class, ttl, dont_fragment) = self.of_packet(inner);
        if self.dst.is_ipv4() {
            let Some(header) = packet.first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>() else { return };
            let mut put = |at: usize, value: u16| {
                if let Some(place) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
                    *place = value.to_be_bytes();
                }
            };
            put(ipv4::field::TOTAL_LEN, len as u16);
            // One that may not be fragmented needs none (RFC 6864 §4.1).
            put(ipv4::field::IDENT, if dont_fragment { 0 } else { ident });
            put(ipv4::field::FRAGMENT, if dont_fragment { ipv4::DONT_FRAGMENT } else { 0 });
            put(ipv4::field::CHECKSUM, 0);
            header[ipv4::field::TRAFFIC_CLASS] = class;
            header[ipv4::field::TTL] = ttl;
            let sum = checksum::checksum(header);
            [header[ipv4::field::CHECKSUM], header[ipv4::field::CHECKSUM + 1]] = sum.to_be_bytes();
            return;
        }
        let Some(header) = packet.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return };
        let word = 6 << 28 | u32::from(class) << 20 | entropy & 0x000f_ffff;
        header[..4].copy_from_slice(&word.to_be_bytes());
        let payload_len = len.saturating_sub(ipv6::HEADER_LEN) as u16;
        header[ipv6::field::PAYLOAD_LEN..][..2].copy_from_slice(&payload_len.to_be_bytes());
        header[ipv6::field::HOP_LIMIT] = ttl;
    }
}
