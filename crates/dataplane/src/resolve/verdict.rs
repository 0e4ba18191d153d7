//! What [`resolve`](super::resolve) says about a packet.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{PolicyCounters, PolicyEntry, SaBundle, SaHandle, Stamp};
use wire::Headers;

use crate::flows::plan::{Action, Adjacency, MAX_POLICIES, Plan, Stamps};
use crate::fragments::Gather;
use crate::packets::Origin;
use crate::resolve::segment_errors::ErrorCame;
use crate::resolve::{NextHop, Quote, RateLimit, Translation};
use crate::view::View;

/// A decision, and what it follows from.
pub(crate) struct Verdict {
    pub(crate) decision: Decision,
    /// The policies that decided.
    pub(crate) asked: Asked,
    /// An SA that has reached a limit by volume, of which its owner is to be told.
    pub(crate) at_limit: Option<SaHandle>,
    /// The index of a policy whose owner is to be asked for SAs of the worker's own (RFC 9611).
    pub(crate) wants_own: Option<u32>,
    /// What an error about ESP that was too big quotes.
    pub(crate) too_big: Option<Quote>,
    /// It may be an error from inside of the path of segments.
    pub(crate) segment_error: Option<ErrorCame>,
    /// The rate limit that the packet is under.
    pub(crate) limit: Option<Box<RateLimit>>,
    /// Whether packets with such headers are all decided about alike; if not, none may be by a plan.
    pub(crate) is_for_flow: bool,
}

/// What is to be done with a packet.
pub(crate) enum Decision {
    /// It goes on.
    Go(Draft),
    /// Several SAs protect it.
    SealAll(SealAll),
    /// It is translated, and then forwarded or protected.
    Translate(Translation),
    /// It waits for an SA.
    Hold(SaWait, Origin),
    /// It is a fragment, and waits for others.
    Gather(Gather),
    /// It is dropped, and its sender is told why.
    Error(IcmpCause, DropReason, Origin),
    /// It is dropped.
    Drop(DropReason),
    /// It has done its work here.
    Consume,
}

impl Decision {
    /// Whether the packet counts in the flow cache elsewhere, see [`Action::is_counted_later`].
    pub(crate) const fn is_counted_later(&self) -> bool {
        matches!(self, Decision::Go(draft) if draft.action.is_counted_later())
    }
}

/// How a packet goes on; a plan, once it is known to be good for the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) action: Action,
    /// The next hop; the action's adjacency is meaningless where there is one.
    pub(crate) to: Option<NextHop>,
    /// The packet is cut into packets of at most so many bytes first.
    pub(crate) cut: Option<usize>,
    /// A SYN is told this maximum segment size first.
    pub(crate) mss: Option<u16>,
    /// Whether the next packets of the flow are treated alike.
    pub(crate) is_for_flow: bool,
}

impl Draft {
    /// An action on all packets of a flow.
    pub(crate) const fn of_flow(action: Action) -> Draft {
        Draft { action, to: None, cut: None, mss: None, is_for_flow: true }
    }

    /// The packets of a flow are worker `home`'s.
    pub(crate) fn hand_over(home: usize) -> Draft {
        // A worker's number is below 256.
        Draft::of_flow(Action::HandOver { to: home as u8 })
    }
}

/// How several SAs protect a packet, one inside the other.
///
/// A plan has no room for so much: see [`crate::flows::Bundles`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SealAll {
    pub(crate) sas: SaBundle,
    /// How many of them, from the innermost on, have this worker for a home. The packet goes on to the home
    /// of the next one then, if there is one.
    pub(crate) own: u8,
    /// The next hop, and the MTU of the path to the peer.
    pub(crate) to: NextHop,
    /// The next hop, as bytes, if its neighbour is known.
    pub(crate) adjacency: Option<Adjacency>,
    /// The packet is cut into packets of at most so many bytes first.
    pub(crate) cut: Option<usize>,
    pub(crate) is_hop: bool,
}

impl SealAll {
    /// The SAs that are left when the worker's own have sealed the packet.
    pub(crate) fn onward(&self) -> Option<SaBundle> {
        let mut left = self.sas.as_slice().iter().skip(self.own.into());
        let mut sas = SaBundle::new(*left.next()?);
        for sa in left {
            // As many as a bundle has.
            let _ = sas.push(*sa);
        }
        Some(sas)
    }
}

/// The key of packets that wait for one SA: what an acquire is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SaWait {
    /// The policy's index.
    pub(crate) policy: u32,
    /// Transport mode: each pair of hosts has its own SA.
    pub(crate) ends: Option<(IpAddr, IpAddr)>,
}

/// The questions that the policy database was asked about a packet.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    counters: ArrayVec<PolicyCounters, MAX_POLICIES>,
    stamps: Stamps,
    /// There were more questions than a plan can keep.
    has_overflown: bool,
}

impl Asked {
    /// A policy decided about the packet, or none did.
    pub(super) fn note(&mut self, policy: Option<&PolicyEntry>, stamp: Stamp) {
        self.has_overflown |= self.stamps.try_push(stamp).is_err();
        if let Some(policy) = policy {
            self.has_overflown |= self.counters.try_push(policy.counters().clone()).is_err();
        }
    }

    /// The plan hangs on this answer too, whose policy the packet does not count with.
    pub(super) fn note_stamp(&mut self, stamp: Stamp) {
        self.has_overflown |= self.stamps.try_push(stamp).is_err();
    }

    /// Counts the packet with the policies that decided about it.
    pub(crate) fn count(&self, view: &View, h: &Headers) {
        for counters in &self.counters {
            counters.count(view.worker, 1, u64::from(h.total_len), view.now.wall_s);
        }
    }

    /// The flow's plan, if a plan can keep all questions.
    pub(crate) fn into_plan(self, action: Action) -> Option<(Plan, Stamps)> {
        let Asked { mut counters, stamps, has_overflown } = self;
        if matches!(action, Action::HandOver { .. }) {
            // Counted where the packet goes.
            counters.clear();
        }
        (!has_overflown).then(|| (Plan::new(action, counters), stamps))
    }
}
