//! Plans: what was decided about a packet is kept for the packets of its flow that follow.

use super::entered::{Entered, Resolved};
use super::looked::{Looked, look, look_once, with_look};
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
    (asked, is_for_flow): (&mut PolicyAnswers, bool),
    limit: Option<&RateLimit>,
    resolved: &Resolved<'_>,
) {
    let Entered::Arrived(meta, None) = resolved.entered else { return };
    if !meta.has_flow {
        return remember_own_esp(path, decision, meta);
    }
    let mut looked = None;
    if path.view.topology.applications.is_some() {
        looked = look(&path.view, (decision, asked), resolved);
    }
    let with = (limit, looked.as_mut());
    match decision {
        Decision::Go(draft) if draft.is_for_flow => {
            remember_with(path, draft.action, with, asked, meta);
        }
        Decision::SealAll(seal) if is_for_flow => {
            if let Some(slot) = path.exec.rooms.bundles.keep(seal, &path.view.reader) {
                remember_with(path, Action::SealAll(slot), with, asked, meta);
            }
        }
        Decision::Translate(translation) if translation.draft.is_for_flow => {
            remember_translation(path, translation, with, asked, meta);
        }
        _ => look_once(path, looked),
    }
}

/// Limit of a flow's packets, and what is known of its application, by the packet at hand.
type With<'a, 'r> = (Option<&'a RateLimit>, Option<&'a mut Looked<'r>>);

/// Keeps that ESP to an address of this host is opened, for all flows to it.
fn remember_own_esp(path: &mut Path, decision: &Decision, meta: &Meta) {
    if let Decision::Go(draft) = decision
        && draft.is_for_flow
    {
        learn_own(path, draft.action, meta);
    }
}

/// For all flows to that address, whatever rule applies: no plan is needed. True if it is so.
fn learn_own<O: Thread>(path: &mut Path<O>, action: Action, meta: &Meta) -> bool {
    let flow = &meta.summary.flow;
    let is_own =
        matches!(action, Action::OpenBare) && path.view.topology.fib.is_local_to_all(flow.dst());
    if is_own {
        path.addresses.learn_own(flow);
    }
    is_own
}

/// Keeps an action for the packets of the flow that follow, of which nothing else is known.
pub(crate) fn remember<O: Thread>(
    path: &mut Path<O>,
    action: Action,
    asked: &mut PolicyAnswers,
    meta: &Meta,
) {
    if learn_own(path, action, meta) || !meta.has_flow {
        return;
    }
    let key = meta.key();
    let hash = path.flows.hasher().hash(&key);
    if let Some((plan, stamps)) = asked.take_plan(action) {
        if let Some(made) = path.view.topology.segments.made(meta) {
            path.exec.rooms.headends.keep(made, &plan, &stamps);
        }
        if let Some(made) = path.view.topology.overlays.made(meta) {
            path.exec.rooms.far_ends.keep(made, &plan, &stamps);
        }
        path.flows.insert(hash, key, plan, stamps);
    }
}

/// Keeps an action for the packets of the flow that follow, under its limit and looked at.
fn remember_with(
    path: &mut Path,
    action: Action,
    (limit, looked): With<'_, '_>,
    asked: &mut PolicyAnswers,
    meta: &Meta,
) {
    if limit.is_none() && looked.is_none() {
        return remember(path, action, asked, meta);
    }
    if learn_own(path, action, meta) {
        return;
    }
    let key = meta.key();
    let hash = path.flows.hasher().hash(&key);
    let Some(place) = path.flows.room(hash) else { return };
    if let Some(action) = with_look(path, place, action, asked, looked)
        && let Some(action) = under(path, place, action, limit)
        && let Some((plan, stamps)) = asked.take_plan(action)
    {
        path.flows.put(place, hash, key, plan, stamps);
    }
}

/// Keeps how the packets of a flow that follow are translated.
fn remember_translation(
    path: &mut Path,
    translation: &Translation,
    (limit, looked): With<'_, '_>,
    asked: &mut PolicyAnswers,
    meta: &Meta,
) {
    let key = meta.key();
    let hash = path.flows.hasher().hash(&key);
    let Some(place) = path.flows.room(hash) else { return };
    let translations = &mut path.exec.rooms.translations;
    let slot = translations.keep(place, path.flows.places(), translation);
    if let Some(slot) = slot
        && let action = Action::Translate(slot)
        && let Some(action) = with_look(path, place, action, asked, looked)
        && let Some(action) = under(path, place, action, limit)
        && let Some((plan, stamps)) = asked.take_plan(action)
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
