//! Several cores for one SA: bursts are encrypted and decrypted by a pool of threads, and come back
//! in their order.
//!
//! ```text
//!   worker                                             crypto threads (and the worker, idle)
//!   receive, classify, limits, numbers ──> ordered ──> headers, cipher, content of each packet
//!   replay window, counters, routes,   <── queue   <──
//!   transmit, in the order of submission
//! ```
//!
//! All that an SA counts has one writer still, the worker: it gives out the numbers when it
//! submits a burst, and checks the replay window when the burst comes back. So packets leave in the
//! order of their numbers, and no peer sees them out of order by more than the network does.
//!
//! The worker is one of the pool: when the queue is full, and when it has nothing else to do, it
//! takes a burst like any other thread. So with too few crypto threads the rate is that of all
//! threads together, with none that of the worker alone, and nothing is ever dropped for want of
//! room in the queue.
//!
//! A burst under way holds its SAs: one that is deleted meanwhile stays until its burst is back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use arrayvec::ArrayVec;
use core::time::Duration;
use crypto::Engine;
use dispatch::Sleepers;
use dispatch::ordered::{self, Released, Releaser, Submitter};
use esp::{IvSource, Sa};
use io::Packet;
use outcome::{DropReason, Outcome};
use policy::{Reader, SaEntry, SaHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::ethernet::HEADER_LEN;

use crate::event::Waker;
use crate::flow_cache::FlowHash;
use crate::idle::Polling;
use crate::opening::{Opens, open_all};
use crate::sealing::Seals;
use crate::worker::{CRYPTO_BURST_LEN, Worker};

/// The SAs of a burst: an item's is found by its place in the burst.
#[derive(Default)]
pub(crate) struct HeldSas {
    sas: ArrayVec<Arc<SaEntry<Sa>>, CRYPTO_BURST_LEN>,
    places: ArrayVec<u8, CRYPTO_BURST_LEN>,
}

impl HeldSas {
    /// Holds the SAs of a burst's items, in their order; false if one is gone.
    pub(crate) fn hold(
        &mut self,
        reader: &Reader<Sa>,
        items: impl Iterator<Item = SaHandle>,
    ) -> bool {
        self.clear();
        let mut last = None;
        for sa in items {
            if last != Some(sa) {
                let Some(entry) = reader.shared_sa(sa) else { return false };
                if self.sas.try_push(Arc::clone(entry)).is_err() {
                    return false;
                }
                last = Some(sa);
            }
            if self.places.try_push(self.sas.len() as u8 - 1).is_err() {
                return false;
            }
        }
        true
    }

    pub(crate) fn get(&self, item: usize) -> Option<&Arc<SaEntry<Sa>>> {
        self.sas.get(usize::from(*self.places.get(item)?))
    }

    pub(crate) fn clear(&mut self) {
        self.sas.clear();
        self.places.clear();
    }
}

/// A burst for any thread.
enum Work {
    Seal(Box<Seals>),
    Open(Box<Opens>),
}

impl Work {
    fn len(&self) -> usize {
        match self {
            Work::Seal(seals) => seals.len(),
            Work::Open(opens) => opens.len(),
        }
    }

    /// Asks for what another core has written of it last, but for the packets.
    fn prefetch(&self) {
        match self {
            Work::Seal(seals) => seals.prefetch(),
            Work::Open(opens) => opens.prefetch(),
        }
    }

    /// Best called some time after [`Work::prefetch`].
    fn run(&mut self, engine: &mut dyn Engine, ivs: &mut IvSource, hasher: &FlowHash) {
        match self {
            Work::Seal(seals) => seals.run(engine, ivs),
            Work::Open(opens) => {
                let Opens { packets, notes, heads, held } = &mut **opens;
                packets.iter().for_each(|packet| claim(packet, 0, packet.span.len));
                let sa_of = |at, _| held.get(at).map(|sa| &sa.esp);
                open_all(packets, notes, heads, sa_of, engine, hasher);
            }
        }
    }
}

/// The worker's side.
pub(crate) struct CryptoPool {
    submitter: Submitter<Work>,
    helper: ordered::Worker<Work>,
    releaser: Releaser<Work>,
    /// Released, to be moved on at the end of the round.
    released: VecDeque<Released<Work>>,
    spare_seals: Vec<Box<Seals>>,
    spare_opens: Vec<Box<Opens>>,
    sleepers: Sleepers,
    wakers: Vec<Waker>,
    /// Bursts that are not moved on yet.
    under_way: usize,
    /// Bursts that no crypto thread was woken for yet.
    unannounced: usize,
}

/// One crypto thread's side; see [`CryptoWorker::run`].
pub struct CryptoWorker {
    work: ordered::Worker<Work>,
    engine: Box<dyn Engine>,
    ivs: IvSource,
    hasher: FlowHash,
    sleepers: Sleepers,
    number: usize,
    waker: Waker,
}

impl CryptoWorker {
    /// Works until the worker that it serves is gone.
    ///
    /// When there is nothing to do it looks for a while, then sleeps until it is woken; with
    /// [`Polling::Always`] it never sleeps.
    pub fn run(mut self, polling: Polling) {
        let mut idle_since: Option<Instant> = None;
        while !self.work.is_closed() {
            let mut next = take(&self.work);
            while let Some(mut taken) = next {
                // Of the next burst comes near what it takes, while this one is worked on.
                next = take(&self.work);
                for work in taken.iter_mut() {
                    work.run(&mut *self.engine, &mut self.ivs, &self.hasher);
                }
                taken.finish();
                idle_since = None;
            }
            match idle_since {
                Some(since) if polling == Polling::Adaptive && since.elapsed() > LOOK => {
                    self.sleep();
                    idle_since = None;
                }
                Some(_) => core::hint::spin_loop(),
                None => idle_since = Some(Instant::now()),
            }
        }
    }

    fn sleep(&self) {
        self.sleepers.prepare(self.number);
        if self.work.is_empty() && !self.work.is_closed() {
            let mut fds = [PollFd::new(&self.waker, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
            // Woken, timed out or interrupted: looks again in any case.
            let _ = poll(&mut fds, Some(&timeout));
            self.waker.clear();
        }
        self.sleepers.awake(self.number);
    }
}

impl Worker {
    /// Gives the worker a pool of crypto threads, one for each engine; the caller runs each on a
    /// thread of its own. Before the first round.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub fn add_crypto_pool(
        &mut self,
        engines: Vec<(Box<dyn Engine>, IvSource)>,
    ) -> std::io::Result<Vec<CryptoWorker>> {
        let (submitter, helper, releaser) = ordered::queue(QUEUE_LEN);
        let sleepers = Sleepers::new();
        let mut workers = Vec::with_capacity(engines.len());
        let mut wakers = Vec::with_capacity(engines.len());
        for (number, (engine, ivs)) in engines.into_iter().take(Sleepers::MOST).enumerate() {
            let waker = Waker::new()?;
            wakers.push(waker.clone());
            let hasher = self.flows.hasher().clone();
            let (work, sleepers) = (helper.clone(), sleepers.clone());
            workers.push(CryptoWorker { work, engine, ivs, hasher, sleepers, number, waker });
        }
        let spare = QUEUE_LEN * 2;
        self.crypto = Some(Box::new(CryptoPool {
            submitter,
            helper,
            releaser,
            released: VecDeque::with_capacity(spare),
            spare_seals: (0..spare).map(|_| Box::default()).collect(),
            spare_opens: (0..spare).map(|_| Box::default()).collect(),
            sleepers,
            wakers,
            under_way: 0,
            unannounced: 0,
        }));
        Ok(workers)
    }

    /// Bursts that are with the pool.
    pub(crate) fn under_way(&self) -> usize {
        self.crypto.as_ref().map_or(0, |pool| pool.under_way)
    }

    /// Hands a burst to the pool; an empty one comes back in its place.
    pub(crate) fn submit_seals(&mut self, mut seals: Box<Seals>) -> Box<Seals> {
        // A handle is good for the round: this is the round that it was found in.
        seals.hold(&self.reader);
        self.submit(Work::Seal(seals));
        self.crypto.as_mut().and_then(|pool| pool.spare_seals.pop()).unwrap_or_default()
    }

    /// The same for a burst that is to be opened.
    pub(crate) fn submit_opens(&mut self, mut opens: Box<Opens>) -> Box<Opens> {
        let Opens { packets, notes, held, .. } = &mut *opens;
        held.hold(&self.reader, Opens::sas(notes, packets.len()));
        self.submit(Work::Open(opens));
        self.crypto.as_mut().and_then(|pool| pool.spare_opens.pop()).unwrap_or_default()
    }

    fn submit(&mut self, mut work: Work) {
        self.counters.count(Outcome::Held, work.len() as u64);
        let Some(pool) = &mut self.crypto else { return };
        pool.under_way += 1;
        pool.unannounced += 1;
        loop {
            match pool.submitter.put(work) {
                Ok(()) => break,
                // Closed cannot be: the worker holds all parts itself.
                Err(refused) => work = refused.into_item(),
            }
            // Full: the worker does its share, and makes room in the order of submission.
            help(&pool.helper, &mut *self.engine, &mut self.ivs, self.flows.hasher());
            while let Some(released) = pool.releaser.release() {
                pool.released.push_back(released);
            }
        }
    }

    /// Wakes crypto threads for what was submitted, as many as there are bursts.
    ///
    /// Once a round: whoever asks who sleeps waits until the other cores have seen all that it wrote
    /// before, which by then they have.
    fn announce(&mut self) {
        let Some(pool) = &mut self.crypto else { return };
        for _ in 0..core::mem::take(&mut pool.unannounced) {
            let Some(sleeper) = pool.sleepers.wake_one() else { break };
            if let Some(waker) = pool.wakers.get(sleeper) {
                waker.wake();
            }
        }
    }

    /// Moves on what the pool has done; `is_idle` if the round brought nothing else to do.
    pub(crate) fn collect(&mut self, is_idle: bool) {
        if is_idle && let Some(pool) = &mut self.crypto {
            help(&pool.helper, &mut *self.engine, &mut self.ivs, self.flows.hasher());
        }
        self.announce();
        let mut next = self.next_released();
        while let Some(released) = next {
            // Of the next burst comes near what it takes, while this one is moved on.
            next = self.next_released();
            match released {
                Released::Finished(work) => self.move_on(work),
                // A crypto thread panicked: nothing half done may leave.
                Released::Unfinished(work) | Released::Untouched(work) => self.give_up(work),
            }
        }
        // What was decrypted and goes into another tunnel.
        self.seal_gathered();
        self.announce();
    }

    fn next_released(&mut self) -> Option<Released<Work>> {
        let pool = self.crypto.as_mut()?;
        let released = pool.released.pop_front().or_else(|| pool.releaser.release())?;
        pool.under_way -= 1;
        if let Released::Finished(work) = &released {
            work.prefetch();
        }
        Some(released)
    }

    fn move_on(&mut self, work: Work) {
        self.counters.released(work.len() as u64);
        match work {
            Work::Seal(mut seals) => {
                self.send_sealed(&mut seals);
                if let Some(pool) = &mut self.crypto {
                    pool.spare_seals.push(seals);
                }
            }
            Work::Open(mut opens) => {
                // The inner header, and where the next Ethernet header goes.
                opens.packets.iter().for_each(|packet| claim(packet, HEADER_LEN, HEADER_LEN));
                self.accept_all(&mut opens);
                if let Some(pool) = &mut self.crypto {
                    pool.spare_opens.push(opens);
                }
            }
        }
    }

    #[cold]
    fn give_up(&mut self, work: Work) {
        self.counters.released(work.len() as u64);
        match work {
            Work::Seal(seals) => {
                for packet in seals.into_packets() {
                    self.drop_packet(packet, DropReason::OutCrypto);
                }
            }
            Work::Open(opens) => {
                for packet in opens.packets {
                    self.drop_packet(packet, DropReason::InCrypto);
                }
            }
        }
    }

    /// Finishes all that is with the pool.
    pub(crate) fn drain_crypto_pool(&mut self) {
        while self.under_way() > 0 {
            self.collect(true);
        }
    }
}

/// Brings near the lines of a packet, from so many bytes in front of it to `len` bytes from its
/// start, to be written: another core may have written them last. Of a long one the first lines:
/// the others follow in order, which the processor notices by itself.
#[inline]
pub(crate) fn claim(packet: &Packet, in_front: usize, len: usize) {
    let mut at = in_front.wrapping_neg();
    let mut left = (in_front + len).min(CLAIM_LEN);
    packet.prefetch_to_write(at);
    while left > mem::LINE_LEN {
        at = at.wrapping_add(mem::LINE_LEN);
        left -= mem::LINE_LEN;
        packet.prefetch_to_write(at);
    }
    packet.prefetch_to_write(at.wrapping_add(left));
}

/// Takes a burst that nobody has, if there is one, and asks for it.
#[inline]
fn take(queue: &ordered::Worker<Work>) -> Option<ordered::Work<'_, Work>> {
    let mut taken = queue.take(1)?;
    taken.iter_mut().for_each(|work| work.prefetch());
    Some(taken)
}

/// Does one burst, if there is one that nobody has.
fn help(
    helper: &ordered::Worker<Work>,
    engine: &mut dyn Engine,
    ivs: &mut IvSource,
    hasher: &FlowHash,
) {
    match take(helper) {
        Some(mut taken) => {
            for work in taken.iter_mut() {
                work.run(engine, ivs, hasher);
            }
            taken.finish();
        }
        None => core::hint::spin_loop(),
    }
}

/// Bursts under way at most: enough for every thread to have one and the next.
const QUEUE_LEN: usize = 16;

/// Bytes of a packet that are asked for before it is worked on.
const CLAIM_LEN: usize = 4 * mem::LINE_LEN;

/// How long a crypto thread looks for work before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// The longest sleep: so that the end of the worker is seen.
const SLEEP: Duration = Duration::from_millis(50);
