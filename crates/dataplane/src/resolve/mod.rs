//! Decisions: what is to be done with a packet that has no plan.
//!
//! [`resolve`] looks everything up and changes nothing: policy first, then routes, SA and
//! neighbour. The order of the questions is RFC 4301's §5; each file holds one.
//!
//! ```text
//!   from a port ──── arrival ──┬─ ESP for this host ───────> Open
//!                              ├─ in clear, allowed: here ─> Linux
//!                              └─ in clear, allowed: on ──┐
//!   decrypted ────── decrypted ┬─ for this host ──────────┼─> Linux
//!                              └─ on ─────────────────────┤
//!   Linux, held, ICMP errors ──── outbound <──────────────┘
//!                                   policy ──┬─ protect ─ protect ─> Seal, Error
//!                                            ├─ no SA ──────────> Hold
//!                                            ├─ block ──────────> Drop
//!                                            └─ clear ── clear ──> Forward, Linux, Error
//! ```

mod arrival;
mod clear;
mod fit;
mod outbound;
mod protect;
mod route;
mod verdict;

use esp::Sa;
use policy::{Direction, Flow, PolicyEntry, SaEntry, SaHandle};
use wire::Headers;

pub(crate) use outbound::has_sa;
pub(crate) use route::{NextHop, Route, route};
pub(crate) use verdict::{Asked, Decision, Draft, SaWait, Verdict};

use crate::packets::Origin;
use crate::view::View;

/// How a packet came to be resolved.
#[derive(Clone, Copy)]
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
    /// Decrypted, by this SA unless it has been removed since.
    Decrypted {
        /// The interface that the ESP packet came in by.
        ifindex: u32,
        /// The mark that a rule gives it, or 0.
        mark: u32,
        /// The SA.
        sa: Option<&'s SaEntry<Sa>>,
    },
    /// On its way out: from Linux, made by the worker, or held before.
    Outbound(Origin),
}

/// A packet that is resolved, and the policies asked so far.
struct Question<'a> {
    view: &'a View,
    packet: &'a [u8],
    h: &'a Headers,
    asked: Asked,
    at_limit: Option<SaHandle>,
}

/// Decides about an IP packet with headers `h`.
pub(crate) fn resolve(view: &View, packet: &[u8], h: &Headers, entry: Entry<'_>) -> Verdict {
    let mut question = Question { view, packet, h, asked: Asked::default(), at_limit: None };
    let decision = match entry {
        Entry::Port { ifindex, mark, is_to_many } => question.arrival(ifindex, mark, is_to_many),
        Entry::Decrypted { ifindex, mark, sa } => question.decrypted(ifindex, mark, sa),
        Entry::Outbound(origin) => question.outbound(origin),
    };
    let Question { asked, at_limit, .. } = question;
    Verdict { decision, asked, at_limit }
}

impl Question<'_> {
    /// Notes the policy that decided about the packet.
    fn note(&mut self, direction: Direction, flow: &Flow<'_>, policy: Option<&PolicyEntry>) {
        self.asked.note(policy, self.view.reader.stamp(direction, flow, policy));
    }
}
