//! Where the tables lead a packet, and the next hop as bytes.

use core::net::IpAddr;
use std::sync::Arc;

use wire::Family;

use super::Question;
use super::neighbours::adjacency;
use super::steer::steered;
use super::ways::{Route, lookup, onward, route, route_of};
use crate::model::{
    Adjacency, FIRST_SEGMENTS_SLOT, FIRST_VLAN_SLOT, NextHop, Notes, Origin, Step, is_segments,
};
use crate::tables::steering::Steered;

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
        self.tell_path(origin);
        self.tell(|| Step::Route { dst: self.h.dst, to: found.into() });
        self.note_way(found);
        found
    }

    /// Tells the path that a rule has chosen.
    pub(super) fn tell_path(&mut self, origin: Origin) {
        let (view, h) = (self.view, self.h);
        if let Some(Steered { rule, exit }) = steered(view, h, origin, &lookup(view, h, origin)) {
            let path = exit.map(|exit| Arc::clone(&exit.name));
            self.tell(|| Step::Path { rule: Arc::clone(rule), path });
        }
    }

    /// True if a rule leads a packet out of a port, in clear.
    pub(super) fn is_steered_to_port(&self, origin: Origin) -> bool {
        let (view, h) = (self.view, self.h);
        let steered = steered(view, h, origin, &lookup(view, h, origin));
        steered.is_some_and(|steered| !matches!(route_of(view, h, steered), Route::Tunnel(_)))
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
