//! Packets that leave by a tunnel interface: policy is asked once more, by what the interface says.

use forward::IcmpCause;
use outcome::DropReason;
use policy::SaHandle;

use super::decision::Policy;
use super::leave::leave;
use super::outbound_policy::ask_policy;
use super::protect::protect;
use super::protect_all::protect_all;
use super::question::Context;
use super::replicate::replicated;
use super::ways::TunnelHop;
use super::{Decision, Question};
use crate::model::{Notes, Origin};
use crate::tables::tunnel::Binding;

/// A packet that the tables lead to a tunnel interface: the policies that belong to it protect it, or
/// it does not leave (`xfrmi_xmit`, `vti_xmit`).
pub(super) fn through_tunnel<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    tunnel: TunnelHop,
) -> Decision {
    let h = question.h;
    if usize::from(h.total_len) > tunnel.mtu && h.dont_fragment {
        let cause = IcmpCause::TooBig { mtu: tunnel.mtu as u32 };
        return Decision::Error(cause, DropReason::OutTooBig, origin);
    }
    let answer = ask_policy(question, origin, tunnel.binding.outbound(origin.marks()));
    if let Some(decision) = replicated(question, origin, &answer) {
        return decision;
    }
    in_tunnel(question, origin, answer, Some(tunnel.binding))
}

/// Decision for a packet of a tunnel interface under a policy's verdict.
pub(super) fn in_tunnel<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    answer: Policy,
    binding: Option<Binding>,
) -> Decision {
    match answer {
        Policy::Drop(reason) => Decision::Drop(reason),
        Policy::Leave(way) => leave(question, origin, way),
        Policy::Protect(sa) if is_of(question, binding, sa) => protect(question, origin, sa),
        Policy::ProtectAll(sas)
            if sas.as_slice().last().is_some_and(|sa| is_of(question, binding, *sa)) =>
        {
            protect_all(question, origin, &sas)
        }
        Policy::Wait(key) => Decision::Hold(key, origin),
        // Each new interface says to its link which groups it listens to (RFC 3810). Nobody has made a
        // mistake, and nobody is told (RFC 4443 section 2.4).
        Policy::Clear | Policy::Unnamed | Policy::Protect(_) | Policy::ProtectAll(_)
            if question.h.dst.is_multicast() =>
        {
            Decision::Drop(DropReason::OutTunnelMulticast)
        }
        // Nothing protects it: its sender hears that the interface leads nowhere.
        Policy::Clear | Policy::Unnamed | Policy::Protect(_) | Policy::ProtectAll(_) => {
            Decision::Error(IcmpCause::HostUnreachable, DropReason::OutNoTunnel, origin)
        }
    }
}

/// True if an SA has the ends of the interface.
fn is_of(context: &Context<'_>, binding: Option<Binding>, sa: SaHandle) -> bool {
    let sa = context.view.reader.sa(sa);
    binding.is_none_or(|binding| sa.is_some_and(|sa| binding.takes(&sa.config)))
}
