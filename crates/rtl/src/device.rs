//! The simulated gateway as an [`offload::Device`]: packet offload.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard};

use offload::{
    Buffer, Capabilities, Device, DeviceCounters, Event, Failure, HandleError, Invalid, Live,
    NewPolicy, NewSa, PolicyHandle, PutError, Queue, SaDirection, SaHandle, TableUse,
};
use policy::{PolicyConfig, PortMask, Prefix, SaConfig};

use crate::convert::{capabilities, live, sa_error, table_error, used};
use crate::entries::{Direction, PolicyIndex, SaUse, TableError};
use crate::queue::{GatewayQueue, SharedSimulation, lock};
use crate::ranks::Ranks;
use crate::registers::{self, Counters, Drop, EventKind, POLICY_BITS, SA_BITS};
use crate::sa::{Limits, Sa, SaIndex};
use crate::selector::{Action, Policy, Selector};
use crate::serial::{SerialQueue, Shared};
use crate::simulation::Simulation;
use crate::tables::Tables;

/// The gateway with its tables.
///
/// Give it a simulation after reset. There is one queue, or any number if packets go through
/// [one by one](GatewayDevice::one_by_one).
pub struct GatewayDevice {
    name: String,
    gateway: SharedSimulation,
    tables: Tables,
    capabilities: Capabilities,
    /// Which policies' packets give way to others inside the gateway; XFRM has no word for it.
    is_low_class: fn(&PolicyConfig) -> bool,
    sas: BTreeMap<SaHandle, Placed>,
    policies: BTreeMap<PolicyHandle, PlacedPolicy>,
    ranks: [Ranks; 2],
    next_handle: u32,
    /// Taken from the gateway, and not asked for yet.
    events: VecDeque<Event>,
    has_queue: bool,
    /// Of queues that send packets through one by one.
    shared: Option<Arc<Shared>>,
    /// Counted before the gateway was last reset.
    before_reset: DeviceCounters,
}

/// A policy in the gateway.
#[derive(Clone, Copy, Debug)]
struct PlacedPolicy {
    direction: Direction,
    index: PolicyIndex,
    /// As XFRM has it.
    priority: u32,
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
            name: "simulated gateway".into(),
            gateway,
            tables,
            capabilities: capabilities(),
            is_low_class,
            sas: BTreeMap::new(),
            policies: BTreeMap::new(),
            ranks: [Ranks::default(), Ranks::default()],
            next_handle: 1,
            events: VecDeque::new(),
            has_queue: false,
            shared: None,
            before_reset: DeviceCounters::default(),
        })
    }

    /// With a name for people.
    pub fn named(self, name: &str) -> GatewayDevice {
        GatewayDevice { name: name.into(), ..self }
    }

    /// With queues in any number, which send packets through the gateway one by one, and so know of each what became of
    /// it and which SA opened it.
    pub fn one_by_one(mut self) -> GatewayDevice {
        self.shared = Some(Arc::default());
        self.capabilities.is_ordered = true;
        // The data path asks an SA's selector by itself, ahead of the device and behind it.
        self.capabilities.has_sa_selectors = true;
        self
    }

    fn handle(&mut self) -> u32 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Takes what the gateway tells. Before a place gets another SA, so that events stay with theirs.
    fn take_events(&mut self) {
        loop {
            let Some(event) =
                registers::Event::take(&mut *hold(&self.gateway, self.shared.as_deref()))
            else {
                return;
            };
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
        let used = self.tables.sa_use(
            &mut *hold(&self.gateway, self.shared.as_deref()),
            placed.direction,
            placed.index,
        );
        used.is_ok_and(|used| used.number >= low)
    }

    /// The gateway's SA, and the number at which numbers run out.
    fn sa(&self, new: &NewSa<'_>) -> Result<(Sa, Option<u64>), PutError> {
        // Outbound there is no window, whatever size is asked for.
        let mut config = SaConfig::clone(new.config);
        if new.direction == SaDirection::Outbound {
            config.params.replay_window = 1;
        }
        let config = &config;
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
        Ok((direction, Policy { selector, action, priority: 0, is_low_class }))
    }

    fn outbound(&self, sa: SaHandle) -> Option<SaIndex> {
        let placed = self.sas.get(&sa)?;
        (placed.direction == Direction::Outbound).then_some(placed.index)
    }
}

impl<B: Buffer> Device<B> for GatewayDevice {
    fn name(&self) -> &str {
        &self.name
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
            .add_used_sa(&mut *hold(&self.gateway, self.shared.as_deref()), direction, entry, &used)
            .map_err(table_error)?;
        let handle = SaHandle(self.handle());
        self.sas.insert(handle, Placed { direction, index, low });
        if let (Some(shared), Direction::Inbound) = (&self.shared, direction) {
            shared.add(sa.config, handle);
        }
        Ok(handle)
    }

    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let placed = *self.sas.get(&sa).ok_or(HandleError::Unknown)?;
        let used = self
            .tables
            .remove_sa(
                &mut *hold(&self.gateway, self.shared.as_deref()),
                placed.direction,
                placed.index,
            )
            .map_err(|error| self.handle_error(&error))?;
        self.take_events();
        self.sas.remove(&sa);
        if let Some(shared) = &self.shared {
            shared.remove(sa);
        }
        Ok(live(&used))
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let placed = *self.sas.get(&sa).ok_or(HandleError::Unknown)?;
        let used = self
            .tables
            .sa_use(
                &mut *hold(&self.gateway, self.shared.as_deref()),
                placed.direction,
                placed.index,
            )
            .map_err(|error| self.handle_error(&error))?;
        Ok(live(&used))
    }

    fn put_policy(&mut self, policy: NewPolicy<'_>) -> Result<PolicyHandle, PutError> {
        let (direction, entry) = self.policy(&policy)?;
        let priority = policy.config.priority;
        let ranks = &mut self.ranks[direction as usize];
        let rank =
            ranks.take(priority).ok_or(PutError::Full { what: "priorities", most: 1 << 16 })?;
        let entry = Policy { priority: rank, ..entry };
        let added = self.tables.add_policy(
            &mut *hold(&self.gateway, self.shared.as_deref()),
            direction,
            entry,
        );
        let index = added.map_err(|error| {
            self.ranks[direction as usize].give_back(priority);
            table_error(error)
        })?;
        let handle = PolicyHandle(self.handle());
        self.policies.insert(handle, PlacedPolicy { direction, index, priority });
        Ok(handle)
    }

    fn switch_policy(&mut self, policy: PolicyHandle, sa: SaHandle) -> Result<(), HandleError> {
        let PlacedPolicy { direction, index, .. } =
            *self.policies.get(&policy).ok_or(HandleError::Unknown)?;
        let sa = self.outbound(sa).ok_or(HandleError::Unknown)?;
        if direction != Direction::Outbound {
            return Err(HandleError::Unknown);
        }
        self.tables
            .change_sa(&mut *hold(&self.gateway, self.shared.as_deref()), index, sa)
            .map_err(|error| self.handle_error(&error))
    }

    fn remove_policy(&mut self, policy: PolicyHandle) -> Result<(), HandleError> {
        let PlacedPolicy { direction, index, priority } =
            *self.policies.get(&policy).ok_or(HandleError::Unknown)?;
        self.tables
            .remove_policy(&mut *hold(&self.gateway, self.shared.as_deref()), direction, index)
            .map_err(|error| self.handle_error(&error))?;
        self.ranks[direction as usize].give_back(priority);
        self.policies.remove(&policy);
        Ok(())
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError> {
        if let Some(shared) = &self.shared {
            return Ok(Box::new(SerialQueue::new(Arc::clone(&self.gateway), Arc::clone(shared))));
        }
        if core::mem::replace(&mut self.has_queue, true) {
            return Err(PutError::Full { what: "queues", most: 1 });
        }
        Ok(Box::new(GatewayQueue::new(Arc::clone(&self.gateway))))
    }

    fn event(&mut self) -> Option<Event> {
        self.take_events();
        self.events.pop_front()
    }

    fn check(&mut self) -> Result<(), Failure> {
        match crate::Registers::read(
            &mut *hold(&self.gateway, self.shared.as_deref()),
            registers::REG_MAGIC,
        ) {
            registers::MAGIC => Ok(()),
            _ => Err(Failure::Gone),
        }
    }

    fn tables(&self) -> Vec<TableUse> {
        let sas = |direction| self.sas.values().filter(|sa| sa.direction == direction).count();
        let policies = |direction| {
            self.policies.values().filter(|policy| policy.direction == direction).count()
        };
        let row = |name, used, bits: u32| TableUse { name, used, most: 1_usize << bits };
        vec![
            row("outbound SAs", sas(Direction::Outbound), SA_BITS),
            row("inbound SAs", sas(Direction::Inbound), SA_BITS),
            row("outbound policies", policies(Direction::Outbound), POLICY_BITS),
            row("inbound policies", policies(Direction::Inbound), POLICY_BITS),
        ]
    }

    fn counters(&self) -> DeviceCounters {
        let mut gateway = hold(&self.gateway, self.shared.as_deref());
        sum(self.before_reset, &mut gateway)
    }

    /// The SAs' states are read before the reset and written behind it: the gateway lets no SA go on without. Packets
    /// wait meanwhile, as the lock stands for the hardware.
    fn reset(&mut self) -> Result<(), Failure> {
        self.take_events();
        let mut gateway = hold(&self.gateway, self.shared.as_deref());
        let mut used = BTreeMap::<_, SaUse>::new();
        for placed in self.sas.values() {
            let (direction, index) = (placed.direction, placed.index);
            let sa_use = self.tables.sa_use(&mut *gateway, direction, index);
            used.insert((direction, index), sa_use.map_err(|_| Failure::Unresponsive)?);
        }
        self.before_reset = sum(self.before_reset, &mut gateway);
        self.before_reset.resets += 1;
        if let Some(shared) = &self.shared {
            shared.forget_drops();
        }
        gateway.reset();
        self.tables.restore(&mut *gateway, &used).map_err(|_| Failure::Unresponsive)
    }
}

/// The gateway for control, ahead of workers that want it too.
fn hold<'g>(gateway: &'g SharedSimulation, shared: Option<&Shared>) -> MutexGuard<'g, Simulation> {
    match shared {
        Some(shared) => shared.ahead(|| lock(gateway)),
        None => lock(gateway),
    }
}

/// Counters of the gateway, added to those of before its last reset.
fn sum(before: DeviceCounters, gateway: &mut Simulation) -> DeviceCounters {
    let (outbound, inbound) = (Counters::read(gateway, false), Counters::read(gateway, true));
    let wrong_icv = inbound.dropped(Drop::Integrity);
    DeviceCounters {
        sealed: before.sealed + outbound.packets_out,
        opened: before.opened + inbound.packets_out,
        wrong_icv: before.wrong_icv + wrong_icv,
        refused: before.refused + outbound.dropped_in_all() + inbound.dropped_in_all() - wrong_icv,
        resets: before.resets,
    }
}

impl GatewayDevice {
    fn handle_error(&self, error: &TableError) -> HandleError {
        match error {
            TableError::InUse(index) => self
                .policies
                .iter()
                .find(|(_, policy)| {
                    (policy.direction, policy.index) == (Direction::Outbound, *index)
                })
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

/// The last number without extended sequence numbers.
const LAST_NUMBER: u64 = u32::MAX as u64;
