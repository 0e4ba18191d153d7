//! The mover of bursts of helpers: each helper has one, and the worker has one beside its own path.

use core::mem;

use crypto::Engine;
use esp::{IvSource, Sa};
use policy::Reader;

use crate::burst::Path;
use crate::counters::Done;
use crate::crypt::{Crypt, Inflation};
use crate::features::Executor;
use crate::out::batch::Batch;
use crate::out::{AnyOut, HelperOut, next_lane};
use crate::view::TablesChange;

/// Parts of one helper, for its constructor.
pub struct CryptoParts {
    /// Crypto engine of the helper.
    pub engine: Box<dyn Engine>,
    /// Source of IVs of the helper.
    pub ivs: IvSource,
    /// Reader of the same databases as the worker's.
    pub reader: Reader<Sa>,
}

/// Mover of bursts of one thread. Its engine, flow cache and view are its own.
pub(crate) struct Helper {
    path: Path<HelperOut>,
    /// Of the tables that the worker's plans are made by.
    epoch: u64,
    /// Of the rules of path selection that they are made by.
    steered: u64,
    /// As of bursts, see [`Batch::catch_up`].
    catch_up: u64,
    /// Counts that the worker was told already.
    told: Done,
}

impl Helper {
    /// For the worker whose path is `of`.
    pub(super) fn new(of: &Path, parts: CryptoParts) -> Helper {
        let CryptoParts { engine, ivs, reader } = parts;
        let crypt = Crypt::new(engine, ivs, of.exec.crypt.resync.sibling());
        let out = &of.exec.out;
        let out = HelperOut::new(out.pool.sibling(), out.reports.sibling(), next_lane());
        let exec = Executor::new(crypt, out);
        let path = Path::new(of.view.sibling(reader), of.flows.sibling(), exec);
        Helper { path, epoch: 0, steered: 0, catch_up: 0, told: Done::default() }
    }

    /// Takes over what has changed in the databases.
    pub(super) fn follow(&mut self) {
        self.path.refresh();
        self.path.exec.out.reports.send_again();
    }

    /// True if more has changed in the databases than is taken over at once.
    pub(super) fn is_behind(&self) -> bool {
        self.path.view.reader.is_behind()
    }

    /// Takes over what has changed before a burst came; `is_only` if no other burst is at hand.
    pub(super) fn begin(&mut self, batch: &Batch, is_only: bool) {
        if self.epoch != batch.epoch {
            (self.epoch, self.steered) = (batch.epoch, batch.steered);
            self.path.view.load_tables();
            self.path.begin_epoch();
        }
        if self.steered != batch.steered {
            self.steered = batch.steered;
            match self.path.view.load_tables() {
                TablesChange::None | TablesChange::Steered => self.path.ask_plans(),
                // The worker has gone on meanwhile.
                TablesChange::Any => self.path.begin_epoch(),
            }
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

    /// Takes a pass over a burst: the ends of packets are noted in it, and the time is that at which it came.
    pub(super) fn pass<T>(
        &mut self,
        batch: &mut Box<Batch>,
        pass: impl FnOnce(&mut Path<HelperOut>) -> T,
    ) -> T {
        let path = &mut self.path;
        path.newcomers = batch.source.newcomers;
        path.view.now = batch.now;
        path.exec.crypt.inflation = Inflation::WHOLE;
        mem::swap(&mut path.exec.out.batch, batch);
        let done = pass(path);
        mem::swap(&mut path.exec.out.batch, batch);
        done
    }

    /// Ends the work on a burst.
    pub(super) fn end(&mut self, batch: &mut Batch) {
        let now = Done::of(&self.path.exec.out.counters().work);
        batch.done = now.since(mem::replace(&mut self.told, now));
    }
}
