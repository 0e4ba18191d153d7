//! Rate limits: four ways for workers to share limiters, against each other.
//!
//! | way | what a packet does |
//! | --- | --- |
//! | `leased` | takes from what its worker has leased: [`limit::LimitPath`], as the data path |
//! | `atomic-queues` | goes to the queue of its limiter ([`dispatch::atomic`]); the holder of that queue has the buckets alone |
//! | `shared-atomic` | takes from the pool, by a compare-and-swap |
//! | `mutex` | locks the buckets |
//!
//! Threads are workers: each has the packets of its flows, in bursts, and reads the clock once a burst.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use dispatch::atomic;
use limit::{Colour, Lanes, LimitPath, Limiter, Meter, Pool, Settings};
use serde::Serialize;

use crate::cycles;
use crate::error::BenchError;
use crate::pin::pin;

/// How limiters are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Tokens leased by workers.
    Leased,
    /// One holder at a time, by an atomic queue.
    AtomicQueues,
    /// One number for all.
    SharedAtomic,
    /// A lock around the bucket.
    Mutex,
}

impl Sharing {
    /// All ways, in the order of the table.
    pub const ALL: [Sharing; 4] =
        [Sharing::Leased, Sharing::AtomicQueues, Sharing::SharedAtomic, Sharing::Mutex];

    /// Name of the way in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Leased => "leased",
            Sharing::AtomicQueues => "atomic-queues",
            Sharing::SharedAtomic => "shared-atomic",
            Sharing::Mutex => "mutex",
        }
    }
}

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct LimitOptions {
    /// Numbers of threads, each on a core of its own.
    pub cores: Vec<usize>,
    /// Numbers of limiters.
    pub limiters: Vec<usize>,
    /// Numbers of flows.
    pub flows: Vec<usize>,
    /// Bytes of a packet.
    pub len: usize,
    /// Duration of one measurement.
    pub duration: Duration,
    /// Measurements; the fastest counts.
    pub repeat: usize,
}

/// Result of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct LimitRow {
    /// How limiters are shared.
    pub sharing: Sharing,
    /// Threads that pass packets.
    pub cores: usize,
    /// Limiters that they share.
    pub limiters: usize,
    /// Flows, spread over threads and limiters.
    pub flows: usize,
    /// Packets a second, of all threads.
    pub packets_per_s: f64,
    /// Time stamp counts a packet, of one thread.
    pub cycles: Option<f64>,
    /// Packets of a million that were lost though the rate was far above what came.
    pub lost_ppm: f64,
    /// With a rate below what comes: how equally cores passed packets, by Jain's index, 1 if all did alike and 1 / n if one
    /// of n did alone. None with one core.
    pub fairness: Option<f64>,
    /// Then: what passed, as a part of rate and burst.
    pub of_rate: f64,
}

/// Measures every combination.
///
/// # Errors
/// A core that is not there.
pub fn limits(options: &LimitOptions, mut on_row: impl FnMut(&LimitRow)) -> Result<(), BenchError> {
    for (cores, limiters) in
        options.cores.iter().flat_map(|c| options.limiters.iter().map(move |l| (*c, *l)))
    {
        for flows in &options.flows {
            for sharing in Sharing::ALL {
                on_row(&row(options, sharing, (cores, limiters, (*flows).max(limiters)))?);
            }
        }
    }
    Ok(())
}

fn row(
    options: &LimitOptions,
    sharing: Sharing,
    (cores, limiters, flows): (usize, usize, usize),
) -> Result<LimitRow, BenchError> {
    let case = Case { cores, limiters, flows, len: options.len, duration: options.duration };
    // Far above what can come.
    let open = Settings::single(limit::MAX_RATE, 1 << 28);
    let mut runs = Vec::new();
    for _ in 0..options.repeat.max(1) {
        runs.push(case.run(sharing, open)?);
    }
    // Time that other programs took of the cores is in the others.
    let best = runs.into_iter().max_by(|a, b| a.packets_per_s().total_cmp(&b.packets_per_s()));
    let best = best.unwrap_or_default();
    // Far below: 8 Gbit/s over all limiters.
    let rate = 8_000_000_000 / limiters as u64;
    let closed = Settings::single(rate, 100_000);
    let over = case.run(sharing, closed)?;
    let allowed = (rate as f64 * over.seconds + 800_000.0) * limiters as f64;
    let passed: u64 = over.passed.iter().sum();
    Ok(LimitRow {
        sharing,
        cores,
        limiters,
        flows,
        packets_per_s: best.packets_per_s(),
        cycles: best.cycles.map(|cycles| cycles as f64 / best.packets.max(1) as f64),
        lost_ppm: best.lost as f64 * 1e6 / best.packets.max(1) as f64,
        fairness: (cores > 1).then(|| jain(&over.passed)),
        of_rate: (passed * case.len as u64 * 8) as f64 / allowed,
    })
}

/// Jain's index of fairness: the square of the sum over the sum of squares and the number.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares > 0.0 { sum * sum / (squares * shares.len() as f64) } else { 1.0 }
}

/// Parameters of one run of the threads.
#[derive(Clone, Copy, Debug)]
struct Case {
    cores: usize,
    limiters: usize,
    flows: usize,
    len: usize,
    duration: Duration,
}

/// Counts of one run.
#[derive(Clone, Debug, Default)]
struct Run {
    seconds: f64,
    packets: u64,
    /// Packets that did not pass.
    lost: u64,
    /// Packets that passed, by thread.
    passed: Vec<u64>,
    cycles: Option<u64>,
}

impl Run {
    fn packets_per_s(&self) -> f64 {
        self.packets as f64 / self.seconds
    }
}

/// One thread's side.
trait Side: Send {
    /// Takes in a burst of packets, by their limiters; says how many passed, and how many did not. A queue may say so of
    /// others'.
    fn burst(&mut self, limiters: &[u32], now_ns: u64) -> (u64, u64);
}

impl Case {
    fn run(&self, sharing: Sharing, settings: Settings) -> Result<Run, BenchError> {
        let cost = settings.cost(self.len);
        let len = self.len;
        match sharing {
            Sharing::Leased => {
                let mut lanes = Lanes::default();
                let all: Vec<Limiter> = (0..self.limiters)
                    .map(|_| Limiter::among(&mut lanes, "l", settings, None, (self.cores, 0)))
                    .collect();
                self.time(|worker| {
                    let paths = all.iter().map(|limiter| LimitPath::new(limiter, worker)).collect();
                    Leased { paths, len }
                })
            }
            Sharing::SharedAtomic => {
                let ns = settings.first().burst.saturating_mul(1_000_000_000)
                    / settings.first().rate.max(1);
                let pools: Vec<Pool> = (0..self.limiters).map(|_| Pool::new(ns, ns, 0)).collect();
                let cost_ns = cost.div_ceil(settings.first().rate.max(1));
                self.time(|_| SharedAtomic { pools: &pools, cost_ns })
            }
            Sharing::Mutex => {
                let full = || Mutex::new(Meter::full(&settings, 0));
                let meters: Vec<Mutex<Meter>> = (0..self.limiters).map(|_| full()).collect();
                self.time(|_| Locked { meters: &meters, settings, cost })
            }
            Sharing::AtomicQueues => {
                let meters: Vec<Cell> =
                    (0..self.limiters).map(|_| Cell::of(&Meter::full(&settings, 0))).collect();
                let (producer, consumer) = atomic::queue::<u32>(LANES, DEPTH);
                let ends = (producer, consumer);
                self.time(|_| Queued { ends: ends.clone(), meters: &meters, settings, cost })
            }
        }
    }

    /// Runs a side on each core until the time is over.
    fn time<S: Side>(&self, side: impl Fn(usize) -> S) -> Result<Run, BenchError> {
        let (stop, barrier) = (AtomicBool::new(false), Barrier::new(self.cores + 1));
        let begin = Instant::now();
        let runs = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.cores)
                .map(|worker| {
                    let (mut side, stop, barrier) = (side(worker), &stop, &barrier);
                    scope.spawn(move || {
                        let pinned = pin(Some(worker));
                        let limiters = self.limiters_of(worker);
                        // Each was met before.
                        let now_ns = begin.elapsed().as_nanos() as u64;
                        limiters.chunks(BURST).for_each(|some| {
                            side.burst(some, now_ns);
                        });
                        barrier.wait();
                        pinned.map(|()| work(side, &limiters, (stop, begin)))
                    })
                })
                .collect();
            barrier.wait();
            thread::sleep(self.duration);
            stop.store(true, Relaxed);
            threads
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect::<Result<Vec<Run>, BenchError>>()
        })?;
        let mut all = Run { cycles: Some(0), ..Run::default() };
        for run in runs {
            all.seconds = all.seconds.max(run.seconds);
            all.packets += run.packets;
            all.lost += run.lost;
            all.passed.extend(run.passed);
            all.cycles = all.cycles.zip(run.cycles).map(|(sum, one)| sum + one);
        }
        Ok(all)
    }

    /// The limiters of a thread's packets, one after the other. A flow is one thread's; those of one limiter may be several
    /// threads'. With fewer flows than threads some have none.
    fn limiters_of(&self, worker: usize) -> Vec<u32> {
        let limiters: Vec<u32> = (0..self.flows)
            .filter(|flow| flow % self.cores == worker)
            .map(|flow| (flow / self.cores % self.limiters) as u32)
            .collect();
        if self.limiters > 1 { spread(limiters) } else { limiters }
    }
}

/// Takes bursts in until it is told to stop.
fn work(mut side: impl Side, limiters: &[u32], (stop, clock): (&AtomicBool, Instant)) -> Run {
    let mut packets: ArrayVec<u32, BURST> = ArrayVec::new();
    let (mut next, mut run) = (limiters.iter().cycle(), Run::default());
    let (mut passed, begin, cycles) = (0, Instant::now(), cycles::now());
    while !stop.load(Relaxed) {
        packets.clear();
        packets.extend(next.by_ref().take(BURST).copied());
        let now_ns = clock.elapsed().as_nanos() as u64;
        let (good, bad) = side.burst(black_box(&packets), now_ns);
        run.packets += good + bad;
        run.lost += bad;
        passed += good;
    }
    run.seconds = begin.elapsed().as_secs_f64();
    run.cycles = cycles.zip(cycles::now()).map(|(from, to)| to.wrapping_sub(from));
    run.passed.push(passed);
    run
}

/// Limiters in an order without one: what comes next is in no cache.
fn spread(mut limiters: Vec<u32>) -> Vec<u32> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..limiters.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        limiters.swap(at, (random >> 33) as usize % (at + 1));
    }
    limiters
}

struct Leased {
    paths: Vec<LimitPath>,
    len: usize,
}

impl Side for Leased {
    fn burst(&mut self, limiters: &[u32], now_ns: u64) -> (u64, u64) {
        let Leased { paths, len } = self;
        // As the data path does while bursts are spread.
        if paths.len() > NEAR {
            let all = || limiters.iter().filter_map(|at| paths.get(*at as usize));
            all().for_each(mem::prefetch);
            all().filter_map(LimitPath::lane).for_each(mem::prefetch);
        }
        let passed = limiters.iter().filter(|at| {
            paths.get(**at as usize).is_some_and(|path| path.pass(None, (*len, 0), now_ns).is_ok())
        });
        let passed = passed.count();
        (passed as u64, (limiters.len() - passed) as u64)
    }
}

struct SharedAtomic<'l> {
    pools: &'l [Pool],
    cost_ns: u64,
}

impl Side for SharedAtomic<'_> {
    fn burst(&mut self, limiters: &[u32], now_ns: u64) -> (u64, u64) {
        let pools = limiters.iter().filter_map(|at| self.pools.get(*at as usize));
        let passed = pools.filter(|p| p.take(self.cost_ns, self.cost_ns, now_ns).is_some()).count();
        (passed as u64, (limiters.len() - passed) as u64)
    }
}

struct Locked<'l> {
    meters: &'l [Mutex<Meter>],
    settings: Settings,
    cost: u64,
}

/// Has a packet pass a meter.
fn pass(meter: &mut Meter, settings: &Settings, cost: u64, now_ns: u64) -> bool {
    meter.refill(settings, now_ns);
    let colour = meter.colour(settings, cost, Colour::Green);
    meter.take(settings, cost, colour);
    colour == Colour::Green
}

impl Side for Locked<'_> {
    fn burst(&mut self, limiters: &[u32], now_ns: u64) -> (u64, u64) {
        let meters = limiters.iter().filter_map(|at| self.meters.get(*at as usize));
        let passed = meters.filter(|meter| {
            let mut meter = meter.lock().unwrap_or_else(PoisonError::into_inner);
            pass(&mut meter, &self.settings, self.cost, now_ns)
        });
        let passed = passed.count();
        (passed as u64, (limiters.len() - passed) as u64)
    }
}

/// A meter that the holder of its lane alone writes: the queue orders one holder's writes before
/// the next one's reads.
struct Cell([AtomicU64; 3]);

impl Cell {
    fn of(meter: &Meter) -> Cell {
        let [first, second] = meter.levels();
        Cell([first, second, meter.at_ns()].map(AtomicU64::new))
    }

    fn pass(&self, settings: &Settings, cost: u64, now_ns: u64) -> bool {
        let [first, second, at_ns] = self.0.each_ref().map(|word| word.load(Relaxed));
        let mut meter = Meter::from_parts([first, second], at_ns);
        let passed = pass(&mut meter, settings, cost, now_ns);
        let [first, second] = meter.levels();
        let words = self.0.iter().zip([first, second, meter.at_ns()]);
        words.for_each(|(word, value)| word.store(value, Relaxed));
        passed
    }
}

struct Queued<'l> {
    ends: (atomic::Producer<u32>, atomic::Consumer<u32>),
    meters: &'l [Cell],
    settings: Settings,
    cost: u64,
}

impl Side for Queued<'_> {
    fn burst(&mut self, limiters: &[u32], now_ns: u64) -> (u64, u64) {
        let (producer, consumer) = &self.ends;
        let mut put: ArrayVec<(u64, u32), BURST> =
            limiters.iter().map(|at| (u64::from(*at), *at)).collect();
        producer.put_many(&mut put);
        // A lane is full: the packets are lost, as in a worker that cannot wait.
        let (mut passed, mut lost) = (0, put.len() as u64);
        let mut taken: ArrayVec<u32, BURST> = ArrayVec::new();
        let mut left = limiters.len();
        while left > 0 {
            let Some(mut lane) = consumer.hold() else { break };
            taken.clear();
            lane.take_many(&mut taken);
            left = left.saturating_sub(taken.len().max(1));
            for at in &taken {
                let meter = self.meters.get(*at as usize);
                match meter.is_some_and(|m| m.pass(&self.settings, self.cost, now_ns)) {
                    true => passed += 1,
                    false => lost += 1,
                }
            }
        }
        (passed, lost)
    }
}

/// Packets that come at once.
const BURST: usize = 32;

/// Limiters of which a core has all in its cache.
const NEAR: usize = 256;

/// Lanes of the atomic queue, and items in each.
const LANES: usize = 1024;
const DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains_index() {
        assert_eq!((jain(&[5, 5]), jain(&[9, 0]), jain(&[0, 0])), (1.0, 0.5, 1.0));
        assert!((jain(&[1, 3]) - 0.8).abs() < 1e-9);
    }

    #[test]
    fn every_way_passes_what_the_rate_allows() {
        let options = LimitOptions {
            cores: vec![1],
            limiters: vec![1, 100],
            flows: vec![8],
            len: 1400,
            duration: Duration::from_millis(4),
            repeat: 1,
        };
        let mut rows = 0;
        limits(&options, |row| {
            rows += 1;
            assert!(row.packets_per_s > 1000.0, "{row:?}");
            assert!(row.of_rate <= 1.0, "{row:?}");
        })
        .unwrap();
        assert_eq!(rows, 8);
    }
}
