//! Several cores for one SA: whole bursts go to whichever thread is free, and leave in their order.
//!
//! ```text
//!   worker                                     helpers, and the worker itself
//!   receive a burst ───────────> ordered ────> parse, hash, plan or SA, decrypt      apart
//!                                queue         window, limits, counters, numbers     in turn
//!   ports, slow path,            of            headers, encrypt                      apart
//!   in the order of arrival <─── bursts <────
//! ```
//!
//! [`crate::worker::passes`] says what is done to a burst, and why it is safe. A helper has an
//! engine, a flow cache and a reader of the databases of its own, so of a packet nothing but its lines
//! moves from one core to another, and of a burst the list of its packets, there and back.
//!
//! The worker is one of the pool: as soon as the helpers have enough to do it takes a burst like any of
//! them, and has an engine, a flow cache and a reader for that beside those of its own path. So a path leads to one
//! kind of exit, [`Out`](crate::out::Out) or [`HelperOut`](crate::out::HelperOut), and none of its packets asks. With too few helpers the rate is that of all threads together, with none that of the worker
//! alone, and nothing is ever dropped for want of room in the queue. A burst of a few packets that
//! comes while nothing is under way is not worth a hand-over.
//!
//! A packet that helpers have sealed for a peer behind segments (SRv6) is one of its own then, which policies
//! count and perhaps another SA protects. So it waits until no helper is at work: until none has a burst, or
//! several bursts' worth has come together. What else must be done alone brings it to its end first, so that
//! it is not overtaken.

use dispatch::Sleepers;
use dispatch::ordered::{self, Released};
use io::{BURST_LEN, Burst};
use outcome::{DropReason, Outcome};

use crate::event::Waker;
use crate::features::Executor;
use crate::model::Source;
use crate::out::AnyOut;
use crate::out::batch::Batch;
use crate::slow::Alone;
use crate::worker::Worker;
use crate::worker::crypto_worker::CryptoWorker;
use crate::worker::helper::{CryptoParts, Helper};
use crate::worker::pool::{Helpers, Own};
use crate::worker::turns::{Item, spare_passes, work_on};

impl Worker {
    /// Gives the worker helpers, one for each of `parts`; the caller runs each on a thread of its own.
    /// Before it runs, or while it is paused. `own` is what the worker takes part in their work with: an engine,
    /// a flow cache and a view beside those that it moves packets with alone.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub fn add_crypto_pool(
        &mut self,
        own: CryptoParts,
        parts: Vec<CryptoParts>,
    ) -> std::io::Result<Vec<CryptoWorker>> {
        let (submitter, queue, releaser) = ordered::queue(QUEUE_LEN);
        let sleepers = Sleepers::new();
        let mut workers = Vec::with_capacity(parts.len());
        let mut wakers = Vec::with_capacity(parts.len());
        for (number, parts) in (0_u16..).zip(parts.into_iter().take(Sleepers::MOST)) {
            let waker = Waker::new()?;
            wakers.push(waker.clone());
            let ends = (queue.clone(), sleepers.clone(), waker);
            workers.push(CryptoWorker::new(Helper::new(&self.path, parts), number, ends));
        }
        let helper = Helper::new(&self.path, own);
        let pool = &self.path.exec.out.pool;
        self.helpers = Some(Box::new(Helpers {
            submitter,
            own: Some(Box::new(Own { queue, helper, passes: spare_passes() })),
            releaser,
            // One more: what is being received into.
            spare: (0..=QUEUE_LEN).map(|_| Box::new(Batch::new(pool))).collect(),
            wakers,
            sleepers,
            stepped: Vec::new(),
            in_flight: 0,
            unannounced: 0,
            epoch: 0,
            steered: 0,
            catch_up: 0,
        }));
        Ok(workers)
    }

    /// Lets go of its helpers, which end then.
    pub fn end_crypto_pool(&mut self) {
        self.end_helpers_steps();
        self.helpers = None;
    }

    /// Takes over what has changed in the databases as one of its helpers, too: a reader that does not follow keeps
    /// others waiting.
    pub(super) fn follow_as_helper(&mut self) {
        let helpers = self.helpers.as_mut();
        if let Some(own) = helpers.and_then(|helpers| helpers.own.as_mut()) {
            own.helper.follow();
        }
    }

    /// True if more has changed in the databases than is taken over in one round.
    pub(super) fn is_behind(&self) -> bool {
        let own = self.helpers.as_ref().and_then(|helpers| helpers.own.as_ref());
        self.path.view.reader.is_behind() || own.is_some_and(|own| own.helper.is_behind())
    }

    /// Bursts that are with the helpers.
    pub(super) fn in_flight(&self) -> usize {
        self.helpers.as_ref().map_or(0, |helpers| helpers.in_flight)
    }

    /// Voids all that helpers have found out by the tables.
    pub(super) fn begin_helpers_epoch(&mut self) {
        if let Some(helpers) = &mut self.helpers {
            helpers.epoch += 1;
        }
    }

    /// Has plans of helpers prove that they still hold.
    pub(super) fn have_helpers_ask_plans(&mut self) {
        if let Some(helpers) = &mut self.helpers {
            helpers.steered += 1;
        }
    }

    /// Finishes all that is with the helpers, and has them take over all that has changed in the databases
    /// before they work on anything else.
    pub(super) fn have_helpers_catch_up(&mut self) {
        self.drain_helpers();
        if let Some(helpers) = &mut self.helpers {
            helpers.catch_up += 1;
        }
    }

    /// True if a burst of so many packets is worth handing over.
    pub(super) fn is_for_helpers(&self, came: usize) -> bool {
        let helpers = self.helpers.as_ref();
        helpers.is_some_and(|h| !h.wakers.is_empty() && (h.in_flight > 0 || came > FEW))
            // They record nothing.
            && self.path.exec.out.taps.is_none()
    }

    /// Hands a burst to the helpers.
    pub(super) fn submit(&mut self, burst: &mut Burst, source: Source) {
        // What the worker has gathered alone it counts and numbers alone.
        if self.path.exec.crypt.has_work() {
            self.drain_helpers().finish();
        }
        let Some(helpers) = &mut self.helpers else { return };
        let out = &mut self.path.exec.out;
        let mut batch = helpers.spare.pop().unwrap_or_else(|| Box::new(Batch::new(&out.pool)));
        batch.source = source;
        batch.now = self.path.view.now;
        // As all slots of queues it fits.
        batch.private = out.ports.private().map(|slot| slot as u16);
        batch.epoch = helpers.epoch;
        batch.steered = helpers.steered;
        batch.catch_up = helpers.catch_up;
        for packet in burst.drain(..) {
            // There is room for a burst, and all frames of a worker are of one region.
            if let Err(packet) = batch.packets.push(packet, 0) {
                out.drop(packet, DropReason::NoFrames);
            }
        }
        let came = batch.packets.len() as u64;
        out.counters.count(Outcome::Held, came);
        let mut item = Item { came, batch: Some(batch) };
        loop {
            let Some(helpers) = &mut self.helpers else { return };
            match helpers.submitter.put(item) {
                Ok(()) => {
                    helpers.in_flight += 1;
                    helpers.unannounced += 1;
                    return;
                }
                // Closed cannot be: the worker holds all parts itself.
                Err(refused) => item = refused.into_item(),
            }
            // Full: the worker does its share, and makes room in the order of submission.
            self.help();
            self.release_all();
        }
    }

    /// Wakes helpers for what was submitted, as many as there are bursts.
    ///
    /// Once a round: to ask for sleepers is to wait until the other cores have seen all that was
    /// written before, which by then they have.
    fn announce(&mut self) {
        let Some(helpers) = &mut self.helpers else { return };
        for _ in 0..core::mem::take(&mut helpers.unannounced) {
            let Some(sleeper) = helpers.sleepers.wake_one() else { break };
            if let Some(waker) = helpers.wakers.get(sleeper) {
                waker.wake();
            }
        }
    }

    /// Moves on what the helpers have done, and takes part in it; `is_idle` if the round brought
    /// nothing else to do.
    pub(super) fn collect(&mut self, is_idle: bool) {
        self.announce();
        self.release_all();
        let enough = self.helpers.as_ref().map_or(0, |helpers| helpers.wakers.len() * ENOUGH);
        if is_idle || self.in_flight() > enough {
            self.help();
            self.release_all();
        }
    }

    /// Works on one burst, if there is one that no thread has.
    fn help(&mut self) {
        let own = self.helpers.as_mut().and_then(|helpers| helpers.own.take());
        let Some(mut own) = own else { return };
        let Own { queue, helper, passes } = &mut *own;
        // The turn may be with a burst that is to be moved on here.
        if !work_on(helper, queue, passes, || self.release()) {
            core::hint::spin_loop();
        }
        if let Some(helpers) = &mut self.helpers {
            helpers.own = Some(own);
        }
    }

    fn release_all(&mut self) {
        while self.release() {}
    }

    /// Moves on the oldest burst, if it is done.
    fn release(&mut self) -> bool {
        let Some(helpers) = &mut self.helpers else { return false };
        let Some(released) = helpers.releaser.release() else { return false };
        helpers.in_flight -= 1;
        match released {
            Released::Finished(Item { came, batch: Some(batch) }) => self.hand_on(came, batch),
            // A helper panicked: nothing half done may leave.
            Released::Finished(item) | Released::Unfinished(item) | Released::Untouched(item) => {
                self.give_up(item);
            }
        }
        if let Some(helpers) = &mut self.helpers {
            helpers.releaser.end_turn();
        }
        true
    }

    fn hand_on(&mut self, came: u64, mut batch: Box<Batch>) {
        // Another core has written it.
        batch.prefetch();
        let out = &mut self.path.exec.out;
        out.released(came - batch.stepped.len() as u64);
        batch.packets.unpack(|packet, slot| out.send(slot.into(), packet));
        batch.done.add_to(&out.counters.work);
        if core::mem::take(&mut batch.has_unsent) {
            self.move_on_unsent(&mut batch);
        }
        if let Some(helpers) = &mut self.helpers {
            helpers.spare.push(batch);
        }
    }

    /// Brings the packets that a helper has not sent to their ends.
    #[cold]
    fn move_on_unsent(&mut self, batch: &mut Batch) {
        let out = &mut self.path.exec.out;
        for (packet, outcome) in batch.ended.drain(..) {
            match outcome {
                Outcome::ToLinux => out.give_to_linux(packet),
                outcome => out.end(packet, outcome),
            }
        }
        if let Some(helpers) = &mut self.helpers {
            helpers.stepped.extend(batch.stepped.drain(..));
        }
        let has_turn = !batch.left.is_empty() || !batch.payloads.is_empty();
        let payloads = batch.payloads.drain(..);
        let Executor { out, rooms, .. } = &mut self.path.exec;
        payloads.for_each(|payload| rooms.aggfrag.take(out, payload));
        if has_turn {
            self.take_stepped();
            // The burst has kept its turn.
            let mut alone = Alone::of(&mut self.path, &mut self.slow);
            alone.move_on_left(&mut batch.left, batch.source);
        }
    }

    #[cold]
    fn give_up(&mut self, item: Item) {
        let out = &mut self.path.exec.out;
        out.released(item.came);
        let mut lost = item.came;
        if let Some(mut batch) = item.batch {
            lost -= batch.packets.len() as u64;
            batch.packets.unpack(|packet, _| out.drop(packet, DropReason::OutCrypto));
        }
        // Their frames went back to the region when the thread let go of them.
        out.counters.count(Outcome::Dropped(DropReason::OutCrypto), lost);
        if let Some(helpers) = &mut self.helpers {
            helpers.spare.push(Box::new(Batch::new(&out.pool)));
        }
    }

    /// Finishes all that is with the helpers. What has got segments there goes on with what has got some here.
    #[inline]
    pub(super) fn drain_helpers(&mut self) -> Alone<'_> {
        if self.helpers.is_some() {
            self.wait_for_helpers();
        }
        Alone::of(&mut self.path, &mut self.slow)
    }

    #[inline(never)]
    fn wait_for_helpers(&mut self) {
        while self.in_flight() > 0 {
            self.collect(true);
        }
        self.take_stepped();
    }

    /// Sends on the packets that have got segments with helpers, as if they had got them here. No
    /// helper has a turn meanwhile.
    fn take_stepped(&mut self) {
        let Some(helpers) = &mut self.helpers else { return };
        let out = &mut self.path.exec.out;
        out.released(helpers.stepped.len() as u64);
        for (packet, ingress) in helpers.stepped.drain(..) {
            out.between.push_wrapped(packet, ingress);
        }
    }

    /// Moves on what has got segments with the helpers, once it is worth to wait for them.
    pub(super) fn move_on_helpers_steps(&mut self) {
        let is_due = self.helpers.as_ref().is_some_and(|helpers| {
            let is_alone = helpers.in_flight == 0;
            !helpers.stepped.is_empty() && (is_alone || helpers.stepped.len() >= STEPS_AT_ONCE)
        });
        if is_due {
            self.end_helpers_steps();
        }
    }

    /// Finishes all that is with the helpers, what has got segments included.
    #[cold]
    #[inline(never)]
    pub(super) fn end_helpers_steps(&mut self) {
        self.drain_helpers();
        self.finish_steps();
    }

    /// Has nothing with the helpers that hangs on tables which are not the last ones: what a slot of a headend stands
    /// for, they say.
    pub(super) fn end_steps_of_tables(&mut self) {
        if self.in_flight() > 0
            && self.path.view.topology.has_functions()
            && self.path.view.is_behind_tables()
        {
            self.end_helpers_steps();
        }
    }
}

/// Bursts in flight at most: enough for every thread to have one and the next.
const QUEUE_LEN: usize = 16;

/// Bursts in flight for each helper from which on the worker works on one too: one that the helper
/// has, and the next ones.
const ENOUGH: usize = 6;

/// Packets with segments for which the worker waits until no helper is at work.
const STEPS_AT_ONCE: usize = 8 * BURST_LEN;

/// Packets that are not worth a hand-over.
const FEW: usize = 8;
