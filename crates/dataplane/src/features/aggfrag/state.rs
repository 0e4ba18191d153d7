//! State of one worker's packing and unpacking.

use std::collections::VecDeque;

use outcome::Outcome;

use super::receivers::Receivers;
use super::sender::Senders;
use crate::model::Payload;
use crate::out::Out;

/// The senders and receivers of one worker.
#[derive(Default)]
pub(crate) struct Aggfrag {
    /// Since there was a packet for one.
    pub(super) senders: Option<Box<Senders>>,
    /// Since there was a payload for one; away while packets out of payloads are moved on.
    pub(crate) receivers: Option<Box<Receivers>>,
    /// Payloads of constant rates that wait for their time, of all SAs.
    pub(super) ready: usize,
    /// Payloads in the order of arrival.
    pub(crate) arrived: VecDeque<Payload>,
    /// True if payloads are among the packets just accepted.
    pub(crate) has_new: bool,
}

impl Aggfrag {
    #[inline(always)]
    pub(crate) fn has_new(&self) -> bool {
        self.has_new
    }

    pub(crate) fn note_new(&mut self) {
        self.has_new = true;
    }

    /// True if a payload waits to be taken apart.
    #[inline(always)]
    pub(crate) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    #[inline(always)]
    pub(crate) fn has_senders(&self) -> bool {
        self.senders.is_some()
    }

    /// True if any SA is of IP-TFS mode.
    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        self.senders.is_some() || self.receivers.is_some()
    }

    /// When there has to be a round at the latest; none if nothing waits for a time.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let senders = self.senders.as_ref().and_then(|senders| senders.due_ns());
        let receivers = self.receivers.as_ref().and_then(|receivers| receivers.due_ns());
        senders.into_iter().chain(receivers).min()
    }

    /// True if a round has left something that is due: packets came behind the place where it
    /// looks for that.
    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.is_used() && self.due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// True if a missing payload was waited for long enough.
    pub(crate) fn is_overdue(&self, now_ns: u64) -> bool {
        let due_ns = self.receivers.as_ref().and_then(|receivers| receivers.due_ns());
        due_ns.is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// Tables have changed: where payloads go has to be found out again.
    #[inline]
    pub(crate) fn forget_ways(&mut self) {
        if let Some(senders) = &mut self.senders {
            senders.forget_ways();
        }
    }

    /// Takes a payload over that was accepted here, or by a helper, and keeps it until it is taken apart.
    pub(crate) fn take(&mut self, out: &mut Out, payload: Payload) {
        out.counters.count(Outcome::Held, 1);
        self.arrived.push_back(payload);
    }
}
