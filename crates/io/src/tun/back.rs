//! Packets that go back to the interface that they came in by.
//!
//! Culvert takes a frame from a port to ask the policy database about it, and finds that it is
//! Linux's. Written to the private interface as it is, Linux would see it come in by that interface:
//! firewall rules, reverse path filter and captures would not find the port that it came by. So it is
//! written with its Ethernet header and a tag that names the port:
//!
//! ```text
//! TPID:2  tag:2  EtherType:2  Ethernet header:14  IP packet
//! ```
//!
//! Linux's stack takes the first six bytes for a VLAN tag and takes them off; the program of
//! `steer::GiveBack` on the private interface sees the tag, and hands the frame to the port's
//! interface. Without that program such a frame is to a VLAN that does not exist, and dropped.
//!
//! A frame of one of the port's own VLANs has lost the tags that it came with. Its tag here names that
//! VLAN, and the program puts them in again; the priority and the drop eligible bit are in the upper bits of
//! the tag, as they are in every tag.

use wire::Span;
use wire::ethernet::HEADER_LEN;

use crate::umem::Packet;

/// Bytes in front of the IP packet: the tag and its header.
pub const PREFIX_LEN: usize = TAG_LEN + HEADER_LEN;

/// The highest tag, as of VLAN identifiers; 0 is none.
pub const MAX_TAG: u16 = 4094;

/// Beside a tag: a byte that lies [`PRIORITY_LEN`] bytes in front of the Ethernet header has a priority
/// in its upper three bits (PCP), and below that whether the frame is drop eligible (DEI), which go with the frame.
pub const HAS_PRIORITY: u16 = 1 << 15;

/// Beside a tag: the frame gets no mark, so that routes lead it to the private interface like any other packet to a
/// protected prefix. The tag's TPID says so.
pub const UNMARKED: u16 = 1 << 14;

/// Where the priority lies, in bytes in front of the Ethernet header.
pub const PRIORITY_LEN: usize = 2;

const PRIORITY_MASK: u8 = 0xf0;

const TAG_LEN: usize = 6;
const TPID: [u8; 2] = [0x81, 0x00];
/// TPID of the tag of packets that are [`UNMARKED`].
const TPID_UNMARKED: [u8; 2] = [0x88, 0xa8];

/// Puts the tag in front of an IP packet, whose frame still has the Ethernet header right in front of
/// it; false if there is no room.
pub fn tag(packet: &mut Packet, tag: u16) -> bool {
    let Span { start, len } = packet.span;
    let Some(start) = start.checked_sub(PREFIX_LEN) else { return false };
    let Some(prefix) = packet.buffer_mut().get_mut(start..) else { return false };
    let Some(prefix) = prefix.first_chunk_mut::<PREFIX_LEN>() else { return false };
    let [.., high, low] = *prefix;
    let [t0, t1] = if tag & UNMARKED == 0 { TPID } else { TPID_UNMARKED };
    let [mut tag_high, tag_low] = (tag & !(HAS_PRIORITY | UNMARKED)).to_be_bytes();
    if tag & HAS_PRIORITY != 0 {
        tag_high |= prefix.get(TAG_LEN - PRIORITY_LEN).map_or(0, |byte| byte & PRIORITY_MASK);
    }
    if let Some(to) = prefix.first_chunk_mut() {
        *to = [t0, t1, tag_high, tag_low, high, low];
    }
    packet.span = Span { start, len: len + PREFIX_LEN };
    true
}

/// A packet's prefix, which is empty unless it has a tag, and the IP packet behind it.
pub(super) fn split(packet: &[u8]) -> (&[u8], &[u8]) {
    match packet.split_at_checked(PREFIX_LEN) {
        Some(split) if packet.starts_with(&TPID) || packet.starts_with(&TPID_UNMARKED) => split,
        _ => (&[], packet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::umem::{ChunkSize, Umem, UmemConfig};

    #[test]
    fn the_tag_stands_in_front_of_the_ethernet_header() {
        let config = UmemConfig { chunks: 1, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (_umem, mut pool) = Umem::new(config).expect("mmap");
        let mut packet =
            Packet { frame: pool.take().expect("frame"), span: Span { start: 100, len: 40 } };
        packet.data_mut().fill(0x45);
        let ethernet = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00];
        packet.buffer_mut()[86..100].copy_from_slice(&ethernet);
        assert_eq!(split(packet.data()), (&[][..], &[0x45; 40][..]));
        assert!(tag(&mut packet, 0x123));
        let (prefix, ip) = split(packet.data());
        assert_eq!(prefix[..6], [0x81, 0x00, 0x01, 0x23, 0x08, 0x00]);
        assert_eq!(prefix[6..], ethernet);
        assert_eq!(ip, [0x45; 40]);
        packet.span = Span { start: 100, len: 40 };
        packet.buffer_mut()[84] = 0xbf;
        assert!(tag(&mut packet, 0x123 | HAS_PRIORITY));
        assert_eq!(split(packet.data()).0[2..4], [0xb1, 0x23], "priority and DEI alone");
        packet.span = Span { start: 100, len: 40 };
        assert!(tag(&mut packet, 0x123 | UNMARKED));
        let (prefix, ip) = split(packet.data());
        assert_eq!((&prefix[..4], ip), (&[0x88, 0xa8, 0x01, 0x23][..], &[0x45; 40][..]));
        packet.span = Span { start: PREFIX_LEN - 1, len: 40 };
        assert!(!tag(&mut packet, 1), "no room");
    }
}
