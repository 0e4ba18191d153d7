//! Where in an Ethernet frame the IP packet begins.

use super::inbox::Tag;
use arrayvec::ArrayVec;
use wire::ethernet::{EtherType, HEADER_LEN, MAX_TAGS, TAG_LEN};

/// A link header: Ethernet, at most two tags in the frame, and one that the kernel had taken out.
pub(super) type LinkHeader = ArrayVec<u8, { HEADER_LEN + 3 * TAG_LEN }>;

/// Splits a frame into its link header and the IP packet; the latter is empty where there is none.
pub(super) fn split(frame: &[u8]) -> (&[u8], &[u8]) {
    let ether_type = |at: usize| {
        let field = frame.get(at..).and_then(|rest| rest.first_chunk::<2>());
        field.map(|field| EtherType(u16::from_be_bytes(*field)))
    };
    let mut at = HEADER_LEN - 2;
    for _ in 0..=MAX_TAGS {
        match ether_type(at) {
            Some(EtherType::IPV4 | EtherType::IPV6) => return frame.split_at(at + 2),
            Some(other) if other.is_vlan() => at += TAG_LEN,
            _ => break,
        }
    }
    (frame, &[])
}

/// The link header with the tag in its place, behind the addresses.
pub(super) fn with_tag(link: &[u8], tag: Option<Tag>) -> LinkHeader {
    let mut header = LinkHeader::new();
    let (addresses, rest) = link.split_at_checked(ADDRESSES_LEN).unwrap_or((link, &[]));
    for part in [addresses, tag.as_ref().map_or(&[][..], |tag| tag), rest] {
        // A longer packet is not behind a link header of split()'s.
        let _ = header.try_extend_from_slice(part);
    }
    header
}

const ADDRESSES_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_begins_behind_the_tags() {
        for tags in 0..4 {
            let mut frame = vec![2; 12];
            for _ in 0..tags {
                frame.extend([0x81, 0, 0, 7]);
            }
            frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
            let (link, ip) = split(&frame);
            match tags {
                3 => assert_eq!((link, ip), (&frame[..], &[][..]), "too many"),
                _ => assert_eq!((link.len(), ip), (14 + 4 * tags, &[0x60, 1, 2, 3][..])),
            }
        }
        for cut in 0..14 {
            assert_eq!(split(&[0x45; 14][..cut]).1, &[][..]);
        }
        assert_eq!(split(&[0x08; 20]).1, &[][..], "an EtherType of 0x0808");
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let link = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00];
        assert_eq!(with_tag(&link, None)[..], link);
        let tagged = with_tag(&link, Some([0x81, 0, 0, 5]));
        assert_eq!(tagged[..12], link[..12]);
        assert_eq!(tagged[12..], [0x81, 0, 0, 5, 0x08, 0x00]);
        assert_eq!(with_tag(&[1, 2], Some([3; 4]))[..], [1, 2, 3, 3, 3, 3]);
    }
}
