//! SRv6: packets that have left a step.

use esp::Sa;
use outcome::DropReason;
use policy::{Direction, Flow, Marks, SaEntry};

use super::inside_overlay::inside_overlay;
use super::outbound::outbound;
use super::ways::{Route, onward};
use super::{Decision, Question};
use crate::model::{Action, Draft, Gather, LOOPBACK, LinuxWay, Notes, Origin, Step, was_inside};

/// A packet that has left a step: what was inside of another is judged as one that arrives, in clear or by the
/// SAs that the other was under.
pub(super) fn stepped<N: Notes>(
    question: &mut Question<'_, N>,
    index: u32,
    (mark, protected): (u32, bool),
    via: &[&SaEntry<Sa>],
) -> Decision {
    let (view, h) = (question.view, question.h);
    let overlays = &view.topology.overlays;
    if overlays.far_end(index).is_some() {
        // It was this host that has made the outer headers.
        return outbound(question, Origin::Stepped { index, mark, protected, ifindex: LOOPBACK });
    }
    if let Some(link) = overlays.link(index) {
        return inside_overlay(question, (index, link.ifindex), (mark, protected));
    }
    let Some(route) = view.topology.segments.get(index) else {
        return Decision::Drop(DropReason::NoRoute);
    };
    if view.topology.segments.headend(index).is_some() {
        // It was this host that has made the outer headers.
        return outbound(question, Origin::Stepped { index, mark, protected, ifindex: LOOPBACK });
    }
    let origin = Origin::Stepped { index, mark, protected, ifindex: route.ifindex };
    let way = onward(question, origin);
    let is_local = matches!(way, Route::Local);
    question.tell(|| Step::Ends { is_local });
    if was_inside(index) && !view.is_possible_source(h.src, is_local) {
        return Decision::Drop(DropReason::MartianSource);
    }
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    if let Some(opening) = question.opening().filter(|_| is_local) {
        return Decision::Go(Draft::of_flow(opening));
    }
    let direction = if is_local { Direction::In } else { Direction::Forward };
    if let Err(reason) = verify_stepped(question, direction, route.ifindex, mark, via) {
        return Decision::Drop(reason);
    }
    match is_local {
        true => Decision::Go(Draft::of_flow(Action::ToLinux(LinuxWay::Private))),
        false => outbound(question, origin),
    }
}

fn verify_stepped<N: Notes>(
    question: &mut Question<'_, N>,
    direction: Direction,
    ifindex: u32,
    mark: u32,
    via: &[&SaEntry<Sa>],
) -> Result<(), DropReason> {
    let (view, h) = (question.view, question.h);
    let marks = Marks::of_mark(mark);
    let flow = Flow::marked(h, view.leads_to(h, ifindex), marks);
    let in_clear = view.reader.verify(direction, &flow, &[]);
    let verified = in_clear.or_else(|reason| match via {
        [] => Err(reason),
        via => view.reader.verify(direction, &flow, via),
    });
    question.tell(|| {
        let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
        Step::inbound(direction, marks, found, verified.as_ref().err().copied())
    });
    let policy = verified?.map(|policy| &**policy);
    question.note(direction, &flow, policy);
    Ok(())
}
