//! A gateway in memory: three ports, tables, databases; frames in, frames out.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel as command_channel};
use std::thread;
use std::time::{Duration, Instant};

use crypto::{Engine, Job, JobStatus, Provider};
use dataplane::gtpu::Services;
use dataplane::{
    Command, Counters, Event, EventReceiver, EventSender, Interface, Now, PortKind, RateRules,
    Tables, Team, Topology, Waker, Worker, WorkerParts,
};
use esp::{IvSource, Mode, Sa};
use forward::{
    Hop, NeighbourEntry, NeighbourState, Neighbours, RouteEntry, RouteKind, Routes, RuleEntry,
    SourceCheck, Subnet, table,
};
use io::{ChunkSize, Frame, FramePool, HEADROOM, MemoryHandle, Packet, Umem, UmemConfig};
use outcome::DropReason;
use policy::{Databases, Direction, Mark, Prefix, SaId, Selector};
use wire::{MacAddr, Span, VlanTags};

use crate::on_vlans::{OnVlans, below, tagged, untagged};
pub use crate::spec::*;
use crate::srv6;

/// Packets that may wait for one SA, or for one neighbour.
pub const HELD: u16 = 256;

pub const LAN: u32 = 2;
pub const WAN: u32 = 3;
/// The LAN port's slot.
pub const LAN_SLOT: usize = 0;
/// An interface that is no port.
pub const OTHER: u32 = 7;
pub const TUN: u32 = 9;

/// An engine that fails every job, for as long as it is told to.
pub struct Faulty(pub Box<dyn Engine>, pub Arc<std::sync::atomic::AtomicBool>);

impl Engine for Faulty {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        if self.1.load(std::sync::atomic::Ordering::Relaxed) {
            jobs.iter_mut().for_each(|job| job.status = JobStatus::Failed);
        } else {
            self.0.run(jobs);
        }
    }
}

pub struct Gateway {
    pub side: Side,
    pub worker: Worker,
    pub lan: MemoryHandle,
    pub wan: MemoryHandle,
    pub linux: MemoryHandle,
    umem: Umem,
    /// Frames outside the gateway.
    pub stock: Vec<Frame>,
    pub counters: Arc<Counters>,
    pub events: EventReceiver,
    /// To fill the queue of events with.
    pub event_sender: EventSender,
    pub commands: Sender<Command>,
    pub waker: Waker,
    pub db: Databases<Sa>,
    pub tables: Arc<Tables>,
    pub now: Now,
    pub crypto_fails: Arc<std::sync::atomic::AtomicBool>,
    makings: Makings,
    /// Workers beside the first, if there are several.
    pub others: Vec<Other>,
    /// Further ports of the first worker.
    pub more: Vec<MemoryHandle>,
    /// Whose GTP-U is whose, in each topology that is published.
    pub gtpu: Services,
    /// Rate limits, likewise.
    pub rates: Arc<RateRules>,
    /// Counters of workers that are no more.
    gone: Vec<Arc<Counters>>,
    /// The interfaces lie on ports whose frames have these tags.
    pub vlans: Option<OnVlans>,
}

/// Parts of a worker, beside the databases.
struct Makings {
    tables: Arc<Tables>,
    events: EventSender,
    crypto_fails: Arc<std::sync::atomic::AtomicBool>,
    flows: usize,
    port_limit: usize,
    are_vlans: bool,
}

impl Makings {
    fn worker(
        &self,
        db: &Databases<Sa>,
        team: Team,
        pool: FramePool,
        waker: &Waker,
        (counters, commands): (&Arc<Counters>, Receiver<Command>),
    ) -> (Worker, [MemoryHandle; 3]) {
        let engine = PROVIDER.engine().expect("engine");
        let mut worker = Worker::new(WorkerParts {
            team,
            tables: Arc::clone(&self.tables),
            reader: db.reader(),
            engine: Box::new(Faulty(engine, Arc::clone(&self.crypto_fails))),
            ivs: IvSource::new().expect("seed"),
            pool,
            counters: Arc::clone(counters),
            events: self.events.clone(),
            commands,
            waker: waker.clone(),
            flows: self.flows,
        });
        let ports = ["lan", "wan", "linux"].map(|n| MemoryHandle::new(n, self.port_limit));
        for (slot, (ifindex, port)) in [LAN, WAN, TUN].into_iter().zip(&ports).enumerate() {
            let kind = if ifindex == TUN { PortKind::Private } else { PortKind::Ethernet };
            let is_below = self.are_vlans && ifindex != TUN;
            let ifindex = if is_below { below(ifindex) } else { ifindex };
            worker.add_port(slot, ifindex, port.port(), kind);
        }
        (worker, ports)
    }

    fn other(&self, db: &Databases<Sa>, team: Team, pool: FramePool, waker: &Waker) -> Other {
        let counters = Arc::new(Counters::default());
        let (commands, receiver) = command_channel();
        let (worker, ports) = self.worker(db, team, pool, waker, (&counters, receiver));
        Other { worker, counters, ports, commands }
    }
}

/// A further worker, with a queue of each port.
pub struct Other {
    pub worker: Worker,
    pub counters: Arc<Counters>,
    /// LAN, WAN, Linux.
    pub ports: [MemoryHandle; 3],
    pub commands: Sender<Command>,
}

pub struct Sizes {
    pub chunks: u32,
    /// Frames that play the wire; the rest are the worker's.
    pub stock: usize,
    pub port_limit: usize,
}

pub const SIZES: Sizes = Sizes { chunks: 2048, stock: 512, port_limit: 512 };

impl Gateway {
    pub fn new(side: Side) -> Gateway {
        Gateway::with_sizes(side, SIZES)
    }

    pub fn with_sizes(side: Side, sizes: Sizes) -> Gateway {
        Gateway::with_flows(side, sizes, dataplane::DEFAULT_FLOWS)
    }

    /// With a flow cache for so many flows.
    pub fn with_flows(side: Side, sizes: Sizes, flows: usize) -> Gateway {
        Gateway::with_workers(side, sizes, flows, 1)
    }

    /// With several workers, over which packets are spread by their addresses and ports.
    pub fn with_workers(side: Side, sizes: Sizes, flows: usize, workers: usize) -> Gateway {
        Gateway::build(side, sizes, (flows, workers), None, Tables::default())
    }

    /// With VLANs of ports in place of these. What is put in gets their tags, and what is taken out has lost them.
    pub fn on_vlans(side: Side, sizes: Sizes, workers: usize) -> Gateway {
        let vlans = Some(OnVlans::new());
        let flows = dataplane::DEFAULT_FLOWS;
        Gateway::build(side, sizes, (flows, workers), vlans, Tables::default())
    }

    /// With tables of which something is there from the beginning.
    pub fn with_tables(side: Side, tables: Tables) -> Gateway {
        Gateway::build(side, SIZES, (dataplane::DEFAULT_FLOWS, 1), None, tables)
    }

    fn build(
        side: Side,
        sizes: Sizes,
        (flows, workers): (usize, usize),
        vlans: Option<OnVlans>,
        tables: Tables,
    ) -> Gateway {
        let config =
            UmemConfig { chunks: sizes.chunks, chunk_size: ChunkSize::Bytes2048, populate: false };
        let (umem, mut pool) = Umem::new(config).expect("memory");
        let stock = (0..sizes.stock).map(|_| pool.take().expect("frame")).collect();
        let db = Databases::new();
        let tables = Arc::new(tables);
        let counters = Arc::new(Counters::default());
        let (sender, events) = dataplane::channel().expect("eventfd");
        let (commands, receiver) = command_channel();
        let wakers: Vec<Waker> = (0..workers).map(|_| Waker::new().expect("eventfd")).collect();
        let makings = Makings {
            tables: Arc::clone(&tables),
            events: sender.clone(),
            crypto_fails: Arc::new(std::sync::atomic::AtomicBool::new(false)),
            flows,
            port_limit: sizes.port_limit,
            are_vlans: vlans.is_some(),
        };
        let mut teams = Team::of(&wakers).into_iter().zip(&wakers);
        let (team, waker) = teams.next().expect("one");
        let others = teams.map(|(team, waker)| makings.other(&db, team, pool.sibling(), waker));
        let others: Vec<Other> = others.collect();
        let first = makings.worker(&db, team, pool, waker, (&counters, receiver));
        let (worker, [lan, wan, linux]) = first;
        let waker = waker.clone();
        let gateway = Gateway {
            side,
            worker,
            lan,
            wan,
            linux,
            umem,
            stock,
            counters,
            events,
            event_sender: sender,
            commands,
            waker,
            db,
            tables,
            now: Now { wall_s: 1_000_000, ns: 1 },
            crypto_fails: Arc::clone(&makings.crypto_fails),
            makings,
            others,
            more: Vec::new(),
            gtpu: Services::default(),
            rates: Arc::default(),
            gone: Vec::new(),
            vlans,
        };
        gateway.set_topology(1500, Vec::new());
        gateway.set_neighbours(NeighbourState::Reachable);
        gateway
    }

    /// Another number of workers, as the daemon changes it.
    pub fn set_workers(&mut self, workers: usize) {
        let all = |gateway: &mut Gateway| {
            let others: usize = gateway.others.iter_mut().map(|o| o.worker.settle()).sum();
            others + gateway.worker.settle()
        };
        while all(self) > 0 {}
        for mut other in self.others.split_off(self.others.len().min(workers - 1)) {
            self.worker.adopt(&mut other.worker);
            assert_eq!(other.worker.take_ports().len(), 3);
            for port in &other.ports {
                assert_eq!(io::Port::frames_held(port), 0, "the test has taken all");
            }
            self.gone.push(other.counters);
        }
        self.db.sas().for_each(|sa| sa.home().vacate());
        let wakers: Vec<Waker> = (0..workers).map(|_| Waker::new().expect("eventfd")).collect();
        let mut teams = Team::of(&wakers).into_iter();
        self.worker.set_team(teams.next().expect("one"));
        self.others.iter_mut().zip(teams.by_ref()).for_each(|(o, team)| o.worker.set_team(team));
        for team in teams {
            let waker = wakers[team.number()].clone();
            let pool = self.worker.pool().sibling();
            self.others.push(self.makings.other(&self.db, team, pool, &waker));
        }
    }

    /// Publishes routes and interfaces; `more` routes beside the usual ones.
    pub fn set_topology(&self, wan_mtu: u32, more: Vec<RouteEntry>) {
        self.set_topology_with(wan_mtu, more, Vec::new(), true);
    }

    /// The same with rules before the usual ones, and with ports that are up or down.
    pub fn set_topology_with(
        &self,
        wan_mtu: u32,
        more: Vec<RouteEntry>,
        mut rules: Vec<RuleEntry>,
        up: bool,
    ) {
        let side = self.side;
        rules.extend(RuleEntry::defaults());
        let mut topology = Topology::default();
        let mut routes = more;
        for v6 in [false, true] {
            let host_len = if v6 { 128 } else { 32 };
            for addr in [side.lan(v6, 1), side.wan(v6)] {
                topology.local.insert(addr);
                let dst = Subnet { addr, len: host_len };
                routes.push(route(table::LOCAL, dst, RouteKind::Local, None, None));
            }
            let net = side.net(v6);
            let dst = Subnet { addr: net.addr, len: net.len };
            routes.push(route(table::MAIN, dst, RouteKind::Unicast, Some(LAN), None));
            let dst = Subnet { addr: side.wan(v6), len: if v6 { 64 } else { 24 } };
            routes.push(route(table::MAIN, dst, RouteKind::Unicast, Some(WAN), None));
        }
        let to = |text: &str, kind, ifindex| {
            let dst = Subnet { addr: ip(text), len: 24 };
            route(table::MAIN, dst, kind, ifindex, None)
        };
        let via = Some(side.other().wan(false));
        routes.push(RouteEntry {
            hops: vec![Hop { ifindex: WAN, gateway: via, weight: 1 }],
            ..to("203.0.113.0", RouteKind::Unicast, Some(WAN))
        });
        routes.push(to("198.51.100.0", RouteKind::Unicast, Some(OTHER)));
        routes.push(to("198.18.0.0", RouteKind::Prohibit, None));
        routes.push(to("198.18.1.0", RouteKind::Blackhole, None));
        let mut all = Routes::new(routes, rules, None);
        all.pin(&[srv6::TABLE]);
        topology.fib = all.fib();
        for (ifindex, port, mtu) in [(LAN, 0, 1500), (WAN, 1, wan_mtu)] {
            let v4 = if ifindex == LAN { side.lan(false, 1) } else { side.wan(false) };
            let v6 = if ifindex == LAN { side.lan(true, 1) } else { side.wan(true) };
            let (IpAddr::V4(v4), IpAddr::V6(v6)) = (v4, v6) else { unreachable!() };
            topology.interfaces.insert(
                ifindex,
                Interface {
                    port: Some(port),
                    mac: side.mac(ifindex),
                    mtu,
                    up,
                    back: None,
                    binding: None,
                    source_check: match ifindex {
                        WAN => SourceCheck::Strict,
                        _ => SourceCheck::Loose,
                    },
                    addr4: Some(v4),
                    addr6: Some(v6),
                },
            );
        }
        if let Some(vlans) = &self.vlans {
            vlans.add_to(&mut topology);
        }
        topology.gtpu = self.gtpu.clone();
        topology.rate_rules = Arc::clone(&self.rates);
        self.tables.topology.store(Arc::new(topology));
    }

    /// Publishes routes and interfaces, of which something is different.
    pub fn set_topology_but(&self, more: Vec<RouteEntry>, change: impl FnOnce(&mut Topology)) {
        self.set_topology_by(more, Vec::new(), change);
    }

    /// The same with rules before the usual ones.
    pub fn set_topology_by(
        &self,
        more: Vec<RouteEntry>,
        rules: Vec<RuleEntry>,
        change: impl FnOnce(&mut Topology),
    ) {
        self.set_topology_with(1500, more, rules, true);
        let topology = self.tables.topology.swap(Arc::default());
        let mut topology = Arc::into_inner(topology).expect("no worker has it yet");
        change(&mut topology);
        self.tables.topology.store(Arc::new(topology));
    }

    /// Publishes the neighbours: two hosts on the LAN, and the peer in this state.
    pub fn set_neighbours(&self, peer: NeighbourState) {
        let side = self.side;
        let mut all = Neighbours::default();
        for v6 in [false, true] {
            for host in [10, 11] {
                all.insert(NeighbourEntry {
                    ifindex: LAN,
                    addr: side.lan(v6, host),
                    mac: Some(side.host_mac(host)),
                    state: NeighbourState::Reachable,
                });
            }
            let known = !matches!(peer, NeighbourState::Incomplete | NeighbourState::Failed);
            all.insert(NeighbourEntry {
                ifindex: WAN,
                addr: side.other().wan(v6),
                mac: known.then_some(side.other().mac(WAN)),
                state: peer,
            });
        }
        self.tables.neighbours.store(Arc::new(all));
    }

    /// Both SAs, and policies in all directions for both inner families.
    pub fn protect(&mut self, spec: &Spec) {
        self.add_policies(spec);
        self.add_sas(spec);
    }

    pub fn add_sas(&mut self, spec: &Spec) {
        for from in [Side::A, Side::B] {
            let config = sa_config(spec, from);
            let sa = make_sa(&config.params);
            self.db.add_sa(config, sa).expect("new");
        }
    }

    pub fn add_policies(&mut self, spec: &Spec) {
        let (here, there) = (self.side, self.side.other());
        for v6 in [false, true] {
            let base = if v6 { 20 } else { 10 };
            let (local, remote) = match spec.mode {
                Mode::Tunnel | Mode::Iptfs => (here.net(v6), there.net(v6)),
                Mode::Transport => {
                    let len = if v6 { 128 } else { 32 };
                    (Prefix { addr: here.wan(v6), len }, Prefix { addr: there.wan(v6), len })
                }
            };
            let out = Selector::between(local, remote);
            let back = Selector::between(remote, local);
            let ours = vec![template(spec, here)];
            let theirs = vec![template(spec, there)];
            self.db.put_policy(policy(base + 1, Direction::Out, out, ours));
            self.db.put_policy(policy(base + 2, Direction::In, back, theirs.clone()));
            self.db.put_policy(policy(base + 3, Direction::Forward, back, theirs));
        }
    }

    /// The SA that a side sends by, in this gateway.
    pub fn sa(&self, from: Side, spec: &Spec) -> Arc<policy::SaEntry<Sa>> {
        let id = SaId {
            dst: from.other().wan(spec.outer_v6),
            spi: from.spi(),
            protocol: 50,
            mark: Mark::default(),
        };
        self.db.sa(&id).expect("sa")
    }

    /// Puts bytes where the port receives them.
    pub fn put(&mut self, port: &MemoryHandle, bytes: &[u8]) {
        self.put_at(port, bytes, HEADROOM);
    }

    pub fn put_at(&mut self, port: &MemoryHandle, bytes: &[u8], start: usize) {
        let queue = self.queue_of(port, bytes);
        let tagged = self.tags_of(port).map(|tags| tagged(tags, bytes));
        self.put_into(&queue, tagged.as_deref().unwrap_or(bytes), start);
    }

    /// The tags that frames have on a port, if it has VLANs.
    fn tags_of(&self, port: &MemoryHandle) -> Option<VlanTags> {
        let vlans = self.vlans.as_ref()?;
        let ports = [(&self.lan, vlans.lan), (&self.wan, vlans.wan)];
        ports.into_iter().find(|(other, _)| other.is_same(port)).map(|(_, tags)| tags)
    }

    /// Puts bytes into this very queue.
    pub fn put_into(&mut self, port: &MemoryHandle, bytes: &[u8], start: usize) {
        let frame = self.stock.pop().expect("the wire has frames");
        let mut packet = Packet { frame, span: Span { start, len: bytes.len() } };
        packet.data_mut().copy_from_slice(bytes);
        port.lock().inject_packet(packet).expect("room in the queue");
    }

    /// The queue that a port's receive side scaling chooses: by addresses, and by ports or SPI.
    fn queue_of(&self, port: &MemoryHandle, bytes: &[u8]) -> MemoryHandle {
        let is = |other: &MemoryHandle| other.is_same(port);
        let ports = [&self.lan, &self.wan, &self.linux];
        let Some(at) = ports.iter().position(|other| is(other)) else { return port.clone() };
        let ip = if at == 2 { bytes } else { bytes.get(14..).unwrap_or_default() };
        let key = match ip.first().map(|b| b >> 4) {
            Some(4) => ip.get(12..24),
            Some(6) => ip.get(8..44),
            _ => None,
        };
        let hash = key
            .unwrap_or_default()
            .iter()
            .fold(7_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        match (hash >> 16) as usize % (1 + self.others.len()) {
            0 => port.clone(),
            n => self.others[n - 1].ports[at].clone(),
        }
    }

    /// A host's packet, as a frame to the gateway's LAN port.
    pub fn put_lan(&mut self, packet: &[u8]) {
        let frame = ethernet(self.side.mac(LAN), self.side.host_mac(10), packet);
        let lan = self.lan.clone();
        self.put(&lan, &frame);
    }

    pub fn put_wan(&mut self, packet: &[u8]) {
        let frame = ethernet(self.side.mac(WAN), self.side.other().mac(WAN), packet);
        let wan = self.wan.clone();
        self.put(&wan, &frame);
    }

    pub fn put_linux(&mut self, packet: &[u8]) {
        let linux = self.linux.clone();
        self.put(&linux, packet);
    }

    /// Rounds until nothing comes any more.
    pub fn run(&mut self) {
        let mut quiet = 0;
        // A round that receives nothing may still hand over what was held.
        while quiet <= self.others.len() {
            let mut came = self.worker.round_at(self.now);
            for other in &mut self.others {
                came += other.worker.round_at(self.now);
            }
            if self.others.is_empty() {
                self.check();
            }
            quiet = if came == 0 { quiet + 1 } else { 0 };
        }
        self.check();
    }

    /// Runs the workers in threads of their own until they have sent so many packets in all.
    pub fn run_threads(&mut self, sent: u64) {
        let counters: Vec<_> = self.all_counters().cloned().collect();
        let others = self.others.iter().map(|other| other.commands.clone());
        let commands: Vec<_> = others.chain([self.commands.clone()]).collect();
        thread::scope(|scope| {
            let others = self.others.iter_mut().map(|other| &mut other.worker);
            for worker in others.chain([&mut self.worker]) {
                scope.spawn(move || {
                    worker.resume();
                    worker.run();
                });
            }
            let so_far = || counters.iter().map(|c| c.totals().transmitted).sum::<u64>();
            let deadline = Instant::now() + Duration::from_secs(20);
            while so_far() < sent && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            for command in commands {
                command.send(Command::Pause).expect("it listens");
            }
        });
        self.run();
    }

    pub fn pass_ns(&mut self, ns: u64) {
        self.now.ns += ns;
        self.run();
    }

    /// Takes what was sent out of a port.
    pub fn take(&mut self, port: &MemoryHandle) -> Vec<Vec<u8>> {
        let mut queues = vec![port.clone()];
        let ports = [&self.lan, &self.wan, &self.linux];
        if let Some(at) = ports.iter().position(|other| other.is_same(port)) {
            queues.extend(self.others.iter().map(|other| other.ports[at].clone()));
        }
        let mut all = Vec::new();
        for queue in queues {
            while let Some(packet) = queue.lock().collect() {
                let frame = packet.data().to_vec();
                all.push(match self.tags_of(port) {
                    Some(tags) => untagged(tags, &frame),
                    None => frame,
                });
                // Long packets lie in frames of another region.
                if packet.frame.bytes().len() == self.umem.chunk_len() {
                    self.stock.push(packet.frame);
                }
            }
        }
        all
    }

    /// The counters of all workers.
    pub fn all_counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        let others = self.others.iter().map(|other| &other.counters);
        core::iter::once(&self.counters).chain(others).chain(&self.gone)
    }

    /// IP packets sent to the LAN, their frames checked.
    pub fn lan_out(&mut self) -> Vec<Vec<u8>> {
        let lan = self.lan.clone();
        self.take(&lan).iter().map(|f| self.unframe(f, LAN)).collect()
    }

    pub fn wan_out(&mut self) -> Vec<Vec<u8>> {
        let wan = self.wan.clone();
        self.take(&wan).iter().map(|f| self.unframe(f, WAN)).collect()
    }

    pub fn linux_out(&mut self) -> Vec<Vec<u8>> {
        let linux = self.linux.clone();
        self.take(&linux)
    }

    fn unframe(&self, frame: &[u8], ifindex: u32) -> Vec<u8> {
        assert_eq!(frame[6..12], self.side.mac(ifindex).0, "source address");
        let version = frame[14] >> 4;
        assert_eq!(frame[12..14], if version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
        frame[14..].to_vec()
    }

    pub fn events(&mut self) -> Vec<Event> {
        self.events.clear();
        core::iter::from_fn(|| self.events.next()).collect()
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.all_counters().map(|counters| counters.dropped(reason)).sum()
    }

    /// Every drop so far, for asserts about all of them.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let all = DropReason::ALL.iter().map(|r| (*r, self.dropped(*r)));
        all.filter(|(_, n)| *n > 0).collect()
    }

    /// No packet is lost in the counters, no frame is lost in memory.
    pub fn check(&self) {
        let mut totals = dataplane::Totals::default();
        let mut ports: usize = 0;
        for counters in self.all_counters() {
            let own = counters.totals();
            assert_eq!(own.balance(), 0, "{own:?}");
            totals += own;
        }
        assert_eq!(totals.handed_over, totals.taken_over, "{totals:?}");
        let first = [&self.lan, &self.wan, &self.linux];
        let others = self.others.iter().flat_map(|other| &other.ports);
        for port in first.into_iter().chain(others).chain(&self.more) {
            // Long packets lie in frames of another region.
            ports += port.lock().frames_of(self.umem.chunk_len());
        }
        let cached: usize = self.others.iter().map(|other| other.worker.pool().available()).sum();
        let elsewhere = self.stock.len() + totals.held as usize + cached;
        let accounting = self.umem.accounting(self.worker.pool(), ports, elsewhere);
        assert!(accounting.balances(), "{accounting:?}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

pub fn route(
    table: u32,
    dst: Subnet,
    kind: RouteKind,
    ifindex: Option<u32>,
    mtu: Option<u32>,
) -> RouteEntry {
    let hops = ifindex.map(|ifindex| Hop { ifindex, gateway: None, weight: 1 });
    RouteEntry { table, dst, kind, priority: 0, hops: hops.into_iter().collect(), mtu, src: None }
}

/// The way to 203.0.113.0/25 by an interface that is no port.
pub fn elsewhere() -> RouteEntry {
    let dst = Subnet { addr: ip("203.0.113.0"), len: 25 };
    route(table::MAIN, dst, RouteKind::Unicast, Some(OTHER), None)
}

pub fn ethernet(dst: MacAddr, src: MacAddr, packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] =
        if packet.first().is_some_and(|b| b >> 4 == 6) { [0x86, 0xdd] } else { [0x08, 0x00] };
    [&dst.0[..], &src.0, &kind, packet].concat()
}

/// Two gateways whose WAN ports are one wire.
pub struct Pair {
    pub a: Gateway,
    pub b: Gateway,
}

impl Pair {
    pub fn new(spec: &Spec) -> Pair {
        let mut pair = Pair { a: Gateway::new(Side::A), b: Gateway::new(Side::B) };
        pair.a.protect(spec);
        pair.b.protect(spec);
        pair
    }

    pub fn end(&mut self, side: Side) -> (&mut Gateway, &mut Gateway) {
        match side {
            Side::A => (&mut self.a, &mut self.b),
            Side::B => (&mut self.b, &mut self.a),
        }
    }

    /// Carries what one side sent to the other and lets that work; returns the packets carried.
    pub fn carry(&mut self, from: Side) -> Vec<Vec<u8>> {
        let (from, to) = self.end(from);
        let packets = from.wan_out();
        for packet in &packets {
            to.put_wan(packet);
        }
        to.run();
        packets
    }
}
