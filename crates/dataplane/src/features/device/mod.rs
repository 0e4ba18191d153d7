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
//! Each worker has a queue of each device, as far as the device has so many; one without hands packets over to the first
//! worker, which always has one. The device numbers packets in its own order, so packets of one SA may take several
//! queues; those of a flow take one. A packet in a device counts as held. Without a device nothing of this is there.

mod done;
mod queue;

use io::Packet;
use offload::{PacketSa, Work};
use outcome::{DropReason, Outcome};
use policy::SaHandle;

use crate::apply::Executor;
use crate::view::View;

use crate::model::{DEVICES_HOME, Ingress, Meta, Offload};
pub use queue::DevicePacket;
pub(crate) use queue::DeviceQueue;

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
        self.queues.iter_mut().find(|queue| queue.number() == device && !queue.is_adopted())
    }

    /// Takes over the queues of a worker that goes, which come to their end here.
    pub(crate) fn adopt(&mut self, gone: Devices) {
        let is_needed = |queue: &DeviceQueue| !queue.is_adopted() || queue.waiting() > 0;
        self.queues.retain(is_needed);
        let left = gone.queues.into_iter().filter(|queue| queue.waiting() > 0);
        self.queues.extend(left.map(DeviceQueue::adopted));
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
        if let Some(taps) = &mut self.out.taps {
            taps.given_to_seal(view, &packet, by.sa);
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
        let sa = device_sa(view, packet.data());
        let entry = sa.and_then(|sa| view.reader.sa(sa));
        let of = entry.and_then(|entry| Some((entry, PacketSa::of(entry.esp.session())?)));
        let (Some(sa), Some((entry, of))) = (sa, of) else {
            return self.out.drop(packet, DropReason::InNoState);
        };
        if !view.has_queue_of(of) {
            return self.out.hand_over(view, DEVICES_HOME, packet, meta);
        }
        if let Some(queue) = self.devices.as_mut().and_then(|all| all.queue(of.device())) {
            queue.note(of.sa(), entry.config.reqid, sa);
        }
        let ifindex = meta.ingress.ifindex;
        if let Some(taps) = &mut self.out.taps {
            taps.given_to_open(view, &packet, (sa, ifindex));
        }
        let packet = DevicePacket::new(packet, ifindex);
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

/// How what an SA opened came: as decrypted by it.
fn ingress_of(ifindex: u32, mark: u32, sa: SaHandle) -> Ingress {
    let mut ingress = Ingress::of_sa(ifindex, sa);
    ingress.mark = mark;
    ingress
}
