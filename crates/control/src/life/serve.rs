//! The process in a round of the control thread.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Life;
use super::end::End;
use crate::RETRY_INTERVAL;
use crate::clock::Now;
use crate::sources::Source;
use crate::workers::Crew;

impl Life {
    /// Gives signs of life. The end, if it has come.
    pub(crate) fn serve(&mut self, now: Now, source: &Source, crew: &mut Crew) -> Option<End> {
        self.beat(now, source, crew);
        if drain(&self.terminate) {
            return Some(End::Told);
        }
        crew.workers.dead().map(End::WorkerDied)
    }

    /// Tells watchdogs that this thread works, where Linux can carry on in its place, and the service manager that all
    /// workers do.
    pub(crate) fn beat(&mut self, now: Now, source: &Source, crew: &mut Crew) {
        crew.ports.beat(now);
        self.past_daemon.set(now, source.carries_on());
        self.past_daemon.beat(now);
        let Some(watchdog) = &mut self.watchdog else { return };
        if watchdog.is_due(now.at, || crew.workers.rounds()) {
            // A manager that is not told ends the daemon and starts another, which is all that could be done here.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }

    /// As [`Life::beat`], where this thread has waited for workers since its round began: with a clock of its own, as the
    /// watchdogs have theirs.
    pub(crate) fn beat_late(&mut self, source: &Source, crew: &mut Crew) {
        self.beat(Now::read(), source, crew);
    }

    /// How long the next round may be put off.
    pub(crate) fn due_in(&self, now: Now) -> Option<Duration> {
        self.watchdog.as_ref().map(|watchdog| watchdog.due_in(now.at))
    }

    /// Adds the descriptors that become readable when there is something to serve.
    pub(crate) fn add_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        fds.extend([self.terminate.as_fd(), self.hang_ups.as_fd()]);
    }

    /// True if the file is to be read again, as a signal says.
    pub(crate) fn is_hung_up(&self) -> bool {
        drain(&self.hang_ups)
    }

    /// True if it is time to try again what failed: nothing may announce that it would work by now.
    pub(crate) fn retries(&mut self, now: Now) -> bool {
        let is_due = self.retry_at <= now.at;
        if is_due {
            self.retry_at = now.at + RETRY_INTERVAL;
        }
        is_due
    }
}

/// True if a signal's pipe held anything. Empties it.
fn drain(pipe: &UnixStream) -> bool {
    let mut any = false;
    let mut buffer = [0u8; 64];
    while rustix::io::read(pipe, &mut buffer).is_ok_and(|n| n > 0) {
        any = true;
    }
    any
}
