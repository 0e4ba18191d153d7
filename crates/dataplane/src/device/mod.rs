//! Packet offload: packets on their way through devices that have SAs and policies of their own.
//!
//! ```text
//!   apply ── Action::Offload ──┐                    ┌─ ESP ──────────> route of the outer packet, out
//!            Home::DEVICE ─────┴─ gather ─> queue ──┤
//!                                                   └─ inner packet ─> as one that the SA has decrypted
//! ```
//!
//! Software asks its policies, in which the device's come first, and sees to it that SA and policy are of one device
//! and that the packet fits the path. Headers, numbers, cipher, window and limits are the device's. What it does not do
//! ends with a reason: there is nothing that software could do in its place, as it does not have the keys.
//!
//! The first worker has the queues, so an SA's packets take one queue; the others hand packets over to it. A
//! packet in a device counts as held. Without a device nothing of this is there.

mod done;
mod queue;

use io::Packet;
use offload::{PacketSa, Work};
use outcome::{DropReason, Outcome};
use policy::{SaHandle, WorkerIndex};

use crate::apply::Executor;
use crate::flows::Ingress;
use crate::flows::plan::Offload;
use crate::packets::Meta;
use crate::view::View;

pub use queue::DevicePacket;
pub(crate) use queue::DeviceQueue;

/// The worker that has the devices' queues.
pub(crate) const HOME: usize = WorkerIndex::FIRST.get();

/// The devices' queues of one worker.
#[derive(Default)]
pub(crate) struct Devices {
    queues: Vec<DeviceQueue>,
}

impl Devices {
    /// Adds a queue of the device of this number.
    pub(crate) fn add(&mut self, queue: DeviceQueue) {
        self.queues.push(queue);
    }

    fn queue(&mut self, device: u8) -> Option<&mut DeviceQueue> {
        self.queues.iter_mut().find(|queue| queue.number() == device)
    }

    /// Packets that wait for the devices, or are in them.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(DeviceQueue::waiting).sum()
    }
}

impl Executor {
    /// Gives a packet to the device of the SA that protects it.
    #[cold]
    #[inline(never)]
    pub(crate) fn offload(&mut self, view: &View, by: &Offload, mut packet: Packet, meta: &Meta) {
        if self.out.batch.is_some() {
            // A helper has no queue: the worker that it serves does this.
            return self.out.leave(view, packet, meta);
        }
        let Some(sa) = view.reader.sa(by.sa) else {
            return self.out.drop(packet, DropReason::OutStateExpired);
        };
        let Some(of) = PacketSa::of(sa.esp.session()) else {
            return self.out.drop(packet, DropReason::OutDeviceMismatch);
        };
        if by.is_hop && !wire::decrement_ttl(packet.data_mut(), meta.summary.fields) {
            return self.out.drop(packet, DropReason::MalformedIp);
        }
        self.give_to_device(of.device(), Work::Outbound, DevicePacket::new(packet, 0));
    }

    /// Gives an ESP packet to the device of its SA.
    #[cold]
    #[inline(never)]
    pub(crate) fn offload_open(&mut self, view: &View, packet: Packet, meta: &Meta) {
        if self.out.batch.is_some() {
            return self.out.leave(view, packet, meta);
        }
        if view.worker.get() != HOME {
            return self.out.hand_over(view, HOME, packet, meta);
        }
        let sa = device_sa(view, packet.data());
        let entry = sa.and_then(|sa| view.reader.sa(sa));
        let of = entry.and_then(|entry| Some((entry, PacketSa::of(entry.esp.session())?)));
        let (Some(sa), Some((entry, of))) = (sa, of) else {
            return self.out.drop(packet, DropReason::InNoState);
        };
        if let Some(queue) = self.devices.as_mut().and_then(|all| all.queue(of.device())) {
            queue.note(of.sa(), entry.config.reqid, sa);
        }
        let packet = DevicePacket::new(packet, meta.ingress.ifindex);
        self.give_to_device(of.device(), Work::Inbound, packet);
    }

    fn give_to_device(&mut self, device: u8, work: Work, packet: DevicePacket) {
        let queue = self.devices.as_mut().and_then(|all| all.queue(device));
        let (packet, reason) = match queue {
            Some(queue) => match queue.gather(work, packet) {
                Ok(()) => return self.out.counters.count(Outcome::Held, 1),
                Err(packet) => (packet, DropReason::DeviceFull),
            },
            None => (packet, DropReason::DeviceLost),
        };
        self.out.drop(packet.into_packet(), reason);
    }

    /// Gives the devices up, and what they have.
    pub(crate) fn drop_devices(&mut self) {
        if let Some(devices) = self.devices.take() {
            let count = devices.waiting() as u64;
            self.out.released(count);
            self.out.counters.count(Outcome::Dropped(DropReason::DeviceLost), count);
        }
    }
}

/// The SA of an ESP packet, bare or in UDP.
fn device_sa(view: &View, packet: &[u8]) -> Option<SaHandle> {
    let h = wire::parse_ip(packet).ok()?;
    let udp_len = if h.protocol == wire::protocol::UDP { wire::udp::HEADER_LEN } else { 0 };
    let esp = packet.get(usize::from(h.header_len) + udp_len..)?;
    let spi = u32::from_be_bytes(*esp.first_chunk()?);
    view.inbound_sa(&wire::Summary::from(&h).flow, spi, wire::protocol::ESP)
}

/// Whether a packet is ESP of an SA that a device has.
pub(crate) fn is_for_device(view: &View, packet: &[u8]) -> bool {
    let sa = device_sa(view, packet).and_then(|sa| view.reader.sa(sa));
    sa.is_some_and(|sa| sa.home().at() == dispatch::Home::DEVICE)
}

/// The number of the device that an SA is in.
pub(crate) fn device_of(view: &View, sa: SaHandle) -> Option<u8> {
    let sa = view.reader.sa(sa)?;
    PacketSa::of(sa.esp.session()).map(PacketSa::device)
}

/// How what an SA opened came: as decrypted by it.
fn ingress_of(ifindex: u32, mark: u32, sa: SaHandle) -> Ingress {
    let mut ingress = Ingress::of_sa(ifindex, sa);
    ingress.mark = mark;
    ingress
}
