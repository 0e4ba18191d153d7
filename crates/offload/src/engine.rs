//! Crypto offload behind [`crypto::Engine`]: jobs of offloaded SAs go through their device's queue, all others, and what a
//! device does not take, to the software engine.
//!
//! 1. Packets of offloaded SAs are copied into buffers of the queue's, with an outer header in front, and submitted.
//! 2. Software works on the other jobs meanwhile.
//! 3. The queue is polled until the device has given these packets back, for a bounded number of times.
//! 4. Software works on what the device did not: it was busy, has been reset, has lost the SA, or has
//!    not answered. The job's own bytes are untouched until then, and its number and IV are the same, so the
//!    packet is the one that the device would have made.
//!
//! Some results are checked by software (`doubt.rs`). A device that is late twice in a row, or wrong
//! once, is given nothing more until control has put that right ([`Watch`](crate::Watch)).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

use crypto::{Engine, Job};

use crate::lane::Lane;
use crate::offloaded::Offloaded;
use crate::queue::BURST_LEN;

/// An engine with devices.
pub struct OffloadEngine {
    software: Box<dyn Engine>,
    lanes: Vec<Lane>,
    /// True once any SA was offloaded: until then no look-up is made. Relaxed: handing a session
    /// to another thread makes this seen there, too.
    is_used: Arc<AtomicBool>,
    turn: u64,
}

impl OffloadEngine {
    /// `software` with the devices of these lanes, which sessions name by their places.
    pub fn new(
        software: Box<dyn Engine>,
        lanes: Vec<Lane>,
        is_used: Arc<AtomicBool>,
    ) -> OffloadEngine {
        OffloadEngine { software, lanes, is_used, turn: 0 }
    }

    fn run_burst(&mut self, jobs: &mut [Job<'_>]) {
        self.turn += 1;
        let turn = self.turn;
        self.lanes.iter_mut().for_each(|lane| lane.collect(turn));
        let mut on_device = 0_u64;
        for (at, job) in jobs.iter_mut().enumerate() {
            let session = job.session;
            let Some(sa) = session.state::<Offloaded>() else { continue };
            let lane = self.lanes.get_mut(sa.lane);
            if lane.is_some_and(|lane| lane.take(sa, job, (turn, at))) {
                on_device |= 1 << at;
            } else {
                self.to_software(job, false);
            }
        }
        let left = self.lanes.iter_mut().fold(0, |left, lane| left | lane.submit());
        on_device &= !left;
        each(jobs, left, |job| self.to_software(job, false));
        self.run_software(jobs, !on_device);
        let (mut again, mut doubtful) = (0, 0);
        for _ in 0..MOST_POLLS {
            if on_device == 0 {
                break;
            }
            for lane in &mut self.lanes {
                let (back, not_done, in_doubt) = lane.poll(jobs, turn);
                on_device &= !back;
                again |= not_done;
                doubtful |= in_doubt;
            }
        }
        if on_device != 0 {
            self.lanes.iter_mut().for_each(Lane::note_late);
            again |= on_device;
        }
        if again | doubtful != 0 {
            each(jobs, again, |job| self.to_software(job, false));
            each(jobs, doubtful, |job| self.to_software(job, true));
            self.run_software(jobs, again | doubtful);
            self.lanes.iter_mut().for_each(|lane| lane.judge(jobs));
        }
    }

    /// Has the software engine's keys be used, in the device's place or to compare.
    fn to_software(&self, job: &mut Job<'_>, is_comparison: bool) {
        let session = job.session;
        let Some(sa) = session.state::<Offloaded>() else { return };
        job.session = &sa.software;
        if let Some(lane) = self.lanes.get(sa.lane) {
            lane.watch.count(is_comparison);
        }
    }

    /// Runs the jobs at these places, neighbours together.
    fn run_software(&mut self, jobs: &mut [Job<'_>], places: u64) {
        let is_in = |at: usize| places >> at & 1 == 1;
        let mut start = 0;
        while start < jobs.len() {
            let run = (start..jobs.len()).take_while(|at| is_in(*at)).count();
            if let Some(jobs) = jobs.get_mut(start..start + run).filter(|jobs| !jobs.is_empty()) {
                self.software.run(jobs);
            }
            start += run.max(1);
        }
    }
}

impl Engine for OffloadEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        if !self.is_used.load(Relaxed) {
            return self.software.run(jobs);
        }
        jobs.chunks_mut(BURST_LEN).for_each(|jobs| self.run_burst(jobs));
    }
}

/// The jobs at these places.
fn each<'j>(jobs: &mut [Job<'j>], places: u64, mut run: impl FnMut(&mut Job<'j>)) {
    for (at, job) in jobs.iter_mut().enumerate() {
        if places >> at & 1 == 1 {
            run(job);
        }
    }
}

/// Polls of one burst before a device is passed over: milliseconds.
const MOST_POLLS: usize = 100_000;
