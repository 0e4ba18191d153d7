//! A flow's plan: what is done to each of its packets without a look-up.
//!
//! A plan is a kept decision of [`crate::resolve`]. [`Rooms::judge`](crate::features::Rooms::judge) says whether it holds
//! for a packet; [`crate::features`] carries it out.

use arrayvec::ArrayVec;
use policy::{PolicyCounters, Stamp, WorkerIndex};
use wire::Fields;

use crate::model::Action;
use crate::tables::steering::SteerStamp;
use crate::view::View;

/// The plan of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    /// Counters of the policies that allowed it.
    counters: [Option<PolicyCounters>; MAX_POLICIES],
}

/// A plan holds as long as databases and rules would answer the same to all of these questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    policies: ArrayVec<Stamp, MAX_QUESTIONS>,
    /// The rules of path selection that chose the flow's path.
    pub(crate) steered: SteerStamp,
}

impl Stamps {
    /// Adds the answer to one more question. False if there is no room for it.
    pub(crate) fn push(&mut self, stamp: Stamp) -> bool {
        self.policies.try_push(stamp).is_ok()
    }

    /// True if all would be answered the same.
    pub(crate) fn hold(&self, view: &View) -> bool {
        self.policies.iter().all(|stamp| view.reader.holds(*stamp))
            && view.steering.holds(self.steered)
    }
}

/// Questions to the policy database about one packet: one on its way in, one on its way out, and one at
/// the tunnel interface that it is routed to.
pub(crate) const MAX_QUESTIONS: usize = 3;

/// The most policies that a plan counts packets with: one of each way. A bypass policy in front of a
/// tunnel interface is the rare third.
pub(crate) const MAX_POLICIES: usize = 2;

impl Plan {
    pub(crate) fn new(action: Action, counters: ArrayVec<PolicyCounters, MAX_POLICIES>) -> Plan {
        let mut counters = counters.into_iter();
        Plan { action, counters: core::array::from_fn(|_| counters.next()) }
    }

    /// Counters of the policies that allowed the flow.
    #[inline(always)]
    pub(crate) fn counters(&self) -> impl Iterator<Item = &PolicyCounters> {
        self.counters.iter().flatten()
    }

    /// Counts a packet with the policies that allowed it.
    #[inline(always)]
    pub(crate) fn count(&self, worker: WorkerIndex, h: Fields, now_s: u64) {
        for counters in self.counters() {
            counters.count(worker, 1, u64::from(h.total_len()), now_s);
        }
    }
}
