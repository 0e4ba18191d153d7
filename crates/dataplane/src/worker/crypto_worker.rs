//! A helper: a thread that works on a worker's bursts.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use crypto::Engine;
use dispatch::{Sleepers, ordered};
use esp::{IvSource, Sa};
use policy::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::burst::Path;
use crate::counters::{Counters, Done};
use crate::crypt::Crypt;
use crate::event::Waker;
use crate::features::Executor;
use crate::out::Out;
use crate::out::batch::Batch;
use crate::out::neighbour::NeighbourQueue;
use crate::worker::idle::Polling;
use crate::worker::turns::{Item, Side, SparePasses, spare_passes, work_on};

/// Parts of one helper, for its constructor.
pub struct CryptoParts {
    /// Crypto engine of the helper.
    pub engine: Box<dyn Engine>,
    /// Source of IVs of the helper.
    pub ivs: IvSource,
    /// Reader of the same databases as the worker's.
    pub reader: Reader<Sa>,
}

/// One helper; see [`CryptoWorker::run`].
pub struct CryptoWorker {
    side: HelperSide,
    passes: SparePasses,
    queue: ordered::Worker<Item>,
    sleepers: Sleepers,
    waker: Waker,
}

/// A helper's side of the work on bursts.
struct HelperSide {
    path: Path,
    number: u16,
    /// Of the tables that the worker's plans are made by.
    epoch: u64,
    /// As of bursts, see [`Batch::catch_up`].
    catch_up: u64,
    /// Counts that the worker was told already.
    told: Done,
}

impl CryptoWorker {
    /// A helper of the worker whose path is `of`.
    pub(super) fn new(
        of: &Path,
        parts: CryptoParts,
        number: u16,
        (queue, sleepers, waker): (ordered::Worker<Item>, Sleepers, Waker),
    ) -> CryptoWorker {
        let CryptoParts { engine, ivs, reader } = parts;
        let of_out = &of.exec.out;
        let counters = Arc::new(Counters::default());
        let reports = of_out.reports.sibling();
        let out = Out::new(counters, of_out.pool.sibling(), reports, NeighbourQueue::none());
        let crypt = Crypt::new(engine, ivs, of.exec.crypt.resync.sibling());
        let exec = Executor::new(crypt, out);
        let path = Path::new(of.view.sibling(reader), of.flows.sibling(), exec);
        let side = HelperSide { path, number, epoch: 0, catch_up: 0, told: Done::default() };
        CryptoWorker { side, passes: spare_passes(), queue, sleepers, waker }
    }

    /// Works until the worker that it serves is gone.
    ///
    /// When there is nothing to do it spins for a while, then sleeps until it is woken; with
    /// [`Polling::Always`] it never sleeps.
    pub fn run(mut self, polling: Polling) {
        let mut idle_since: Option<Instant> = None;
        while !self.queue.is_closed() {
            while work_on(&mut self.side, &self.queue, &mut self.passes) {
                idle_since = None;
            }
            self.side.follow();
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
        let is_idle = self.queue.is_empty() && !self.side.path.view.reader.is_behind();
        if is_idle && !self.queue.is_closed() {
            let mut fds = [PollFd::new(&self.waker, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
            // Woken, timed out or interrupted: looks again in any case.
            let _ = poll(&mut fds, Some(&timeout));
            self.waker.clear();
        }
        self.sleepers.awake(self.side.number.into());
    }
}

impl HelperSide {
    /// Takes over what has changed in the databases.
    fn follow(&mut self) {
        self.path.refresh();
        self.path.exec.out.reports.send_again();
    }
}

impl Side for HelperSide {
    fn path(&mut self) -> &mut Path {
        &mut self.path
    }

    /// Takes over what has changed before the burst came.
    fn begin(&mut self, batch: &mut Batch, is_only: bool) {
        if self.epoch != batch.epoch {
            self.epoch = batch.epoch;
            self.path.view.load_tables();
            self.path.begin_epoch();
        }
        // What was found for a burst at hand is good in this view.
        if is_only {
            // The worker had nothing with the helpers when it said so: no burst of before is at hand.
            if self.catch_up != batch.catch_up {
                self.catch_up = batch.catch_up;
                self.path.refresh_all();
            }
            self.follow();
        }
    }

    fn end(&mut self, batch: &mut Batch) {
        let now = Done::of(&self.path.exec.out.counters.work);
        batch.done = now.since(core::mem::replace(&mut self.told, now));
    }

    fn meanwhile(&mut self) -> bool {
        false
    }
}

/// How long a helper spins for work before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// The longest sleep: so that the end of the worker is seen.
const SLEEP: Duration = Duration::from_millis(50);
