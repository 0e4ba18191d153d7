//! Packets that leave: policy before route, and policy once more at a tunnel interface.

use outcome::DropReason;
use policy::Prefix;

use super::clear::clear;
use super::decision::Policy;
use super::leave::leave;
use super::outbound_policy::ask_policy;
use super::overlays::leads_to_overlay;
use super::protect::protect;
use super::protect_all::protect_all;
use super::question::Context;
use super::route::{is_steered_to_port, tell_path};
use super::segments::{at_segment, leads_to_segments};
use super::tunnel::{in_tunnel, through_tunnel};
use super::ways::tunnel_ahead;
use super::{Decision, Question};
use crate::model::{Gather, Notes, Origin, Step};

/// A packet that leaves, or is forwarded.
pub(super) fn outbound<N: Notes>(question: &mut Question<'_, N>, origin: Origin) -> Decision {
    if let Some(decision) = at_segment(question, origin) {
        return decision;
    }
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    match ask_policy(question, origin, origin.marks()) {
        // It is there already.
        answer if let Origin::Tunnel { ifindex, .. } = origin => {
            tell_path(question, origin);
            in_tunnel(question, origin, answer, question.view.binding(ifindex))
        }
        Policy::Drop(reason) => Decision::Drop(reason),
        Policy::Leave(way) => leave(question, origin, way),
        Policy::Protect(sa) => protect(question, origin, sa),
        Policy::ProtectAll(sas) => protect_all(question, origin, &sas),
        Policy::Wait(key) => Decision::Hold(key, origin),
        answer @ (Policy::Clear | Policy::Unnamed) => match tunnel_ahead(question, origin) {
            Some(tunnel) => {
                tell_path(question, origin);
                through_tunnel(question, origin, tunnel)
            }
            None if matches!(answer, Policy::Unnamed)
                && let Some(prefix) = guarded(question, origin) =>
            {
                question.tell(|| Step::Guard(prefix));
                Decision::Drop(DropReason::OutPolicyBlock)
            }
            None => clear(question, origin),
        },
    }
}

/// The prefix that it would leave in clear for, though that needs protection until policies say more
/// (`[guard]`). What goes back to Linux as it came the guard stops there.
fn guarded(context: &Context<'_>, origin: Origin) -> Option<Prefix> {
    let is_sent_here = !matches!(origin, Origin::Port { .. })
        || context.nat.is_translated()
        || leads_to_segments(context, origin)
        || leads_to_overlay(context, origin)
        || is_steered_to_port(context, origin);
    let mut prefixes = context.view.topology.guarded.iter().filter(|_| is_sent_here);
    prefixes.find(|prefix| prefix.contains(context.h.dst)).copied()
}
