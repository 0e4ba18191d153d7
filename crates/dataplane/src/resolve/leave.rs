//! Packets whose policy is left to Linux: it has the same policy, and carries it out.
//!
//! They never leave in clear here, as what Linux has to protect would. Linux must find the same policy again
//! when it has the packet, so it has to be told what the policy was found by.

use outcome::DropReason;
use policy::{Direction, Flow, Marks, PolicyEntry};

use super::{Decision, Question};
use crate::model::{Action, Draft, LinuxWay, Notes, Origin};

impl<N: Notes> Question<'_, N> {
    /// A packet whose outbound policy is left to Linux. One of a port goes back as it came, and to be
    /// forwarded; `way` is that of any other.
    pub(super) fn leave(&self, origin: Origin, way: Option<LinuxWay>) -> Decision {
        match (origin, way) {
            (Origin::Port { ifindex, is_barred, .. }, _) => {
                Decision::Go(self.leave_to_linux(ifindex, is_barred))
            }
            (_, Some(way)) => Decision::Go(Draft::of_flow(Action::ToLinux(way))),
            (_, None) => Decision::Drop(DropReason::OutUnsupported),
        }
    }

    /// The way on which Linux finds the policy that was found for a packet: with the packet's mark, if it
    /// can be told of it, or without, if that makes no difference. To an XFRM interface of Linux's own its
    /// routes lead; there is no way to another one.
    pub(super) fn way_left(&self, policy: &PolicyEntry, flow: &Flow<'_>) -> Option<LinuxWay> {
        if flow.if_id != 0 && !self.view.topology.tunnels.is_linux_own(flow.if_id) {
            return None;
        }
        if flow.mark == 0 {
            return Some(LinuxWay::Private);
        }
        let marks = Marks::of_mark(flow.mark);
        if let Some(tag) = self.view.topology.marks.get(&marks) {
            return Some(LinuxWay::Marked(*tag));
        }
        let unmarked = self.view.reader.policy(Direction::Out, &Flow { mark: 0, ..*flow });
        let is_same = unmarked.is_some_and(|found| found.config.index == policy.config.index);
        is_same.then_some(LinuxWay::Private)
    }
}
