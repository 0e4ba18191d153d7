//! The benches `rekey` and `install`: the gateway's path while its SAs change.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use crypto::{Provider, Suite};
use esp::{LiveNumbers, Sa};
use policy::Databases;

use crate::error::BenchError;
use crate::esp::{plan, row};
use crate::gateway::{Gateway, Path};
use crate::options::{Direction, Options};
use crate::pin::pinned;
use crate::random::Random;
use crate::row::Row;
use crate::rows::Rows;
use crate::timing::{Repetitions, Timed, own_time};
use crate::traffic::{Choice, Traffic};
use crate::world;

/// The bench `rekey`: SAs get successors while packets flow, at several rates; and many SAs are
/// added between two rounds of the worker.
///
/// As IKE does it: the successors of both directions are installed, the peer goes over to them, and
/// the old ones are deleted when nothing is under way in them any more. What the control thread
/// does is not timed here (the bench `install` has it), only what the worker makes of it.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn rekey(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    pinned(options.cpu, || {
        let mut rows = Rows::new(options, options.cases() * options.sas.len() * (RATES.len() + 1));
        for_each(options, |suite, direction, size, sas| {
            for per_second in RATES {
                rows.begin(&format!("{per_second} rekeyed a second"));
                let mut gateway = gateway(options, suite, direction, size, sas)?;
                let mut rekeying = Rekeying::new(suite, sas, per_second);
                let mut row = measure(options, &mut gateway, |gateway, timed| {
                    rekeying.due(options.provider, gateway, timed)
                })?;
                (row.bench, row.case) = ("rekey", Some("rekeyed"));
                row.per_second = Some(per_second);
                rows.push(row);
            }
            rows.begin("1000 added at once");
            let mut gateway = gateway(options, suite, direction, size, sas)?;
            let mut added = false;
            let mut row = measure(options, &mut gateway, |gateway, timed| {
                if added || timed.packets == 0 {
                    return Ok(());
                }
                added = true;
                let new = sas as u32..sas as u32 + AT_ONCE;
                add(options.provider, suite, &mut gateway.databases, new, true)
            })?;
            (row.bench, row.case) = ("rekey", Some("1000 added at once"));
            rows.push(row);
            Ok(())
        })?;
        Ok(rows.into_vec())
    })
}

/// The bench `install`: SA pairs are added by one thread, as fast as it can, while the worker
/// moves packets on another core.
///
/// # Errors
/// [`BenchError`]; what was measured before is lost then.
pub fn install(options: &Options<'_>) -> Result<Vec<Row>, BenchError> {
    options.check()?;
    let mut rows = Rows::new(options, options.cases() * options.sas.len() * 2);
    for_each(options, |suite, direction, size, count| {
        for with_policies in [false, true] {
            rows.begin(&format!(
                "{count}, {} policies",
                if with_policies { "with" } else { "without" }
            ));
            rows.push(pinned(options.cpu, || {
                install_while(options, suite, direction, size, count as u32, with_policies)
            })?);
        }
        Ok(())
    })?;
    Ok(rows.into_vec())
}

fn install_while(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    count: u32,
    with_policies: bool,
) -> Result<Row, BenchError> {
    let mut gateway = gateway(options, suite, direction, size, SAS_WITH_TRAFFIC as usize)?;
    let mut databases = core::mem::take(&mut gateway.databases);
    let is_done = AtomicBool::new(false);
    let provider = options.provider;
    let (mut row, per_second) = thread::scope(|scope| {
        let installing = scope.spawn(|| {
            let new = SAS_WITH_TRAFFIC..SAS_WITH_TRAFFIC + count;
            let free = leave(options.cpu);
            let begun = Instant::now();
            let result =
                free.and_then(|()| add(provider, suite, &mut databases, new, with_policies));
            let seconds = begun.elapsed().as_secs_f64();
            is_done.store(true, Relaxed);
            // An SA for each direction.
            result.map(|()| 2.0 * f64::from(count) / seconds)
        });
        let row = measure_until(options, &mut gateway, |_, _| Ok(()), || is_done.load(Relaxed));
        // Also after an error here: it ends by itself.
        match installing.join() {
            Ok(per_second) => Ok::<_, BenchError>((row?, per_second?)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    row.bench = "install";
    row.case = Some(if with_policies { "SAs and policies" } else { "SAs" });
    row.sas = Some(2 * (count + SAS_WITH_TRAFFIC) as usize);
    row.per_second = Some(per_second);
    Ok(row)
}

fn for_each(
    options: &Options<'_>,
    mut work: impl FnMut(Suite, Direction, usize, usize) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for suite in &options.suites {
        for direction in &options.directions {
            for size in &options.sizes {
                for sas in &options.sas {
                    work(*suite, *direction, *size, *sas)?;
                }
            }
        }
    }
    Ok(())
}

fn gateway(
    options: &Options<'_>,
    suite: Suite,
    direction: Direction,
    size: usize,
    sas: usize,
) -> Result<Gateway, BenchError> {
    let traffic =
        Traffic::new(direction, size, sas, options.flows, Choice::Uniform(Random::new(4)));
    let mut gateway = Gateway::new(plan(options, suite, Path::Esp, traffic))?;
    gateway.prove()?;
    Ok(gateway)
}

/// Repetitions in which `change` acts between rounds of the worker.
fn measure(
    options: &Options<'_>,
    gateway: &mut Gateway,
    change: impl FnMut(&mut Gateway, &Timed) -> Result<(), BenchError>,
) -> Result<Row, BenchError> {
    let mut left = options.repeat;
    measure_until(options, gateway, change, || {
        left = left.saturating_sub(1);
        left == 0
    })
}

/// Repetitions until `is_enough` after one of them.
fn measure_until(
    options: &Options<'_>,
    gateway: &mut Gateway,
    mut change: impl FnMut(&mut Gateway, &Timed) -> Result<(), BenchError>,
    mut is_enough: impl FnMut() -> bool,
) -> Result<Row, BenchError> {
    let mut all = Repetitions::default();
    let (mut lost, mut slowest) = (0, Duration::ZERO);
    loop {
        let mut timed = Timed::within(options.patience);
        while timed.has_time(options.duration) {
            gateway.load()?;
            loop {
                change(gateway, &timed)?;
                let mut came = 0;
                let before = own_time();
                if timed.piece(0, options.allocations, || came = gateway.worker.round()) {
                    timed.packets += came as u64;
                }
                // By the thread's own time: what other processes take is not the round's.
                slowest = slowest.max(own_time().saturating_sub(before));
                if came == 0 {
                    break;
                }
            }
            lost += gateway.collect() as u64;
        }
        all.0.push(timed);
        if is_enough() {
            break;
        }
    }
    let mut row = row(options, "", gateway);
    all.fill(&mut row, options.allocations.is_some());
    row.lost = Some(lost);
    row.slowest_round_us = Some(slowest.as_secs_f64() * 1e6);
    Ok(row)
}

/// The owner of the SAs: gives them successors, one tunnel after the other.
struct Rekeying {
    suite: Suite,
    tunnels: u32,
    per_second: f64,
    /// Tunnels that have been rekeyed, counted on.
    done: u32,
    /// Tunnels among them whose old SAs are gone.
    cleared: u32,
    /// Worker time of earlier repetitions.
    before: Duration,
    last: Duration,
}

impl Rekeying {
    fn new(suite: Suite, tunnels: usize, per_second: f64) -> Rekeying {
        Rekeying {
            suite,
            tunnels: tunnels as u32,
            per_second,
            done: 0,
            cleared: 0,
            before: Duration::ZERO,
            last: Duration::ZERO,
        }
    }

    /// Does what is due by the worker's time. Called before each round.
    fn due(
        &mut self,
        provider: &dyn Provider,
        gateway: &mut Gateway,
        timed: &Timed,
    ) -> Result<(), BenchError> {
        // The peers have gone over to all successors, and what was under way has ended.
        if gateway.is_pass_fresh() {
            while self.cleared < self.done {
                self.clear(gateway);
            }
        }
        if timed.time < self.last {
            self.before += self.last;
        }
        self.last = timed.time;
        let time = self.before + timed.time;
        let due = (time.as_secs_f64() * self.per_second) as u32;
        // The old ones of a tunnel must be gone before it gets the next ones.
        while self.done < due && self.done - self.cleared < self.tunnels {
            self.install(provider, gateway)?;
        }
        Ok(())
    }

    /// The tunnel and the generation of the successors that are installed as number `count`.
    const fn place(&self, count: u32) -> (u32, u32) {
        (count % self.tunnels, 1 + count / self.tunnels)
    }

    fn install(
        &mut self,
        provider: &dyn Provider,
        gateway: &mut Gateway,
    ) -> Result<(), BenchError> {
        let wrong = || BenchError::Wrong { suite: self.suite };
        let (n, generation) = self.place(self.done);
        for direction in [Direction::Outbound, Direction::Inbound] {
            let config = world::sa_config(self.suite, direction, n, generation);
            let key = n ^ generation << 20;
            let session = provider.session(self.suite, &world::keys(self.suite, direction, key))?;
            if direction == gateway.traffic.direction {
                let live = LiveNumbers::on_heap(config.params.replay_window);
                let peer = Sa::new(config.params.clone(), session.clone(), live);
                gateway.succeed(n as usize, peer.map_err(|_| wrong())?);
            }
            let live = LiveNumbers::on_heap(config.params.replay_window);
            let sa = Sa::new(config.params.clone(), session, live).map_err(|_| wrong())?;
            gateway.databases.add_sa(config, sa).map_err(|_| wrong())?;
        }
        self.done += 1;
        Ok(())
    }

    /// Deletes the old SAs of the tunnel whose turn it is.
    fn clear(&mut self, gateway: &mut Gateway) {
        let (n, generation) = self.place(self.cleared);
        for direction in [Direction::Outbound, Direction::Inbound] {
            let old = world::sa_config(self.suite, direction, n, generation - 1);
            gateway.databases.remove_sa(&old.id());
        }
        self.cleared += 1;
    }
}

/// Adds SA pairs, and their policies if asked for.
fn add(
    provider: &dyn Provider,
    suite: Suite,
    databases: &mut Databases<Sa>,
    tunnels: core::ops::Range<u32>,
    with_policies: bool,
) -> Result<(), BenchError> {
    let wrong = || BenchError::Wrong { suite };
    for n in tunnels {
        for direction in [Direction::Outbound, Direction::Inbound] {
            let config = world::sa_config(suite, direction, n, 0);
            let session = provider.session(suite, &world::keys(suite, direction, n))?;
            let live = LiveNumbers::on_heap(config.params.replay_window);
            let sa = Sa::new(config.params.clone(), session, live).map_err(|_| wrong())?;
            databases.add_sa(config, sa).map_err(|_| wrong())?;
        }
        if with_policies {
            for policy in world::policies(n) {
                databases.put_policy(policy);
            }
        }
    }
    Ok(())
}

/// Lets the calling thread run on every core but the worker's, if there is another.
fn leave(cpu: Option<usize>) -> Result<(), BenchError> {
    let all = thread::available_parallelism().map_or(1, usize::from);
    let busy = cpu.unwrap_or_else(rustix::thread::sched_getcpu);
    let mut set = rustix::thread::CpuSet::new();
    for n in (0..CORES).filter(|n| *n != busy) {
        set.set(n);
    }
    match rustix::thread::sched_setaffinity(None, &set) {
        // There is no other.
        Err(_) if all == 1 => Ok(()),
        result => result.map_err(BenchError::system("move a thread to another core")),
    }
}

/// Rekeyed tunnels a second: an SA in each direction.
const RATES: [f64; 4] = [0.0, 100.0, 1000.0, 10_000.0];
/// Tunnels that are added between two rounds: 1000 SAs.
const AT_ONCE: u32 = 500;
/// Tunnels that have traffic while others are installed.
const SAS_WITH_TRAFFIC: u32 = 1000;
/// The most cores that a set of them has.
const CORES: usize = rustix::thread::CpuSet::MAX_CPU;
