//! Packets handed from one worker to another.
//!
//! A packet goes to the home of its SA before anything of it is counted or changed: the home resolves
//! it as if it had received it. A frame that is ready goes to a worker that has a queue of its
//! interface. Packets of one flow take one way, so their order is kept.

use std::sync::Arc;

use arrayvec::ArrayVec;
use dispatch::{Peer, Sleepers};
use esp::Sa;
use io::{BURST_LEN, Packet};
use limit::{Passed, Visit};
use outcome::DropReason;
use policy::{SaBundle, SaEntry};
use wire::Fields;

use crate::event::Waker;
use crate::flows::Ingress;
use crate::fragments::Ports;
use crate::packets::{Meta, Origin, Out, Outers};
use crate::view::View;
use crate::worker::batch::Left;

/// What goes from one worker to another.
pub(crate) struct Parcel {
    pub(crate) handed: Handed,
    /// Of a packet that is on its way to the home of its limiters, or has been there.
    pub(crate) judging: Option<Judging>,
}

/// What the home of a packet's limiters is asked, and what it has said.
pub(crate) struct Judging {
    /// While it is there, other packets go the same way.
    pub(crate) visit: Visit,
    /// The worker that asks.
    pub(crate) from: u8,
    /// The packet's length.
    pub(crate) len: u16,
    pub(crate) dscp: u8,
    /// It has its tokens.
    pub(crate) passed: Option<Passed>,
}

/// What is handed over.
pub(crate) enum Handed {
    /// A packet that arrived, or was decrypted.
    Arrived(Arrived),
    /// A packet that was resolved before: held, or made by the worker. Of a fragment, what its packet's
    /// first one has for ports, if that was found out.
    Again(Packet, Origin, Option<Ports>),
    /// A packet that the homes of its inner SAs have sealed, and the SAs that are left.
    Sealed(Packet, SaBundle),
    /// A frame for a slot of the receiving worker, or a packet for its private interface.
    Frame(Packet, Option<u16>),
}

/// A packet that arrived at another worker; its span is the IP packet.
pub(crate) struct Arrived {
    pub(crate) packet: Packet,
    pub(crate) ingress: Ingress,
    pub(crate) has_flow: bool,
    /// The SAs that it came through before the last, if there are any.
    pub(crate) outers: Option<Outers>,
    /// The SA that it was decrypted by, which may be removed meanwhile.
    pub(crate) held: Option<Arc<SaEntry<Sa>>>,
    /// Of a fragment, what its packet's first one has for ports, if that was found out.
    pub(crate) ports: Option<Ports>,
}

impl Arrived {
    /// A packet with all that is known of how it came.
    pub(crate) fn new(view: &View, packet: Packet, meta: &Meta) -> Arrived {
        let via = meta.ingress.via();
        let held = via.and_then(|via| view.reader.shared_sa(via)).map(Arc::clone);
        let (ingress, has_flow, outers) = (meta.ingress, meta.has_flow, meta.outers().cloned());
        Arrived { packet, ingress, has_flow, outers, held, ports: None }
    }
}

impl Judging {
    /// Of a packet of this worker with such headers.
    pub(crate) fn of(visit: Visit, view: &View, h: Fields) -> Judging {
        // A worker's number is below 256.
        let (from, len, dscp) = (view.worker.get() as u8, h.total_len(), h.traffic_class() >> 2);
        Judging { visit, from, len, dscp, passed: None }
    }
}

impl Handed {
    pub(crate) fn into_packet(self) -> Packet {
        match self {
            Handed::Arrived(Arrived { packet, .. }) => packet,
            Handed::Again(packet, ..) | Handed::Sealed(packet, _) | Handed::Frame(packet, _) => {
                packet
            }
        }
    }
}

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

    /// Whether ports should wait: what they bring is for a worker that is behind. A worker that
    /// receives faster than another encrypts would otherwise keep it from its own ports, and most of
    /// what it hands over would be dropped.
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
}

impl Out {
    /// Hands a packet that arrived to another worker.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_over(&mut self, view: &View, to: usize, packet: Packet, meta: &Meta) {
        if self.batch.is_some() {
            // A helper has no peers: the worker that it serves hands over.
            return self.leave(view, packet, meta);
        }
        if let Some(peers) = &mut self.peers {
            peers.handed += 1;
            peers.handed_to = to;
        }
        self.hand(to, Handed::Arrived(Arrived::new(view, packet, meta)));
    }

    /// Leaves a packet of a helper to the worker that it serves.
    #[cold]
    pub(crate) fn leave(&mut self, view: &View, packet: Packet, meta: &Meta) {
        let via = meta.ingress.via();
        let held = via.and_then(|via| view.reader.shared_sa(via)).map(Arc::clone);
        match &mut self.batch {
            Some(batch) => batch.leave(Left { packet, meta: meta.clone(), held }),
            None => self.drop(packet, DropReason::InDeflateTooLong),
        }
    }

    /// Hands something to another worker; it is dropped if the queue there is full.
    pub(crate) fn hand(&mut self, to: usize, handed: Handed) {
        self.send_parcel(to, Parcel { handed, judging: None });
    }

    /// Hands a packet to the home of its limiters.
    pub(crate) fn ask(&mut self, to: usize, handed: Handed, judging: Judging) {
        if let (Some(peers), Handed::Arrived(_)) = (&mut self.peers, &handed) {
            peers.handed += 1;
            peers.handed_to = to;
        }
        self.send_parcel(to, Parcel { handed, judging: Some(judging) });
    }

    /// Hands something to another worker; it is dropped if the queue there is full.
    pub(crate) fn send_parcel(&mut self, to: usize, parcel: Parcel) {
        if let Some(taps) = &mut self.taps {
            taps.handed(&parcel.handed);
        }
        let parcel = match &mut self.peers {
            Some(peers) => match peers.peer.send(to, parcel) {
                Ok(()) => return self.counters.handed_over.add(1),
                Err(refused) => refused.into_item(),
            },
            None => parcel,
        };
        self.drop(parcel.handed.into_packet(), DropReason::HandOverFull);
    }
}
