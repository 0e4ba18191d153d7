//! The lengths of the payloads of an SA of IP-TFS mode.

use esp::Sa;
use iptfs::Header;
use policy::SaEntry;

/// The length in bytes of an SA's payloads, their header included, towards a path of `mtu` bytes; none where that leaves
/// no room for pieces of packets.
pub(crate) fn payload_len(sa: &SaEntry<Sa>, mtu: usize) -> Option<usize> {
    let wanted = sa.config.iptfs.as_ref().map_or(0, |iptfs| iptfs.packet_len as usize);
    let most = sa.esp.max_inner_len(mtu);
    let len = match wanted.checked_sub(sa.esp.headroom()) {
        Some(wanted) if wanted > 0 => most.min(wanted),
        _ => most,
    };
    (len >= header_len(sa) + LEAST_PIECE).then_some(len)
}

/// The longest packet that payloads of an SA take, in bytes.
pub(crate) fn longest(sa: &SaEntry<Sa>, payload_len: usize) -> usize {
    match sa.config.iptfs.as_ref().is_some_and(|iptfs| iptfs.dont_fragment) {
        true => payload_len - header_len(sa),
        false => u16::MAX.into(),
    }
}

/// The length in bytes of the header of an SA's payloads.
pub(crate) fn header_len(sa: &SaEntry<Sa>) -> usize {
    let rate = sa.config.iptfs.as_ref().and_then(|iptfs| iptfs.rate);
    match rate.is_some_and(|rate| rate.has_reports()) {
        true => Header::CONGESTION_LEN,
        false => Header::LEN,
    }
}

/// The shortest first piece of a packet, in bytes: all of an IP header, so that the joiner of the
/// pieces knows at once how long the packet is.
pub(crate) const LEAST_PIECE: usize = 40;
