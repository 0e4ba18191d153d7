//! How a thread works on bursts in turns: ahead while it waits, and never out of order.

use arrayvec::ArrayVec;
use dispatch::ordered;

use crate::burst::Path;
use crate::crypt::{AT_HAND, Inflation};
use crate::model::{Newcomers, Now};
use crate::out::batch::Batch;
use crate::worker::passes::Passes;

/// A place in the queue of bursts.
pub(crate) struct Item {
    /// How many packets came.
    pub(crate) came: u64,
    /// With the thread that works on it, or here.
    pub(crate) batch: Option<Box<Batch>>,
}

/// The difference of a helper and the worker in the work on a burst.
pub(crate) trait Side {
    /// The mover of the bursts.
    fn path(&mut self) -> &mut Path;
    /// Before a burst is worked on; `is_only` if no other burst is at hand.
    fn begin(&mut self, batch: &mut Batch, is_only: bool);
    /// Ends the work on a burst.
    fn end(&mut self, batch: &mut Batch);
    /// While the turn is with another thread; true if that did something.
    fn meanwhile(&mut self) -> bool;
}

/// A burst that a thread has at hand, and what it is worked on with.
struct AtHand<'q> {
    work: ordered::Work<'q, Item>,
    batch: Option<Box<Batch>>,
    passes: Box<Passes>,
    had_turn: bool,
}

/// As many as a thread may have bursts at hand.
pub(crate) type SparePasses = ArrayVec<Box<Passes>, AT_HAND>;

pub(crate) fn spare_passes() -> SparePasses {
    (0..AT_HAND).map(|_| Box::default()).collect()
}

/// Works on a burst, if there is one that no thread has, and tells whether there was.
///
/// While its turn is long in coming, because a thread with an earlier one is slower or farther from
/// the packets, it begins with the next bursts: then threads need not be equally fast to be all busy.
/// Turns come before all other work: others wait for them.
pub(crate) fn work_on(
    side: &mut impl Side,
    queue: &ordered::Worker<Item>,
    spare: &mut SparePasses,
) -> bool {
    let mut at_hand: ArrayVec<AtHand<'_>, AT_HAND> = ArrayVec::new();
    let mut wait = Wait::default();
    let mut has_begun = false;
    loop {
        if let Some(next) = at_hand.iter_mut().find(|one| !one.had_turn)
            && let Some(turn) = next.work.turn()
        {
            let path = side.path();
            let now = path.begin_pass(next.batch.take());
            if path.pass_in_turn(&mut next.passes) {
                turn.end();
            }
            next.batch = path.end_pass(now);
            next.had_turn = true;
            wait = Wait::default();
            continue;
        }
        if at_hand.first().is_some_and(|one| one.had_turn) {
            let AtHand { mut work, batch, mut passes, .. } = at_hand.remove(0);
            let path = side.path();
            let now = path.begin_pass(batch);
            path.pass_to_the_end(&mut passes);
            let mut batch = path.end_pass(now);
            batch.iter_mut().for_each(|batch| side.end(batch));
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
        if (is_only || wait.is_long() && !side.path().view.reader.is_behind())
            && let Some(mut passes) = spare.pop()
        {
            if let Some(mut work) = queue.take(1) {
                let mut batch = work.iter_mut().next().and_then(|item| item.batch.take());
                if let Some(batch) = &mut batch {
                    // Another core has written it.
                    batch.prefetch();
                    side.begin(batch, is_only);
                }
                let path = side.path();
                let now = path.begin_pass(batch);
                path.pass_apart(&mut passes);
                let batch = path.end_pass(now);
                at_hand.push(AtHand { work, batch, passes, had_turn: false });
                (has_begun, wait) = (true, Wait::default());
                continue;
            }
            spare.push(passes);
        }
        if is_only {
            return has_begun;
        }
        if !side.meanwhile() {
            wait.spin();
        }
    }
}

impl Path {
    /// Begins a pass: the ends of packets are noted in this burst from now on, and the time is
    /// that at which it came.
    fn begin_pass(&mut self, batch: Option<Box<Batch>>) -> Now {
        let now = batch.as_ref().map_or(self.view.now, |batch| batch.now);
        self.newcomers = batch.as_ref().map_or(Newcomers::ALL, |batch| batch.source.newcomers);
        self.exec.crypt.inflation = Inflation::WHOLE;
        self.exec.out.batch = batch;
        self.exec.rooms.steps.is_with_helpers = true;
        core::mem::replace(&mut self.view.now, now)
    }

    fn end_pass(&mut self, now: Now) -> Option<Box<Batch>> {
        self.view.now = now;
        self.exec.rooms.steps.is_with_helpers = false;
        self.exec.out.batch.take()
    }
}

/// Spins for the turn; yields after about 50 us in case its holder was preempted.
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
