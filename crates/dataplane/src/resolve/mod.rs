//! Decisions: what is to be done with a packet that has no plan.
//!
//! [`resolve`] looks everything up and changes nothing: policy first, then routes, SA and
//! neighbour. The order of the questions is RFC 4301's §5; each file holds one.
//!
//! ```text
//!   from a port ──── arrival ──┬─ ESP for this host ───────> Open
//!                              ├─ in clear, allowed: here ─> Linux
//!                              └─ in clear, allowed: on ──┐
//!   decrypted ────── decrypted ┬─ GTP-U ── gtpu ──────────┼─> Application
//!                              ├─ for this host ──────────┼─> Linux
//!                              └─ on ─────────────────────┤
//!   Linux, held, ICMP errors ──── outbound <──────────────┘
//!                                   policy ──┬─ protect ─ protect ─> Seal, SealAll, Error
//!                                            ├─ IP-TFS ─ aggregate > Aggregate, Error
//!                                            ├─ a device's ─ offload > Offload, Error
//!                                            ├─ no SA ──────────> Hold
//!                                            ├─ a fragment ─────> Gather
//!                                            ├─ block ──────────> Drop
//!                                            ├─ left ── leave ──> Linux
//!                                            └─ clear ── clear ──> Forward, Linux, Error
//! ```

mod aggregate;
mod arrival;
mod clear;
mod fit;
mod gtpu;
pub(crate) mod homes;
mod leave;
mod limits;
mod mss;
mod offload;
mod outbound;
mod protect;
mod protect_all;
mod quoted;
mod rate;
mod route;
pub(crate) mod segment_errors;
mod segments;
mod too_big;
mod translate;
mod tunnel;
mod verdict;

use arrayvec::ArrayVec;
use esp::Sa;
use policy::{Direction, Flow, MAX_BUNDLE, PolicyEntry, SaEntry, SaHandle};
use wire::{Fragment, Headers};

pub(crate) use limits::Limits;
pub(crate) use outbound::has_sa;
pub(crate) use protect_all::next_hop_of_all;
pub(crate) use route::{Route, adjacency, adjacency_to, next_hop_of, route};
use segment_errors::ErrorCame;
pub(crate) use too_big::{Quote, TooBig};
use translate::Nat;
pub(crate) use verdict::{Asked, Decision, SaWait, Verdict};

pub use crate::model::Step;
use crate::model::{Notes, Origin};
use crate::view::View;

/// How a packet came to be resolved.
#[derive(Clone)]
pub(crate) enum Entry<'s> {
    /// Received by an Ethernet port.
    Port {
        /// The port's interface.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// Whether the frame was sent to more than one station.
        is_to_many: bool,
    },
    /// Decrypted.
    Decrypted {
        /// The interface that the ESP packet came in by.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// The SAs that it came through, the outermost first; none if one has been removed since.
        via: ArrayVec<&'s SaEntry<Sa>, MAX_BUNDLE>,
    },
    /// It has left a step of SRv6.
    Stepped {
        /// Where the function stands, see [`crate::segments`].
        index: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// Whether it came under protection.
        is_protected: bool,
        /// By these SAs; none if one has been removed since.
        via: ArrayVec<&'s SaEntry<Sa>, MAX_BUNDLE>,
    },
    /// On its way out: from Linux, made by the worker, or held before.
    Outbound(Origin),
}

/// A packet that is resolved, and the policies asked so far.
struct Question<'a, N> {
    view: &'a View,
    packet: &'a [u8],
    h: &'a Headers,
    /// A fragment's headers have the ports of its packet's first one.
    knows_ports: bool,
    asked: Asked,
    at_limit: Option<SaHandle>,
    wants_own: Option<u32>,
    too_big: Option<Quote>,
    segment_error: Option<ErrorCame>,
    /// What is decided is good for packets with such headers, not for this one alone.
    is_for_flow: bool,
    /// What Linux's NAT has decided about its connection.
    nat: &'a Nat,
    /// Where each answer is noted, if somebody wants to know.
    notes: &'a mut N,
}

/// Decides about an IP packet with headers `h`.
pub(crate) fn resolve(view: &View, packet: &[u8], h: &Headers, entry: Entry<'_>) -> Verdict {
    decide(view, packet, h, entry, (false, &mut ()))
}

/// As [`resolve`], with a note of each answer that the decision follows from.
pub(crate) fn resolve_aloud(
    view: &View,
    packet: &[u8],
    h: &Headers,
    entry: Entry<'_>,
    steps: &mut Vec<Step>,
) -> Verdict {
    decide(view, packet, h, entry, (false, steps))
}

/// Decides about a fragment whose headers `h` have the ports of its packet's first one.
pub(crate) fn resolve_fragment(
    view: &View,
    packet: &[u8],
    h: &Headers,
    entry: Entry<'_>,
) -> Verdict {
    decide(view, packet, h, entry, (true, &mut ()))
}

#[inline(always)]
fn decide<N: Notes>(
    view: &View,
    packet: &[u8],
    h: &Headers,
    entry: Entry<'_>,
    (knows_ports, notes): (bool, &mut N),
) -> Verdict {
    let asked = Asked::default();
    let nat = Nat::of(view, packet, h, &entry);
    let (at_limit, wants_own, too_big) = (None, None, None);
    let mut question = Question {
        view,
        packet,
        h,
        knows_ports,
        asked,
        at_limit,
        wants_own,
        too_big,
        segment_error: None,
        is_for_flow: true,
        nat: &nat,
        notes,
    };
    // The limit is asked for last: it hangs on what is done.
    let came = (!view.topology.rate_rules.is_empty()).then(|| rate::Came::of(&entry));
    let mut decision = match entry {
        Entry::Port { ifindex, mark, is_to_many } => question.arrival(ifindex, mark, is_to_many),
        Entry::Decrypted { ifindex, mark, via } => question.decrypted(ifindex, mark, &via),
        Entry::Stepped { index, mark, is_protected, via } => {
            question.stepped(index, (mark, is_protected), &via)
        }
        Entry::Outbound(origin) => question.outbound(origin),
    };
    let limit = came.and_then(|came| question.rate_limit(came, &decision)).map(Box::new);
    let Question { asked, at_limit, wants_own, too_big, segment_error, is_for_flow, .. } = question;
    if let Decision::Go(draft) = &mut decision {
        draft.is_for_flow &= is_for_flow;
    }
    Verdict { decision, asked, at_limit, wants_own, too_big, segment_error, limit, is_for_flow }
}

impl<N: Notes> Question<'_, N> {
    /// Whether it is a fragment that has to be judged by its packet's ports, and these are not known: some
    /// selector names ports (RFC 4301 §7).
    fn needs_ports(&self) -> bool {
        self.h.fragment != Fragment::Whole && !self.knows_ports && self.view.reader.names_ports()
    }

    /// Notes an answer for who wants to know.
    #[inline(always)]
    fn tell(&mut self, step: impl FnOnce() -> Step) {
        self.notes.tell(step);
    }

    /// Notes the policy that decided about the packet.
    fn note(&mut self, direction: Direction, flow: &Flow<'_>, policy: Option<&PolicyEntry>) {
        self.asked.note(policy, self.view.reader.stamp(direction, flow, policy));
    }
}
