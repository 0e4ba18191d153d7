//! Overlays: packets that were inside of an overlay's.

use outcome::DropReason;
use policy::{Direction, Flow, Marks};

use super::arrival::note_local;
use super::bfd::of_bfd;
use super::overlays::of_overlays;
use super::paths::measured_in_clear;
use super::translate::go_on;
use super::{Decision, Question};
use crate::model::{Action, Draft, Gather, LinuxWay, Notes, Origin, Step};

/// A packet that was inside of an overlay's: as one that arrives by the interface, in clear. As in Linux, which SAs
/// the outer one was under does not count.
pub(super) fn inside_overlay<N: Notes>(
    question: &mut Question<'_, N>,
    (index, ifindex): (u32, u32),
    (mark, protected): (u32, bool),
) -> Decision {
    let (view, h) = (question.view, question.h);
    let is_local = !question.nat.is_translated() && view.is_local(h, ifindex);
    question.tell(|| Step::Ends { is_local });
    if !view.is_possible_source(h.src, is_local) {
        return Decision::Drop(DropReason::MartianSource);
    }
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    if let Some(opening) = question.opening().filter(|_| is_local) {
        return Decision::Go(Draft::of_flow(opening));
    }
    let direction = if is_local { Direction::In } else { Direction::Forward };
    let marks = Marks::of_mark(mark);
    let flow = Flow::marked(h, view.leads_to(h, ifindex), marks);
    let verified = view.reader.verify(direction, &flow, &[]);
    question.tell(|| {
        let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
        Step::inbound(direction, marks, found, verified.as_ref().err().copied())
    });
    let policy = match verified {
        Ok(policy) => policy.map(|policy| &**policy),
        Err(reason) => return Decision::Drop(reason),
    };
    question.note(direction, &flow, policy);
    let check = view.topology.interfaces.get(&ifindex).map(|i| i.source_check);
    if !view.topology.fib.is_way_back(h, 0, ifindex, check.unwrap_or_default()) {
        return Decision::Drop(DropReason::ReversePath);
    }
    let linux = Decision::Go(Draft::of_flow(Action::ToLinux(LinuxWay::Private)));
    if is_local {
        note_local(question);
        let linux = measured_in_clear(question, of_overlays(question, linux));
        return of_bfd(question, linux);
    }
    let origin = Origin::Stepped { index, mark, protected, ifindex };
    go_on(question, origin, |_| linux)
}
