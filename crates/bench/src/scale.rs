//! The bench `scale`: several cores, for the same SAs, for SAs of their own, and as the workers of a set.
//!
//! The gain counts, and that one core and several are measured in turns: each repetition of
//! several cores is held against the one of one core just before it. Each has a gateway of its
//! own, so that no accident of where one lies in memory decides a whole run.

use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use crypto::Suite;
use dataplane::MAX_WORKERS;
use rustix::thread::sched_getaffinity;

use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::exchange;
use crate::gateway::{Arrival, Gateway, Path, Plan, Spread};
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
    /// Each worker has its own and is a gateway of its own: what workers of a set could be at best.
    Own,
    /// Each worker of a set receives packets of the SAs whose home it is, as when a card spreads peers over its
    /// queues. The set has one set of databases and tables, and one region of frames.
    Set,
    /// Each worker of a set receives packets of the next one's SAs, and hands them over.
    HandedOver,
}

impl Sharing {
    const ALL: [Sharing; 4] = [Sharing::Pool, Sharing::Own, Sharing::Set, Sharing::HandedOver];

    const fn name(self, arrival: Arrival) -> &'static str {
        match (self, arrival) {
            (Sharing::Pool, Arrival::Cached) => "the same SAs, in order",
            (Sharing::Pool, Arrival::InMemory) => "the same SAs, from memory",
            (Sharing::Own, Arrival::Cached) => "SAs of their own",
            (Sharing::Own, Arrival::InMemory) => "SAs of their own, from memory",
            (Sharing::Set, Arrival::Cached) => "workers, SAs of their own",
            (Sharing::Set, Arrival::InMemory) => "workers, SAs of their own, from memory",
            (Sharing::HandedOver, Arrival::Cached) => "workers, handed over",
            (Sharing::HandedOver, Arrival::InMemory) => "workers, handed over, from memory",
        }
    }

    /// The most cores that it can use of so many.
    fn most(self, cores: usize) -> usize {
        match self {
            Sharing::Pool | Sharing::Own => cores,
            Sharing::Set | Sharing::HandedOver => cores.min(MAX_WORKERS),
        }
    }
}

/// Result of one repetition.
struct Turn {
    /// Rate of all cores together.
    rate: Rate,
    cycles: Option<f64>,
    packets: u64,
    allocations: u64,
    /// Packets that were lost, and packets in all: of workers that hand over.
    lost: Option<(u64, u64)>,
    /// Between the first core and the second.
    round_trip_ns: Option<f64>,
    /// The row without its figures.
    row: Row,
}

/// Parameters of the measurement with one core, with two, and so on.
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
                turns.resize_with(sharing.most(cores.len()).saturating_sub(1), Vec::new);
                for (turns, count) in turns.iter_mut().zip(2..) {
                    turns.push(self.turn(sharing, cores.get(..count).unwrap_or(cores))?);
                }
            }
        }
        let rows = |(sharing, turns): (Sharing, Vec<Vec<Turn>>)| {
            let counts = core::iter::once(&alone).chain(&turns);
            counts.map(|turns| self.row(sharing, turns, &alone)).collect()
        };
        let mut together = Sharing::ALL.into_iter().zip(together).map(rows);
        Ok([(); Sharing::ALL.len()].map(|()| together.next().unwrap_or_default()))
    }

    /// One repetition on a thread of its own.
    fn turn(&self, sharing: Sharing, cores: &[usize]) -> Result<Turn, BenchError> {
        let work = || match sharing {
            Sharing::Pool => self.pool(cores),
            Sharing::Own => self.apart(cores, |_| self.gateway()),
            Sharing::Set => self.set_apart(cores),
            Sharing::HandedOver => self.handed_over(cores),
        };
        thread::scope(|scope| match scope.spawn(work).join() {
            Ok(turn) => turn,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    fn gateway(&self) -> Result<Gateway, BenchError> {
        Gateway::new(self.plan(1))
    }

    /// The workers of a set.
    fn set(&self, workers: usize, spread: Spread) -> Result<Vec<Gateway>, BenchError> {
        Gateway::set(self.plan(workers), workers, spread)
    }

    /// For the SAs and flows of so many workers.
    fn plan(&self, workers: usize) -> Plan<'_> {
        let Case { options, suite, direction, size, arrival } = *self;
        let (sas, flows) = (self.sas() * workers, options.flows * workers);
        let traffic = Traffic::new(direction, size, sas, flows, Choice::InTurn(0));
        Plan { arrival, ..plan(options, suite, Path::Esp, traffic) }
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

    /// Workers of a set, each with its own SAs.
    fn set_apart(&self, cores: &[usize]) -> Result<Turn, BenchError> {
        pin(cores.first().copied())?;
        let set = self.set(cores.len(), Spread::AtHome)?;
        let set = Mutex::new(set.into_iter().map(Some).collect::<Vec<_>>());
        let take = |number: usize| {
            let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
            let gateway = set.get_mut(number).and_then(Option::take);
            gateway.ok_or(BenchError::NotFound { what: "the set of workers" })
        };
        self.apart(cores, take)
    }

    /// Workers that leave one another alone, each with a gateway by its number; their rates are added up.
    fn apart(
        &self,
        cores: &[usize],
        gateway: impl Fn(usize) -> Result<Gateway, BenchError> + Sync,
    ) -> Result<Turn, BenchError> {
        let barrier = Barrier::new(cores.len());
        let work = |(number, core): (usize, usize)| -> Result<(Timed, Gateway), BenchError> {
            let built = pin(Some(core)).and_then(|()| {
                let mut gateway = gateway(number)?;
                gateway.prove()?;
                Ok(gateway)
            });
            // Also after an error: the others wait.
            barrier.wait();
            let mut gateway = built?;
            let timed = repetition(&mut gateway, self.options)?;
            Ok((timed, gateway))
        };
        let work = &work;
        let results: Vec<Result<(Timed, Gateway), BenchError>> = thread::scope(|scope| {
            let workers = cores.iter().copied().enumerate();
            let threads: Vec<_> = workers.map(|worker| scope.spawn(move || work(worker))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let all = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (timed, gateways): (Vec<Timed>, Vec<Gateway>) = all.into_iter().unzip();
        let handed = gateways.iter().map(|g| g.counters().totals().handed_over).sum();
        if handed > 0 {
            let given = gateways.iter().map(|g| g.counters().totals().received).sum();
            return Err(BenchError::HandedOver { given, handed, allowed: 0 });
        }
        Ok(Turn::of(&timed, None, self.row_of(&gateways)))
    }

    /// Workers of a set that hand over every packet.
    fn handed_over(&self, cores: &[usize]) -> Result<Turn, BenchError> {
        pin(cores.first().copied())?;
        let mut set = self.set(cores.len(), Spread::Away)?;
        let proved = exchange::prove(&mut set)?;
        let exchanged = exchange::repetition(&mut set, cores, self.options)?;
        let turn = Turn::of(&[exchanged.timed], None, self.row_of(&set));
        Ok(Turn {
            // Those of all cores together.
            cycles: turn.cycles.map(|cycles| cycles * cores.len() as f64),
            lost: Some((proved.lost + exchanged.lost, proved.given + exchanged.given)),
            ..turn
        })
    }

    /// The row of these workers without its figures.
    fn row_of(&self, workers: &[Gateway]) -> Row {
        let traffic = self.plan(workers.len()).traffic;
        let first = workers.first().map(|first| row(self.options, "scale", first));
        Row {
            cores: Some(workers.len()),
            sas: Some(traffic.sas),
            flows: Some(traffic.flows),
            ..first.unwrap_or_default()
        }
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
        let lost: Option<Vec<(u64, u64)>> = turns.iter().map(|turn| turn.lost).collect();
        if let Some(lost) = lost {
            let sum = |of: fn(&(u64, u64)) -> u64| lost.iter().map(of).sum::<u64>();
            let (lost, all) = (sum(|turn| turn.0), sum(|turn| turn.1));
            row.lost = Some(lost);
            row.lost_share = Some(lost as f64 / all as f64);
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
            lost: None,
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
pub(crate) fn cores(first: Option<usize>) -> Result<Vec<usize>, BenchError> {
    let set = sched_getaffinity(None).map_err(BenchError::system("ask for the cores"))?;
    let usable = |n: &usize| set.is_set(*n);
    let mut all: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(usable).collect();
    let first = first.unwrap_or_else(rustix::thread::sched_getcpu);
    all.sort_by_key(|n| (*n != first, *n));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::benches::Bench;

    #[test]
    fn workers_of_a_set_lose_nothing_of_a_few_packets() {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let mut options = Bench::Scale.defaults(&provider);
        (options.frames, options.flows, options.sas, options.repeat) = (64, 64, vec![3], 1);
        let short = Duration::from_micros(100);
        (options.duration, options.patience) = (short, Some(short));
        let all = cores(None).unwrap();
        // A machine of one core has them on that.
        let cores: Vec<usize> = all.iter().copied().cycle().take(2).collect();
        let suite = options.suites[0];
        for arrival in ARRIVALS {
            for direction in [Direction::Outbound, Direction::Inbound] {
                let case = Case { options: &options, suite, direction, size: 100, arrival };
                let [_, _, apart, handed_over] = case.rows(&cores).unwrap();
                for (rows, sharing, lost) in
                    [(apart, Sharing::Set, None), (handed_over, Sharing::HandedOver, Some(0))]
                {
                    let [one, two] = &rows[..] else { panic!("{rows:?}") };
                    assert_eq!((one.cores, one.sas, one.gain_median), (Some(1), Some(3), None));
                    assert_eq!((two.cores, two.sas, two.flows), (Some(2), Some(6), Some(132)));
                    assert_eq!((two.case, two.lost), (Some(sharing.name(arrival)), lost));
                    assert_eq!(two.lost_share, lost.map(|_| 0.0));
                    assert!(two.mpps_median > Some(0.0) && two.gain_median > Some(0.0));
                }
            }
        }
    }

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
