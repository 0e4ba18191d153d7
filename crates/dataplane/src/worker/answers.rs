//! Answers of a worker that has followed the databases to the control thread.
//!
//! Answered between two rounds' packets, in the order of the commands, once nothing that the control thread has
//! published is left to be taken over: after many changes at once that is some rounds later. Nothing is with
//! the helpers then, so the worker is the one writer of the SAs whose home it is.

use crate::explain::explain;
use crate::worker::Worker;
use crate::worker::asked::{Merge, PendingAnswer, Since};

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
                PendingAnswer::Merge(merge) => match self.merge(&merge) {
                    Some(is_home) => merge.done.send(is_home).ok(),
                    None => {
                        self.asked.push(PendingAnswer::Merge(merge));
                        continue;
                    }
                },
                PendingAnswer::Drain(since, done) if self.has_waited(since) => done.send(()).ok(),
                waits @ PendingAnswer::Drain(..) => {
                    self.asked.push(waits);
                    continue;
                }
                PendingAnswer::CatchUp(done) => done.send(()).ok(),
                PendingAnswer::Explain(probe, answer) => {
                    answer.send(explain(&self.path.view, &probe)).ok()
                }
            };
        }
    }

    /// Now, for what waits until no packet does.
    pub(super) fn since(&self) -> Since {
        Since { idle_rounds: self.idle_rounds, at_ns: self.path.view.now.ns }
    }

    /// True if in some round since then no packet has waited.
    fn has_waited(&self, since: Since) -> bool {
        let waited_ns = self.path.view.now.ns.saturating_sub(since.at_ns);
        self.idle_rounds > since.idle_rounds || waited_ns >= IDLE_WAIT_NS
    }

    /// Merges a window: true if this was done here. `None` where it has to wait.
    fn merge(&mut self, merge: &Merge) -> Option<bool> {
        let Merge { sa, edge, received, since, .. } = merge;
        let (reader, me) = (&self.path.view.reader, self.path.view.worker.get());
        let Some(handle) = reader.sa_named(sa) else { return Some(false) };
        let Some(sa) = reader.sa(handle) else { return Some(false) };
        if sa.home().claim(me) != me {
            return Some(false);
        }
        if sa.esp.replay().edge() < *edge && !self.has_waited(*since) {
            return None;
        }
        self.drain_helpers().merge_window(handle, *edge, received);
        Some(true)
    }
}
