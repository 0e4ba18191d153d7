//! The packet offload devices of the configuration, and the SAs and policies that they have.
//!
//! Nothing falls back to software: what a device does not take is refused. A device's outbound policy needs an SA. Until one
//! is there that it would choose, the policy is software's alone, and its packets wait for the SA that is asked
//! for; a younger SA takes the older one's place.

mod policies;
mod sas;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use config::{DeviceConfig, DeviceKind};
use dataplane::DevicePacket;
use offload::{
    Device, Event, Failure, Invalid, PolicyHandle, PutError, Queue, SaDirection, SaHandle,
};
use policy::{OutboundKey, PolicyConfig, SaConfig, SaId};
use rustix::fd::OwnedFd;
use rustix::net::netdevice::name_to_index;
use tracing::{error, info, warn};
use xfrm::Refusal;
use xfrm::codec::Offload;

use crate::offload::device::table_row;
use crate::rtl_simulation;
use crate::sources::errno;

/// All of them.
#[derive(Default)]
pub struct PacketDevices {
    attached: Vec<Attached>,
    sas: HashMap<SaId, PlacedSa>,
    /// Their places, for what devices report.
    by_handle: HashMap<(usize, SaHandle), SaId>,
    /// Policies by their indices.
    policies: HashMap<u32, PlacedPolicy>,
    /// Outbound SAs, the oldest first.
    outbound: HashMap<OutboundKey, Vec<SaId>>,
    /// Outbound policies that choose an SA.
    choosing: HashMap<OutboundKey, BTreeSet<u32>>,
    /// Asks for indices of interfaces; nothing without devices.
    asking: Option<OwnedFd>,
}

/// A device, as what it is dispatched by.
pub type PacketDevice = Box<dyn Device<DevicePacket>>;

/// A device and its port.
struct Attached {
    name: Arc<str>,
    kind: DeviceKind,
    port: String,
    device: PacketDevice,
    /// Policies of each direction, in the device or on their way.
    policies: [usize; 3],
    /// The first worker's, until it has it.
    queue: Option<Box<dyn Queue<DevicePacket>>>,
}

/// An SA in a device.
struct PlacedSa {
    at: usize,
    handle: SaHandle,
    direction: SaDirection,
    config: SaConfig,
    seen: Seen,
}

/// When an SA was in use, as far as reading its counters tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    packets: u64,
    /// Wall-clock second, 0 for never.
    pub first_use_s: u64,
    /// Second of the last use, by the wall clock.
    pub last_use_s: u64,
}

/// A policy of a device.
struct PlacedPolicy {
    at: usize,
    config: PolicyConfig,
    /// In the device, once it has an SA where it needs one.
    handle: Option<PolicyHandle>,
    /// The SA that it leads to.
    sa: Option<SaId>,
    /// By what it chooses SAs, if it does.
    key: Option<OutboundKey>,
}

/// Something that the owner of an SA has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaEvent {
    /// A soft limit, or numbers that get few.
    Soft,
    /// A hard limit.
    Hard,
}

impl PacketDevices {
    /// The devices of a configuration. One that cannot be made is left out; what asks for it is refused.
    pub fn new(configs: &BTreeMap<String, DeviceConfig>, asking: Option<OwnedFd>) -> PacketDevices {
        let made = configs
            .iter()
            .filter_map(|(name, config)| Attached::new(name, config, make(name, config.kind)?));
        PacketDevices { attached: made.collect(), asking, ..PacketDevices::default() }
    }

    /// Queues of the devices with their numbers, for a worker; one of each for the first one. What a later worker gets
    /// no queue of, the first one does for it.
    pub fn take_queues(&mut self) -> Vec<(u8, Box<dyn Queue<DevicePacket>>)> {
        let each = self.attached.iter_mut().enumerate();
        each.filter_map(|(at, attached)| Some((number(at), attached.take_queue()?))).collect()
    }

    /// True if any SA is in a device.
    pub fn has_sas(&self) -> bool {
        !self.sas.is_empty()
    }

    /// Reports of the devices.
    pub fn events(&mut self) -> Vec<(SaId, SaEvent)> {
        let PacketDevices { attached, by_handle, sas, .. } = self;
        let mut all = Vec::new();
        for (at, attached) in attached.iter_mut().enumerate() {
            while let Some(event) = attached.device.event() {
                let (handle, event) = match event {
                    Event::SoftLimit(sa) | Event::NumbersLow(sa) => (sa, SaEvent::Soft),
                    Event::HardLimit(sa) | Event::NumbersExhausted(sa) => (sa, SaEvent::Hard),
                    Event::Gone => {
                        error!(device = %attached.name, "the device is gone, with its SAs");
                        let its = sas.iter().filter(|(_, placed)| placed.at == at);
                        all.extend(its.map(|(id, _)| (*id, SaEvent::Hard)));
                        continue;
                    }
                };
                all.extend(by_handle.get(&(at, handle)).map(|id| (*id, event)));
            }
        }
        all
    }

    /// SAs and policies in the devices of ports that `is_up` says no of.
    pub fn behind_ports_down(&self, is_up: impl Fn(&str) -> bool) -> (Vec<SaId>, Vec<u32>) {
        if self.sas.is_empty() && self.policies.is_empty() {
            return Default::default();
        }
        let down: Vec<bool> = self.attached.iter().map(|a| !is_up(&a.port)).collect();
        let is_down = |at: usize| down.get(at).copied().unwrap_or(false);
        let sas = self.sas.iter().filter(|(_, sa)| is_down(sa.at)).map(|(id, _)| *id);
        let policies = self.policies.iter().filter(|(_, p)| is_down(p.at)).map(|(i, _)| *i);
        (sas.collect(), policies.collect())
    }

    /// Rows of `culvert device`.
    pub fn rows(&self) -> Vec<report::Device> {
        let row = |attached: &Attached| {
            let counters = attached.device.counters();
            let tables = attached.device.tables().into_iter();
            report::Device {
                name: attached.name.to_string(),
                kind: attached.kind.name().into(),
                port: attached.port.clone(),
                placement: attached.device.capabilities().placement.name().into(),
                tables: tables.map(table_row).collect(),
                sealed: counters.sealed,
                opened: counters.opened,
                wrong_icv: counters.wrong_icv,
                refused: counters.refused,
                resets: counters.resets,
                has: "asked".into(),
                state: report::State::Up,
                ..report::Device::default()
            }
        };
        self.attached.iter().map(row).collect()
    }

    /// The name of the device of this number.
    pub fn name(&self, number: u8) -> Option<String> {
        self.attached.get(usize::from(number)).map(|attached| attached.name.to_string())
    }

    /// The devices' ports.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.attached.iter().map(|attached| attached.port.as_str())
    }

    /// Resets the device of this name, if there is one; it keeps the numbers of its SAs, or refuses.
    pub fn reset(&mut self, name: &str) -> Option<Result<(), Failure>> {
        let attached = self.attached.iter_mut().find(|attached| *attached.name == *name)?;
        Some(attached.device.reset())
    }

    /// Takes a policy out of a device.
    fn take_out(&mut self, at: usize, handle: PolicyHandle) {
        let Some(attached) = self.attached.get_mut(at) else { return };
        if let Err(error) = attached.device.remove_policy(handle) {
            warn!(device = %attached.name, %error, "a policy stays in the device");
        }
    }

    /// True if there is one behind the interface that a request names.
    pub fn is_behind(&self, wanted: &Offload) -> bool {
        self.wanted(wanted, "state").is_ok()
    }

    /// The place of the device behind the interface that a request names.
    fn wanted(&self, wanted: &Offload, what: &str) -> Result<usize, Refusal> {
        let asking = self.asking.as_ref().ok_or_else(|| no_device(what))?;
        let index_of = |port: &str| name_to_index(asking, port).ok().map(i64::from);
        let is_its = |a: &Attached| index_of(&a.port) == Some(wanted.ifindex.into());
        self.attached.iter().position(is_its).ok_or_else(|| no_device(what))
    }
}

impl Attached {
    fn new(name: &str, config: &DeviceConfig, mut device: PacketDevice) -> Option<Attached> {
        let queue = match device.queue() {
            Ok(queue) => queue,
            Err(error) => {
                warn!(device = %name, %error, "no offload by this device");
                return None;
            }
        };
        Some(Attached {
            name: name.into(),
            kind: config.kind,
            port: config.port.clone(),
            device,
            policies: [0; 3],
            queue: Some(queue),
        })
    }

    fn take_queue(&mut self) -> Option<Box<dyn Queue<DevicePacket>>> {
        self.queue.take().or_else(|| {
            let more = self.device.queue();
            more.inspect_err(|error| {
                info!(device = %self.name, %error, "the first worker gives it packets for another one");
            })
            .ok()
        })
    }
}

/// Makes a device, if it is one for packet offload.
fn make(name: &str, kind: DeviceKind) -> Option<PacketDevice> {
    match kind {
        DeviceKind::NicModel | DeviceKind::Cryptodev => None,
        DeviceKind::RtlSimulation => rtl_simulation::make(name),
        DeviceKind::PacketNicModel => match nic::PacketNic::new(name, nic::Sizes::default()) {
            Ok(nic) => Some(Box::new(nic)),
            Err(error) => {
                warn!(device = %name, %error, "no offload by this device");
                None
            }
        },
    }
}

/// The last of all outbound numbers of an SA: none is left.
pub fn spent(config: &SaConfig) -> u64 {
    if config.params.esn { u64::MAX - 1 } else { u32::MAX.into() }
}

/// Of the device in this place. There are not so many.
fn number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

fn no_device(what: &str) -> Refusal {
    let text = format!("culvert: no packet offload device for this {what} behind the interface");
    Refusal::new(errno::EINVAL, text)
}

/// Answer of Linux's drivers in this case.
fn refusal(device: &str, error: &PutError) -> Refusal {
    let errno = match error {
        PutError::Unsupported(_) => errno::EOPNOTSUPP,
        PutError::Full { .. } => errno::ENOSPC,
        PutError::Invalid(Invalid::Exists) => errno::EEXIST,
        PutError::Invalid(_) => errno::EINVAL,
        PutError::Failed(Failure::Gone) => errno::ENODEV,
        PutError::Failed(_) => errno::EIO,
    };
    Refusal::new(errno, format!("culvert: {device}: {error}"))
}
