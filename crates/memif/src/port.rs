//! A queue of a memif interface as a packet port, with an interface of Linux's beside it.
//!
//! A memif interface has no device in the kernel. Its addresses, routes and neighbours have to be somewhere all the
//! same, and ARP has to be answered: so a TAP interface stands for it in Linux. Linux's own frames come by it and go
//! to the peer, and what of the peer's is Linux's goes there:
//!
//! | frame of the peer | goes to |
//! | --- | --- |
//! | to all or many stations (ARP requests, router and neighbour solicitations, DHCP) | Linux |
//! | neither IPv4 nor IPv6 (ARP replies, LLDP) | Linux |
//! | neighbour discovery and router messages (ICMPv6 types 133 to 137) | Linux |
//! | any other | the worker, which gives Linux what no policy protects |
//!
//! The same holds of what is behind tags of VLANs, which are Linux's devices on the TAP interface.
//!
//! Of several queues the first one has the TAP interface.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use io::tun::Tap;
use io::{Burst, FramePool, Packet, Port, PortCounters, PortError};
use rustix::event::{Timespec, epoll};
use wire::{EtherType, EthernetHeader, Span};

use crate::fault::Fault;
use crate::queue::Queue;

/// Frames that went between the peer and Linux, past the workers.
#[derive(Debug, Default)]
pub struct LinuxFrames {
    to: AtomicU64,
    from: AtomicU64,
    lost: AtomicU64,
}

impl LinuxFrames {
    /// To Linux, from Linux, and lost because the other side took no more.
    pub fn read(&self) -> (u64, u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.to), read(&self.from), read(&self.lost))
    }
}

/// The parts of a port, for its constructor.
pub struct Parts {
    /// Name of the port in messages.
    pub name: String,
    /// The pair of rings.
    pub queue: Queue,
    /// The interface that stands for it in Linux, at the first queue.
    pub tap: Option<Arc<Tap>>,
    /// The longest frame in bytes, in both directions.
    pub max_frame_len: usize,
    /// Counters of the queue's number, which outlive connections.
    pub counters: Arc<PortCounters>,
    /// Frames that go past the workers, to Linux.
    pub linux: Arc<LinuxFrames>,
}

/// A queue of a memif interface.
pub struct MemifPort {
    parts: Parts,
    /// Readable when a packet may have come: from the peer, or from Linux.
    wait: OwnedFd,
    from_linux: Box<[u8]>,
    /// The peer wakes us when it has sent something.
    is_wakeable: bool,
}

/// Bytes of an Ethernet header.
const HEADER_LEN: usize = 14;

/// Frames of Linux's that one look takes.
const LINUX_FRAMES: usize = 32;

impl MemifPort {
    /// A queue, as a port.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let wait = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let receiver = &parts.queue.receiver;
        // By edges: the eventfd is never read, as reading may wait where its other owner says so.
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&wait, &receiver.interrupt, epoll::EventData::new_u64(0), edges)?;
        if let Some(tap) = &parts.tap {
            let data = epoll::EventData::new_u64(1);
            epoll::add(&wait, tap.as_fd(), data, epoll::EventFlags::IN)?;
        }
        receiver.set_wakeup(true);
        let from_linux = vec![0; parts.max_frame_len].into_boxed_slice();
        Ok(Self { parts, wait, from_linux, is_wakeable: true })
    }

    /// Gives the peer what Linux sends.
    fn take_from_linux(&mut self) {
        let Parts { tap: Some(tap), queue, linux, .. } = &mut self.parts else { return };
        let mut room = queue.transmitter.room();
        let (mut sent, mut lost) = (0, 0);
        for _ in 0..LINUX_FRAMES {
            // An error is that of an interface that is down or gone, which others notice.
            let Ok(Some(len)) = tap.read(&mut self.from_linux) else { break };
            let frame = self.from_linux.get(..len).unwrap_or_default();
            if queue.transmitter.packet(&mut room, frame) { sent += 1 } else { lost += 1 }
        }
        if sent > 0 {
            queue.transmitter.publish();
        }
        // Relaxed, all: figures.
        if sent + lost > 0 {
            linux.from.fetch_add(sent, Ordering::Relaxed);
            linux.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// Gives Linux a frame of the peer's.
    #[cold]
    fn give_to_linux(&self, frame: &[u8]) {
        let Parts { tap, linux, .. } = &self.parts;
        let is_taken = tap.as_ref().is_some_and(|tap| tap.write(frame).is_ok());
        let count = if is_taken { &linux.to } else { &linux.lost };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing is there: asks to be woken, and looks again, as something may have come meanwhile.
    fn arm(&mut self) -> u16 {
        let mut events: [MaybeUninit<epoll::Event>; 2] = [const { MaybeUninit::uninit() }; 2];
        // So that the next edge is one again.
        let _ = epoll::wait(&self.wait, &mut events, Some(&Timespec::default()));
        if !self.is_wakeable {
            self.parts.queue.receiver.set_wakeup(true);
            self.is_wakeable = true;
        }
        self.parts.queue.receiver.filled()
    }

    /// Takes packets until the burst is full; says whether there was any.
    fn take(&mut self, mut filled: u16, pool: &mut FramePool, out: &mut Burst) {
        let (mut bytes, mut refused, before) = (0, 0, out.len());
        while filled > 0 && !out.is_full() {
            let Some(mut frame) = pool.take() else { break };
            let start = frame.headroom();
            let room = frame.bytes_mut().get_mut(start..).unwrap_or_default();
            let most = room.len().min(self.parts.max_frame_len);
            let room = room.get_mut(..most).unwrap_or_default();
            let receiver = &mut self.parts.queue.receiver;
            let len = match receiver.packet(&mut filled, room) {
                Ok(len) if len < HEADER_LEN => Err(Fault::TooShort),
                other => other,
            };
            let packet = match len {
                Ok(len) => Packet { frame, span: Span { start, len } },
                Err(fault) => {
                    receiver.faults.count(fault);
                    refused += 1;
                    pool.put(frame);
                    continue;
                }
            };
            if is_linux_s(packet.data()) {
                self.give_to_linux(packet.data());
                pool.put_packet(packet);
                continue;
            }
            bytes += packet.span.len as u64;
            out.push(packet);
        }
        self.parts.queue.receiver.release();
        self.parts.counters.received((out.len() - before) as u64, bytes);
        self.parts.counters.refused_rx(refused);
    }
}

/// True if a frame of the peer's is for Linux, see the table above.
#[inline]
fn is_linux_s(frame: &[u8]) -> bool {
    let [to, .., high, low] = frame.first_chunk::<HEADER_LEN>().unwrap_or(&[1; HEADER_LEN]);
    if to & 1 != 0 {
        return true;
    }
    match EtherType(u16::from_be_bytes([*high, *low])) {
        EtherType::IPV4 => false,
        EtherType::IPV6 => is_discovery(frame.get(HEADER_LEN..).unwrap_or_default()),
        tag if tag.is_vlan() => is_linux_s_tagged(frame),
        _ => true,
    }
}

/// The same for a frame with tags. The worker counts what is cut off, or has too many of them.
#[inline(never)]
fn is_linux_s_tagged(frame: &[u8]) -> bool {
    let Ok(header) = EthernetHeader::parse(frame) else { return false };
    match header.ether_type {
        EtherType::IPV4 => false,
        EtherType::IPV6 => is_discovery(frame.get(header.payload_offset..).unwrap_or_default()),
        ether_type => !ether_type.is_vlan(),
    }
}

/// True if an IPv6 packet is of neighbour discovery (RFC 4861): right behind the header, as that
/// RFC asks for.
fn is_discovery(packet: &[u8]) -> bool {
    const ICMPV6: u8 = 58;
    packet.get(6) == Some(&ICMPV6) && matches!(packet.get(40), Some(133..=137))
}

impl Port for MemifPort {
    // 1. Look, and look at Linux and ask to be woken where there is nothing.
    // 2. Copy packets into frames.
    // 3. Give the peer its buffers back.
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        let before = out.len();
        if self.parts.queue.receiver.broken.is_set() || out.is_full() {
            return Ok(0);
        }
        // A second time where all that came was Linux's. A peer that sends nothing else waits for a
        // worker that sleeps, 50 ms at most.
        for _ in 0..2 {
            let mut filled = self.parts.queue.receiver.filled();
            if filled == 0 {
                self.take_from_linux();
                filled = self.arm();
            }
            if filled == 0 {
                break;
            }
            self.take(filled, pool, out);
            if out.len() > before {
                if self.is_wakeable {
                    self.parts.queue.receiver.set_wakeup(false);
                    self.is_wakeable = false;
                }
                break;
            }
        }
        Ok(out.len() - before)
    }

    // 1. Copy packets from the front of the burst into the peer's buffers.
    // 2. Show them to the peer.
    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        let Parts { queue, counters, max_frame_len, .. } = &mut self.parts;
        let mut room = queue.transmitter.room();
        let (mut taken, mut packets, mut bytes) = (0, 0, 0);
        for packet in burst.iter() {
            let data = packet.data();
            if data.len() >= HEADER_LEN && data.len() <= *max_frame_len {
                if !queue.transmitter.packet(&mut room, data) {
                    break;
                }
                packets += 1;
                bytes += data.len() as u64;
            }
            taken += 1;
        }
        if packets > 0 {
            queue.transmitter.publish();
        }
        burst.drain(..taken).for_each(|packet| pool.put_packet(packet));
        counters.sent(packets, bytes);
        counters.refused_tx(taken as u64 - packets);
        Ok(taken)
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    /// The peer's end is seen at the control channel, that of the TAP interface by the mirror.
    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wait.as_fd())
    }

    fn frames_held(&self) -> usize {
        0
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.parts.counters)
    }
}

impl core::fmt::Debug for MemifPort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "MemifPort({})", self.parts.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, ether_type: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![to, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(ether_type.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn what_is_linux_s() {
        let mut ipv6 = [0; 60];
        (ipv6[6], ipv6[40]) = (58, 136);
        assert!(is_linux_s(&frame(2, 0x86dd, &ipv6)), "a neighbour advertisement");
        ipv6[40] = 128;
        assert!(!is_linux_s(&frame(2, 0x86dd, &ipv6)), "an echo request");
        assert!(!is_linux_s(&frame(2, 0x0800, &[0; 20])));
        assert!(is_linux_s(&frame(0xff, 0x0800, &[0; 20])), "to all");
        assert!(is_linux_s(&frame(2, 0x0806, &[0; 28])), "an ARP reply");
        let tagged = |ether_type: [u8; 2], packet: &[u8]| {
            frame(2, 0x88a8, &[&[0, 7, 0x81, 0, 0, 100], &ether_type[..], packet].concat())
        };
        assert!(is_linux_s(&tagged([8, 6], &[0; 28])), "an ARP reply in a VLAN");
        assert!(!is_linux_s(&tagged([8, 0], &[0; 28])));
        assert!(!is_linux_s(&tagged([0x86, 0xdd], &ipv6)));
        ipv6[40] = 136;
        assert!(is_linux_s(&tagged([0x86, 0xdd], &ipv6)));
        assert!(!is_linux_s(&tagged([0x81, 0], &[0; 28])), "a third tag");
        assert!(!is_linux_s(&frame(2, 0x8100, &[0; 3])), "cut off");
    }
}
