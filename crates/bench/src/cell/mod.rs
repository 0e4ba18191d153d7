//! The bench `small-cell`: GTP-U from a core network through IPsec to an application in user space, and through IPsec
//! back.
//!
//! The network's work is done in memory, and is not timed: the peers' sealing and opening. The application is a
//! client of memif over real shared memory, in a thread of its own. On a machine with cores enough one tunnel has a
//! worker, and two workers have an application, which waits by looking and has its core for itself.
//!
//! A pass is of all packets: from the first one that the network gives to the last one that it gets. What waits at its
//! beginning and its end counts, some 1000 of 8192 packets.

mod application;
mod lane;
mod network;
mod published;
mod site;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crypto::Suite;
use memif::Queue;

use self::application::Done;
use self::lane::{Lane, SHORTEST};
use self::published::published;
use self::site::{Plan, Site};
use crate::error::BenchError;
use crate::options::Options;
use crate::pin::pin;
use crate::row::Row;
use crate::rows::Rows;
use crate::scale::cores;
use crate::timing::{Repetitions, Timed, median};

/// The bench `small-cell`: each suite with each number of tunnels and each size.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub(crate) fn small_cell(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    if let Some(size) = options.sizes.iter().copied().find(|size| *size < SHORTEST) {
        return Err(BenchError::Option {
            what: "size",
            given: size,
            allowed: "36 bytes and more: IPv4, UDP and GTP-U have headers",
        });
    }
    let cores = cores(options.cpu)?;
    let cases = options.suites.len() * options.sas.len() * options.sizes.len();
    let mut rows = Rows::new(options, cases);
    for &suite in &options.suites {
        for &tunnels in &options.sas {
            for &size in &options.sizes {
                rows.begin(&format!("{suite}, {tunnels} tunnels, {size} bytes"));
                let case = Case { options, suite, tunnels, size, cores: &cores };
                rows.push(case.row()?);
            }
        }
    }
    Ok(rows.into_vec())
}

/// Parameters of the measurement.
struct Case<'o> {
    options: &'o Options<'o>,
    suite: Suite,
    tunnels: usize,
    size: usize,
    cores: &'o [usize],
}

/// Which part of a repetition worker and application had something to do.
#[derive(Clone, Copy)]
struct Shares {
    worker: f64,
    application: f64,
}

impl Case<'_> {
    fn row(&self) -> Result<Row, BenchError> {
        let Case { options, suite, tunnels, size, cores } = *self;
        let (workers, applications) = split(tunnels, cores.len());
        let is_on_one_core = workers + applications > cores.len();
        let flows = options.flows.div_ceil(tunnels) * tunnels;
        let plan = Plan {
            provider: options.provider,
            suite,
            size,
            tunnels,
            flows,
            workers,
            frames: options.frames,
            is_on_one_core,
        };
        let (mut site, queues) = Site::new(&plan)?;
        let is_over = &AtomicBool::new(false);
        let done: Vec<Done> = (0..applications).map(|_| Done::default()).collect();
        let (all, shares) = thread::scope(|scope| {
            let shared = queues_of(queues, applications).into_iter().zip(&done).enumerate();
            let threads: Vec<ScopedJoinHandle<'_, _>> = shared
                .map(|(number, (queues, done))| {
                    // None: it leaves the core to the worker.
                    let core = cores.get(workers + number).copied();
                    scope.spawn(move || application::run(queues, core, done, is_over))
                })
                .collect();
            let measured = self.measure(&mut site, &done);
            is_over.store(true, Ordering::Relaxed);
            for thread in threads {
                // The end of an application is the reason that packets were lost.
                join(thread)?;
            }
            measured
        })?;
        let mut row = Row {
            bench: "small-cell",
            engine: Some(options.provider.name()),
            suite: Some(suite.to_string()),
            size_bytes: Some(size),
            sas: Some(tunnels),
            cores: Some((workers + applications).min(cores.len())),
            flows: Some(flows),
            ..Row::default()
        };
        all.fill(&mut row, options.allocations.is_some());
        let of = |share: fn(&Shares) -> f64| median(shares.iter().map(share).collect());
        row.busy_share = Some(of(|shares| shares.worker));
        row.application_share = Some(of(|shares| shares.application));
        // Time for looking at empty queues is no packet's.
        row.cycles_per_packet = row.cycles_per_packet.zip(row.busy_share).map(|(n, busy)| n * busy);
        if let Some(there) = published(tunnels, size) {
            (row.published_mpps, row.published_cores) = (Some(there.mpps), Some(there.cores));
        }
        Ok(row)
    }

    /// One pass that is looked at, and then the repetitions.
    fn measure(
        &self,
        site: &mut Site,
        done: &[Done],
    ) -> Result<(Repetitions, Vec<Shares>), BenchError> {
        for lane in &mut site.lanes {
            lane.load()?;
            lane.run();
            lane.unload()?;
            lane.check()?;
        }
        let forwarded = || done.iter().map(Done::forwarded).sum();
        site.check(forwarded())?;
        let (mut all, mut shares) = (Repetitions::default(), Vec::new());
        for _ in 0..self.options.repeat {
            let (timed, share) = self.turn(&mut site.lanes, done)?;
            site.check(forwarded())?;
            all.0.push(timed);
            shares.push(share);
        }
        Ok((all, shares))
    }

    /// One repetition of all workers at the same time, each on its core.
    fn turn(&self, lanes: &mut [Lane], done: &[Done]) -> Result<(Timed, Shares), BenchError> {
        let busy = || done.iter().map(Done::busy).sum::<Duration>();
        let before = busy();
        let count = lanes.len() as f64;
        let barrier = &Barrier::new(lanes.len());
        let turns = thread::scope(|scope| {
            let threads: Vec<_> = lanes
                .iter_mut()
                .zip(self.cores)
                .map(|(lane, core)| {
                    scope.spawn(move || {
                        let pinned = pin(Some(*core));
                        // Also after an error: the others wait.
                        barrier.wait();
                        pinned.and_then(|()| self.repetition(lane))
                    })
                })
                .collect();
            threads.into_iter().map(join).collect::<Result<Vec<_>, BenchError>>()
        })?;
        let (timed, ran): (Vec<Timed>, Vec<Ran>) = turns.into_iter().unzip();
        let sum = |of: fn(&Ran) -> Duration| ran.iter().map(of).sum::<Duration>().as_secs_f64();
        let ran_s = sum(|ran| ran.time);
        let shares = Shares {
            worker: sum(|ran| ran.busy) / ran_s,
            application: (busy() - before).as_secs_f64() / (ran_s / count * done.len() as f64),
        };
        Ok((Timed::together(&timed), shares))
    }

    /// Passes of one worker, until the time is over.
    fn repetition(&self, lane: &mut Lane) -> Result<(Timed, Ran), BenchError> {
        let options = self.options;
        let mut timed = Timed::within(options.patience);
        let mut ran = Ran::default();
        while timed.has_time(options.duration) {
            options.check_stop()?;
            lane.load()?;
            let (before, begun) = (lane.busy, Instant::now());
            timed.quiet_piece_on(lane, &[], options.allocations, Lane::run, |_| 0);
            ran.time += begun.elapsed();
            ran.busy += lane.busy - before;
            lane.unload()?;
        }
        Ok((timed, ran))
    }
}

/// How long all passes of a repetition took, and how much of it the worker had packets.
#[derive(Clone, Copy, Default)]
struct Ran {
    time: Duration,
    busy: Duration,
}

/// How many workers and applications so many tunnels get of so many cores: one core is for a worker, and of two workers
/// one is for their application, as far as there are cores.
fn split(tunnels: usize, cores: usize) -> (usize, usize) {
    let applications = |workers: usize| workers.div_ceil(2);
    let fits = |workers: &usize| {
        tunnels.is_multiple_of(*workers) && workers + applications(*workers) <= cores
    };
    let workers = (1..=tunnels.min(MOST_WORKERS)).rev().find(fits).unwrap_or(1);
    (workers, applications(workers))
}

/// The queues of each application.
fn queues_of(queues: Vec<Queue>, applications: usize) -> Vec<Vec<Queue>> {
    let mut all: Vec<Vec<Queue>> = (0..applications).map(|_| Vec::new()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        if let Some(queues) = all.get_mut(number % applications) {
            queues.push(queue);
        }
    }
    all
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The most workers.
const MOST_WORKERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_as_the_published_system_has_them() {
        let of = |tunnels, cores| split(tunnels, cores);
        assert_eq!([of(1, 16), of(2, 16), of(4, 16)], [(1, 1), (2, 1), (4, 2)]);
        assert_eq!([of(4, 1), of(4, 2), of(4, 3), of(4, 5)], [(1, 1), (1, 1), (2, 1), (2, 1)]);
        assert_eq!(of(3, 16), (3, 2));
    }

    #[test]
    fn a_packet_that_did_not_go_the_whole_way_is_seen() {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let plan = Plan {
            provider: &provider,
            suite: crate::options::suite_by_name("aes128gcm16").unwrap(),
            size: 128,
            tunnels: 2,
            flows: 2,
            workers: 1,
            frames: 64,
            is_on_one_core: true,
        };
        let (mut site, _queues) = Site::new(&plan).unwrap();
        site.check(0).unwrap();
        let error = site.check(1).unwrap_err().to_string();
        assert_eq!(
            error,
            "of 0 packets 0 were opened, 1 forwarded by the application, and 0 sealed"
        );
        // They wait for an application that does not answer.
        let lane = site.lanes.first_mut().unwrap();
        lane.load().unwrap();
        while lane.worker.round() > 0 {}
        assert!(matches!(lane.unload(), Err(BenchError::Lost { given: 64, sent: 0, .. })));
        let error = site.check(64).unwrap_err();
        let BenchError::NotThrough { given, opened, sealed, .. } = error else { panic!("{error}") };
        assert_eq!((given, opened, sealed), (64, 64, 0));
    }
}
