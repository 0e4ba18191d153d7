//! The offload devices of the configuration, and the SAs that they have.
//!
//! | step | by whom |
//! | --- | --- |
//! | an SA whose owner asks for a device | [`Devices::put`], when it is added |
//! | SAs of a device that fails go on in software | [`Devices::fallen`] |
//! | those that had asked for it come back when it works again | [`Devices::restored`] |
//! | the busiest SAs come and go | [`Devices::round`] |
//!
//! The last three say what is to move. The source of SAs moves it ([`Builtin::move_sa`](crate::sources::builtin::Builtin::move_sa)),
//! by [`Devices::put_in`] and [`Devices::take_out`]: an SA gets another session, and the same numbers.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use config::{BusyBy, DeviceConfig};
use crypto::{Engine, Keys, Session};
use esp::{Protocol, Sa};
use offload::place::{Move, Sample};
use offload::{Live, NewSa, OffloadEngine, Offloaded, PutError, SaDirection, SaHandle};
use policy::{SaConfig, SaEntry, SaId};
use report::{self, Occurrence};
use rustix::fd::OwnedFd;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use tracing::{info, warn};
use xfrm::Refusal;
use xfrm::codec::{Offload, constant as c};

use crate::clock::Now;
use crate::cryptodevs;
use crate::device::Attached;
use crate::packet_devices::{PacketDevices, Seen};
use crate::sources::errno;
use crate::texts::spi_text;

/// Shared by those who put SAs in, who make engines, and who answer questions; all on the control thread.
pub type SharedDevices = Rc<RefCell<Devices>>;

/// The offload devices of all kinds.
pub struct Devices {
    attached: Vec<Attached>,
    /// Devices for packet offload.
    pub packet: PacketDevices,
    /// The SAs that are in a device, or are to be in it again.
    placed: HashMap<SaId, Placed>,
    /// The SAs whose numbers are software's, where there are devices: no others may move.
    movable: HashSet<SaId>,
    /// True once an SA was offloaded.
    is_used: Arc<AtomicBool>,
    /// Asks for indices of interfaces; nothing without devices.
    asking: Option<OwnedFd>,
    /// Time of the round: on the clock that pauses go by, in ms, and on the wall, in s.
    now_ms: u64,
    wall_s: u64,
}

/// Where an SA is.
#[derive(Clone, Copy)]
struct Placed {
    /// The device's place.
    lane: usize,
    /// The SA in it; nothing while the device is down.
    sa: Option<SaHandle>,
    direction: SaDirection,
    /// True if its owner asked for it.
    is_asked: bool,
}

/// Where an SA is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Moves to software.
    Software,
    /// Into the device with this place.
    Device(usize, SaDirection),
}

impl Default for Devices {
    fn default() -> Devices {
        Devices::new(&BTreeMap::new())
    }
}

impl Devices {
    /// The devices of a configuration. One that cannot be made is left out, and its SAs stay in software.
    pub fn new(configs: &BTreeMap<String, DeviceConfig>) -> Devices {
        cryptodevs::start(configs);
        let attached = configs.iter().filter_map(|(name, config)| Attached::new(name, config));
        let attached: Vec<Attached> = attached.collect();
        let asking = || match configs.is_empty() {
            true => None,
            false => socket(AddressFamily::INET, SocketType::DGRAM, None).ok(),
        };
        Devices {
            attached,
            packet: PacketDevices::new(configs, asking()),
            placed: HashMap::new(),
            movable: HashSet::new(),
            is_used: Arc::default(),
            asking: asking(),
            now_ms: 0,
            wall_s: 0,
        }
    }

    /// Sets the time, once a round. Requests for SAs, which come between, have none.
    pub fn set_time(&mut self, now: Now) {
        (self.now_ms, self.wall_s) = (now.at_ns / 1_000_000, now.wall_s());
    }

    /// Direction and numbers of an SA that a device has as a whole, and when it was in use.
    pub fn live(&mut self, id: &SaId) -> Option<(SaDirection, Live, Seen)> {
        self.packet.live(id, self.wall_s)
    }

    /// An engine for one thread: `software`, with queues of the devices where there are any.
    ///
    /// # Errors
    /// A device has no queue left.
    pub fn engine(&mut self, software: Box<dyn Engine>) -> Result<Box<dyn Engine>, PutError> {
        if self.attached.is_empty() {
            return Ok(software);
        }
        let lanes = self.attached.iter_mut().map(Attached::lane);
        let lanes = lanes.collect::<Result<_, PutError>>()?;
        Ok(Box::new(OffloadEngine::new(software, lanes, Arc::clone(&self.is_used))))
    }

    /// Puts an SA into the device of the interface that its owner wants. The session by which its packets go there, or
    /// `software` where there is no such device, or it does not take the SA; which is logged. Whether the SA is
    /// the device's, or is when the device works again.
    pub fn put(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        wanted: &Offload,
        software: Session,
    ) -> (Session, bool) {
        let Some(lane) = self.of_interface(wanted.ifindex) else { return (software, false) };
        let direction = match wanted.flags & c::OFFLOAD_INBOUND {
            0 => SaDirection::Outbound,
            _ => SaDirection::Inbound,
        };
        let now_ms = self.now_ms;
        let Some(attached) = self.attached.get_mut(lane) else { return (software, false) };
        if !attached.is_ready(now_ms) && attached.device.capabilities().check_sa(config).is_ok() {
            let placed = Placed { lane, sa: None, direction, is_asked: true };
            self.placed.insert(config.id(), placed);
            return (software, true);
        }
        match self.put_in((lane, direction, true), config, keys, &software) {
            Ok(session) => (session, true),
            Err(_) => (software, false),
        }
    }

    /// The SA without an owner's wish that may leave a full device for this one, whose owner has one.
    pub fn in_the_way(&self, wanted: &Offload) -> Option<SaId> {
        let lane = self.of_interface(wanted.ifindex)?;
        let placer = self.attached.get(lane)?.placer.as_ref()?;
        let is_inbound = wanted.flags & c::OFFLOAD_INBOUND != 0;
        let direction = if is_inbound { SaDirection::Inbound } else { SaDirection::Outbound };
        let most = self.attached.get(lane)?.device.capabilities().most_sas;
        let inside = || self.inside(lane).filter(move |(_, placed)| placed.direction == direction);
        if inside().count() < most {
            return None;
        }
        let others = inside().filter(|(_, placed)| !placed.is_asked).map(|(id, _)| *id);
        others.min_by_key(|id| placer.rate(id))
    }

    /// Puts an SA into a device. Its session there.
    ///
    /// # Errors
    /// The device does not take it, or is down; which is logged.
    pub fn put_in(
        &mut self,
        (lane, direction, is_asked): (usize, SaDirection, bool),
        config: &SaConfig,
        keys: &Keys,
        software: &Session,
    ) -> Result<Session, PutError> {
        let now_ms = self.now_ms;
        let down = PutError::Failed(offload::Failure::Unresponsive);
        let attached = self.attached.get_mut(lane).ok_or(down)?;
        let id = config.id();
        let spi = spi_text(id.spi);
        if !attached.is_ready(now_ms) {
            return Err(down);
        }
        // Numbers are software's.
        let start = &Live::default();
        let sa = attached.device.put_sa(NewSa { direction, config, keys, start });
        let sa = sa.inspect_err(|error| {
            info!(device = %attached.name, %spi, %error, "software does the SA's crypto");
        })?;
        let placed = Placed { lane, sa: Some(sa), direction, is_asked };
        let before = self.placed.insert(id, placed);
        self.is_used.store(true, Relaxed);
        let why = if is_asked { "its owner asks for it" } else { "it is one of the busiest" };
        if !is_asked {
            info!(device = %attached.name, %spi, dst = %id.dst, "the device does the SA's crypto");
        }
        attached.note(now_ms, Some(id), Some(Arc::clone(&attached.name)), why.to_owned());
        let device = (lane, Arc::clone(&attached.name));
        if let Some(Placed { lane, sa, .. }) = before {
            self.forget(lane, sa);
        }
        Ok(Offloaded::session(device, sa, software.clone(), &config.params))
    }

    /// Takes an SA that goes on in software out of its device. One whose owner asked for the device comes back
    /// when that works again.
    pub fn take_out(&mut self, id: &SaId) {
        let now_ms = self.now_ms;
        let Some(placed) = self.placed.get_mut(id) else { return };
        let Placed { lane, sa, is_asked, .. } = *placed;
        placed.sa = None;
        if !is_asked {
            self.placed.remove(id);
        }
        self.forget(lane, sa);
        if let Some(attached) = self.attached.get_mut(lane).filter(|_| sa.is_some()) {
            let why = if attached.is_up() {
                "a busier one needs its place"
            } else {
                "the device is down"
            };
            let (spi, dst) = (spi_text(id.spi), id.dst);
            info!(device = %attached.name, %spi, %dst, why, "the SA goes on in software");
            attached.note(now_ms, Some(*id), Some("software".into()), why.to_owned());
        }
    }

    /// An SA has been added whose numbers are software's.
    pub fn added(&mut self, id: SaId) {
        if !self.is_empty() {
            self.movable.insert(id);
        }
    }

    /// Takes an SA that ends out of its device, if it is in one.
    pub fn remove(&mut self, id: &SaId) {
        self.movable.remove(id);
        if let Some(Placed { lane, sa, .. }) = self.placed.remove(id) {
            self.forget(lane, sa);
        }
    }

    fn forget(&mut self, lane: usize, sa: Option<SaHandle>) {
        let Some((sa, attached)) = sa.zip(self.attached.get_mut(lane)) else { return };
        if let Err(error) = attached.device.remove_sa(sa) {
            warn!(device = %attached.name, %error, "an SA stays in the device");
        }
    }

    /// The SAs of devices that have just failed: they go on in software.
    pub fn fallen(&mut self) -> Vec<SaId> {
        let now_ms = self.now_ms;
        let mut fallen = Vec::new();
        for (lane, attached) in self.attached.iter_mut().enumerate() {
            if let Some(why) = attached.failure() {
                attached.fail(now_ms, &why);
            }
            if !attached.is_up() {
                let inside = self.placed.iter().filter(|(_, p)| p.lane == lane && p.sa.is_some());
                fallen.extend(inside.map(|(id, _)| *id));
            }
        }
        fallen
    }

    /// The SAs whose owners asked for devices that work again.
    pub fn restored(&mut self) -> Vec<(SaId, To)> {
        let now_ms = self.now_ms;
        let mut restored = Vec::new();
        for (lane, attached) in self.attached.iter_mut().enumerate() {
            if attached.try_again(now_ms) {
                let outside = self.placed.iter().filter(|(_, p)| p.lane == lane && p.sa.is_none());
                restored.extend(outside.map(|(id, p)| (*id, To::Device(lane, p.direction))));
            }
        }
        restored
    }

    /// Changes of the devices' states since the last call.
    pub fn news(&mut self) -> Vec<Occurrence> {
        self.attached.iter_mut().filter_map(Attached::news).collect()
    }

    /// How long it is until there is something to do here.
    pub fn due_in(&self) -> Option<Duration> {
        let looks = (!self.placed.is_empty()).then_some(LOOK_INTERVAL);
        self.round_in().into_iter().chain(looks).min()
    }

    /// How long it is until [`Devices::round`] has something to do.
    pub fn round_in(&self) -> Option<Duration> {
        let now_ms = self.now_ms;
        let rounds = self.attached.iter().filter(|attached| attached.placer.is_some());
        let next_ms = rounds.map(|attached| attached.round_ms).min();
        next_ms.map(|at| Duration::from_millis(at.saturating_sub(now_ms)))
    }

    /// Moves by which devices get the busiest SAs. `direction` is that of an SA's packets.
    pub fn round<'s>(
        &mut self,
        sas: impl Iterator<Item = &'s Arc<SaEntry<Sa>>> + Clone,
        direction: impl Fn(&SaConfig) -> Option<SaDirection>,
    ) -> Vec<(SaId, To)> {
        let now_ms = self.now_ms;
        let mut moves = Vec::new();
        for lane in 0..self.attached.len() {
            let is_due =
                |attached: &Attached| attached.placer.is_some() && attached.round_ms <= now_ms;
            let Some(attached) = self.attached.get(lane).filter(|attached| is_due(attached)) else {
                continue;
            };
            let (busy_by, is_up) = (attached.config.busy_by, attached.is_up());
            let capabilities = attached.device.capabilities();
            let samples = sas.clone().filter_map(|entry| {
                let config = &entry.config;
                let (id, direction) = (config.id(), direction(config)?);
                let placed = self.placed.get(&id);
                let is_its = placed.is_none_or(|placed| placed.lane == lane && !placed.is_asked);
                // Not of an earlier device in this round.
                let is_its = is_its && !moves.iter().any(|(moving, _)| *moving == id);
                let is_esp = config.params.protocol == Protocol::Esp;
                let is_candidate = is_its && is_esp && self.movable.contains(&id);
                is_candidate.then(|| Sample {
                    sa: id,
                    direction,
                    count: match busy_by {
                        BusyBy::Packets => entry.esp.live().packets().load(Relaxed),
                        BusyBy::Bytes => entry.esp.live().bytes().load(Relaxed),
                    },
                    is_inside: placed.is_some(),
                    fits: is_up && capabilities.check_sa(config).is_ok(),
                })
            });
            let samples: Vec<_> = samples.collect();
            let most_auto = attached.config.most_auto.map_or(usize::MAX, |most| most as usize);
            let rooms = [SaDirection::Outbound, SaDirection::Inbound].map(|direction| {
                let asked = |(_, p): &(&SaId, &Placed)| p.is_asked && p.direction == direction;
                let left =
                    capabilities.most_sas.saturating_sub(self.inside(lane).filter(asked).count());
                left.min(most_auto)
            });
            let Some(attached) = self.attached.get_mut(lane) else { continue };
            attached.round_ms = now_ms + u64::from(attached.config.interval_ms);
            let Some(placer) = &mut attached.placer else { continue };
            let room = |direction| rooms[usize::from(direction == SaDirection::Inbound)];
            let direction_of =
                |id: &SaId| samples.iter().find(|s| s.sa == *id).map(|s| s.direction);
            moves.extend(placer.round(now_ms, &samples, room).into_iter().filter_map(|step| {
                Some(match step {
                    Move::Out(id) => (id, To::Software),
                    Move::In(id) => (id, To::Device(lane, direction_of(&id)?)),
                })
            }));
        }
        moves
    }

    fn inside(&self, lane: usize) -> impl Iterator<Item = (&SaId, &Placed)> {
        self.placed.iter().filter(move |(_, placed)| placed.lane == lane && placed.sa.is_some())
    }

    /// True if an SA's owner asked for the device that it is in, or is to come back to.
    pub fn is_asked(&self, id: &SaId) -> bool {
        self.placed.get(id).is_some_and(|placed| placed.is_asked)
    }

    /// True if there are no devices.
    pub fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Resets a device, which puts its SAs in again.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn reset(&mut self, name: &str) -> Result<(), String> {
        if let Some(result) = self.packet.reset(name) {
            result.map_err(|error| format!("{name}: {error}"))?;
            info!(device = %name, "reset, and loaded again");
            return Ok(());
        }
        let now_ms = self.now_ms;
        let attached = self.named(name)?;
        attached.device.reset().map_err(|error| format!("{name}: {error}"))?;
        info!(device = %attached.name, "reset, and loaded again");
        attached.note(now_ms, None, None, "reset, and loaded again".into());
        Ok(())
    }

    /// Has the hardware of a modelled device be faulty.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn set_fault(&mut self, name: &str, fault: &str) -> Result<(), String> {
        let now_ms = self.now_ms;
        let attached = self.named(name)?;
        attached.set_fault(fault).map_err(|error| format!("{name}: {error}"))?;
        warn!(device = %attached.name, fault, "the modelled device is to be faulty");
        attached.note(now_ms, None, None, format!("told to be faulty: {fault}"));
        Ok(())
    }

    fn named(&mut self, name: &str) -> Result<&mut Attached, String> {
        let attached = self.attached.iter_mut().find(|attached| *attached.name == *name);
        attached.ok_or_else(|| format!("no device {name}"))
    }

    /// Rows of `culvert device`.
    pub fn rows(&self) -> Vec<report::Device> {
        self.attached
            .iter()
            .map(|attached| attached.row(self.now_ms))
            .chain(self.packet.rows())
            .collect()
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let down = self.attached.iter().filter_map(|attached| {
            let why = attached.trouble()?;
            Some(format!("device {} is down: {why}; its SAs go on in software", attached.name))
        });
        down.collect::<Vec<_>>().into_iter()
    }

    /// The ports that have a device, a line each.
    pub fn port_lines(&self) -> String {
        let crypto = self.attached.iter().map(|attached| attached.config.port.as_str());
        crypto.chain(self.packet.ports()).map(|port| format!("{port}\n")).collect()
    }

    /// Checks that the SA is one that devices have: of ESP. Linux has this rule for each interface
    /// with a device, also where the device could do more.
    ///
    /// # Errors
    /// There is a device behind the interface that its owner wants, and the SA is of another protocol.
    pub fn check_protocol(&self, config: &SaConfig, wanted: &Offload) -> Result<(), Refusal> {
        let is_of_device =
            || self.of_interface(wanted.ifindex).is_some() || self.packet.is_behind(wanted);
        match config.params.protocol {
            Protocol::Esp => Ok(()),
            _ if is_of_device() => Err(Refusal::new(
                errno::EINVAL,
                "type doesn't support offload: devices have SAs of ESP alone",
            )),
            _ => Ok(()),
        }
    }

    fn of_interface(&self, ifindex: i32) -> Option<usize> {
        let asking = self.asking.as_ref()?;
        let index_of = |port: &str| name_to_index(asking, port).ok().map(i64::from);
        let is_it = |attached: &Attached| index_of(&attached.config.port) == Some(ifindex.into());
        self.attached.iter().position(is_it)
    }
}

/// How often is looked whether engines have noticed something about a device. They do without it at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The session of software, of an SA's keys.
pub fn software_of(session: &Session) -> &Session {
    session.state::<Offloaded>().map_or(session, Offloaded::software)
}

/// The device that does an SA's crypto, if one does.
pub fn device_of(session: &Session) -> Option<&str> {
    session.state::<Offloaded>().map(Offloaded::device)
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
