//! The simulated gateway as an [`offload::Device`]: packet offload.
//!
//! A completion with [`Status::Done`] has whichever packet came out next, in whichever buffer of its direction is the
//! oldest; a dropped packet is known by the gateway's counters alone. The simulation's clock runs while
//! a queue is polled.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crypto::Suite;
use offload::{
    Attribute, Buffer, Burst, Capabilities, Completion, Device, Event, Failure, HandleError,
    Invalid, Live, NewPolicy, NewSa, Placement, PolicyHandle, PutError, Queue, Request,
    SaDirection, SaHandle, Status, Work,
};
use outcome::DropReason;
use policy::{PolicyConfig, PortMask, Prefix};

use crate::registers::{
    self, Counters, DROPS, Drop, EventKind, POLICY_BITS, REPLAY_WINDOW, SA_BITS,
};
use crate::sa::{Limits, Sa, SaError, SaIndex};
use crate::selector::{Action, Policy, Selector};
use crate::simulation::{Side, Simulation};
use crate::tables::{Direction, PolicyIndex, SaUse, TableError, Tables};

/// A simulated gateway, shared by the device, its queue, and a test that looks on.
pub type SharedSimulation = Arc<Mutex<Simulation>>;

/// The gateway with its tables.
///
/// Give it a simulation after reset. There is one queue.
pub struct GatewayDevice {
    gateway: SharedSimulation,
    tables: Tables,
    capabilities: Capabilities,
    /// Which policies' packets give way to others inside the gateway; XFRM has no word for it.
    is_low_class: fn(&PolicyConfig) -> bool,
    sas: BTreeMap<SaHandle, Placed>,
    policies: BTreeMap<PolicyHandle, (Direction, PolicyIndex)>,
    next_handle: u32,
    /// Taken from the gateway, and not asked for yet.
    events: VecDeque<Event>,
    has_queue: bool,
}

/// An SA in the gateway.
#[derive(Clone, Copy, Debug)]
struct Placed {
    direction: Direction,
    index: SaIndex,
    /// The number at which a soft event means that numbers run out.
    low: Option<u64>,
}

impl GatewayDevice {
    /// For a gateway that is empty.
    ///
    /// # Errors
    /// As [`Tables::new`].
    pub fn new(
        gateway: SharedSimulation,
        is_low_class: fn(&PolicyConfig) -> bool,
    ) -> Result<GatewayDevice, TableError> {
        let tables = Tables::new(&mut *lock(&gateway))?;
        Ok(GatewayDevice {
            gateway,
            tables,
            capabilities: capabilities(),
            is_low_class,
            sas: BTreeMap::new(),
            policies: BTreeMap::new(),
            next_handle: 1,
            events: VecDeque::new(),
            has_queue: false,
        })
    }

    fn handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Takes what the gateway tells. Before a place gets another SA, so that events stay with theirs.
    fn take_events(&mut self) {
        loop {
            let Some(event) = registers::Event::take(&mut *lock(&self.gateway)) else { return };
            let direction = if event.inbound { Direction::Inbound } else { Direction::Outbound };
            let of = |placed: &Placed| (placed.direction, placed.index.0) == (direction, event.sa);
            let found = self.sas.iter().find(|(_, placed)| of(placed));
            let Some((handle, placed)) = found.map(|(handle, placed)| (*handle, *placed)) else {
                continue;
            };
            let event = match event.kind {
                EventKind::Hard => Event::HardLimit(handle),
                EventKind::Numbers => Event::NumbersExhausted(handle),
                EventKind::Soft if self.is_low(placed) => Event::NumbersLow(handle),
                EventKind::Soft => Event::SoftLimit(handle),
            };
            self.events.push_back(event);
        }
    }

    fn is_low(&mut self, placed: Placed) -> bool {
        let Some(low) = placed.low else { return false };
        let used = self.tables.sa_use(&mut *lock(&self.gateway), placed.direction, placed.index);
        used.is_ok_and(|used| used.number >= low)
    }

    /// The gateway's SA, and the number at which numbers run out.
    fn sa(&self, new: &NewSa<'_>) -> Result<(Sa, Option<u64>), PutError> {
        let config = new.config;
        self.capabilities.check_sa(config).map_err(PutError::Unsupported)?;
        let mut sa = Sa::of(&config.params, new.keys).map_err(|error| sa_error(error, new))?;
        // `check_sa` knows the largest reqid.
        sa.reqid = config.reqid as u16;
        let limit = |limit: u64| if limit == u64::MAX { 0 } else { limit };
        sa.limits = Limits {
            soft_bytes: limit(config.limits.soft_bytes),
            hard_bytes: limit(config.limits.hard_bytes),
            soft_packets: limit(config.limits.soft_packets),
            hard_packets: limit(config.limits.hard_packets),
        };
        if new.direction == SaDirection::Inbound || sa.esn {
            return Ok((sa, None));
        }
        // The gateway tells of no numbers that run out, but each outbound packet takes one.
        let low = LAST_NUMBER - LAST_NUMBER / 16;
        let until = new.start.packets + low.saturating_sub(new.start.number).max(1);
        let is_sooner = sa.limits.soft_packets == 0 || until < sa.limits.soft_packets;
        if is_sooner {
            sa.limits.soft_packets = until;
        }
        Ok((sa, is_sooner.then_some(low)))
    }

    fn policy(&self, new: &NewPolicy<'_>) -> Result<(Direction, Policy), PutError> {
        let config = new.config;
        self.capabilities.check_policy(config).map_err(PutError::Unsupported)?;
        let wanted = PutError::Invalid(Invalid::PolicySa);
        let direction = match config.direction {
            policy::Direction::Out => Direction::Outbound,
            policy::Direction::In | policy::Direction::Forward => Direction::Inbound,
        };
        let action = match (config.action, config.templates.first(), direction, new.sa) {
            (policy::Action::Block, _, _, None) => Action::Discard,
            (policy::Action::Allow, None, _, None) => Action::Bypass,
            (policy::Action::Allow, Some(template), Direction::Inbound, None) => {
                Action::Require(template.reqid as u16)
            }
            (policy::Action::Allow, Some(_), Direction::Outbound, Some(sa)) => {
                Action::Protect(self.outbound(sa).ok_or(wanted)?)
            }
            _ => return Err(wanted),
        };
        let s = &config.selector;
        let net = |prefix: Prefix| (prefix.addr, prefix.len);
        let port = |port: PortMask| (port.mask != 0).then_some(port.value);
        let selector = Selector {
            src: net(s.src),
            dst: net(s.dst),
            protocol: (s.protocol != 0).then_some(s.protocol),
            src_port: port(s.src_port),
            dst_port: port(s.dst_port),
        };
        let is_low_class = (self.is_low_class)(config);
        // `check_policy` knows the largest priority.
        Ok((direction, Policy { selector, action, priority: config.priority as u16, is_low_class }))
    }

    fn outbound(&self, sa: SaHandle) -> Option<SaIndex> {
        let placed = self.sas.get(&sa)?;
        (placed.direction == Direction::Outbound).then_some(placed.index)
    }
}

impl<B: Buffer> Device<B> for GatewayDevice {
    fn name(&self) -> &str {
        "simulated gateway"
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn put_sa(&mut self, sa: NewSa<'_>) -> Result<SaHandle, PutError> {
        let direction = match sa.direction {
            SaDirection::Outbound => Direction::Outbound,
            SaDirection::Inbound => Direction::Inbound,
        };
        let (entry, low) = self.sa(&sa)?;
        let used = used(sa.start);
        self.take_events();
        let index = self
            .tables
            .add_used_sa(&mut *lock(&self.gateway), direction, entry, &used)
            .map_err(table_error)?;
        let handle = SaHandle(self.handle());
        self.sas.insert(handle, Placed { direction, index, low });
        Ok(handle)
    }

    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let placed = *self.sas.get(&sa).ok_or(HandleError::Unknown)?;
        let used = self
            .tables
            .remove_sa(&mut *lock(&self.gateway), placed.direction, placed.index)
            .map_err(|error| self.handle_error(&error))?;
        self.take_events();
        self.sas.remove(&sa);
        Ok(live(&used))
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let placed = *self.sas.get(&sa).ok_or(HandleError::Unknown)?;
        let used = self
            .tables
            .sa_use(&mut *lock(&self.gateway), placed.direction, placed.index)
            .map_err(|error| self.handle_error(&error))?;
        Ok(live(&used))
    }

    fn put_policy(&mut self, policy: NewPolicy<'_>) -> Result<PolicyHandle, PutError> {
        let (direction, entry) = self.policy(&policy)?;
        let index = self
            .tables
            .add_policy(&mut *lock(&self.gateway), direction, entry)
            .map_err(table_error)?;
        let handle = PolicyHandle(self.handle());
        self.policies.insert(handle, (direction, index));
        Ok(handle)
    }

    fn switch_policy(&mut self, policy: PolicyHandle, sa: SaHandle) -> Result<(), HandleError> {
        let (direction, index) = *self.policies.get(&policy).ok_or(HandleError::Unknown)?;
        let sa = self.outbound(sa).ok_or(HandleError::Unknown)?;
        if direction != Direction::Outbound {
            return Err(HandleError::Unknown);
        }
        self.tables
            .change_sa(&mut *lock(&self.gateway), index, sa)
            .map_err(|error| self.handle_error(&error))
    }

    fn remove_policy(&mut self, policy: PolicyHandle) -> Result<(), HandleError> {
        let (direction, index) = *self.policies.get(&policy).ok_or(HandleError::Unknown)?;
        self.tables
            .remove_policy(&mut *lock(&self.gateway), direction, index)
            .map_err(|error| self.handle_error(&error))?;
        self.policies.remove(&policy);
        Ok(())
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError> {
        if core::mem::replace(&mut self.has_queue, true) {
            return Err(PutError::Full { what: "queues", most: 1 });
        }
        let half = |inbound| {
            let counters = Counters::read(&mut *lock(&self.gateway), inbound);
            let mut told = [0; DROPS];
            Drop::ALL.iter().for_each(|reason| told[*reason as usize] = counters.dropped(*reason));
            Half { buffers: VecDeque::with_capacity(DEPTH), told }
        };
        Ok(Box::new(GatewayQueue {
            gateway: Arc::clone(&self.gateway),
            halves: [half(false), half(true)],
            refused: VecDeque::with_capacity(DEPTH),
        }))
    }

    fn event(&mut self) -> Option<Event> {
        self.take_events();
        self.events.pop_front()
    }

    fn check(&mut self) -> Result<(), Failure> {
        match crate::Registers::read(&mut *lock(&self.gateway), registers::REG_MAGIC) {
            registers::MAGIC => Ok(()),
            _ => Err(Failure::Gone),
        }
    }
}

impl GatewayDevice {
    fn handle_error(&self, error: &TableError) -> HandleError {
        match error {
            TableError::InUse(index) => self
                .policies
                .iter()
                .find(|(_, place)| **place == (Direction::Outbound, *index))
                .map_or(HandleError::Unknown, |(handle, _)| HandleError::InUse(*handle)),
            TableError::Missing { .. } => HandleError::Unknown,
            _ => HandleError::Failed(Failure::Unresponsive),
        }
    }
}

impl fmt::Debug for GatewayDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatewayDevice({} SAs, {} policies)", self.sas.len(), self.policies.len())
    }
}

/// Both directions of the gateway.
struct GatewayQueue<B> {
    gateway: SharedSimulation,
    halves: [Half<B>; 2],
    /// Requests of crypto offload, which the gateway does not do.
    refused: VecDeque<Request<B>>,
}

/// One direction.
struct Half<B> {
    /// Of packets that are inside, the oldest first.
    buffers: VecDeque<B>,
    /// Dropped packets that were told, by reason.
    told: [u64; DROPS],
}

impl<B: Buffer> Queue<B> for GatewayQueue<B> {
    fn submit(&mut self, requests: &mut Burst<Request<B>>) -> usize {
        let mut gateway = lock(&self.gateway);
        let before = requests.len();
        while let Some(request) = requests.first() {
            let (half, side) = match request.work {
                Work::Outbound => (&mut self.halves[0], Side::Protected),
                Work::Inbound => (&mut self.halves[1], Side::Unprotected),
                Work::Seal(_) | Work::Open(_) if self.refused.len() < DEPTH => {
                    self.refused.extend(requests.pop_at(0));
                    continue;
                }
                Work::Seal(_) | Work::Open(_) => break,
            };
            if half.buffers.len() >= DEPTH || gateway.queued(side) >= RING {
                break;
            }
            let Some(Request { buffer, .. }) = requests.pop_at(0) else { break };
            gateway.push(side, buffer.packet());
            half.buffers.push_back(buffer);
        }
        before - requests.len()
    }

    fn poll(&mut self, completions: &mut Burst<Completion<B>>) -> usize {
        let before = completions.len();
        while !completions.is_full()
            && let Some(Request { buffer, work }) = self.refused.pop_front()
        {
            let status = Status::Dropped(DropReason::OutUnsupported);
            completions.push(Completion { buffer, work, status });
        }
        let mut gateway = lock(&self.gateway);
        gateway.tick(POLL_CYCLES);
        let [outbound, inbound] = &mut self.halves;
        outbound.poll(&mut gateway, Work::Outbound, completions);
        inbound.poll(&mut gateway, Work::Inbound, completions);
        completions.len() - before
    }

    fn in_flight(&self) -> usize {
        self.halves.iter().map(|half| half.buffers.len()).sum::<usize>() + self.refused.len()
    }

    fn depth(&self) -> usize {
        3 * DEPTH
    }
}

impl<B: Buffer> Half<B> {
    fn poll(
        &mut self,
        gateway: &mut Simulation,
        work: Work,
        completions: &mut Burst<Completion<B>>,
    ) {
        let inbound = work == Work::Inbound;
        let side = if inbound { Side::Protected } else { Side::Unprotected };
        let before = completions.len();
        while !completions.is_full()
            && !self.buffers.is_empty()
            && let Some(packet) = gateway.pull(side)
            && let Some(mut buffer) = self.buffers.pop_front()
        {
            let status = match buffer.set_packet(&packet) {
                Ok(()) => Status::Done,
                Err(_) => Status::Dropped(DropReason::OutNoRoom),
            };
            completions.push(Completion { buffer, work, status });
        }
        // Reading the counters takes hundreds of cycles: only while nothing comes out.
        if completions.len() > before || self.buffers.is_empty() {
            return;
        }
        let now = Counters::read(gateway, inbound);
        for reason in Drop::ALL {
            let told = &mut self.told[reason as usize];
            while *told < now.dropped(reason)
                && !completions.is_full()
                && let Some(buffer) = self.buffers.pop_front()
            {
                *told += 1;
                let status = Status::Dropped(drop_reason(reason, inbound));
                completions.push(Completion { buffer, work, status });
            }
        }
    }
}

/// Packets of one direction that are inside at most: fewer than any replay window has.
const DEPTH: usize = 64;

/// Packets that wait at an input at most.
const RING: usize = 8;

/// Clock cycles of one poll.
const POLL_CYCLES: u64 = 50;

/// The last number without extended sequence numbers.
const LAST_NUMBER: u64 = u32::MAX as u64;

fn lock(gateway: &SharedSimulation) -> MutexGuard<'_, Simulation> {
    gateway.lock().unwrap_or_else(PoisonError::into_inner)
}

fn capabilities() -> Capabilities {
    let suites = Suite::all().filter(|suite| Sa::has(*suite)).collect();
    Capabilities {
        placement: Placement::Packet,
        suites,
        has_tunnel: true,
        has_transport: true,
        has_ah: false,
        has_mixed_families: false,
        has_esn: true,
        has_udp_encap: false,
        has_tfc: false,
        has_flags: false,
        has_scopes: false,
        has_sa_selectors: false,
        replay_windows: 1..=REPLAY_WINDOW,
        most_volume: (1 << 48) - 1,
        most_reqid: (1 << SA_BITS) - 1,
        most_priority: u16::MAX.into(),
        most_sas: 1 << SA_BITS,
        most_addresses: usize::MAX,
        most_policies: 1 << POLICY_BITS,
        is_ordered: false,
        most_packet_len: 65_535,
        has_options: true,
        has_fragments: false,
    }
}

/// The gateway's form of an SA's numbers.
fn used(live: &Live) -> SaUse {
    // Nothing was received before the first number.
    let word = |place: usize| live.received.get(place).copied().unwrap_or(u64::MAX);
    let window = match live.number {
        0 => 1,
        _ => u128::from(word(1)) << 64 | u128::from(word(0)) | 1,
    };
    SaUse { number: live.number, window, bytes: live.bytes, packets: live.packets }
}

fn live(used: &SaUse) -> Live {
    Live {
        number: used.number,
        received: vec![used.window as u64, (used.window >> 64) as u64],
        bytes: used.bytes,
        packets: used.packets,
    }
}

/// What [`Capabilities::check_sa`] has let through, and the gateway not.
fn sa_error(error: SaError, new: &NewSa<'_>) -> PutError {
    let suite = new.config.params.suite;
    match error {
        SaError::KeyLen { .. } | SaError::Auth if !new.keys.fit(suite) => Invalid::Keys.into(),
        SaError::KeyLen { len, .. } => PutError::Unsupported(Attribute::AuthKey(len)),
        SaError::Suite(_) | SaError::Auth => PutError::Unsupported(Attribute::Suite(suite)),
        SaError::Feature(_) => PutError::Unsupported(Attribute::Flags),
        SaError::Window(len) => PutError::Unsupported(Attribute::ReplayWindow(len)),
        SaError::Family(..) => PutError::Unsupported(Attribute::Families),
        SaError::Reqid(reqid) => PutError::Unsupported(Attribute::Reqid(reqid.into())),
        SaError::Limit(limit) => PutError::Unsupported(Attribute::Limit(limit)),
        SaError::HashKey => Failure::Broken("the hash key could not be computed").into(),
    }
}

fn table_error(error: TableError) -> PutError {
    match error {
        TableError::Full { what, most } => PutError::Full { what, most },
        TableError::SpiTaken(_) | TableError::SelectorTaken(_) => Invalid::Exists.into(),
        TableError::Selector => Invalid::Selector.into(),
        TableError::Missing { .. } | TableError::InUse(_) | TableError::Action(..) => {
            Invalid::PolicySa.into()
        }
        // The SA was checked before.
        TableError::Sa(_) => Failure::Broken("an SA that was checked is refused").into(),
        TableError::NotAGateway(_) | TableError::Sizes { .. } => Failure::Gone.into(),
        TableError::Stuck => Failure::Unresponsive.into(),
    }
}

/// The software path's word for a drop.
fn drop_reason(reason: Drop, inbound: bool) -> DropReason {
    let by = |out, back| if inbound { back } else { out };
    match reason {
        Drop::Header => DropReason::MalformedIp,
        Drop::TooLong => by(DropReason::OutTooBig, DropReason::MalformedIp),
        Drop::NoPolicy | Drop::Policy => by(DropReason::OutPolicyBlock, DropReason::InPolicyBlock),
        Drop::Mismatch => DropReason::InPolicy,
        Drop::NoSa => by(DropReason::OutNoState, DropReason::InNoState),
        Drop::HardLimit => by(DropReason::OutStateExpired, DropReason::InStateExpired),
        Drop::Numbers => DropReason::OutSequenceExhausted,
        Drop::ReplayLate => DropReason::InReplayOld,
        Drop::Replay => DropReason::InReplayDuplicate,
        Drop::Integrity => DropReason::InIntegrity,
        Drop::Padding => DropReason::InPadding,
        Drop::Inner => DropReason::InInnerHeader,
        Drop::Fragment => by(DropReason::OutMode, DropReason::FragmentTooLong),
        Drop::Short => DropReason::MalformedEsp,
        Drop::Unsupported => by(DropReason::OutUnsupported, DropReason::InCrypto),
    }
}
