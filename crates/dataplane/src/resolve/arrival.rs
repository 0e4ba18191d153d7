//! Packets that arrive: ESP and AH for this host, cleartext that policy may forbid, and what was decrypted.

use esp::Sa;
use outcome::DropReason;
use policy::{Direction, Ends, Flow, Marks, SaEntry};
use wire::protocol;

use super::bfd::of_bfd;
use super::decision::ErrorCame;
use super::eliminate::eliminated;
use super::gtpu::{is_cut_gtpu, is_from_application, of_applications, service};
use super::leave::{leave_to_linux, leaves_in_clear};
use super::nat::Nat;
use super::overlays::of_overlays;
use super::paths::{measured, measured_in_clear};
use super::question::Context;
use super::quoted::verify_by_quoted;
use super::segment_errors::note_segment_error;
use super::too_big::quoted_too_big;
use super::translate::{go_on, leave_for_nat};
use super::{Decision, Question, too_big};
use crate::model::{Action, Draft, Gather, LinuxWay, Notes, Origin, Step};
use crate::tables::tunnel::Tunnel;

/// A packet from an Ethernet port: ESP and AH for us are opened; the rest was taken because a policy
/// may apply to it.
pub(super) fn arrival<N: Notes>(
    question: &mut Question<'_, N>,
    ifindex: u32,
    mark: u32,
    is_to_many: bool,
) -> Decision {
    let (view, h) = (question.view, question.h);
    let is_local = !question.nat.is_translated() && view.is_local(h, ifindex);
    question.tell(|| Step::Ends { is_local });
    if !is_to_many
        && !view.is_possible_source(h.src, is_local)
        && !is_from_application(question, ifindex)
    {
        return Decision::Drop(DropReason::MartianSource);
    }
    if !is_local {
        // What was sent to all stations is not for routers (RFC 1812 §5.3.4).
        if is_to_many {
            return Decision::Drop(DropReason::OtherHost);
        }
        return cleartext(question, ifindex, mark, Direction::Forward);
    }
    match h.protocol {
        // ESP in UDP of others, perhaps: this host only translates it.
        _ if question.nat.is_for_conntrack() => cleartext(question, ifindex, mark, Direction::In),
        protocol::ESP => Decision::Go(Draft::of_flow(Action::OpenBare)),
        protocol::AH => Decision::Go(Draft::of_flow(Action::OpenNext)),
        // Fragments of UDP wait until the first one has told the port.
        protocol::UDP if question.may_be_natt() => Decision::Go(Draft::of_flow(Action::OpenUdp)),
        protocol::ICMP | protocol::ICMPV6 => {
            question.too_big = quoted_too_big(question);
            // Each error of that router may be about another packet.
            question.is_for_flow &= !too_big::says_too_big(h);
            note_segment_error(question, ErrorCame::InClear { ifindex });
            cleartext(question, ifindex, mark, Direction::In)
        }
        _ => cleartext(question, ifindex, mark, Direction::In),
    }
}

/// A packet that arrived in clear: policy must allow that.
///
/// So must Linux's reverse path filter, which does not see what culvert takes: a forged source on
/// the outside would go into a tunnel. What Linux gets as received by the same interface it
/// checks, and counts, itself.
fn cleartext<N: Notes>(
    question: &mut Question<'_, N>,
    ifindex: u32,
    mark: u32,
    direction: Direction,
) -> Decision {
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    let (view, h) = (question.view, question.h);
    let ends = match direction {
        Direction::Forward => Ends::Forwarded,
        Direction::In | Direction::Out => Ends::Local,
    };
    let (mut is_barred, mut is_left) = (false, false);
    if !policy::always_bypass(h, ends, false) {
        let flow = Flow::marked(h, view.leads_to(h, ifindex), Marks::of_mark(mark));
        let verified = view.reader.verify(direction, &flow, &[]);
        question.tell(|| {
            let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
            Step::inbound(direction, Marks::of_mark(mark), found, verified.as_ref().err().copied())
        });
        let policy = match verified {
            Ok(policy) => policy.map(|policy| &**policy),
            Err(reason) => return Decision::Drop(reason),
        };
        let config = policy.map(|policy| &policy.config);
        is_left = config.is_some_and(|config| config.action == policy::Action::Leave);
        let templates = config.map_or(&[][..], |config| &config.templates);
        // Linux judges what it gets as received by the port, and not what comes in otherwise.
        if is_left
            && view.back(ifindex).is_none()
            && templates.iter().any(|template| !template.optional)
        {
            return Decision::Drop(DropReason::InCleartext);
        }
        // It wants protection, and does not insist; the guard knows only the first.
        is_barred = !is_left && !templates.is_empty();
        question.note(direction, &flow, policy);
    }
    let check = view.topology.interfaces.get(&ifindex).map(|i| i.source_check);
    if !view.topology.fib.is_way_back(h, 0, ifindex, check.unwrap_or_default())
        && (is_barred || !is_checked_by_linux(question, (ifindex, mark), direction, is_left))
        && !is_from_application(question, ifindex)
    {
        return Decision::Drop(DropReason::ReversePath);
    }
    match direction {
        // The way out is Linux's to find as well.
        _ if is_left => Decision::Go(leave_to_linux(question, ifindex, false)),
        Direction::In => {
            note_local(question);
            let linux = Decision::Go(leave_to_linux(question, ifindex, is_barred));
            let linux = measured_in_clear(question, of_overlays(question, linux));
            of_bfd(question, linux)
        }
        Direction::Forward | Direction::Out => {
            go_on(question, Origin::Port { ifindex, mark, is_barred }, |context| {
                Decision::Go(leave_for_nat(context, (ifindex, mark), is_barred))
            })
        }
    }
}

/// True if a packet that arrived in clear goes back to Linux as it came.
#[cold]
fn is_checked_by_linux(
    context: &Context<'_>,
    (ifindex, mark): (u32, u32),
    direction: Direction,
    is_left: bool,
) -> bool {
    context.view.back(ifindex).is_some()
        && (is_left || direction == Direction::In || leaves_in_clear(context, (ifindex, mark)))
}

/// A decrypted packet: policy must allow it (RFC 4301 §5.2). If it is ESP, AH or IPComp for this host
/// again, or IP in IP of an IPComp tunnel, policy is asked about what is inside.
pub(super) fn decrypted<N: Notes>(
    question: &mut Question<'_, N>,
    ifindex: u32,
    mark: u32,
    via: &[&SaEntry<Sa>],
) -> Decision {
    let (view, h) = (question.view, question.h);
    let Some(sa) = via.last() else { return Decision::Drop(DropReason::InStateExpired) };
    // Without its interface a packet belongs to none, and no policy of that `if_id` allows it
    // (`xfrmi_rcv_cb`).
    let bound = view.topology.tunnels.of_sa(&sa.config);
    let tunnel = bound.map(|(_, tunnel)| tunnel);
    let marks = Marks {
        // As Linux's rules do it: after the SAs.
        mark: match mark {
            0 => via.iter().fold(0, |mark, sa| sa.config.set_mark.set_in(mark)),
            mark => mark,
        },
        if_id: tunnel.map_or(0, |_| sa.config.if_id),
    };
    let asked = bound.map_or(marks, |(binding, _)| binding.inbound(marks));
    let ifindex = tunnel.map_or(ifindex, |tunnel| tunnel.ifindex);
    if let Some(tunnel) = tunnel.filter(|tunnel| tunnel.is_elsewhere) {
        return decrypted_elsewhere(question, ifindex, asked, tunnel, via);
    }
    let is_local = !question.nat.is_translated() && view.is_local(h, ifindex);
    question.tell(|| Step::Ends { is_local });
    if !view.is_possible_source(h.src, is_local) {
        return Decision::Drop(DropReason::MartianSource);
    }
    if is_local && is_wrapped(question) {
        return Decision::Go(Draft::of_flow(Action::OpenNext));
    }
    if let Some(gather) = is_cut_gtpu(question) {
        return gather;
    }
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    let direction = if is_local { Direction::In } else { Direction::Forward };
    if let Err(reason) = verify(question, direction, ifindex, asked, via) {
        return Decision::Drop(reason);
    }
    let as_local = |context: &Context<'_>| match marks.mark == mark {
        // A rule's mark: Linux may mark it again by rules of its own.
        true => to_linux(context, as_told(context, marks), tunnel),
        false => to_linux(context, marks, tunnel),
    };
    if let Some(service) = service(question) {
        let linux = is_local.then(|| as_local(question));
        return of_applications(service, linux);
    }
    if is_local {
        note_local(question);
        note_segment_error(question, ErrorCame::Protected);
    }
    match is_local {
        true => {
            let linux = measured(question, of_overlays(question, as_local(question)));
            of_bfd(question, eliminated(question, linux))
        }
        // The SA's mark is for Linux's rules.
        false if marks.mark != mark => to_linux(question, marks, tunnel),
        false => go_on(question, Origin::Decrypted { ifindex, mark }, |context| {
            to_linux(context, as_told(context, marks), tunnel)
        }),
    }
}

/// A decrypted packet of a tunnel interface in another network namespace, which it goes to without a mark,
/// whatever its destination: the policies here judge it as one for this host (`xfrmi_rcv_cb`).
fn decrypted_elsewhere<N: Notes>(
    question: &mut Question<'_, N>,
    ifindex: u32,
    asked: Marks,
    tunnel: Tunnel,
    via: &[&SaEntry<Sa>],
) -> Decision {
    question.tell(|| Step::Ends { is_local: true });
    if question.needs_ports() {
        return Decision::Gather(Gather::Ports);
    }
    match verify(question, Direction::In, ifindex, asked, via) {
        Ok(()) => to_linux(question, Marks::default(), Some(tunnel)),
        Err(reason) => Decision::Drop(reason),
    }
}

/// Checks that policy allows the packet that these SAs have decrypted.
fn verify<N: Notes>(
    question: &mut Question<'_, N>,
    direction: Direction,
    ifindex: u32,
    asked: Marks,
    via: &[&SaEntry<Sa>],
) -> Result<(), DropReason> {
    let (view, h) = (question.view, question.h);
    let flow = Flow::marked(h, view.leads_to(h, ifindex), asked);
    let verified = match view.reader.verify(direction, &flow, via) {
        Ok(policy) => Ok(policy.map(|policy| &**policy)),
        Err(reason) => verify_by_quoted(question, direction, &flow, via).map_err(|_| reason),
    };
    question.tell(|| {
        let found = view.reader.policy(direction, &flow).map(|policy| &**policy);
        Step::inbound(direction, asked, found, verified.as_ref().err().copied())
    });
    question.note(direction, &flow, verified?);
    Ok(())
}

/// True if a packet for this host is to be opened by an SA. Other IP in IP belongs to Linux's
/// own tunnels.
fn is_wrapped(context: &Context<'_>) -> bool {
    match context.h.protocol {
        protocol::ESP | protocol::AH | protocol::IPCOMP => true,
        protocol::IPV4 | protocol::IPV6 => {
            context.view.ip_in_ip(context.h.src, context.h.dst).is_some()
        }
        _ => false,
    }
}

/// A mark that a rule gives, where Linux can be told of it: with the kernel's IPsec a packet has the mark
/// that its ESP packet was given.
fn as_told(context: &Context<'_>, marks: Marks) -> Marks {
    let is_known = context.view.topology.marks.contains_key(&marks);
    Marks { mark: if is_known { marks.mark } else { 0 }, ..marks }
}

/// A decrypted packet that is Linux's: by the tunnel interface that it came in by, if there is one,
/// and with the mark that its SA gives it.
fn to_linux(context: &Context<'_>, marks: Marks, tunnel: Option<Tunnel>) -> Decision {
    let way = match (marks.mark, tunnel) {
        (0, None) => LinuxWay::Private,
        (0, Some(Tunnel { slot: Some(slot), .. })) => LinuxWay::Tunnel(slot),
        // One of Linux's own.
        (0, Some(Tunnel { slot: None, .. })) => match context.view.topology.marks.get(&marks) {
            Some(tag) => LinuxWay::Marked(*tag),
            None => LinuxWay::Private,
        },
        _ => match context.view.topology.marks.get(&marks) {
            Some(tag) => LinuxWay::Marked(*tag),
            None => return Decision::Drop(DropReason::InMark),
        },
    };
    Decision::Go(Draft::of_flow(Action::ToLinux(way)))
}

/// A packet that Linux gets as one for this host: it may find out that it is not, and then the connection's next
/// packets are carried.
pub(super) fn note_local<N: Notes>(question: &mut Question<'_, N>) {
    question.is_for_flow &= !matches!(question.nat, Nat::Unknown { .. } | Nat::Linuxs { .. });
}
