//! Statistics of packets that wait: how many, and how long they did.

use crate::class::{CLASSES, Class};
use crate::sync::{AtomicU64, Relaxed};

/// One worker's counts of a limiter's queue. One writer; anyone may read.
#[derive(Debug, Default)]
pub struct Waits {
    classes: [OfClass; CLASSES],
}

#[derive(Debug, Default)]
struct OfClass {
    came: AtomicU64,
    gone: AtomicU64,
    dropped: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// Counts of one class of packets that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Packets that wait now.
    pub now: u64,
    /// Packets that have waited and went on.
    pub gone: u64,
    /// Packets that were dropped: for want of room, or because they had waited too long.
    pub dropped: u64,
    /// How long those that went on have waited, in sum.
    pub total_ns: u64,
    /// The longest that one of them has.
    pub longest_ns: u64,
}

impl Waited {
    /// How long a packet has waited that did, on average.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.gone).unwrap_or(0)
    }

    /// The sums of both, and the longer wait.
    pub fn and(self, other: Waited) -> Waited {
        Waited {
            now: self.now + other.now,
            gone: self.gone + other.gone,
            dropped: self.dropped + other.dropped,
            total_ns: self.total_ns + other.total_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Waits {
    /// One waits from now on.
    pub fn come(&self, class: Class) {
        self.classes.get(class as usize).into_iter().for_each(|of| add(&of.came, 1));
    }

    /// One goes on that has waited so long.
    pub fn gone(&self, class: Class, ns: u64) {
        if let Some(of) = self.classes.get(class as usize) {
            add(&of.gone, 1);
            add(&of.total_ns, ns);
            of.longest_ns.store(of.longest_ns.load(Relaxed).max(ns), Relaxed);
        }
    }

    /// One that waited is dropped.
    pub fn dropped(&self, class: Class) {
        self.classes.get(class as usize).into_iter().for_each(|of| add(&of.dropped, 1));
    }

    /// One is dropped that found no room.
    pub fn refused(&self, class: Class) {
        self.come(class);
        self.dropped(class);
    }

    /// Counts by class.
    pub fn all(&self) -> [Waited; CLASSES] {
        self.classes.each_ref().map(|of| {
            let [gone, dropped] = [&of.gone, &of.dropped].map(|count| count.load(Relaxed));
            Waited {
                // Its writer may be between two of them.
                now: of.came.load(Relaxed).saturating_sub(gone + dropped),
                gone,
                dropped,
                total_ns: of.total_ns.load(Relaxed),
                longest_ns: of.longest_ns.load(Relaxed),
            }
        })
    }
}
