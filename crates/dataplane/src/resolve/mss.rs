//! Segment size of TCP connections through SAs (`path_mtu.clamp_mss`).
//!
//! Each end announces in its SYN how long the segments are that it takes; the other end sends none that are
//! longer. On the way into a tunnel, and out of it, a SYN that announces more than the tunnel carries is
//! lowered to that. So connections work also where ICMP errors do not come through. A SYN never goes by a
//! plan while this is on; the packets behind it do.

use policy::{Marks, Outbound};
use wire::{Family, Fragment, Headers, ipv4, ipv6, protocol, tcp};

use super::question::Context;
use super::ways::{Route, route};
use crate::model::LOOPBACK;

/// True if the packet's flow is one whose SYNs have their MSS clamped.
pub(super) fn clamps_mss(context: &Context<'_>) -> bool {
    context.view.topology.clamps_mss && context.h.protocol == protocol::TCP
}

/// The maximum segment size for a packet that opens a connection, by what `longest` says, in bytes, of
/// the packets that fit.
pub(super) fn mss_of_syn(
    context: &Context<'_>,
    longest: impl FnOnce() -> Option<usize>,
) -> Option<u16> {
    let h = context.h;
    let segment = context.packet.get(h.header_len.into()..)?;
    if !clamps_mss(context) || h.fragment != Fragment::Whole || !tcp::is_syn(segment) {
        return None;
    }
    let headers = tcp::MIN_HEADER_LEN
        + match h.family() {
            Family::V4 => ipv4::MIN_HEADER_LEN,
            Family::V6 => ipv6::HEADER_LEN,
        };
    u16::try_from(longest()?.checked_sub(headers)?).ok()
}

/// The longest packet that fits the SA by which answers go back; `iif` is the interface that they come
/// in by.
pub(super) fn longest_back(context: &Context<'_>, iif: u32) -> Option<usize> {
    let (view, h) = (context.view, context.h);
    let (src_port, dst_port) = (h.dst_port, h.src_port);
    let back = Headers { src: h.dst, dst: h.src, src_port, dst_port, ..*h };
    let flow = view.flow(&back, iif, Marks::default(), context.owner);
    let Outbound::Protect(_, sa) = view.reader.outbound(&flow) else { return None };
    let sa = view.reader.sa(sa)?;
    let (src, dst) = (sa.config.params.src, sa.config.params.dst);
    let Route::Port(to) = route(view, dst, src, LOOPBACK) else { return None };
    Some(sa.esp.max_inner_len(view.path_mtus.of(dst, to.mtu)))
}
