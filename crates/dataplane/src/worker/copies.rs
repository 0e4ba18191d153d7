//! Packets out of copies that wait for those before them.

use crate::worker::Worker;

impl Worker {
    /// At the beginning of a round: those that have waited for long enough go on at its end.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_copies(&mut self) {
        self.expire_copies(false);
    }

    /// Has all that waits go on.
    pub(super) fn settle_copies(&mut self) {
        self.expire_copies(true);
    }

    fn expire_copies(&mut self, is_last: bool) {
        let now_ns = self.path.view.now.ns;
        let exec = &mut self.path.exec;
        exec.rooms.recoveries.expire(&mut exec.out, now_ns, is_last);
    }
}
