//! Packets that wait for tokens: looked at once a round, by the worker's time.

use crate::worker::Worker;

impl Worker {
    /// At the beginning of a round: moves on what has tokens now.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_queues(&mut self) {
        if self.path.exec.rooms.rates.is_due(self.path.view.now.ns) {
            self.drain_helpers().move_on_waited();
        }
    }

    /// When there has to be a round at the latest.
    pub(super) fn due_ns(&self) -> Option<u64> {
        let exec = &self.path.exec;
        let tokens_ns = exec.rooms.rates.due_ns();
        let payloads_ns =
            if exec.rooms.aggfrag.is_used() { exec.rooms.aggfrag.due_ns() } else { None };
        let probes_ns = exec.rooms.paths.as_ref().and_then(|paths| paths.due_ns());
        let bfd_ns = exec.rooms.bfd.as_ref().and_then(|sessions| sessions.due_ns());
        let copies_ns = exec.rooms.recoveries.due_ns();
        let others = [payloads_ns, probes_ns, bfd_ns, copies_ns];
        tokens_ns.into_iter().chain(others.into_iter().flatten()).min()
    }
}
