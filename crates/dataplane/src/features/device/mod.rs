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

mod queue;

use io::Packet;
use offload::{PacketSa, Work};
use outcome::{DropReason, Outcome};
use policy::SaHandle;
use wire::Fragment;

use crate::features::forward::is_syn;
use crate::features::hands::Hands;
use crate::features::rare::{Held, Next, Rare, Subject};
use crate::out::{AnyOut, Out};
use crate::view::View;

use crate::model::{DEVICES_HOME, Fate, Meta, Offload};
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

    /// How many there are, adopted ones among them.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    pub(crate) fn queue_at(&self, at: usize) -> Option<&DeviceQueue> {
        self.queues.get(at)
    }

    pub(crate) fn queue_at_mut(&mut self, at: usize) -> Option<&mut DeviceQueue> {
        self.queues.get_mut(at)
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

impl Rare for Offload {
    type Kept = Option<Box<Devices>>;

    /// As of an SA in software; but a device counts by itself, and takes no fragments.
    fn holds<'k>(&'k self, _devices: &'k Option<Box<Devices>>, asked: &Subject<'_>) -> Held<'k> {
        let Subject { reader, packet, h } = asked;
        let Some(sa) = reader.sa(self.sa) else { return Held::No };
        let fits = match self.longest {
            0 => {
                let len = sa.esp.sealed_len_of(packet.data(), *h);
                len.is_ok_and(|len| len <= usize::from(self.mtu))
            }
            longest => h.total_len() <= longest,
        };
        let holds = fits
            && sa.state() == self.state
            && h.fragment() == Fragment::Whole
            && (!self.is_hop || h.ttl() > 1)
            && (!self.clamps_mss || !is_syn(packet, *h));
        holds.into()
    }

    #[cold]
    #[inline(never)]
    fn apply(
        &self,
        devices: &mut Option<Box<Devices>>,
        hands: &mut Hands<'_>,
        packet: Packet,
        meta: &Meta,
    ) -> Option<Next> {
        seal(devices.as_deref_mut(), (hands.view, hands.out), self, packet, meta);
        None
    }

    fn explains(&self, _cut: Option<usize>) -> Fate {
        Fate::Offloaded
    }
}

/// Gives a packet to the device of the SA that protects it.
fn seal(
    devices: Option<&mut Devices>,
    (view, out): (&View, &mut Out),
    by: &Offload,
    mut packet: Packet,
    meta: &Meta,
) {
    let Some(sa) = view.reader.sa(by.sa) else {
        return out.drop(packet, DropReason::OutStateExpired);
    };
    let Some(of) = PacketSa::of(sa.esp.session()) else {
        return out.drop(packet, DropReason::OutDeviceMismatch);
    };
    if by.is_hop && !wire::decrement_ttl(packet.data_mut(), meta.summary.fields) {
        return out.drop(packet, DropReason::MalformedIp);
    }
    if let Some(taps) = &mut out.taps {
        taps.given_to_seal(view, &packet, by.sa);
    }
    give(devices, out, of.device(), Work::Outbound, DevicePacket::new(packet, 0));
}

/// Gives an ESP packet to the device of its SA.
#[cold]
#[inline(never)]
pub(crate) fn open(
    mut devices: Option<&mut Devices>,
    (view, out): (&View, &mut Out),
    packet: Packet,
    meta: &Meta,
) {
    let sa = device_sa(view, packet.data());
    let entry = sa.and_then(|sa| view.reader.sa(sa));
    let of = entry.and_then(|entry| Some((entry, PacketSa::of(entry.esp.session())?)));
    let (Some(sa), Some((entry, of))) = (sa, of) else {
        return out.drop(packet, DropReason::InNoState);
    };
    if !view.has_queue_of(of) {
        return out.hand_over(view, DEVICES_HOME, packet, meta);
    }
    if let Some(queue) = devices.as_mut().and_then(|all| all.queue(of.device())) {
        queue.note(of.sa(), entry.config.reqid, sa);
    }
    let ifindex = meta.ingress.ifindex;
    if let Some(taps) = &mut out.taps {
        taps.given_to_open(view, &packet, (sa, ifindex));
    }
    give(devices, out, of.device(), Work::Inbound, DevicePacket::new(packet, ifindex));
}

fn give(
    devices: Option<&mut Devices>,
    out: &mut Out,
    device: u8,
    work: Work,
    packet: DevicePacket,
) {
    let queue = devices.and_then(|all| all.queue(device));
    let (packet, reason) = match queue {
        Some(queue) => match queue.gather(work, packet) {
            Ok(()) => return out.counters.count(Outcome::Held, 1),
            Err(packet) => (packet, DropReason::DeviceFull),
        },
        None => (packet, DropReason::DeviceLost),
    };
    out.drop(packet.into_packet(), reason);
}

/// Gives the devices up, and what they have.
pub(crate) fn drop_all(devices: &mut Option<Box<Devices>>, out: &mut Out) {
    if let Some(devices) = devices.take() {
        let count = devices.waiting() as u64;
        out.released(count);
        out.counters.count(Outcome::Dropped(DropReason::DeviceLost), count);
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

/// True if a packet is ESP of an SA that a device has.
pub(crate) fn is_for_device(view: &View, packet: &[u8]) -> bool {
    let sa = device_sa(view, packet).and_then(|sa| view.reader.sa(sa));
    sa.is_some_and(|sa| sa.home().at() == dispatch::Home::DEVICE)
}
