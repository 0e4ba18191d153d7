//! What the control thread asks of a worker that has followed the databases.
//!
//! Answered between two rounds' packets, in the order of the commands, once nothing that the control thread has
//! published is left to be taken over: after many changes at once that is some rounds later. Nothing is with
//! the helpers then, so the worker is the one writer of the SAs whose home it is.

use std::sync::mpsc::Sender;

use policy::SaId;

use crate::explain::{Explanation, Probe, explain};
use crate::worker::Worker;

/// A question that waits for its answer.
pub(super) enum Asked {
    /// [`Command::MergeWindow`](crate::Command::MergeWindow).
    Merge { sa: SaId, edge: u64, received: Vec<u64>, done: Sender<bool> },
    /// [`Command::CatchUp`](crate::Command::CatchUp).
    CatchUp(Sender<()>),
    /// [`Command::Explain`](crate::Command::Explain).
    Explain(Box<Probe>, Sender<Explanation>),
}

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
                Asked::Merge { sa, edge, received, done } => {
                    done.send(self.merge_window(&sa, edge, &received)).ok()
                }
                Asked::CatchUp(done) => done.send(()).ok(),
                Asked::Explain(probe, answer) => answer.send(explain(&self.path.view, &probe)).ok(),
            };
        }
    }

    /// Whether it was done here.
    fn merge_window(&self, sa: &SaId, edge: u64, received: &[u64]) -> bool {
        let (reader, me) = (&self.path.view.reader, self.path.view.worker.get());
        let Some(sa) = reader.sa_named(sa).and_then(|sa| reader.sa(sa)) else { return false };
        let is_home = sa.home().claim(me) == me;
        if is_home {
            sa.esp.replay().merge(edge, |number| {
                let back = edge - number;
                let word = usize::try_from(back / 64).ok().and_then(|word| received.get(word));
                word.is_some_and(|word| word >> (back % 64) & 1 == 1)
            });
        }
        is_home
    }
}
