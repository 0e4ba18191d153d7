//! The bench `offload`: packets in clear, through software, and through devices whose own work costs nothing.
//!
//! It shows what a core has to do for a packet in each case, and so what a device can save at best: see
//! [`crate::free_device`] for what is counted. All cases are measured in turns, and held against the others' repetition
//! of the same turn.

use std::sync::Barrier;
use std::thread;

use crypto::Suite;
use offload::Placement;

use crate::device_tables::{self, ENTRIES};
use crate::error::BenchError;
use crate::esp::{plan, repetition, row};
use crate::gateway::{Gateway, Path, Plan, Spread};
use crate::options::{Direction, Options};
use crate::pin::{pin, pinned};
use crate::row::Row;
use crate::rows::{Rows, label};
use crate::scale::cores;
use crate::timing::{Repetitions, Timed, gains, median};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// Protector of the packets: nobody, software or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nobody: they are forwarded in clear.
    Clear,
    Software,
    Crypto,
    Packet,
}

impl Way {
    /// All ways. Those that others are compared with come first.
    const ALL: [Way; 4] = [Way::Clear, Way::Software, Way::Crypto, Way::Packet];

    const fn name(self) -> &'static str {
        match self {
            Way::Clear => "no IPsec",
            Way::Software => "software",
            Way::Crypto => "crypto offload",
            Way::Packet => "packet offload",
        }
    }

    const fn placement(self) -> Placement {
        match self {
            Way::Clear | Way::Software => Placement::Cpu,
            Way::Crypto => Placement::Crypto,
            Way::Packet => Placement::Packet,
        }
    }
}

/// The bench `offload`: on one core, and on two where there are so many.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn offload(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    let cores = cores(options.cpu)?;
    let counts = 1..=cores.len().min(MOST_CORES);
    let tables = 2 * ENTRIES.len();
    let mut rows = Rows::new(options, options.cases() * counts.clone().count() + tables);
    for &suite in &options.suites {
        for &direction in &options.directions {
            for &size in &options.sizes {
                for count in counts.clone() {
                    rows.begin(&label(suite, direction, size));
                    let cores = cores.get(..count).unwrap_or_default();
                    let case = Case { options, suite, direction, size, cores };
                    rows.extend(case.rows()?);
                }
            }
        }
    }
    let Some(suite) = options.suites.first().copied() else { return Ok(rows.into_vec()) };
    for count in ENTRIES {
        rows.begin(&format!("{count} policies of a device"));
        rows.push(pinned(options.cpu, || device_tables::policies(options, count))?);
        rows.begin(&format!("{count} SAs of a device"));
        rows.push(pinned(options.cpu, || device_tables::sas(options, suite, count))?);
    }
    Ok(rows.into_vec())
}

/// Parameters of the measurement, the same for each way.
struct Case<'o> {
    options: &'o Options<'o>,
    suite: Suite,
    direction: Direction,
    size: usize,
    cores: &'o [usize],
}

impl Case<'_> {
    /// One row for each way.
    fn rows(&self) -> Result<Vec<Row>, BenchError> {
        let options = self.options;
        let mut sets = Way::ALL
            .into_iter()
            .map(|way| Ok((way, self.set(way)?, Repetitions::default())))
            .collect::<Result<Vec<_>, BenchError>>()?;
        for (_, set, _) in &mut sets {
            set.iter_mut().try_for_each(Gateway::prove)?;
        }
        for _ in 0..options.repeat {
            for (_, set, all) in &mut sets {
                all.0.push(turn(set, self.cores, options)?);
            }
        }
        for (_, set, _) in &sets {
            check(set)?;
        }
        let of = |way| sets.iter().find(|(other, ..)| *other == way).map(|(.., all)| all);
        let ratio = |all: &Repetitions, way| {
            let pairs = all.rates().zip(of(way)?.rates());
            Some(median(gains(pairs)))
        };
        let rows = sets.iter().filter_map(|(way, set, all)| {
            let mut row = row(options, "offload", set.first()?);
            all.fill(&mut row, options.allocations.is_some());
            row.case = Some(way.name());
            row.cores = Some(set.len());
            row.ratio_clear = ratio(all, Way::Clear);
            row.ratio_software = ratio(all, Way::Software).filter(|_| *way != Way::Clear);
            (row.direction, row.sas) = (Some(self.direction), Some(set.len()));
            if *way == Way::Clear {
                (row.suite, row.engine, row.sas) = (None, None, None);
            }
            Some(row)
        });
        Ok(rows.collect())
    }

    /// The workers of one gateway, one for each core, each with an SA of its own.
    fn set(&self, way: Way) -> Result<Vec<Gateway>, BenchError> {
        let Case { options, suite, direction, size, cores } = *self;
        let count = cores.len();
        let (path, direction) = match way {
            Way::Clear => (Path::Clear, Direction::Inbound),
            _ => (Path::Esp, direction),
        };
        let traffic =
            Traffic::new(direction, size, count, options.flows * count, Choice::InTurn(0));
        let policies = match way {
            Way::Clear => world::bypasses(count as u32),
            _ => Vec::new(),
        };
        let plan = plan(options, suite, path, traffic);
        let plan = Plan { placement: way.placement(), policies, ..plan };
        match count {
            1 => Ok(vec![Gateway::new(plan)?]),
            _ => Gateway::set(plan, count, Spread::AtHome),
        }
    }
}

/// One repetition of all workers at the same time, each on its core.
fn turn(set: &mut [Gateway], cores: &[usize], options: &Options<'_>) -> Result<Timed, BenchError> {
    let barrier = &Barrier::new(set.len());
    let timed = thread::scope(|scope| {
        let threads: Vec<_> = set
            .iter_mut()
            .zip(cores)
            .map(|(gateway, core)| {
                scope.spawn(move || {
                    let pinned = pin(Some(*core));
                    // Also after an error: the others wait.
                    barrier.wait();
                    pinned.and_then(|()| repetition(gateway, options))
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect::<Result<Vec<Timed>, BenchError>>()
    })?;
    Ok(Timed::together(&timed))
}

/// Checks that the device has worked on all packets that were protected, and no worker on
/// another's.
fn check(set: &[Gateway]) -> Result<(), BenchError> {
    let of = |count: fn(&Gateway) -> u64| set.iter().map(count).sum::<u64>();
    let (given, handed) =
        (of(|g| g.counters().totals().received), of(|g| g.counters().totals().handed_over));
    if handed > 0 {
        return Err(BenchError::HandedOver { given, handed, allowed: 0 });
    }
    let protected = of(|g| {
        let work = &g.counters().work;
        work.encrypted.value() + work.decrypted.value()
    });
    set.first().map_or(Ok(()), |first| first.holder.check(protected))
}

/// Cores in use at most.
const MOST_CORES: usize = 2;

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::benches::Bench;

    fn options(provider: &dyn crypto::Provider) -> Options<'_> {
        let mut options = Bench::Offload.defaults(provider);
        (options.frames, options.flows, options.repeat) = (128, 64, 1);
        options.duration = Duration::from_micros(100);
        options.patience = Some(options.duration);
        options
    }

    #[test]
    fn devices_work_on_every_packet_and_each_comes_out_right() {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let options = options(&provider);
        let all = cores(None).unwrap();
        // A machine of one core has them on that.
        let cores: Vec<usize> = all.iter().copied().cycle().take(2).collect();
        for direction in [Direction::Outbound, Direction::Inbound] {
            let suite = options.suites[0];
            for cores in [&cores[..1], &cores] {
                let case = Case { options: &options, suite, direction, size: 100, cores };
                let rows = case.rows().unwrap();
                let names: Vec<_> = rows.iter().map(|row| row.case.unwrap()).collect();
                assert_eq!(names, Way::ALL.map(Way::name));
                for row in &rows {
                    assert_eq!((row.cores, row.direction), (Some(cores.len()), Some(direction)));
                    assert!(row.mpps_median > Some(0.0) && row.ratio_clear > Some(0.0), "{row:?}");
                }
                assert_eq!((rows[0].ratio_clear, rows[0].ratio_software), (Some(1.0), None));
                assert_eq!(rows[1].ratio_software, Some(1.0));
            }
        }
    }

    #[test]
    fn packets_that_went_past_the_device_are_noticed() {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let options = options(&provider);
        let case = Case {
            options: &options,
            suite: options.suites[0],
            direction: Direction::Outbound,
            size: 100,
            cores: &[0],
        };
        for way in [Way::Crypto, Way::Packet] {
            let mut set = case.set(way).unwrap();
            set.iter_mut().try_for_each(Gateway::prove).unwrap();
            check(&set).unwrap();
            set[0].counters().work.encrypted.add(1);
            let error = check(&set).unwrap_err();
            assert!(matches!(error, BenchError::NotOffloaded { given: 129, done: 128 }), "{error}");
        }
    }
}
