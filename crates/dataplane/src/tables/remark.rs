//! The code point (DSCP) that packets get on arrival, by the priority of a VLAN tag.
//!
//! A step that asks for a DSCP after that (marks, the header that encryption puts in front, the tag of the way out)
//! sees the new one. It may be changed without harm to ESP and AH, which do not protect it (RFC 4302 §3.3.3.1).

use wire::ethernet::{EthernetHeader, HEADER_LEN, Tag};
use wire::{EtherType, VlanTags};

/// The code point for each priority (PCP); none leaves a packet's own.
pub type CodePoints = [Option<u8>; 8];

/// Which code point packets get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The tag whose priority counts: 0 is the outermost.
    pub tag: usize,
    /// The code points.
    pub dscps: CodePoints,
}

impl Remark {
    /// Writes the code point into a frame that has lost its tags, which are in `header`. Tags that name no VLAN do
    /// not count, but where there is no other.
    pub(crate) fn write(&self, frame: &mut [u8], header: &EthernetHeader) {
        let is_priority_tagged = VlanTags::of(header).is_empty();
        let counts = |tag: &&Tag| is_priority_tagged || tag.vlan_id() != 0;
        let tag = header.tags.iter().flatten().filter(counts).nth(self.tag);
        let dscp = tag.and_then(|tag| self.dscps.get(usize::from(tag.pcp())).copied().flatten());
        let is_ip = matches!(header.ether_type, EtherType::IPV4 | EtherType::IPV6);
        let packet = frame.get_mut(HEADER_LEN..).filter(|_| is_ip);
        if let Some((dscp, packet)) = dscp.zip(packet)
            && let Some(old) = wire::traffic_class(packet)
        {
            wire::set_traffic_class(packet, dscp << 2 | old & wire::ECN_MASK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet after its frame with these tags, their upper halves, was classified.
    fn written(tags: &[u16], tag: usize, packet: &[u8]) -> Vec<u8> {
        let ether_type = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
        let tags = tags.iter().flat_map(|tci| [[0x81, 0], tci.to_be_bytes()].concat());
        let tagged: Vec<u8> = [2; 12].into_iter().chain(tags).chain(ether_type).collect();
        let header = EthernetHeader::parse(&tagged).expect("whole");
        let mut dscps = [None; 8];
        (dscps[5], dscps[3]) = (Some(46), Some(0));
        let mut frame = [&tagged[..12], &ether_type, packet].concat();
        Remark { tag, dscps }.write(&mut frame, &header);
        frame.split_off(HEADER_LEN)
    }

    /// An IPv4 header of AF11 and ECT(1), with a right checksum.
    fn ipv4() -> [u8; 20] {
        let mut packet = [0x45, 41, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = wire::checksum::checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        packet
    }

    #[test]
    fn the_checksum_stays_right_and_ecn_what_it_was() {
        let new = written(&[5 << 13 | 100], 0, &ipv4());
        assert_eq!((new[1], wire::checksum::checksum(&new)), (46 << 2 | 1, 0));
        // A checksum that is wrong stays wrong.
        let mut bad = ipv4();
        bad[10] ^= 1;
        assert_ne!(wire::checksum::checksum(&written(&[5 << 13 | 100], 0, &bad)), 0);
        let new = written(&[3 << 13 | 100], 0, &[0x6a, 0xb1, 0x23, 0x45]);
        assert_eq!(new, [0x60, 0x31, 0x23, 0x45], "flow label and ECN are kept");
    }

    #[test]
    fn the_tag_that_counts() {
        let dscp = |tags: &[u16], tag| written(tags, tag, &ipv4())[1] >> 2;
        let (five, three, none) = (5 << 13, 3 << 13, 1 << 13);
        assert_eq!([dscp(&[five | 7, three | 9], 0), dscp(&[five | 7, three | 9], 1)], [46, 0]);
        assert_eq!(dscp(&[none | 7], 0), 10, "not in the table");
        assert_eq!(dscp(&[three, five | 7], 0), 46, "VLAN 0 is no VLAN");
        assert_eq!(dscp(&[five], 0), 46, "but where there is no other");
        assert_eq!(dscp(&[five | 7], 1), 10, "no such tag");
    }

    #[test]
    fn what_is_too_short_is_left() {
        for len in 1..20 {
            let cut = &ipv4()[..len];
            assert_eq!(written(&[5 << 13 | 1], 0, cut), cut);
        }
    }
}
