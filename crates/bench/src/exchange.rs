//! Workers of a set that hand every packet over: passes of packets through all of them at once.
//!
//! A packet that one worker receives another one sends, so no worker is done before all are. The first one's thread
//! has the clock: a pass begins when it says so, and ends when every packet has ended at some worker.

use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;

use dataplane::Counters;
use outcome::DropReason;

use crate::error::BenchError;
use crate::gateway::Gateway;
use crate::options::Options;
use crate::pin::pin;
use crate::sibling::Post;
use crate::timing::{Timed, switches};

/// Result of a repetition.
pub(crate) struct Exchanged {
    /// Time of the packets that came through.
    pub(crate) timed: Timed,
    /// All packets, of pieces that do not count too.
    pub(crate) given: u64,
    /// Packets among them that were dropped because a queue between two workers was full.
    pub(crate) lost: u64,
}

/// Moves packets through all workers of the set on the calling thread, in turns, and proves each that comes
/// through. Then every worker has met every flow.
///
/// # Errors
/// [`BenchError::HandedOver`] unless every packet was handed over, and [`BenchError::Lost`] if one was lost otherwise.
pub(crate) fn prove(set: &mut [Gateway]) -> Result<Exchanged, BenchError> {
    let packets = set.iter().map(Gateway::packets).max().unwrap_or(0);
    let before = Sums::of(&counters(set));
    for gateway in &mut *set {
        gateway.load()?;
    }
    let mut round = || set.iter_mut().map(|gateway| gateway.worker.round()).sum::<usize>();
    while round() > 0 {}
    // The ports hand over what was sent.
    round();
    let mut lost = 0;
    for gateway in &mut *set {
        lost += gateway.collect() as u64;
        gateway.check()?;
        gateway.restock(packets);
    }
    let exchanged =
        Exchanged { timed: Timed::default(), given: (packets * set.len()) as u64, lost };
    exchanged.checked(set, before)
}

/// Passes through all workers of the set, each on one of these cores, until the time is over. The calling thread is
/// on the first one.
///
/// # Errors
/// As [`prove`]; [`BenchError`] if something cannot be measured.
pub(crate) fn repetition(
    set: &mut [Gateway],
    cores: &[usize],
    options: &Options<'_>,
) -> Result<Exchanged, BenchError> {
    let before = Sums::of(&counters(set));
    let passes = Passes {
        barrier: Barrier::new(set.len()),
        is_over: AtomicBool::new(false),
        begun: AtomicU64::new(0),
        given: AtomicU64::new(before.ended),
        ended: set.iter().map(|g| Line(AtomicU64::new(Sums::ended(g.counters())))).collect(),
    };
    let all_counters = counters(set);
    let other_cores = cores.get(1..).unwrap_or_default();
    let Some((first, others)) = set.split_first_mut() else {
        return Err(BenchError::Option { what: "workers", given: 0, allowed: "1 to 64" });
    };
    let (timed, lost) = thread::scope(|scope| {
        let (tell, told) = channel();
        let follow = |((gateway, core), number): ((_, &usize), usize)| {
            let (passes, tell, core) = (&passes, tell.clone(), *core);
            scope.spawn(move || passes.follow(gateway, number, core, &tell))
        };
        let threads: Vec<_> = others.iter_mut().zip(other_cores).zip(1..).map(follow).collect();
        let ids: Vec<i32> = told.iter().take(threads.len()).collect();
        let posts = other_cores.iter().map(|core| Post::new(*core)).collect();
        let led = passes.lead(first, (posts, &ids), &all_counters, options);
        // The others end, whatever has happened.
        passes.is_over.store(true, Relaxed);
        passes.barrier.wait();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let followed: Vec<Result<u64, BenchError>> = threads.into_iter().map(join).collect();
        let (timed, lost) = led?;
        let followed = followed.into_iter().collect::<Result<Vec<u64>, _>>()?;
        Ok::<_, BenchError>((timed, lost + followed.iter().sum::<u64>()))
    })?;
    let given = passes.given.into_inner() - before.ended;
    Exchanged { timed, given, lost }.checked(set, before)
}

impl Exchanged {
    /// Checks that every packet was handed over, and that none was lost but by full queues.
    fn checked(self, set: &[Gateway], before: Sums) -> Result<Exchanged, BenchError> {
        let after = Sums::of(&counters(set));
        let refused = after.refused - before.refused;
        let handed = after.handed_over - before.handed_over + refused;
        // Alone a worker is the next one itself.
        let allowed = if set.len() > 1 { self.given } else { 0 };
        if self.lost != refused
            && let Some(gateway) = set.iter().max_by_key(|g| g.counters().totals().dropped)
        {
            return Err(gateway.lost(self.given as usize));
        }
        match handed == allowed {
            true => Ok(self),
            false => Err(BenchError::HandedOver { given: self.given, handed, allowed }),
        }
    }
}

/// State that the threads of a repetition share.
struct Passes {
    /// Before a pass, before packets go, and when all have ended.
    barrier: Barrier,
    is_over: AtomicBool,
    /// The number of the pass that goes.
    begun: AtomicU64,
    /// How many packets will have ended then, at all workers and since they were made.
    given: AtomicU64,
    /// How many have, at each worker, when it last had nothing to do.
    ended: Box<[Line<AtomicU64>]>,
}

/// Alone on its cache lines.
#[repr(align(128))]
struct Line<T>(T);

impl Passes {
    /// The thread of the first worker.
    ///
    /// 1. All threads write their packets; 2. when the cores are quiet, the clock starts and all workers run; 3. when
    ///    every packet has ended, the clock stops; 4. all threads take what came out.
    fn lead(
        &self,
        gateway: &mut Gateway,
        (posts, others): (Result<Vec<Post>, BenchError>, &[i32]),
        counters: &[Arc<Counters>],
        options: &Options<'_>,
    ) -> Result<(Timed, u64), BenchError> {
        let posts = posts?;
        let packets = gateway.packets();
        let (mut timed, mut lost) = (Timed::within(options.patience), 0);
        let through = || Sums::of(counters).through;
        let switches = |_: &Gateway| others.iter().map(|thread| switches(*thread)).sum();
        for pass in 1.. {
            if !timed.has_time(options.duration) {
                break;
            }
            options.check_stop()?;
            self.barrier.wait();
            let loaded = self.load(gateway);
            self.barrier.wait();
            let before = through();
            let run = |gateway: &mut Gateway| {
                self.begun.store(pass, Release);
                self.run(gateway, 0);
                (through() - before) as usize
            };
            timed.quiet_piece_on(gateway, &posts, options.allocations, run, switches);
            self.barrier.wait();
            loaded?;
            lost += gateway.collect() as u64;
            gateway.restock(packets);
        }
        Ok((timed, lost))
    }

    /// The thread of another worker; returns how many of its packets were lost.
    fn follow(
        &self,
        gateway: &mut Gateway,
        number: usize,
        core: usize,
        tell: &Sender<i32>,
    ) -> Result<u64, BenchError> {
        let mut result = pin(Some(core));
        // Somebody listens until all have told.
        let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
        let packets = gateway.packets();
        let mut lost = 0;
        for pass in 1.. {
            self.barrier.wait();
            if self.is_over.load(Relaxed) {
                break;
            }
            // Also after an error: the others wait.
            let loaded = self.load(gateway);
            self.barrier.wait();
            // Acquire: pairs with the release in lead(). Not asleep: to be woken takes as long as some passes.
            while self.begun.load(Acquire) < pass {
                core::hint::spin_loop();
            }
            self.run(gateway, number);
            self.barrier.wait();
            if loaded.is_ok() {
                lost += gateway.collect() as u64;
                gateway.restock(packets);
            }
            result = result.and(loaded);
        }
        result.map(|()| lost)
    }

    fn load(&self, gateway: &mut Gateway) -> Result<(), BenchError> {
        gateway.load()?;
        // Relaxed: the barrier comes before anyone reads it.
        self.given.fetch_add(gateway.packets() as u64, Relaxed);
        Ok(())
    }

    /// Rounds until every packet has ended.
    fn run(&self, gateway: &mut Gateway, number: usize) {
        let given = self.given.load(Relaxed);
        let mut is_done = false;
        while !is_done {
            while gateway.worker.round() > 0 {}
            if let Some(Line(ended)) = self.ended.get(number) {
                // Release: what the worker did is seen by who counts its packets.
                ended.store(Sums::ended(gateway.counters()), Release);
            }
            let all = self.ended.iter().map(|Line(ended)| ended.load(Acquire)).sum::<u64>();
            is_done = all >= given;
        }
        // The ports hand over what was sent.
        gateway.worker.round();
    }
}

/// Counts of packets by their ends, of all workers together.
#[derive(Clone, Copy, Default)]
struct Sums {
    ended: u64,
    through: u64,
    handed_over: u64,
    /// Dropped instead of that.
    refused: u64,
}

impl Sums {
    fn of(all: &[Arc<Counters>]) -> Sums {
        let add = |sums: Sums, counters: &Arc<Counters>| {
            let totals = counters.totals();
            Sums {
                ended: sums.ended + Sums::ended(counters),
                through: sums.through + totals.transmitted,
                handed_over: sums.handed_over + totals.handed_over,
                refused: sums.refused + counters.dropped(DropReason::HandOverFull),
            }
        };
        all.iter().fold(Sums::default(), add)
    }

    /// How many packets have ended at a worker.
    fn ended(counters: &Counters) -> u64 {
        let totals = counters.totals();
        totals.transmitted + totals.to_linux + totals.consumed + totals.dropped
    }
}

fn counters(set: &[Gateway]) -> Vec<Arc<Counters>> {
    set.iter().map(|gateway| Arc::clone(gateway.counters())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::esp::plan;
    use crate::gateway::{Path, Spread};
    use crate::options::{Direction, suite_by_name};
    use crate::traffic::{Choice, Traffic};

    fn with_set(spread: Spread, frames: u32, test: impl Fn(&mut [Gateway])) {
        let provider = engine_openssl::OpensslProvider::new().unwrap();
        let options = Options { frames, ..Options::new(&provider) };
        let suite = suite_by_name("aes128gcm16").unwrap();
        for direction in [Direction::Outbound, Direction::Inbound] {
            let traffic = Traffic::new(direction, 100, 2, 64, Choice::InTurn(0));
            let plan = plan(&options, suite, Path::Esp, traffic);
            test(&mut Gateway::set(plan, 2, spread).unwrap());
        }
    }

    #[test]
    fn every_packet_is_handed_over_once_and_proved() {
        with_set(Spread::Away, 1024, |set| {
            let proved = prove(set).unwrap();
            assert_eq!((proved.given, proved.lost), (2048, 0));
            let sums = Sums::of(&counters(set));
            assert_eq!((sums.ended, sums.through, sums.handed_over), (2048, 2048, 2048));
        });
    }

    #[test]
    fn workers_that_keep_their_packets_are_no_case_of_it() {
        with_set(Spread::AtHome, 1024, |set| {
            let kept = prove(set).err().unwrap();
            let BenchError::HandedOver { given, handed, allowed } = kept else { panic!("{kept}") };
            assert_eq!((given, handed, allowed), (2048, 0, 2048));
        });
    }

    #[test]
    fn what_finds_no_room_is_counted_and_replaced() {
        with_set(Spread::Away, 4096, |set| {
            let before = Sums::of(&counters(set));
            set[0].load().unwrap();
            while set[0].worker.round() > 0 {}
            while set[1].worker.round() > 0 {}
            set[1].worker.round();
            let lost = set[0].collect() as u64;
            assert_eq!(lost, 4096 - 2048, "as long as a queue is");
            set[0].check().unwrap();
            set[0].restock(4096);
            assert_eq!(set[0].packets(), 4096);
            let passed = Exchanged { timed: Timed::default(), given: 4096, lost };
            assert!(passed.checked(set, before).is_ok());
            let unexplained = Exchanged { timed: Timed::default(), given: 4096, lost: 1 };
            let error = unexplained.checked(set, before).err().unwrap();
            assert!(matches!(error, BenchError::Lost { .. }), "{error}");
            assert_eq!(prove(set).unwrap().lost, 0);
        });
    }
}
