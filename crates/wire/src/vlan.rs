//! Names of a port's VLANs: the tags of their frames (IEEE 802.1Q, 802.1ad).

use core::fmt;

use crate::ethernet::{EtherType, EthernetHeader, MAX_TAGS, Tag};

/// The tags that a VLAN's frames have, outermost first: none, one, or two where VLANs are stacked.
///
/// In one word, 16 bits a tag, the outermost in the lowest: the VLAN identifier, and above it whether the tag is
/// an 802.1ad one. The steering program keeps VLANs by the same word. Tags of VLAN 0 carry a priority alone
/// (IEEE 802.1Q §6.9), and are no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanTags(u32);

/// Set where a tag is an 802.1ad one.
const SERVICE: u32 = 1 << 12;

/// The VLAN identifier; those from 1 to 4094 name a VLAN.
const ID_MASK: u32 = 0xfff;

/// Bits of one tag in the word.
const TAG_BITS: u32 = 16;

impl VlanTags {
    /// The tags of a frame of the port itself: none.
    pub const NONE: VlanTags = VlanTags(0);

    /// The tags of a frame.
    #[inline]
    pub fn of(header: &EthernetHeader) -> VlanTags {
        let tags = header.tags.iter().flatten().filter(|tag| tag.vlan_id() != 0);
        tags.fold(VlanTags::NONE, |outer, tag| VlanTags(outer.0 | code(*tag) << outer.shift()))
    }

    /// The tags of a VLAN that lies on this one. `None` for an identifier that names no VLAN, for a
    /// tag of an unknown kind, and where two tags are there already.
    pub fn with(self, tpid: EtherType, vlan_id: u16) -> Option<VlanTags> {
        let tag = Tag { tpid, tci: vlan_id };
        let is_vlan = (1..=4094).contains(&vlan_id) && tpid.is_vlan();
        (is_vlan && self.len() < MAX_TAGS).then(|| VlanTags(self.0 | code(tag) << self.shift()))
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        match self.0 {
            0 => 0,
            1..=0xffff => 1,
            _ => 2,
        }
    }

    /// True if there are no tags.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tags, outermost first, without a priority.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        [self.0, self.0 >> TAG_BITS].into_iter().take(self.len()).map(|code| Tag {
            tpid: if code & SERVICE == 0 { EtherType::VLAN } else { EtherType::SERVICE_VLAN },
            tci: (code & ID_MASK) as u16,
        })
    }

    /// Both tags as one word, to be stored or compared.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Where the next tag's bits are.
    const fn shift(self) -> u32 {
        if self.0 == 0 { 0 } else { TAG_BITS }
    }
}

/// A tag's bits.
const fn code(tag: Tag) -> u32 {
    let service = if tag.tpid.0 == EtherType::SERVICE_VLAN.0 { SERVICE } else { 0 };
    tag.vlan_id() as u32 | service
}

/// `100`; `802.1ad 7, 100` for one in another.
impl fmt::Display for VlanTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, tag) in self.iter().enumerate() {
            let between = if at == 0 { "" } else { ", " };
            let kind = if tag.tpid == EtherType::SERVICE_VLAN { "802.1ad " } else { "" };
            write!(f, "{between}{kind}{}", tag.vlan_id())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(tags: &[u16]) -> EthernetHeader {
        let tags = tags.iter().flat_map(|half| half.to_be_bytes());
        let frame: Vec<u8> = [2; 12].into_iter().chain(tags).chain([8, 0]).collect();
        EthernetHeader::parse(&frame).expect("whole")
    }

    #[test]
    fn a_frame_and_a_device_have_the_same_word() {
        let vlan = VlanTags::NONE.with(EtherType::VLAN, 100).expect("a VLAN");
        assert_eq!(VlanTags::of(&header(&[0x8100, 0xa064])), vlan);
        let service = VlanTags::NONE.with(EtherType::SERVICE_VLAN, 7).expect("a VLAN");
        let stacked = service.with(EtherType::VLAN, 100).expect("a VLAN");
        assert_eq!(VlanTags::of(&header(&[0x88a8, 7, 0x8100, 100])), stacked);
        assert_eq!(stacked.word(), 100 << 16 | 1 << 12 | 7);
        assert_eq!((vlan.len(), stacked.len()), (1, 2));
        let tags: Vec<_> = stacked.iter().map(|tag| (tag.tpid, tag.tci)).collect();
        assert_eq!(tags, [(EtherType::SERVICE_VLAN, 7), (EtherType::VLAN, 100)]);
        assert_eq!([vlan, stacked].map(|tags| tags.to_string()), ["100", "802.1ad 7, 100"]);
    }

    #[test]
    fn a_priority_is_no_vlan() {
        let vlan = VlanTags::NONE.with(EtherType::VLAN, 9);
        assert!(VlanTags::of(&header(&[0x8100, 0xe000])).is_empty());
        assert_eq!(Some(VlanTags::of(&header(&[0x8100, 0, 0x8100, 9]))), vlan);
        assert_eq!(Some(VlanTags::of(&header(&[0x8100, 9, 0x8100, 0]))), vlan);
    }

    #[test]
    fn what_names_no_vlan() {
        let none = VlanTags::NONE;
        assert!([0, 4095, 4096].iter().all(|id| none.with(EtherType::VLAN, *id).is_none()));
        assert_eq!(none.with(EtherType::IPV4, 5), None);
        let two = none.with(EtherType::VLAN, 1).and_then(|one| one.with(EtherType::VLAN, 1));
        assert_eq!(two.and_then(|two| two.with(EtherType::VLAN, 1)), None);
    }
}
