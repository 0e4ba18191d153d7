//! A helper: a thread that works on a worker's bursts.

use core::time::Duration;
use std::time::Instant;

use dispatch::{Sleepers, ordered};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::event::Waker;
use crate::worker::helper::Helper;
use crate::worker::idle::Polling;
use crate::worker::turns::{Item, SparePasses, spare_passes, work_on};

/// One helper; see [`CryptoWorker::run`].
pub struct CryptoWorker {
    helper: Helper,
    passes: SparePasses,
    queue: ordered::Worker<Item>,
    /// Its number among those who sleep.
    number: u16,
    sleepers: Sleepers,
    waker: Waker,
}

impl CryptoWorker {
    /// One that is woken by `waker`.
    pub(super) fn new(
        helper: Helper,
        number: u16,
        (queue, sleepers, waker): (ordered::Worker<Item>, Sleepers, Waker),
    ) -> CryptoWorker {
        CryptoWorker { helper, passes: spare_passes(), queue, number, sleepers, waker }
    }

    /// Works until the worker that it serves is gone.
    ///
    /// When there is nothing to do it spins for a while, then sleeps until it is woken; with
    /// [`Polling::Always`] it never sleeps.
    pub fn run(mut self, polling: Polling) {
        let mut idle_since: Option<Instant> = None;
        while !self.queue.is_closed() {
            while work_on(&mut self.helper, &self.queue, &mut self.passes, || false) {
                idle_since = None;
            }
            self.helper.follow();
            match idle_since {
                Some(since) if polling == Polling::Adaptive && since.elapsed() > LOOK => {
                    self.sleep();
                    idle_since = None;
                }
                Some(_) => core::hint::spin_loop(),
                None => idle_since = Some(Instant::now()),
            }
        }
    }

    fn sleep(&self) {
        self.sleepers.prepare(self.number.into());
        let is_idle = self.queue.is_empty() && !self.helper.is_behind();
        if is_idle && !self.queue.is_closed() {
            let mut fds = [PollFd::new(&self.waker, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
            // Woken, timed out or interrupted: looks again in any case.
            let _ = poll(&mut fds, Some(&timeout));
            self.waker.clear();
        }
        self.sleepers.awake(self.number.into());
    }
}

/// How long a helper spins for work before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// The longest sleep: so that the end of the worker is seen.
const SLEEP: Duration = Duration::from_millis(50);
