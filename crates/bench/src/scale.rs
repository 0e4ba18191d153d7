//! The bench `scale`: several workers on a core each.

use std::sync::Barrier;
use std::thread;

use crypto::Suite;
use rustix::thread::sched_getaffinity;

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options};
use crate::row::Row;
use crate::timing::{Repetitions, median, pin};
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

    const fn name(self) -> &'static str {
        match self {
            Sharing::Pool => "the same SAs, in order",
            Sharing::Own => "SAs of their own",
        }
    }
}

/// The bench `scale`: from one core to all that this process may use.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn scale(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    let cores = cores(options.cpu)?;
    let mut rows = Vec::new();
    for sharing in Sharing::ALL {
        for suite in &options.suites {
            for direction in &options.directions {
                for size in &options.sizes {
                    for count in 1..=cores.len() {
                        let used = cores.get(..count).unwrap_or(&cores);
                        let mut row = match sharing {
                            Sharing::Pool => pool(options, *suite, *direction, *size, used)?,
                            Sharing::Own => own(options, *suite, *direction, *size, used)?,
                        };
                        row.case = Some(sharing.name());
                        rows.push(row);
                    }
                }
            }
        }
    }
    Ok(rows)
}

/// One worker, on the first core, and a crypto thread on each other one.
fn pool(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    cores: &[usize],
) -> Result<Row, BenchError> {
    let Some((first, others)) = cores.split_first() else { return Ok(Row::default()) };
    let sas = options.sas.first().copied().unwrap_or(1);
    let work = || {
        pin(Some(*first))?;
        let traffic = Traffic::new(direction, size, sas, options.flows, Choice::InTurn(0));
        let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
        let threads = match others {
            [] => Vec::new(),
            _ => gateway.add_crypto_threads(options.provider, others)?,
        };
        gateway.prove()?;
        let all = Repetitions::of(options.repeat, || repetition(&mut gateway, options))?;
        let mut row = row(options, "scale", &gateway);
        all.fill(&mut row, options.allocations.is_some());
        row.cores = Some(cores.len());
        row.sas = Some(sas);
        // The threads end with their worker.
        drop(gateway);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Ok(row)
    };
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(row) => row,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Workers that share nothing; the rates of each repetition are added up.
fn own(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    cores: &[usize],
) -> Result<Row, BenchError> {
    let barrier = Barrier::new(cores.len());
    let sas = options.sas.first().copied().unwrap_or(1);
    let work = |core: usize| -> Result<(Row, Repetitions), BenchError> {
        let built = pin(Some(core)).and_then(|()| {
            let traffic = Traffic::new(direction, size, sas, options.flows, Choice::InTurn(0));
            let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
            gateway.prove()?;
            Ok(gateway)
        });
        // Also after an error: the others wait.
        barrier.wait();
        let mut gateway = built?;
        let all = Repetitions::of(options.repeat, || repetition(&mut gateway, options))?;
        Ok((row(options, "scale", &gateway), all))
    };
    let results: Vec<Result<(Row, Repetitions), BenchError>> = thread::scope(|scope| {
        let threads: Vec<_> = cores.iter().map(|core| scope.spawn(|| work(*core))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let Some((mut row, mut sum)) = all.pop() else { return Ok(Row::default()) };
    sum.fill(&mut row, options.allocations.is_some());
    // Rates of the same repetition of all workers together.
    let rates: Vec<f64> = (0..options.repeat)
        .map(|n| {
            let others = all.iter().filter_map(|(_, of)| of.0.get(n));
            others.chain(sum.0.get(n)).map(|timed| timed.mpps()).sum()
        })
        .collect();
    sum.0.extend(all.iter().flat_map(|(_, of)| of.0.iter().copied()));
    row.cycles_per_packet = sum.cycles_per_packet();
    row.mpps_min = Some(rates.iter().copied().fold(f64::INFINITY, f64::min));
    row.mpps_max = Some(rates.iter().copied().fold(0.0, f64::max));
    let mpps = median(rates);
    row.mpps_median = Some(mpps);
    row.gbps_median = Some(mpps * size as f64 * 8.0 / 1000.0);
    row.cores = Some(cores.len());
    row.sas = Some(sas * cores.len());
    row.flows = row.flows.map(|flows| flows * cores.len());
    Ok(row)
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
