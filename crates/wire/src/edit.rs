//! Changes to an IP header in place, with IPv4's checksum kept right (RFC 1624).

use crate::checksum;
use crate::fields::Fields;
use crate::headers::Family;
use crate::ipv4;
use crate::ipv6;

/// The ECN codepoint Congestion Experienced (RFC 3168 §5).
pub const ECN_CE: u8 = 0b11;
/// The ECN field in the traffic class.
pub const ECN_MASK: u8 = 0b11;

/// Takes one from the TTL or hop limit, as a router does (RFC 1812 §5.3.1).
///
/// Returns `false`, and changes nothing, where the packet must not be forwarded any further: the
/// TTL is 0 or 1, or `packet` is shorter than its header. `h` keeps the old value.
#[must_use]
#[inline]
pub fn decrement_ttl(packet: &mut [u8], h: impl Into<Fields>) -> bool {
    match h.into().family() {
        Family::V4 => {
            let Some(header) = packet.first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>() else {
                return false;
            };
            let [.., ttl, number, s, t, _, _, _, _, _, _, _, _] = header;
            if *ttl <= 1 {
                return false;
            }
            // RFC 1624, equation 3, in the packet's byte order: one is added to the checksum, and
            // another one where that carries.
            let sum = u16::from_le_bytes([*s, *t]);
            let sum = sum.wrapping_add(1 + u16::from(sum >= 0xfffe));
            let [new_s, new_t] = sum.to_le_bytes();
            [*ttl, *number, *s, *t] = [*ttl - 1, *number, new_s, new_t];
        }
        Family::V6 => {
            let Some(header) = packet.first_chunk_mut::<{ ipv6::HEADER_LEN }>() else {
                return false;
            };
            if header[7] <= 1 {
                return false;
            }
            header[7] -= 1;
        }
    }
    true
}

/// Writes the whole DS field and ECN byte. Does nothing to a slice shorter than a header.
pub fn set_traffic_class(packet: &mut [u8], value: u8) {
    match packet.first() {
        Some(first) if first >> 4 == 4 => {
            let Some(header) = packet.first_chunk_mut::<{ ipv4::MIN_HEADER_LEN }>() else { return };
            let old = u16::from_be_bytes([header[0], header[1]]);
            header[1] = value;
            let new = u16::from_be_bytes([header[0], header[1]]);
            patch(header, old, new);
        }
        Some(first) if first >> 4 == 6 => {
            if let Some([a, b]) = packet.first_chunk_mut::<2>() {
                *a = 6 << 4 | value >> 4;
                *b = value << 4 | *b & 0x0f;
            }
        }
        _ => {}
    }
}

/// The DS field and ECN byte, or `None` for what is no IP header.
pub fn traffic_class(packet: &[u8]) -> Option<u8> {
    match *packet.first_chunk::<2>()? {
        [a, b] if a >> 4 == 4 => Some(b),
        [a, b] if a >> 4 == 6 => Some(a << 4 | b >> 4),
        _ => None,
    }
}

/// Marks the packet Congestion Experienced, if it is ECN-capable (RFC 3168 §5).
///
/// Returns whether the packet says CE afterwards; `false`, and no change, for a packet that is
/// not ECN-capable and would have to be dropped instead.
#[must_use]
pub fn set_ecn_ce(packet: &mut [u8]) -> bool {
    match traffic_class(packet) {
        Some(class) if class & ECN_MASK != 0 => {
            set_traffic_class(packet, class | ECN_CE);
            true
        }
        _ => false,
    }
}

/// Updates the IPv4 header checksum after one word changed.
fn patch(header: &mut [u8; ipv4::MIN_HEADER_LEN], old: u16, new: u16) {
    let sum = u16::from_be_bytes([header[10], header[11]]);
    [header[10], header[11]] = checksum::update(sum, old, new).to_be_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every checksum, right or wrong, becomes what RFC 1624's equation 3 makes of it.
    #[test]
    fn a_ttl_is_taken_off_the_checksum_exactly() {
        let mut packet = crate::ipv4::Ipv4Fields {
            traffic_class: 0,
            total_len: 28,
            ident: 0,
            dont_fragment: false,
            ttl: 64,
            protocol: 17,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
        }
        .to_bytes()
        .to_vec();
        packet.extend([0; 8]);
        let h = crate::parse_ip(&packet).unwrap();
        for (ttl, number) in [(2u8, 0u8), (2, 255), (255, 255), (64, 6), (128, 17)] {
            let words = [ttl, ttl - 1].map(|ttl| u16::from_be_bytes([ttl, number]));
            for sum in 0..=u16::MAX {
                [packet[8], packet[9]] = [ttl, number];
                [packet[10], packet[11]] = sum.to_be_bytes();
                assert!(decrement_ttl(&mut packet, &h));
                let expected = checksum::update(sum, words[0], words[1]);
                assert_eq!(packet[10..12], expected.to_be_bytes(), "TTL {ttl}, {sum:#x}");
                assert_eq!(packet[8], ttl - 1);
            }
        }
    }
}
