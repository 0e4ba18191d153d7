//! SRv6: packets at a segment of this node, and those that get segments.

use forward::{IcmpCause, RouteResult};
use outcome::DropReason;
use policy::{Direction, Marks};
use srv6::{Behaviour, Headend};
use wire::Family;

use super::lookup::lookup;
use super::question::Context;
use super::ways::{fits_sa, outer_headers};
use super::{Decision, Question};
use crate::model::{Action, Draft, LOOPBACK, NextHop, Notes, Origin, Step, StepTo, ip_len};
use crate::view::View;

/// A packet whose destination is a segment of this node, if it is. That it may come was asked before.
pub(super) fn at_segment<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
) -> Option<Decision> {
    let (view, h) = (question.view, question.h);
    if view.topology.segments.is_empty() || h.family() != Family::V6 || !origin.is_transit() {
        return None;
    }
    let RouteResult::Unicast { ifindex: index, .. } = lookup(view, h, origin) else {
        return None;
    };
    let sid = view.topology.segments.sid(index)?;
    question.tell(|| Step::Sid { name: sid.name() });
    if !is_inside_domain(view, origin) {
        return Some(Decision::Drop(DropReason::Srv6Edge));
    }
    let mut longest = u16::MAX;
    if let Behaviour::EndB6Encaps(headend) = &sid.behaviour {
        note_outer(question, headend);
        // The sender is another headend, which can send less.
        let mtu = view.fits_headend(headend, Family::V6, fits_sa);
        if h.ttl > 1 && usize::from(h.total_len) > mtu {
            let cause = IcmpCause::TooBig { mtu: mtu as u32 };
            return Some(Decision::Error(cause, DropReason::OutTooBig, origin));
        }
        longest = ip_len(mtu);
    }
    Some(Decision::Go(Draft::of_flow(Action::Step(StepTo { index, longest }))))
}

/// The headend that the tables lead a packet to, which Linux need not see then.
pub(super) fn leads_to_segments(context: &Context<'_>, origin: Origin) -> bool {
    let view = context.view;
    !view.topology.segments.is_empty()
        && matches!(lookup(view, context.h, origin), RouteResult::Unicast { ifindex, .. }
            if view.topology.segments.headend(ifindex).is_some())
}

/// A packet that gets segments and its Ethernet header stays in front of it, where its route has it so.
pub(super) fn whole_frame<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    to: NextHop,
) -> Option<Decision> {
    let headend = question.view.topology.segments.headend(to.ifindex)?;
    if !headend.mode().is_layer2() {
        return None;
    }
    // Only what a port received has one.
    if !matches!(origin, Origin::Port { .. }) || usize::from(question.h.total_len) > to.mtu {
        return Some(Decision::Drop(DropReason::Srv6NoFrame));
    }
    let action = Action::Step(StepTo { index: to.ifindex, longest: ip_len(to.mtu) });
    Some(Decision::Go(Draft::of_flow(action)))
}

/// Notes that the plan hangs on what policy says about the packets that a headend makes: whether they fit.
pub(super) fn note_headend<N: Notes>(question: &mut Question<'_, N>, index: u32) {
    let view = question.view;
    let Some(headend) = view.topology.segments.headend(index) else { return };
    note_outer(question, headend);
}

/// The same of a headend.
fn note_outer<N: Notes>(question: &mut Question<'_, N>, headend: &Headend) {
    let view = question.view;
    question.tell(|| Step::Headend { mode: headend.mode().name(), first: headend.first() });
    let h = outer_headers(headend);
    let flow = view.flow(&h, LOOPBACK, Marks::of_mark(0), view.owner(false));
    let found = view.reader.outbound(&flow);
    let policy = found.policy();
    question.asked.note_stamp(view.reader.stamp(Direction::Out, &flow, policy));
}

/// True if a packet came from inside the domain of segments (RFC 8754 §5.1).
///
/// The interface of an ESP packet says nothing about what is in it: that comes from the peer. So the interface counts
/// only where it is a tunnel's.
fn is_inside_domain(view: &View, origin: Origin) -> bool {
    let segments = &view.topology.segments;
    match origin {
        Origin::Port { ifindex, .. } => segments.is_inside(ifindex),
        Origin::Decrypted { ifindex, .. } => {
            segments.trusts_sas() || view.binding(ifindex).is_some() && segments.is_inside(ifindex)
        }
        // It was inside when it came to the step before.
        Origin::Stepped { .. } => true,
        Origin::Linux { .. }
        | Origin::Tunnel { .. }
        | Origin::Worker { .. }
        | Origin::Probe { .. }
        | Origin::OnLink { .. } => true,
    }
}
