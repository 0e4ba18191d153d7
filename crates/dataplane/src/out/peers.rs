//! Packets handed from one worker to another.
//!
//! A packet goes to the home of its SA before anything of it is counted or changed: the home resolves
//! it as if it had received it. A frame that is ready goes to a worker that has a queue of its
//! interface. Packets of one flow take one way, so their order is kept.

use std::sync::Arc;

use arrayvec::ArrayVec;
use dispatch::{Peer, Refused, Sleepers};
use io::BURST_LEN;

use crate::event::Waker;
use crate::model::Parcel;

/// A worker's ends of the queues from and to the others.
pub(crate) struct Peers {
    peer: Peer<Parcel>,
    wakers: Arc<[Waker]>,
    sleepers: Sleepers,
    /// Arrived packets that were handed over since the ports' turn began.
    handed: usize,
    /// To which worker the last of them went.
    handed_to: usize,
    /// The ports have their next turn at this time, in nanoseconds, at the latest ...
    ports_wait_until: u64,
    /// ... or after so many rounds.
    ports_wait_rounds: u32,
}

/// How long ports wait for a worker that is behind.
const PORTS_WAIT_NS: u64 = 50_000;

/// How many rounds they wait: about as long on a worker that has nothing else to do. It ends the
/// wait where the caller's clock stands still.
const PORTS_WAIT_ROUNDS: u32 = 256;

impl Peers {
    pub(crate) fn new(peer: Peer<Parcel>, wakers: Arc<[Waker]>, sleepers: Sleepers) -> Peers {
        Peers {
            peer,
            wakers,
            sleepers,
            handed: 0,
            handed_to: 0,
            ports_wait_until: 0,
            ports_wait_rounds: 0,
        }
    }

    /// True if ports should wait: their packets are for a worker that is behind. A worker that
    /// receives faster than another encrypts would otherwise keep it from its own ports, and most
    /// of the packets that it hands over would be dropped.
    pub(crate) fn ports_wait(&mut self, now_ns: u64) -> bool {
        self.handed = 0;
        self.ports_wait_rounds = self.ports_wait_rounds.saturating_sub(1);
        self.ports_wait_rounds > 0
            && now_ns < self.ports_wait_until
            && self.peer.is_ahead_of(self.handed_to)
    }

    /// The ports have had their turn, and brought `came` packets. They wait only if all of them were
    /// for others: a worker's own packets do not wait for another worker.
    pub(crate) fn end_turn(&mut self, came: usize, now_ns: u64) {
        let is_for_others = came > 0 && self.handed >= came;
        self.ports_wait_rounds = if is_for_others { PORTS_WAIT_ROUNDS } else { 0 };
        self.ports_wait_until = now_ns + PORTS_WAIT_NS;
    }

    /// The worker's number.
    pub(crate) fn worker(&self) -> usize {
        self.peer.worker()
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.peer.workers()
    }

    /// Takes over what others have handed over.
    pub(crate) fn receive(&mut self, into: &mut ArrayVec<Parcel, BURST_LEN>) {
        self.peer.receive(into, BURST_LEN);
    }

    /// Wakes those who sleep and were handed something.
    pub(crate) fn wake(&mut self) {
        let Peers { peer, wakers, .. } = self;
        peer.wake(|worker| wakers.get(worker).into_iter().for_each(Waker::wake));
    }

    /// Announces that the worker is about to sleep; false if there is something to take over.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.sleepers.prepare(self.peer.worker());
        self.peer.is_empty()
    }

    /// The worker does not sleep any more.
    pub(crate) fn awake(&self) {
        self.sleepers.awake(self.peer.worker());
    }

    /// An arrived packet is handed to this worker.
    pub(super) fn note_handed(&mut self, to: usize) {
        self.handed += 1;
        self.handed_to = to;
    }

    /// Hands something over; it comes back if the queue there is full.
    pub(super) fn send(&mut self, to: usize, parcel: Parcel) -> Result<(), Refused<Parcel>> {
        self.peer.send(to, parcel)
    }
}
