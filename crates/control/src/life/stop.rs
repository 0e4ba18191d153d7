//! The end: in order, or after workers were lost.

use std::fs;
use std::time::Duration;

use report::paths;
use tracing::{error, info, warn};

use crate::Daemon;
use crate::clock::Now;
use crate::sa::Sas;
use crate::shows::Shows;
use crate::sources::kernel::KernelSource;

/// How long packets may be between a program and a worker.
const DRAIN: Duration = Duration::from_millis(5);

/// How long an end waits for SAs to be handed back.
const RELEASE_WAIT: Duration = Duration::from_secs(3);

impl Daemon {
    /// Ends after workers were lost: nothing is taken from Linux any more; the guard stays.
    pub(crate) fn give_up(&mut self) {
        self.crew.ports.detach();
        self.linux.memifs.close();
        self.sa.by_sender.close();
        self.crew.workers.stop();
    }

    /// Gives back to the kernel what was taken over from it, in order and while packets go on.
    fn release(&mut self) {
        let deadline = Now::read().at + RELEASE_WAIT;
        while !self.sa.source.kernel_mut().is_none_or(KernelSource::release) {
            let now = Now::read();
            if now.at > deadline {
                warn!(
                    "not all SAs were handed back in time; the kernel goes on beyond their leases"
                );
                return;
            }
            let Daemon { config, wants, linux, sa, crew, life, .. } = self;
            life.beat(now, &sa.source, crew);
            sa.serve(now, crew, wants);
            if sa.have_changed() {
                crew.workers.wake();
            }
            crew.follow_sas(&mut sa.source);
            sa.follow_policies(now, config, linux, crew, wants);
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.sa.source.carries_on() {
            // What sockets hold goes on before they are closed.
            std::thread::sleep(DRAIN);
            let _ = self.crew.workers.drain();
        }
    }

    /// Ends in order. SAs and policies that the IKE daemon still has stay in the vault for the next
    /// start, and so do their barriers. If there are none, nothing is left behind.
    pub(crate) fn shut_down(mut self) {
        self.release();
        self.crew.ports.close(&self.crew.workers);
        self.linux.memifs.close();
        self.linux.private.tear_down();
        if let Some(early) = self.shows.early.take() {
            early.tear_down();
        }
        self.sa.by_sender.close();
        self.crew.workers.stop();
        self.crew.tell_drops();
        if self.sa.is_guarded(&self.config.guard)
            && let Err(error) = self.sa.guard.finish(Now::read().at)
        {
            error!("{error}");
        }
        let databases = self.sa.source.databases();
        let (sas, policies) = (databases.sa_count(), databases.policies().len());
        let standing = self.sa.guard.standing().len();
        let is_any = sas + policies > 0 || self.sa.defaults().is_any();
        let is_kept = !self.sa.source.carries_on() && is_any;
        let Daemon { config, sa: Sas { source, .. }, shows: Shows { clients, .. }, .. } = self;
        source.shut_down();
        drop(clients);
        if is_kept {
            info!(
                sas,
                policies,
                standing,
                "kept for the next start; `culvert guard clear --name {}` forgets them and takes \
                 the guard down",
                config.name
            );
            return;
        }
        let _ = fs::remove_file(paths::interface_file(&config.name));
        let _ = fs::remove_file(paths::offload_file(&config.name));
        // Not empty while static prefixes are guarded.
        let _ = fs::remove_dir(paths::runtime_dir(&config.name));
        info!(standing, "stopped");
    }
}
