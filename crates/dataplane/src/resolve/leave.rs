//! Packets whose policy is left to Linux: it has the same policy, and carries it out.
//!
//! They never leave in clear here, as what Linux has to protect would. Linux must find the same policy again
//! when it has the packet, so it has to be told what the policy was found by.

use outcome::DropReason;
use policy::{Direction, Flow, Marks, Outbound, PolicyEntry};

use super::Decision;
use super::question::Context;
use crate::model::{Action, Draft, LinuxWay, Origin};

/// A packet whose outbound policy is left to Linux. One of a port goes back as it came, and to be
/// forwarded; `way` is that of any other.
pub(super) fn leave(context: &Context<'_>, origin: Origin, way: Option<LinuxWay>) -> Decision {
    match (origin, way) {
        (Origin::Port { ifindex, is_barred, .. }, _) => {
            Decision::Go(leave_to_linux(context, ifindex, is_barred))
        }
        (_, Some(way)) => Decision::Go(Draft::of_flow(Action::ToLinux(way))),
        (_, None) => Decision::Drop(DropReason::OutUnsupported),
    }
}

/// The way on which Linux finds the policy that was found for a packet: with the packet's mark, if it
/// can be told of it, or without, if that makes no difference. To an XFRM interface of Linux's own its
/// routes lead; there is no way to another one.
pub(super) fn way_left(
    context: &Context<'_>,
    policy: &PolicyEntry,
    flow: &Flow<'_>,
) -> Option<LinuxWay> {
    if flow.if_id != 0 && !context.view.topology.tunnels.is_linux_own(flow.if_id) {
        return None;
    }
    if flow.mark == 0 {
        return Some(LinuxWay::Private);
    }
    let marks = Marks::of_mark(flow.mark);
    if let Some(tag) = context.view.topology.marks.get(&marks) {
        return Some(LinuxWay::Marked(*tag));
    }
    let unmarked = context.view.reader.policy(Direction::Out, &Flow { mark: 0, ..*flow });
    let is_same = unmarked.is_some_and(|found| found.config.index == policy.config.index);
    is_same.then_some(LinuxWay::Private)
}

/// A packet that came in clear and is Linux's: culvert only took it to ask the policy database.
/// One that the guard's barrier would stop comes in by the private interface, which has none.
pub(super) fn leave_to_linux(context: &Context<'_>, ifindex: u32, is_barred: bool) -> Draft {
    Draft::of_flow(match context.view.back(ifindex).filter(|_| !is_barred) {
        Some(tag) => Action::BackToLinux { tag },
        None => Action::ToLinux(LinuxWay::Private),
    })
}

/// True if a packet that arrived by this interface leaves in clear, by the addresses that it
/// has.
#[cold]
pub(super) fn leaves_in_clear(context: &Context<'_>, (ifindex, mark): (u32, u32)) -> bool {
    let flow =
        Flow::marked(context.h, context.view.leads_to(context.h, ifindex), Marks::of_mark(mark));
    let verdict = context.view.reader.outbound(&flow);
    matches!(verdict, Outbound::NoPolicy | Outbound::Bypass(_) | Outbound::Leave(_))
}
