//! Policy of packets that leave, as the database answers about them.

use esp::Mode;
use outcome::DropReason;
use policy::{Direction, Ends, Marks, Outbound, PolicyEntry, SaHandle};
use wire::natt::{self, NattPayload};
use wire::{Fragment, protocol};

use super::decision::Policy;
use super::leave::way_left;
use super::question::Context;
use super::quoted::outbound_by_quoted;
use super::{Question, SaWait};
use crate::model::{Notes, Origin, Step};

/// Asks the policy database.
///
/// Where a policy wants protection and there is no SA, the packet waits; also under a template
/// with `level use`, with which Linux would let it pass in clear.
pub(super) fn ask_policy<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    marks: Marks,
) -> Policy {
    let (view, h) = (question.view, question.h);
    if is_own_ike(question, origin) {
        question.tell(|| Step::Exempt);
        return Policy::Clear;
    }
    let flow = view.flow(h, origin.iif(), marks, question.owner);
    let outbound = match view.reader.outbound(&flow) {
        nobodys @ (Outbound::NoPolicy | Outbound::DefaultBlock) => {
            outbound_by_quoted(question, origin.iif(), marks).unwrap_or(nobodys)
        }
        outbound => outbound,
    };
    question.tell(|| Step::outbound(marks, &outbound));
    let (answer, policy) = match outbound {
        Outbound::NoPolicy => (Policy::Unnamed, None),
        Outbound::DefaultBlock => return Policy::Drop(DropReason::OutPolicyBlock),
        Outbound::Bypass(policy) => (Policy::Clear, Some(policy)),
        Outbound::Leave(policy) => (Policy::Leave(way_left(question, policy, &flow)), Some(policy)),
        Outbound::Block(policy) => (Policy::Drop(DropReason::OutPolicyBlock), Some(policy)),
        Outbound::Unsupported(policy) => (Policy::Drop(DropReason::OutUnsupported), Some(policy)),
        // Nobody waits for an error: its sender's next one finds the SA that others ask for.
        Outbound::NoState(..) if !question.is_for_flow => {
            return Policy::Drop(DropReason::OutNoState);
        }
        // Counted when it goes on: it will be judged again.
        Outbound::NoState(policy, _) => {
            // A tunnel among the templates has the ends of what follows.
            let mut templates = policy.config.templates.iter();
            let is_hosts = templates.all(|template| template.mode == Mode::Transport);
            let ends = is_hosts.then_some((h.src, h.dst));
            return Policy::Wait(SaWait { policy: policy.config.index, ends });
        }
        // Software does not have the keys of the one, and the device not the policy of the other.
        Outbound::Protect(policy, sa) if view.device_of(sa) != policy.config.flags.device => {
            return Policy::Drop(DropReason::OutDeviceMismatch);
        }
        Outbound::Protect(policy, sa) => {
            note_own(question, policy, &[sa]);
            (Policy::Protect(sa), Some(policy))
        }
        Outbound::ProtectAll(_, sas)
            if sas.as_slice().iter().any(|sa| view.device_of(*sa).is_some()) =>
        {
            return Policy::Drop(DropReason::OutDeviceMismatch);
        }
        Outbound::ProtectAll(policy, sas) => {
            note_own(question, policy, sas.as_slice());
            (Policy::ProtectAll(sas), Some(policy))
        }
    };
    let policy = policy.map(|policy| &**policy);
    question.note(Direction::Out, &flow, policy);
    answer
}

/// Notes whether the owner of a policy is to be asked for SAs of the worker's own, while these protect.
fn note_own<N: Notes>(question: &mut Question<'_, N>, policy: &PolicyEntry, sas: &[SaHandle]) {
    if question.view.reader.wants_own(policy, sas, question.owner) {
        question.wants_own = Some(policy.config.index);
    }
}

/// True if a packet is key exchange (or neighbour discovery) of this very host, which no
/// policy applies to. Linux forwards other hosts' packets through the private interface as
/// well: those do not have an address of ours.
pub(super) fn is_own_ike(context: &Context<'_>, origin: Origin) -> bool {
    matches!(origin, Origin::Linux { .. })
        && context.view.topology.is_local_addr(context.h.src)
        && policy::always_bypass(context.h, Ends::Local, is_natt_ike(context))
}

/// UDP on the NAT traversal port that is not ESP: IKE behind its marker, or a keepalive.
fn is_natt_ike(context: &Context<'_>) -> bool {
    let (h, topology) = (context.h, &context.view.topology);
    let is_natt_port = topology.is_natt_port(h.src_port) || topology.is_natt_port(h.dst_port);
    if h.protocol != protocol::UDP || h.fragment == Fragment::Later || !is_natt_port {
        return false;
    }
    let payload = context.packet.get(usize::from(h.header_len) + wire::udp::HEADER_LEN..);
    let kind = payload.map(natt::classify);
    matches!(kind, Some(NattPayload::NonEspMarker | NattPayload::Keepalive))
}
