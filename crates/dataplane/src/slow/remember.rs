//! Plans: what was decided about a packet is kept for the packets of its flow that follow.

use super::entered::Entered;
use crate::burst::Path;
use crate::features::Thread;
use crate::model::{Action, Meta, RateLimit, Translation};
use crate::resolve::{Decision, PolicyAnswers};

/// Keeps a decision for the packets of the flow that follow, if it is good for them.
///
/// Of fragments nothing is kept: those of one flow may be of packets with different ports.
pub(super) fn remember_decision(
    path: &mut Path,
    decision: &Decision,
    (asked, is_for_flow): (PolicyAnswers, bool),
    limit: Option<&RateLimit>,
    entered: Entered<'_>,
) {
    let Entered::Arrived(meta, None) = entered else { return };
    match decision {
        Decision::Go(draft) if draft.is_for_flow => {
            remember(path, draft.action, limit, asked, meta);
        }
        Decision::SealAll(seal) if is_for_flow => {
            if let Some(slot) = path.exec.rooms.bundles.keep(seal, &path.view.reader) {
                remember(path, Action::SealAll(slot), limit, asked, meta);
            }
        }
        Decision::Translate(translation) if translation.draft.is_for_flow => {
            remember_translation(path, translation, limit, asked, meta);
        }
        _ => {}
    }
}

/// Keeps an action for the packets of the flow that follow.
pub(crate) fn remember<O: Thread>(
    path: &mut Path<O>,
    action: Action,
    limit: Option<&RateLimit>,
    asked: PolicyAnswers,
    meta: &Meta,
) {
    let flow = &meta.summary.flow;
    // For all flows to that address, whatever rule applies: no plan is needed.
    if matches!(action, Action::OpenBare) && path.view.topology.fib.is_local_to_all(flow.dst()) {
        return path.addresses.learn_own(flow);
    }
    if !meta.has_flow {
        return;
    }
    let key = meta.key();
    let hash = path.flows.hasher().hash(&key);
    if let Some(limit) = limit {
        let Some(place) = path.flows.room(hash) else { return };
        if let Some(action) = under(path, place, action, Some(limit))
            && let Some((plan, stamps)) = asked.into_plan(action)
        {
            path.flows.put(place, hash, key, plan, stamps);
        }
    } else if let Some((plan, stamps)) = asked.into_plan(action) {
        if let Some(made) = path.view.topology.segments.made(meta) {
            path.exec.rooms.headends.keep(made, &plan, &stamps);
        }
        path.flows.insert(hash, key, plan, stamps);
    }
}

/// Keeps how the packets of a flow that follow are translated.
fn remember_translation(
    path: &mut Path,
    translation: &Translation,
    limit: Option<&RateLimit>,
    asked: PolicyAnswers,
    meta: &Meta,
) {
    if !meta.has_flow {
        return;
    }
    let key = meta.key();
    let hash = path.flows.hasher().hash(&key);
    let Some(place) = path.flows.room(hash) else { return };
    let translations = &mut path.exec.rooms.translations;
    let slot = translations.keep(place, path.flows.places(), translation);
    if let Some(slot) = slot
        && let Some(action) = under(path, place, Action::Translate(slot), limit)
        && let Some((plan, stamps)) = asked.into_plan(action)
    {
        path.flows.put(place, hash, key, plan, stamps);
    }
}

/// An action of the flow at a place of the flow cache, under its limit.
fn under<O: Thread>(
    path: &mut Path<O>,
    place: usize,
    action: Action,
    limit: Option<&RateLimit>,
) -> Option<Action> {
    let Some(limit) = limit else { return Some(action) };
    let places = path.flows.places();
    path.exec.rooms.rates.keep((place, places), action, limit).map(Action::Limit)
}
