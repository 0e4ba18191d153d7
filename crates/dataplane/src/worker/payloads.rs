//! Payloads of IP-TFS that wait: for those that are missing, for their time, for the worker's end.

use crate::burst::Path;
use crate::model::{Turn, TurnHolder};
use crate::worker::Worker;

/// Senders of payloads. Helpers leave packets of IP-TFS to the worker, so an SA that these send by is numbered and
/// counted by the worker alone, also while another thread has the turn.
struct OwnSenders;

impl TurnHolder for OwnSenders {}

impl Worker {
    /// At the beginning of a round: gives up what was waited for long enough, and what is of SAs that are gone.
    #[cold]
    #[inline(never)]
    pub(super) fn tend_payloads(&mut self, databases_changed: bool) {
        if databases_changed {
            let Path { view, exec, .. } = &mut self.path;
            exec.rooms.aggfrag.sweep(view, &mut exec.out, false);
        }
        if self.path.exec.rooms.aggfrag.is_overdue(self.path.view.now.ns) {
            self.drain_helpers().expire_payloads();
        }
    }

    /// At the end of a round: sends the payloads that are due. Helpers may have bursts, and are not waited for.
    #[inline(never)]
    pub(super) fn send_payloads(&mut self) {
        let Path { view, exec, .. } = &mut self.path;
        let turn = Turn::of(&OwnSenders);
        exec.send_due(view, turn, false);
        exec.seal_gathered(view, turn);
    }

    /// Brings all that waits to its end: payloads leave and are taken apart as they are.
    pub(super) fn settle_payloads(&mut self) {
        if self.path.exec.rooms.aggfrag.is_used() {
            self.drain_helpers().settle_payloads();
        }
    }
}
