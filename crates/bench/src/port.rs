//! The benchmarks' packet port: two lists that change hands, so that it costs next to nothing.
//!
//! [`io::MemoryPort`] takes a lock for each burst and moves each packet through two queues. Here the
//! worker's end owns its lists; a lock is taken only when the list of what is to be received has
//! run out, which is also when what was sent is handed over.

use core::mem;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::{Burst, FramePool, Packet, Port, PortCounters, PortError};

/// The wire's end: packets to be received, and packets that were sent.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Lists>>);

#[derive(Default)]
struct Lists {
    /// To be received, the first one last.
    incoming: Vec<Packet>,
    sent: Vec<Packet>,
}

impl Wire {
    /// The worker's end, with room for so many packets each way.
    pub(crate) fn port(&self, limit: usize) -> WirePort {
        let mut lists = self.lock();
        lists.incoming.reserve(limit);
        lists.sent.reserve(limit);
        WirePort {
            wire: self.clone(),
            incoming: Vec::with_capacity(limit),
            sent: Vec::with_capacity(limit),
            counters: PortCounters::new(),
        }
    }

    /// Gives all packets to be received, in order; the list is empty afterwards.
    pub(crate) fn give(&self, packets: &mut Vec<Packet>) {
        packets.reverse();
        self.lock().incoming.append(packets);
    }

    /// Takes all packets that were sent, in order.
    pub(crate) fn take(&self, packets: &mut Vec<Packet>) {
        packets.append(&mut self.lock().sent);
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker's end of a [`Wire`].
pub(crate) struct WirePort {
    wire: Wire,
    incoming: Vec<Packet>,
    sent: Vec<Packet>,
    counters: Arc<PortCounters>,
}

impl WirePort {
    /// Exchanges lists with the wire's end: nothing is left to be received here.
    #[cold]
    fn exchange(&mut self) {
        let mut lists = self.wire.lock();
        mem::swap(&mut self.incoming, &mut lists.incoming);
        lists.sent.append(&mut self.sent);
    }
}

impl Port for WirePort {
    fn rx(&mut self, _pool: &mut FramePool, out: &mut Burst) -> Result<usize, PortError> {
        if self.incoming.is_empty() {
            self.exchange();
        }
        let count = self.incoming.len().min(out.remaining_capacity());
        let first = self.incoming.len() - count;
        let mut bytes = 0;
        // The list has the first one last.
        for packet in self.incoming.drain(first..).rev() {
            bytes += packet.span.len as u64;
            out.push(packet);
        }
        self.counters.received(count as u64, bytes);
        Ok(count)
    }

    fn tx(&mut self, burst: &mut Burst, _pool: &mut FramePool) -> Result<usize, PortError> {
        let count = burst.len();
        let bytes = burst.iter().map(|packet| packet.span.len as u64).sum();
        self.counters.sent(count as u64, bytes);
        // In parts: as a whole each would be put together on the stack by narrow stores, which the wide load
        // behind them waits for.
        for Packet { frame, span } in burst.drain(..) {
            self.sent.push(Packet { frame, span });
        }
        Ok(count)
    }

    fn reclaim(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frames_held(&self) -> usize {
        let lists = self.wire.lock();
        self.incoming.len() + self.sent.len() + lists.incoming.len() + lists.sent.len()
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use io::{ChunkSize, Umem, UmemConfig};
    use wire::Span;

    use super::*;

    #[test]
    fn packets_keep_their_order_through_bursts() {
        let config = UmemConfig { chunks: 200, chunk_size: ChunkSize::Bytes2048, populate: false };
        let (umem, mut pool) = Umem::new(config).unwrap();
        let (left, right) = (Wire::default(), Wire::default());
        let (mut from, mut to) = (left.port(200), right.port(200));
        let mut packets: Vec<Packet> = core::iter::from_fn(|| pool.take())
            .map(|frame| Packet { frame, span: Span { start: 0, len: 60 } })
            .collect();
        let order: Vec<u32> = packets.iter().map(|p| p.frame.index()).collect();
        left.give(&mut packets);
        let mut burst = Burst::new();
        let mut counts = Vec::new();
        loop {
            let count = from.rx(&mut pool, &mut burst).unwrap();
            counts.push(count);
            if count == 0 {
                break;
            }
            assert_eq!(to.tx(&mut burst, &mut pool).unwrap(), count);
        }
        assert_eq!(counts, [64, 64, 64, 8, 0]);
        right.take(&mut packets);
        assert!(packets.is_empty(), "not handed over before the receiver has run dry");
        assert!(umem.accounting(&pool, from.frames_held() + to.frames_held(), 0).balances());
        assert_eq!(to.rx(&mut pool, &mut burst).unwrap(), 0);
        right.take(&mut packets);
        assert_eq!(packets.iter().map(|p| p.frame.index()).collect::<Vec<_>>(), order);
        assert_eq!((from.stats().rx_packets, to.stats().tx_bytes), (200, 200 * 60));
    }
}
