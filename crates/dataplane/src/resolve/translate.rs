//! NAT, as Linux has decided about it for a packet's connection.
//!
//! ```text
//!   arrives ─ inbound policy ─┬─ no connection that may be carried ──> Linux, as it came
//!                             └─ one ─ translate ─ outbound policy ─┬─ forwarded or sealed ─> Translate
//!                                                                   └─ anything else ──> Linux, as it came
//! ```
//!
//! The order is Linux's: what arrives is judged as it arrives (`nf_nat_decode_session`), and what leaves by the
//! addresses that it leaves with (`nf_xfrm_me_harder`). Linux gets everything that is rare: fragments, ICMP errors,
//! a TTL that ends, packets that are too long, what waits for an SA.

use std::sync::Arc;

use forward::IcmpCause;
use io::tun::back::UNMARKED;
use outcome::DropReason;
use policy::Direction;

use super::leave::{leave_to_linux, leaves_in_clear};
use super::lookup::by_mark;
use super::nat::{Connection, Nat};
use super::outbound::outbound;
use super::question::Context;
use super::route::note_path;
use super::segments::at_segment;
use super::steer::{ForLinux, flow_of, may_leave_in_clear, uplink_for_linux};
use super::ways::of_result;
use super::{Decision, Question, Route};
use crate::model::{Action, Draft, NatSays, Notes, Origin, PathBy, Step, Translation};

/// A packet that came in clear, and that Linux has to see for its connection. One that policy protects by the
/// addresses that it has comes by the private interface then, as if it were Linux's own: past that it would meet
/// the guard, and its connection would never begin.
pub(super) fn leave_for_nat(context: &Context<'_>, arrived: (u32, u32), is_barred: bool) -> Draft {
    let draft = leave_to_linux(context, arrived.0, is_barred);
    match draft.action {
        Action::BackToLinux { tag } if !leaves_in_clear(context, arrived) => {
            Draft { action: Action::BackToLinux { tag: tag | UNMARKED }, ..draft }
        }
        _ => draft,
    }
}

/// True if Linux is to translate a packet for the uplink that rules lead it to, and has no rules of NAT so far.
fn begins_translation(context: &Context<'_>, origin: Origin) -> bool {
    uplink_for_linux(context, origin).is_some_and(|uplink| uplink.clear.is_translated)
}

/// A packet that Linux has to see and send by an uplink: it gets the uplink's mark. `None` if it is to leave by none, or
/// Linux cannot be told of the mark at its port.
fn by_uplink<N: Notes>(question: &mut Question<'_, N>, origin: Origin) -> Option<Decision> {
    let Origin::Port { ifindex: came_by, .. } = origin else { return None };
    let ForLinux { rule, path, ifindex, clear } = uplink_for_linux(question, origin)?;
    let by = rule.map_or(PathBy::Translation, |rule| PathBy::Rule(Arc::clone(rule)));
    note_path(question, by, Some(path));
    if !may_leave_in_clear(question, origin) {
        let cause = IcmpCause::Prohibited;
        return Some(Decision::Error(cause, DropReason::SteerCleartext, origin));
    }
    // Linux would send it by another interface.
    let to = (ifindex, clear.mark);
    let way = by_mark(question.view, question.h, to, origin.iif());
    match of_result(question.view, way, question.h.dst) {
        Route::Nowhere(reason, Some(cause)) => return Some(Decision::Error(cause, reason, origin)),
        Route::Nowhere(reason, None) => return Some(Decision::Drop(reason)),
        _ => {}
    }
    let tag = *question.view.topology.uplink_tags.get(&(came_by, clear.mark))?;
    Some(Decision::Go(Draft::of_flow(Action::BackToLinux { tag })))
}

/// Notes the policy by which a translated packet may leave in clear: that about the addresses that it has arrived with.
fn note_consent<N: Notes>(question: &mut Question<'_, N>, origin: Origin) {
    let view = question.view;
    let arrived = *question.h;
    let flow = flow_of(question, &arrived, origin);
    let policy = view.reader.policy(Direction::Out, &flow).map(|policy| &**policy);
    question.asked.note_stamp(view.reader.stamp(Direction::Out, &flow, policy));
}

/// A packet that goes on; `linux` is how Linux gets it where it has to.
pub(super) fn go_on<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    linux: impl FnOnce(&Context<'_>) -> Decision,
) -> Decision {
    if let Some(decision) = at_segment(question, origin) {
        return decision;
    }
    let connection = match question.nat {
        Nat::Off if !begins_translation(question, origin) => return outbound(question, origin),
        Nat::Off | Nat::Unknown { .. } | Nat::Linuxs { .. } => {
            question.tell(|| Step::Nat(NatSays::Linux));
            question.is_for_flow = false;
            return by_uplink(question, origin).unwrap_or_else(|| linux(question));
        }
        Nat::Of(connection) => &**connection,
    };
    let Connection { found, rewrite, onward } = connection;
    if rewrite.is_some() && question.view.steering.uplink_of(onward.src).is_some() {
        note_consent(question, origin);
    }
    question.tell(|| {
        Step::Nat(match rewrite {
            Some(to) => NatSays::Translated(*to),
            None => NatSays::Same,
        })
    });
    // The flow of a query is told by its type, not by its identifier.
    question.is_for_flow &= !found.binding.tuple(found.direction).is_icmp();
    let arrived = core::mem::replace(&mut question.context.h, onward);
    let decision = outbound(question, origin);
    question.context.h = arrived;
    match decision {
        Decision::Drop(_)
        | Decision::Error(_, DropReason::SteerCleartext | DropReason::NoPath, _) => decision,
        // Its home asks anew.
        Decision::Go(Draft { action: Action::HandOver { .. }, .. }) => decision,
        Decision::Go(draft)
            if draft.action.leaves()
                && !matches!(draft.action, Action::Offload(_))
                && draft.cut.is_none() =>
        {
            let draft = Draft { is_for_flow: draft.is_for_flow && question.is_for_flow, ..draft };
            Decision::Translate(Translation { draft, found: found.clone(), rewrite: *rewrite })
        }
        _ => {
            question.is_for_flow = false;
            by_uplink(question, origin).unwrap_or_else(|| linux(question))
        }
    }
}
