//! Packets that come back from devices.

use core::net::IpAddr;

use arrayvec::ArrayVec;
use io::BURST_LEN;
use offload::{Burst, Completion, Status, Work};
use outcome::DropReason;
use policy::{Direction, Flow, Marks, SaHandle};
use wire::{Headers, protocol};

use super::Slow;
use super::handed::take_over;
use crate::burst::Path;
use crate::features::device::{DevicePacket, DeviceQueue};
use crate::features::{Executor, Rooms};
use crate::model::{Adjacency, Arrived, Handed, Ingress, NextHop};
use crate::out::{AnyOut, Out};
use crate::resolve::{adjacency, next_hop_of};
use crate::view::View;

/// Gives the devices what waits for them, and moves on what they have done.
#[cold]
#[inline(never)]
pub(super) fn exchange(slow: &mut Slow, path: &mut Path) {
    let count = path.exec.rooms.devices.as_ref().map_or(0, |devices| devices.len());
    let (mut done, mut last) = (Burst::new(), None);
    for at in 0..count {
        // What comes out of a device may be for it again, each time with an SA less around it.
        for _ in 0..MOST_BURSTS {
            if let Some(devices) = &mut path.exec.rooms.devices
                && let Some(queue) = devices.queue_at_mut(at)
            {
                queue.exchange(&mut done);
            }
            if done.is_empty() {
                break;
            }
            path.exec.out.released(done.len() as u64);
            move_on_done(slow, path, at, (&mut done, &mut last));
        }
    }
}

fn move_on_done(
    slow: &mut Slow,
    path: &mut Path,
    at: usize,
    (done, last): (&mut Burst<Completion<DevicePacket>>, &mut Option<LastWay>),
) {
    let mut opened: ArrayVec<Handed, BURST_LEN> = ArrayVec::new();
    let Path { view, exec, .. } = &mut *path;
    for Completion { buffer, work, status } in done.drain(..) {
        let via = match status {
            Status::Dropped(reason) => {
                exec.out.drop(buffer.into_packet(), reason);
                continue;
            }
            Status::Lost => {
                exec.out.drop(buffer.into_packet(), DropReason::DeviceLost);
                continue;
            }
            Status::Done if work == Work::Outbound => {
                send_from_device(view, exec, buffer, last);
                continue;
            }
            Status::Done => {
                device_queue(&exec.rooms, at).and_then(|queue| opened_by_some(view, queue, &buffer))
            }
            Status::Opened(sa) => device_queue(&exec.rooms, at).and_then(|queue| queue.sa(sa)),
        };
        match via {
            // As many as came.
            Some(via) => drop(opened.try_push(decrypted(view, &mut exec.out, buffer, via))),
            None => exec.out.drop(buffer.into_packet(), DropReason::InPolicy),
        }
    }
    exec.out.counters.work.decrypted.add(opened.len() as u64);
    take_over(slow, path, &mut opened);
}

fn device_queue(rooms: &Rooms, at: usize) -> Option<&DeviceQueue> {
    rooms.devices.as_ref()?.queue_at(at)
}

/// Sends what a device has sealed, by the route to its peer.
fn send_from_device(
    view: &View,
    exec: &mut Executor,
    buffer: DevicePacket,
    last: &mut Option<LastWay>,
) {
    let mut packet = buffer.into_packet();
    let way = match wire::parse_ip(packet.data()) {
        // In clear nothing leaves here, whatever policies the device has.
        Ok(h) if !is_protected(view, &h) => Err(DropReason::OutPolicyBlock),
        Ok(h) => LastWay::of(view, &h, last),
        Err(error) => Err(error.into()),
    };
    let way = match way {
        Ok(way) => way,
        Err(reason) => return exec.out.drop(packet, reason),
    };
    exec.out.counters.work.encrypted.add(1);
    if let Some(taps) = &mut exec.out.taps {
        taps.sealed_by_device(&packet, way.to.ifindex);
    }
    let span = packet.span;
    if span.len <= way.to.mtu
        && let Some(adjacency) = &way.adjacency
        && let Some(frame) = adjacency.frame(packet.frame.bytes_mut(), span)
    {
        packet.span = frame;
        return exec.out.send(adjacency.slot.into(), packet);
    }
    exec.out.send_sealed_to(view, packet, &way.to, &mut exec.crypt.ivs);
}

/// The SA that opened a packet, where the device does not say: one with the reqid that the device's own policy asks
/// for, by which the device has let the packet pass.
fn opened_by_some(view: &View, queue: &DeviceQueue, buffer: &DevicePacket) -> Option<SaHandle> {
    use offload::Buffer;
    let h = wire::parse_ip(buffer.packet()).ok()?;
    let ifindex = view.leads_to(&h, buffer.ifindex());
    let flow = Flow::marked(&h, ifindex, Marks::default());
    let policy = view.reader.policy(Direction::In, &flow)?;
    let is_its = policy.config.flags.device == Some(queue.number());
    let reqid = policy.config.templates.first().filter(|_| is_its)?.reqid;
    queue.sa_of_reqid(reqid)
}

/// A packet that a device has opened, as one that the SA has decrypted.
fn decrypted(view: &View, out: &mut Out, buffer: DevicePacket, via: SaHandle) -> Handed {
    let ifindex = buffer.ifindex();
    let packet = buffer.into_packet();
    if let Some(taps) = &mut out.taps {
        taps.opened_by_device(&packet);
    }
    let mark = match view.topology.mark_rules.is_empty() {
        true => 0,
        false => {
            wire::parse_ip(packet.data()).map_or(0, |h| view.topology.mark(ifindex, &(&h).into()))
        }
    };
    Handed::Arrived(Arrived {
        packet,
        ingress: ingress_of(ifindex, mark, via),
        has_flow: true,
        outers: None,
        held: None,
        ports: None,
    })
}

/// The way of the last packet that a round has brought back. Tables are the same for a whole round, and packets of one
/// peer come together.
struct LastWay {
    /// Destination and source.
    ends: (IpAddr, IpAddr),
    to: NextHop,
    /// None where the neighbour has to be asked for first.
    adjacency: Option<Adjacency>,
}

impl LastWay {
    /// The way of a packet that is protected.
    #[inline(always)]
    fn of<'w>(
        view: &View,
        h: &Headers,
        last: &'w mut Option<LastWay>,
    ) -> Result<&'w LastWay, DropReason> {
        let ends = (h.dst, h.src);
        if last.as_ref().is_none_or(|last| last.ends != ends) {
            let to = next_hop_of(view, h.dst, h.src)?;
            let adjacency = adjacency(view, to, h.family());
            *last = Some(LastWay { ends, to, adjacency });
        }
        last.as_ref().ok_or(DropReason::NoRoute)
    }
}

/// True if a packet is ESP or AH, or ESP in UDP.
fn is_protected(view: &View, h: &Headers) -> bool {
    match h.protocol {
        protocol::ESP | protocol::AH => true,
        protocol::UDP => view.topology.is_natt_port(h.src_port),
        _ => false,
    }
}

/// Bursts that a device has in its turn at most.
const MOST_BURSTS: usize = 16;

/// How what an SA opened came: as decrypted by it.
fn ingress_of(ifindex: u32, mark: u32, sa: SaHandle) -> Ingress {
    let mut ingress = Ingress::of_sa(ifindex, sa);
    ingress.mark = mark;
    ingress
}
