//! Checksums of packets that are joined, as segmentation would compute them.

use crate::checksum::Sum;

use super::layout::{Layout, word};

/// True if a UDP packet's checksum is what segmentation would compute: zero is sent as its other form.
pub(super) fn udp_checksum_is_right(packet: &[u8], layout: &Layout) -> bool {
    let found = word(packet, layout.ip_len + 6);
    computed(packet, layout, 6)
        .is_some_and(|checksum| checksum == found || checksum == 0 && found == 0xffff)
}

/// The checksum of a packet whose field lies at a place of the transport header.
pub(super) fn computed(packet: &[u8], layout: &Layout, at: usize) -> Option<u16> {
    let transport = packet.get(layout.ip_len..)?;
    let pseudo = layout.pseudo_header(packet, transport.len()).folded();
    Some(sum_without(transport, at)?.word(pseudo).checksum())
}

/// The sum of all but the two bytes at a place.
pub(super) fn sum_without(bytes: &[u8], at: usize) -> Option<Sum> {
    let (before, rest) = bytes.split_at_checked(at)?;
    Some(Sum::default().bytes(before).bytes(rest.get(2..)?))
}
