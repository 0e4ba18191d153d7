//! How a port is opened: its program is loaded, its sockets are bound and given to the workers.

use std::os::fd::AsFd;

use config::{PortConfig, Sockets};
use io::{
    PacketConfig, PacketSocket, Port, Umem, XskConfig, XskMode, XskQueue, XskRegion, XskTransfer,
};
use steer::device::{Device, Finding};
use steer::{Hook, Steer};
use tracing::warn;

use super::choice::{NoPacketPort, Reason, choose};
use super::programs::{Loaded, Loading, Programs, load};
use super::rings::{RINGS, queues_of};
use super::working::{Transfer, Working};
use crate::slots;
use crate::steering::Steering;
use crate::workers::Workers;

/// Opens ports: interfaces of Linux's in a daemon, memory in tests.
pub trait Opener {
    /// Queues to take of a port; at least one for an interface that is not there.
    fn queues(&self, config: &PortConfig) -> u32;

    /// Opens a port, whose program is not attached yet.
    ///
    /// # Errors
    /// Why it cannot be, for people; nothing of it is left.
    fn open(&mut self, asked: &Asked<'_>, kit: &OpeningKit<'_>) -> Result<Working, String>;
}

/// A port that is to be opened.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its part of the configuration.
    pub config: &'a PortConfig,
    /// Its slot at the workers.
    pub slot: usize,
    /// Index of its interface.
    pub ifindex: u32,
}

/// Parts for opening a port.
#[derive(Clone, Copy)]
pub struct OpeningKit<'a> {
    /// Get its sockets.
    pub workers: &'a Workers,
    /// Packets that it takes.
    pub steering: &'a Steering,
    /// Queues of all ports, which share the packet buffers.
    pub queues_in_all: u32,
    /// The mark of what the private interface gives back to it.
    pub given_back: u32,
    /// Directions of known flows.
    pub flows: u32,
}

/// The longest MTU of a port, with buffers of 4096 bytes.
const LONGEST_MTU: u32 = 3818;

/// Opens interfaces of Linux's.
pub struct Devices {
    loading: Loading,
    region: XskRegion,
}

impl Devices {
    /// With programs that are being loaded, and buffers for packets.
    pub fn new(programs: Programs, umem: &Umem) -> Devices {
        Devices { loading: Loading::begun(programs), region: XskRegion::new(umem) }
    }

    /// The rings of each queue.
    fn rings(&self, kit: &OpeningKit<'_>) -> Result<XskConfig, String> {
        RINGS
            .share(self.region.umem().chunks() as u32, kit.queues_in_all)
            .map_err(|error| format!("worker.frames: {error}"))
    }
}

impl Opener for Devices {
    fn queues(&self, config: &PortConfig) -> u32 {
        queues_of(config, Device::look(&config.interface).ok().map(|device| device.rx_queues))
    }

    fn open(&mut self, asked: &Asked<'_>, kit: &OpeningKit<'_>) -> Result<Working, String> {
        let device = Device::look(&asked.config.interface).map_err(|e| e.to_string())?;
        for finding in device.findings(self.region.umem().chunk_len(), false) {
            if let Finding::MtuTooLargeForChunk { mtu, .. } = finding {
                let is_enough = self.region.umem().chunk_len() < 4096 && mtu <= LONGEST_MTU;
                let larger =
                    if is_enough { ", or set worker.frame_bytes = 4096 and restart" } else { "" };
                return Err(format!("{finding}{larger}"));
            }
        }
        match asked.config.kind {
            Sockets::Auto => self.open_best(asked, &device, kit),
            Sockets::Xdp => self.open_xdp(asked, &device, kit, None),
            Sockets::Packet => self.open_packet(asked, kit).map_err(|e| e.to_string()),
        }
    }
}

impl Devices {
    /// Opens what is best, by what the driver and the kernel answer.
    fn open_best(
        &mut self,
        asked: &Asked<'_>,
        device: &Device,
        kit: &OpeningKit<'_>,
    ) -> Result<Working, String> {
        let zero_copy = XskConfig { mode: XskMode::ZeroCopy, ..self.rings(kit)? };
        let bound = XskQueue::new(&self.region, asked.ifindex, 0, &zero_copy);
        let (mut reason, first) =
            choose(bound, kit.steering.is_beside_kernel).map_err(|e| e.to_string())?;
        let working = match reason.hook() {
            Hook::Xdp => self.open_xdp(asked, device, kit, first),
            Hook::Packet => match self.open_packet(asked, kit) {
                Err(NoPacketPort::Lacks(lack)) => {
                    reason = Reason::NoPacketSockets(lack);
                    self.open_xdp(asked, device, kit, None)
                }
                result => result.map_err(|e| e.to_string()),
            },
        };
        working.map(|working| Working { chosen: Some(reason.to_string()), ..working })
    }

    /// The port's program, with its tables, not attached yet.
    fn program(
        &mut self,
        asked: &Asked<'_>,
        hook: Hook,
        kit: &OpeningKit<'_>,
    ) -> Result<Steer, NoPacketPort> {
        let Asked { ifindex, .. } = *asked;
        let interface = asked.config.interface.as_str();
        let (loader, loaded) = self.loading.programs();
        let fits = |p: &Loaded| p.as_ref().is_ok_and(|p| p.hook() == hook && p.is_for(ifindex));
        let program = loaded.remove(interface).filter(fits);
        let mut steer = program.unwrap_or_else(|| load(loader, interface, hook, kit.flows))?;
        kit.steering.apply(&mut steer).map_err(NoPacketPort::Fails)?;
        steer.set_given_back(kit.given_back)?;
        Ok(steer)
    }

    /// Opens AF_XDP, with the first queue where it is bound already.
    fn open_xdp(
        &mut self,
        asked: &Asked<'_>,
        device: &Device,
        kit: &OpeningKit<'_>,
        first: Option<(XskQueue, XskTransfer)>,
    ) -> Result<Working, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let (Asked { ifindex, .. }, OpeningKit { workers, .. }) = (*asked, *kit);
        let rings = self.rings(kit)?;
        let mut steer = self.program(asked, Hook::Xdp, kit).map_err(|e| text(&e))?;
        let mut vlan_trouble = None;
        for finding in device.findings(self.region.umem().chunk_len(), false) {
            match finding {
                Finding::VlanOffload { .. } => vlan_trouble = Some(finding),
                Finding::MtuTooLargeForNative { .. } => {
                    warn!(port = asked.config.interface, "{finding}");
                }
                Finding::MtuTooLargeForChunk { .. } => {}
            }
        }
        let queues = asked.config.queues.unwrap_or(device.rx_queues).min(device.rx_queues);
        let most = workers.count() * slots::QUEUES_PER_WORKER;
        if queues as usize > most {
            return Err(format!(
                "{0} has {queues} queues, and {1} workers take at most {most}: set port.queues, or more \
                 workers (worker.cpus), or `ethtool -L {0} combined {most}`",
                asked.config.interface,
                workers.count()
            ));
        }
        let mut sockets: Vec<_> = first.into_iter().collect();
        for queue in sockets.len() as u32..queues {
            sockets
                .push(XskQueue::new(&self.region, ifindex, queue, &rings).map_err(|e| text(&e))?);
        }
        let mut transfer = XskTransfer::Copy;
        let counters = sockets.iter().map(|(socket, _)| socket.counters()).collect();
        for (queue, (socket, got)) in (0..).zip(sockets) {
            transfer = got;
            // The map holds the socket by itself; ours goes to the worker.
            let fd = socket.socket().try_clone_to_owned().map_err(|e| {
                workers.remove_ports(ifindex);
                text(&e)
            })?;
            let port: Box<dyn Port> = Box::new(socket);
            // The worker fills the ring before the first frame is steered to it.
            workers.add_port(asked.slot, queue, ifindex, port);
            steer.set_socket(queue, fd.as_fd()).map_err(|e| {
                workers.remove_ports(ifindex);
                text(&e)
            })?;
        }
        let transfer = (Transfer::Xdp(transfer), Some(rings.ready));
        let working = Working::new(ifindex, Box::new(steer), transfer, counters);
        Ok(Working { vlan_trouble, ..working })
    }

    /// Opens packet sockets, one for each worker unless told otherwise.
    fn open_packet(
        &mut self,
        asked: &Asked<'_>,
        kit: &OpeningKit<'_>,
    ) -> Result<Working, NoPacketPort> {
        let (Asked { ifindex, .. }, OpeningKit { workers, .. }) = (*asked, *kit);
        let mut steer = self.program(asked, Hook::Packet, kit)?;
        steer.prepare()?;
        let most = workers.count() * slots::QUEUES_PER_WORKER;
        let queues =
            asked.config.queues.map_or(workers.count(), |queues| queues as usize).min(most);
        let config =
            PacketConfig { interface: &asked.config.interface, ifindex, filter: steer.filter()? };
        let sockets = PacketSocket::open_several(&config, queues)?;
        let counters = sockets.iter().map(Port::counters).collect();
        for (queue, socket) in (0..).zip(sockets) {
            workers.add_port(asked.slot, queue, ifindex, Box::new(socket));
        }
        Ok(Working::new(ifindex, Box::new(steer), (Transfer::Packet, None), counters))
    }
}
