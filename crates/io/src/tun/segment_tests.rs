//! Tests of segmentation: packets are built here, and judged by an own reading of the RFCs.

use proptest::prelude::*;

use super::*;
use crate::tun::layout::Layout;

const LIMITS: Limits = Limits { segment: 1500, frame: 1792 };

fn tcp_packet(v6: bool, options: usize, flags: u8, payload: &[u8]) -> Vec<u8> {
    let transport = 20 + options;
    let mut packet = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        ip.extend([0xfd; 16]);
        ip.extend([0xfc; 16]);
        let len = (transport + payload.len()) as u16;
        ip[4..6].copy_from_slice(&len.to_be_bytes());
        ip
    } else {
        let mut ip =
            vec![0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 9, 8, 7];
        let len = (20 + transport + payload.len()) as u16;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        ip
    };
    let mut tcp = vec![0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0, 1, 2, 3, 4];
    tcp.extend([(transport as u8 / 4) << 4, flags, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend((0..options).map(|_| 1));
    packet.extend(tcp);
    packet.extend(payload);
    packet
}

fn gso(v6: bool, size: u16) -> VnetHeader {
    let gso = if v6 { Gso::TcpV6 } else { Gso::TcpV4 };
    VnetHeader { needs_csum: true, gso, gso_size: size, csum_offset: 16, ..VnetHeader::PLAIN }
}

fn cut(vnet: &VnetHeader, packet: &mut [u8]) -> Result<Vec<Vec<u8>>, SegmentError> {
    let mut segmenter = Segmenter::new(vnet, packet, LIMITS)?;
    let mut segments = Vec::new();
    let mut out = [0xaa; 1792];
    while let Some(len) = segmenter.next(packet, &mut out) {
        segments.push(out[..len].to_vec());
    }
    assert!(segmenter.is_done());
    Ok(segments)
}

/// A plain sum over 16-bit words, to check the optimised one.
fn plain_sum(bytes: &[u8]) -> u32 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    words.fold(0, |sum, word| {
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

fn assert_checksums(packet: &[u8]) {
    let layout = Layout::of(packet).expect("IP");
    if layout.is_v4 {
        assert_eq!(plain_sum(&packet[..20]), 0xffff, "IPv4 checksum");
    }
    let addresses = if layout.is_v4 { 12..20 } else { 8..40 };
    let mut all = packet[addresses].to_vec();
    all.extend([0, layout.protocol]);
    all.extend(((packet.len() - layout.ip_len) as u16).to_be_bytes());
    all.extend(&packet[layout.ip_len..]);
    assert_eq!(plain_sum(&all), 0xffff, "transport checksum");
}

proptest! {
    #[test]
    fn tcp_is_cut_as_the_rfcs_say(
        v6: bool,
        options in 0_usize..=10,
        payload in prop::collection::vec(any::<u8>(), 1..20000),
        size in 1_u16..3000,
        flags: u8,
    ) {
        let options = options * 4;
        let mut packet = tcp_packet(v6, options, flags, &payload);
        let headers = packet.len() - payload.len();
        let segments = cut(&gso(v6, size), &mut packet).expect("well-formed");
        let size = usize::from(size).min(1500 - headers);
        prop_assert_eq!(segments.len(), payload.len().div_ceil(size));
        let mut got: Vec<u8> = Vec::new();
        for (number, segment) in segments.iter().enumerate() {
            let (is_first, is_last) = (number == 0, number + 1 == segments.len());
            assert_checksums(segment);
            prop_assert!(is_last || segment.len() == headers + size);
            let ip_len = if v6 { 40 } else { 20 };
            if v6 {
                prop_assert_eq!(usize::from(word(segment, 4)), segment.len() - 40);
            } else {
                prop_assert_eq!(usize::from(word(segment, 2)), segment.len());
                prop_assert_eq!(word(segment, 4), 0xfffe_u16.wrapping_add(number as u16));
            }
            let seq = 0xffff_ff00_u32.wrapping_add(got.len() as u32);
            prop_assert_eq!(double_word(segment, ip_len + 4), seq);
            let mut expected = flags;
            if !is_last { expected &= !0x09; }
            if !is_first { expected &= !0x80; }
            prop_assert_eq!(segment[ip_len + 13], expected);
            got.extend(&segment[headers..]);
        }
        prop_assert_eq!(got, payload);
    }

    #[test]
    fn arbitrary_bytes_never_break_it(data in prop::collection::vec(any::<u8>(), 0..4000)) {
        fuzz(&data);
    }

    #[test]
    fn damaged_packets_never_break_it(
        v6: bool, at in 0_usize..70, value: u8, size: u16, kind in 0_u8..6, len in 0_usize..3000,
    ) {
        let mut packet = tcp_packet(v6, 12, 0x10, &[7; 3000]);
        packet[at] = value;
        packet.truncate(len);
        let mut data = gso(v6, size).emit().to_vec();
        data[1] = kind;
        data.extend(packet);
        fuzz(&data);
    }
}

#[test]
fn udp_keeps_its_datagrams() {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([0, 53, 0, 54, 0, 0, 0, 0]);
    packet.extend((0..2500).map(|number| number as u8));
    let vnet = VnetHeader { gso: Gso::Udp, gso_size: 1000, ..VnetHeader::PLAIN };
    let segments = cut(&vnet, &mut packet).expect("well-formed");
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1028, 1028, 528]);
    for segment in &segments {
        assert_checksums(segment);
        assert_eq!(usize::from(word(segment, 24)), segment.len() - 20);
    }
    // A datagram longer than a packet may be is not cut at another place.
    let vnet = VnetHeader { gso_size: 1473, ..vnet };
    assert_eq!(cut(&vnet, &mut packet), Err(SegmentError::TooLong));
}

#[test]
fn a_partial_checksum_is_completed() {
    let mut packet = tcp_packet(false, 0, 0x10, b"hello");
    set_ipv4_checksum(&mut packet[..20]);
    let layout = Layout::of(&packet).expect("IP");
    let partial = layout.pseudo_header(&packet, 25).folded();
    put(&mut packet, 36, partial);
    let vnet =
        VnetHeader { needs_csum: true, csum_start: 20, csum_offset: 16, ..VnetHeader::PLAIN };
    let whole = cut(&vnet, &mut packet.clone()).expect("well-formed");
    assert_eq!(whole.len(), 1);
    assert_checksums(&whole[0]);
    // Without the flag it passes as it is.
    assert_eq!(cut(&VnetHeader::PLAIN, &mut packet.clone()), Ok(vec![packet.clone()]));
    // Offsets outside the packet, or inside the IP header, are refused.
    for (csum_start, csum_offset) in [(20, 24), (0xffff, 0xffff), (10, 0)] {
        let vnet = VnetHeader { csum_start, csum_offset, ..vnet };
        assert_eq!(cut(&vnet, &mut packet), Err(SegmentError::Malformed));
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let packet = tcp_packet(false, 0, 0x10, &[0; 3000]);
    assert_eq!(cut(&gso(true, 1000), &mut packet.clone()), Err(SegmentError::Malformed));
    assert_eq!(cut(&gso(false, 0), &mut packet.clone()), Err(SegmentError::Malformed));
    let unknown = VnetHeader { gso: Gso::Unknown(3), ..gso(false, 1000) };
    assert_eq!(cut(&unknown, &mut packet.clone()), Err(SegmentError::Kind));
    assert_eq!(cut(&VnetHeader::PLAIN, &mut packet.clone()), Err(SegmentError::TooLong));
    let mut fragment = packet;
    fragment[6] = 0x20;
    assert_eq!(cut(&gso(false, 1000), &mut fragment), Err(SegmentError::Malformed));
}
