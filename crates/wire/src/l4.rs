//! Checksums of the layer above IP: fill in, verify, and complete what offloads left half done.

use core::net::IpAddr;

use crate::checksum::{self, add};
use crate::fragment::Fragment;
use crate::headers::Headers;
use crate::ipv6::Ipv6Header;
use crate::protocol;

/// Result of a look at the upper layer's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Checksum {
    /// The checksum is right.
    Valid,
    /// The checksum is wrong, or the upper layer is too short to have one.
    Invalid,
    /// There is none to check: another protocol, a fragment, or UDP over IPv4 without checksum.
    Absent,
}

/// Computes and stores the checksum of TCP, UDP, ICMP or ICMPv6 in a whole packet.
///
/// `packet` begins with the IP header that `h` was parsed from. Returns whether a checksum was
/// stored; `false` for fragments, other protocols, and upper layers too short for the field.
pub fn fill_l4_checksum(packet: &mut [u8], h: &Headers) -> bool {
    let Some(layout) = Layout::of(packet, h) else { return false };
    layout.store(packet, h.protocol)
}

/// Verifies the checksum of TCP, UDP, ICMP or ICMPv6 in a whole packet.
pub fn verify_l4_checksum(packet: &[u8], h: &Headers) -> L4Checksum {
    if h.fragment != Fragment::Whole || checksum_at(h.protocol).is_none() {
        return L4Checksum::Absent;
    }
    let Some(layout) = Layout::of(packet, h) else { return L4Checksum::Invalid };
    let Some(upper) = packet.get(layout.upper_at..layout.upper_end) else {
        return L4Checksum::Invalid;
    };
    let field = layout.field(packet);
    if h.protocol == protocol::UDP && field == 0 && h.src.is_ipv4() {
        return L4Checksum::Absent;
    }
    if add(layout.pseudo, checksum::sum(upper)) == 0xffff
        && !(h.protocol == protocol::UDP && field == 0)
    {
        L4Checksum::Valid
    } else {
        L4Checksum::Invalid
    }
}

/// Completes the TCP or UDP checksum that a virtual peer left to hardware which is not there.
///
/// A sender whose device offers checksum offload (veth does) stores only the folded sum of the
/// pseudo header, and a packet that crosses a veth pair arrives like that. Where the field equals
/// that sum, the true checksum over the payload replaces it, and the result is `true`. A packet
/// whose checksum is right already and equals the sum by chance is not changed in effect.
///
/// Only whole packets are touched, and only their outermost TCP or UDP header.
#[inline]
pub fn complete_partial(packet: &mut [u8], h: &Headers) -> bool {
    may_be_partial(packet, h) && complete(packet, h)
}

/// True if the field may be the pseudo header's sum, by a few additions. Never `false` for one that
/// is; `true` for one in 65535 others, and where more than a few additions would be needed.
#[inline(always)]
fn may_be_partial(packet: &[u8], h: &Headers) -> bool {
    let upper_at = usize::from(h.header_len);
    let field_at = match h.protocol {
        protocol::TCP => upper_at + 16,
        protocol::UDP => upper_at + 6,
        _ => return false,
    };
    let word = |at: usize| packet.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let len = match h.protocol {
        protocol::UDP => word(upper_at + 4),
        _ => h.total_len.checked_sub(h.header_len),
    };
    let (Some(field), Some(len)) = (word(field_at), len) else { return false };
    // Words of any size may be added, in their own byte order: 2^16 is 1 modulo 0xffff.
    let addresses = match (&h.src, &h.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let [src, dst] = [src, dst].map(|address| u64::from(address.to_bits()));
            src + dst
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) if upper_at == crate::ipv6::HEADER_LEN => {
            let sum = |octets: [u8; 16]| {
                let (words, _) = octets.as_chunks::<4>();
                words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>()
            };
            let total = sum(src.octets()) + sum(dst.octets());
            // Their byte order is the machine's: the folded sum's two bytes are put in order.
            u64::from(u16::from_be(checksum::fold_wide(total)))
        }
        _ => return true,
    };
    let others = u64::from(h.protocol) + u64::from(len) + u64::from(!field);
    (addresses + others).is_multiple_of(0xffff)
}

#[inline(never)]
fn complete(packet: &mut [u8], h: &Headers) -> bool {
    let Some(layout) = Layout::of(packet, h) else { return false };
    layout.field(packet) == layout.pseudo && layout.store(packet, h.protocol)
}

/// Where an upper layer and its checksum lie in the packet, all inside the slice.
struct Layout {
    upper_at: usize,
    upper_end: usize,
    field_at: usize,
    /// The pseudo header's sum; 0 for ICMP over IPv4, which has none.
    pseudo: u16,
}

impl Layout {
    /// `None` for fragments, other protocols, and anything that does not fit.
    fn of(packet: &[u8], h: &Headers) -> Option<Self> {
        if h.fragment != Fragment::Whole {
            return None;
        }
        let field = checksum_at(h.protocol)?;
        let upper_at = usize::from(h.header_len);
        let upper = packet.get(upper_at..usize::from(h.total_len))?;
        let upper_len = match h.protocol {
            // UDP has its own length, which may be below IP's.
            protocol::UDP => {
                let [_, _, _, _, hi, lo, _, _] = *upper.first_chunk::<8>()?;
                usize::from(u16::from_be_bytes([hi, lo]))
            }
            _ => upper.len(),
        };
        if upper_len < field + 2 || upper_len > upper.len() {
            return None;
        }
        let len = upper_len as u16; // bounded by total_len
        let pseudo = match (h.src, h.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) if h.protocol == protocol::ICMP => 0,
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                checksum::pseudo_header_v4(src, dst, h.protocol, len)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut dst = dst;
                if usize::from(h.header_len) > crate::ipv6::HEADER_LEN {
                    let extensions = Ipv6Header::parse(packet).ok()?.extensions().ok()?;
                    if extensions.opaque_routing {
                        return None;
                    }
                    dst = extensions.final_dst.unwrap_or(dst);
                }
                checksum::pseudo_header_v6(src, dst, h.protocol, len.into())
            }
            _ => return None,
        };
        Some(Self { upper_at, upper_end: upper_at + upper_len, field_at: upper_at + field, pseudo })
    }

    fn field(&self, packet: &[u8]) -> u16 {
        match packet.get(self.field_at..).and_then(|b| b.first_chunk()) {
            Some(bytes) => u16::from_be_bytes(*bytes),
            None => 0,
        }
    }

    fn store(&self, packet: &mut [u8], number: u8) -> bool {
        let put = |packet: &mut [u8], value: u16| {
            if let Some(f) = packet.get_mut(self.field_at..self.field_at + 2) {
                f.copy_from_slice(&value.to_be_bytes());
            }
        };
        put(packet, 0);
        let Some(upper) = packet.get(self.upper_at..self.upper_end) else { return false };
        let value = !add(self.pseudo, checksum::sum(upper));
        // For UDP, zero means that there is no checksum (RFC 768).
        put(packet, if number == protocol::UDP && value == 0 { 0xffff } else { value });
        true
    }
}

/// Offset of the checksum in the upper layer's header, for the protocols that are known.
const fn checksum_at(number: u8) -> Option<usize> {
    match number {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMP | protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse_ip;

    /// TCP or UDP over IPv4 or IPv6, whole, whose checksum field is the given one or the pseudo
    /// header's sum.
    fn packet(
        is_v4: bool,
        number: u8,
        addresses: [u8; 32],
        body: &[u8],
        field: Option<u16>,
    ) -> Vec<u8> {
        let mut upper = vec![0; if number == protocol::TCP { 20 } else { 8 }];
        upper.extend_from_slice(body);
        let [len, low] = (upper.len() as u16).to_be_bytes();
        if number == protocol::UDP {
            [upper[4], upper[5]] = [len, low];
        }
        let mut packet = if is_v4 {
            let [len, low] = (20 + upper.len() as u16).to_be_bytes();
            let start = [0x45, 0, len, low, 0, 7, 0x40, 0, 9, number, 0, 0];
            [&start[..], &addresses[..8], &upper].concat()
        } else {
            [&[0x60, 0, 0, 0, len, low, number, 9][..], &addresses, &upper].concat()
        };
        if is_v4 {
            crate::ipv4::fill_checksum(&mut packet);
        }
        let h = parse_ip(&packet).unwrap();
        let layout = Layout::of(&packet, &h).unwrap();
        let value = field.unwrap_or(layout.pseudo);
        packet[layout.field_at..layout.field_at + 2].copy_from_slice(&value.to_be_bytes());
        packet
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The cheap test never overlooks a partial checksum, and changes nothing otherwise.
        #[test]
        fn partial_checksums_are_completed_as_without_the_cheap_test(
            is_v4: bool,
            is_tcp: bool,
            addresses: [u8; 32],
            body in prop::collection::vec(any::<u8>(), 0..40),
            field in prop_oneof![2 => Just(None), 1 => any::<u16>().prop_map(Some), 1 => Just(Some(0)), 1 => Just(Some(0xffff))],
            change in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let number = if is_tcp { protocol::TCP } else { protocol::UDP };
            let mut quick = packet(is_v4, number, addresses, &body, field);
            let h = parse_ip(&quick).unwrap();
            // Headers that no longer fit the bytes must not matter either.
            if let Some((at, bits)) = change {
                let at = at.index(quick.len());
                quick[at] ^= bits;
            }
            quick.truncate(cut.map_or(quick.len(), |cut| cut.index(quick.len() + 1)));
            let mut slow = quick.clone();
            let (by_quick, by_slow) = (complete_partial(&mut quick, &h), complete(&mut slow, &h));
            prop_assert_eq!(by_quick, by_slow);
            prop_assert_eq!(quick, slow);
            prop_assert!(by_slow || field.is_some() || change.is_some() || cut.is_some());
        }
    }

    /// Ordinary packets do not reach the long way.
    #[test]
    fn one_in_many_complete_checksums_passes_the_cheap_test() {
        let mut passed = 0;
        for i in 0..10_000u32 {
            let mut addresses = [0x5a; 32];
            addresses[..4].copy_from_slice(&i.to_be_bytes());
            let number = if i & 1 == 0 { protocol::TCP } else { protocol::UDP };
            let mut packet = packet(i & 2 == 0, number, addresses, &i.to_le_bytes(), None);
            let h = parse_ip(&packet).unwrap();
            assert!(may_be_partial(&packet, &h));
            assert!(complete_partial(&mut packet, &h));
            passed += u32::from(may_be_partial(&packet, &h));
        }
        assert!(passed < 20, "{passed} of 10000");
    }
}
