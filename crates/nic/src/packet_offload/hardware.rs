//! The hardware: what becomes of a packet.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crypto::{Engine, Job, JobStatus, Op};
use esp::{IvSource, Opened};
use offload::{Buffer, DeviceCounters, Event, PolicyHandle, SaHandle, Status, Work};
use outcome::DropReason;
use policy::{Action, Direction, PolicyConfig};
use wire::{Fragment, Headers, Span, parse_ip};

use crate::packet_offload::policies::Policies;
use crate::packet_offload::sas::Sas;

/// A policy in the hardware, and the SA that it leads to.
pub(crate) struct Rule {
    pub config: PolicyConfig,
    pub sa: Option<SaHandle>,
}

/// State that the driver and the queues share.
pub(crate) struct Hardware {
    pub sas: Sas,
    pub rules: HashMap<PolicyHandle, Rule>,
    pub policies: Policies,
    pub events: VecDeque<Event>,
    pub counters: DeviceCounters,
    engine: Box<dyn Engine>,
    ivs: IvSource,
    most_packet_len: usize,
    /// The packet at hand, with room around it.
    scratch: Vec<u8>,
    is_gone: bool,
}

impl Hardware {
    pub fn new(engine: Box<dyn Engine>, ivs: IvSource, most_packet_len: usize) -> Hardware {
        Hardware {
            sas: Sas::default(),
            rules: HashMap::new(),
            policies: Policies::default(),
            events: VecDeque::new(),
            counters: DeviceCounters::default(),
            engine,
            ivs,
            most_packet_len,
            scratch: Vec::new(),
            is_gone: false,
        }
    }

    /// True if it has been unplugged.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Goes, with all that it has.
    pub fn unplug(&mut self) {
        self.is_gone = true;
        self.events.push_back(Event::Gone);
    }

    /// Works on a packet.
    pub fn work(&mut self, work: Work, buffer: &mut impl Buffer) -> Status {
        if self.is_gone {
            return Status::Lost;
        }
        let done = match work {
            Work::Outbound => self.outbound(buffer).map(|is_sealed| {
                self.counters.sealed += u64::from(is_sealed);
                Status::Done
            }),
            Work::Inbound => self.inbound(buffer).map(|sa| {
                self.counters.opened += 1;
                Status::Opened(sa)
            }),
            Work::Seal(_) | Work::Open(_) => Err(DropReason::OutUnsupported),
        };
        done.unwrap_or_else(|reason| {
            match reason {
                DropReason::InIntegrity => self.counters.wrong_icv += 1,
                _ => self.counters.refused += 1,
            }
            Status::Dropped(reason)
        })
    }

    fn rule(&self, direction: Direction, h: &Headers) -> Option<&Rule> {
        self.rules.get(&self.policies.find(direction, h)?)
    }

    /// A packet in clear: policy, SA, limits, number, headers, cipher. Whether an SA has sealed it.
    fn outbound(&mut self, buffer: &mut impl Buffer) -> Result<bool, DropReason> {
        let h = parse_ip(buffer.packet())?;
        if h.fragment != Fragment::Whole {
            return Err(DropReason::OutDeviceFragment);
        }
        let handle = match self.rule(Direction::Out, &h) {
            Some(Rule { config, sa: Some(sa) }) if config.action == Action::Allow => *sa,
            Some(Rule { config, sa: None }) if config.action == Action::Allow => return Ok(false),
            _ => return Err(DropReason::OutPolicyBlock),
        };
        let Hardware { sas, events, engine, ivs, scratch, most_packet_len, .. } = self;
        let placed = sas.get_mut(handle).ok_or(DropReason::OutNoState)?;
        if placed.is_over() {
            return Err(DropReason::OutStateExpired);
        }
        let len = usize::from(h.total_len);
        let packet = buffer.packet().get(..len).ok_or(DropReason::MalformedIp)?;
        let span = lay_out(scratch, packet);
        let bytes = placed.sa.payload_len(packet, &h)?;
        let Some(number) = placed.sa.lease(1).ok().and_then(|mut lease| lease.next()) else {
            placed.tell_exhausted(handle, events);
            return Err(DropReason::OutSequenceExhausted);
        };
        let sealing = placed.sa.seal_prepare(scratch, span, &h, number, ivs, *most_packet_len)?;
        let esp = scratch.get_mut(sealing.esp.range()).ok_or(DropReason::OutNoRoom)?;
        let mut jobs = [Job::esp(placed.sa.session(), Op::Seal, esp, sealing.seq_hi)];
        engine.run(&mut jobs);
        let status = jobs[0].status;
        let sealed = placed.sa.seal_finish(scratch, &sealing, status)?;
        placed.count(bytes);
        placed.tell_limits(handle, events);
        let sealed = scratch.get(sealed.range()).ok_or(DropReason::OutNoRoom)?;
        buffer.set_packet(sealed).map_err(|_| DropReason::OutNoRoom)?;
        Ok(true)
    }

    /// An ESP packet: SA, limits, window, cipher, selector, policy. The SA that has opened it.
    fn inbound(&mut self, buffer: &mut impl Buffer) -> Result<SaHandle, DropReason> {
        let h = parse_ip(buffer.packet())?;
        if h.fragment != Fragment::Whole {
            return Err(DropReason::InDeviceFragment);
        }
        let start = usize::from(h.header_len);
        let len = usize::from(h.total_len);
        let packet = buffer.packet().get(..len).ok_or(DropReason::MalformedIp)?;
        let spi = packet.get(start..).and_then(|esp| esp.first_chunk());
        let spi = u32::from_be_bytes(*spi.ok_or(DropReason::MalformedEsp)?);
        let is_esp = h.protocol == wire::protocol::ESP;
        let handle = self.sas.inbound(h.dst, spi).filter(|_| is_esp);
        let handle = handle.ok_or(DropReason::InNoState)?;
        let Hardware { sas, events, engine, scratch, .. } = self;
        let placed = sas.get_mut(handle).ok_or(DropReason::InNoState)?;
        if placed.is_over() {
            return Err(DropReason::InStateExpired);
        }
        let outer = lay_out(scratch, packet);
        let esp = Span { start: outer.start + start, len: len - start };
        let opening = placed.sa.open_prepare(scratch, esp)?;
        let text = scratch.get_mut(esp.range()).ok_or(DropReason::MalformedEsp)?;
        let mut jobs = [Job::esp(placed.sa.session(), Op::Open, text, opening.seq_hi)];
        engine.run(&mut jobs);
        let status: JobStatus = jobs[0].status;
        let opened = placed.sa.open_finish(scratch, outer, &h, &opening, status, 0)?;
        placed.tell_limits(handle, events);
        let Opened::Packet { span, headers } = opened else {
            return Err(DropReason::InNextHeader);
        };
        let inner = headers?;
        let (reqid, selector) = (placed.config.reqid, placed.config.selector);
        if inner.fragment != Fragment::Whole {
            return Err(DropReason::InDeviceFragment);
        }
        if selector.is_some_and(|selector| !selector.matches(&inner)) {
            return Err(DropReason::InSelector);
        }
        match self.rule(Direction::In, &inner).map(|rule| &rule.config) {
            Some(policy) if policy.action == Action::Block => {
                return Err(DropReason::InPolicyBlock);
            }
            Some(policy) if policy.templates.iter().all(|t| [0, reqid].contains(&t.reqid)) => {}
            _ => return Err(DropReason::InPolicy),
        }
        let plain = self.scratch.get(span.range()).ok_or(DropReason::InInnerHeader)?;
        buffer.set_packet(plain).map_err(|_| DropReason::InNoRoom)?;
        Ok(handle)
    }
}

/// The hardware, shared by the driver and its queues.
#[derive(Clone)]
pub(crate) struct SharedHardware(Arc<Mutex<Hardware>>);

impl SharedHardware {
    pub fn new(hardware: Hardware) -> SharedHardware {
        SharedHardware(Arc::new(Mutex::new(hardware)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Hardware> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies a packet, with room for headers in front and a trailer behind.
fn lay_out(scratch: &mut Vec<u8>, packet: &[u8]) -> Span {
    scratch.clear();
    scratch.resize(ROOM, 0);
    scratch.extend_from_slice(packet);
    scratch.resize(ROOM + packet.len() + ROOM, 0);
    Span { start: ROOM, len: packet.len() }
}

/// Bytes of headers, and of padding, trailer and ICV, at most.
const ROOM: usize = 128;
