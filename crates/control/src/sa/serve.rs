//! The owner of SAs and policies in a round of the control thread.

use std::time::Duration;

use config::GuardConfig;
use wire::Headers;

use super::Sas;
use crate::clock::Now;
use crate::heartbeat;
use crate::sources::Source;
use crate::sources::kernel::KernelSource;
use crate::wants::Wants;
use crate::workers::Crew;

impl Sas {
    /// Serves the owner of SAs and policies, and does what it wants of ports and workers. Forgets what was learnt of
    /// paths long ago.
    pub(crate) fn serve(&mut self, now: Now, crew: &mut Crew, wants: &mut Wants) {
        if self.source.kernel().is_some_and(KernelSource::awaits_workers) {
            // One that is late drops what it would send by an SA that is gone.
            let _ = crew.workers.wait_for_commands();
        }
        self.source.serve(now);
        match &mut self.source {
            Source::Kernel(kernel) => {
                for merge in kernel.take_merges(now) {
                    let _ = crew.workers.merge_window(&merge.sa, merge.edge, &merge.received);
                }
            }
            // Sockets of IKE daemons, where there are no ports.
            Source::Builtin(builtin) => {
                wants.topology |= crew.esp_sockets.serve(builtin, &crew.workers);
            }
        }
        wants.path_mtus |= self.forget_path_mtus(now);
    }

    /// How long the next round may be put off for the owner's and the guard's sake.
    pub(crate) fn due_in(&self, now: Now, guard: &GuardConfig) -> Option<Duration> {
        let source = self.source.due_in(now);
        let guard = self.guard.due().filter(|_| self.is_guarded(guard)).map(|at| now.until(at));
        // Watchdogs take this thread for dead otherwise.
        let alive = self.source.carries_on().then_some(heartbeat::LONGEST_SLEEP);
        source.into_iter().chain(guard).chain(alive).min()
    }

    /// A packet wants the SAs of a policy; those of a worker's own where a `cpu` is given.
    pub(crate) fn acquire(&mut self, now: Now, policy: u32, cpu: Option<u32>, packet: &Headers) {
        // The kernel asks by itself when Linux has the packet; what waits here waits for an SA that is being taken over.
        if let Some(builtin) = self.source.builtin_mut() {
            builtin.acquire(now, policy, cpu, packet);
        }
    }

    /// True if SAs have changed since the last call.
    pub(crate) fn have_changed(&mut self) -> bool {
        let changes = self.source.changes().of_sas();
        std::mem::replace(&mut self.sas_followed, changes) != changes
    }

    /// Brings counters up to date that are read when somebody asks.
    pub(crate) fn refresh(&mut self, now: Now) {
        match &mut self.source {
            Source::Builtin(builtin) => builtin.read_devices(),
            Source::Kernel(kernel) => kernel.refresh(now),
        }
    }
}
