//! One worker's side of a limiter.

use crate::Colour;
use crate::colour::Which;
use crate::sync::{AtomicU64, Relaxed};

/// One worker's side of a limiter: its leased tokens and its counts. One writer; any thread may read.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Lane {
    /// Leased of each bucket, in parts of tokens.
    held: [AtomicU64; 2],
    packets: [AtomicU64; 3],
    bytes: [AtomicU64; 3],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Lane>() == 64);

/// Packets and bytes counted, by colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets; those that were dropped count with the limiter that dropped them, and with no other.
    pub packets: [u64; 3],
    /// Their bytes, without the overhead.
    pub bytes: [u64; 3],
}

impl Counts {
    pub(crate) fn add(&mut self, lane: &Lane) {
        let sums = self.packets.iter_mut().chain(&mut self.bytes);
        for (sum, one) in sums.zip(lane.packets.iter().chain(&lane.bytes)) {
            *sum += one.load(Relaxed);
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Lane {
    #[inline(always)]
    pub(crate) fn held(&self, which: Which) -> &AtomicU64 {
        match which {
            Which::First => &self.held[0],
            Which::Second => &self.held[1],
        }
    }

    /// Tokens leased of both buckets.
    pub(crate) fn all_held(&self) -> [u64; 2] {
        self.held.each_ref().map(|held| held.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn count(&self, colour: Colour, len: usize) {
        let at = colour as usize;
        if let (Some(packets), Some(bytes)) = (self.packets.get(at), self.bytes.get(at)) {
            add(packets, 1);
            add(bytes, len as u64);
        }
    }
}
