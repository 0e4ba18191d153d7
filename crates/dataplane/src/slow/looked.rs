//! The application of a packet's flow: known with the packet, or to be found out by a look at those that follow.

use apps::FlowId;
use arrayvec::ArrayVec;
use conntrack::{Direction, Rewrite};
use io::Packet;
use policy::PolicyCounters;
use wire::{Fields, Headers, parse_quoted_ip, protocol};

use crate::burst::Path;
use crate::features::look::Open;
use crate::model::{Action, Draft, Translation};
use crate::resolve::{Decision, PolicyAnswers};
use crate::slow::entered::{Entered, Resolved};
use crate::tables::applications::Known;
use crate::view::View;

/// A packet, and the application of its flow.
pub(super) struct Looked<'r> {
    packet: &'r Packet,
    h: Fields,
    /// Taken by the plan that is made.
    found: Option<Finding>,
}

/// Knowledge of the application of a flow.
enum Finding {
    /// The application's counters.
    Known(PolicyCounters),
    /// Its packets are looked at.
    Open(Open),
}

/// Longest headers that tell a flow, in bytes: an IPv6 packet with extension headers, or IPv4 options, and ports.
const HEAD_LEN: usize = 256;

/// Asks for the application of a packet that goes on by a decision; one that is known counts it. `None`: nothing is asked.
#[cold]
pub(super) fn look<'r>(
    view: &View,
    (decision, asked): (&Decision, &PolicyAnswers),
    resolved: &'r Resolved<'_>,
) -> Option<Looked<'r>> {
    let applications = view.topology.applications.as_ref()?;
    if !goes_on(decision) {
        return None;
    }
    let translation = match decision {
        Decision::Translate(Translation { found, rewrite, .. })
            if found.direction == Direction::Reply =>
        {
            *rewrite
        }
        _ => None,
    };
    let Entered::Arrived(..) = resolved.entered else { return None };
    let (packet, h) = (&resolved.packet, resolved.h);
    let flow = match translation {
        Some(rewrite) => flow_behind(rewrite, packet.data(), h)?,
        None => FlowId::of(h).0,
    };
    if translation.is_some() {
        // It is shown by the ends that it has on the wire, too.
        applications.also_known_as(&flow, &FlowId::of(h).0, view.now.ns);
    }
    let found = match applications.known(&flow, h.traffic_class >> 2, view.now.ns) {
        Known::Decided(app) => {
            let counters = applications.counters(app, asked.path())?;
            counters.count(view.worker, 1, h.total_len.into(), view.now.wall_s);
            Finding::Known(counters)
        }
        Known::Open if !matches!(h.protocol, protocol::TCP | protocol::UDP) => return None,
        Known::Open => Finding::Open(Open::new(flow, translation)),
    };
    Some(Looked { packet, h: h.into(), found: Some(found) })
}

/// Counters of the application of a packet that a helper resolves; none where applications are not told apart.
///
/// # Errors
/// The packet is the worker's: its flow is not known yet, or the plan has no room for the counters.
pub(crate) fn counters_for_helper(
    view: &View,
    h: &Headers,
    asked: &PolicyAnswers,
) -> Result<Option<PolicyCounters>, ForWorker> {
    let Some(applications) = &view.topology.applications else { return Ok(None) };
    match applications.known(&FlowId::of(h).0, h.traffic_class >> 2, view.now.ns) {
        Known::Decided(app) if asked.has_room() => Ok(applications.counters(app, asked.path())),
        _ => Err(ForWorker),
    }
}

/// A packet that helpers leave to their worker.
pub(crate) struct ForWorker;

/// The flow of a packet once it is translated.
fn flow_behind(rewrite: Rewrite, packet: &[u8], h: &Headers) -> Option<FlowId> {
    let mut head = ArrayVec::<u8, HEAD_LEN>::new();
    let len = packet.len().min(HEAD_LEN);
    head.try_extend_from_slice(packet.get(..len)?).ok()?;
    if !rewrite.apply(&mut head, h.into()) {
        return None;
    }
    parse_quoted_ip(&head).ok().map(|h| FlowId::of(&h).0)
}

/// True if packets leave by a decision, as they are or protected: they are of no other packet's inside.
fn goes_on(decision: &Decision) -> bool {
    match decision {
        Decision::Go(Draft { action, .. }) => {
            action.leaves() || matches!(action, Action::ToLinux(_) | Action::BackToLinux { .. })
        }
        // The packet waits for an SA, and comes here no more.
        Decision::SealAll(_) | Decision::Translate(_) | Decision::Hold(..) => true,
        _ => false,
    }
}

/// Looks at a packet that leaves no plan: it waits for a neighbour or an SA.
pub(super) fn look_once(path: &mut Path, looked: Option<Looked<'_>>) {
    if let Some(Looked { packet, h, found: Some(Finding::Open(open)) }) = looked {
        path.exec.rooms.looks.look_once(open, (packet, h, path.view.now.ns));
    }
}

/// The action of a flow at a place of the flow cache, with a look at it if its application is not known.
pub(super) fn with_look(
    path: &mut Path,
    place: usize,
    action: Action,
    asked: &mut PolicyAnswers,
    looked: Option<&mut Looked<'_>>,
) -> Option<Action> {
    let Some(Looked { packet, h, found }) = looked else { return Some(action) };
    let places = (place, path.flows.places());
    let looks = &mut path.exec.rooms.looks;
    let slot = match found.take() {
        None => return Some(action),
        Some(Finding::Known(counters)) => match asked.count_also(counters) {
            Ok(()) => return Some(action),
            Err(counters) => looks.count(places, action, counters),
        },
        Some(Finding::Open(open)) => {
            let slot = looks.open(places, action, open, (*packet, *h, path.view.now.ns));
            if slot.is_none() {
                // Nobody looks: there is no classifier.
                return Some(action);
            }
            slot
        }
    };
    slot.map(Action::Look)
}
