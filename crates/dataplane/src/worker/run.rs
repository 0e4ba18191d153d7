//! The worker's loop: rounds, and sleep when nothing comes.

use core::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::model::slots::QUEUES;
use crate::out::peers::Peers;
use crate::worker::idle::{Idle, LONGEST_LOOK_NS, Polling, SLEEP};
use crate::worker::{Ending, Worker};

impl Worker {
    /// Chooses what to do when nothing comes; [`Polling::Adaptive`] unless told.
    pub fn set_polling(&mut self, polling: Polling) {
        self.polling = polling;
    }

    /// Resolves every packet of a flow that is not known, however far behind the worker is: for measurements in which
    /// no packet may be lost, and ports have more at any time.
    pub fn admit_all_flows(&mut self) {
        self.path.admits_all = true;
    }

    /// Lets a worker that had paused run again.
    pub fn resume(&mut self) {
        self.ending = None;
    }

    /// Works until told to stop, or to pause.
    pub fn run(&mut self) {
        let mut idle = Idle::new(self.polling, self.path.view.now.ns);
        loop {
            let came = self.round();
            let now_ns = self.path.view.now.ns;
            if self.ending.is_some() {
                break;
            }
            if idle.should_sleep(came, now_ns) {
                self.sleep();
                idle.has_slept(now_ns);
            } else if came == 0 {
                core::hint::spin_loop();
            }
            if idle.should_ask(now_ns) {
                self.check_ports();
            }
        }
        if self.ending == Some(Ending::Stopped) {
            self.close();
        }
    }

    /// How long to sleep at most; none if something is due too soon for that.
    fn longest_sleep(&self) -> Option<Duration> {
        let Some(due_ns) = self.due_ns() else { return Some(SLEEP) };
        let left_ns = due_ns.saturating_sub(self.shared.now().ns);
        (left_ns > LONGEST_LOOK_NS).then(|| SLEEP.min(Duration::from_nanos(left_ns)))
    }

    /// Sleeps until a port, the control thread or a time-out wakes it.
    fn sleep(&mut self) {
        // Changes that were too many for one round are taken over in the next.
        if self.is_behind() {
            return;
        }
        // What is due sooner than a sleeper wakes is waited for with open eyes.
        let Some(longest) = self.longest_sleep() else { return };
        let peers = self.path.exec.out.peers.as_ref();
        if peers.is_none_or(Peers::prepare_sleep) {
            self.wait(longest);
        }
        if let Some(peers) = &self.path.exec.out.peers {
            peers.awake();
        }
    }

    /// Waits for a port, the waker or a time-out.
    fn wait(&mut self, longest: Duration) {
        let mut fds: ArrayVec<PollFd<'_>, { QUEUES + 1 }> = ArrayVec::new();
        fds.push(PollFd::new(&self.waker, PollFlags::IN));
        for place in self.path.exec.out.ports.iter() {
            if let Some(fd) = place.port.fd() {
                fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            }
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        let woken = poll(&mut fds, Some(&timeout)).unwrap_or(0);
        let failed = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let any_failed = woken > 0 && fds.iter().skip(1).any(|fd| fd.revents().intersects(failed));
        // Emptied only if there is something in it: that spares most sleeps a system call.
        let is_called = woken > 0 && fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        self.path.exec.out.counters.work.sleeps.add(1);
        if is_called {
            self.waker.clear();
        }
        if any_failed {
            self.check_ports();
        }
    }

    /// Asks every port whether it still works, and closes those whose interface is gone.
    fn check_ports(&mut self) {
        let out = &mut self.path.exec.out;
        for ifindex in out.ports.gone() {
            out.lose_port(ifindex);
        }
    }
}
