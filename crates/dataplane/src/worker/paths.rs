//! Paths that are measured: looked at once a round.

use crate::features::paths::{PathReports, PathSetup, Paths, ProbeExit};
use crate::worker::Worker;

impl Worker {
    /// At the end of a round: sends reflections that wait, and probes that are due.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_paths(&mut self) {
        let now_ns = self.path.view.now.ns;
        if self.path.exec.rooms.paths.as_ref().is_some_and(|paths| paths.has_work(now_ns)) {
            self.drain_helpers().send_probes();
        }
    }

    /// Measures other paths.
    pub(super) fn follow_paths(&mut self, setup: PathSetup) {
        let now_ns = self.path.view.now.ns;
        let old = self.path.exec.rooms.paths.take();
        self.path.exec.rooms.paths = Paths::follow(old, setup, now_ns);
    }

    /// Sends the probes of some sessions otherwise.
    pub(super) fn lead_probes(&mut self, changes: &[(usize, ProbeExit)]) {
        if let Some(paths) = &mut self.path.exec.rooms.paths {
            paths.lead(changes);
        }
    }

    /// Tells what was measured of the sessions from a place on.
    pub(super) fn report_paths(&self, from: usize) -> PathReports {
        let paths = self.path.exec.rooms.paths.as_ref();
        paths.map(|paths| paths.report(from)).unwrap_or_default()
    }
}
