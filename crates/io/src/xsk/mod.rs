//! AF_XDP queues: packets to and from one queue of an interface, past the kernel's stack.
//!
//! # One region, many sockets
//!
//! All queues of all workers use one region, which AF_XDP knows as an [`XskRegion`]. The first socket
//! registers it with the kernel; each further one binds with `XDP_SHARED_UMEM` to a socket that works in the same mode
//! (a shared bind inherits copy or zero copy), and has its own fill and completion ring because
//! its interface or queue differs. When no such socket is left (its interface was deleted, or the
//! mode differs) the region is registered once more, which the kernel allows.
//!
//! Each queue is a port of its own, which any worker may own: it has its own four rings, and shares only the
//! region, whose depot needs no lock.
//!
//! # When frames come back
//!
//! A frame in a fill ring or a transmit ring belongs to the kernel. It comes back in a receive
//! descriptor or a completion, or when the queue is dropped:
//!
//! * Copy mode. Closing the socket unbinds it and waits for receive processing
//!   (`synchronize_net`) before `close` returns, so every fill frame is free then; the rings are
//!   unmapped first, since each mapping holds the socket open. Transmit slots that the kernel has
//!   not read are free as well: it reads them only in our own calls. A frame that was read but not
//!   completed may still be lent to a packet in flight (drivers with `IFF_TX_SKB_NO_LINEAR`):
//!   the drop waits up to 100 ms for completions, and what is still missing is quarantined, because
//!   writing to it could change what goes out on the wire.
//! * Zero copy. The kernel takes the queue from the driver in deferred work, after `close` has
//!   returned, and until then the device may write to fill frames. All frames of the queue are
//!   quarantined.
//!
//! Quarantined frames are never used again in the life of the region; [`crate::Accounting`] shows
//! them. A region that has lost many should be made anew. The descriptor is close-on-exec and must
//! not be duplicated, nor another thread be in a call on it or between `fork` and `exec` at the
//! drop: all of them would keep the socket alive after the drop.
//!
//! # Limits
//!
//! One buffer per packet (no `XDP_USE_SG`): a frame's room is the chunk less [`HEADROOM`].

mod bind;
mod ring;
mod socket;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::Span;

use crate::counters::PortCounters;
use crate::port::{Port, PortError};
use crate::umem::{Burst, Frame, FramePool, HEADROOM, Lent, Packet};
use bind::Rings;
pub use bind::{MIN_READY, TooFewFrames, XskConfig, XskError, XskMode, XskRegion, XskTransfer};

/// Counts of `XDP_STATISTICS`: packets of this queue that the kernel lost, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskStatistics {
    /// Dropped for any other reason, such as no room in a chunk.
    pub rx_dropped: u64,
    /// Invalid fill addresses. Always 0 unless something is wrong here.
    pub rx_invalid_descs: u64,
    /// Invalid transmit descriptors. Always 0 unless something is wrong here.
    pub tx_invalid_descs: u64,
    /// Dropped because the receive ring was full: the worker is too slow.
    pub rx_ring_full: u64,
    /// Dropped because the fill ring was empty: too few frames.
    pub rx_fill_ring_empty: u64,
    /// Times that the transmit ring was empty when the kernel looked.
    pub tx_ring_empty: u64,
}

/// The frames that the kernel has. Dropped after the rings and the socket (field order below).
struct Custody {
    rx: Lent,
    tx: Lent,
    /// Transmit slots that the kernel had not read when the queue was dropped.
    unread: Vec<u64>,
    transfer: XskTransfer,
}

impl Drop for Custody {
    fn drop(&mut self) {
        if self.transfer == XskTransfer::Copy {
            self.rx.redeem_all();
            for address in &self.unread {
                drop(self.tx.redeem(*address));
            }
        }
        // The ledgers quarantine the chunks that they still hold, by their own drop.
    }
}

/// One queue of one interface.
pub struct XskQueue {
    name: String,
    counters: Arc<PortCounters>,
    wakeups_refused: u64,
    /// Frames that the kernel shall have for receiving.
    ready: u32,
    // The order of the next three matters at drop: unmap, close, recover.
    rings: Rings,
    socket: Arc<OwnedFd>,
    custody: Custody,
    region: XskRegion,
}

impl XskQueue {
    /// Opens and binds a socket to queue `queue` of interface `ifindex`, and says which mode it
    /// got. Waits up to half a second for a queue that another socket has just left. Packets arrive
    /// once the socket is in the steering program's map and the fill ring has
    /// been filled by the first [`Port::rx`].
    ///
    /// # Errors
    ///
    /// [`XskError`] names the system call and what to do.
    pub fn new(
        region: &XskRegion,
        ifindex: u32,
        queue: u32,
        config: &XskConfig,
    ) -> Result<(Self, XskTransfer), XskError> {
        let (socket, rings, transfer) = bind::bind(region, ifindex, queue, config)?;
        let name = format!("{} queue {queue}", socket::interface_name(ifindex));
        let umem = region.umem();
        let custody =
            Custody { rx: umem.ledger(), tx: umem.ledger(), unread: Vec::new(), transfer };
        let counters = PortCounters::new();
        let region = region.clone();
        let ready = config.ready.min(config.fill);
        let wakeups_refused = 0;
        let queue = Self { name, counters, wakeups_refused, ready, rings, socket, custody, region };
        Ok((queue, transfer))
    }

    /// The interface and the queue, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The socket, for the steering program's map.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The kernel's counters for this queue.
    ///
    /// # Errors
    ///
    /// [`PortError`] when the socket can't tell.
    pub fn statistics(&self) -> Result<XskStatistics, PortError> {
        let raw = socket::statistics(self.socket.as_fd())
            .map_err(|source| PortError::new(&self.name, "getsockopt(XDP_STATISTICS)", source))?;
        Ok(XskStatistics {
            rx_dropped: raw.rx_dropped,
            rx_invalid_descs: raw.rx_invalid_descs,
            tx_invalid_descs: raw.tx_invalid_descs,
            rx_ring_full: raw.rx_ring_full,
            rx_fill_ring_empty: raw.rx_fill_ring_empty_descs,
            tx_ring_empty: raw.tx_ring_empty_descs,
        })
    }

    /// Times that the kernel refused to send for now, mostly because the link is down.
    pub const fn wakeups_refused(&self) -> u64 {
        self.wakeups_refused
    }

    /// Makes the kernel send what is in the transmit ring, if it has to be told.
    ///
    /// While the link is down packets stay in the ring and are sent when it is up again.
    ///
    /// # Errors
    ///
    /// [`PortError::Gone`] when the interface is gone.
    pub fn wake_tx(&mut self) -> Result<(), PortError> {
        // Copy mode sends a bounded number per call and then reports EAGAIN.
        for _ in 0..TX_WAKEUPS {
            if !self.rings.tx.needs_wakeup() || !self.rings.tx.is_pending() {
                return Ok(());
            }
            let Err(source) = socket::wake_tx(self.socket.as_fd()) else { continue };
            match source.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => {}
                Some(libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => {
                    self.wakeups_refused += 1;
                    return Ok(());
                }
                _ => return Err(PortError::new(&self.name, "sendto", source)),
            }
        }
        Ok(())
    }

    /// Gives the kernel new frames to receive into, a batch at a time.
    ///
    /// All that it has for receiving, filled or still to be filled, is `XskConfig::ready`: what waits in
    /// the receive ring is not asked for twice.
    fn refill(&mut self, pool: &mut FramePool, came: usize) {
        let missing = self.ready.saturating_sub(self.custody.rx.count() as u32);
        if missing < REFILL_LEN.min(self.ready / 4) && (came > 0 || missing == 0) {
            return;
        }
        let room = self.rings.fill.room(missing).min(missing);
        let mut filled = 0;
        while filled < room {
            let Some(frame) = pool.take() else { break };
            match self.custody.rx.lend(frame) {
                Ok(address) => self.rings.fill.push(address),
                // The pool is of another region: its frames are of no use here.
                Err(frame) => {
                    drop(frame);
                    break;
                }
            }
            filled += 1;
        }
        if filled > 0 {
            self.rings.fill.publish();
        }
    }

    /// Lends a copy of a packet that lies in a frame of another region; none if there is no frame, or none
    /// is long enough.
    #[cold]
    fn lend_copy(
        &mut self,
        frame: &Frame,
        span: Span,
        pool: &mut FramePool,
    ) -> Option<(u64, usize)> {
        let mut copy = pool.take()?;
        let start = copy.headroom();
        let bytes = frame.bytes().get(span.range())?;
        let place = copy.bytes_mut().get_mut(start..).and_then(|room| room.get_mut(..span.len));
        let Some(place) = place else {
            pool.put(copy);
            return None;
        };
        place.copy_from_slice(bytes);
        // A pool of the region, or nothing of it could be received either.
        Some((self.custody.tx.lend(copy).ok()?, start))
    }

    fn complete(&mut self, pool: &mut FramePool) {
        let mut taken = false;
        while let Some(address) = self.rings.completion.pop() {
            taken = true;
            if let Some(frame) = self.custody.tx.redeem(address) {
                pool.put(frame);
            }
        }
        if taken {
            self.rings.completion.release();
        }
    }
}

impl Port for XskQueue {
    // 1. Take descriptors, and turn each address back into its frame.
    // 2. Give the kernel new frames for those taken.
    // 3. Wake the driver if it sleeps.
    fn rx(&mut self, pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        let before = out.len();
        let (mut taken, mut bytes, mut refused) = (false, 0, 0);
        while !out.is_full() {
            let Some(desc) = self.rings.rx.pop() else { break };
            taken = true;
            let Some(frame) = self.custody.rx.redeem(desc.addr) else {
                refused += 1;
                continue;
            };
            let start = (desc.addr % self.region.umem().chunk_len() as u64) as usize;
            let packet = Packet { frame, span: Span { start, len: desc.len as usize } };
            if !packet.is_valid() {
                refused += 1;
                pool.put_packet(packet);
                continue;
            }
            bytes += u64::from(desc.len);
            out.push(packet);
        }
        if taken {
            self.rings.rx.release();
            self.counters.received((out.len() - before) as u64, bytes);
            self.counters.refused_rx(refused);
        }
        self.refill(pool, out.len() - before);
        if self.rings.fill.needs_wakeup()
            && let Err(source) = socket::wake_rx(self.socket.as_fd())
            && source.raw_os_error() == Some(libc::ENXIO)
        {
            return Err(PortError::new(&self.name, "recvfrom", source));
        }
        Ok(out.len() - before)
    }

    // 1. Take the completed frames back.
    // 2. Move packets from the front of the burst into free slots.
    // 3. Tell the kernel.
    fn tx(&mut self, burst: &mut Burst, pool: &mut FramePool) -> Result<usize, PortError> {
        self.complete(pool);
        let room = self.rings.tx.room(burst.len() as u32) as usize;
        let count = room.min(burst.len());
        let (mut packets, mut bytes) = (0, 0);
        for packet in burst.drain(..count) {
            let Span { start, len } = packet.span;
            // The kernel skips a bad descriptor without completing it, which would lose the frame.
            if !packet.is_valid() || len < ETHERNET_HEADER_LEN {
                pool.put_packet(packet);
                continue;
            }
            let lent = match self.custody.tx.lend(packet.frame) {
                Ok(address) => Some((address, start)),
                Err(frame) => self.lend_copy(&frame, packet.span, pool),
            };
            if let Some((address, start)) = lent {
                let addr = address + start as u64;
                self.rings.tx.push(libc::xdp_desc { addr, len: len as u32, options: 0 });
                packets += 1;
                bytes += len as u64;
            }
        }
        self.counters.sent(packets, bytes);
        self.counters.refused_tx(count as u64 - packets);
        self.rings.tx.publish();
        self.wake_tx()?;
        Ok(count)
    }

    fn reclaim(&mut self, pool: &mut FramePool) -> Result<(), PortError> {
        self.wake_tx()?;
        self.complete(pool);
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        socket::pending_error(self.socket.as_fd())
            .map_err(|source| PortError::new(&self.name, "getsockopt(SO_ERROR)", source))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket())
    }

    fn frames_held(&self) -> usize {
        self.custody.rx.count() + self.custody.tx.count()
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for XskQueue {
    fn drop(&mut self) {
        // After this no other queue can share by this socket, so its descriptor is the last.
        self.region.forget(&self.socket);
        let deadline = Instant::now() + COMPLETION_WAIT;
        loop {
            while let Some(address) = self.rings.completion.pop() {
                drop(self.custody.tx.redeem(address));
            }
            self.rings.completion.release();
            let unread: Vec<u64> = self.rings.tx.pending().map(|desc| desc.addr).collect();
            let in_flight = self.custody.tx.count().saturating_sub(unread.len());
            self.custody.unread = unread;
            if in_flight == 0 || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl core::fmt::Debug for XskQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "XskQueue({}, {:?})", self.name, self.custody.transfer)
    }
}

/// Frames that are worth touching the fill ring for, while packets come.
const REFILL_LEN: u32 = 64;

/// System calls per burst: enough for a full ring at the old budget of 32 packets a call.
const TX_WAKEUPS: usize = 4;

/// How long a drop waits for packets in flight.
const COMPLETION_WAIT: Duration = Duration::from_millis(100);

/// The shortest frame that the kernel sends.
const ETHERNET_HEADER_LEN: usize = 14;

// A queue may go to any worker's thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<XskQueue>();
};

// Received packets begin where outer headers fit in front.
const _: () = assert!(HEADROOM == 256);
