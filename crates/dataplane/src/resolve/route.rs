//! Where the tables lead a packet, and the next hop as bytes.

use core::net::IpAddr;

use forward::{IcmpCause, Resolution, RouteResult};
use outcome::DropReason;
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};
use wire::{Family, MacAddr};

use super::Question;
use super::segments::{fits_sa, onward};
use crate::model::{
    Adjacency, FIRST_SEGMENTS_SLOT, FIRST_VLAN_SLOT, LOOPBACK, NextHop, Notes, Origin, Step, Way,
    is_segments, keeping_dei,
};
use crate::tables::tunnel::Binding;
use crate::view::View;

/// A tunnel interface that a packet is routed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TunnelHop {
    /// What protects it.
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
            Route::Port(NextHop { ifindex, mtu, .. }) if is_segments(ifindex) => {
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

/// What every link carries (RFC 8200 §5).
const LEAST_MTU: u32 = 1280;

/// The next hop of a packet that is protected already.
pub(crate) fn next_hop_of(view: &View, dst: IpAddr, src: IpAddr) -> Result<NextHop, DropReason> {
    to_port(view, route(view, dst, src, LOOPBACK), (dst, src))
}

/// The port and the Ethernet header towards a next hop, for packets of a family; none unless
/// the neighbour is known and Linux has no doubts about it.
pub(crate) fn adjacency(view: &View, to: NextHop, family: Family) -> Option<Adjacency> {
    if is_segments(to.ifindex) {
        let slot = view.topology.segments.slot(to.ifindex)?;
        return Some(Adjacency { slot, header: [0; HEADER_LEN] });
    }
    let Resolution::Resolved { mac, confirm: false } = view.neighbours.resolve(to.ifindex, to.addr)
    else {
        return None;
    };
    let mut adjacency = adjacency_to(view, to.ifindex, mac, family)?;
    if to.keeps_dei {
        adjacency.slot = keeping_dei(adjacency.slot.into()) as u16;
    }
    Some(adjacency)
}

/// The port of an interface that is up, and the Ethernet header towards a station.
pub(crate) fn adjacency_to(
    view: &View,
    ifindex: u32,
    mac: MacAddr,
    family: Family,
) -> Option<Adjacency> {
    let interface = view.topology.interfaces.get(&ifindex).filter(|i| i.up)?;
    let ether_type = match family {
        Family::V4 => EtherType::IPV4,
        Family::V6 => EtherType::IPV6,
    };
    let mut header = [0; HEADER_LEN];
    emit_untagged(&mut header, mac, interface.mac, ether_type).ok()?;
    Some(Adjacency { slot: u16::try_from(interface.port?).ok()?, header })
}

impl<N: Notes> Question<'_, N> {
    /// Where the tables lead a packet of these addresses.
    pub(super) fn way(&mut self, dst: IpAddr, src: IpAddr, iif: u32) -> Route {
        let found = route(self.view, dst, src, iif);
        self.tell(|| Step::Route { dst, to: found.into() });
        self.note_way(found);
        found
    }

    /// A next hop of packets that stay in their buffer, or go on in pieces of it: what comes by a VLAN and goes by
    /// one stays drop eligible.
    pub(super) fn onto(&self, origin: Origin, to: NextHop) -> NextHop {
        let Origin::Port { ifindex, .. } = origin else { return to };
        let came_by = self.view.topology.interfaces.get(&ifindex).and_then(|i| i.port);
        let is_vlan = |slot| (FIRST_VLAN_SLOT..FIRST_SEGMENTS_SLOT).contains(&slot);
        NextHop { keeps_dei: came_by.is_some_and(is_vlan), ..to }
    }

    /// Where a packet leads that leaves, by where it came from.
    pub(super) fn way_onward(&mut self, origin: Origin) -> Route {
        let found = onward(self.view, self.h, origin);
        self.tell(|| Step::Route { dst: self.h.dst, to: found.into() });
        self.note_way(found);
        found
    }

    /// A plan hangs on what becomes of the packets of a headend.
    fn note_way(&mut self, found: Route) {
        if let Route::Port(to) = found
            && is_segments(to.ifindex)
        {
            self.note_headend(to.ifindex);
        }
    }

    /// [`adjacency`] of a next hop.
    pub(super) fn next_hop(&mut self, to: NextHop, family: Family) -> Option<Adjacency> {
        let known = adjacency(self.view, to, family);
        if is_segments(to.ifindex) {
            return known;
        }
        self.tell(|| Step::Neighbour {
            ifindex: to.ifindex,
            addr: to.addr,
            resolution: self.view.neighbours.resolve(to.ifindex, to.addr),
        });
        known
    }
}

/// The family of an address.
pub(super) const fn family_of(addr: IpAddr) -> Family {
    match addr {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}
