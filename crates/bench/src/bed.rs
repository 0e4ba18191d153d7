//! The test bed: one gateway between two memory ports, and the peer's SAs beside it.

use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use arrayvec::ArrayVec;
use crypto::{Engine, Job, JobStatus, Keys, Op, Suite};
use dataplane::{
    Command, Counters, EventReceiver, Interface, Now, Tables, Topology, Waker, Worker, WorkerParts,
};
use esp::{Cells, IvSource, Mode, Sa, SaFlags, SaParams};
use forward::{
    Fib, Hop, NeighbourEntry, NeighbourState, Neighbours, RouteEntry, RouteKind, RuleEntry,
    SourceCheck, Subnet, table,
};
use io::{BURST_LEN, ChunkSize, HEADROOM, MemoryHandle, Packet, Umem, UmemConfig};
use outcome::DropReason;
use policy::{
    Action, Databases, Direction as PolicyDirection, Mark, PolicyConfig, Prefix, SaConfig,
    Selector, Template, VolumeLimits,
};
use wire::ethernet::{EtherType, HEADER_LEN, emit_untagged};
use wire::ipv4::Ipv4Fields;
use wire::udp::UdpFields;
use wire::{Headers, MacAddr, Span, parse_ip, protocol};

use crate::{BenchError, Direction, EspOptions};

/// One gateway, ready to run, and everything that plays the world around it.
pub struct Bed {
    pub worker: Worker,
    counters: Arc<Counters>,
    /// Where packets come in, and where they go out.
    inside: MemoryHandle,
    outside: MemoryHandle,
    direction: Direction,
    suite: Suite,
    /// The peer's side of the SAs: seals what the gateway opens, opens what it seals.
    peers: Vec<Sa>,
    /// An engine that is not the worker's: the peer's, and the raw cipher's.
    pub engine: Box<dyn Engine>,
    ivs: IvSource,
    /// An inner packet for each SA, and its headers.
    templates: Vec<(Vec<u8>, Headers)>,
    /// All packets, while they are outside the gateway.
    pub stock: Vec<Packet>,
    frames: usize,
    now: Now,
    /// Kept, because the worker's ends would be of no use without.
    _keep: (Databases<Sa>, EventReceiver, Sender<Command>, Umem),
}

impl Bed {
    pub fn new(
        options: &EspOptions<'_>,
        suite: Suite,
        size: usize,
        direction: Direction,
    ) -> Result<Bed, BenchError> {
        let frames = options.frames as usize;
        let config = UmemConfig {
            chunks: options.frames + SPARE_FRAMES,
            chunk_size: ChunkSize::Bytes2048,
            populate: true,
        };
        let (umem, mut pool) = Umem::new(config)?;
        let mut stock = Vec::with_capacity(frames);
        while stock.len() < frames {
            let Some(frame) = pool.take() else { break };
            stock.push(Packet { frame, span: Span::default() });
        }
        shuffle(&mut stock);

        let mut databases = Databases::new();
        let mut peers = Vec::with_capacity(options.sas);
        let mut templates = Vec::with_capacity(options.sas);
        for n in 0..options.sas as u32 {
            let config = sa_config(suite, direction, n);
            let make = |params: &SaParams| {
                let session = options.provider.session(suite, &keys(suite))?;
                Sa::new(params.clone(), session, Cells::on_heap(params.replay_window))
                    .map_err(|_| BenchError::Wrong { suite })
            };
            let (own, peer) = (make(&config.params)?, make(&config.params)?);
            let max = own.max_inner_len(MTU as usize);
            if size > max {
                return Err(BenchError::TooLong { size, suite, max });
            }
            if databases.add_sa(config, own).is_err() {
                return Err(BenchError::Wrong { suite });
            }
            databases.put_policy(policy(direction, n));
            peers.push(peer);
            let packet = inner_packet(size, direction, n);
            let h = parse_ip(&packet).map_err(|_| BenchError::Wrong { suite })?;
            templates.push((packet, h));
        }

        let tables = Arc::new(Tables::default());
        tables.topology.store(Arc::new(topology()));
        tables.neighbours.store(Arc::new(neighbours()));
        let counters = Arc::new(Counters::default());
        let no_descriptor = |source| BenchError::System { what: "eventfd", source };
        let (events, keep_events) = dataplane::channel().map_err(no_descriptor)?;
        let (keep_commands, commands) = channel();
        let mut worker = Worker::new(WorkerParts {
            tables,
            reader: databases.reader(),
            engine: options.provider.engine()?,
            ivs: IvSource::from_seed([1; 32]),
            pool,
            counters: Arc::clone(&counters),
            events,
            commands,
            waker: Waker::new().map_err(no_descriptor)?,
        });
        let lan = MemoryHandle::new("lan", frames);
        let wan = MemoryHandle::new("wan", frames);
        worker.add_port(0, LAN, lan.port(), false);
        worker.add_port(1, WAN, wan.port(), false);
        let (inside, outside) = match direction {
            Direction::Outbound => (lan, wan),
            Direction::Inbound => (wan, lan),
        };
        Ok(Bed {
            worker,
            counters,
            inside,
            outside,
            direction,
            suite,
            peers,
            engine: options.provider.engine()?,
            ivs: IvSource::from_seed([2; 32]),
            templates,
            stock,
            frames,
            now: Now { wall_s: 1, ns: 1 },
            _keep: (databases, keep_events, keep_commands, umem),
        })
    }

    /// Writes every packet anew and queues it where the gateway receives it.
    pub fn load(&mut self) -> Result<(), BenchError> {
        match self.direction {
            Direction::Outbound => self.write_cleartext()?,
            Direction::Inbound => {
                self.prepare_esp()?;
                self.run_cipher(Op::Seal)?;
                self.frame_esp()?;
            }
        }
        let mut port = self.inside.lock();
        for packet in self.stock.drain(..) {
            // The queue is as long as there are packets.
            if let Err(packet) = port.inject_packet(packet) {
                drop(packet);
            }
        }
        Ok(())
    }

    /// How many packets are under way.
    pub fn packets(&self) -> usize {
        self.frames
    }

    /// The timed part: rounds until nothing comes any more.
    pub fn run(&mut self) {
        while self.worker.round_at(self.now) > 0 {}
    }

    /// Takes what the gateway has sent.
    ///
    /// # Errors
    /// [`BenchError::Lost`] unless it is every packet.
    pub fn unload(&mut self) -> Result<(), BenchError> {
        self.now.ns += 1_000_000;
        let mut port = self.outside.lock();
        while let Some(packet) = port.collect() {
            self.stock.push(packet);
        }
        if self.stock.len() == self.frames {
            return Ok(());
        }
        let reasons = DropReason::ALL.iter().copied();
        let reason = reasons.max_by_key(|r| self.counters.dropped(*r));
        Err(BenchError::Lost { given: self.frames, sent: self.stock.len(), reason })
    }

    /// Whether what came out last is what should have: opened again it is the packet that went in,
    /// one hop further on.
    pub fn verify(&mut self) -> Result<(), BenchError> {
        let wrong = BenchError::Wrong { suite: self.suite };
        let Some(packet) = self.stock.first_mut() else { return Err(wrong) };
        let mut expected = match self.templates.first() {
            Some((packet, _)) => packet.clone(),
            None => return Err(wrong),
        };
        let Ok(h) = parse_ip(&expected) else { return Err(wrong) };
        if !wire::decrement_ttl(&mut expected, &h) {
            return Err(wrong);
        }
        let ip = Span {
            start: packet.span.start + HEADER_LEN,
            len: packet.span.len.saturating_sub(HEADER_LEN),
        };
        let found = match self.direction {
            Direction::Inbound => ip,
            Direction::Outbound => {
                let Some(sa) = self.peers.first() else { return Err(wrong) };
                match open(sa, &mut self.engine, packet, ip) {
                    Some(span) => span,
                    None => return Err(wrong),
                }
            }
        };
        match packet.frame.bytes().get(found.range()) == Some(&expected[..]) {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    /// Writes every packet as an ESP packet that is ready for the cipher; the spans are then the
    /// ESP part.
    pub fn prepare_esp(&mut self) -> Result<(), BenchError> {
        for (packet, n) in self.stock.iter_mut().zip((0..self.peers.len()).cycle()) {
            let (Some(sa), Some((inner, h))) = (self.peers.get(n), self.templates.get(n)) else {
                continue;
            };
            let at = Span { start: HEADROOM + HEADER_LEN + sa.headroom(), len: inner.len() };
            let buffer = packet.frame.bytes_mut();
            if let Some(place) = buffer.get_mut(at.range()) {
                place.copy_from_slice(inner);
            }
            let sealing = sa
                .seal_prepare(buffer, at, h, &mut self.ivs, MTU as usize, 1)
                .map_err(|_| BenchError::Wrong { suite: self.suite })?;
            packet.span = sealing.esp;
        }
        Ok(())
    }

    /// Runs the cipher over all packets, a burst of ready jobs at a time.
    pub fn run_cipher(&mut self, op: Op) -> Result<(), BenchError> {
        let sas = self.peers.len();
        let mut n = 0;
        for burst in self.stock.chunks_mut(BURST_LEN) {
            let mut jobs: ArrayVec<Job<'_>, BURST_LEN> = ArrayVec::new();
            for packet in burst {
                let Some(sa) = self.peers.get(n % sas) else { continue };
                jobs.push(Job::esp(sa.session(), op, packet.data_mut(), None));
                n += 1;
            }
            self.engine.run(&mut jobs);
            if jobs.iter().any(|job| job.status != JobStatus::Done) {
                return Err(BenchError::Wrong { suite: self.suite });
            }
        }
        Ok(())
    }

    /// Makes frames of sealed packets: the span grows over the outer and the Ethernet header.
    fn frame_esp(&mut self) -> Result<(), BenchError> {
        for packet in &mut self.stock {
            let end = packet.span.end();
            packet.span = Span { start: HEADROOM, len: end - HEADROOM };
            write_ethernet(packet, MAC_WAN, MAC_PEER)
                .map_err(|()| BenchError::Wrong { suite: self.suite })?;
        }
        Ok(())
    }

    fn write_cleartext(&mut self) -> Result<(), BenchError> {
        let all = self.templates.iter().cycle();
        for (packet, (inner, _)) in self.stock.iter_mut().zip(all) {
            let at = HEADROOM + HEADER_LEN;
            if let Some(place) = packet.frame.bytes_mut().get_mut(at..at + inner.len()) {
                place.copy_from_slice(inner);
            }
            packet.span = Span { start: HEADROOM, len: HEADER_LEN + inner.len() };
            write_ethernet(packet, MAC_LAN, MAC_HOST)
                .map_err(|()| BenchError::Wrong { suite: self.suite })?;
        }
        Ok(())
    }
}

/// Opens one packet that the gateway has sealed.
fn open(sa: &Sa, engine: &mut Box<dyn Engine>, packet: &mut Packet, ip: Span) -> Option<Span> {
    let outer = parse_ip(packet.frame.bytes().get(ip.range())?).ok()?;
    let header_len = usize::from(outer.header_len);
    let esp = Span { start: ip.start + header_len, len: ip.len.checked_sub(header_len)? };
    let buffer = packet.frame.bytes_mut();
    let opening = sa.open_prepare(buffer, esp).ok()?;
    let mut jobs = [Job::esp(sa.session(), Op::Open, buffer.get_mut(esp.range())?, None)];
    engine.run(&mut jobs);
    let [Job { status, .. }] = jobs;
    match sa.open_finish(buffer, ip, &outer, &opening, status, 1) {
        Ok(esp::Opened::Packet(span)) => Some(span),
        _ => None,
    }
}

fn write_ethernet(packet: &mut Packet, dst: MacAddr, src: MacAddr) -> Result<(), ()> {
    emit_untagged(packet.data_mut(), dst, src, EtherType::IPV4).map_err(|_| ())
}

/// Neighbours in time are not neighbours in memory, as after a while in a real gateway.
fn shuffle(packets: &mut [Packet]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..packets.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        packets.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

fn keys(suite: Suite) -> Keys {
    Keys {
        cipher: (1..).take(suite.cipher_key_len_bytes()).collect(),
        salt: (101..).take(suite.salt_len_bytes()).collect(),
        auth: (51..).take(suite.auth_key_len_bytes()).collect(),
    }
}

/// An inner packet: UDP over IPv4, from our host to the peer's or back.
fn inner_packet(size: usize, direction: Direction, n: u32) -> Vec<u8> {
    let (host, remote) = (HOST, remote(n));
    let (src, dst) = match direction {
        Direction::Outbound => (host, remote),
        Direction::Inbound => (remote, host),
    };
    let udp_len = size.saturating_sub(wire::ipv4::MIN_HEADER_LEN);
    let ip = Ipv4Fields {
        traffic_class: 0,
        total_len: size as u16, // at most the MTU
        ident: 1,
        dont_fragment: true,
        ttl: 64,
        protocol: protocol::UDP,
        src,
        dst,
    };
    let udp = UdpFields { src_port: 1024, dst_port: 2048, len: udp_len as u16, checksum: 0 };
    let mut packet = [&ip.to_bytes()[..], &udp.to_bytes()].concat();
    packet.extend((0..size.saturating_sub(packet.len())).map(|i| i as u8));
    packet
}

fn sa_config(suite: Suite, direction: Direction, n: u32) -> SaConfig {
    let (src, dst) = match direction {
        Direction::Outbound => (GATEWAY, PEER),
        Direction::Inbound => (PEER, GATEWAY),
    };
    let params = SaParams {
        spi: 0x1000 + n,
        src: src.into(),
        dst: dst.into(),
        mode: Mode::Tunnel,
        suite,
        encap: None,
        esn: false,
        replay_window: REPLAY_WINDOW,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    };
    SaConfig {
        params,
        mark: Mark::default(),
        if_id: 0,
        reqid: 1 + n,
        selector: None,
        // On, and never reached.
        limits: VolumeLimits {
            soft_bytes: 1 << 62,
            hard_bytes: 1 << 63,
            soft_packets: 1 << 62,
            hard_packets: 1 << 63,
        },
        added_s: 1,
        generation: u64::from(n),
    }
}

fn policy(direction: Direction, n: u32) -> PolicyConfig {
    let local = Prefix { addr: HOST.into(), len: 16 };
    let remote = Prefix { addr: remote(n).into(), len: 32 };
    let (direction, src, dst, ends) = match direction {
        Direction::Outbound => (PolicyDirection::Out, local, remote, (GATEWAY, PEER)),
        Direction::Inbound => (PolicyDirection::Forward, remote, local, (PEER, GATEWAY)),
    };
    let template = Template {
        src: ends.0.into(),
        dst: ends.1.into(),
        spi: 0,
        protocol: protocol::ESP,
        mode: Mode::Tunnel,
        reqid: 1 + n,
        optional: false,
    };
    PolicyConfig {
        index: 1 + n,
        direction,
        selector: Selector::between(src, dst),
        priority: 100,
        action: Action::Allow,
        templates: vec![template],
        mark: Mark::default(),
        if_id: 0,
    }
}

fn topology() -> Topology {
    let mut topology = Topology::default();
    let route = |table, addr: Ipv4Addr, len, kind, ifindex: Option<u32>| RouteEntry {
        table,
        dst: Subnet { addr: addr.into(), len },
        kind,
        priority: 0,
        hops: ifindex
            .map(|ifindex| Hop { ifindex, gateway: None, weight: 1 })
            .into_iter()
            .collect(),
        mtu: None,
        src: None,
    };
    let routes = [
        route(table::LOCAL, GATEWAY, 32, RouteKind::Local, None),
        route(table::MAIN, HOST, 16, RouteKind::Unicast, Some(LAN)),
        route(table::MAIN, PEER, 24, RouteKind::Unicast, Some(WAN)),
    ];
    topology.fib = Fib::new(routes, RuleEntry::defaults(), None);
    topology.local.insert(GATEWAY.into());
    for (ifindex, port, mac, addr) in [(LAN, 0, MAC_LAN, HOST), (WAN, 1, MAC_WAN, GATEWAY)] {
        let interface = Interface {
            port: Some(port),
            mac,
            mtu: MTU,
            up: true,
            source_check: SourceCheck::Off,
            addr4: Some(addr),
            addr6: None,
        };
        topology.interfaces.insert(ifindex, interface);
    }
    topology
}

fn neighbours() -> Neighbours {
    let entry = |ifindex, addr: Ipv4Addr, mac| NeighbourEntry {
        ifindex,
        addr: IpAddr::V4(addr),
        mac: Some(mac),
        state: NeighbourState::Reachable,
    };
    [entry(LAN, HOST, MAC_HOST), entry(WAN, PEER, MAC_PEER)].into_iter().collect()
}

/// The remote host of one SA: each has a network of its own.
fn remote(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a80_0000 + n)
}

/// Frames that the worker has of its own.
const SPARE_FRAMES: u32 = 256;
/// Of both links, in bytes.
const MTU: u32 = 1500;
/// In packets.
const REPLAY_WINDOW: u32 = 128;
const LAN: u32 = 2;
const WAN: u32 = 3;
const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 10);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const MAC_LAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_WAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MAC_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const MAC_PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);
