//! The workers, from the outside: threads, crypto threads, and what changes them while traffic flows.
//!
//! # Another set of workers
//!
//! [`Workers::change`] prepares everything that takes time, and then:
//!
//! 1. pauses all workers: each returns from its loop, with its ports open and its packets held;
//! 2. lets them process, on this thread, what came by the private interface before it had its new
//!    queues, and then what they have handed over to one another, until nothing is left;
//! 3. takes their ports, ends their crypto threads, and gives the packets that leaving workers hold
//!    to those that stay;
//! 4. makes every SA's home vacant;
//! 5. gives workers their places in the new set, distributes the ports, and starts the threads.
//!
//! Meanwhile packets wait in the rings of their queues. A queue moves as a whole, so the packets of a flow
//! stay in order.
//!
//! # Panics
//!
//! A thread that panics is found by [`Workers::dead`]; the daemon ends then.

mod commands;

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use crypto::{Engine, Providers};
use dataplane::{
    Command, Counters, CryptoParts, CryptoWorker, EventSender, Polling, PortKind, Tables, Team,
    Totals, Waker, Worker, WorkerParts,
};
use esp::{IvSource, Sa};
use io::{Port, Umem};
use outcome::DropReason;
use policy::Databases;
use rustix::thread::{CpuSet, sched_setaffinity};
use thiserror::Error;
use tracing::warn;

use crate::confinement::Confinement;
use crate::devices::SharedDevices;
use crate::layout::Layout;
use crate::slots::{self, Place};

/// Rounds that drain the private interface's old queues before the new ones are used: more than the
/// packets in them, cut to segments, need.
const DRAIN_ROUNDS: usize = 1024;

/// Parts of which every worker is made.
pub struct Kit {
    /// Routes, neighbours, interfaces.
    pub tables: Arc<Tables>,
    /// Make the engines.
    pub providers: Providers,
    /// Offload devices, whose queues the engines have.
    pub devices: SharedDevices,
    /// The packet buffers.
    pub umem: Umem,
    /// Where workers report.
    pub events: EventSender,
    /// Size of each worker's flow cache.
    pub flows: usize,
    /// Behaviour of each when no packets come.
    pub polling: Polling,
    /// Confinement of their threads.
    pub confinement: Confinement,
}

impl Kit {
    /// An engine for one thread.
    fn engine(&self) -> Result<Box<dyn Engine>, WorkersError> {
        let software = self.providers.engine()?;
        Ok(self.devices.borrow_mut().engine(software)?)
    }
}

/// Why a set of workers could not be started.
#[derive(Debug, Error)]
pub enum WorkersError {
    /// No engine can be made.
    #[error("crypto.engine: {0}")]
    Engine(#[from] crypto::EngineError),
    /// No queue of an offload device.
    #[error("device: {0}")]
    Device(#[from] offload::PutError),
    /// No random numbers.
    #[error("no random numbers from the kernel: {0}")]
    Random(std::io::Error),
    /// No thread, or no descriptor.
    #[error("starting the workers: {0}")]
    System(#[from] std::io::Error),
}

/// Why a change of the workers failed.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// Nothing has changed.
    #[error(transparent)]
    NotBegun(WorkersError),
    /// A worker panicked.
    #[error(transparent)]
    Dead(#[from] Death),
    /// The new set did not start; there are no workers any more.
    #[error(transparent)]
    Halfway(WorkersError),
}

/// A thread that ended by itself.
#[derive(Debug, Error)]
#[error("{thread} has panicked: {reason}")]
pub struct Death {
    /// Name of the thread.
    pub thread: String,
    /// The panic's message.
    pub reason: String,
}

/// A set of workers that runs.
pub struct Workers {
    kit: Kit,
    layout: Layout,
    running: Vec<Running>,
    /// By worker number. Those of ended workers stay, and count on when the number is used again.
    counters: Vec<Arc<Counters>>,
    /// The clock and the limits of every set.
    root: Team,
    /// Sets that there were, with this one.
    set_number: u64,
}

/// A worker's thread, and those that serve it.
struct Running {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<Worker>>,
    crypto: Vec<JoinHandle<()>>,
}

/// Parts that are made before the workers pause.
struct Prepared {
    teams: Vec<Team>,
    /// New workers, behind those that stay.
    fresh: Vec<(Worker, Sender<Command>, Waker)>,
    /// Parts of the crypto threads, by worker; those of the worker itself come first.
    crypto: Vec<Vec<CryptoParts>>,
}

impl Workers {
    /// No workers yet: [`Workers::change`] starts the first ones, too.
    pub fn none(kit: Kit) -> Workers {
        let (layout, root) = (Layout::default(), Team::alone());
        Workers { kit, layout, running: Vec::new(), counters: Vec::new(), root, set_number: 0 }
    }

    /// The set that runs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.layout.workers.len()
    }

    /// The time on their clock.
    pub fn now_ns(&self) -> u64 {
        self.root.now_ns()
    }

    /// Changes to another set. `private` are new queues of the private interface, behind those
    /// that there are.
    ///
    /// # Errors
    /// After [`ChangeError::NotBegun`] the workers are as before; after any other there are none.
    pub fn change(
        &mut self,
        layout: Layout,
        databases: &Databases<Sa>,
        private_ifindex: u32,
        private: Vec<Box<dyn Port>>,
    ) -> Result<(), ChangeError> {
        let prepared = self.prepare(&layout, databases).map_err(ChangeError::NotBegun)?;
        let mut workers = self.pause()?;
        workers.iter_mut().for_each(Worker::end_taps);
        if !private.is_empty() {
            for _ in 0..DRAIN_ROUNDS {
                if workers.iter_mut().map(Worker::drain_private).sum::<usize>() == 0 {
                    break;
                }
            }
        }
        while workers.iter_mut().map(Worker::settle).sum::<usize>() > 0 {}
        let mut ports = self.take_ports(&mut workers);
        let private_ports = ports.iter().filter(|p| p.kind == PortKind::Private);
        let first = private_ports.map(|p| p.queue + 1).max().unwrap_or(0);
        ports.extend(private.into_iter().zip(first..).map(|(port, queue)| SpreadPort {
            ifindex: private_ifindex,
            interface: slots::PRIVATE,
            queue,
            port,
            kind: PortKind::Private,
        }));
        workers.iter_mut().for_each(Worker::end_crypto_pool);
        self.join_crypto()?;
        let kept = workers.len().min(layout.workers.len());
        let (stay, go) = workers.split_at_mut(kept);
        for (number, gone) in go.iter_mut().enumerate() {
            if let Some(heir) = stay.get_mut(number % kept) {
                heir.adopt(gone);
            }
        }
        workers.truncate(kept);
        self.running.truncate(kept);
        databases.sas().for_each(|sa| sa.home().vacate());
        self.launch(layout, prepared, workers, ports).map_err(ChangeError::Halfway)
    }

    /// Makes what another set needs beside the workers that stay.
    fn prepare(
        &mut self,
        layout: &Layout,
        databases: &Databases<Sa>,
    ) -> Result<Prepared, WorkersError> {
        let count = layout.workers.len();
        let mut wakers: Vec<Waker> =
            self.running.iter().take(count).map(|r| r.waker.clone()).collect();
        let kept = wakers.len();
        for _ in kept..count {
            wakers.push(Waker::new()?);
        }
        while self.counters.len() < count {
            self.counters.push(Arc::default());
        }
        let mut teams = self.root.again(&wakers);
        let kit = &self.kit;
        let mut fresh = Vec::new();
        let new_teams = teams.split_off(kept.min(teams.len()));
        let places =
            new_teams.into_iter().zip(wakers.drain(kept..)).zip(self.counters.iter().skip(kept));
        for ((team, waker), counters) in places {
            let (commands, commands_out) = channel();
            let parts = WorkerParts {
                tables: Arc::clone(&kit.tables),
                reader: databases.reader(),
                engine: kit.engine()?,
                ivs: new_ivs()?,
                pool: kit.umem.pool(),
                counters: Arc::clone(counters),
                events: kit.events.clone(),
                commands: commands_out,
                waker: waker.clone(),
                team,
                flows: kit.flows,
            };
            let mut worker = Worker::new(parts);
            worker.set_polling(kit.polling);
            // The first worker comes first, and stays as long as there are any.
            for (number, queue) in kit.devices.borrow_mut().packet.take_queues() {
                worker.add_device(number, queue);
            }
            fresh.push((worker, commands, waker));
        }
        let parts = |_| {
            let (engine, ivs) = (kit.engine()?, new_ivs()?);
            Ok(CryptoParts { engine, ivs, reader: databases.reader() })
        };
        // A worker that has crypto threads works on bursts as one of them.
        let crypto = (0..count).map(|worker| match layout.crypto_of(worker).count() {
            0 => Ok(Vec::new()),
            threads => (0..=threads).map(parts).collect(),
        });
        let crypto = crypto.collect::<Result<_, WorkersError>>()?;
        Ok(Prepared { teams, fresh, crypto })
    }

    /// Gives the workers that stay, and the new ones behind them, crypto threads and ports, and starts
    /// the threads.
    fn launch(
        &mut self,
        layout: Layout,
        prepared: Prepared,
        mut workers: Vec<Worker>,
        ports: Vec<SpreadPort>,
    ) -> Result<(), WorkersError> {
        let Prepared { teams, fresh, crypto } = prepared;
        workers.iter_mut().zip(teams).for_each(|(worker, team)| worker.set_team(team));
        for (worker, commands, waker) in fresh {
            workers.push(worker);
            self.running.push(Running { commands, waker, thread: None, crypto: Vec::new() });
        }
        for SpreadPort { ifindex, interface, queue, port, kind } in ports {
            let place = slots::of_queue(interface, queue, workers.len());
            match place.and_then(|place| Some((place.slot, workers.get_mut(place.worker)?))) {
                Some((slot, worker)) => worker.add_port(slot, ifindex, port, kind),
                None => warn!(ifindex, queue, "no place for a queue with so few workers: closed"),
            }
        }
        self.layout = layout;
        self.set_number += 1;
        for (number, (mut worker, parts)) in workers.into_iter().zip(crypto).enumerate() {
            let Some(running) = self.running.get_mut(number) else { break };
            let mut parts = parts.into_iter();
            if let Some(own) = parts.next() {
                let threads = worker.add_crypto_pool(own, parts.collect())?;
                let cpus = self.layout.crypto_of(number);
                for (turn, (thread, cpu)) in threads.into_iter().zip(cpus).enumerate() {
                    let name = crypto_name(number + turn * self.layout.workers.len());
                    running.crypto.push(start_crypto(name, thread, cpu, &self.kit)?);
                }
            }
            let cpu = self.layout.workers.get(number).copied().flatten();
            let confinement = self.kit.confinement.clone();
            running.thread = Some(Builder::new().name(worker_name(number)).spawn(move || {
                if let Some(cpu) = cpu {
                    pin("worker.cpus", cpu);
                }
                confinement.for_packets();
                worker.run();
                worker
            })?);
        }
        Ok(())
    }

    /// Makes every worker return from its loop, and joins the threads.
    fn pause(&mut self) -> Result<Vec<Worker>, Death> {
        (0..self.running.len()).for_each(|worker| self.send(worker, Command::Pause));
        let mut workers = Vec::with_capacity(self.running.len());
        for (number, running) in self.running.iter_mut().enumerate() {
            let Some(thread) = running.thread.take() else { continue };
            workers.push(thread.join().map_err(|panic| Death::new(worker_name(number), &*panic))?);
        }
        Ok(workers)
    }

    /// The ports of paused workers, with their queues.
    fn take_ports(&self, workers: &mut [Worker]) -> Vec<SpreadPort> {
        let count = workers.len();
        let mut ports = Vec::new();
        for (number, worker) in workers.iter_mut().enumerate() {
            ports.extend(worker.take_ports().into_iter().map(|taken| {
                let place = Place { worker: number, slot: taken.slot };
                let (interface, queue) = slots::queue_in(place, count);
                let (ifindex, port, kind) = (taken.ifindex, taken.port, taken.kind);
                SpreadPort { ifindex, interface, queue, port, kind }
            }));
        }
        ports
    }

    /// Waits for the crypto threads, which end when their workers let go of them.
    fn join_crypto(&mut self) -> Result<(), Death> {
        let count = self.count();
        for (number, running) in self.running.iter_mut().enumerate() {
            for (turn, thread) in running.crypto.drain(..).enumerate() {
                let name = || crypto_name(number + turn * count);
                thread.join().map_err(|panic| Death::new(name(), &*panic))?;
            }
        }
        Ok(())
    }

    /// Wakes all of them, because something that they read has changed.
    pub fn wake(&self) {
        self.running.iter().for_each(|running| running.waker.wake());
    }

    /// The counters of each worker that there is or was, by number.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.counters.iter().map(|counters| &**counters)
    }

    /// Rounds of each worker that runs.
    pub fn rounds(&self) -> Vec<u64> {
        self.counters().take(self.running.len()).map(|counters| counters.rounds.value()).collect()
    }

    /// Packets that all workers have dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.counters().map(|counters| counters.dropped(reason)).sum()
    }

    /// All counters together.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters().for_each(|counters| totals += counters.totals());
        totals
    }

    /// Number of the set that runs: another one after each change.
    pub fn set_number(&self) -> u64 {
        self.set_number
    }

    /// A thread that has ended: it panicked, for none is told to end before all are.
    pub fn dead(&mut self) -> Option<Death> {
        let count = self.count();
        for (number, running) in self.running.iter_mut().enumerate() {
            if running.thread.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(thread) = running.thread.take()
            {
                return Some(ended(worker_name(number), thread));
            }
            if let Some(turn) = running.crypto.iter().position(JoinHandle::is_finished) {
                let thread = running.crypto.swap_remove(turn);
                return Some(ended(crypto_name(number + turn * count), thread));
            }
        }
        None
    }

    /// Ends them: everything that they hold is dropped and counted.
    pub fn stop(&mut self) {
        (0..self.running.len()).for_each(|worker| self.send(worker, Command::Stop));
        for (number, running) in self.running.iter_mut().enumerate() {
            if let Some(thread) = running.thread.take()
                && let Err(panic) = thread.join()
            {
                warn!("{}", Death::new(worker_name(number), &*panic));
            }
        }
        // They end when their workers are gone.
        if let Err(death) = self.join_crypto() {
            warn!("{death}");
        }
    }
}

/// A queue on its way from one worker to another.
struct SpreadPort {
    ifindex: u32,
    /// Its interface's slot.
    interface: usize,
    queue: usize,
    port: Box<dyn Port>,
    kind: PortKind,
}

impl Death {
    fn new(thread: String, panic: &(dyn Any + Send)) -> Death {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Death { thread, reason: text.unwrap_or("a panic without a message").into() }
    }
}

/// Why a finished thread has ended.
fn ended<T>(name: String, thread: JoinHandle<T>) -> Death {
    match thread.join() {
        Err(panic) => Death::new(name, &*panic),
        Ok(_) => Death { thread: name, reason: "it returned without having been told to".into() },
    }
}

fn start_crypto(
    name: String,
    thread: CryptoWorker,
    cpu: usize,
    kit: &Kit,
) -> std::io::Result<JoinHandle<()>> {
    let (polling, confinement) = (kit.polling, kit.confinement.clone());
    Builder::new().name(name).spawn(move || {
        pin("worker.crypto_cpus", cpu);
        confinement.for_packets();
        thread.run(polling);
    })
}

fn new_ivs() -> Result<IvSource, WorkersError> {
    IvSource::new().map_err(|error| WorkersError::Random(std::io::Error::other(error)))
}

fn worker_name(number: usize) -> String {
    format!("culvert-work{number}")
}

fn crypto_name(number: usize) -> String {
    format!("culvert-crypto{number}")
}

fn pin(key: &str, cpu: usize) {
    let mut set = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        set.set(cpu);
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!(cpu, %error, "{key}: the thread is not pinned");
    }
}

#[cfg(test)]
mod tests {
    use config::EngineChoice;

    use super::*;
    use crate::engines::providers;
    use io::{Burst, ChunkSize, FramePool, MemoryHandle, PortCounters, PortError, UmemConfig};
    use std::os::fd::BorrowedFd;
    use std::time::{Duration, Instant};

    const IFINDEX: u32 = 7;

    fn kit() -> Kit {
        let chunks =
            UmemConfig { chunks: 16384, chunk_size: ChunkSize::Bytes2048, populate: false };
        Kit {
            tables: Arc::default(),
            providers: providers(EngineChoice::Openssl).unwrap(),
            devices: SharedDevices::default(),
            umem: Umem::new(chunks).unwrap().0,
            events: dataplane::channel().unwrap().0,
            flows: 1024,
            polling: Polling::Adaptive,
            confinement: Confinement::Off,
        }
    }

    fn layout(workers: usize, crypto: &[usize]) -> Layout {
        Layout { workers: vec![None; workers], crypto: crypto.to_vec() }
    }

    fn started(kit: Kit, layout: Layout, databases: &Databases<Sa>) -> Workers {
        let mut workers = Workers::none(kit);
        workers.change(layout, databases, 1, Vec::new()).unwrap();
        workers
    }

    fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn queues_go_with_their_packets_to_whichever_workers_there_are() {
        let (kit, databases) = (kit(), Databases::new());
        let mut pool = kit.umem.pool();
        let mut workers = Workers::none(kit);
        let private: Vec<_> = (0..4).map(|n| MemoryHandle::new(&format!("p{n}"), 512)).collect();
        workers.change(layout(2, &[]), &databases, 1, vec![private[0].port()]).unwrap();
        let queues: Vec<_> = (0..4).map(|n| MemoryHandle::new(&format!("q{n}"), 512)).collect();
        for (number, queue) in (0..).zip(&queues) {
            workers.add_port(slots::of_port(2), number, IFINDEX, queue.port());
        }
        let mut came = 0;
        for (count, crypto) in [(4, &[0][..]), (1, &[0, 0, 0]), (3, &[]), (2, &[0]), (2, &[])] {
            // Some come before the change, some while it happens, some after it.
            for part in 0..3 {
                for queue in queues.iter().chain(&private) {
                    for _ in 0..50 {
                        came += u64::from(queue.lock().inject(&[0; 60], &mut pool));
                    }
                }
                if part == 1 {
                    // Those of four workers stay when there are fewer.
                    let more = private.iter().skip(if count == 4 { 1 } else { 4 });
                    let more = more.map(MemoryHandle::port).collect();
                    workers.change(layout(count, crypto), &databases, 1, more).unwrap();
                }
            }
            assert_eq!(workers.count(), count);
            wait_for("all packets", || workers.totals().received == came);
            assert!(workers.wait_for_commands());
            assert_eq!(workers.totals().balance(), 0);
            assert!(workers.dead().is_none());
        }
        assert_eq!((came, workers.counters().count()), (5 * 3 * 8 * 50, 4));
        workers.remove_ports(IFINDEX);
        queues[3].lock().inject(&[0; 60], &mut pool);
        workers.stop();
        assert_eq!(workers.totals().received, came);
        assert_eq!(workers.totals().balance(), 0);
    }

    /// As many ports as there may be, of as many queues as one worker takes, of any interfaces.
    #[test]
    fn all_ports_with_all_their_queues_go_to_whichever_workers_there_are() {
        let (kit, databases) = (kit(), Databases::new());
        let mut pool = kit.umem.pool();
        let mut workers = started(kit, layout(4, &[]), &databases);
        let queues: Vec<_> = (0..slots::MAX_PORTS * slots::QUEUES_PER_WORKER)
            .map(|n| MemoryHandle::new(&format!("q{n}"), 8))
            .collect();
        for (n, queue) in queues.iter().enumerate() {
            let (port, number) = (n % slots::MAX_PORTS, n / slots::MAX_PORTS);
            let ifindex = 100 + port as u32;
            workers.add_port(slots::of_port(port), number as u32, ifindex, queue.port());
        }
        let mut came = 0;
        for count in [4, 1, 3] {
            if workers.count() != count {
                workers.change(layout(count, &[]), &databases, 1, Vec::new()).unwrap();
            }
            for queue in &queues {
                came += u64::from(queue.lock().inject(&[0; 60], &mut pool));
            }
            wait_for("all packets", || workers.totals().received == came);
        }
        assert_eq!(came, 3 * queues.len() as u64);
        (0..slots::MAX_PORTS as u32).for_each(|port| workers.remove_ports(100 + port));
        workers.stop();
        assert_eq!(workers.totals().balance(), 0);
    }

    /// A port whose worker panics.
    struct Broken;

    impl Port for Broken {
        fn rx(&mut self, _: &mut FramePool, _: &mut Burst) -> Result<usize, PortError> {
            panic!("made to panic by a test of {}", "culvert");
        }

        fn tx(&mut self, _: &mut Burst, _: &mut FramePool) -> Result<usize, PortError> {
            Ok(0)
        }

        fn reclaim(&mut self, _: &mut FramePool) -> Result<(), PortError> {
            Ok(())
        }

        fn check(&mut self) -> Result<(), PortError> {
            Ok(())
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn frames_held(&self) -> usize {
            0
        }

        fn counters(&self) -> Arc<PortCounters> {
            PortCounters::new()
        }
    }

    #[test]
    fn a_worker_that_panics_is_found_with_its_reason() {
        let databases = Databases::new();
        let mut workers = started(kit(), layout(3, &[0]), &databases);
        assert!(workers.dead().is_none());
        workers.add_port(slots::of_port(0), 1, IFINDEX, Box::new(Broken));
        let mut death = None;
        wait_for("its end", || {
            death = workers.dead();
            death.is_some()
        });
        let text = death.unwrap().to_string();
        assert!(text.contains("culvert-work1") && text.contains("test of culvert"), "{text}");
        workers.stop();
    }

    #[test]
    fn a_change_that_meets_a_panic_says_so() {
        let databases = Databases::new();
        let mut workers = started(kit(), layout(2, &[]), &databases);
        workers.add_port(slots::of_port(0), 1, IFINDEX, Box::new(Broken));
        let error = workers.change(layout(1, &[]), &databases, 1, Vec::new()).unwrap_err();
        assert!(matches!(&error, ChangeError::Dead(_)), "{error}");
        workers.stop();
    }
}
