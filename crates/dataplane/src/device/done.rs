//! What comes back from devices.

use arrayvec::ArrayVec;
use io::BURST_LEN;
use offload::{Burst, Completion, Status, Work};
use outcome::DropReason;
use policy::{Direction, Flow, Marks, SaHandle};
use wire::{Headers, protocol};

use super::{DevicePacket, ingress_of};
use crate::apply::send_sealed_to;
use crate::burst::Path;
use crate::packets::handoff::{Arrived, Handed};
use crate::resolve::next_hop_of;
use crate::slow::Slow;
use crate::view::View;

impl Slow {
    /// Gives the devices what waits for them, and moves on what they have done.
    #[cold]
    #[inline(never)]
    pub(crate) fn exchange(&mut self, path: &mut Path) {
        let count = path.exec.devices.as_ref().map_or(0, |devices| devices.queues.len());
        for at in 0..count {
            // What comes out of a device may be for it again, each time with an SA less around it.
            for _ in 0..MOST_BURSTS {
                let mut done = Burst::new();
                if let Some(devices) = &mut path.exec.devices
                    && let Some(queue) = devices.queues.get_mut(at)
                {
                    queue.exchange(&mut done);
                }
                if done.is_empty() {
                    break;
                }
                path.exec.out.released(done.len() as u64);
                self.move_on_done(path, at, done);
            }
        }
    }

    fn move_on_done(&mut self, path: &mut Path, at: usize, done: Burst<Completion<DevicePacket>>) {
        let mut opened: ArrayVec<Handed, BURST_LEN> = ArrayVec::new();
        for Completion { buffer, work, status } in done {
            let via = match status {
                Status::Dropped(reason) => {
                    path.exec.out.drop(buffer.into_packet(), reason);
                    continue;
                }
                Status::Lost => {
                    path.exec.out.drop(buffer.into_packet(), DropReason::DeviceLost);
                    continue;
                }
                Status::Done if work == Work::Outbound => {
                    path.send_from_device(buffer);
                    continue;
                }
                Status::Done => path.opened_by_some(at, &buffer),
                Status::Opened(sa) => path.device_queue(at).and_then(|queue| queue.sa(sa)),
            };
            match via {
                // As many as came.
                Some(via) => drop(opened.try_push(path.opened(buffer, via))),
                None => path.exec.out.drop(buffer.into_packet(), DropReason::InPolicy),
            }
        }
        path.exec.out.counters.work.decrypted.add(opened.len() as u64);
        self.take_over(path, &mut opened);
    }
}

impl Path {
    fn device_queue(&self, at: usize) -> Option<&super::DeviceQueue> {
        self.exec.devices.as_ref()?.queues.get(at)
    }

    /// Sends what a device has sealed, by the route to its peer.
    fn send_from_device(&mut self, buffer: DevicePacket) {
        let packet = buffer.into_packet();
        let Path { view, exec, .. } = self;
        let to = match wire::parse_ip(packet.data()) {
            // In clear nothing leaves here, whatever policies the device has.
            Ok(h) if !is_protected(view, &h) => Err(DropReason::OutPolicyBlock),
            Ok(h) => next_hop_of(view, h.dst, h.src),
            Err(error) => Err(error.into()),
        };
        match to {
            Ok(to) => {
                exec.out.counters.work.encrypted.add(1);
                send_sealed_to(view, &mut exec.out, packet, &to, &mut exec.crypt.ivs);
            }
            Err(reason) => exec.out.drop(packet, reason),
        }
    }

    /// The SA that opened a packet, where the device does not say: one with the reqid that the device's own policy asks
    /// for, by which the device has let the packet pass.
    fn opened_by_some(&self, at: usize, buffer: &DevicePacket) -> Option<SaHandle> {
        use offload::Buffer;
        let queue = self.device_queue(at)?;
        let h = wire::parse_ip(buffer.packet()).ok()?;
        let ifindex = self.view.leads_to(&h, buffer.ifindex());
        let flow = Flow::marked(&h, ifindex, Marks::default());
        let policy = self.view.reader.policy(Direction::In, &flow)?;
        let is_its = policy.config.flags.device == Some(queue.number());
        let reqid = policy.config.templates.first().filter(|_| is_its)?.reqid;
        queue.sa_of_reqid(reqid)
    }

    /// What an SA in a device has opened, as a packet that the SA has decrypted.
    fn opened(&self, buffer: DevicePacket, via: SaHandle) -> Handed {
        let ifindex = buffer.ifindex();
        let packet = buffer.into_packet();
        let mark = match self.view.topology.mark_rules.is_empty() {
            true => 0,
            false => wire::parse_ip(packet.data())
                .map_or(0, |h| self.view.topology.mark(ifindex, &(&h).into())),
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
}

/// Whether a packet is ESP or AH, or ESP in UDP.
fn is_protected(view: &View, h: &Headers) -> bool {
    match h.protocol {
        protocol::ESP | protocol::AH => true,
        protocol::UDP => view.topology.is_natt_port(h.src_port),
        _ => false,
    }
}

/// Bursts that a device has in its turn at most.
const MOST_BURSTS: usize = 16;
