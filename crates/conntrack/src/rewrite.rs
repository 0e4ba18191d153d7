//! Translates packets: addresses, ports, and the checksums over them (RFC 3022 §4, RFC 1624).

use core::net::IpAddr;

use wire::{Family, Fields, checksum, protocol};

use crate::tuple::Tuple;

/// Addresses and ports of a packet after its translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Source address after it.
    pub src: IpAddr,
    /// Destination address after it.
    pub dst: IpAddr,
    /// Source port, or identifier.
    pub src_port: u16,
    /// Destination port; not of ICMP.
    pub dst_port: u16,
}

impl Rewrite {
    /// Translation of packets whose answers have this tuple.
    pub const fn answered_by(answers: &Tuple) -> Rewrite {
        let Tuple { src, dst, src_port, dst_port, .. } = *answers;
        // The identifier of a query is that of its answer, whichever way.
        let (src_port, dst_port) = match answers.is_icmp() {
            true => (src_port, 0),
            false => (dst_port, src_port),
        };
        Rewrite { src: dst, dst: src, src_port, dst_port }
    }

    /// Translates an IP packet without options or extension headers, of which [`Tuple::of`] has found a tuple.
    /// Returns false, and changes nothing, where it is too short for that or of another family.
    #[must_use]
    pub fn apply(&self, packet: &mut [u8], h: Fields) -> bool {
        let changed = match (self.src, self.dst, h.family()) {
            (IpAddr::V4(src), IpAddr::V4(dst), Family::V4) => {
                let mut new = [0; 8];
                new[..4].copy_from_slice(&src.octets());
                new[4..].copy_from_slice(&dst.octets());
                self.apply_to::<8, 12, 20>(packet, new, h.protocol())
            }
            (IpAddr::V6(src), IpAddr::V6(dst), Family::V6) => {
                let mut new = [0; 32];
                new[..16].copy_from_slice(&src.octets());
                new[16..].copy_from_slice(&dst.octets());
                self.apply_to::<32, 8, 40>(packet, new, h.protocol())
            }
            _ => None,
        };
        changed.is_some()
    }

    /// The same in a packet whose addresses, `LEN` bytes, are at `AT`, and whose upper layer is at `UPPER`.
    fn apply_to<const LEN: usize, const AT: usize, const UPPER: usize>(
        &self,
        packet: &mut [u8],
        new: [u8; LEN],
        number: u8,
    ) -> Option<()> {
        let (header, upper) = packet.split_at_mut_checked(UPPER)?;
        let addresses = header.get_mut(AT..)?.first_chunk_mut::<LEN>()?;
        let sum_at = match number {
            protocol::TCP => 16,
            protocol::UDP => 6,
            _ => 2,
        };
        upper.get(sum_at..sum_at + 2)?;
        let old = core::mem::replace(addresses, new);
        if UPPER == 20
            && let Some(sum) = header.get_mut(10..)
        {
            patch(sum, &old, &new);
        }
        let [src, dst] = [self.src_port.to_be_bytes(), self.dst_port.to_be_bytes()];
        let (ports_at, ports_len) = if protocol::is_icmp(number) { (4, 2) } else { (0, 4) };
        let new_ports = [src[0], src[1], dst[0], dst[1]];
        let mut old_ports = [0; 4];
        let place = upper.get_mut(ports_at..ports_at + ports_len)?;
        old_ports.get_mut(..ports_len)?.copy_from_slice(place);
        place.copy_from_slice(new_ports.get(..ports_len)?);
        let sum = upper.get_mut(sum_at..)?;
        // Of UDP over IPv4 that means "none" (RFC 768).
        if number == protocol::UDP && sum.first_chunk() == Some(&[0, 0]) {
            return Some(());
        }
        // ICMP of IPv4 has no pseudo header.
        if number != protocol::ICMP {
            patch(sum, &old, &new);
        }
        patch(sum, old_ports.get(..ports_len)?, new_ports.get(..ports_len)?);
        // A sum of 0 would say that there is none (RFC 768, RFC 8200 §8.1).
        if number == protocol::UDP
            && let Some(sum @ [0, 0]) = sum.first_chunk_mut()
        {
            *sum = [0xff; 2];
        }
        Some(())
    }
}

/// Updates the checksum that bytes begin with.
fn patch(sum: &mut [u8], old: &[u8], new: &[u8]) {
    if let Some(sum) = sum.first_chunk_mut() {
        *sum = checksum::update_slice(u16::from_be_bytes(*sum), old, new).to_be_bytes();
    }
}

/// True if a packet of a connection may go past Linux. False for one that opens or ends a TCP
/// connection, which Linux follows by them, and for UDP of IPv6 without a checksum, which is no
/// valid packet outside of some tunnels (RFC 6935).
#[inline]
pub fn may_go(packet: &[u8], h: Fields) -> bool {
    let upper = packet.get(h.header_len().into()..).unwrap_or_default();
    match h.protocol() {
        protocol::TCP => {
            use wire::tcp::flag::{FIN, RST, SYN};
            upper.get(13).is_some_and(|flags| flags & (FIN | RST | SYN) == 0)
        }
        protocol::UDP if h.family() == Family::V6 => {
            upper.get(6..8).is_some_and(|sum| sum != [0, 0])
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{fill_l4_checksum, parse_ip};

    use super::*;

    /// A packet with right checksums, and its tuple.
    fn packet(src: IpAddr, dst: IpAddr, number: u8, head: [u8; 8], payload: &[u8]) -> Vec<u8> {
        let upper_len = match number {
            protocol::TCP => 20 + payload.len(),
            _ => 8 + payload.len(),
        };
        let mut bytes = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut header = vec![0; 20];
                header[0] = 0x45;
                header[2..4].copy_from_slice(&(20 + upper_len as u16).to_be_bytes());
                (header[8], header[9]) = (64, number);
                header[12..16].copy_from_slice(&src.octets());
                header[16..].copy_from_slice(&dst.octets());
                let sum = checksum::checksum(&header).to_be_bytes();
                header[10..12].copy_from_slice(&sum);
                header
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut header = vec![0; 40];
                header[0] = 0x60;
                header[4..6].copy_from_slice(&(upper_len as u16).to_be_bytes());
                (header[6], header[7]) = (number, 64);
                header[8..24].copy_from_slice(&src.octets());
                header[24..].copy_from_slice(&dst.octets());
                header
            }
            _ => unreachable!("one family"),
        };
        let upper_at = bytes.len();
        bytes.extend(head);
        match number {
            protocol::TCP => {
                bytes.extend([0; 12]);
                bytes[upper_at + 12] = 0x50;
                bytes[upper_at + 13] = wire::tcp::flag::ACK;
            }
            protocol::UDP => {
                let len = (upper_len as u16).to_be_bytes();
                bytes[upper_at + 4..upper_at + 6].copy_from_slice(&len);
                bytes[upper_at + 6..upper_at + 8].fill(0);
            }
            _ => bytes[upper_at..upper_at + 2]
                .copy_from_slice(&[if src.is_ipv4() { 8 } else { 128 }, 0]),
        }
        bytes.extend(payload);
        let h = parse_ip(&bytes).expect("a packet");
        assert!(fill_l4_checksum(&mut bytes, &h));
        bytes
    }

    fn addresses() -> impl Strategy<Value = [IpAddr; 4]> {
        prop_oneof![
            any::<[[u8; 4]; 4]>().prop_map(|all| all.map(|[_, b, c, d]| [10, b, c, d].into())),
            any::<[[u8; 16]; 4]>().prop_map(|all| all.map(|mut addr| {
                addr[0] = 0xfd;
                addr.into()
            })),
        ]
    }

    proptest! {
        /// Translated, it has the checksums that a full computation gives; and back it is what it was.
        #[test]
        fn there_and_back_is_identity(
            [src, dst, new_src, new_dst] in addresses(), which in 0usize..3, head: [u8; 8],
            ports: (u16, u16), payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let icmp = if src.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
            let number = [protocol::TCP, protocol::UDP, icmp][which];
            let before = packet(src, dst, number, head, &payload);
            let h = parse_ip(&before).unwrap();
            let tuple = Tuple::of(&before, &h).expect("a tuple");
            let there = Rewrite {
                src: new_src, dst: new_dst, src_port: ports.0,
                dst_port: if tuple.is_icmp() { 0 } else { ports.1 },
            };
            let mut bytes = before.clone();
            prop_assert!(there.apply(&mut bytes, (&h).into()));
            let translated = parse_ip(&bytes).expect("a right header");
            prop_assert_eq!((translated.src, translated.dst), (new_src, new_dst));
            let mut recomputed = bytes.clone();
            prop_assert!(fill_l4_checksum(&mut recomputed, &translated));
            prop_assert_eq!(&recomputed, &bytes);
            let now = Tuple::of(&bytes, &translated).expect("a tuple");
            prop_assert_eq!(now.src_port, ports.0);
            let back = Rewrite {
                src, dst, src_port: tuple.src_port,
                dst_port: if tuple.is_icmp() { 0 } else { tuple.dst_port },
            };
            prop_assert!(back.apply(&mut bytes, (&translated).into()));
            prop_assert_eq!(bytes, before);
        }

        #[test]
        fn short_packets_are_left_alone(len in 0usize..48, v6: bool, number in prop_oneof![Just(1u8), Just(6), Just(17), Just(58)]) {
            let (src, dst): (IpAddr, IpAddr) = match v6 {
                false => ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
                true => ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into()),
            };
            let whole = packet(src, dst, number, [0; 8], &[]);
            let h = parse_ip(&whole).unwrap();
            let mut cut = whole[..len.min(whole.len())].to_vec();
            let before = cut.clone();
            let to = Rewrite { src, dst, src_port: 1, dst_port: 2 };
            if !to.apply(&mut cut, (&h).into()) {
                prop_assert_eq!(cut, before);
            }
        }
    }

    #[test]
    fn no_checksum_stays_none_over_ipv4_and_is_linuxs_over_ipv6() {
        let mut bytes =
            packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, [0, 1, 0, 2, 0, 0, 0, 0], &[7]);
        bytes[26..28].fill(0);
        let h = parse_ip(&bytes).unwrap();
        let to = Rewrite {
            src: [192, 0, 2, 1].into(),
            dst: [10, 0, 0, 2].into(),
            src_port: 9,
            dst_port: 2,
        };
        assert!(may_go(&bytes, (&h).into()));
        assert!(to.apply(&mut bytes, (&h).into()));
        assert_eq!(bytes[26..28], [0, 0]);
        let six = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
        let mut bytes = packet(six(1), six(2), 17, [0, 1, 0, 2, 0, 0, 0, 0], &[7]);
        let h = parse_ip(&bytes).unwrap();
        assert!(may_go(&bytes, (&h).into()));
        bytes[46..48].fill(0);
        assert!(!may_go(&bytes, (&h).into()));
        assert!(!to.apply(&mut bytes, (&h).into()), "of another family");
    }

    #[test]
    fn a_checksum_that_becomes_zero_is_written_as_ones() {
        // Each source port once: for one of them the sum comes to 0.
        let whole =
            packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, [0, 1, 0, 2, 0, 0, 0, 0], &[]);
        let h = parse_ip(&whole).unwrap();
        let mut ones = 0;
        for port in 0..=u16::MAX {
            let mut bytes = whole.clone();
            let to = Rewrite { src: h.src, dst: h.dst, src_port: port, dst_port: 2 };
            assert!(to.apply(&mut bytes, (&h).into()));
            assert_ne!(bytes[26..28], [0, 0], "{port}");
            ones += usize::from(bytes[26..28] == [0xff, 0xff]);
        }
        assert!(ones > 0);
    }

    #[test]
    fn what_opens_and_ends_a_connection_is_linuxs() {
        let mut bytes = packet([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, [0; 8], &[]);
        let h = parse_ip(&bytes).unwrap();
        for (flags, goes) in
            [(0x10, true), (0x18, true), (0x02, false), (0x12, false), (0x11, false), (0x04, false)]
        {
            bytes[33] = flags;
            assert_eq!(may_go(&bytes, (&h).into()), goes, "{flags:#x}");
        }
    }

    #[test]
    fn an_answer_says_what_a_packet_becomes() {
        let answers = Tuple {
            src: [198, 51, 100, 9].into(),
            dst: [192, 0, 2, 1].into(),
            protocol: 17,
            src_port: 53,
            dst_port: 4711,
        };
        let Rewrite { src, dst, src_port, dst_port } = Rewrite::answered_by(&answers);
        assert_eq!((src, src_port), (answers.dst, 4711));
        assert_eq!((dst, dst_port), (answers.src, 53));
        let echo = Tuple { protocol: 1, src_port: 77, dst_port: 0, ..answers };
        assert_eq!(Rewrite::answered_by(&echo).src_port, 77);
    }
}
