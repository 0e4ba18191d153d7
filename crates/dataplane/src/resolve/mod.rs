//! Decisions: what is to be done with a packet that has no plan.
//!
//! [`resolve`] looks everything up and changes nothing: policy first, then routes, SA and
//! neighbour. The order of the questions is RFC 4301's §5; each file holds one, as a function of the question, or of
//! its context where it changes nothing of what is known.
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
mod bfd;
mod clear;
mod decision;
mod eliminate;
mod entry;
mod fit;
mod gtpu;
pub(crate) mod homes;
mod inside_overlay;
mod leave;
mod limits;
mod lookup;
mod mss;
mod nat;
mod neighbours;
mod offload;
mod outbound;
mod outbound_policy;
mod overlays;
mod paths;
pub(crate) mod payload_len;
mod protect;
mod protect_all;
mod question;
mod quoted;
mod rate;
mod replicate;
mod route;
pub(crate) mod segment_errors;
mod segments;
mod steer;
mod stepped;
mod too_big;
mod translate;
mod tunnel;
mod waits;
mod ways;

use core::cell::Cell;

use esp::Sa;
use policy::{SaEntry, WorkerIndex};
use wire::Headers;

use arrival::{arrival, decrypted};
pub(crate) use decision::{Decided, Decision, ErrorCame, PolicyAnswers, Quote, SaWait, TooBig};
pub(crate) use entry::Entry;
pub(crate) use limits::Limits;
use nat::Nat;
pub(crate) use neighbours::{adjacency, adjacency_to};
use outbound::outbound;
pub(crate) use protect_all::next_hop_of_all;
use question::{Context, Question};
use rate::rate_limit;
use stepped::stepped;
pub(crate) use waits::has_sa;
pub(crate) use ways::{Route, next_hop_of, route};

use crate::model::{Meta, Notes, Step};
use crate::view::View;

/// Decides about an IP packet with headers `h`. `owner` is the worker that may have SAs of its own for it
/// ([`View::owner`]).
pub(crate) fn resolve(
    view: &View,
    packet: &[u8],
    h: &Headers,
    entry: Entry<'_>,
    owner: Option<WorkerIndex>,
) -> Decided {
    decide(view, packet, h, (entry, owner), (false, &mut ()))
}

/// Decides about a packet that was classified. `held` is the SA that has decrypted it, where that may have been
/// removed since.
pub(crate) fn resolve_arrival(
    view: &View,
    packet: &[u8],
    h: &Headers,
    meta: &Meta,
    held: Option<&SaEntry<Sa>>,
) -> Decided {
    let owner = view.owner(meta.ingress.is_of_other());
    resolve(view, packet, h, Entry::of(view, meta, held), owner)
}

/// As [`resolve`], with a note of each answer that the decision follows from.
pub(crate) fn resolve_aloud(
    view: &View,
    packet: &[u8],
    h: &Headers,
    (entry, owner): (Entry<'_>, Option<WorkerIndex>),
    steps: &mut Vec<Step>,
) -> Decided {
    decide(view, packet, h, (entry, owner), (false, steps))
}

/// Decides about a fragment whose headers `h` have the ports of its packet's first one.
pub(crate) fn resolve_fragment(
    view: &View,
    packet: &[u8],
    h: &Headers,
    entry: Entry<'_>,
    owner: Option<WorkerIndex>,
) -> Decided {
    decide(view, packet, h, (entry, owner), (true, &mut ()))
}

#[inline(always)]
fn decide<N: Notes>(
    view: &View,
    packet: &[u8],
    h: &Headers,
    (entry, owner): (Entry<'_>, Option<WorkerIndex>),
    (knows_ports, notes): (bool, &mut N),
) -> Decided {
    let asked = PolicyAnswers::default();
    let nat = Nat::of(view, packet, h, &entry);
    let (at_limit, wants_own, too_big) = (None, None, None);
    let mut question = Question {
        context: Context {
            view,
            packet,
            h,
            owner,
            knows_ports,
            nat: &nat,
            steered: Cell::default(),
        },
        asked,
        at_limit,
        wants_own,
        too_big,
        segment_error: None,
        is_for_flow: true,
        notes,
    };
    // The limit is asked for last: it hangs on what is done.
    let came = (!view.topology.rate_rules.is_empty()).then(|| rate::RuleIngress::of(&entry));
    let mut decision = match entry {
        Entry::Port { ifindex, mark, is_to_many } => {
            arrival(&mut question, ifindex, mark, is_to_many)
        }
        Entry::Decrypted { ifindex, mark, via } => decrypted(&mut question, ifindex, mark, &via),
        Entry::Stepped { index, mark, is_protected, via } => {
            stepped(&mut question, index, (mark, is_protected), &via)
        }
        Entry::Outbound(origin) => outbound(&mut question, origin),
    };
    let limit = came.and_then(|came| rate_limit(&mut question, came, &decision)).map(Box::new);
    question.asked.note_steering(question.context.steered.get());
    let Question { asked, at_limit, wants_own, too_big, segment_error, is_for_flow, .. } = question;
    if let Decision::Go(draft) = &mut decision {
        draft.is_for_flow &= is_for_flow;
    }
    Decided { decision, asked, at_limit, wants_own, too_big, segment_error, limit, is_for_flow }
}
