//! Sessions of BFD: looked at once a round.

use crate::features::bfd::{BfdAsked, BfdChange, BfdReports, Sessions};
use crate::worker::Worker;

impl Worker {
    /// At the end of a round: sends echo packets back, and the packets that are due.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_bfd(&mut self) {
        let now_ns = self.path.view.now.ns;
        let due_ns = self.path.exec.rooms.bfd.as_ref().and_then(|sessions| sessions.due_ns());
        if due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.drain_helpers().send_bfd();
        }
    }

    /// Has other sessions.
    pub(super) fn follow_bfd(&mut self, change: BfdChange) {
        let now_ns = self.path.view.now.ns;
        let kept = self.path.exec.rooms.bfd.take();
        self.path.exec.rooms.bfd = Sessions::follow(kept, change, now_ns);
    }

    /// Tells how sessions stand.
    pub(super) fn report_bfd(&self, asked: BfdAsked) -> BfdReports {
        let sessions = self.path.exec.rooms.bfd.as_ref();
        sessions.map(|sessions| sessions.report(asked)).unwrap_or_default()
    }
}
