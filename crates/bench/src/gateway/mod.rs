//! The gateway under test: one worker between ports in memory, and the peers' SAs beside it; or each worker of a
//! set.

mod parties;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Op, Provider, Suite};
use dataplane::{
    Command, Counters, CryptoParts, DEFAULT_FLOWS, EventReceiver, MAX_WORKERS, Polling, PortKind,
    Tables, Team, Waker, Worker, WorkerParts,
};
use esp::{Deflate, IvSource, Sa, Sealing};
use forward::fragment;
use io::{BURST_LEN, ChunkSize, FramePool, HEADROOM, POOL_LEN, Packet, Umem, UmemConfig};
use offload::Placement;
use outcome::DropReason;
use overlay::Encap;
use policy::{Databases, PolicyConfig};
use wire::ethernet::{HEADER_LEN, emit_untagged};
use wire::{Fields, MacAddr, Span, parse_ip};

use crate::error::BenchError;
use crate::free_device::Holder;
use crate::options::Direction;
use crate::pin::pin;
use crate::port::Wire;
use crate::random::Random;
use crate::sibling::Post;
use crate::srv6::case::with_segments;
use crate::timing::switches;
use crate::traffic::{Choice, Traffic};
use crate::world::{self, LAN, LAN_PORT, MTU, PRIVATE, PRIVATE_PORT, WAN, WAN_PORT};
use parties::{Built, install, peers};

/// Which way through the gateway is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Through an SA.
    Esp,
    /// In clear, from Linux to the local network.
    Clear,
    /// In clear between the local network and others, through so many segments.
    Segments(usize),
}

/// Where packets lie that have just been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In the caches of the worker's core, or where they went from there: as after a system call that copied
    /// them.
    Cached,
    /// In memory, as near to one core as to another: as after a card has written them past the caches.
    InMemory,
}

/// Parameters that a gateway is built by.
pub(crate) struct Plan<'p> {
    pub(crate) provider: &'p dyn Provider,
    pub(crate) suite: Suite,
    pub(crate) path: Path,
    pub(crate) arrival: Arrival,
    /// Owner of the SAs. A device is free ([`crate::free_device`]).
    pub(crate) placement: Placement,
    pub(crate) traffic: Traffic,
    /// Packets under way at once.
    pub(crate) frames: u32,
    /// Policies beside those of the tunnels.
    pub(crate) policies: Vec<PolicyConfig>,
    /// Routes beside those that the traffic needs.
    pub(crate) routes: Vec<forward::RouteEntry>,
}

/// The packets that the workers of a set receive. SA `n` has its home at worker `n` modulo their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Packets of its own SAs: as when a card spreads them over queues by their SPIs.
    AtHome,
    /// Packets of the next worker's SAs, to which it hands over all of them.
    Away,
}

/// One gateway, ready to run, and everything that plays the world around it; or one worker of a set, with what
/// is around that.
pub(crate) struct Gateway {
    /// The peers' side of the SAs that are measured: seals what the gateway opens, opens what it
    /// seals.
    ///
    /// These two before the worker and the databases, as fields are dropped in their order: a peer shares its
    /// keys with one of the gateway's SAs, and only what is freed together is allocated together again
    /// ([`mem::Allocator`]). Keys that outlive the rest of their SA lie apart from it in the next gateway of
    /// this process.
    pub(crate) peers: Vec<Sa>,
    /// The peers' outer SAs, where there are two around a packet.
    around: Vec<Sa>,
    /// Peers' ends that take their places with the next pass of packets.
    successors: Vec<(usize, Sa)>,
    pub(crate) worker: Worker,
    /// Databases of SAs and policies. The first worker of a set has them.
    pub(crate) databases: Databases<Sa>,
    pub(crate) tables: Arc<Tables>,
    /// Owner of the SAs. The first worker of a set has it.
    pub(crate) holder: Holder,
    /// Cost of building it.
    pub(crate) built: Built,
    pub(crate) suite: Suite,
    pub(crate) traffic: Traffic,
    path: Path,
    arrival: Arrival,
    counters: Arc<Counters>,
    /// Where packets come in, and where they go out.
    inside: Wire,
    outside: Wire,
    /// True if the worker has taken none of the packets of this pass.
    fresh: bool,
    /// An engine that is not the worker's.
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) ivs: IvSource,
    /// The crypto threads, by their numbers in the system.
    crypto_threads: Vec<i32>,
    /// One on each of their cores.
    posts: Arc<[Post]>,
    /// All packets, while they are outside the gateway.
    pub(crate) stock: Vec<Packet>,
    /// The flow of the packet in each frame.
    pub(crate) flows: Vec<u32>,
    frames: usize,
    /// Where packets come from for those that were dropped.
    pub(crate) spare: FramePool,
    /// Kept, because the worker's ends would be of no use without.
    _keep: (EventReceiver, Sender<Command>, Umem),
}

impl Gateway {
    pub(crate) fn new(plan: Plan<'_>) -> Result<Gateway, BenchError> {
        let chunks = match plan.traffic.shape.in_two || plan.traffic.shape.iptfs {
            false => plan.frames + SPARE_FRAMES,
            // The worker's pool may keep what it has put together from.
            true => 2 * plan.frames + SPARE_FRAMES + POOL_LEN as u32,
        };
        let places = [Place { workers: 1, number: 0, exit: 0 }];
        let gateway = Gateway::build(plan, chunks, &places)?.pop();
        gateway.ok_or_else(|| too_many_workers(0))
    }

    /// The workers of a set, which share databases, tables and the region of frames. Each has ports and packets of
    /// its own, as many as the plan has, and of the plan's flows those of its share; the number of SAs is a multiple
    /// of that of workers.
    pub(crate) fn set(
        plan: Plan<'_>,
        workers: usize,
        spread: Spread,
    ) -> Result<Vec<Gateway>, BenchError> {
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(too_many_workers(workers));
        }
        let exit = |number| match spread {
            Spread::AtHome => number,
            Spread::Away => (number + 1) % workers,
        };
        let places: Vec<Place> =
            (0..workers).map(|number| Place { workers, number, exit: exit(number) }).collect();
        // A worker's pool may keep what it drops.
        let chunks = (plan.frames + SPARE_FRAMES + POOL_LEN as u32) * workers as u32;
        let gateways = Gateway::build(plan, chunks, &places)?;
        if let Some(first) = gateways.first() {
            for sa in first.databases.sas() {
                // Of tunnel n it is 1 + n.
                sa.home().claim((sa.config.reqid as usize - 1) % workers);
            }
        }
        Ok(gateways)
    }

    fn build(plan: Plan<'_>, chunks: u32, places: &[Place]) -> Result<Vec<Gateway>, BenchError> {
        let Plan { provider, suite, path, arrival, placement, traffic, frames, policies, routes } =
            plan;
        let mut databases = Databases::new();
        let mut holder = Holder::new(placement)?;
        let is_past_caches = arrival == Arrival::InMemory;
        let (sessions, built) = install((&mut databases, &mut holder), provider, suite, &traffic)?;
        let all_peers = places.iter().map(|_| peers(&sessions, suite, &traffic));
        let all_peers = all_peers.collect::<Result<Vec<_>, _>>()?;
        drop(sessions);
        for policy in policies {
            databases.put_policy(policy);
        }
        if path == Path::Esp
            && let Some(sa) = all_peers.first().and_then(|(peers, _)| peers.first())
        {
            let (size, max) = (traffic.size, sa.max_inner_len(MTU as usize));
            if size > max {
                return Err(BenchError::TooLong { size, suite, max });
            }
        }

        let config = UmemConfig { chunks, chunk_size: ChunkSize::Bytes2048, populate: true };
        let (umem, mut first_pool) = Umem::new(config)?;
        let tables = Arc::new(Tables::default());
        tables.topology.store(Arc::new(world::topology(traffic.shape, routes)));
        tables.neighbours.store(Arc::new(world::neighbours(traffic.shape)));
        let new_waker = |_: &Place| Waker::new().map_err(BenchError::system("make an eventfd"));
        let wakers = places.iter().map(new_waker).collect::<Result<Vec<_>, _>>()?;
        let teams = match &wakers[..] {
            [_] => vec![Team::alone()],
            wakers => Team::of(wakers),
        };
        let stocks = places.iter().map(|_| stock(&mut first_pool, frames));
        let stocks: Vec<Vec<Packet>> = stocks.collect();
        let limit = frames as usize;
        let wires: Vec<[Wire; 3]> = places.iter().map(|_| Default::default()).collect();

        let mut first_pool = Some(first_pool);
        let mut first_databases = Some(databases);
        let mut gateways: Vec<Gateway> = Vec::with_capacity(places.len());
        let parts = places.iter().zip(all_peers).zip(stocks).zip(teams).zip(wakers);
        for ((((place, (peers, around)), stock), team), waker) in parts {
            let counters = Arc::new(Counters::default());
            let (events, keep_events) =
                dataplane::channel().map_err(BenchError::system("make an eventfd"))?;
            let (keep_commands, commands) = channel();
            let databases = first_databases.take().unwrap_or_default();
            let reader = match gateways.first() {
                Some(first) => first.databases.reader(),
                None => databases.reader(),
            };
            let pool = first_pool.take().unwrap_or_else(|| umem.pool());
            // Each its own, of the worker and of its peers.
            let seed = 2 * place.number as u8;
            let mut worker = Worker::new(WorkerParts {
                team,
                tables: Arc::clone(&tables),
                reader,
                engine: holder.engine((provider, suite), is_past_caches)?,
                ivs: IvSource::from_seed([seed + 1; 32]),
                pool,
                counters: Arc::clone(&counters),
                events,
                commands,
                waker,
                // As an operator of so many tunnels sets it.
                flows: (traffic.flows / place.workers * 2).clamp(DEFAULT_FLOWS, 1 << 20),
            });
            worker.admit_all_flows();
            let ports = [(LAN_PORT, LAN), (WAN_PORT, WAN), (PRIVATE_PORT, PRIVATE)];
            for (wire, (slot, ifindex)) in wires.get(place.number).into_iter().flatten().zip(ports)
            {
                let port = Box::new(wire.port(limit));
                let is_private = ifindex == PRIVATE;
                let kind = if is_private { PortKind::Private } else { PortKind::Ethernet };
                worker.add_port(slot, ifindex, port, kind);
            }
            if let Some((number, queue)) = holder.queue(is_past_caches)? {
                worker.add_device(number, queue);
            }
            let wires_of = |number| wires.get(number).cloned().unwrap_or_default();
            let ([lan, wan, private], [lan_exit, wan_exit, _]) =
                (wires_of(place.number), wires_of(place.exit));
            let (inside, outside) = match (path, traffic.direction) {
                (Path::Clear, _) => (private, lan_exit),
                (_, Direction::Outbound) => (lan, wan_exit),
                (_, Direction::Inbound) => (wan, lan_exit),
            };
            let share = Choice::EveryNth { next: place.exit, n: place.workers };
            let traffic = match place.workers {
                1 => traffic.clone(),
                _ => traffic.clone().chosen(share),
            };
            gateways.push(Gateway {
                worker,
                databases,
                tables: Arc::clone(&tables),
                holder: Holder::Software,
                built,
                suite,
                traffic,
                path,
                arrival,
                counters,
                inside,
                outside,
                peers,
                around,
                successors: Vec::new(),
                fresh: false,
                engine: provider.engine()?,
                ivs: IvSource::from_seed([seed + 2; 32]),
                crypto_threads: Vec::new(),
                posts: Arc::default(),
                stock,
                flows: vec![0; chunks as usize],
                frames: frames as usize,
                spare: umem.pool(),
                _keep: (keep_events, keep_commands, umem.clone()),
            });
        }
        if let Some(first) = gateways.first_mut() {
            first.holder = holder;
        }
        Ok(gateways)
    }

    /// Writes every packet anew, of the flows that come next, and queues it where the gateway
    /// receives it. Packets that arrive under ESP have fresh sequence numbers.
    pub(crate) fn load(&mut self) -> Result<(), BenchError> {
        for (n, sa) in self.successors.drain(..) {
            if let Some(place) = self.peers.get_mut(n) {
                *place = sa;
            }
        }
        self.write()?;
        if self.arrival == Arrival::InMemory {
            self.stock.iter().for_each(evict);
        }
        self.inside.give(&mut self.stock);
        self.fresh = true;
        Ok(())
    }

    /// The peer of a tunnel has a new SA; it uses it from the next pass of packets on.
    pub(crate) fn succeed(&mut self, tunnel: usize, sa: Sa) {
        self.successors.push((tunnel, sa));
    }

    /// True for the first call since packets were loaded: everything that was under way before has
    /// ended.
    pub(crate) fn is_pass_fresh(&mut self) -> bool {
        core::mem::take(&mut self.fresh)
    }

    /// Frames as the gateway would receive them next.
    pub(crate) fn example_frames(&mut self, count: usize) -> Result<Vec<Vec<u8>>, BenchError> {
        self.write()?;
        Ok(self.stock.iter().take(count).map(|packet| packet.data().to_vec()).collect())
    }

    fn write(&mut self) -> Result<(), BenchError> {
        for packet in &mut self.stock {
            let flow = self.traffic.next_flow();
            if let Some(place) = self.flows.get_mut(packet.frame.index() as usize) {
                *place = flow as u32;
            }
        }
        match (self.path, self.traffic.direction) {
            (Path::Clear, _) => self.write_cleartext(HEADROOM),
            (_, Direction::Outbound) => {
                self.write_cleartext(HEADROOM + HEADER_LEN);
                self.write_ethernet(world::MAC_LAN, world::MAC_HOST)?;
            }
            (Path::Segments(count), Direction::Inbound) => {
                self.write_segments(count)?;
                self.write_ethernet(world::MAC_WAN, world::MAC_ROUTER)?;
            }
            (Path::Esp, Direction::Inbound) => {
                match self.traffic.shape.iptfs {
                    true => self.write_payloads()?,
                    false => self.write_sealed()?,
                }
                if self.traffic.shape.in_two {
                    self.cut()?;
                }
                self.write_ethernet(world::MAC_WAN, world::MAC_ROUTER)?;
            }
        }
        Ok(())
    }

    /// Gives the worker a crypto thread on each of these cores.
    pub(crate) fn add_crypto_threads(
        &mut self,
        provider: &dyn Provider,
        cores: &[usize],
    ) -> Result<Vec<JoinHandle<()>>, BenchError> {
        let parts = |seed| {
            Ok(CryptoParts {
                engine: provider.engine()?,
                ivs: IvSource::from_seed([seed; 32]),
                reader: self.databases.reader(),
            })
        };
        let own = parts(2)?;
        let engines = (3..).zip(cores).map(|(seed, _)| parts(seed));
        let engines = engines.collect::<Result<Vec<_>, BenchError>>()?;
        let workers = self.worker.add_crypto_pool(own, engines);
        let workers = workers.map_err(BenchError::system("make an eventfd"))?;
        let (tell, told) = channel();
        let threads = workers.into_iter().zip(cores.to_vec()).map(|(worker, core)| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // Unpinned it is only slower, and the rates show it.
                let _ = pin(Some(core));
                // Somebody listens until all have told.
                let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
                // Passes are short, and to be woken takes as long as some of them.
                worker.run(Polling::Always);
            })
        });
        let threads: Vec<JoinHandle<()>> = threads.collect();
        self.crypto_threads = told.iter().take(threads.len()).collect();
        self.posts = cores.iter().map(|core| Post::new(*core)).collect::<Result<_, _>>()?;
        Ok(threads)
    }

    /// How often crypto threads had to leave their cores to others so far: while one is away, all
    /// that is behind its burst waits.
    pub(crate) fn crypto_switches(&self) -> u64 {
        self.crypto_threads.iter().map(|thread| switches(*thread)).sum()
    }

    /// Watchers of the crypto threads' cores.
    pub(crate) fn posts(&self) -> Arc<[Post]> {
        Arc::clone(&self.posts)
    }

    /// Counters of the gateway's packets.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Packets that went by their flow's plan so far, and packets that took the slow path.
    pub(crate) fn cached(&self) -> (u64, u64) {
        let work = &self.counters.work;
        (work.flow_hits.value(), work.flow_misses.value())
    }

    /// How many packets are under way.
    pub(crate) const fn packets(&self) -> usize {
        self.frames
    }

    /// The timed part: rounds, as the daemon's worker does them, until nothing comes any more.
    pub(crate) fn run(&mut self) {
        while self.worker.round() > 0 {}
        // The ports hand over what was sent when they are asked for more: what the last round sent
        // of a crypto pool's, in the next.
        self.worker.round();
    }

    /// Takes what the gateway has sent.
    ///
    /// # Errors
    /// [`BenchError::Lost`] unless it is every packet.
    pub(crate) fn unload(&mut self) -> Result<(), BenchError> {
        let given = self.frames;
        match self.collect() {
            0 => Ok(()),
            _ => Err(self.lost(given)),
        }
    }

    /// The error that not all packets of those given have come out.
    pub(crate) fn lost(&self, given: usize) -> BenchError {
        let reasons = DropReason::ALL.iter().copied();
        let reason = reasons.max_by_key(|r| self.counters.dropped(*r));
        BenchError::Lost { given, sent: self.stock.len(), reason }
    }

    /// Takes what the gateway has sent, and tells how many packets it has not.
    pub(crate) fn collect(&mut self) -> usize {
        self.outside.take(&mut self.stock);
        let lost = self.frames - self.stock.len();
        // Their frames are the worker's now.
        self.frames = self.stock.len();
        lost
    }

    /// As many packets as in the beginning, after some were dropped.
    pub(crate) fn restock(&mut self, packets: usize) {
        while self.stock.len() < packets
            && let Some(frame) = self.spare.take()
        {
            self.stock.push(Packet { frame, span: Span::default() });
        }
        self.frames = self.stock.len();
    }

    /// One pass of all packets that shows that what is timed does its work: whatever comes out,
    /// opened again, is the packet that went in, one hop further.
    pub(crate) fn prove(&mut self) -> Result<(), BenchError> {
        self.load()?;
        self.run();
        self.unload()?;
        self.check()
    }

    /// Looks at each packet that has come out.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        for packet in &mut self.stock {
            let ip = Span {
                start: packet.span.start + HEADER_LEN,
                len: packet.span.len.saturating_sub(HEADER_LEN),
            };
            let flow = match self.traffic.shape.in_two {
                false => self.flows.get(packet.frame.index() as usize).map_or(0, |f| *f as usize),
                // It was put together in another frame; the identification is its flow's number.
                true => ident(packet.frame.bytes().get(ip.range()).unwrap_or_default()),
            };
            let (found, expected) = match (self.path, self.traffic.direction) {
                (Path::Clear, _) => {
                    // Linux has taken its hop already.
                    let mut same = vec![0; self.traffic.size];
                    self.traffic.write(flow, &mut same);
                    (Some(ip), Some(same))
                }
                (Path::Segments(count), Direction::Outbound) => {
                    (Some(ip), with_segments(count, self.traffic.forwarded(flow)))
                }
                (_, Direction::Inbound) => (Some(ip), self.traffic.forwarded(flow)),
                (Path::Esp, Direction::Outbound) => {
                    let sa = self.peers.get(self.traffic.sa(flow));
                    let encap_len = self.traffic.shape.encap_len();
                    let mut inner =
                        sa.and_then(|sa| open(sa, &mut self.engine, packet, ip, encap_len));
                    if let Some(overlay) = self.traffic.shape.overlay {
                        inner = inner.and_then(|span| {
                            let bytes = packet.frame.bytes().get(span.range())?;
                            let cut = overlay.inside(bytes)?;
                            Some(Span { start: span.start + cut, len: span.len.checked_sub(cut)? })
                        });
                    }
                    (inner, self.traffic.forwarded(flow))
                }
            };
            let bytes = found.and_then(|span| packet.frame.bytes().get(span.range()));
            if bytes.is_none() || bytes != expected.as_deref() {
                return Err(BenchError::Wrong { suite: self.suite });
            }
        }
        Ok(())
    }

    pub(crate) fn write_cleartext(&mut self, at: usize) {
        for packet in &mut self.stock {
            let flow = self.flows.get(packet.frame.index() as usize).map_or(0, |f| *f as usize);
            packet.span = Span { start: at, len: self.traffic.size };
            self.traffic.write(flow, packet.data_mut());
        }
    }

    /// Writes every packet as its peer sends it, under ESP or AH; the span is the IP packet.
    fn write_sealed(&mut self) -> Result<(), BenchError> {
        let Gateway { flows, peers, around, traffic, ivs, engine, suite, stock, .. } = self;
        let wrong = || BenchError::Wrong { suite: *suite };
        let mut deflate = Deflate::default();
        let overlay = traffic.shape.overlay;
        let encap = overlay.map(|overlay| overlay.encap(Direction::Inbound)).transpose()?;
        let flow_of = |packet: &Packet| {
            flows.get(packet.frame.index() as usize).map_or(0, |flow| *flow as usize)
        };
        for packet in &mut *stock {
            let flow = flow_of(packet);
            let sa = peers.get(traffic.sa(flow)).ok_or_else(wrong)?;
            let more = around.get(traffic.sa(flow)).map_or(0, Sa::headroom);
            let front = encap.as_ref().map_or(0, Encap::overhead);
            let start = HEADROOM + HEADER_LEN + sa.headroom() + more + front;
            packet.span = Span { start, len: traffic.size };
            traffic.write(flow, packet.data_mut());
            if let Some(encap) = &encap {
                let h = parse_ip(packet.data()).map_err(|_| wrong())?;
                let Span { start, len } = packet.span;
                packet.span = Span { start: start - front, len: len + front };
                let entropy = (flow as u32).wrapping_mul(0x9e37_79b1);
                encap
                    .apply(packet.data_mut(), (&h).into(), entropy, 0)
                    .then_some(())
                    .ok_or_else(wrong)?;
            }
            if sa.is_ipcomp() {
                let h = parse_ip(packet.data()).map_err(|_| wrong())?;
                let (span, buffer) = (packet.span, packet.frame.bytes_mut());
                let compressed = sa.compress(buffer, span, &h, &mut deflate);
                packet.span = compressed.map_err(|_| wrong())?;
            }
        }
        for sas in [peers, around] {
            if sas.first().is_some_and(|sa| !sa.is_ipcomp()) {
                let sa_of = |packet: &Packet| sas.get(traffic.sa(flow_of(packet)));
                seal(stock, sa_of, ivs, &mut **engine).ok_or_else(wrong)?;
            }
        }
        Ok(())
    }

    /// Cuts every packet into two fragments, one behind the other; twice as many are in the stock then.
    fn cut(&mut self) -> Result<(), BenchError> {
        let wrong = || BenchError::Wrong { suite: self.suite };
        for mut packet in core::mem::take(&mut self.stock) {
            let whole = packet.data().to_vec();
            let h = parse_ip(&whole).map_err(|_| wrong())?;
            let header_len = usize::from(h.header_len);
            let half = (whole.len() - header_len).div_ceil(2).next_multiple_of(8);
            let plan = fragment::plan(&h, &whole, header_len + half).map_err(|_| wrong())?;
            let frame = self.spare.take().ok_or_else(wrong)?;
            let mut second = Packet { frame, span: packet.span };
            for (n, piece) in [&mut packet, &mut second].into_iter().enumerate() {
                piece.span.len = plan.write(n, piece.data_mut()).map_err(|_| wrong())?;
            }
            self.stock.extend([packet, second]);
        }
        Ok(())
    }

    /// Makes frames of IP packets.
    fn write_ethernet(&mut self, dst: MacAddr, src: MacAddr) -> Result<(), BenchError> {
        for packet in &mut self.stock {
            packet.span.start -= HEADER_LEN;
            packet.span.len += HEADER_LEN;
            emit_untagged(packet.data_mut(), dst, src, self.traffic.shape.ether_type())
                .map_err(|_| BenchError::Wrong { suite: self.suite })?;
        }
        Ok(())
    }
}

/// Seals each packet by its SA; the span is the IP packet, before and after.
pub(crate) fn seal<'s>(
    stock: &mut [Packet],
    sa_of: impl Fn(&Packet) -> Option<&'s Sa>,
    ivs: &mut IvSource,
    engine: &mut dyn Engine,
) -> Option<()> {
    for burst in stock.chunks_mut(BURST_LEN) {
        let mut sealings: ArrayVec<(&Sa, Sealing), BURST_LEN> = ArrayVec::new();
        let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
        for packet in &mut *burst {
            let sa = sa_of(packet)?;
            let h = match sa.is_iptfs() {
                true => Fields::opaque(packet.span.len as u16, 0, true),
                false => Fields::from(&parse_ip(packet.data()).ok()?),
            };
            let (span, buffer) = (packet.span, packet.frame.bytes_mut());
            let number = sa.lease(1).ok().and_then(|mut lease| lease.next())?;
            let sealing = sa.seal_prepare(buffer, span, h, number, ivs, MTU as usize).ok()?;
            let bytes = buffer.get_mut(sealing.esp.range())?;
            jobs.push(Job::esp(sa.session(), Op::Seal, bytes, None));
            sealings.push((sa, sealing));
        }
        engine.run(&mut jobs);
        let statuses: ArrayVec<JobStatus, BURST_LEN> = jobs.iter().map(|job| job.status).collect();
        drop(jobs);
        for ((packet, (sa, sealing)), status) in burst.iter_mut().zip(sealings).zip(statuses) {
            packet.span = sa.seal_finish(packet.frame.bytes_mut(), &sealing, status).ok()?;
        }
    }
    Some(())
}

/// The identification of an IPv4 packet.
fn ident(packet: &[u8]) -> usize {
    packet.get(4..6).map_or(0, |ident| usize::from(ident[0]) << 8 | usize::from(ident[1]))
}

/// Leaves nothing of a packet, and of the line in front of it, in a cache.
fn evict(packet: &Packet) {
    let Span { start, len } = packet.span;
    let touched = start.saturating_sub(mem::LINE_LEN)..start + len;
    mem::evict(packet.frame.bytes().get(touched).unwrap_or_default());
}

/// A worker's place in a set.
struct Place {
    workers: usize,
    number: usize,
    /// The worker at which its packets come out: the home of their SAs.
    exit: usize,
}

const fn too_many_workers(given: usize) -> BenchError {
    BenchError::Option { what: "workers", given, allowed: "1 to 64" }
}

/// So many packets, without content.
pub(crate) fn stock(pool: &mut FramePool, frames: u32) -> Vec<Packet> {
    let mut stock = Vec::with_capacity(frames as usize);
    while stock.len() < frames as usize {
        let Some(frame) = pool.take() else { break };
        stock.push(Packet { frame, span: Span::default() });
    }
    // Neighbours in time are not neighbours in memory, as after a while in a real gateway.
    Random::new(1).shuffle(&mut stock);
    stock
}

/// Opens one packet that the gateway has sealed; between its IP header and ESP, or AH, lie `encap_len` bytes.
pub(crate) fn open(
    sa: &Sa,
    engine: &mut Box<dyn Engine>,
    packet: &mut Packet,
    ip: Span,
    encap_len: usize,
) -> Option<Span> {
    let outer = parse_ip(packet.frame.bytes().get(ip.range())?).ok()?;
    let header_len = usize::from(outer.header_len) + encap_len;
    let esp = Span { start: ip.start + header_len, len: ip.len.checked_sub(header_len)? };
    let buffer = packet.frame.bytes_mut();
    let opening = match sa.is_ah() {
        false => sa.open_prepare(buffer, esp).ok()?,
        true => {
            let opening = sa.open_ah(buffer, ip, (&outer).into()).ok()?;
            opening.blank(buffer, (&outer).into())?;
            opening
        }
    };
    let bytes = buffer.get_mut(opening.esp.range())?;
    let mut jobs = [Job::esp(sa.session(), Op::Open, bytes, None)];
    engine.run(&mut jobs);
    let [Job { status, .. }] = jobs;
    match sa.open_finish(buffer, ip, &outer, &opening, status, 1) {
        Ok(esp::Opened::Packet { span, .. } | esp::Opened::Aggfrag(span)) => Some(span),
        _ => None,
    }
}

/// Frames that the worker has of its own.
pub(crate) const SPARE_FRAMES: u32 = 256;
