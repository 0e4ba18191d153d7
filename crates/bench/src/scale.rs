//! The bench `scale`: several cores, for the same SAs and for SAs of their own.
//!
//! What counts is the gain, and that one core and several are measured in turns: each repetition of
//! several cores is held against the one of one core just before it. Each has a gateway of its
//! own, so that no accident of where one lies in memory decides a whole run.

use std::sync::Barrier;
use std::thread;

use crypto::Suite;
use rustix::thread::sched_getaffinity;

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Arrival, Gateway, Path, Plan};
use crate::options::{Direction, Options};
use crate::pin::pin;
use crate::round_trip::round_trip_ns;
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::timing::{Rate, Timed, fill_gain, median, quiet_ones, share};
use crate::traffic::{Choice, Traffic};

/// How workers share the SAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// One worker has all, and the other cores encrypt and decrypt for it.
    Pool,
    /// Each worker has its own, as when a card spreads peers over its queues.
    Own,
}

impl Sharing {
    const ALL: [Sharing; 2] = [Sharing::Pool, Sharing::Own];

    const fn name(self, arrival: Arrival) -> &'static str {
        match (self, arrival) {
            (Sharing::Pool, Arrival::Cached) => "the same SAs, in order",
            (Sharing::Pool, Arrival::InMemory) => "the same SAs, from memory",
            (Sharing::Own, Arrival::Cached) => "SAs of their own",
            (Sharing::Own, Arrival::InMemory) => "SAs of their own, from memory",
        }
    }
}

/// One repetition.
struct Turn {
    /// Of all cores together.
    rate: Rate,
    cycles: Option<f64>,
    packets: u64,
    allocations: u64,
    /// Between the first core and the second.
    round_trip_ns: Option<f64>,
    /// What the row says beside figures.
    row: Row,
}

/// What is measured with one core, with two, and so on.
struct Case<'o> {
    options: &'o Options<'o>,
    suite: Suite,
    direction: Direction,
    size: usize,
    arrival: Arrival,
}

/// The bench `scale`: from one core to all that this process may use.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn scale(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    let cores = cores(options.cpu)?;
    let mut rows = Rows::new(options, options.cases() * ARRIVALS.len());
    for arrival in ARRIVALS {
        for &suite in &options.suites {
            for &direction in &options.directions {
                for &size in &options.sizes {
                    let case = Case { options, suite, direction, size, arrival };
                    rows.begin(&label(suite, direction, size));
                    rows.extend(case.rows(&cores)?.into_iter().flatten());
                }
            }
        }
    }
    Ok(rows.into_vec())
}

impl Case<'_> {
    /// For each way of sharing the rows of one core, two, and so on.
    fn rows(&self, cores: &[usize]) -> Result<[Vec<Row>; Sharing::ALL.len()], BenchError> {
        let mut alone = Vec::new();
        let mut together: [Vec<Vec<Turn>>; Sharing::ALL.len()] = Default::default();
        for _ in 0..self.options.repeat {
            alone.push(self.turn(Sharing::Pool, cores.get(..1).unwrap_or_default())?);
            for (sharing, turns) in Sharing::ALL.into_iter().zip(&mut together) {
                turns.resize_with(cores.len().saturating_sub(1), Vec::new);
                for (turns, count) in turns.iter_mut().zip(2..) {
                    turns.push(self.turn(sharing, cores.get(..count).unwrap_or(cores))?);
                }
            }
        }
        let rows = |(sharing, turns): (Sharing, Vec<Vec<Turn>>)| {
            let counts = core::iter::once(&alone).chain(&turns);
            counts.map(|turns| self.row(sharing, turns, &alone)).collect()
        };
        let [pool, own] = together;
        Ok([(Sharing::Pool, pool), (Sharing::Own, own)].map(rows))
    }

    /// One repetition on a thread of its own.
    fn turn(&self, sharing: Sharing, cores: &[usize]) -> Result<Turn, BenchError> {
        let work = || match sharing {
            Sharing::Pool => self.pool(cores),
            Sharing::Own => self.own(cores),
        };
        thread::scope(|scope| match scope.spawn(work).join() {
            Ok(turn) => turn,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    fn gateway(&self) -> Result<Gateway, BenchError> {
        let Case { options, suite, direction, size, arrival } = *self;
        let traffic = Traffic::new(direction, size, self.sas(), options.flows, Choice::InTurn(0));
        Gateway::new(Plan { arrival, ..plan(options, suite, Path::Esp, traffic) })
    }

    /// SAs of each worker.
    fn sas(&self) -> usize {
        self.options.sas.first().copied().unwrap_or(1)
    }

    /// One worker, on the first core, and a crypto thread on each other one.
    fn pool(&self, cores: &[usize]) -> Result<Turn, BenchError> {
        let others = cores.get(1..).unwrap_or_default();
        pin(cores.first().copied())?;
        let round_trip_ns = others.first().map(|other| round_trip_ns(*other)).transpose()?;
        let mut gateway = self.gateway()?;
        let threads = match others {
            [] => Vec::new(),
            _ => gateway.add_crypto_threads(self.options.provider, others)?,
        };
        gateway.prove()?;
        let timed = repetition(&mut gateway, self.options)?;
        let row = Row { cores: Some(cores.len()), ..row(self.options, "scale", &gateway) };
        // The threads end with their worker.
        drop(gateway);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(Turn::of(&[timed], round_trip_ns, row))
    }

    /// Workers that share nothing; their rates are added up.
    fn own(&self, cores: &[usize]) -> Result<Turn, BenchError> {
        let barrier = Barrier::new(cores.len());
        let work = |core: usize| -> Result<(Timed, Row), BenchError> {
            let built = pin(Some(core)).and_then(|()| {
                let mut gateway = self.gateway()?;
                gateway.prove()?;
                Ok(gateway)
            });
            // Also after an error: the others wait.
            barrier.wait();
            let mut gateway = built?;
            let timed = repetition(&mut gateway, self.options)?;
            Ok((timed, row(self.options, "scale", &gateway)))
        };
        let results: Vec<Result<(Timed, Row), BenchError>> = thread::scope(|scope| {
            let threads: Vec<_> = cores.iter().map(|core| scope.spawn(|| work(*core))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let all = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (timed, mut rows): (Vec<Timed>, Vec<Row>) = all.into_iter().unzip();
        let one = rows.pop().unwrap_or_default();
        let row = Row {
            cores: Some(cores.len()),
            sas: one.sas.map(|sas| sas * cores.len()),
            flows: one.flows.map(|flows| flows * cores.len()),
            ..one
        };
        Ok(Turn::of(&timed, None, row))
    }

    /// The row of all repetitions with one number of cores, held against those of one core.
    fn row(&self, sharing: Sharing, turns: &[Turn], alone: &[Turn]) -> Row {
        let counted = quiet_ones(turns.iter().map(|turn| (turn, turn.rate.is_quiet)));
        let rates: Vec<f64> = counted.iter().map(|turn| turn.rate.mpps).collect();
        let cycles: Option<Vec<f64>> = counted.iter().map(|turn| turn.cycles).collect();
        let trips: Option<Vec<f64>> = counted.iter().map(|turn| turn.round_trip_ns).collect();
        let packets: u64 = turns.iter().map(|turn| turn.packets).sum();
        let allocations: u64 = turns.iter().map(|turn| turn.allocations).sum();
        let counts = self.options.allocations.is_some();
        let mut row = turns.first().map(|turn| turn.row.clone()).unwrap_or_default();
        row.case = Some(sharing.name(self.arrival));
        (row.mpps_min, row.mpps_max) = (Some(least(&rates)), Some(most(&rates)));
        let mpps = median(rates);
        row.mpps_median = Some(mpps);
        row.gbps_median = Some(mpps * self.size as f64 * 8.0 / 1000.0);
        row.cycles_per_packet = cycles.map(median);
        row.quiet_share = Some(share(turns.iter().map(|turn| turn.rate.is_quiet)));
        row.allocations_per_packet = counts.then(|| allocations as f64 / packets as f64);
        if row.cores != Some(1) {
            let rates = |turns: &[Turn]| turns.iter().map(|turn| turn.rate).collect::<Vec<_>>();
            fill_gain(&mut row, rates(turns).into_iter().zip(rates(alone)));
            row.round_trip_ns = trips.map(median);
        }
        row
    }
}

impl Turn {
    /// Of what the cores did at the same time.
    fn of(timed: &[Timed], round_trip_ns: Option<f64>, row: Row) -> Turn {
        let cycles: Option<Vec<f64>> = timed.iter().map(Timed::cycles_per_packet).collect();
        Turn {
            rate: Rate {
                mpps: timed.iter().map(Timed::mpps).sum(),
                is_quiet: timed.iter().all(Timed::is_quiet),
            },
            cycles: cycles.map(median),
            packets: timed.iter().map(|timed| timed.packets).sum(),
            allocations: timed.iter().map(|timed| timed.allocations).sum(),
            round_trip_ns,
            row,
        }
    }
}

/// Where packets lie when they arrive.
const ARRIVALS: [Arrival; 2] = [Arrival::Cached, Arrival::InMemory];

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The cores that this process may use, from `first` on and then the others.
fn cores(first: Option<usize>) -> Result<Vec<usize>, BenchError> {
    let set = sched_getaffinity(None).map_err(BenchError::system("ask for the cores"))?;
    let usable = |n: &usize| set.is_set(*n);
    let mut all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(usable).collect();
    let first = first.unwrap_or_else(rustix::thread::sched_getcpu);
    all.sort_by_key(|n| (*n != first, *n));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_that_was_asked_for_comes_first_and_none_twice() {
        let all = cores(None).unwrap();
        for first in all.clone() {
            let mut ordered = cores(Some(first)).unwrap();
            assert_eq!(ordered.first(), Some(&first));
            ordered.sort_unstable();
            let mut expected = all.clone();
            expected.sort_unstable();
            assert_eq!(ordered, expected);
        }
    }
}
