//! No bytes make a parser panic, and no packet is accepted that contradicts itself.

use proptest::prelude::*;
use wire::ipv4::Ipv4Fields;
use wire::ipv6::Ipv6Fields;
use wire::{Fragment, parse_ip};

/// A valid IPv4 or IPv6 packet with an upper layer that its protocol number may or may not fit.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..80);
    let number = prop_oneof![
        Just(0u8),
        Just(1),
        Just(6),
        Just(17),
        Just(43),
        Just(44),
        Just(50),
        Just(51),
        Just(58),
        Just(59),
        Just(60),
        any::<u8>()
    ];
    (any::<bool>(), number, payload, any::<[u8; 4]>(), any::<u8>()).prop_map(
        |(v4, number, payload, address, class)| {
            let mut packet = if v4 {
                Ipv4Fields {
                    traffic_class: class,
                    total_len: 20 + payload.len() as u16,
                    ident: 7,
                    dont_fragment: class & 1 == 0,
                    ttl: class,
                    protocol: number,
                    src: address.into(),
                    dst: [10, 0, 0, 1].into(),
                }
                .to_bytes()
                .to_vec()
            } else {
                Ipv6Fields {
                    traffic_class: class,
                    flow_label: u32::from_be_bytes(address),
                    payload_len: payload.len() as u16,
                    next_header: number,
                    hop_limit: class,
                    src: u128::from(u32::from_be_bytes(address)).into(),
                    dst: 1u128.into(),
                }
                .to_bytes()
                .to_vec()
            };
            packet.extend(payload);
            packet
        },
    )
}

/// An IPv6 packet with a chain of extension headers that fits, cut and mutated later.
fn chain() -> impl Strategy<Value = Vec<u8>> {
    let link =
        (prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60)], 0u8..3, any::<[u8; 6]>());
    (prop::collection::vec(link, 0..10), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |(links, payload)| {
            let mut body = Vec::new();
            for (i, (kind, len, data)) in links.iter().enumerate() {
                let next = links.get(i + 1).map_or(17, |l| l.0);
                let bytes = match kind {
                    44 => 8,
                    51 => (usize::from(*len) + 2) * 4,
                    _ => (usize::from(*len) + 1) * 8,
                };
                let at = body.len();
                body.extend([next, *len]);
                body.extend(data);
                body.resize(at + bytes, 0x5a);
            }
            body.extend(payload);
            let fields = Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                payload_len: body.len() as u16,
                next_header: links.first().map_or(17, |l| l.0),
                hop_limit: 64,
                src: 1u128.into(),
                dst: 2u128.into(),
            };
            [&fields.to_bytes()[..], &body].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..200), first in prop_oneof![Just(0x45u8), Just(0x60), Just(0x4f), any::<u8>()]) {
        let mut bytes = bytes;
        if let Some(b) = bytes.first_mut() {
            *b = first;
        }
        wire::fuzz::exercise(&bytes);
        wire::ipv4::fill_checksum(&mut bytes);
        wire::fuzz::exercise(&bytes);
    }

    #[test]
    fn mutated_packets(packet in prop_oneof![valid(), chain()], at in any::<prop::sample::Index>(), value: u8, cut in any::<prop::sample::Index>()) {
        let mut packet = packet;
        wire::fuzz::exercise(&packet);
        let at = at.index(packet.len());
        packet[at] = value;
        wire::fuzz::exercise(&packet);
        if packet[0] >> 4 == 4 {
            wire::ipv4::fill_checksum(&mut packet);
            wire::fuzz::exercise(&packet);
        }
        let cut = cut.index(packet.len() + 1);
        wire::fuzz::exercise(&packet[..cut]);
    }

    #[test]
    fn emitted_headers_parse_back(packet in valid()) {
        let number = if packet[0] >> 4 == 4 { packet[9] } else { packet[6] };
        match parse_ip(&packet) {
            Ok(h) => {
                prop_assert_eq!(usize::from(h.total_len), packet.len());
                if h.fragment == Fragment::Whole && !wire::ipv6::is_extension(number) {
                    prop_assert_eq!(h.protocol, number);
                }
            }
            Err(e) => prop_assert!(
                matches!(e, wire::ParseError::UpperTruncated(_)) || wire::ipv6::is_extension(number),
                "{:?}", e
            ),
        }
    }

    #[test]
    fn one_flipped_bit_in_an_ipv4_header_never_passes(packet in valid(), bit in 0usize..160) {
        // Bit 2 makes version 4 a 6, and IPv6 has no checksum: the EtherType tells them apart.
        if packet[0] >> 4 == 4 && bit != 2 && parse_ip(&packet).is_ok() {
            let mut flipped = packet.clone();
            flipped[bit / 8] ^= 0x80 >> (bit % 8);
            prop_assert!(parse_ip(&flipped).is_err());
        }
    }
}
