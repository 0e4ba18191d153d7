//! A port's counters: written by the worker that owns the port, read by any thread at any time.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// A port's counters at one moment. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets handed to the worker.
    pub rx_packets: u64,
    /// Bytes of these packets.
    pub rx_bytes: u64,
    /// Received, but not handed on: malformed, too long for a frame, or more than a packet socket holds.
    pub rx_refused: u64,
    /// Packets taken over for transmission.
    pub tx_packets: u64,
    /// Bytes of these packets.
    pub tx_bytes: u64,
    /// Packets that left a burst without being sent: too short, too long, or refused.
    pub tx_refused: u64,
}

impl core::ops::AddAssign for PortStats {
    /// Adds the counters of another queue.
    fn add_assign(&mut self, other: Self) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.rx_refused += other.rx_refused;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.tx_refused += other.tx_refused;
    }
}

/// Counters that a port shares with those who show them. They outlive the port.
///
/// One writer: the port, so the thread of the worker that owns it. It adds by a load and a store, once a burst, and
/// no locked instruction. Readers get each counter as it is, packets and bytes of one burst not necessarily
/// together. Two cache lines of their own: a port next to it is not disturbed by readers.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_refused: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_refused: AtomicU64,
}

impl PortCounters {
    /// Counters that are all zero.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The counts so far.
    pub fn read(&self) -> PortStats {
        // Relaxed: figures, that order nothing.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PortStats {
            rx_packets: read(&self.rx_packets),
            rx_bytes: read(&self.rx_bytes),
            rx_refused: read(&self.rx_refused),
            tx_packets: read(&self.tx_packets),
            tx_bytes: read(&self.tx_bytes),
            tx_refused: read(&self.tx_refused),
        }
    }

    /// The writer's: so many packets were received, of so many bytes in all.
    #[inline]
    pub fn received(&self, packets: u64, bytes: u64) {
        add(&self.rx_packets, packets);
        add(&self.rx_bytes, bytes);
    }

    /// The writer's: so many packets were not handed on.
    #[inline]
    pub fn refused_rx(&self, packets: u64) {
        add(&self.rx_refused, packets);
    }

    /// The writer's: so many packets were taken over for transmission, of so many bytes in all.
    #[inline]
    pub fn sent(&self, packets: u64, bytes: u64) {
        add(&self.tx_packets, packets);
        add(&self.tx_bytes, bytes);
    }

    /// The writer's: so many packets can never be sent.
    #[inline]
    pub fn refused_tx(&self, packets: u64) {
        add(&self.tx_refused, packets);
    }
}

/// Adds, for the only writer. Nothing is written where nothing is added: then no reader's line goes away.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    if more > 0 {
        // Relaxed, both: no other thread writes.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<PortCounters>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_reads_while_the_owner_writes() {
        let counters = PortCounters::new();
        let reader = Arc::clone(&counters);
        let hand = std::thread::spawn(move || {
            let mut last = PortStats::default();
            while last.tx_packets < 10_000 {
                let now = reader.read();
                assert!(now.tx_packets >= last.tx_packets && now.tx_bytes >= last.tx_bytes);
                last = now;
                std::thread::yield_now();
            }
        });
        for _ in 0..10_000 {
            counters.received(2, 120);
            counters.sent(1, 60);
        }
        counters.refused_rx(3);
        counters.refused_tx(4);
        hand.join().expect("the reader");
        let mut stats = counters.read();
        assert_eq!((stats.rx_packets, stats.rx_bytes, stats.rx_refused), (20_000, 1_200_000, 3));
        stats += stats;
        assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_refused), (20_000, 1_200_000, 8));
        drop(counters);
    }
}
