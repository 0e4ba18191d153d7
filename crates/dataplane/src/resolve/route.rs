//! Where the tables lead a packet, and the next hop as bytes.

use core::net::IpAddr;
use std::sync::Arc;

use forward::RouteResult;
use wire::Family;

use super::Question;
use super::lookup::lookup;
use super::neighbours::adjacency;
use super::overlays::note_far_end;
use super::question::Context;
use super::segments::note_headend;
use super::steer::steered;
use super::ways::{Route, onward, route, route_of};
use crate::model::{
    Adjacency, FIRST_SEGMENTS_SLOT, FIRST_VLAN_SLOT, NextHop, Notes, Origin, PathBy, Step,
    is_function,
};
use crate::tables::steering::Steered;

/// Where the tables lead a packet of these addresses.
pub(super) fn way_to<N: Notes>(
    question: &mut Question<'_, N>,
    dst: IpAddr,
    src: IpAddr,
    iif: u32,
) -> Route {
    let found = route(question.view, dst, src, iif);
    question.tell(|| Step::Route { dst, to: found.into() });
    note_way(question, found);
    found
}

/// A next hop of packets that stay in their buffer, or go on in pieces of it: what comes by a VLAN and goes by
/// one stays drop eligible.
pub(super) fn onto(context: &Context<'_>, origin: Origin, to: NextHop) -> NextHop {
    let Origin::Port { ifindex, .. } = origin else { return to };
    let came_by = context.view.topology.interfaces.get(&ifindex).and_then(|i| i.port);
    let is_vlan = |slot| (FIRST_VLAN_SLOT..FIRST_SEGMENTS_SLOT).contains(&slot);
    NextHop { keeps_dei: came_by.is_some_and(is_vlan), ..to }
}

/// Where a packet leads that leaves, by where it came from.
pub(super) fn way_onward<N: Notes>(question: &mut Question<'_, N>, origin: Origin) -> Route {
    let h = question.h;
    let found = onward(question, origin);
    tell_path(question, origin);
    question.tell(|| Step::Route { dst: h.dst, to: found.into() });
    note_way(question, found);
    found
}

/// Notes and tells the path of a packet that the routes lead to one.
pub(super) fn tell_path<N: Notes>(question: &mut Question<'_, N>, origin: Origin) {
    let (view, h) = (question.view, question.h);
    if view.steering.is_empty() {
        return;
    }
    let found = match origin {
        // Linux has chosen.
        Origin::Tunnel { ifindex, .. } => {
            RouteResult::Unicast { ifindex, gateway: None, mtu: None, src: None }
        }
        _ => lookup(view, h, origin),
    };
    let (by, path) = match (steered(question, origin, &found), found) {
        (Some(Steered { rule: Some(rule), exit, .. }), _) => (PathBy::Rule(Arc::clone(rule)), exit),
        (Some(Steered { rule: None, exit, .. }), _) => (PathBy::Translation, exit),
        (None, RouteResult::Unicast { ifindex, .. }) if view.steering.is_path(ifindex) => {
            (PathBy::Routes, view.steering.first_on(ifindex))
        }
        (None, _) => return,
    };
    note_path(question, by, path.map(|exit| &exit.name));
}

/// Notes and tells the path that a packet takes, or that a rule stops it.
pub(super) fn note_path<N: Notes>(
    question: &mut Question<'_, N>,
    by: PathBy,
    path: Option<&Arc<str>>,
) {
    question.asked.note_path(path.cloned());
    question.tell(|| Step::Path { by, path: path.cloned() });
}

/// True if a rule leads a packet out of a port, in clear.
pub(super) fn is_steered_to_port(context: &Context<'_>, origin: Origin) -> bool {
    let Context { view, h, .. } = *context;
    if view.steering.is_empty() {
        return false;
    }
    let steered = steered(context, origin, &lookup(view, h, origin));
    steered.is_some_and(|steered| !matches!(route_of(context, origin, steered), Route::Tunnel(_)))
}

/// A plan hangs on what becomes of the packets of a headend, or to a far end of an overlay.
fn note_way<N: Notes>(question: &mut Question<'_, N>, found: Route) {
    if let Route::Port(to) = found
        && is_function(to.ifindex)
    {
        note_headend(question, to.ifindex);
        note_far_end(question, to.ifindex);
    }
}

/// [`adjacency`] of a next hop.
pub(super) fn next_hop<N: Notes>(
    question: &mut Question<'_, N>,
    to: NextHop,
    family: Family,
) -> Option<Adjacency> {
    let view = question.view;
    let known = adjacency(view, to, family);
    if is_function(to.ifindex) {
        return known;
    }
    question.tell(|| Step::Neighbour {
        ifindex: to.ifindex,
        addr: to.addr,
        resolution: view.neighbours.resolve(to.ifindex, to.addr),
    });
    known
}
