//! Packets that no policy protects: Linux's, or forwarded by the tables.

use forward::IcmpCause;
use outcome::DropReason;
use wire::{Family, ipv6};

use super::leave::leave_to_linux;
use super::mss::{clamps_mss, longest_back, mss_of_syn};
use super::overlays::{for_linuxs_overlay, leads_to_overlay};
use super::route::{is_steered_to_port, next_hop, onto, tell_path, way_onward};
use super::segments::{leads_to_segments, whole_frame};
use super::{Decision, Question, Route};
use crate::model::{
    Action, Draft, Encapsulate, Forward, LinuxWay, Notes, Origin, Step, Wrap, ip_len, is_function,
    overlay_of,
};

/// A packet that no policy protects.
pub(super) fn clear<N: Notes>(question: &mut Question<'_, N>, origin: Origin) -> Decision {
    match origin {
        // It was taken to be translated, by rules of Linux's.
        Origin::Port { is_barred: false, .. } if question.nat.is_translated() => {
            forward(question, origin)
        }
        Origin::Port { .. } if leads_to_segments(question, origin) => forward(question, origin),
        // By a path that Linux's tables do not lead to.
        Origin::Port { .. } if is_steered_to_port(question, origin) => forward(question, origin),
        Origin::Port { .. } if leads_to_overlay(question, origin) => forward(question, origin),
        // Culvert has taken it only to ask the policy database: it is Linux's.
        Origin::Port { ifindex, is_barred, .. } => {
            tell_path(question, origin);
            let draft = leave_to_linux(question, ifindex, is_barred);
            Decision::Go(for_linuxs_overlay(question, origin, draft))
        }
        // The sender of a protected packet gets no answer in clear.
        Origin::Worker { protected: true } => Decision::Drop(DropReason::OutPolicyBlock),
        Origin::Linux { .. }
        | Origin::Tunnel { .. }
        | Origin::Decrypted { .. }
        | Origin::Stepped { .. }
        | Origin::Worker { .. }
        | Origin::Probe { .. }
        | Origin::OnLink { .. } => forward(question, origin),
    }
}

/// Forwards in clear by the tables, without culvert's own: decrypted packets, translated ones, and what Linux
/// sent here because its destination is a protected prefix while policy says otherwise.
fn forward<N: Notes>(question: &mut Question<'_, N>, origin: Origin) -> Decision {
    let (view, h) = (question.view, question.h);
    let to = match (way_onward(question, origin), origin) {
        (Route::Port(to), _) => to,
        // Multicast and link-local packets that Linux sends on the private interface itself
        // (MLD, router solicitations): nobody else is on that link.
        (Route::Local, Origin::Linux { .. }) if !view.topology.is_local_addr(h.dst) => {
            return Decision::Consume;
        }
        (Route::Local, Origin::Linux { .. }) => return Decision::Drop(DropReason::ForwardLoop),
        // By a table of its own, which Linux would not look into.
        (Route::Local | Route::Linux | Route::Tunnel(_), Origin::Stepped { index, .. })
            if view.topology.lookup_stepped(index, h.dst, h.src).is_some() =>
        {
            return Decision::Drop(DropReason::EgressNotPort);
        }
        // What came from Linux does not find the way back to us: the rule that leads here
        // exempts the private interface. A tunnel interface that is down is Linux's.
        (Route::Local | Route::Linux | Route::Tunnel(_), _) => {
            return Decision::Go(Draft::of_flow(Action::ToLinux(LinuxWay::Private)));
        }
        (Route::Nowhere(reason, Some(cause)), _) => {
            return Decision::Error(cause, reason, origin);
        }
        (Route::Nowhere(reason, None), _) => return Decision::Drop(reason),
    };
    if let Some(decision) = whole_frame(question, origin, to) {
        return decision;
    }
    // As a router does: TTL, then length, and the ICMP error quotes the packet as it came.
    let is_hop = origin.is_hop();
    if is_hop && h.ttl <= 1 {
        let cause = IcmpCause::TimeExceeded;
        return Decision::Error(cause, DropReason::TtlExceeded, origin);
    }
    question.tell(|| Step::size(h, None, to.mtu));
    let fits = usize::from(h.total_len) <= to.mtu;
    if !fits && h.dont_fragment {
        // No sender goes below that: the outer packet is to be cut (RFC 2473 §7.1), which is Linux's.
        if let Origin::Port { ifindex, is_barred, .. } = origin
            && overlay_of(to.ifindex).is_some()
            && h.family() == Family::V6
            && h.total_len <= ipv6::MIN_MTU
        {
            let draft = leave_to_linux(question, ifindex, is_barred);
            let draft = for_linuxs_overlay(question, origin, draft);
            return Decision::Go(Draft { is_for_flow: false, ..draft });
        }
        let cause = IcmpCause::TooBig { mtu: to.mtu as u32 };
        return Decision::Error(cause, DropReason::OutTooBig, origin);
    }
    let to = onto(question, origin, to);
    let known = next_hop(question, to, h.family());
    let clamps_mss = is_hop && clamps_mss(question);
    let forward =
        Forward { adjacency: known.unwrap_or_default(), mtu: ip_len(to.mtu), is_hop, clamps_mss };
    let action = match known {
        Some(_) if overlay_of(to.ifindex).is_some() => Action::Encapsulate(Encapsulate(forward)),
        Some(_) if is_function(to.ifindex) => Action::Wrap(Wrap(forward)),
        _ => Action::Forward(forward),
    };
    Decision::Go(Draft {
        action,
        to: (known.is_none() || !fits).then_some(to),
        cut: (!fits).then_some(to.mtu),
        mss: if clamps_mss {
            mss_of_syn(question, || longest_back(question, to.ifindex))
        } else {
            None
        },
        is_for_flow: fits && known.is_some(),
    })
}
