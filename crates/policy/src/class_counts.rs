//! Packets of an SA by their class, for who measures a path through it.
//!
//! Only SAs that are measured count so. Counters begin with the first question, and go round: who reads them compares two
//! readings.

use core::array;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of the next SA that is measured.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Packets that an SA has carried, by the DSCP inside.
///
/// One writer at a time, as for all counters of an SA; any thread may read.
#[derive(Debug)]
pub struct ClassCounts {
    by: u64,
    packets: [AtomicU32; CLASSES],
}

const CLASSES: usize = 64;

impl ClassCounts {
    pub(crate) fn new() -> ClassCounts {
        let packets = array::from_fn(|_| AtomicU32::new(0));
        ClassCounts { by: NEXT.fetch_add(1, Relaxed), packets }
    }

    /// Identity of these counters, which no others of this process have ever had.
    pub const fn by(&self) -> u64 {
        self.by
    }

    /// Counts a packet with this traffic class: DSCP and ECN.
    pub fn count(&self, traffic_class: u8) {
        if let Some(packets) = self.packets.get(usize::from(traffic_class >> 2)) {
            // One writer: a load and a store, not a locked read-modify-write.
            packets.store(packets.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Packets with this traffic class, whatever their ECN.
    pub fn packets(&self, traffic_class: u8) -> u32 {
        let packets = self.packets.get(usize::from(traffic_class >> 2));
        packets.map_or(0, |packets| packets.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_counted_apart() {
        let (counts, others) = (ClassCounts::new(), ClassCounts::new());
        (0..5).for_each(|_| counts.count(46 << 2 | 1));
        counts.count(0);
        assert_eq!([46 << 2, 46 << 2 | 3, 0, 255].map(|class| counts.packets(class)), [5, 5, 1, 0]);
        assert_ne!(counts.by(), others.by());
    }
}
