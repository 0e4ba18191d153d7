//! The worker: takes bursts from its ports, and moves every packet to its end.

use core::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use arrayvec::ArrayVec;
use crypto::Engine;
use esp::{IvSource, Sa};
use forward::{HoldLimits, HoldQueue, RateLimiter, Resolution};
use io::{Burst, FramePool, Packet, Port, PortStats};
use outcome::{DropReason, Outcome};
use policy::SaHandle;
use wire::Headers;

use crate::asking::Asking;
use crate::batch::Batch;
use crate::counters::Counters;
use crate::crypto_pool::CryptoPool;
use crate::event::{Event, EventSender, Waker};
use crate::flow_cache::FlowCache;
use crate::icmp::ErrorLimit;
use crate::idle::{Clock, Polling};
use crate::inbound_sas::InboundSas;
use crate::ingress::Scratch;
use crate::opening::Opens;
use crate::outbound::{KEYS_AT_ONCE, SaWait, Waiting};
use crate::own::KnownAddresses;
use crate::sealing::Seals;
use crate::tables::{Tables, Topology};

/// Flows whose plans a worker keeps unless told otherwise: 2.6 MiB.
pub const DEFAULT_FLOWS: usize = 1 << 14;

/// Packets that are sealed or opened in one run of the engine.
pub(crate) const CRYPTO_BURST_LEN: usize = 64;

/// The most ports of one worker: AF_XDP queues, and the private interface.
pub const MAX_PORTS: usize = 128;

/// How long a packet may wait for a neighbour, as Linux's three solicitations take.
const NEIGHBOUR_WAIT_NS: u64 = 3_000_000_000;

/// How long a packet may wait for an SA to be negotiated.
const SA_WAIT_NS: u64 = 5_000_000_000;

/// Packets that wait for one neighbour, or for one policy's SA: about what Linux lets wait
/// (`unres_qlen_bytes`, 208 KiB).
const HELD_PER_KEY: usize = 256;

/// Packets that wait in all.
const HELD_IN_ALL: usize = 2048;

/// Requests a second to look after neighbours whose address Linux should confirm.
const CONFIRMATIONS_PER_SECOND: u32 = 20;

/// Messages about peers with a new address or port, a second.
const MAPPINGS_PER_SECOND: u32 = 100;

/// Messages that must arrive and wait for the control thread to make room.
const UNTOLD: usize = 64;

/// The loopback's index: where routing rules see packets of this host come in.
pub(crate) const LOOPBACK: u32 = 1;

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A port, in clear.
    Port {
        /// The port's interface.
        ifindex: u32,
        /// Whether the guard's barrier would stop it in Linux.
        is_barred: bool,
    },
    /// Linux, through the private interface.
    Linux,
    /// An SA: it was decrypted here.
    Decrypted {
        /// The interface that its ESP packet came in by.
        ifindex: u32,
    },
    /// The worker itself: an ICMP error.
    Worker {
        /// Whether it answers a packet that had been decrypted, and so must not leave in clear.
        protected: bool,
    },
}

impl Origin {
    /// The interface that routing rules see it come in by.
    pub(crate) const fn iif(self) -> u32 {
        match self {
            Origin::Port { ifindex, .. } | Origin::Decrypted { ifindex } => ifindex,
            Origin::Linux | Origin::Worker { .. } => LOOPBACK,
        }
    }
}

/// The time, read once per round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Wall-clock seconds, as Linux counts SA lifetimes.
    pub wall_s: u64,
    /// Monotonic nanoseconds, from any beginning; never less than in the round before.
    pub ns: u64,
}

/// A port in the worker.
pub(crate) struct PortSlot {
    pub(crate) ifindex: u32,
    pub(crate) port: Box<dyn Port>,
    /// Packets that wait to be sent at the end of the round.
    pub(crate) queue: Burst,
    /// The private interface to Linux, rather than an Ethernet port.
    pub(crate) is_linux: bool,
}

/// What the control thread asks of a running worker.
pub enum Command {
    /// Take a port: an Ethernet port, or the private interface.
    AddPort {
        /// Which of the worker's places it gets; see [`crate::Interface::port`].
        slot: usize,
        /// Its interface.
        ifindex: u32,
        /// The port.
        port: Box<dyn Port>,
        /// Whether it is the private interface to Linux.
        is_linux: bool,
        /// Told when the port is in its place and has been looked at for the first time.
        done: Sender<()>,
    },
    /// Drop every port of an interface; its descriptors are closed when this has been done.
    RemovePorts {
        /// The interface.
        ifindex: u32,
    },
    /// Tell the ports' counters.
    PortStats(Sender<Vec<(u32, PortStats)>>),
    /// End: every packet held or queued is dropped and counted, every port closed.
    Stop,
}

/// What a worker is made of.
pub struct WorkerParts {
    /// Routes, neighbours, interfaces.
    pub tables: Arc<Tables>,
    /// SAs and policies.
    pub reader: policy::Reader<Sa>,
    /// Its own crypto engine.
    pub engine: Box<dyn Engine>,
    /// Its own source of IVs.
    pub ivs: IvSource,
    /// Its packet buffers.
    pub pool: FramePool,
    /// Its counters; it is their only writer.
    pub counters: Arc<Counters>,
    /// Where it reports.
    pub events: EventSender,
    /// Where it is told.
    pub commands: Receiver<Command>,
    /// Wakes it from sleep.
    pub waker: Waker,
    /// Flows whose plans it keeps, some 160 bytes each; [`DEFAULT_FLOWS`]. With more flows than
    /// that under way at a time, each packet costs all the look-ups.
    pub flows: usize,
}

/// One worker. Runs on one thread; everything in it is its own but the tables and databases, which
/// it only reads, and the SAs' live numbers, whose only writer it is, in turns with its crypto threads
/// if it has some.
pub struct Worker {
    pub(crate) tables: Arc<Tables>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) neighbours: Arc<forward::Neighbours>,
    pub(crate) reader: policy::Reader<Sa>,
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) ivs: IvSource,
    pub(crate) pool: FramePool,
    pub(crate) ports: Vec<Option<PortSlot>>,
    pub(crate) linux: Option<usize>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) events: EventSender,
    commands: Receiver<Command>,
    pub(crate) waker: Waker,
    /// The spare ones take the places of these while a burst is worked on.
    pub(crate) opening: Box<Opens>,
    pub(crate) spare_opening: Option<Box<Opens>>,
    pub(crate) sealing: Box<Seals>,
    pub(crate) spare_sealing: Option<Box<Seals>>,
    /// Threads that take work on bursts off this one.
    pub(crate) crypto: Option<Box<CryptoPool>>,
    /// The pool's burst that this thread has at hand: what becomes of packets is noted there.
    pub(crate) batch: Option<Box<Batch>>,
    /// It is not the turn of that burst.
    pub(crate) is_apart: bool,
    /// Packets of that burst were left, so those behind them are too.
    pub(crate) has_left: bool,
    /// The edge that an SA's replay window had after this thread's last turn, in this view: whoever has
    /// the turn now is writing it. Only with the pool.
    pub(crate) edge_seen: Option<(SaHandle, u64)>,
    /// Where the plan was that the last packet of this thread's last turn followed.
    pub(crate) last_place: Option<u32>,
    /// The packet at hand has to be looked at again, in turn.
    pub(crate) doubted: Option<Packet>,
    /// Taken while a burst is moved, so that moving one cannot begin another.
    pub(crate) scratch: Option<Box<Scratch>>,
    pub(crate) flows: FlowCache,
    pub(crate) inbound_sas: InboundSas,
    /// Addresses that are this host's for every packet, whoever sends it.
    pub(crate) own: KnownAddresses,
    /// Addresses that packets to this host may come from.
    pub(crate) sources: KnownAddresses,
    /// Whether bursts are spread over many SAs.
    pub(crate) is_spread: bool,
    /// Where to what they touch is asked for then.
    pub(crate) asking: Asking,
    /// Ready but for the Ethernet header, by egress interface and next hop.
    pub(crate) held_for_neighbour: HoldQueue<(u32, IpAddr), Packet>,
    /// To be judged anew.
    pub(crate) held_for_sa: HoldQueue<SaWait, Waiting>,
    pub(crate) confirmations: RateLimiter,
    pub(crate) mappings: RateLimiter,
    untold: ArrayVec<Event, UNTOLD>,
    pub(crate) icmp_limit: ErrorLimit,
    pub(crate) now: Now,
    pub(crate) clock: Clock,
    pub(crate) polling: Polling,
    pub(crate) stopping: bool,
}

impl Worker {
    /// Puts a worker together. All its memory is allocated here.
    pub fn new(mut parts: WorkerParts) -> Worker {
        let topology = parts.tables.topology.load_full();
        let neighbours = parts.tables.neighbours.load_full();
        let flows = FlowCache::new(parts.flows, parts.ivs.random());
        let clock = Clock::start();
        Worker {
            tables: parts.tables,
            topology,
            neighbours,
            reader: parts.reader,
            engine: parts.engine,
            ivs: parts.ivs,
            pool: parts.pool,
            ports: Vec::with_capacity(MAX_PORTS),
            linux: None,
            counters: parts.counters,
            events: parts.events,
            commands: parts.commands,
            waker: parts.waker,
            opening: Box::default(),
            spare_opening: Some(Box::default()),
            sealing: Box::default(),
            spare_sealing: Some(Box::default()),
            crypto: None,
            batch: None,
            is_apart: false,
            has_left: false,
            edge_seen: None,
            last_place: None,
            doubted: None,
            scratch: Some(Box::default()),
            flows,
            inbound_sas: InboundSas::default(),
            own: KnownAddresses::new(),
            sources: KnownAddresses::new(),
            is_spread: false,
            asking: Asking::new(),
            held_for_neighbour: HoldQueue::new(limits(NEIGHBOUR_WAIT_NS)),
            held_for_sa: HoldQueue::new(limits(SA_WAIT_NS)),
            confirmations: RateLimiter::new(CONFIRMATIONS_PER_SECOND, CONFIRMATIONS_PER_SECOND),
            mappings: RateLimiter::new(MAPPINGS_PER_SECOND, MAPPINGS_PER_SECOND),
            untold: ArrayVec::new(),
            icmp_limit: ErrorLimit::new(),
            now: clock.now(),
            clock,
            polling: Polling::default(),
            stopping: false,
        }
    }

    /// One round over all ports; returns how many packets came, and bursts that are still with the
    /// crypto pool: with 0 there is nothing to do.
    ///
    /// Between two rounds the counters balance: every packet that came has ended or is held.
    pub fn round(&mut self) -> usize {
        self.round_at(self.clock.now())
    }

    /// As [`Worker::round`], at a time that the caller tells.
    pub fn round_at(&mut self, now: Now) -> usize {
        self.now = now;
        self.obey();
        self.tell_again();
        let databases_changed = self.follow();
        let neighbours_changed = self.load_tables();
        if neighbours_changed {
            self.begin_epoch();
        }
        if databases_changed && !self.held_for_sa.is_empty() {
            // They get their numbers alone.
            self.drain_crypto_pool();
            self.retry_held_for_sa();
        }
        if neighbours_changed {
            self.retry_held_for_neighbour();
        }
        self.expire_held();
        let mut came = 0;
        for slot in 0..self.ports.len() {
            came += self.receive_some(slot);
        }
        self.finish_round(came == 0);
        came + self.under_way()
    }

    /// Runs what has been gathered through the engine and out of the ports; `is_idle` if nothing
    /// came.
    fn finish_round(&mut self, is_idle: bool) {
        self.open_gathered();
        self.seal_gathered();
        if self.crypto.is_some() {
            self.collect(is_idle);
        }
        for slot in 0..self.ports.len() {
            self.transmit(slot);
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::AddPort { slot, ifindex, port, is_linux, done } => {
                    // What is under way to a port that was there before must not leave by this one.
                    self.drain_crypto_pool();
                    self.add_port(slot, ifindex, port, is_linux);
                    self.receive(slot);
                    // Nobody waits for it any more: fine.
                    let _ = done.send(());
                }
                Command::RemovePorts { ifindex } => self.remove_ports(ifindex),
                Command::PortStats(answer) => {
                    let stats =
                        self.ports.iter().flatten().map(|p| (p.ifindex, p.port.stats())).collect();
                    // Nobody waits for it any more: fine.
                    let _ = answer.send(stats);
                }
                Command::Stop => self.stopping = true,
            }
        }
    }

    /// Puts a port into its place.
    pub fn add_port(&mut self, slot: usize, ifindex: u32, port: Box<dyn Port>, is_linux: bool) {
        while self.ports.len() <= slot && self.ports.len() < MAX_PORTS {
            self.ports.push(None);
        }
        if slot >= MAX_PORTS {
            tracing::error!(slot, ifindex, "a worker has {MAX_PORTS} places for ports");
        }
        if let Some(place) = self.ports.get_mut(slot) {
            *place = Some(PortSlot { ifindex, port, queue: Burst::new(), is_linux });
            if is_linux {
                self.linux = Some(slot);
            }
        }
    }

    fn remove_ports(&mut self, ifindex: u32) {
        for place in &mut self.ports {
            if place.as_ref().is_some_and(|p| p.ifindex == ifindex) {
                let Some(mut gone) = place.take() else { continue };
                let reason = Outcome::Dropped(DropReason::TransmitDown);
                self.counters.count(reason, gone.queue.len() as u64);
                self.pool.put_burst(&mut gone.queue);
            }
        }
        if self.linux.is_some_and(|slot| self.ports.get(slot).is_none_or(Option::is_none)) {
            self.linux = None;
        }
    }

    /// Takes over what has changed in the databases; true if anything has.
    pub(crate) fn follow(&mut self) -> bool {
        let has_changed = self.reader.refresh();
        if has_changed {
            self.flows.begin_generation();
            self.inbound_sas.begin_view();
            self.edge_seen = None;
        }
        has_changed
    }

    /// Takes over what the control thread has published; true if neighbours or routes changed.
    pub(crate) fn load_tables(&mut self) -> bool {
        let topology = self.tables.topology.load();
        let neighbours = self.tables.neighbours.load();
        let changed =
            !Arc::ptr_eq(&topology, &self.topology) || !Arc::ptr_eq(&neighbours, &self.neighbours);
        if changed {
            self.topology = Arc::clone(&topology);
            self.neighbours = Arc::clone(&neighbours);
        }
        changed
    }

    /// Sends what has gathered for a port.
    ///
    /// A ring that stays full after it was drained into the device means that the device is
    /// slower than we are: the rest is dropped, as a queue's tail is.
    pub(crate) fn transmit(&mut self, slot: usize) {
        let Some(Some(place)) = self.ports.get_mut(slot) else { return };
        if place.queue.is_empty() {
            // Frames of finished transmissions come back also when nothing new is sent.
            if place.port.reclaim(&mut self.pool).is_err_and(|e| e.is_gone()) {
                let ifindex = place.ifindex;
                self.lose_port(ifindex);
            }
            return;
        }
        let refused_before = place.port.stats().tx_refused;
        let queued = place.queue.len() as u64;
        let mut gone = false;
        for _ in 0..TRANSMIT_ATTEMPTS {
            gone = place.port.tx(&mut place.queue, &mut self.pool).is_err_and(|e| e.is_gone());
            if place.queue.is_empty() || gone {
                break;
            }
        }
        let refused = place.port.stats().tx_refused.saturating_sub(refused_before);
        let (ifindex, is_linux) = (place.ifindex, place.is_linux);
        // Whatever a call returned: what is not in the queue any more has been taken.
        let left = place.queue.len() as u64;
        let sent = queued.saturating_sub(left);
        self.pool.put_burst(&mut place.queue);
        let (done, full) = match is_linux {
            true => (Outcome::ToLinux, DropReason::LinuxFull),
            false => (Outcome::Transmitted, DropReason::TransmitFull),
        };
        let reason = if gone { DropReason::TransmitDown } else { full };
        self.counters.count(done, sent.saturating_sub(refused));
        self.counters.count(Outcome::Dropped(full), refused.min(sent));
        self.counters.count(Outcome::Dropped(reason), left);
        if gone {
            self.lose_port(ifindex);
        }
    }

    /// The interface of a port is gone: closes its ports and tells.
    pub(crate) fn lose_port(&mut self, ifindex: u32) {
        self.remove_ports(ifindex);
        self.tell(Event::PortGone { ifindex });
    }

    /// Tells the control thread what happens only once: kept if there is no room now.
    pub(crate) fn tell(&mut self, event: Event) {
        if !self.events.send(event) && self.untold.try_push(event).is_err() {
            tracing::error!(?event, "the control thread does not listen");
        }
    }

    pub(crate) fn tell_again(&mut self) {
        while let Some(event) = self.untold.first().copied() {
            if !self.events.send(event) {
                return;
            }
            self.untold.remove(0);
        }
    }

    /// Forgets what was decided about flows: every next packet takes the full way. Nothing of what
    /// comes out changes by it.
    pub fn forget_flows(&mut self) {
        self.begin_epoch();
    }

    /// What was found out by routes, neighbours and interfaces has to be found out anew.
    pub(crate) fn begin_epoch(&mut self) {
        self.flows.begin_epoch();
        self.own.forget();
        self.sources.forget();
        self.begin_pool_epoch();
    }

    /// The free frames; for whoever adds up where all frames are.
    pub fn pool(&self) -> &FramePool {
        &self.pool
    }

    /// Ends a packet by dropping it.
    pub(crate) fn drop_packet(&mut self, packet: Packet, reason: DropReason) {
        if let Some(batch) = &mut self.batch {
            return batch.end(packet, reason.into());
        }
        self.counters.count(Outcome::Dropped(reason), 1);
        self.pool.put_packet(packet);
    }

    /// Ends a packet here.
    #[cold]
    pub(crate) fn end(&mut self, packet: Packet, outcome: Outcome) {
        if let Some(batch) = &mut self.batch {
            return batch.end(packet, outcome);
        }
        self.counters.count(outcome, 1);
        self.pool.put_packet(packet);
    }

    /// Ends a packet that has done its work here.
    pub(crate) fn consume(&mut self, packet: Packet) {
        if let Some(batch) = &mut self.batch {
            return batch.end(packet, Outcome::Consumed);
        }
        self.counters.count(Outcome::Consumed, 1);
        self.pool.put_packet(packet);
    }

    /// Sends on what waited for neighbours that are there now, or are known to be gone.
    fn retry_held_for_neighbour(&mut self) {
        loop {
            let is_settled = |key: &&(u32, IpAddr)| {
                let resolution = self.neighbours.resolve(key.0, key.1);
                matches!(resolution, Resolution::Resolved { .. } | Resolution::Failed)
            };
            let mut settled: ArrayVec<(u32, IpAddr), KEYS_AT_ONCE> = self
                .held_for_neighbour
                .keys()
                .filter(is_settled)
                .take(KEYS_AT_ONCE)
                .copied()
                .collect();
            if settled.is_empty() {
                return;
            }
            // So that the order is the same whenever the same happens.
            settled.sort_unstable();
            for (ifindex, next_hop) in settled {
                while let Some(packet) = self.held_for_neighbour.pop(&(ifindex, next_hop)) {
                    self.counters.released(1);
                    self.emit(packet, ifindex, next_hop);
                }
            }
        }
    }

    fn expire_held(&mut self) {
        while let Some((_, packet)) = self.held_for_neighbour.pop_expired(self.now.ns) {
            self.counters.released(1);
            self.drop_packet(packet, DropReason::HoldTimeout);
        }
        self.expire_held_for_sa();
    }

    /// Ends every packet that is still here, and closes the ports.
    pub(crate) fn close(&mut self) {
        self.finish_round(true);
        self.drain_crypto_pool();
        for slot in 0..self.ports.len() {
            self.transmit(slot);
        }
        for place in &mut self.ports {
            drop(place.take());
        }
        while let Some((_, packet)) = self.held_for_neighbour.pop_any() {
            self.counters.released(1);
            self.drop_packet(packet, DropReason::TransmitDown);
        }
        while let Some((_, waiting)) = self.held_for_sa.pop_any() {
            self.counters.released(1);
            self.drop_packet(waiting.into_packet(), DropReason::TransmitDown);
        }
    }

    /// The headers of an IP packet, or its end.
    pub(crate) fn parsed(&mut self, packet: Packet) -> Option<(Packet, Headers)> {
        match wire::parse_ip(packet.data()) {
            Ok(h) => {
                let mut packet = packet;
                // What Ethernet padded is not part of the packet.
                packet.span.len = usize::from(h.total_len);
                Some((packet, h))
            }
            Err(error) => {
                self.drop_packet(packet, error.into());
                None
            }
        }
    }
}

/// Attempts to get a burst into a transmit ring before the rest is dropped.
const TRANSMIT_ATTEMPTS: usize = 8;

const fn limits(timeout_ns: u64) -> HoldLimits {
    HoldLimits { per_key: HELD_PER_KEY, total: HELD_IN_ALL, timeout_ns }
}
