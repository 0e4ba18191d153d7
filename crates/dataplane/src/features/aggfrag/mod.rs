//! IP-TFS (RFC 9347): packets that an SA carries in payloads, many in one and one in many.
//!
//! ```text
//!   apply ── Action::Aggregate ──> Sender ── payload ──> crypt ──> out
//!                                   full, due, or it is a constant rate's turn
//!   crypt ── accepted payload ───> Receiver ── inner packets ──> flows, as what the SA has decrypted
//!                                   in order, pieces joined
//! ```
//!
//! Each SA has one sender or receiver, at its home: so payloads are filled, numbered and taken apart by one thread, in
//! order. A packet is copied into a payload at once, and ends as consumed; the payload is a packet that the worker has made, and
//! holds until it leaves. The other way round a payload is held until it is its turn, and consumed when packets were made of
//! it. Helpers leave both to the worker.
//!
//! | a payload leaves | SA |
//! | --- | --- |
//! | when it is full; at the end of the round, or the first round after the delay | on demand |
//! | at its time, padded to its full size | constant rate |
//!
//! A constant rate may heed losses ([`control`], [`watch`]): then payloads report them, and what one SA brings is for the
//! rate of the other one of its pair.
//!
//! Timers are looked at once a round ([`Aggfrag::due_ns`] says when there has to be one). Without such an SA nothing of
//! this is there.

mod add;
mod control;

mod pace;
mod receive;
mod send;
mod sender;
mod unpack;
mod watch;

use std::collections::VecDeque;

use io::Packet;
use outcome::Outcome;
use policy::{IptfsCounters, SaEntry, SaHandle};

use crate::apply::Executor;
use crate::crypt::opens::OpenWork;
use crate::view::View;

pub(crate) use sender::{longest, payload_len};

pub(crate) use crate::model::Payload;
use receive::{Receivers, payload_of};
use sender::Senders;

/// What one worker packs and unpacks.
#[derive(Default)]
pub(crate) struct Aggfrag {
    /// Since there was a packet for one.
    senders: Option<Box<Senders>>,
    /// Since there was a payload for one; away while packets out of payloads are moved on.
    receivers: Option<Box<Receivers>>,
    /// Payloads of constant rates that wait for their time, of all SAs.
    ready: usize,
    /// Payloads in the order of arrival.
    arrived: VecDeque<Payload>,
    /// Whether some are among what has just been accepted.
    has_new: bool,
}

impl Aggfrag {
    #[inline(always)]
    pub(crate) fn has_new(&self) -> bool {
        self.has_new
    }

    pub(crate) fn note_new(&mut self) {
        self.has_new = true;
    }

    /// Whether a payload waits to be taken apart.
    #[inline(always)]
    pub(crate) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    #[inline(always)]
    pub(crate) fn has_senders(&self) -> bool {
        self.senders.is_some()
    }

    /// Whether there is anything.
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

    /// Whether a round has left something that is due: packets came behind the place where it looks for that.
    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.is_used() && self.due_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// Whether something that is missing was waited for long enough.
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
}

impl Executor {
    /// Keeps a payload that was accepted until it is taken apart. A helper leaves it to the worker.
    fn keep_payload(&mut self, packet: Packet, work: &OpenWork) {
        let payload = payload_of(packet, work);
        match &mut self.out.batch {
            Some(batch) => batch.keep_payload(payload),
            None => self.take_payload(payload),
        }
    }

    /// Takes a payload over that was accepted here, or by a helper.
    pub(crate) fn take_payload(&mut self, payload: Payload) {
        self.out.counters.count(Outcome::Held, 1);
        self.aggfrag.arrived.push_back(payload);
    }

    /// Gives up what is of SAs that are not there any more.
    pub(crate) fn sweep_payloads(&mut self, view: &View) {
        self.sweep_senders(view, false);
        self.sweep_receivers(view, false);
    }

    /// Gives up all: SAs have other homes from now on, or the worker goes.
    pub(crate) fn drop_payloads(&mut self, view: &View) {
        self.sweep_senders(view, true);
        self.sweep_receivers(view, true);
    }
}

/// Counts with an SA, which is of that mode if it has anything to count.
fn count<S>(sa: &SaEntry<S>, count: impl FnOnce(&IptfsCounters)) {
    if let Some(counters) = sa.iptfs() {
        count(counters);
    }
}

/// The place of an SA among those that have one.
#[derive(Default)]
struct Places {
    of: std::collections::HashMap<SaHandle, usize, ahash::RandomState>,
    last: Option<(SaHandle, usize)>,
}

impl Places {
    #[inline]
    fn get(&mut self, sa: SaHandle) -> Option<usize> {
        match self.last {
            Some((last, place)) if last == sa => Some(place),
            _ => {
                let place = *self.of.get(&sa)?;
                self.last = Some((sa, place));
                Some(place)
            }
        }
    }

    fn add(&mut self, sa: SaHandle, place: usize) {
        self.of.insert(sa, place);
    }

    /// Notes the places of these, in their order.
    fn set(&mut self, sas: impl Iterator<Item = SaHandle>) {
        self.last = None;
        self.of = sas.enumerate().map(|(place, sa)| (sa, place)).collect();
    }
}
