//! ICMPv6 errors from inside of the path of segments: whose they are, and what is done about them.
//!
//! | error | what is done |
//! | --- | --- |
//! | packet too big | the path's MTU is reported; the sender of the next packet that does not fit is told |
//! | any other | counted |
//!
//! None is passed on to who sent the packet inside (RFC 2473 §8): what is quoted does not say by which interface
//! that came, so not whose its source address is where VRFs have the same ones. Linux gets all of them as they came.

use arrayvec::ArrayVec;
use forward::MtuPath;
use forward::path_mtu::Stops;
use srv6::Quoted;
use wire::icmpv6::{Icmpv6Header, kind};
use wire::{Headers, L4Checksum, ipv6};

use crate::out::Out;
use crate::resolve::ErrorCame;
use crate::resolve::segment_errors::is_as_sent;
use crate::view::View;

/// Paths that one error may be about: a reduced list does not say the first segment, once that is behind.
const PATHS: usize = 4;

/// Takes note of an error, if a headend of this host may have made the packet that it quotes.
#[cold]
pub(super) fn hear_of_segments(
    view: &View,
    out: &mut Out,
    packet: &[u8],
    h: &Headers,
    came: ErrorCame,
) {
    let message = packet.get(h.header_len.into()..h.total_len.into()).unwrap_or_default();
    let Ok(icmp) = Icmpv6Header::parse(message) else { return };
    let Some(quoted) = Quoted::parse(icmp.body()) else { return };
    // The packet was this host's: the error comes to where it came from.
    if quoted.src() != h.dst
        || !out.reports.may_hear_of_segments(view.now.ns)
        || wire::verify_l4_checksum(packet, h) != L4Checksum::Valid
    {
        return;
    }
    let headends = view.topology.segments.headends();
    let mut makers = headends
        .filter(|headend| headend.has_made(&quoted) && is_as_sent(came, view, headend))
        .peekable();
    if makers.peek().is_none() {
        return;
    }
    let work = &out.counters.work;
    if u16::from(kind::PACKET_TOO_BIG) != h.src_port {
        return work.srv6_path_errors.add(1);
    }
    // No link of IPv6 is narrower: such an error is discarded (RFC 8201 §4).
    let mtu = icmp.mtu();
    if mtu < ipv6::MIN_MTU.into() || mtu as usize >= quoted.total_len() {
        return;
    }
    work.srv6_path_mtu_reports.add(1);
    let mut paths: ArrayVec<MtuPath, PATHS> = ArrayVec::new();
    if quoted.has_list() {
        for path in makers.filter_map(|headend| Stops::new(headend.segments())) {
            let path = MtuPath::Through(path);
            if !paths.contains(&path) && paths.try_push(path).is_err() {
                break;
            }
        }
    } else {
        paths.push(MtuPath::Bare(quoted.dst()));
    }
    for path in paths {
        out.reports.segments_too_big(path, mtu, view.now.ns);
    }
}
