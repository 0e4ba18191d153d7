//! Faults of a peer, counted by name.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// Something that a peer must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A ring's index is further than the ring is long. Ends the connection.
    RingIndex,
    /// A descriptor names memory that is not there. A packet is lost; where we were to write it, the
    /// connection ends.
    Buffer,
    /// A packet's last descriptor says that another follows, and none does.
    OpenChain,
    /// A packet is longer than the port's MTU allows.
    TooLong,
    /// A packet is shorter than an Ethernet header.
    TooShort,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RingIndex, Self::Buffer, Self::OpenChain, Self::TooLong, Self::TooShort];

    /// Name of the counter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingIndex => "ring-index",
            Self::Buffer => "bad-buffer",
            Self::OpenChain => "open-chain",
            Self::TooLong => "too-long",
            Self::TooShort => "too-short",
        }
    }
}

/// The faults of one interface's peers so far. Written by the workers that have its queues, read by any thread.
#[derive(Debug, Default)]
pub struct Faults {
    counts: [AtomicU64; Fault::ALL.len()],
    /// Threads that wake peers, or are held up by one.
    pub(crate) bells: AtomicUsize,
}

impl Faults {
    /// Counters that are all zero.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Counts a fault once.
    #[cold]
    pub fn count(&self, fault: Fault) {
        if let Some(count) = self.counts.get(fault as usize) {
            // Relaxed: a figure, that orders nothing.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often each has happened.
    pub fn read(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.iter().zip(&self.counts).map(|(fault, n)| (*fault, n.load(Ordering::Relaxed)))
    }

    /// How many in all.
    pub fn sum(&self) -> u64 {
        self.read().map(|(_, count)| count).sum()
    }
}

/// Sign that a connection has to end, because of its peer's fault. Set by the thread that finds the
/// fault, read by the one with the control channel.
#[derive(Clone, Debug, Default)]
pub struct Broken(Arc<AtomicBool>);

impl Broken {
    /// From now on nothing moves.
    #[cold]
    pub fn set(&self) {
        // Relaxed: a flag that stands for nothing but itself.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the connection has to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_counter_and_a_name_of_its_own() {
        let faults = Faults::new();
        for (times, fault) in Fault::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| faults.count(fault));
        }
        assert!(faults.read().map(|(_, count)| count).eq(1..=5));
        assert_eq!(faults.sum(), 15);
        let names: std::collections::BTreeSet<_> = Fault::ALL.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), Fault::ALL.len());
    }
}
