//! Commands to workers that run, and questions: a worker takes them between its rounds.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use dataplane::{
    BfdAsked, BfdChange, BfdReports, Command, CopyReader, Explanation, PathReports, PathSetup,
    PortKind, Probe, ProbeExit, TapConfig, TapReader,
};
use io::Port;
use policy::SaId;
use tracing::warn;

use super::{Workers, worker_name};
use crate::slots::{self, Place};

/// How long a worker may take to answer; it does so every round, and sleeps 50 ms at most.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// The same, of what it does when no packet waits any more: it goes on after two seconds.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(2500);

/// The worker that measures paths, and has the sessions of BFD.
const FIRST: usize = 0;

impl Workers {
    /// Sends a worker a command. One that has ended takes none: the daemon ends then, too.
    pub(super) fn send(&self, worker: usize, command: Command) {
        let Some(running) = self.running.get(worker) else { return };
        if running.commands.send(command).is_err() {
            warn!("{} has ended", worker_name(worker));
        }
        running.waker.wake();
    }

    /// Gives a queue of a port to its worker, and waits, up to a limit, until the worker has polled it
    /// for the first time.
    pub fn add_port(&self, slot: usize, queue: u32, ifindex: u32, port: Box<dyn Port>) {
        self.add((slot, queue as usize), ifindex, port, PortKind::Ethernet);
    }

    /// Gives a tunnel interface to the first worker, as [`Workers::add_port`].
    pub fn add_tunnel(&self, slot: usize, ifindex: u32, port: Box<dyn Port>) {
        self.add((slot, 0), ifindex, port, PortKind::Tunnel);
    }

    /// `interface` is its slot.
    fn add(
        &self,
        (interface, queue): (usize, usize),
        ifindex: u32,
        port: Box<dyn Port>,
        kind: PortKind,
    ) {
        let Some(Place { worker, slot }) = slots::of_queue(interface, queue, self.count()) else {
            return warn!(ifindex, "no place for a queue: closed");
        };
        let (done, is_done) = channel();
        self.send(worker, Command::AddPort { slot, ifindex, port, kind, done });
        if is_done.recv_timeout(ANSWER_TIMEOUT).is_err() {
            warn!("{} is slow to answer", worker_name(worker));
        }
    }

    /// Closes every queue of an interface, at whichever worker, and waits up to a limit until that is
    /// done.
    pub fn remove_ports(&self, ifindex: u32) {
        let all = 0..self.running.len();
        all.for_each(|worker| self.send(worker, Command::RemovePorts { ifindex }));
        // One that is late closes them later.
        let _ = self.wait_for_commands();
    }

    /// Waits up to a limit until the commands sent so far have been carried out, and until all threads have
    /// taken over what was changed in databases and tables before the call, and finished the packets that they
    /// had before ([`Command::CatchUp`]). False if one took too long: then nothing is known of it.
    ///
    /// After true no packet gets a number of an SA, or is accepted by one, that was removed from the databases
    /// before the call, whichever thread has it.
    pub fn wait_for_commands(&self) -> bool {
        let ask = |worker: usize| {
            let (done, is_done) = channel();
            self.send(worker, Command::CatchUp(done));
            is_done
        };
        let asked: Vec<Receiver<()>> = (0..self.running.len()).map(ask).collect();
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let left = || deadline.saturating_duration_since(Instant::now());
        // Each is asked, also behind one that is late. All of them have this time together.
        asked.iter().fold(true, |all, is_done| all & is_done.recv_timeout(left()).is_ok())
    }

    /// Waits until all workers have brought to an end what waited in their ports; whether they have.
    pub fn drain(&self) -> bool {
        let (done, is_done) = channel();
        (0..self.running.len()).for_each(|worker| self.send(worker, Command::Drain(done.clone())));
        drop(done);
        self.running.iter().all(|_| is_done.recv_timeout(DRAIN_TIMEOUT).is_ok())
    }

    /// Has the home of an inbound SA unite its replay window with that of somebody who has opened packets of
    /// it as well ([`Command::MergeWindow`]), and does not wait for it. Each worker answers whether it was
    /// the home; none need be listened to.
    pub fn merge_window(&self, sa: &SaId, edge: u64, received: &[u64]) -> Receiver<bool> {
        let (done, answers) = channel();
        for worker in 0..self.running.len() {
            let (received, done) = (received.to_vec(), done.clone());
            self.send(worker, Command::MergeWindow { sa: *sa, edge, received, done });
        }
        answers
    }

    /// Explanation by a worker. `None` from one that is late, or not there.
    pub fn explain(&self, worker: usize, probe: Probe) -> Option<Explanation> {
        let (answer, answered) = channel();
        self.send(worker, Command::Explain(Box::new(probe), answer));
        answered.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Has the first worker measure these paths, and no others.
    pub fn measure(&self, setup: PathSetup) {
        self.send(FIRST, Command::Measure(Box::new(setup)));
    }

    /// Has probes of some sessions, by their places among those that are measured, leave otherwise.
    pub fn lead_probes(&self, changes: Vec<(usize, ProbeExit)>) {
        self.send(FIRST, Command::LeadProbes(changes));
    }

    /// Measurements of the sessions from a place on, some at once. `None` from a worker that is late.
    pub fn measured(&self, from: usize) -> Option<PathReports> {
        let (answer, told) = channel();
        self.send(FIRST, Command::TellPaths { from, answer });
        told.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Changes the sessions of BFD, which the first worker has.
    pub fn change_bfd(&self, change: BfdChange) {
        self.send(FIRST, Command::Bfd(Box::new(change)));
    }

    /// Sessions of BFD as they stand. `None` from a worker that is late.
    pub fn bfd(&self, asked: BfdAsked) -> Option<BfdReports> {
        let (answer, told) = channel();
        self.send(FIRST, Command::TellBfd { asked, answer });
        told.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Begins to record packets in every worker.
    pub fn tap(&self, config: &TapConfig) -> TapReader {
        let (recorders, reader) = dataplane::tap(config, self.count());
        for (worker, recorder) in recorders.into_iter().enumerate() {
            self.send(worker, Command::Tap(Box::new(recorder)));
        }
        reader
    }

    /// Has every worker copy the first packets of flows whose application is not known.
    pub fn copies(&self) -> CopyReader {
        let (copiers, reader) = dataplane::copies(self.count());
        for copier in copiers {
            self.send(copier.worker(), Command::Look(Box::new(copier)));
        }
        reader
    }
}
