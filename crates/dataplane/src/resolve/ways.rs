//! Where the tables lead packets.

use core::net::IpAddr;
use esp::Mode;
use forward::{IcmpCause, RouteResult};
use outcome::DropReason;
use policy::{Marks, Outbound};
use srv6::Headend;
use wire::{Family, Fragment, Headers, ipv6, protocol};

use super::lookup::{by_mark, lookup};
use super::question::Context;
use super::steer::{may_leave_in_clear, steered};
use crate::model::{LOOPBACK, NextHop, Origin, Way, is_function, overlay_of};
use crate::tables::segments::{Onward, ends};
use crate::tables::steering::Steered;
use crate::tables::tunnel::Binding;
use crate::view::View;

/// A tunnel interface that a packet is routed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TunnelHop {
    /// Binding of the interface: the SAs and policies that protect its packets.
    pub(crate) binding: Binding,
    /// The longest IP packet that it takes, in bytes.
    pub(crate) mtu: usize,
}

/// Where the tables lead a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// Out of a port.
    Port(NextHop),
    /// To a tunnel interface.
    Tunnel(TunnelHop),
    /// Over an interface, or by a rule, that is Linux's alone.
    Linux,
    /// To this host.
    Local,
    /// Nowhere, and whether the sender is told.
    Nowhere(DropReason, Option<IcmpCause>),
}

impl From<Route> for Way {
    fn from(route: Route) -> Way {
        match route {
            Route::Port(NextHop { ifindex, mtu, .. }) if overlay_of(ifindex).is_some() => {
                Way::Overlay { mtu }
            }
            Route::Port(NextHop { ifindex, mtu, .. }) if is_function(ifindex) => {
                Way::Segments { mtu }
            }
            Route::Port(NextHop { ifindex, addr, mtu, .. }) => {
                Way::Port { ifindex, via: addr, mtu }
            }
            Route::Tunnel(hop) => Way::Tunnel { mtu: hop.mtu },
            Route::Linux => Way::Linux,
            Route::Local => Way::Local,
            Route::Nowhere(reason, _) => Way::Nowhere(reason),
        }
    }
}

/// Where the tables lead a packet that came in by interface `iif`.
pub(crate) fn route(view: &View, dst: IpAddr, src: IpAddr, iif: u32) -> Route {
    of_result(view, view.topology.fib.lookup(dst, src, 0, iif), dst)
}

/// The same by what a look-up gave for a destination.
pub(super) fn of_result(view: &View, route: RouteResult, dst: IpAddr) -> Route {
    match route {
        RouteResult::Unicast { ifindex, gateway, mtu, .. } => {
            let Some(interface) = view.topology.interfaces.get(&ifindex) else {
                let Some(headend) = view.topology.segments.headend(ifindex) else {
                    return Route::Linux;
                };
                let mtu = view.fits_headend(headend, family_of(dst), fits_sa);
                return Route::Port(NextHop::new(ifindex, gateway.unwrap_or(dst), mtu));
            };
            let mtu = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
            let hop = gateway.unwrap_or(dst);
            if let Some(index) = view.topology.overlays.towards(ifindex, hop)
                && let Some(end) = view.topology.overlays.far_end(index)
            {
                return match view.fits_far_end(end, family_of(dst), |_| ()) {
                    Ok(fits) => Route::Port(NextHop::new(index, hop, fits.min(mtu))),
                    Err(reason) => Route::Nowhere(reason, None),
                };
            }
            if let Some(binding) = interface.binding {
                return Route::Tunnel(TunnelHop { binding, mtu });
            }
            if interface.port.is_none() {
                return Route::Linux;
            }
            Route::Port(NextHop::new(ifindex, gateway.unwrap_or(dst), mtu))
        }
        RouteResult::Local => Route::Local,
        RouteResult::Linux => Route::Linux,
        RouteResult::Blackhole
        | RouteResult::Unreachable
        | RouteResult::Prohibit
        | RouteResult::None => {
            let reason = route.drop_reason().unwrap_or(DropReason::NoRoute);
            Route::Nowhere(reason, route.icmp_cause(family_of(dst)))
        }
    }
}

/// Where a rule leads a packet.
pub(super) fn route_of(context: &Context<'_>, origin: Origin, steered: Steered<'_>) -> Route {
    let Context { view, h, .. } = *context;
    let Some(exit) = steered.exit else {
        return Route::Nowhere(DropReason::NoPath, Some(IcmpCause::HostUnreachable));
    };
    let ifindex = exit.ifindex;
    let Some(clear) = &exit.clear else {
        let to = RouteResult::Unicast { ifindex, gateway: None, mtu: None, src: None };
        return of_result(view, to, h.dst);
    };
    if !may_leave_in_clear(context, origin) {
        return Route::Nowhere(DropReason::SteerCleartext, Some(IcmpCause::Prohibited));
    }
    match of_result(view, by_mark(view, h, (ifindex, clear.mark), origin.iif()), h.dst) {
        Route::Tunnel(_) | Route::Linux | Route::Local => {
            Route::Nowhere(DropReason::EgressNotPort, None)
        }
        way => way,
    }
}

/// The next hop of a route to a peer, which has to be a port's, or a socket's, with the MTU of the path.
pub(super) fn to_port(
    view: &View,
    route: Route,
    (dst, src): (IpAddr, IpAddr),
) -> Result<NextHop, DropReason> {
    let by_socket = || by_socket(view, dst, src).ok_or(DropReason::EgressNotPort);
    match route {
        Route::Port(to) => Ok(NextHop { mtu: view.path_mtus.of(dst, to.mtu), ..to }),
        Route::Linux => by_socket().map(|to| NextHop { mtu: view.path_mtus.of(dst, to.mtu), ..to }),
        // A peer behind a tunnel would be one tunnel in another, without end.
        Route::Local | Route::Tunnel(_) => Err(DropReason::EgressNotPort),
        Route::Nowhere(reason, _) => Err(reason),
    }
}

/// The socket by which packets leave where Linux alone knows the way; its MTU is that of the interface it leads to.
fn by_socket(view: &View, dst: IpAddr, src: IpAddr) -> Option<NextHop> {
    let ifindex = view.topology.socket_of(src)?;
    let mtu = match view.topology.fib.lookup(dst, src, 0, LOOPBACK) {
        RouteResult::Unicast { ifindex, mtu, .. } => {
            let own = view.topology.interfaces.get(&ifindex).map(|interface| interface.mtu);
            mtu.into_iter().chain(own).min()
        }
        _ => None,
    };
    Some(NextHop::new(ifindex, dst, mtu.unwrap_or(LEAST_MTU) as usize))
}

/// MTU that every link has (RFC 8200 §5).
const LEAST_MTU: u32 = 1280;

/// The next hop of a packet that is protected already.
pub(crate) fn next_hop_of(view: &View, dst: IpAddr, src: IpAddr) -> Result<NextHop, DropReason> {
    to_port(view, route(view, dst, src, LOOPBACK), (dst, src))
}

/// The family of an address.
pub(super) const fn family_of(addr: IpAddr) -> Family {
    match addr {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

/// Where a packet goes that leaves, by where it came from.
pub(super) fn onward(context: &Context<'_>, origin: Origin) -> Route {
    let Context { view, h, .. } = *context;
    let Origin::Stepped { index, .. } = origin else {
        let found = lookup(view, h, origin);
        return match steered(context, origin, &found) {
            Some(steered) => route_of(context, origin, steered),
            None => of_result(view, found, h.dst),
        };
    };
    match view.topology.lookup_stepped(index, h.dst, h.src) {
        None => route(view, h.dst, h.src, origin.iif()),
        Some(Onward::Route(result)) => of_result(view, result, h.dst),
        // On a link of its own: the route's.
        Some(Onward::Via { via: via @ IpAddr::V6(addr), ifindex })
            if addr.is_unicast_link_local() =>
        {
            let unicast =
                RouteResult::Unicast { ifindex, gateway: Some(via), mtu: None, src: None };
            of_result(view, unicast, via)
        }
        Some(Onward::Via { via, .. }) => {
            // By the next hop's own route: its source does not matter.
            let src = match via {
                IpAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1)),
                IpAddr::V6(_) => {
                    IpAddr::V6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))
                }
            };
            let src = if via.is_ipv4() == h.src.is_ipv4() { h.src } else { src };
            route(view, via, src, origin.iif())
        }
    }
}

/// The longest packet that a headend's packets' SA takes, where policy has one for them.
pub(super) fn fits_sa(view: &View, headend: &Headend) -> Option<usize> {
    let h = outer_headers(headend);
    let flow = view.flow(&h, LOOPBACK, Marks::of_mark(0), view.owner(false));
    let Outbound::Protect(_, sa) = view.reader.outbound(&flow) else { return None };
    let sa = view.reader.sa(sa)?;
    let params = &sa.config.params;
    let (dst, src) = match params.mode {
        Mode::Transport => (h.dst, h.src),
        _ => (params.dst, params.src),
    };
    let RouteResult::Unicast { ifindex, mtu, .. } = view.topology.fib.lookup(dst, src, 0, LOOPBACK)
    else {
        return None;
    };
    let interface = view.topology.interfaces.get(&ifindex)?;
    let link = mtu.unwrap_or(interface.mtu).min(interface.mtu) as usize;
    Some(sa.esp.max_inner_len(view.path_mtus.of(dst, link)))
}

/// The headers of the packets that a headend makes, as policy sees them.
pub(super) fn outer_headers(headend: &Headend) -> Headers {
    let (src, dst) = ends(headend);
    Headers {
        src: src.into(),
        dst: dst.into(),
        protocol: protocol::IPV6,
        ttl: 64,
        traffic_class: 0,
        dont_fragment: true,
        fragment: Fragment::Whole,
        header_len: ipv6::HEADER_LEN as u16,
        total_len: ipv6::MIN_MTU,
        src_port: 0,
        dst_port: 0,
    }
}

/// The tunnel interface that the tables lead a packet to which no policy protects.
pub(super) fn tunnel_ahead(context: &Context<'_>, origin: Origin) -> Option<TunnelHop> {
    if context.view.topology.tunnels.is_empty() || matches!(origin, Origin::Tunnel { .. }) {
        return None;
    }
    match onward(context, origin) {
        Route::Tunnel(to) => Some(to),
        _ => None,
    }
}
