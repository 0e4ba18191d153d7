//! Several cores for one SA: whole bursts go to whichever thread is free, and leave in their order.
//!
//! ```text
//!   worker                                     crypto threads, and the worker itself
//!   receive a burst ───────────> ordered ────> parse, hash, plan or SA, decrypt      apart
//!                                queue         window, limits, counters, numbers     in turn
//!   ports, full way,             of           headers, encrypt                      apart
//!   in the order of arrival <─── bursts <────
//! ```
//!
//! What is done to a burst, and why it is safe, stands in [`crate::batch`]. A thread has an engine, a flow
//! cache and a reader of the databases of its own, so of a packet nothing but its lines moves from one core to
//! another, and of a burst the list of its packets, there and back.
//!
//! The worker is one of the pool: as soon as the threads have enough to do it takes a burst like any of them. So
//! with too few crypto threads the rate is that of all threads together, with none that of the worker
//! alone, and nothing is ever dropped for want of room in the queue. A burst of a few packets that
//! comes while nothing is under way is not worth a hand-over.
//!
//! A thread learns the plans of flows from the worker, who alone makes them: a packet without one is left to the
//! worker, which tells the thread. As long as that happens to most bursts the worker works alone.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use arrayvec::ArrayVec;
use core::time::Duration;
use crypto::Engine;
use dispatch::ordered::{self, Released, Releaser, Submitter};
use dispatch::{Sleepers, directed};
use esp::{IvSource, Sa};
use io::Burst;
use outcome::{DropReason, Outcome};
use policy::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::batch::{Batch, Done, Lesson, Passes, Source, Told};
use crate::counters::Counters;
use crate::event::Waker;
use crate::idle::Polling;
use crate::ingress::Scratch;
use crate::worker::{Now, Worker, WorkerParts};

/// What one crypto thread has of its own.
pub struct CryptoParts {
    /// Its engine.
    pub engine: Box<dyn Engine>,
    /// Its source of IVs.
    pub ivs: IvSource,
    /// Its reader of the same databases as the worker's.
    pub reader: Reader<Sa>,
}

/// A place in the queue.
struct Item {
    /// How many packets came.
    came: u64,
    /// With whoever works on it, or here.
    batch: Option<Box<Batch>>,
}

/// The worker's side.
pub(crate) struct CryptoPool {
    submitter: Submitter<Item>,
    /// Away while the worker works on a burst itself.
    own: Option<Box<(ordered::Worker<Item>, SparePasses)>>,
    releaser: Releaser<Item>,
    spare: Vec<Box<Batch>>,
    threads: Vec<Thread>,
    sleepers: Sleepers,
    /// Bursts that are not moved on yet.
    under_way: usize,
    /// Bursts that no crypto thread was woken for yet.
    unannounced: usize,
    /// Counts up when plans become void.
    epoch: u64,
    /// How many more bursts packets were left of, lately, than not.
    left: u32,
    /// Bursts that the worker works on alone.
    alone: u32,
}

/// The worker's ends of what leads to one crypto thread.
struct Thread {
    waker: Waker,
    lessons: directed::Producer<Lesson>,
}

/// One crypto thread's side; see [`CryptoWorker::run`].
pub struct CryptoWorker {
    /// With everything that works on a burst, and no ports.
    worker: Worker,
    passes: SparePasses,
    queue: ordered::Worker<Item>,
    sleepers: Sleepers,
    side: ThreadSide,
}

/// What a crypto thread knows of the worker that it serves.
struct ThreadSide {
    number: u16,
    lessons: directed::Consumer<Lesson>,
    /// Of the tables that the worker's plans are made by.
    epoch: u64,
    /// What has been told of what was done.
    told: Done,
}

/// The worker itself, when it works on bursts.
struct WorkerSide;

/// What a crypto thread and the worker do differently with a burst.
trait Side {
    /// Before it is worked on; `is_only` if no other burst is at hand.
    fn begin(&mut self, worker: &mut Worker, batch: &mut Batch, is_only: bool);
    /// After it.
    fn end(&mut self, worker: &Worker, batch: &mut Batch);
    /// While the turn is with another thread; true if that did something.
    fn meanwhile(&mut self, worker: &mut Worker) -> bool;
}

/// A burst that a thread has at hand, and what it is worked on with.
struct AtHand<'q> {
    work: ordered::Work<'q, Item>,
    batch: Option<Box<Batch>>,
    passes: Box<Passes>,
    had_turn: bool,
}

/// As many as a thread may have bursts at hand.
type SparePasses = ArrayVec<Box<Passes>, AT_HAND>;

fn spare_passes() -> SparePasses {
    (0..AT_HAND).map(|_| Box::default()).collect()
}

impl CryptoWorker {
    /// Works until the worker that it serves is gone.
    ///
    /// When there is nothing to do it looks for a while, then sleeps until it is woken; with
    /// [`Polling::Always`] it never sleeps.
    pub fn run(mut self, polling: Polling) {
        let mut idle_since: Option<Instant> = None;
        let queue = self.queue.clone();
        while !queue.is_closed() {
            while self.worker.work_on(&queue, &mut self.passes, &mut self.side) {
                idle_since = None;
            }
            self.worker.follow();
            self.worker.tell_again();
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
        self.sleepers.prepare(self.side.number.into());
        let is_idle = self.queue.is_empty() && !self.worker.reader.is_behind();
        if is_idle && !self.queue.is_closed() {
            let mut fds = [PollFd::new(&self.worker.waker, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
            // Woken, timed out or interrupted: looks again in any case.
            let _ = poll(&mut fds, Some(&timeout));
            self.worker.waker.clear();
        }
        self.sleepers.awake(self.side.number.into());
    }
}

impl Side for ThreadSide {
    /// Takes over what has changed before the burst came.
    fn begin(&mut self, worker: &mut Worker, batch: &mut Batch, is_only: bool) {
        batch.by = Some(self.number);
        worker.linux = batch.linux.map(usize::from);
        if self.epoch != batch.epoch {
            self.epoch = batch.epoch;
            worker.load_tables();
            worker.begin_epoch();
        }
        // Before the databases are looked at: plans are asked whether they hold in a view that is no older
        // than theirs, or wait until it is.
        while let Some(Lesson { epoch, what }) = self.lessons.take() {
            match what {
                _ if epoch != self.epoch => {}
                Told::Own(addr) => worker.own.learn(addr),
                Told::Plan(hash, key, plan, stamps) => {
                    worker.flows.insert_told(hash, key, plan, stamps);
                }
            }
        }
        // What was found for a burst at hand is good in this view.
        if is_only {
            worker.follow();
            worker.tell_again();
        }
    }

    fn end(&mut self, worker: &Worker, batch: &mut Batch) {
        let work = &worker.counters.work;
        let now = Done {
            decrypted: work.decrypted.value(),
            encrypted: work.encrypted.value(),
            flow_hits: work.flow_hits.value(),
            forwarded_clear: work.forwarded_clear.value(),
            checksums_completed: work.checksums_completed.value(),
        };
        let before = core::mem::replace(&mut self.told, now);
        batch.done = Done {
            decrypted: now.decrypted - before.decrypted,
            encrypted: now.encrypted - before.encrypted,
            flow_hits: now.flow_hits - before.flow_hits,
            forwarded_clear: now.forwarded_clear - before.forwarded_clear,
            checksums_completed: now.checksums_completed - before.checksums_completed,
        };
    }

    fn meanwhile(&mut self, _worker: &mut Worker) -> bool {
        false
    }
}

impl Side for WorkerSide {
    /// What the worker knows now is no older than what it knew when the burst came.
    fn begin(&mut self, _worker: &mut Worker, batch: &mut Batch, _is_only: bool) {
        batch.by = None;
        batch.done = Done::default();
    }

    fn end(&mut self, _worker: &Worker, _batch: &mut Batch) {}

    /// The turn may be with a burst that is to be moved on here.
    fn meanwhile(&mut self, worker: &mut Worker) -> bool {
        worker.release()
    }
}

impl Worker {
    /// Gives the worker a pool of crypto threads, one for each of `parts`; the caller runs each on a
    /// thread of its own. Before the first round.
    ///
    /// # Errors
    /// When the process has no free descriptor.
    pub fn add_crypto_pool(
        &mut self,
        parts: Vec<CryptoParts>,
    ) -> std::io::Result<Vec<CryptoWorker>> {
        let (submitter, queue, releaser) = ordered::queue(QUEUE_LEN);
        let sleepers = Sleepers::new();
        let mut workers = Vec::with_capacity(parts.len());
        let mut threads = Vec::with_capacity(parts.len());
        for (number, parts) in (0_u16..).zip(parts.into_iter().take(Sleepers::MOST)) {
            let waker = Waker::new()?;
            let (lessons, learned) = directed::queue(LESSONS);
            threads.push(Thread { waker: waker.clone(), lessons });
            workers.push(CryptoWorker {
                worker: self.helper(parts, waker),
                passes: spare_passes(),
                queue: queue.clone(),
                sleepers: sleepers.clone(),
                side: ThreadSide { number, lessons: learned, epoch: 0, told: Done::default() },
            });
        }
        self.crypto = Some(Box::new(CryptoPool {
            submitter,
            own: Some(Box::new((queue, spare_passes()))),
            releaser,
            // One more: what is being received into.
            spare: (0..=QUEUE_LEN).map(|_| Box::new(Batch::new(&self.pool))).collect(),
            threads,
            sleepers,
            under_way: 0,
            unannounced: 0,
            epoch: 0,
            left: 0,
            alone: 0,
        }));
        Ok(workers)
    }

    /// A worker that only works on bursts: without ports, and told what to do by nobody else.
    fn helper(&self, parts: CryptoParts, waker: Waker) -> Worker {
        let CryptoParts { engine, ivs, reader } = parts;
        let mut helper = Worker::new(WorkerParts {
            tables: Arc::clone(&self.tables),
            reader,
            engine,
            ivs,
            pool: self.pool.sibling(),
            counters: Arc::new(Counters::default()),
            events: self.events.clone(),
            commands: channel().1,
            waker,
            flows: 0,
        });
        helper.flows = self.flows.sibling();
        helper
    }

    /// Bursts that are with the pool.
    pub(crate) fn under_way(&self) -> usize {
        self.crypto.as_ref().map_or(0, |pool| pool.under_way)
    }

    /// What threads know by the tables is void.
    pub(crate) fn begin_pool_epoch(&mut self) {
        if let Some(pool) = &mut self.crypto {
            pool.epoch += 1;
        }
    }

    /// Receives one burst from a port and hands it to the pool.
    pub(crate) fn receive_for_pool(&mut self, slot: usize) -> usize {
        let Some(mut scratch) = self.scratch.take() else { return 0 };
        let Scratch { burst, heads } = &mut *scratch;
        let source = self.take_in(slot, burst);
        let came = burst.len();
        if came > 0 {
            if self.is_for_worker_alone(came) {
                self.drain_crypto_pool();
                self.move_on(burst, heads, source);
            } else {
                // What the worker has gathered alone it counts and numbers alone.
                self.open_gathered();
                self.seal_gathered();
                self.submit(burst, source);
            }
        }
        self.scratch = Some(scratch);
        came
    }

    /// Whether a burst of so many packets is not to be handed over.
    fn is_for_worker_alone(&mut self, came: usize) -> bool {
        let Some(pool) = &mut self.crypto else { return true };
        let is_alone = pool.alone > 0 || pool.threads.is_empty();
        pool.alone = pool.alone.saturating_sub(1);
        is_alone || pool.under_way == 0 && came <= FEW
    }

    fn submit(&mut self, burst: &mut Burst, source: Source) {
        let Some(pool) = &mut self.crypto else { return };
        let mut batch = pool.spare.pop().unwrap_or_else(|| Box::new(Batch::new(&self.pool)));
        batch.source = source;
        batch.now = self.now;
        // As all slots it is below MAX_PORTS.
        batch.linux = self.linux.map(|slot| slot as u16);
        batch.epoch = pool.epoch;
        for packet in burst.drain(..) {
            // There is room for a burst, and all frames of a worker are of one region.
            if let Err(packet) = batch.packets.push(packet, 0) {
                self.drop_packet(packet, DropReason::NoFrames);
            }
        }
        let came = batch.packets.len() as u64;
        self.counters.count(Outcome::Held, came);
        let mut item = Item { came, batch: Some(batch) };
        loop {
            let Some(pool) = &mut self.crypto else { return };
            match pool.submitter.put(item) {
                Ok(()) => {
                    pool.under_way += 1;
                    pool.unannounced += 1;
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

    /// Wakes crypto threads for what was submitted, as many as there are bursts.
    ///
    /// Once a round: whoever asks who sleeps waits until the other cores have seen all that it wrote
    /// before, which by then they have.
    fn announce(&mut self) {
        let Some(pool) = &mut self.crypto else { return };
        for _ in 0..core::mem::take(&mut pool.unannounced) {
            let Some(sleeper) = pool.sleepers.wake_one() else { break };
            if let Some(thread) = pool.threads.get(sleeper) {
                thread.waker.wake();
            }
        }
    }

    /// Moves on what the pool has done, and takes part in it; `is_idle` if the round brought nothing else
    /// to do.
    pub(crate) fn collect(&mut self, is_idle: bool) {
        self.announce();
        self.release_all();
        let enough = self.crypto.as_ref().map_or(0, |pool| pool.threads.len() * ENOUGH);
        if is_idle || self.under_way() > enough {
            self.help();
            self.release_all();
        }
    }

    /// Works on one burst, if there is one that nobody has.
    fn help(&mut self) {
        let own = self.crypto.as_mut().and_then(|pool| pool.own.take());
        let Some(mut own) = own else { return };
        let (queue, passes) = &mut *own;
        if !self.work_on(queue, passes, &mut WorkerSide) {
            core::hint::spin_loop();
        }
        if let Some(pool) = &mut self.crypto {
            pool.own = Some(own);
        }
    }

    /// Works on a burst, if there is one that nobody has, and tells whether there was.
    ///
    /// While its turn is long in coming, because a thread with an earlier one is slower or farther from
    /// the packets, it begins with the next bursts: then threads need not be equally fast to be all busy.
    /// Turns come before all other work: others wait for them.
    fn work_on(
        &mut self,
        queue: &ordered::Worker<Item>,
        spare: &mut SparePasses,
        side: &mut impl Side,
    ) -> bool {
        let mut at_hand: ArrayVec<AtHand<'_>, AT_HAND> = ArrayVec::new();
        let mut wait = Wait::default();
        let mut has_begun = false;
        loop {
            if let Some(next) = at_hand.iter_mut().find(|one| !one.had_turn)
                && let Some(turn) = next.work.turn()
            {
                let now = self.begin_pass(next.batch.take());
                if self.pass_in_turn(&mut next.passes) {
                    turn.end();
                }
                next.batch = self.end_pass(now);
                next.had_turn = true;
                wait = Wait::default();
                continue;
            }
            if at_hand.first().is_some_and(|one| one.had_turn) {
                let AtHand { mut work, batch, mut passes, .. } = at_hand.remove(0);
                let now = self.begin_pass(batch);
                self.pass_to_the_end(&mut passes);
                let mut batch = self.end_pass(now);
                batch.iter_mut().for_each(|batch| side.end(self, batch));
                work.iter_mut().zip([batch]).for_each(|(item, batch)| item.batch = batch);
                work.finish();
                spare.push(passes);
                continue;
            }
            let is_only = at_hand.is_empty();
            if is_only && has_begun || queue.is_abandoned() {
                return has_begun;
            }
            // The databases are followed only with nothing at hand.
            if (is_only || wait.is_long() && !self.reader.is_behind())
                && let Some(mut passes) = spare.pop()
            {
                if let Some(mut work) = queue.take(1) {
                    let mut batch = work.iter_mut().next().and_then(|item| item.batch.take());
                    if let Some(batch) = &mut batch {
                        // Another core has written it.
                        batch.prefetch();
                        side.begin(self, batch, is_only);
                    }
                    let now = self.begin_pass(batch);
                    self.pass_apart(&mut passes);
                    let batch = self.end_pass(now);
                    at_hand.push(AtHand { work, batch, passes, had_turn: false });
                    (has_begun, wait) = (true, Wait::default());
                    continue;
                }
                spare.push(passes);
            }
            if is_only {
                return has_begun;
            }
            if !side.meanwhile(self) {
                wait.spin();
            }
        }
    }

    /// What becomes of packets is noted in this burst from now on, and it is as late as when it came.
    fn begin_pass(&mut self, batch: Option<Box<Batch>>) -> Now {
        let now = batch.as_ref().map_or(self.now, |batch| batch.now);
        self.batch = batch;
        core::mem::replace(&mut self.now, now)
    }

    fn end_pass(&mut self, now: Now) -> Option<Box<Batch>> {
        self.now = now;
        self.batch.take()
    }

    fn release_all(&mut self) {
        while self.release() {}
    }

    /// Moves on the oldest burst, if it is done.
    fn release(&mut self) -> bool {
        let Some(pool) = &mut self.crypto else { return false };
        let Some(released) = pool.releaser.release() else { return false };
        pool.under_way -= 1;
        match released {
            Released::Finished(Item { came, batch: Some(batch) }) => self.hand_on(came, batch),
            // A crypto thread panicked: nothing half done may leave.
            Released::Finished(item) | Released::Unfinished(item) | Released::Untouched(item) => {
                self.give_up(item);
            }
        }
        if let Some(pool) = &mut self.crypto {
            pool.releaser.end_turn();
        }
        true
    }

    fn hand_on(&mut self, came: u64, mut batch: Box<Batch>) {
        // Another core has written it.
        batch.prefetch();
        self.counters.released(came);
        batch.packets.unpack(|packet, slot| self.enqueue(slot.into(), packet));
        let (work, done) = (&self.counters.work, batch.done);
        work.decrypted.add(done.decrypted);
        work.encrypted.add(done.encrypted);
        work.flow_hits.add(done.flow_hits);
        work.forwarded_clear.add(done.forwarded_clear);
        work.checksums_completed.add(done.checksums_completed);
        let has_left = core::mem::take(&mut batch.has_unsent) && self.move_on_unsent(&mut batch);
        let Some(pool) = &mut self.crypto else { return };
        pool.spare.push(batch);
        pool.left = match has_left {
            true => pool.left + 1,
            false => pool.left.saturating_sub(1),
        };
        if pool.left == MOSTLY_LEFT {
            (pool.left, pool.alone) = (0, ALONE);
        }
    }

    /// Brings the packets that a thread has not sent to their ends; true if some were left.
    #[cold]
    fn move_on_unsent(&mut self, batch: &mut Batch) -> bool {
        for (packet, outcome) in batch.ended.drain(..) {
            self.end(packet, outcome);
        }
        let has_left = !batch.left.is_empty();
        if has_left {
            self.move_on_left(batch);
        }
        has_left
    }

    #[cold]
    fn give_up(&mut self, item: Item) {
        self.counters.released(item.came);
        let mut lost = item.came;
        if let Some(mut batch) = item.batch {
            lost -= batch.packets.len() as u64;
            batch.packets.unpack(|packet, _| self.drop_packet(packet, DropReason::OutCrypto));
        }
        // Their frames went back to the region when the thread let go of them.
        self.counters.count(Outcome::Dropped(DropReason::OutCrypto), lost);
        if let Some(pool) = &mut self.crypto {
            pool.spare.push(Box::new(Batch::new(&self.pool)));
        }
    }

    /// Tells a crypto thread; if it has not taken in what it was told before, it will ask again.
    pub(crate) fn teach(&mut self, thread: usize, what: Told) {
        let Some(pool) = &mut self.crypto else { return };
        let epoch = pool.epoch;
        if let Some(thread) = pool.threads.get_mut(thread) {
            let _ = thread.lessons.put(Lesson { epoch, what });
        }
    }

    /// Finishes all that is with the pool.
    pub(crate) fn drain_crypto_pool(&mut self) {
        while self.under_way() > 0 {
            self.collect(true);
        }
    }
}

/// Waits for a turn: soon there, unless who has it is slow, or has lost its core, to this very thread perhaps.
#[derive(Default)]
struct Wait(u32);

impl Wait {
    #[inline]
    fn is_long(&self) -> bool {
        self.0 >= SHORT
    }

    #[inline]
    fn spin(&mut self) {
        self.0 += 1;
        match self.0.is_multiple_of(PATIENCE) {
            true => std::thread::yield_now(),
            false => core::hint::spin_loop(),
        }
    }
}

/// Looks at the turn before it is worth while to begin with another burst: about a microsecond.
const SHORT: u32 = 32;

/// Looks at the turn before others may have the core: some 50 us.
const PATIENCE: u32 = 2000;

/// Bursts that a thread may have at hand: so many that with cores of half its speed it need not wait.
const AT_HAND: usize = 3;

/// Bursts under way at most: enough for every thread to have one and the next.
const QUEUE_LEN: usize = 16;

/// Bursts under way for each thread from which on the worker works on one too: one that the thread has, and
/// the next ones.
const ENOUGH: usize = 6;

/// Packets that are not worth a hand-over.
const FEW: usize = 8;

/// What one thread may be told at once.
const LESSONS: usize = 256;

/// Bursts with packets that were left, more than without, from which on the worker works alone. A thread
/// that knows no flow learns them in less, unless there are more flows than a cache holds.
const MOSTLY_LEFT: u32 = 1024;

/// Bursts until the pool is tried again: so many that trying costs little.
const ALONE: u32 = 16 * MOSTLY_LEFT;

/// How long a crypto thread looks for work before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// The longest sleep: so that the end of the worker is seen.
const SLEEP: Duration = Duration::from_millis(50);
