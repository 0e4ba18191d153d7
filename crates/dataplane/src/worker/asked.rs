//! What the control thread asks of a worker that has followed the databases.
//!
//! Answered between two rounds' packets, in the order of the commands, once nothing that the control thread has
//! published is left to be taken over: after many changes at once that is some rounds later. Nothing is with
//! the helpers then, so the worker is the one writer of the SAs whose home it is.

use std::sync::mpsc::Sender;

use policy::SaId;

use crate::explain::explain;
use crate::model::{Explanation, Probe};
use crate::worker::Worker;

/// A question that waits for its answer.
pub(super) enum Asked {
    /// [`Command::MergeWindow`](crate::Command::MergeWindow).
    Merge(Merge),
    /// [`Command::CatchUp`](crate::Command::CatchUp).
    CatchUp(Sender<()>),
    /// [`Command::Drain`](crate::Command::Drain).
    Drain(Since, Sender<()>),
    /// [`Command::Explain`](crate::Command::Explain).
    Explain(Box<Probe>, Sender<Explanation>),
}

/// A window to be united with an SA's.
///
/// The other has received a packet before some that wait here: these would be behind the window. So it is done
/// when nothing waits any more, or when the SA's own window is there.
pub(super) struct Merge {
    pub sa: SaId,
    pub edge: u64,
    pub received: Vec<u64>,
    pub done: Sender<bool>,
    pub since: Since,
}

/// When something was asked for that is done when no packet waits any more.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// How many rounds had found nothing.
    idle_rounds: u64,
    at_ns: u64,
}

/// The longest that is waited for: until then a worker with that much to do has had a turn of what was there.
const IDLE_WAIT_NS: u64 = 2_000_000_000;

impl Worker {
    /// Answers what was asked, if the databases have been followed.
    #[cold]
    #[inline(never)]
    pub(super) fn answer(&mut self) {
        if self.path.view.reader.is_behind() {
            return;
        }
        self.have_helpers_catch_up();
        for asked in core::mem::take(&mut self.asked) {
            // Nobody waits for it any more: fine.
            let _ = match asked {
                Asked::Merge(merge) => match self.merge(&merge) {
                    Some(is_home) => merge.done.send(is_home).ok(),
                    None => {
                        self.asked.push(Asked::Merge(merge));
                        continue;
                    }
                },
                Asked::Drain(since, done) if self.has_waited(since) => done.send(()).ok(),
                waits @ Asked::Drain(..) => {
                    self.asked.push(waits);
                    continue;
                }
                Asked::CatchUp(done) => done.send(()).ok(),
                Asked::Explain(probe, answer) => answer.send(explain(&self.path.view, &probe)).ok(),
            };
        }
    }

    /// Now, for what waits until no packet does.
    pub(super) fn since(&self) -> Since {
        Since { idle_rounds: self.idle_rounds, at_ns: self.path.view.now.ns }
    }

    /// Whether nothing has waited in a round since then.
    fn has_waited(&self, since: Since) -> bool {
        let waited_ns = self.path.view.now.ns.saturating_sub(since.at_ns);
        self.idle_rounds > since.idle_rounds || waited_ns >= IDLE_WAIT_NS
    }

    /// Whether it was done here; none where it has to wait.
    fn merge(&self, merge: &Merge) -> Option<bool> {
        let Merge { sa, edge, received, since, .. } = merge;
        let (reader, me) = (&self.path.view.reader, self.path.view.worker.get());
        let Some(sa) = reader.sa_named(sa).and_then(|sa| reader.sa(sa)) else { return Some(false) };
        if sa.home().claim(me) != me {
            return Some(false);
        }
        let replay = sa.esp.replay();
        if replay.edge() < *edge && !self.has_waited(*since) {
            return None;
        }
        replay.merge(*edge, |number| {
            let back = edge - number;
            let word = usize::try_from(back / 64).ok().and_then(|word| received.get(word));
            word.is_some_and(|word| word >> (back % 64) & 1 == 1)
        });
        Some(true)
    }
}
