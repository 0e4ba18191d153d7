//! Decision about a packet, with all that it follows from.

use arrayvec::ArrayVec;
use core::mem;
use core::net::IpAddr;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{PolicyCounters, PolicyEntry, SaBundle, SaHandle, Stamp};
use std::sync::Arc;
use wire::Headers;

use crate::flows::plan::{MAX_POLICIES, Plan, Stamps};
use crate::model::{Action, Draft, Gather, LinuxWay, Origin, RateLimit, SealAll, Translation};
use crate::tables::steering::SteerStamp;
use crate::view::View;

/// A decision, and what it follows from.
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    /// The policies that decided.
    pub(crate) asked: PolicyAnswers,
    /// An SA that has reached a limit by volume, of which its owner is to be told.
    pub(crate) at_limit: Option<SaHandle>,
    /// The index of a policy whose owner is to be asked for SAs of the worker's own (RFC 9611).
    pub(crate) wants_own: Option<u32>,
    /// Quotation of an error about ESP that was too big.
    pub(crate) too_big: Option<Quote>,
    /// Set if it may be an error from inside the path of segments.
    pub(crate) segment_error: Option<ErrorCame>,
    /// The rate limit that the packet is under.
    pub(crate) limit: Option<Box<RateLimit>>,
    /// True if packets with such headers are all decided alike. If not, none may go by a plan.
    pub(crate) is_for_flow: bool,
}

/// Decision about a packet.
pub(crate) enum Decision {
    /// The packet goes on by this action.
    Go(Draft),
    /// Several SAs protect it.
    SealAll(SealAll),
    /// The packet is translated, and then forwarded or protected.
    Translate(Translation),
    /// The packet waits for an SA.
    Hold(SaWait, Origin),
    /// The packet is a fragment, and waits for others.
    Gather(Gather),
    /// The packet is dropped, and its sender gets an ICMP error.
    Error(IcmpCause, DropReason, Origin),
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet is consumed: it needs no further step.
    Consume,
}

impl Decision {
    /// The worker that the packet is for, if that is another one.
    pub(crate) fn handed_to(&self) -> Option<usize> {
        match self {
            Decision::Go(Draft { action: Action::HandOver { to }, .. }) => Some((*to).into()),
            _ => None,
        }
    }

    /// True if the packet counts in the flow cache elsewhere, see [`Action::is_counted_later`].
    pub(crate) const fn is_counted_later(&self) -> bool {
        matches!(self, Decision::Go(draft) if draft.action.is_counted_later())
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
pub(crate) struct PolicyAnswers {
    counters: ArrayVec<PolicyCounters, MAX_POLICIES>,
    stamps: Stamps,
    /// Name of the path that was chosen.
    path: Option<Arc<str>>,
    /// There were more questions than a plan can keep.
    has_overflown: bool,
}

impl PolicyAnswers {
    /// A policy decided about the packet, or none did.
    pub(super) fn note(&mut self, policy: Option<&PolicyEntry>, stamp: Stamp) {
        self.has_overflown |= !self.stamps.push(stamp);
        if let Some(policy) = policy {
            self.has_overflown |= self.counters.try_push(policy.counters().clone()).is_err();
        }
    }

    /// The plan hangs on this answer too, whose policy the packet does not count with.
    pub(super) fn note_stamp(&mut self, stamp: Stamp) {
        self.has_overflown |= !self.stamps.push(stamp);
    }

    /// The plan hangs on the answers of these rules of path selection.
    pub(super) fn note_steering(&mut self, stamp: SteerStamp) {
        self.stamps.steered = stamp;
    }

    /// The packet takes this path, or none.
    pub(super) fn note_path(&mut self, path: Option<Arc<str>>) {
        self.path = path;
    }

    /// Name of the path that the packets of the flow take.
    pub(crate) fn path(&self) -> Option<&Arc<str>> {
        self.path.as_ref()
    }

    /// Counts the packet with the policies that decided about it.
    pub(crate) fn count(&self, view: &View, h: &Headers) {
        for counters in &self.counters {
            counters.count(view.worker, 1, u64::from(h.total_len), view.now.wall_s);
        }
    }

    /// True if the flow's packets can count with more than policies.
    pub(crate) fn has_room(&self) -> bool {
        !self.counters.is_full()
    }

    /// Has the flow's packets count with more than policies.
    ///
    /// # Errors
    /// The plan has no room for the counters, which are given back.
    pub(crate) fn count_also(&mut self, counters: PolicyCounters) -> Result<(), PolicyCounters> {
        self.counters.try_push(counters).map_err(|full| full.element())
    }

    /// Makes the flow's plan of the answers, if a plan can keep all of them.
    pub(crate) fn take_plan(&mut self, action: Action) -> Option<(Plan, Stamps)> {
        let PolicyAnswers { counters, stamps, has_overflown, .. } = self;
        if matches!(action, Action::HandOver { .. }) {
            // Counted where the packet goes.
            counters.clear();
        }
        (!*has_overflown).then(|| (Plan::new(action, mem::take(counters)), mem::take(stamps)))
    }
}

/// A report that is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// The SA whose packet it was.
    pub(crate) sa: SaHandle,
    /// Where that packet went.
    pub(crate) dst: IpAddr,
    /// MTU that the router reports, in bytes.
    pub(crate) mtu: u32,
}

/// Quotation of this host's own ESP in an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    /// A packet that was sent.
    Sent(TooBig),
    /// None that was sent to this peer.
    Guess {
        /// Address of the peer.
        dst: IpAddr,
    },
}

/// How an error came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCame {
    /// By this interface.
    InClear {
        /// Index of the interface.
        ifindex: u32,
    },
    /// An SA has decrypted it.
    Protected,
}

/// Answer of the policy database, without its references.
pub(super) enum Policy {
    /// A policy lets it pass, or none may apply to it.
    Clear,
    /// No policy is about it.
    Unnamed,
    /// Linux's, by this way if it is no port's packet; none if there is none.
    Leave(Option<LinuxWay>),
    Drop(DropReason),
    Wait(SaWait),
    Protect(SaHandle),
    ProtectAll(SaBundle),
}
