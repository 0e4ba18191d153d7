//! A device in memory, of either placement, by the software path: the contract is held against it, and by it
//! what the contract cannot make happen, a device that goes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crypto::{Engine, Job, JobStatus, Op, Provider, Suite};
use engine_openssl::OpensslProvider;
use esp::{IvSource, LiveNumbers, NumbersLeft, Opened, Sa};
use offload::{
    Attribute, Burst, Capabilities, Completion, CryptoWork, Device, Event, Failure, HandleError,
    Invalid, Live, NewPolicy, NewSa, Placement, PolicyHandle, PutError, Queue, Request,
    SaDirection, SaHandle, Status, Work,
};
use outcome::DropReason;
use policy::{Action, Direction, PolicyConfig, SaConfig};
use wire::{Span, parse_ip};

#[test]
fn packet_offload_in_memory_keeps_the_contract() {
    offload::contract::check(&mut Memory::new(Placement::Packet));
}

#[test]
fn crypto_offload_in_memory_keeps_the_contract() {
    offload::contract::check(&mut Memory::new(Placement::Crypto));
}

#[test]
fn a_device_that_goes_gives_every_buffer_back() {
    let mut memory = Memory::new(Placement::Packet);
    let device: &mut dyn Device<Vec<u8>> = &mut memory;
    let mut queue = device.queue().unwrap();
    let request = || Request { buffer: vec![0x45; 40], work: Work::Outbound };
    let mut requests: Burst<_> = (0..3).map(|_| request()).collect();
    assert_eq!(queue.submit(&mut requests), 3);
    memory.unplug();
    let device: &mut dyn Device<Vec<u8>> = &mut memory;
    requests.push(request());
    assert_eq!(queue.submit(&mut requests), 1, "it comes back, as the others");
    let mut completions = Burst::new();
    assert_eq!(queue.poll(&mut completions), 4);
    assert!(completions.iter().all(|c| c.status == Status::Lost && c.buffer.len() == 40));
    assert_eq!(queue.in_flight(), 0);
    assert_eq!(device.event(), Some(Event::Gone));
    assert_eq!(device.event(), None);
    assert_eq!(device.check(), Err(Failure::Gone));
    assert_eq!(device.live(SaHandle(1)), Err(HandleError::Failed(Failure::Gone)));
    assert!(matches!(device.queue(), Err(PutError::Failed(Failure::Gone))));
}

/// An SA in the device.
struct Placed {
    direction: SaDirection,
    config: SaConfig,
    sa: Sa,
    /// Events that were given: soft, hard, numbers low, numbers exhausted.
    told: [bool; 4],
}

impl Placed {
    fn tell(&mut self, which: usize, event: Event, events: &mut VecDeque<Event>) {
        if !core::mem::replace(&mut self.told[which], true) {
            events.push_back(event);
        }
    }

    /// True if a packet may no longer be carried.
    fn is_over(&self) -> bool {
        let cells = self.sa.live();
        cells.packets().load(Relaxed) >= self.config.limits.hard_packets
            || cells.bytes().load(Relaxed) >= self.config.limits.hard_bytes
    }

    /// Tells of limits that were reached.
    fn tell_limits(&mut self, handle: SaHandle, events: &mut VecDeque<Event>) {
        let (packets, bytes) =
            (self.sa.live().packets().load(Relaxed), self.sa.live().bytes().load(Relaxed));
        let l = self.config.limits;
        if packets >= l.soft_packets || bytes >= l.soft_bytes {
            self.tell(0, Event::SoftLimit(handle), events);
        }
        if packets >= l.hard_packets || bytes >= l.hard_bytes {
            self.tell(1, Event::HardLimit(handle), events);
        }
        let is_outbound = self.direction == SaDirection::Outbound;
        if is_outbound && self.sa.numbers_left() != NumbersLeft::Ample {
            self.tell(2, Event::NumbersLow(handle), events);
        }
    }
}

/// State that the device and its queue share.
struct Shared {
    placement: Placement,
    is_gone: bool,
    engine: Box<dyn Engine>,
    ivs: IvSource,
    sas: BTreeMap<SaHandle, Placed>,
    policies: BTreeMap<PolicyHandle, (PolicyConfig, Option<SaHandle>)>,
    events: VecDeque<Event>,
}

impl Shared {
    fn work(&mut self, request: &mut Request<Vec<u8>>) -> Status {
        let result = match (self.placement, request.work) {
            _ if self.is_gone => return Status::Lost,
            (Placement::Packet, Work::Outbound) => self.outbound(&mut request.buffer),
            (Placement::Packet, Work::Inbound) => self.inbound(&mut request.buffer),
            (Placement::Crypto, Work::Seal(work)) => {
                self.cipher(Op::Seal, work, &mut request.buffer).map_err(|_| DropReason::OutCrypto)
            }
            (Placement::Crypto, Work::Open(work)) => {
                self.cipher(Op::Open, work, &mut request.buffer)
            }
            _ => Err(DropReason::OutUnsupported),
        };
        result.map_or_else(Status::Dropped, |()| Status::Done)
    }

    fn cipher(&mut self, op: Op, work: CryptoWork, packet: &mut [u8]) -> Result<(), DropReason> {
        let placed = self.sas.get(&work.sa).ok_or(DropReason::InCrypto)?;
        let esp = packet.get_mut(work.esp.range()).ok_or(DropReason::InCrypto)?;
        let mut jobs = [Job::esp(placed.sa.session(), op, esp, work.seq_hi)];
        self.engine.run(&mut jobs);
        match jobs[0].status {
            JobStatus::Done => Ok(()),
            JobStatus::BadIcv => Err(DropReason::InIntegrity),
            _ => Err(DropReason::InCrypto),
        }
    }

    /// The policy that decides about a packet.
    fn policy(
        &self,
        direction: Direction,
        packet: &[u8],
    ) -> Option<&(PolicyConfig, Option<SaHandle>)> {
        let headers = parse_ip(packet).ok()?;
        let policies = self.policies.values();
        policies
            .filter(|(p, _)| p.direction == direction && p.selector.matches(&headers))
            .min_by_key(|(p, _)| p.priority)
    }

    fn outbound(&mut self, buffer: &mut Vec<u8>) -> Result<(), DropReason> {
        const ROOM: usize = 128;
        let headers = parse_ip(buffer).map_err(|_| DropReason::MalformedIp)?;
        let handle = match self.policy(Direction::Out, buffer) {
            Some((PolicyConfig { action: Action::Allow, .. }, Some(sa))) => *sa,
            Some((PolicyConfig { action: Action::Allow, .. }, None)) => return Ok(()),
            _ => return Err(DropReason::OutPolicyBlock),
        };
        let placed = self.sas.get_mut(&handle).ok_or(DropReason::OutNoState)?;
        if placed.is_over() {
            return Err(DropReason::OutStateExpired);
        }
        let mut buf = vec![0; ROOM];
        buf.extend_from_slice(buffer);
        buf.resize(buf.len() + ROOM, 0);
        let span = Span { start: ROOM, len: buffer.len() };
        let Some(number) = placed.sa.lease(1).ok().and_then(|mut lease| lease.next()) else {
            placed.tell(3, Event::NumbersExhausted(handle), &mut self.events);
            return Err(DropReason::OutSequenceExhausted);
        };
        let bytes = placed.sa.payload_len(buffer, &headers)? as u64;
        let sealing =
            placed.sa.seal_prepare(&mut buf, span, &headers, number, &mut self.ivs, 9000)?;
        let esp = &mut buf[sealing.esp.range()];
        let mut jobs = [Job::esp(placed.sa.session(), Op::Seal, esp, sealing.seq_hi)];
        self.engine.run(&mut jobs);
        let status = jobs[0].status;
        let sealed = placed.sa.seal_finish(&mut buf, &sealing, status)?;
        placed.sa.live().count(bytes, 1);
        placed.tell_limits(handle, &mut self.events);
        *buffer = buf[sealed.range()].to_vec();
        Ok(())
    }

    fn inbound(&mut self, buffer: &mut Vec<u8>) -> Result<(), DropReason> {
        let headers = parse_ip(buffer).map_err(|_| DropReason::MalformedIp)?;
        let start = usize::from(headers.header_len);
        let spi = buffer.get(start..).and_then(|esp| esp.first_chunk()).copied();
        let spi = spi.map(u32::from_be_bytes);
        let is_it = |placed: &Placed| {
            let p = &placed.config.params;
            placed.direction == SaDirection::Inbound && p.dst == headers.dst && Some(p.spi) == spi
        };
        let placed = self.sas.iter_mut().find(|(_, placed)| is_it(placed));
        let (handle, placed) = placed.ok_or(DropReason::InNoState)?;
        if placed.is_over() {
            return Err(DropReason::InStateExpired);
        }
        let outer = Span { start: 0, len: buffer.len() };
        let esp = Span { start, len: buffer.len() - start };
        let opening = placed.sa.open_prepare(buffer, esp)?;
        let mut jobs =
            [Job::esp(placed.sa.session(), Op::Open, &mut buffer[esp.range()], opening.seq_hi)];
        self.engine.run(&mut jobs);
        let status = jobs[0].status;
        let opened = placed.sa.open_finish(buffer, outer, &headers, &opening, status, 1)?;
        placed.tell_limits(*handle, &mut self.events);
        let reqid = placed.config.reqid;
        let Opened::Packet { span, .. } = opened else { return Err(DropReason::InInnerHeader) };
        *buffer = buffer[span.range()].to_vec();
        match self.policy(Direction::In, buffer) {
            Some((policy, _)) if policy.templates.iter().all(|t| t.reqid == reqid) => Ok(()),
            _ => Err(DropReason::InPolicy),
        }
    }
}

/// A device in memory.
struct Memory {
    provider: OpensslProvider,
    capabilities: Capabilities,
    shared: Arc<Mutex<Shared>>,
    next: u32,
}

impl Memory {
    fn new(placement: Placement) -> Memory {
        let provider = OpensslProvider::new().unwrap();
        let shared = Shared {
            placement,
            is_gone: false,
            engine: provider.engine().unwrap(),
            ivs: IvSource::from_seed([3; 32]),
            sas: BTreeMap::new(),
            policies: BTreeMap::new(),
            events: VecDeque::new(),
        };
        let supported = Suite::all().filter(|suite| provider.supports(*suite));
        let capabilities = Capabilities {
            placement,
            // Some are missing, so that a refusal is met.
            suites: supported.filter(|suite| suite.icv_len_bytes() == 16).collect(),
            has_tunnel: true,
            has_transport: false,
            has_ah: false,
            has_mixed_families: false,
            has_esn: placement == Placement::Crypto,
            has_udp_encap: false,
            has_tfc: false,
            has_flags: false,
            has_scopes: false,
            has_sa_selectors: false,
            replay_windows: 64..=1024,
            most_volume: u64::MAX >> 1,
            most_reqid: 1000,
            most_priority: u32::MAX,
            most_sas: 20,
            most_addresses: usize::MAX,
            most_policies: 20,
            is_ordered: true,
            most_packet_len: 65_535,
            has_options: true,
            has_fragments: false,
        };
        Memory { provider, capabilities, shared: Arc::new(Mutex::new(shared)), next: 0 }
    }

    fn unplug(&mut self) {
        let mut shared = self.shared.lock().unwrap();
        shared.is_gone = true;
        shared.events.push_back(Event::Gone);
    }

    fn next(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

fn live(placed: &Placed) -> Live {
    let (cells, replay) = (placed.sa.live(), placed.sa.replay());
    let (bytes, packets) = (cells.bytes().load(Relaxed), cells.packets().load(Relaxed));
    if placed.direction == SaDirection::Outbound {
        return Live { number: cells.sent().load(Relaxed), received: vec![], bytes, packets };
    }
    let edge = replay.edge();
    let mut received = vec![0_u64; replay.size().div_ceil(64) as usize];
    for back in (0..u64::from(replay.size()).min(edge)).filter(|back| replay.seen(edge - back)) {
        received[(back / 64) as usize] |= 1 << (back % 64);
    }
    Live { number: edge, received, bytes, packets }
}

impl Device<Vec<u8>> for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn put_sa(&mut self, new: NewSa<'_>) -> Result<SaHandle, PutError> {
        self.check()?;
        let config = new.config;
        self.capabilities.check_sa(config).map_err(PutError::Unsupported)?;
        let handle = SaHandle(self.next());
        let mut shared = self.shared.lock().unwrap();
        let same = |placed: &&Placed| placed.direction == new.direction;
        let mut others = shared.sas.values().filter(same);
        if new.direction == SaDirection::Inbound
            && others.any(|other| other.config.id() == config.id())
        {
            return Err(Invalid::Exists.into());
        }
        let most = self.capabilities.most_sas;
        if shared.sas.values().filter(same).count() >= most {
            return Err(PutError::Full { what: "SAs", most });
        }
        let params = config.params.clone();
        let session = self.provider.session(params.suite, new.keys).map_err(|_| Invalid::Keys)?;
        let window = params.replay_window;
        let sa = Sa::new(params, session, LiveNumbers::on_heap(window))
            .map_err(|_| Failure::Broken("an SA that was checked is refused"))?;
        let start = new.start;
        let word = |back: u64| start.received.get((back / 64) as usize).unwrap_or(&u64::MAX);
        match new.direction {
            SaDirection::Outbound => sa.live().sent().store(start.number, Relaxed),
            SaDirection::Inbound => sa.replay().restore(start.number, |number| {
                let back = start.number - number;
                word(back) >> (back % 64) & 1 == 1
            }),
        }
        sa.live().bytes().store(start.bytes, Relaxed);
        sa.live().packets().store(start.packets, Relaxed);
        let placed =
            Placed { direction: new.direction, config: config.clone(), sa, told: [false; 4] };
        shared.sas.insert(handle, placed);
        Ok(handle)
    }

    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.check()?;
        let mut shared = self.shared.lock().unwrap();
        if let Some((user, _)) = shared.policies.iter().find(|(_, (_, used))| *used == Some(sa)) {
            return Err(HandleError::InUse(*user));
        }
        shared.sas.remove(&sa).map(|placed| live(&placed)).ok_or(HandleError::Unknown)
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.check()?;
        self.shared.lock().unwrap().sas.get(&sa).map(live).ok_or(HandleError::Unknown)
    }

    fn put_policy(&mut self, new: NewPolicy<'_>) -> Result<PolicyHandle, PutError> {
        self.check()?;
        self.capabilities.check_policy(new.config).map_err(PutError::Unsupported)?;
        let handle = PolicyHandle(self.next());
        let mut shared = self.shared.lock().unwrap();
        let needs_sa = new.config.direction == Direction::Out && !new.config.templates.is_empty();
        let has_sa = new.sa.is_some_and(|sa| shared.sas.contains_key(&sa));
        if needs_sa != has_sa || new.sa.is_some() != has_sa {
            return Err(Invalid::PolicySa.into());
        }
        shared.policies.insert(handle, (new.config.clone(), new.sa));
        Ok(handle)
    }

    fn switch_policy(&mut self, policy: PolicyHandle, sa: SaHandle) -> Result<(), HandleError> {
        self.check()?;
        let mut shared = self.shared.lock().unwrap();
        if !shared.sas.contains_key(&sa) {
            return Err(HandleError::Unknown);
        }
        let (_, used) = shared.policies.get_mut(&policy).ok_or(HandleError::Unknown)?;
        *used = Some(sa);
        Ok(())
    }

    fn remove_policy(&mut self, policy: PolicyHandle) -> Result<(), HandleError> {
        self.check()?;
        let mut shared = self.shared.lock().unwrap();
        shared.policies.remove(&policy).map(|_| ()).ok_or(HandleError::Unknown)
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<Vec<u8>>>, PutError> {
        self.check()?;
        Ok(Box::new(MemoryQueue { shared: Arc::clone(&self.shared), inside: VecDeque::new() }))
    }

    fn event(&mut self) -> Option<Event> {
        self.shared.lock().unwrap().events.pop_front()
    }

    fn check(&mut self) -> Result<(), Failure> {
        if self.shared.lock().unwrap().is_gone { Err(Failure::Gone) } else { Ok(()) }
    }
}

/// Packets that wait for a poll.
struct MemoryQueue {
    shared: Arc<Mutex<Shared>>,
    inside: VecDeque<Request<Vec<u8>>>,
}

impl Queue<Vec<u8>> for MemoryQueue {
    fn submit(&mut self, requests: &mut Burst<Request<Vec<u8>>>) -> usize {
        let count = requests.len().min(self.depth() - self.inside.len());
        self.inside.extend(requests.drain(..count));
        count
    }

    fn poll(&mut self, completions: &mut Burst<Completion<Vec<u8>>>) -> usize {
        let count = completions.remaining_capacity().min(self.inside.len());
        let mut shared = self.shared.lock().unwrap();
        for mut request in self.inside.drain(..count) {
            let status = shared.work(&mut request);
            let Request { buffer, work } = request;
            completions.push(Completion { buffer, work, status });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inside.len()
    }

    fn depth(&self) -> usize {
        40
    }
}

#[test]
fn attributes_read_well() {
    let suite = Suite::ChaCha20Poly1305;
    let error = PutError::Unsupported(Attribute::Suite(suite));
    assert_eq!(error.to_string(), "the device does not do this: suite chacha20poly1305");
}
