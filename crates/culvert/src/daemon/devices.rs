//! The offload devices of the configuration, and the SAs that they have.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crypto::{Engine, Keys, Session};
use offload::{
    Bounce, Device, Lane, Live, NewSa, OffloadEngine, Offloaded, PutError, SaDirection, SaHandle,
};
use policy::{SaConfig, SaId};
use rustix::fd::OwnedFd;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use tracing::{info, warn};
use xfrm::codec::{Offload, constant as c};

use super::cryptodevs;
use crate::config::{DeviceConfig, DeviceKind};
use crate::report;

/// Shared by those who put SAs in, who make engines, and who answer questions; all on the control thread.
pub type SharedDevices = Rc<RefCell<Devices>>;

/// All devices.
#[derive(Default)]
pub struct Devices {
    attached: Vec<Attached>,
    /// The device of each SA that is in one, by its place, and the SA in it.
    placed: HashMap<SaId, (usize, SaHandle)>,
    /// Whether an SA was ever offloaded.
    is_used: Arc<AtomicBool>,
    /// Asks for indices of interfaces; nothing without devices.
    asking: Option<OwnedFd>,
}

/// A device and its port.
struct Attached {
    name: Arc<str>,
    kind: DeviceKind,
    port: String,
    device: Box<dyn Device<Bounce>>,
    in_software: Arc<AtomicU64>,
}

impl Devices {
    /// The devices of a configuration. One that cannot be made is left out, and its SAs stay in software.
    pub fn new(configs: &BTreeMap<String, DeviceConfig>) -> Devices {
        cryptodevs::start(configs);
        let attached = configs.iter().filter_map(|(name, config)| {
            let device: Box<dyn Device<Bounce>> = match config.kind {
                DeviceKind::NicModel => match nic::NicDevice::new(name) {
                    Ok(nic) => Box::new(nic),
                    Err(error) => {
                        warn!(device = %name, %error, "no offload by this device");
                        return None;
                    }
                },
                DeviceKind::Cryptodev => match cryptodevs::open(name, config) {
                    Ok(device) => device,
                    Err(error) => {
                        warn!(device = %name, %error, "no offload by this device");
                        return None;
                    }
                },
            };
            Some(Attached {
                name: name.as_str().into(),
                kind: config.kind,
                port: config.port.clone(),
                device,
                in_software: Arc::default(),
            })
        });
        let attached: Vec<Attached> = attached.collect();
        let asking = match attached.is_empty() {
            true => None,
            false => socket(AddressFamily::INET, SocketType::DGRAM, None).ok(),
        };
        Devices { attached, asking, ..Devices::default() }
    }

    /// An engine for one thread: `software`, with queues of the devices where there are any.
    ///
    /// # Errors
    /// A device has no queue left.
    pub fn engine(&mut self, software: Box<dyn Engine>) -> Result<Box<dyn Engine>, PutError> {
        if self.attached.is_empty() {
            return Ok(software);
        }
        let lanes = self.attached.iter_mut().map(|attached| {
            let capabilities = attached.device.capabilities().clone();
            let queue = attached.device.queue()?;
            Ok(Lane::new(queue, capabilities, Arc::clone(&attached.in_software)))
        });
        let lanes = lanes.collect::<Result<_, PutError>>()?;
        Ok(Box::new(OffloadEngine::new(software, lanes, Arc::clone(&self.is_used))))
    }

    /// Puts an SA into the device of the interface that its owner wants. The session by which its packets go there, or
    /// `software` where there is no such device, or it does not take the SA; which is logged.
    pub fn put(
        &mut self,
        config: &SaConfig,
        keys: &Keys,
        wanted: &Offload,
        software: Session,
    ) -> (Session, bool) {
        let Some(lane) = self.of_interface(wanted.ifindex) else { return (software, false) };
        let Some(attached) = self.attached.get_mut(lane) else { return (software, false) };
        let direction = match wanted.flags & c::OFFLOAD_INBOUND {
            0 => SaDirection::Outbound,
            _ => SaDirection::Inbound,
        };
        // Numbers are software's.
        let start = &Live::default();
        let sa = match attached.device.put_sa(NewSa { direction, config, keys, start }) {
            Ok(sa) => sa,
            Err(error) => {
                let spi = format_args!("{:#010x}", config.params.spi);
                info!(device = %attached.name, %spi, %error, "software does the SA's crypto");
                return (software, false);
            }
        };
        self.placed.insert(config.id(), (lane, sa));
        self.is_used.store(true, Relaxed);
        let device = (lane, Arc::clone(&attached.name));
        (Offloaded::session(device, sa, software, &config.params), true)
    }

    /// Takes an SA out of its device, if it is in one.
    pub fn remove(&mut self, id: &SaId) {
        let Some((lane, sa)) = self.placed.remove(id) else { return };
        let Some(attached) = self.attached.get_mut(lane) else { return };
        if let Err(error) = attached.device.remove_sa(sa) {
            warn!(device = %attached.name, %error, "an SA stays in the device");
        }
    }

    /// Resets a device, which puts its SAs in again.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn reset(&mut self, name: &str) -> Result<(), String> {
        let attached = self.attached.iter_mut().find(|attached| *attached.name == *name);
        let attached = attached.ok_or_else(|| format!("no device {name}"))?;
        attached.device.reset().map_err(|error| format!("{name}: {error}"))?;
        info!(device = %attached.name, "reset, and loaded again");
        Ok(())
    }

    /// What `culvert device` shows.
    pub fn rows(&self) -> Vec<report::Device> {
        let row = |attached: &Attached| {
            let counters = attached.device.counters();
            let tables = attached.device.tables().into_iter();
            report::Device {
                name: attached.name.to_string(),
                kind: attached.kind.name().into(),
                port: attached.port.clone(),
                placement: attached.device.capabilities().placement.name().into(),
                tables: tables
                    .map(|table| report::DeviceTable {
                        name: table.name.into(),
                        used: table.used,
                        most: table.most,
                    })
                    .collect(),
                sealed: counters.sealed,
                opened: counters.opened,
                wrong_icv: counters.wrong_icv,
                refused: counters.refused,
                in_software: attached.in_software.load(Relaxed),
                resets: counters.resets,
            }
        };
        self.attached.iter().map(row).collect()
    }

    fn of_interface(&self, ifindex: i32) -> Option<usize> {
        let asking = self.asking.as_ref()?;
        let index_of = |port: &str| name_to_index(asking, port).ok().map(i64::from);
        self.attached.iter().position(|attached| index_of(&attached.port) == Some(ifindex.into()))
    }
}

/// The device that does an SA's crypto, if one does.
pub fn device_of(session: &Session) -> Option<&str> {
    session.state::<Offloaded>().map(Offloaded::device)
}

#[cfg(test)]
mod tests {
    use crypto::{AesKey, IcvLen, Job, JobStatus, Op, Provider, Suite};
    use engine_openssl::OpensslProvider;

    use super::*;
    use crate::daemon::sources::testing::{HERE, THERE, config};

    const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

    /// A device at the loopback interface, whose index is 1 in each namespace.
    fn devices() -> Devices {
        let config = toml::from_str("kind = \"nic-model\"\nport = \"lo\"").unwrap();
        Devices::new(&BTreeMap::from([("nic0".to_owned(), config)]))
    }

    fn keys() -> Keys {
        Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() }
    }

    fn sa(spi: u32) -> SaConfig {
        let mut config = config(spi, (HERE, THERE), 1);
        config.params.suite = GCM;
        config
    }

    fn wanted(ifindex: i32) -> Offload {
        Offload { ifindex, ..Offload::default() }
    }

    #[test]
    fn an_sa_of_another_interface_stays_in_software() {
        let mut devices = devices();
        let software = OpensslProvider::new().unwrap().session(GCM, &keys()).unwrap();
        let (session, is_offloaded) = devices.put(&sa(1), &keys(), &wanted(77), software);
        assert_eq!((device_of(&session), is_offloaded), (None, false));
    }

    #[test]
    fn what_does_not_fit_stays_in_software_and_comes_in_when_there_is_room() {
        let mut devices = devices();
        let provider = OpensslProvider::new().unwrap();
        let software = provider.session(GCM, &keys()).unwrap();
        let put = |devices: &mut Devices, spi| {
            devices.put(&sa(spi), &keys(), &wanted(1), software.clone()).1
        };
        assert!((1..=1024).all(|spi| put(&mut devices, spi)));
        assert!(!put(&mut devices, 1025));
        assert_eq!(devices.rows()[0].tables[0].used, 1024);
        devices.remove(&sa(3).id());
        assert!(put(&mut devices, 1025));
        let mut esn = sa(5000);
        esn.params.esn = true;
        assert!(!devices.put(&esn, &keys(), &wanted(1), software.clone()).1);
    }

    #[test]
    fn packets_are_the_same_by_device_by_software_and_after_removal() {
        let mut devices = devices();
        let provider = OpensslProvider::new().unwrap();
        let software = provider.session(GCM, &keys()).unwrap();
        let (offloaded, _) = devices.put(&sa(9), &keys(), &wanted(1), software.clone());
        assert_eq!(device_of(&offloaded), Some("nic0"));
        let mut engine = devices.engine(provider.engine().unwrap()).unwrap();
        // Of both kinds, in one run, and more than a burst.
        let mut run = |sessions: [&Session; 2]| {
            let mut packets = vec![vec![5_u8; 96]; 150];
            let mut jobs: Vec<Job<'_>> = packets
                .iter_mut()
                .enumerate()
                .map(|(n, packet)| Job::esp(sessions[n / 3 % 2], Op::Seal, packet, None))
                .collect();
            engine.run(&mut jobs);
            assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
            packets
        };
        let by_software = run([&software, &software]);
        assert_eq!(run([&offloaded, &software]), by_software);
        let row = devices.rows().remove(0);
        assert_eq!((row.sealed, row.in_software), (75, 0));
        devices.reset("nic0").unwrap();
        assert_eq!(run([&offloaded, &software]), by_software);
        devices.remove(&sa(9).id());
        assert_eq!(run([&offloaded, &software]), by_software);
        let row = devices.rows().remove(0);
        assert_eq!((row.sealed, row.in_software, row.resets), (150, 75, 1));
        assert_eq!(devices.reset("nic1"), Err("no device nic1".into()));
    }

    #[test]
    fn a_wrong_icv_is_not_tried_again_and_leaves_the_packet() {
        let mut devices = devices();
        let provider = OpensslProvider::new().unwrap();
        let software = provider.session(GCM, &keys()).unwrap();
        let inbound = Offload { flags: c::OFFLOAD_INBOUND, ..wanted(1) };
        let (session, _) = devices.put(&sa(9), &keys(), &inbound, software.clone());
        let mut engine = devices.engine(provider.engine().unwrap()).unwrap();
        let mut packet = vec![5_u8; 96];
        packet[..4].copy_from_slice(&9_u32.to_be_bytes());
        let plain = packet.clone();
        engine.run(&mut [Job::esp(&software, Op::Seal, &mut packet, None)]);
        let mut open = |packet: &mut Vec<u8>| {
            let mut jobs = [Job::esp(&session, Op::Open, packet, None)];
            engine.run(&mut jobs);
            jobs[0].status
        };
        let mut forged = packet.clone();
        forged[40] ^= 1;
        let before = forged.clone();
        assert_eq!((open(&mut forged), &forged), (JobStatus::BadIcv, &before));
        assert_eq!(open(&mut packet), JobStatus::Done);
        assert_eq!(packet[..80], plain[..80]);
        let row = devices.rows().remove(0);
        assert_eq!((row.opened, row.wrong_icv, row.in_software), (1, 1, 0));
    }
}
