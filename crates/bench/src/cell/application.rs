//! The application: forwards at layer 2, as DPDK's testpmd does with `--forward-mode=5tswap`. It exchanges the Ethernet
//! addresses; and, so that a packet from the core network is one to it again, for which policy has an SA, the addresses
//! of IP and the ports of UDP.
//!
//! It is a client of memif: the memory is its own, a sealed memory file that the gateway maps a second time. It never
//! sleeps and never asks to be woken.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memif::message::Name;
use memif::{Channel, ClientConfig, Fault, Faults, Link, LinkError, Queue, ServerConfig, Trust};

use crate::error::BenchError;
use crate::pin::pin;

/// As [`RING_LEN`] has it.
const LOG2_RING_SIZE: u8 = 10;
/// Packets of one direction that lie in shared memory at most.
pub(super) const RING_LEN: usize = 1 << LOG2_RING_SIZE;

/// The two ends of an interface that have come to terms.
pub(super) struct Connection {
    /// The gateway's queues.
    pub(super) gateway: Vec<Queue>,
    /// The application's ends of the queues.
    pub(super) application: Vec<Queue>,
    /// Faults of either end.
    pub(super) faults: Arc<Faults>,
    /// Control channels: an end that is dropped is seen by the other.
    _links: [Link; 2],
}

impl Connection {
    /// An interface of so many pairs of queues.
    pub(super) fn new(queues: usize) -> Result<Connection, BenchError> {
        let wrong = |error: LinkError| BenchError::Application(error.to_string());
        let queues = queues as u16;
        let server = ServerConfig {
            id: 0,
            name: Name::new("bench"),
            secret: None,
            queues,
            log2_ring_size: LOG2_RING_SIZE,
            trust: Trust::Sealed,
            most_bytes: u64::MAX,
        };
        let client = ClientConfig {
            id: 0,
            name: Name::new("application"),
            secret: None,
            queues,
            log2_ring_size: LOG2_RING_SIZE,
            buffer_len: BUFFER_LEN,
        };
        let faults = Faults::new();
        let ends = Channel::pair().map_err(BenchError::system("make a control channel"))?;
        let mut server = Link::serve(ends.0, &server, &faults).map_err(wrong)?;
        let mut client = Link::join(ends.1, &client, &faults);
        let (mut gateway, mut application) = (None, None);
        // As many messages as rings and regions, and some.
        for _ in 0..16 + 4 * usize::from(queues) {
            gateway = server.advance().map_err(wrong)?.or(gateway);
            application = client.advance().map_err(wrong)?.or(application);
            if gateway.is_some() && application.is_some() {
                break;
            }
        }
        let (Some(gateway), Some(application)) = (gateway, application) else {
            return Err(BenchError::Application("the ends did not come to terms".to_owned()));
        };
        Ok(Connection { gateway, application, faults, _links: [server, client] })
    }
}

/// Counts of the application so far.
#[derive(Debug, Default)]
pub(super) struct Done {
    forwarded: AtomicU64,
    /// Nanoseconds in which it had packets.
    busy_ns: AtomicU64,
}

impl Done {
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    pub(super) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))
    }
}

/// Forwards what comes by its queues until it is told to end; on a core of its own where there is one, and else it
/// leaves the core while nothing comes.
pub(super) fn run(
    mut queues: Vec<Queue>,
    core: Option<usize>,
    done: &Done,
    is_over: &AtomicBool,
) -> Result<(), BenchError> {
    if core.is_some() {
        pin(core)?;
    }
    queues.iter().for_each(|queue| queue.receiver.set_wakeup(false));
    let mut buffer = vec![0; BUFFER_LEN as usize];
    let mut idle = 0_u32;
    let mut now = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let mut count = 0;
        for queue in &mut queues {
            count += forward(queue, &mut buffer, &done.forwarded)
                .map_err(|fault| BenchError::Application(fault.name().to_owned()))?;
        }
        let then = core::mem::replace(&mut now, Instant::now());
        if count > 0 {
            idle = 0;
            done.busy_ns.fetch_add((now - then).as_nanos() as u64, Ordering::Relaxed);
        } else {
            idle += 1;
            core::hint::spin_loop();
            if core.is_none() || idle.is_multiple_of(LOOKS) {
                thread::yield_now();
            }
        }
    }
    Ok(())
}

/// Sends back a burst of what has come, and returns how many packets that were. They are counted before the gateway sees
/// them, which asks once it has them all.
fn forward(queue: &mut Queue, buffer: &mut [u8], forwarded: &AtomicU64) -> Result<u64, Fault> {
    let mut filled = queue.receiver.filled().min(BURST);
    if filled == 0 {
        return Ok(0);
    }
    let (mut room, mut count) = (queue.transmitter.room(), 0);
    // A packet has one buffer.
    while filled > 0 && room > 0 {
        let len = queue.receiver.packet(&mut filled, buffer)?;
        let frame = buffer.get_mut(..len).unwrap_or_default();
        exchange(frame).ok_or(Fault::TooShort)?;
        if !queue.transmitter.packet(&mut room, frame) {
            return Err(Fault::Buffer);
        }
        count += 1;
    }
    queue.receiver.release();
    forwarded.fetch_add(count, Ordering::Relaxed);
    queue.transmitter.publish();
    Ok(count)
}

/// Makes a frame of UDP over IPv4 go back to where it came from. No checksum changes by it.
fn exchange(frame: &mut [u8]) -> Option<()> {
    let (ethernet, ip) = frame.split_at_mut_checked(14)?;
    swap(ethernet, 0, 6)?;
    swap(ip, 12, 4)?;
    let header_len = usize::from(ip.first()? & 0xf) * 4;
    swap(ip.get_mut(header_len..)?, 0, 2)
}

/// Exchanges a field with the one behind it, of the same length.
fn swap(bytes: &mut [u8], at: usize, len: usize) -> Option<()> {
    let (one, other) = bytes.get_mut(at..at + 2 * len)?.split_at_mut(len);
    one.swap_with_slice(other);
    Some(())
}

/// Bytes of a buffer in shared memory.
const BUFFER_LEN: u32 = 2048;
/// Packets that are forwarded before the gateway sees them.
const BURST: u16 = 64;
/// Looks at empty queues before the core is offered to others.
const LOOKS: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_went_there_and_back_is_as_it_was() {
        let mut frame: Vec<u8> = (0..60).collect();
        frame[14] = 0x45;
        let before = frame.clone();
        exchange(&mut frame).unwrap();
        assert_eq!(frame[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(frame[26..34], [30, 31, 32, 33, 26, 27, 28, 29]);
        assert_eq!(frame[34..38], [36, 37, 34, 35]);
        exchange(&mut frame).unwrap();
        assert_eq!(frame, before);
        assert_eq!(exchange(&mut frame[..37]), None);
    }
}
