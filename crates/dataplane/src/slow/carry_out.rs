//! A decision about a packet is carried out in steps, each of which looks at one thing:
//!
//! | step | packets | action |
//! | --- | --- | --- |
//! | [`claim`] | all | the owner of a policy is asked for SAs of the worker's own; SAs without a home get one |
//! | [`hand_over`] | of an SA of another worker | go there, and nothing else is done with them here |
//! | [`report`] | all others | count with their policies; limits by volume and errors about paths are reported |
//! | [`pass`] | under a rate limit | take tokens, and may get another DSCP |
//! | [`remember_decision`] | of flows | leave a plan |
//! | [`stop`] | that got no tokens | wait, go where there are some, or are dropped |
//! | [`act`] | that did, or have no limit | go on as decided |
//!
//! A packet that does not pass leaves a plan all the same: those behind it would all be resolved else.

use outcome::Outcome;
use wire::Headers;

use super::Slow;
use super::claim::{ask_for_own, claim_all};
use super::drafts::{apply, apply_translated, seal_all};
use super::entered::{Entered, Resolved, handed};
use super::limited::{pass, stop};
use super::path_errors::hear_of_path;
use super::remember::{remember, remember_decision};
use super::segment_errors::hear_of_segments;
use crate::burst::{Misses, Path};
use crate::crypt::check_volume;
use crate::features::Executor;
use crate::features::fragments::gather;
use crate::features::limit::Grant;
use crate::features::translate::translate;
use crate::model::{Action, Translation};
use crate::out::AnyOut;
use crate::resolve::{Decided, Decision};

/// Carries out a decision about a packet.
pub(super) fn carry_out(
    slow: &mut Slow,
    path: &mut Path,
    decided: &mut Decided,
    mut resolved: Resolved<'_>,
) {
    claim(path, decided, resolved.h);
    if let Some(to) = decided.decision.handed_to() {
        return hand_over(path, to, decided, resolved);
    }
    report(path, decided, &resolved);
    let Decided { decision, asked, limit, is_for_flow, .. } = decided;
    let limit = limit.as_deref();
    let h = resolved.h;
    let passed = limit.map(|limit| {
        let Path { view, exec, .. } = &mut *path;
        let of = (&mut resolved.packet, resolved.grant.take());
        pass((&mut exec.rooms.rates, view), limit, of, h)
    });
    let (marked, refused) = match passed.transpose() {
        Ok(marked) => (marked, None),
        Err(cause) => (None, Some(cause)),
    };
    let resolved = Resolved { h: marked.as_ref().unwrap_or(h), ..resolved };
    remember_decision(path, decision, (asked, *is_for_flow), limit, &resolved);
    match refused {
        Some(cause) => stop(path, cause, limit, resolved),
        None => act(slow, path, decision, resolved, marked.is_some()),
    }
}

/// Does with a packet as was decided.
fn act(
    slow: &mut Slow,
    path: &mut Path,
    decision: &Decision,
    resolved: Resolved<'_>,
    is_marked: bool,
) {
    let Path { view, exec, .. } = &mut *path;
    match decision {
        Decision::Go(draft) => {
            let meta = resolved.meta(is_marked);
            apply(exec, view, slow.turn(), draft, (resolved.packet, resolved.h), &meta);
        }
        Decision::SealAll(seal) => {
            seal_all(exec, view, slow.turn(), *seal, resolved.packet, resolved.h);
        }
        Decision::Translate(Translation { draft, found, rewrite }) => {
            let h = resolved.h.into();
            let by = (found, *rewrite);
            if let Some(packet) = translate(&mut exec.out, by, resolved.packet, h) {
                apply_translated(exec, view, slow.turn(), draft, packet, h);
            }
        }
        Decision::Hold(key, origin) => {
            slow.waiting.hold((view, &mut exec.out), resolved.packet, resolved.h, (*origin, *key));
        }
        Decision::Gather(why) => {
            let h = resolved.h;
            let mut handed = handed(&view.reader, resolved.packet, resolved.entered);
            handed.forget_ports();
            let Executor { out, rooms, .. } = exec;
            let (fragments, ends) = (rooms.fragments.as_deref_mut(), (h.src, h.dst, h.protocol));
            gather(fragments, (view, out), handed, ends, *why);
        }
        Decision::Error(cause, reason, origin) => {
            let by = (&*view, &mut exec.out);
            slow.errors.make(by, &resolved.packet, resolved.h, (*origin, *cause));
            exec.out.drop(resolved.packet, *reason);
        }
        Decision::Drop(reason) => exec.out.drop(resolved.packet, *reason),
        Decision::Consume => exec.out.end(resolved.packet, Outcome::Consumed),
    }
}

/// Asks for SAs of the worker's own, and finds a home for those that have none. It may be another worker, which has
/// been faster.
fn claim(path: &mut Path, decided: &mut Decided, h: &Headers) {
    let Path { view, exec, .. } = path;
    ask_for_own((view, &mut exec.out), decided.wants_own, h);
    claim_all(view, &mut decided.decision);
}

/// Hands a packet to another worker, with the tokens that it may have got.
fn hand_over(path: &mut Path, to: usize, decided: &mut Decided, resolved: Resolved<'_>) {
    let Resolved { packet, entered, grant, .. } = resolved;
    if let Some(judging) = grant.and_then(Grant::into_judging) {
        let handed = handed(&path.view.reader, packet, entered);
        return path.exec.out.hand_judged(to, handed, judging);
    }
    let Entered::Arrived(meta, None) = entered else {
        return path.exec.out.hand(to, handed(&path.view.reader, packet, entered));
    };
    if decided.is_for_flow {
        // A worker's number is below 256.
        remember(path, Action::HandOver { to: to as u8 }, &mut decided.asked, meta);
    }
    path.exec.out.hand_over(&path.view, to, packet, meta);
}

/// Counts a packet with the policies that decided about it, and tells owners what they have to know.
fn report(path: &mut Path, decided: &Decided, resolved: &Resolved<'_>) {
    let Path { view, exec, .. } = path;
    let out = &mut exec.out;
    if resolved.grant.is_none() {
        decided.asked.count(view, resolved.h);
    }
    if let Some(sa) = decided.at_limit.and_then(|sa| view.reader.sa(sa)) {
        out.reports.volume(sa.config.id(), check_volume(sa));
    }
    if let Some(quote) = decided.too_big {
        hear_of_path(view, out, quote);
    }
    // What policy does not let in is not listened to.
    if let Some(came) = decided.segment_error
        && matches!(decided.decision, Decision::Go(_))
    {
        hear_of_segments(view, out, resolved.packet.data(), resolved.h, came);
    }
}
