//! Look-ups in the routes: of a packet by where it came from, and by the mark of an uplink.

use core::net::IpAddr;

use forward::RouteResult;
use wire::Headers;

use crate::model::Origin;
use crate::tables::segments::Onward;
use crate::view::View;

/// The route of a packet, by where it came from.
pub(super) fn lookup(view: &View, h: &Headers, origin: Origin) -> RouteResult {
    if let Origin::Stepped { index, .. } = origin
        && let Some(onward) = view.topology.lookup_stepped(index, h.dst, h.src)
    {
        return match onward {
            Onward::Route(result) => result,
            Onward::Via { .. } => RouteResult::None,
        };
    }
    if let Origin::Probe { ifindex, mark } = origin {
        // On the link itself, whatever other links have such addresses (RFC 4291 §2.5.6).
        if is_link_local(h.dst) {
            return RouteResult::Unicast { ifindex, gateway: None, mtu: None, src: None };
        }
        return by_mark(view, h, (ifindex, mark), origin.iif());
    }
    if let Origin::OnLink { ifindex } = origin {
        return RouteResult::Unicast { ifindex, gateway: None, mtu: None, src: None };
    }
    view.topology.fib.lookup(h.dst, h.src, 0, origin.iif())
}

/// Where packets with an uplink's mark go, by Linux's rules. Only out of the uplink they go anywhere.
pub(super) fn by_mark(
    view: &View,
    h: &Headers,
    (ifindex, mark): (u32, u32),
    iif: u32,
) -> RouteResult {
    match view.topology.fib.lookup(h.dst, h.src, mark, iif) {
        found @ RouteResult::Unicast { ifindex: leads_to, .. } if leads_to == ifindex => found,
        _ => RouteResult::None,
    }
}

const fn is_link_local(dst: IpAddr) -> bool {
    matches!(dst, IpAddr::V6(dst) if dst.is_unicast_link_local())
}
