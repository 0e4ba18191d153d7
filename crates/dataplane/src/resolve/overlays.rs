//! Overlays: routes to far ends, and packets of overlays to this host.

use forward::RouteResult;
use io::tun::back::UNMARKED;
use wire::Fragment;

use super::lookup::lookup;
use super::question::Context;
use super::{Decision, Question};
use crate::model::{Action, Decapsulate, Draft, Notes, Origin, Other, Step};

/// Notes that the plan hangs on what policy says about the packets to a far end, and to those behind it.
pub(super) fn note_far_end<N: Notes>(question: &mut Question<'_, N>, index: u32) {
    let view = question.view;
    let Some(end) = view.topology.overlays.far_end(index) else { return };
    let outer = end.encap.outer();
    question.tell(|| Step::Overlay { ifindex: end.ifindex, src: outer.src, dst: outer.dst });
    let (family, asked) = (question.h.family(), &mut question.asked);
    let _ = view.fits_far_end(end, family, |stamp| asked.note_stamp(stamp));
}

/// True if the tables lead a packet to an overlay, whose packets Linux need not see then.
pub(super) fn leads_to_overlay(context: &Context<'_>, origin: Origin) -> bool {
    let (overlays, h) = (&context.view.topology.overlays, context.h);
    !overlays.is_empty()
        && matches!(lookup(context.view, h, origin), RouteResult::Unicast { ifindex, gateway, .. }
            if overlays.towards(ifindex, gateway.unwrap_or(h.dst)).is_some())
}

/// A packet that Linux puts an overlay's headers on, as no far end is known for it. Linux's outer packet has the mark
/// of what is inside, and must not be led past the private interface by it.
pub(super) fn for_linuxs_overlay(context: &Context<'_>, origin: Origin, draft: Draft) -> Draft {
    let overlays = &context.view.topology.overlays;
    let Action::BackToLinux { tag } = draft.action else { return draft };
    if overlays.is_empty() {
        return draft;
    }
    match lookup(context.view, context.h, origin) {
        RouteResult::Unicast { ifindex, .. } if overlays.has_interface(ifindex) => {
            Draft { action: Action::BackToLinux { tag: tag | UNMARKED }, ..draft }
        }
        _ => draft,
    }
}

/// A packet for this host as an overlay's, if it may be one. `linux` is the decision for any other.
pub(super) fn of_overlays(context: &Context<'_>, linux: Decision) -> Decision {
    let (overlays, h) = (&context.view.topology.overlays, context.h);
    if overlays.is_empty() || h.fragment != Fragment::Whole || !overlays.may_be(h) {
        return linux;
    }
    match linux {
        Decision::Go(Draft { action, is_for_flow: true, .. }) => match Other::of(&action) {
            Some(way) => Decision::Go(Draft::of_flow(Action::Decapsulate(Decapsulate(way)))),
            None => linux,
        },
        other => other,
    }
}
