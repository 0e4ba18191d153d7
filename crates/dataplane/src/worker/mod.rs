//! The worker: takes bursts from its ports, and brings every packet to its end.

mod answers;
mod asked;
mod bfd;
mod change;
mod copies;
mod crypto_worker;
mod helper;
mod helpers;
mod idle;
mod passes;
mod paths;
mod payloads;
mod pool;
mod queues;
mod run;
mod turns;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use arrayvec::ArrayVec;
use crypto::Engine;
use esp::{IvSource, Sa};
use io::{BURST_LEN, FramePool, Port, PortStats};
use offload::Queue;
use policy::SaId;

use crate::burst::{Path, Scratch};
use crate::capture::Recorder;
use crate::counters::Counters;
use crate::crypt::{Crypt, Resync};
use crate::event::{EventSender, Waker};
use crate::features::Executor;
use crate::features::bfd::{BfdAsked, BfdChange, BfdReports};
use crate::features::device::{self, DevicePacket, DeviceQueue};
use crate::features::fragments::Fragments;
use crate::features::look::Copier;
use crate::features::paths::{PathReports, PathSetup, ProbeExit};
use crate::flows::FlowCache;
use crate::host_limits::HostLimits;
use crate::model::{Explanation, Handed, Newcomers, Now, PortKind, Probe, Source};
use crate::out::neighbour::NeighbourQueue;
use crate::out::peers::Peers;
use crate::out::{Out, Reports};
use crate::slow::Resting;
use crate::tables::Tables;
use crate::team::Team;
use crate::view::{TablesChange, View};
use asked::{Merge, PendingAnswer};
pub use change::TakenPort;
pub use crypto_worker::CryptoWorker;
pub use helper::CryptoParts;
pub use idle::Polling;
use pool::Helpers;

/// Flows whose plans a worker keeps unless told otherwise: 2.6 MiB.
pub const DEFAULT_FLOWS: usize = 1 << 14;

/// Bursts that a port has in one turn at most.
const BURSTS_AT_ONCE: usize = 8;

/// Command of the control thread to a running worker.
pub enum Command {
    /// Take a port: an Ethernet port, or the private interface.
    AddPort {
        /// Which of the worker's slots it gets; see [`crate::Interface::port`].
        slot: usize,
        /// Index of the interface.
        ifindex: u32,
        /// The port itself.
        port: Box<dyn Port>,
        /// Kind of the port.
        kind: PortKind,
        /// Told when the port is in its slot and has been looked at for the first time.
        done: Sender<()>,
    },
    /// Drop every port of an interface; its descriptors are closed when this has been done.
    RemovePorts {
        /// Index of the interface.
        ifindex: u32,
    },
    /// Tell the ports' counters.
    PortStats(Sender<Vec<(u32, PortStats)>>),
    /// Unite the replay window of an inbound SA with that of somebody who has opened packets of it as well
    /// ([`ReplayWindow::merge`](esp::ReplayWindow::merge)), once the packets that wait at the worker are through.
    /// Only the SA's home does; of an SA that has none the first worker that is asked becomes it.
    MergeWindow {
        /// Identity of the SA.
        sa: SaId,
        /// The highest number that the other has received.
        edge: u64,
        /// Which it has received: bit 0 of the first word is the edge, bit 1 the number before it.
        received: Vec<u64>,
        /// Told whether it was done here: false from a worker that is not the home, or does not know the
        /// SA.
        done: Sender<bool>,
    },
    /// Tell when all commands sent before have been carried out, and when the worker and its helpers have
    /// taken over everything that was changed in databases and tables before this was sent, and have brought
    /// all packets that they had before to their ends, or hold them to be decided about anew.
    ///
    /// From then on none of these threads gives a packet a number of an SA, or accepts one by it, that was
    /// removed before.
    CatchUp(Sender<()>),
    /// Tell when a round has found no packet in any port: all that had come before is through. With more and more
    /// packets, after two seconds.
    Drain(Sender<()>),
    /// Tell what would be done with a packet, by all that was published before this was sent.
    Explain(Box<Probe>, Sender<Explanation>),
    /// Record packets, until the recorder's reader has enough.
    Tap(Box<Recorder>),
    /// Copy the first packets of flows whose application is not known, to this copier's reader.
    Look(Box<Copier>),
    /// Measure these paths, and no others: for the first worker, which alone does.
    Measure(Box<PathSetup>),
    /// Send the probes of these sessions otherwise, by their places in the setup; all else stays as it is.
    LeadProbes(Vec<(usize, ProbeExit)>),
    /// Tell what was measured of paths.
    TellPaths {
        /// Sessions before the first that is told of.
        from: usize,
        /// Told of some sessions, and how many are left.
        answer: Sender<PathReports>,
    },
    /// Change the sessions of BFD: for the first worker, which alone has some.
    Bfd(Box<BfdChange>),
    /// Tell how sessions of BFD stand.
    TellBfd {
        /// Sessions that are told of.
        asked: BfdAsked,
        /// Told of them.
        answer: Sender<BfdReports>,
    },
    /// Return from [`Worker::run`] with everything in its place: ports open, packets held.
    Pause,
    /// End: every packet held or queued is dropped and counted, every port closed.
    Stop,
}

/// Parts of a worker, for its constructor.
pub struct WorkerParts {
    /// Routes, neighbours, interfaces.
    pub tables: Arc<Tables>,
    /// SAs and policies.
    pub reader: policy::Reader<Sa>,
    /// Crypto engine of the worker.
    pub engine: Box<dyn Engine>,
    /// Source of IVs of the worker.
    pub ivs: IvSource,
    /// Packet buffers of the worker.
    pub pool: FramePool,
    /// Counters, which the worker alone writes.
    pub counters: Arc<Counters>,
    /// Where it reports.
    pub events: EventSender,
    /// Where it is told.
    pub commands: Receiver<Command>,
    /// Wakes it from sleep; the one that its team has of it.
    pub waker: Waker,
    /// Place among the workers.
    pub team: Team,
    /// Flows whose plans it keeps, some 160 bytes each; [`DEFAULT_FLOWS`]. With more flows than
    /// that at a time, each packet takes the slow path.
    pub flows: usize,
}

/// One worker.
///
/// Runs on one thread. Everything in it is its own but the tables and databases, which it only reads,
/// and the SAs' live numbers, whose only writer it is, in turns with its helpers if it has some.
pub struct Worker {
    path: Path,
    slow: Resting,
    commands: Receiver<Command>,
    /// Requests to be answered when the databases have been followed.
    asked: Vec<PendingAnswer>,
    /// Rounds that have found no packet.
    idle_rounds: u64,
    waker: Waker,
    helpers: Option<Box<Helpers>>,
    /// Taken while a burst is moved.
    scratch: Option<Box<Scratch>>,
    shared: Arc<HostLimits>,
    polling: Polling,
    ending: Option<Ending>,
}

/// Why a worker ends its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Paused,
    Stopped,
}

impl Worker {
    /// Puts a worker together. All its memory is allocated here.
    pub fn new(mut parts: WorkerParts) -> Worker {
        let Team { index, shared, peers } = parts.team;
        let workers = peers.as_ref().map_or(1, Peers::workers);
        let mut view = View::new(parts.tables, parts.reader, index, shared.now());
        view.workers = workers;
        let flows = FlowCache::new(parts.flows, parts.ivs.random());
        let crypt = Crypt::new(parts.engine, parts.ivs, Resync::new());
        let reports = Reports::new(parts.events, Arc::clone(&shared));
        let neighbours = NeighbourQueue::new(workers);
        let mut out = Out::new(parts.counters, parts.pool, reports, neighbours);
        out.peers = peers;
        let fragments = Fragments::new(Arc::clone(&shared), workers, &out.pool);
        let mut exec = Executor::new(crypt, out);
        exec.rooms.fragments = Some(Box::new(fragments));
        Worker {
            path: Path::new(view, flows, exec),
            slow: Resting::new(Arc::clone(&shared), workers),
            commands: parts.commands,
            asked: Vec::new(),
            idle_rounds: 0,
            waker: parts.waker,
            helpers: None,
            scratch: Some(Box::default()),
            shared,
            polling: Polling::default(),
            ending: None,
        }
    }

    /// One round over all ports; returns how many packets came, bursts that are still with the
    /// helpers, and questions that wait: with 0 there is nothing to do.
    ///
    /// Between two rounds the counters balance: every packet that came has ended or is held.
    pub fn round(&mut self) -> usize {
        self.round_at(self.shared.now())
    }

    /// As [`Worker::round`], at a time that the caller tells.
    pub fn round_at(&mut self, now: Now) -> usize {
        self.path.view.now = now;
        self.path.exec.out.counters.rounds.add(1);
        self.obey();
        if let Some(taps) = &mut self.path.exec.out.taps {
            taps.begin_round(&self.path.view);
        }
        if self.ending.is_some() {
            // The others pause, too: what is handed to them now waits until they go on.
            return 0;
        }
        self.path.exec.out.reports.send_again();
        let databases_changed = self.path.refresh();
        self.follow_as_helper();
        self.end_steps_of_tables();
        let tables_change = self.path.view.load_tables();
        match tables_change {
            TablesChange::None => {}
            TablesChange::Steered => self.ask_plans(),
            TablesChange::Any => self.begin_epoch(),
        }
        if !self.asked.is_empty() {
            self.answer();
        }
        if databases_changed && self.slow.has_waiting() {
            self.drain_helpers().retry();
        }
        let Path { view, exec, .. } = &mut self.path;
        if tables_change == TablesChange::Any {
            exec.out.retry_neighbours(view);
        }
        exec.out.expire_neighbours(now.ns);
        if let Some(fragments) = &mut exec.rooms.fragments {
            fragments.expire(&mut exec.out, now.ns);
        }
        if exec.rooms.aggfrag.is_used() {
            self.tend_payloads(databases_changed);
        }
        if self.path.exec.rooms.rates.has_queues() {
            self.tend_queues();
        }
        if self.path.exec.rooms.recoveries.has_waiting() {
            self.tend_copies();
        }
        self.slow.expire(&mut self.path);
        let late = self.take_late();
        let mut came = self.receive_all(now);
        came += self.take_over(came) + late;
        self.finish_round(came == 0);
        self.idle_rounds += u64::from(came == 0);
        came + self.in_flight()
            + self.in_devices()
            + self.asked.len()
            + self.path.exec.out.late.len()
            + usize::from(self.path.exec.rooms.aggfrag.is_due(now.ns))
            + usize::from(self.path.exec.rooms.rates.is_due(now.ns))
    }

    /// Receives from each port; waiting for another worker counts as a packet, so that the worker
    /// does not sleep on it.
    fn receive_all(&mut self, now: Now) -> usize {
        let peers = &mut self.path.exec.out.peers;
        if peers.as_mut().is_some_and(|peers| peers.ports_wait(now.ns)) {
            return 1;
        }
        let (mut came, mut place) = (0, 0);
        while let Some(slot) = self.path.exec.out.ports.slot_at(place) {
            came += self.receive_some(slot);
            place += 1;
        }
        if let Some(peers) = &mut self.path.exec.out.peers {
            peers.end_turn(came, now.ns);
        }
        came
    }

    /// Runs what has been gathered through the engine and out of the ports; `is_idle` if nothing
    /// came.
    fn finish_round(&mut self, is_idle: bool) {
        // Bursts go to helpers only when nothing is gathered, so these have none, and are not waited for.
        if !self.path.exec.crypt.opens.is_empty() {
            self.drain_helpers().open_gathered();
        }
        if self.path.exec.rooms.devices.is_some() {
            self.exchange_with_devices();
        }
        while self.path.exec.has_gathered() {
            self.drain_helpers().move_on_gathered();
        }
        if self.slow.has_errors() {
            self.drain_helpers().send_errors();
        }
        if self.path.exec.rooms.paths.is_some() {
            self.tend_paths();
        }
        if self.path.exec.rooms.bfd.is_some() {
            self.tend_bfd();
        }
        if !self.path.exec.crypt.seals.is_empty() {
            self.drain_helpers().seal_gathered();
        }
        if self.path.exec.rooms.aggfrag.has_senders() {
            self.send_payloads();
        }
        if !self.path.exec.out.between.is_empty() {
            self.finish_steps();
        }
        if self.helpers.is_some() {
            self.collect(is_idle);
            self.move_on_helpers_steps();
            // Errors about what helpers have left to the worker get segments as well.
            if !self.path.exec.out.between.is_empty() {
                self.finish_steps();
            }
        }
        if is_idle {
            self.path.exec.rooms.rates.rest(self.path.view.worker);
        }
        self.path.exec.rooms.rates.end_round();
        self.path.exec.rooms.looks.end_round();
        let out = &mut self.path.exec.out;
        out.transmit_all();
        if let Some(peers) = &mut out.peers {
            peers.wake();
        }
        if out.taps.is_some() {
            out.end_tapped_round();
        }
    }

    /// Moves on what was sealed, or made, and has got segments.
    #[cold]
    #[inline(never)]
    fn finish_steps(&mut self) {
        while self.path.exec.has_gathered() {
            self.drain_helpers().finish_gathered();
        }
    }

    /// Gives devices what waits for them, and moves on what they have done.
    #[cold]
    #[inline(never)]
    fn exchange_with_devices(&mut self) {
        self.drain_helpers().exchange();
    }

    /// Packets that wait for devices, or are in them.
    fn in_devices(&self) -> usize {
        self.path.exec.rooms.devices.as_ref().map_or(0, |devices| devices.waiting())
    }

    /// Moves on the packets that have waited for this round's databases; returns how many there were.
    fn take_late(&mut self) -> usize {
        let count = self.path.exec.out.late.len();
        let mut left = count;
        while left > 0 {
            let out = &mut self.path.exec.out;
            let some = core::iter::from_fn(|| out.next_late()).take(left.min(BURST_LEN));
            let mut some: ArrayVec<Handed, BURST_LEN> = some.map(Handed::Arrived).collect();
            left -= some.len();
            self.drain_helpers().take_late(&mut some);
        }
        count
    }

    /// Takes over what other workers have handed over: from each as much as the ports have brought, so
    /// that workers that hand over to each other go at one pace.
    fn take_over(&mut self, from_ports: usize) -> usize {
        let Some(peers) = &self.path.exec.out.peers else { return 0 };
        let turns = match from_ports.div_ceil(BURST_LEN) {
            0 => BURSTS_AT_ONCE,
            bursts => (bursts * (peers.workers() - 1)).clamp(1, BURSTS_AT_ONCE),
        };
        let mut came = 0;
        for turn in 1..=turns {
            came += self.take_over_burst();
            if came < turn * BURST_LEN {
                break;
            }
        }
        came
    }

    fn take_over_burst(&mut self) -> usize {
        let mut parcels = ArrayVec::new();
        match &mut self.path.exec.out.peers {
            Some(peers) => peers.receive(&mut parcels),
            None => return 0,
        }
        if parcels.is_empty() {
            return 0;
        }
        self.path.exec.out.counters.taken_over.add(parcels.len() as u64);
        let came = parcels.len();
        self.drain_helpers().take_over(parcels);
        came
    }

    /// Receives from a port and moves each packet on: one burst, or several while they are full and
    /// spread over many SAs, so that what one prefetches comes while the one before is encrypted or
    /// decrypted.
    fn receive_some(&mut self, slot: usize) -> usize {
        let mut came = self.receive(slot);
        for turn in 1..BURSTS_AT_ONCE {
            if !self.path.exec.crypt.is_spread || came < turn * BURST_LEN {
                break;
            }
            came += self.receive(slot);
        }
        came
    }

    /// Receives one burst from a port and moves each packet on, or hands it to the helpers.
    fn receive(&mut self, slot: usize) -> usize {
        let Some(mut scratch) = self.scratch.take() else { return 0 };
        let Scratch { burst, metas } = &mut *scratch;
        let source = take_in(&mut self.path, slot, burst);
        let came = burst.len();
        if came > 0 {
            if self.is_for_helpers(came) {
                self.submit(burst, source);
            } else {
                self.drain_helpers().run(burst, metas, source);
            }
        }
        self.scratch = Some(scratch);
        came
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::AddPort { slot, ifindex, port, kind, done } => {
                    // What is in flight to a port that was there before must not leave by this one.
                    self.end_helpers_steps();
                    self.add_port(slot, ifindex, port, kind);
                    self.receive(slot);
                    // Nobody waits for it any more: fine.
                    let _ = done.send(());
                }
                Command::RemovePorts { ifindex } => self.path.exec.out.remove_ports(ifindex),
                Command::PortStats(answer) => {
                    // Nobody waits for it any more: fine.
                    let _ = answer.send(self.path.exec.out.ports.stats());
                }
                Command::MergeWindow { sa, edge, received, done } => {
                    let merge = Merge { sa, edge, received, done, since: self.since() };
                    self.asked.push(PendingAnswer::Merge(merge));
                }
                Command::Drain(done) => self.asked.push(PendingAnswer::Drain(self.since(), done)),
                Command::CatchUp(done) => self.asked.push(PendingAnswer::CatchUp(done)),
                Command::Explain(probe, answer) => {
                    self.asked.push(PendingAnswer::Explain(probe, answer))
                }
                Command::Tap(recorder) => {
                    let now = self.path.view.now;
                    self.path.exec.out.taps.get_or_insert_default().add(*recorder, now);
                }
                Command::Look(copier) => self.path.exec.rooms.looks.set_copier(*copier),
                Command::Measure(setup) => self.follow_paths(*setup),
                Command::LeadProbes(changes) => self.lead_probes(&changes),
                Command::TellPaths { from, answer } => {
                    // Nobody waits for it any more: fine.
                    let _ = answer.send(self.report_paths(from));
                }
                Command::Bfd(change) => self.follow_bfd(*change),
                Command::TellBfd { asked, answer } => {
                    // Nobody waits for it any more: fine.
                    let _ = answer.send(self.report_bfd(asked));
                }
                Command::Pause => self.ending = Some(Ending::Paused),
                Command::Stop => self.ending = Some(Ending::Stopped),
            }
        }
    }

    /// Puts a port into its slot.
    pub fn add_port(&mut self, slot: usize, ifindex: u32, port: Box<dyn Port>, kind: PortKind) {
        self.path.exec.out.ports.add(slot, ifindex, port, kind);
    }

    /// Gives the worker a queue of the packet offload device of this number. The first worker of a set has one of each
    /// device; others hand packets over to it for those that they have none of.
    pub fn add_device(&mut self, number: u8, queue: Box<dyn Queue<DevicePacket>>) {
        self.path.view.reach.add(number);
        let devices = self.path.exec.rooms.devices.get_or_insert_default();
        devices.add(DeviceQueue::new(number, queue));
    }

    /// Forgets what was decided about flows: every next packet takes the slow path. Nothing of what
    /// comes out changes by it.
    pub fn forget_flows(&mut self) {
        self.begin_epoch();
    }

    /// Has plans prove that they still hold, as rules of path selection answer otherwise.
    fn ask_plans(&mut self) {
        self.path.ask_plans();
        self.have_helpers_ask_plans();
    }

    fn begin_epoch(&mut self) {
        self.path.begin_epoch();
        // The worker's own thread alone: a lane of a limiter has one writer.
        let Path { view, exec, .. } = &mut self.path;
        exec.rooms.rates.begin_epoch(&view.topology.rate_rules, view.worker);
        self.begin_helpers_epoch();
    }

    /// The free frames, for callers that add up where all frames are.
    pub fn pool(&self) -> &FramePool {
        &self.path.exec.out.pool
    }

    /// Ends every packet that is still here, and closes the ports.
    fn close(&mut self) {
        self.settle_payloads();
        self.settle_copies();
        self.finish_round(true);
        self.end_helpers_steps();
        let out = &mut self.path.exec.out;
        out.transmit_all();
        out.ports.close();
        out.drop_waiting_for_neighbours();
        out.drop_late();
        self.slow.drop_waiting(out);
        let Executor { out, rooms, .. } = &mut self.path.exec;
        device::drop_all(&mut rooms.devices, out);
        self.path.exec.drop_waiting(&self.path.view);
        self.end_taps();
    }
}

/// Receives one burst from a port.
fn take_in(path: &mut Path, slot: usize, burst: &mut io::Burst) -> Source {
    let out = &mut path.exec.out;
    let Some(place) = out.ports.get_mut(slot) else { return Source::default() };
    let (ifindex, kind) = (place.ifindex, place.kind);
    let result = place.port.rx(&mut out.pool, burst);
    let newcomers = match path.admits_all {
        true => Newcomers::ALL,
        false => place.backlog.admits(burst.len(), path.view.now.ns),
    };
    if result.is_err_and(|error| error.is_gone()) {
        out.lose_port(ifindex);
    }
    if burst.is_empty() {
        return Source::default();
    }
    out.counters.received.add(burst.len() as u64);
    out.sampler.arrived(burst, || out.reports.clock_ns());
    let mac = path.view.topology.interfaces.get(&ifindex).map(|interface| interface.mac);
    // All zeros: Linux has told none.
    Source { ifindex, kind, mac: mac.filter(|mac| mac.0 != [0; 6]), newcomers }
}
