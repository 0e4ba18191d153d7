//! The application of a packet's flow: known with the packet, or to be found out by a look at those that follow.

use apps::FlowId;
use arrayvec::ArrayVec;
use conntrack::{Direction, Rewrite};
use policy::PolicyCounters;
use wire::{Headers, parse_quoted_ip, protocol};

use crate::burst::Path;
use crate::features::look::Open;
use crate::model::{Action, Draft, Translation};
use crate::resolve::{Decision, PolicyAnswers};
use crate::slow::entered::Resolved;
use crate::tables::applications::Known;
use crate::view::View;

/// Knowledge of the application of a flow.
pub(super) enum Looked {
    /// Nothing is asked: applications are not told apart, or the packet is no flow's.
    Not,
    /// The application's counters.
    Known(PolicyCounters),
    /// Its packets are looked at.
    Open(Open),
}

/// Longest headers that tell a flow, in bytes: an IPv6 packet with extension headers, or IPv4 options, and ports.
const HEAD_LEN: usize = 256;

/// Asks for the application of a packet that goes on by a decision. One that is known counts it.
pub(super) fn looked(view: &View, decision: &Decision, resolved: &Resolved<'_>) -> Looked {
    if view.topology.applications.is_none() || !goes_on(decision) {
        return Looked::Not;
    }
    let translation = match decision {
        Decision::Translate(Translation { found, rewrite, .. })
            if found.direction == Direction::Reply =>
        {
            *rewrite
        }
        _ => None,
    };
    find(view, resolved, translation).unwrap_or(Looked::Not)
}

#[cold]
fn find(view: &View, resolved: &Resolved<'_>, translation: Option<Rewrite>) -> Option<Looked> {
    let applications = view.topology.applications.as_ref()?;
    let h = resolved.h;
    let flow = match translation {
        Some(rewrite) => flow_behind(rewrite, resolved.packet.data(), h)?,
        None => FlowId::of(h).0,
    };
    Some(match applications.known(&flow, h.traffic_class >> 2, view.now.ns) {
        Known::Decided(app) => {
            applications.count(app, view.worker, h.total_len.into(), view.now.wall_s);
            Looked::Known(applications.counters(app)?.clone())
        }
        Known::Open if !matches!(h.protocol, protocol::TCP | protocol::UDP) => Looked::Not,
        Known::Open => Looked::Open(Open::new(flow, translation)),
    })
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
        Known::Decided(app) if asked.has_room() => Ok(applications.counters(app).cloned()),
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
        Decision::Go(Draft { action, .. }) => matches!(
            action,
            Action::ToLinux(_)
                | Action::BackToLinux { .. }
                | Action::Forward(_)
                | Action::Wrap(_)
                | Action::Seal(_)
                | Action::Offload(_)
                | Action::Aggregate(_)
        ),
        // The packet waits for an SA, and comes here no more.
        Decision::SealAll(_) | Decision::Translate(_) | Decision::Hold(..) => true,
        _ => false,
    }
}

/// Looks at a packet that leaves no plan: it waits for a neighbour or an SA.
pub(super) fn look_once(path: &mut Path, looked: Looked, resolved: &Resolved<'_>) {
    if let Looked::Open(open) = looked {
        let packet = (&resolved.packet, resolved.h.into(), path.view.now.ns);
        path.exec.rooms.looks.look_once(open, packet);
    }
}

/// The action of a flow at a place of the flow cache, with a look at it if its application is not known.
pub(super) fn with_look(
    path: &mut Path,
    place: usize,
    action: Action,
    asked: &mut PolicyAnswers,
    looked: (Looked, &Resolved<'_>),
) -> Option<Action> {
    let places = (place, path.flows.places());
    let looks = &mut path.exec.rooms.looks;
    let slot = match looked {
        (Looked::Not, _) => return Some(action),
        (Looked::Known(counters), _) => match asked.count_also(counters) {
            Ok(()) => return Some(action),
            Err(counters) => looks.count(places, action, counters),
        },
        (Looked::Open(open), resolved) => {
            let packet = (&resolved.packet, resolved.h.into(), path.view.now.ns);
            let slot = looks.open(places, action, open, packet);
            if slot.is_none() {
                // Nobody looks: there is no classifier.
                return Some(action);
            }
            slot
        }
    };
    slot.map(Action::Look)
}
