//! Mesh: parcels from each worker to each other worker.
//!
//! A [`directed`] queue for each ordered pair of workers: `n * (n - 1)` of them, each of
//! `depth` items. So a sender shares no line with another sender, one that sends too much fills its own
//! queue only, and a send or a take needs no locked instruction.
//!
//! ```text
//!              to 0     to 1     to 2
//!   Peer 0      -      [....]   [....]      send(1, parcel), send(2, parcel)
//!   Peer 1    [....]     -      [....]
//!   Peer 2    [....]   [....]     -
//!             receive()  of Peer 0: its column, each queue in turn
//! ```
//!
//! # Contract
//!
//! - Threads: each [`Peer`] belongs to one worker's thread at a time. The mesh itself is shared by none.
//! - Order: the parcels of one sender to one receiver are received in the order in which they were sent.
//!   Nothing is said about parcels of different senders.
//! - Memory order: all that a sender did before [`Peer::send`] happens before what the receiver does after
//!   it has received the parcel.
//! - Bounded: memory is `n * (n - 1) * depth` items, from the beginning.
//! - Full: [`Peer::send`] gives the parcel back and never waits. The caller drops it with a reason of its
//!   own that it counts. Two workers that send to each other and wait for room would wait for ever.
//! - Gone: a parcel to a peer that was dropped comes back as [`Refused::Closed`]; parcels that it
//!   left come back by [`Peer::take_back`], and are dropped with the last end otherwise.
//!
//! # Sleep
//!
//! A sender calls [`Peer::wake`] once a burst. It names the receivers that sleep, by the [`Sleepers`] that
//! all workers share. A receiver that wants to sleep does as described there, and asks
//! [`Peer::is_empty`] after [`Sleepers::prepare`].
//!
//! # Example
//!
//! ```
//! use arrayvec::ArrayVec;
//! use dispatch::{Sleepers, mesh::Mesh};
//!
//! let sleepers = Sleepers::new();
//! let mut peers = Mesh::<&str>::new(2, 256, &sleepers).into_iter();
//! let (mut here, mut there) = (peers.next().unwrap(), peers.next().unwrap());
//! sleepers.prepare(1);
//! here.send(1, "a packet").expect("room");
//! here.wake(|worker| assert_eq!(worker, 1, "write its eventfd"));
//! let mut parcels: ArrayVec<&str, 64> = ArrayVec::new();
//! assert_eq!(there.receive(&mut parcels, 64), 1);
//! assert_eq!(parcels.as_slice(), ["a packet"]);
//! ```

use arrayvec::ArrayVec;

use crate::directed::{self, Consumer, Producer};
use crate::outcome::Refused;
use crate::sleep::Sleepers;

/// The peers of a set of workers, before each goes to its worker.
pub struct Mesh<T> {
    peers: Vec<Peer<T>>,
}

impl<T> Mesh<T> {
    /// A mesh of `workers` workers, with room for at least `depth` parcels (rounded up to a power of two)
    /// from each to each. The peers come in the order of the workers' numbers, from 0.
    ///
    /// # Panics
    ///
    /// With more workers than [`Sleepers::MOST`], or a depth above 2^31.
    pub fn new(workers: usize, depth: usize, sleepers: &Sleepers) -> Self {
        assert!(workers <= Sleepers::MOST, "{workers} workers of {}", Sleepers::MOST);
        let mut peers: Vec<Peer<T>> = (0..workers)
            .map(|me| Peer {
                me,
                to: (0..workers).map(|_| None).collect(),
                from: (0..workers).map(|_| None).collect(),
                first: 0,
                sent: 0,
                sleepers: sleepers.clone(),
            })
            .collect();
        for from in 0..workers {
            for to in (0..workers).filter(|to| *to != from) {
                let (producer, consumer) = directed::queue(depth);
                peers[from].to[to] = Some(producer);
                peers[to].from[from] = Some(consumer);
            }
        }
        Self { peers }
    }
}

impl<T> IntoIterator for Mesh<T> {
    type Item = Peer<T>;
    type IntoIter = std::vec::IntoIter<Peer<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.peers.into_iter()
    }
}

/// A worker's end: it sends to each other worker, and receives from each.
pub struct Peer<T> {
    me: usize,
    /// By receiver; none at the worker's own place.
    to: Box<[Option<Producer<T>>]>,
    /// By sender; none at the worker's own place.
    from: Box<[Option<Consumer<T>>]>,
    /// The sender that is served first by the next receive().
    first: usize,
    /// A bit for each receiver of something sent since the last wake().
    sent: u64,
    sleepers: Sleepers,
}

impl<T> Peer<T> {
    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.me
    }

    /// How many workers the mesh has, this one included.
    pub fn workers(&self) -> usize {
        self.to.len()
    }

    /// Puts a parcel into the queue to worker `to`, which [`Self::wake`] then wakes if it sleeps.
    ///
    /// # Errors
    ///
    /// The parcel comes back: [`Refused::Full`] without room, [`Refused::Closed`] if the worker has gone,
    /// does not exist, or is this one.
    #[inline]
    pub fn send(&mut self, to: usize, parcel: T) -> Result<(), Refused<T>> {
        let Some(producer) = self.to.get_mut(to).and_then(Option::as_mut) else {
            return Err(Refused::Closed(parcel));
        };
        producer.put(parcel)?;
        self.sent |= 1 << to;
        Ok(())
    }

    /// Puts as many parcels as there is room for into the queue to worker `to`, from the front, and says
    /// how many. The others stay, in their order.
    #[inline]
    pub fn send_many<const N: usize>(&mut self, to: usize, parcels: &mut ArrayVec<T, N>) -> usize {
        let Some(producer) = self.to.get_mut(to).and_then(Option::as_mut) else { return 0 };
        let count = producer.put_many(parcels);
        if count > 0 {
            self.sent |= 1 << to;
        }
        count
    }

    /// Calls `ring` with each worker to which something was sent since the last call, and which sleeps.
    /// Of several senders one is asked to ring. Costs nothing if nothing was sent, else a fence for
    /// each receiver.
    #[inline]
    pub fn wake(&mut self, mut ring: impl FnMut(usize)) {
        while self.sent != 0 {
            let worker = self.sent.trailing_zeros() as usize;
            self.sent &= self.sent - 1;
            if self.sleepers.needs_wake(worker) {
                ring(worker);
            }
        }
    }

    /// Takes up to `max` parcels for as long as `into` has room, and says how many. Each call begins with
    /// another sender, so that every sender's turn comes.
    #[inline]
    pub fn receive<const N: usize>(&mut self, into: &mut ArrayVec<T, N>, max: usize) -> usize {
        let workers = self.from.len();
        let mut left = max.min(into.remaining_capacity());
        let wanted = left;
        let (before, after) = self.from.split_at_mut(self.first);
        for consumer in after.iter_mut().chain(before).flatten() {
            if left == 0 {
                break;
            }
            left -= consumer.take_up_to(into, left);
        }
        self.first = if self.first + 1 < workers { self.first + 1 } else { 0 };
        wanted - left
    }

    /// True if there is nothing to receive now. May be called after [`Sleepers::prepare`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.from.iter().flatten().all(Consumer::is_empty)
    }

    /// True if the queue to worker `to` is more than half full. False if there is none.
    #[inline]
    pub fn is_ahead_of(&self, to: usize) -> bool {
        self.to.get(to).and_then(Option::as_ref).is_some_and(Producer::is_half_full)
    }

    /// When worker `to` has gone, the first of the parcels from this one that it left; else nothing.
    pub fn take_back(&mut self, to: usize) -> Option<T> {
        self.to.get_mut(to)?.as_mut()?.take_back()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn peers<const N: usize>(depth: usize, sleepers: &Sleepers) -> [Peer<u32>; N] {
        let peers: Vec<Peer<u32>> = Mesh::new(N, depth, sleepers).into_iter().collect();
        peers.try_into().ok().unwrap()
    }

    #[test]
    fn each_pair_has_its_own_room_and_order() {
        let [mut a, mut b, mut c] = peers(2, &Sleepers::new());
        assert_eq!((a.worker(), c.worker(), b.workers()), (0, 2, 3));
        for number in 0..2 {
            a.send(2, number).unwrap();
            b.send(2, 10 + number).unwrap();
        }
        assert_eq!(a.send(2, 9), Err(Refused::Full(9)));
        assert_eq!(a.send(1, 7), Ok(()), "that to another is not full");
        assert!(!c.is_empty() && a.is_ahead_of(2) && !a.is_ahead_of(1) && !a.is_ahead_of(0));
        let mut out: ArrayVec<u32, 8> = ArrayVec::new();
        assert_eq!(c.receive(&mut out, 3), 3);
        assert_eq!(out.as_slice(), [0, 1, 10]);
        assert_eq!(c.receive(&mut out, 0), 0);
        assert_eq!(c.receive(&mut out, 8), 1);
        assert_eq!(out.as_slice(), [0, 1, 10, 11]);
        assert!(c.is_empty() && a.is_empty() && !b.is_empty());
        assert!(!a.is_ahead_of(2), "all was taken");
    }

    #[test]
    fn a_sender_that_never_stops_leaves_the_others_their_turn() {
        let [mut a, mut b, mut c] = peers(4, &Sleepers::new());
        b.send(2, 100).unwrap();
        let mut received = Vec::new();
        for number in 0..4 {
            let mut burst: ArrayVec<u32, 8> = core::iter::repeat_n(number, 8).collect();
            a.send_many(2, &mut burst);
            let mut out: ArrayVec<u32, 4> = ArrayVec::new();
            c.receive(&mut out, 4);
            received.extend(out);
        }
        assert!(received.contains(&100), "{received:?}");
    }

    #[test]
    fn there_is_no_queue_to_oneself_nor_to_nobody() {
        let [mut a, b] = peers(4, &Sleepers::new());
        assert_eq!(a.send(0, 1), Err(Refused::Closed(1)));
        assert_eq!(a.send(2, 1), Err(Refused::Closed(1)));
        assert_eq!(a.send_many(0, &mut ArrayVec::from([1])), 0);
        a.send(1, 2).unwrap();
        assert_eq!(a.take_back(1), None, "it lives");
        drop(b);
        assert_eq!(a.send(1, 3), Err(Refused::Closed(3)));
        assert_eq!((a.take_back(1), a.take_back(1), a.take_back(5)), (Some(2), None, None));
    }

    #[test]
    fn one_worker_alone_has_nobody() {
        let [mut a] = peers(4, &Sleepers::new());
        assert_eq!(a.receive(&mut ArrayVec::<u32, 4>::new(), 4), 0);
        assert!(a.is_empty());
    }

    #[test]
    fn sleepers_are_rung_once_for_what_was_sent() {
        let sleepers = Sleepers::new();
        let [mut a, mut b, _c, _d] = peers(4, &sleepers);
        for worker in [1, 2, 3] {
            sleepers.prepare(worker);
        }
        let rung = |peer: &mut Peer<u32>| {
            let mut rung = Vec::new();
            peer.wake(|worker| rung.push(worker));
            rung
        };
        assert!(rung(&mut a).is_empty(), "nothing was sent");
        a.send(1, 1).unwrap();
        a.send_many(3, &mut ArrayVec::from([1, 2]));
        b.send(3, 3).unwrap();
        assert_eq!(rung(&mut a), [1, 3]);
        assert!(rung(&mut a).is_empty());
        assert!(rung(&mut b).is_empty(), "it was rung already");
        a.send(1, 2).unwrap();
        assert!(rung(&mut a).is_empty(), "it is awake");
    }
}
