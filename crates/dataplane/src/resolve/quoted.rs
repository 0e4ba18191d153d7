//! ICMP errors that are judged by the packet that they quote (RFC 4301 §6.2; Linux's `flag icmp`).
//!
//! A router behind the peer reports about a packet that came out of a tunnel. Its own address is in no
//! selector, so by its own headers the report is nobody's. It belongs to the connection that it is about: it
//! travels as an answer to the quoted packet would, if policy and SA allow that.

use esp::Sa;
use outcome::DropReason;
use policy::{Direction, Flow, Marks, Outbound, PolicyEntry, SaEntry};
use wire::{Fragment, Headers, icmpv4, icmpv6, parse_quoted_ip, protocol};

use super::Question;
use crate::model::Notes;

/// Length of an ICMP error in front of what it quotes (RFC 792, RFC 4443 §2.1).
const ERROR_HEADER_LEN: u16 = 8;

/// Headers of an answer to the packet that an ICMP error quotes. `None` for other packets, and
/// where nothing can be read. In any case the next error with such headers may quote another
/// packet.
fn answer_to_quoted<N: Notes>(question: &mut Question<'_, N>) -> Option<Headers> {
    let h = question.h;
    // ICMP's type is its source port; it has 8 bits.
    let kind = h.src_port as u8;
    let is_error = match h.protocol {
        protocol::ICMP => icmpv4::is_error(kind) && kind != icmpv4::kind::REDIRECT,
        protocol::ICMPV6 => icmpv6::is_error(kind),
        _ => false,
    };
    if !is_error || h.fragment != Fragment::Whole {
        return None;
    }
    question.is_for_flow = false;
    let quoted = question.packet.get((h.header_len + ERROR_HEADER_LEN).into()..)?;
    let quoted = parse_quoted_ip(quoted).ok()?;
    (quoted.family() == h.family()).then(|| quoted.reversed())
}

/// Answer of the policies on an error that matches none by its own headers.
pub(super) fn outbound_by_quoted<'q, N: Notes>(
    question: &mut Question<'q, N>,
    iif: u32,
    marks: Marks,
) -> Option<Outbound<'q>> {
    let view = question.view;
    if !view.reader.names_errors() {
        return None;
    }
    let answer = answer_to_quoted(question)?;
    let outbound = view.reader.outbound(&view.flow(&answer, iif, marks, question.owner));
    outbound.policy().is_some_and(|policy| policy.config.flags.icmp).then_some(outbound)
}

/// Judges an error that came through SAs and that policy refuses by its own headers: all of the SAs must be
/// open to errors.
pub(super) fn verify_by_quoted<'q, N: Notes>(
    question: &mut Question<'q, N>,
    direction: Direction,
    flow: &Flow<'_>,
    via: &[&SaEntry<Sa>],
) -> Result<Option<&'q PolicyEntry>, DropReason> {
    let refused = Err(DropReason::InPolicy);
    if via.is_empty() || !via.iter().all(|sa| sa.config.params.flags.icmp) {
        return refused;
    }
    let Some(answer) = answer_to_quoted(question) else { return refused };
    let flow = Flow { headers: &answer, ..*flow };
    question.view.reader.verify(direction, &flow, via).map(|policy| policy.map(|policy| &**policy))
}
