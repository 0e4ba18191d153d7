//! How a thread works on bursts in turns: ahead while it waits, and never out of order.

use arrayvec::ArrayVec;
use dispatch::ordered;

use crate::crypt::AT_HAND;
use crate::out::batch::Batch;
use crate::worker::helper::Helper;
use crate::worker::passes::{Passes, pass_apart, pass_in_turn, pass_to_the_end};

/// A place in the queue of bursts.
pub(crate) struct Item {
    /// How many packets came.
    pub(crate) came: u64,
    /// With the thread that works on it, or here.
    pub(crate) batch: Option<Box<Batch>>,
}

/// A burst that a thread has at hand, and what it is worked on with.
struct AtHand<'q> {
    work: ordered::Work<'q, Item>,
    batch: Box<Batch>,
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
/// Turns come before all other work: others wait for them. `meanwhile` is called while the turn is with another
/// thread, and returns whether it did something.
pub(crate) fn work_on(
    helper: &mut Helper,
    queue: &ordered::Worker<Item>,
    spare: &mut SparePasses,
    mut meanwhile: impl FnMut() -> bool,
) -> bool {
    let mut at_hand: ArrayVec<AtHand<'_>, AT_HAND> = ArrayVec::new();
    let mut wait = Wait::default();
    let mut has_begun = false;
    loop {
        if let Some(next) = at_hand.iter_mut().find(|one| !one.had_turn)
            && let Some(turn) = next.work.turn()
        {
            let AtHand { batch, passes, had_turn, .. } = next;
            if helper.pass(batch, |path| pass_in_turn(path, passes, &turn)) {
                turn.end();
            }
            *had_turn = true;
            wait = Wait::default();
            continue;
        }
        if at_hand.first().is_some_and(|one| one.had_turn) {
            let AtHand { mut work, mut batch, mut passes, .. } = at_hand.remove(0);
            helper.pass(&mut batch, |path| pass_to_the_end(path, &mut passes));
            helper.end(&mut batch);
            work.iter_mut().zip([batch]).for_each(|(item, batch)| item.batch = Some(batch));
            work.finish();
            spare.push(passes);
            continue;
        }
        let is_only = at_hand.is_empty();
        if is_only && has_begun || queue.is_abandoned() {
            return has_begun;
        }
        // The databases are followed only with nothing at hand.
        if (is_only || wait.is_long() && !helper.is_behind())
            && let Some(mut passes) = spare.pop()
        {
            let mut work = queue.take(1);
            let batch = work.as_mut().and_then(|work| work.iter_mut().next()?.batch.take());
            if let Some((work, mut batch)) = work.zip(batch) {
                // Another core has written it.
                batch.prefetch();
                helper.begin(&batch, is_only);
                helper.pass(&mut batch, |path| pass_apart(path, &mut passes));
                at_hand.push(AtHand { work, batch, passes, had_turn: false });
                (has_begun, wait) = (true, Wait::default());
                continue;
            }
            spare.push(passes);
        }
        if is_only {
            return has_begun;
        }
        if !meanwhile() {
            wait.spin();
        }
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
