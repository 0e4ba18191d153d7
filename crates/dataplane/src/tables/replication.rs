//! Flows that travel in copies (PREOF, RFC 9566), or with parity: over which paths, and under which labels and numbers.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use paths::{Labels, Removal, STREAMS};
use preof::{NUMBERS, Numbered};

/// First UDP source port of copies; each stream has the next one (RFC 9025 §4).
const FIRST_PORT: u16 = 49_152;

/// Streams towards one far end. Their numbers are shared by all workers, and stay when rules change.
#[derive(Debug)]
pub struct Streams {
    removal: Removal,
    next: [AtomicU32; STREAMS as usize],
}

impl Streams {
    /// Streams under the labels that the far end has assigned.
    pub fn new(removal: Removal) -> Streams {
        Streams { removal, next: core::array::from_fn(|_| AtomicU32::new(0)) }
    }

    /// Consent of the far end.
    pub const fn removal(&self) -> Removal {
        self.removal
    }

    /// Label and next number of the stream of a flow, and its source port. `spread` is a number of the flow.
    pub(crate) fn next(&self, spread: u32) -> (Numbered, u16) {
        let stream = spread % STREAMS;
        let next = self.next.get(stream as usize);
        let number = next.map_or(0, |next| next.fetch_add(1, Ordering::Relaxed)) % NUMBERS;
        // Below 16.
        (Numbered { label: self.removal.label + stream, number }, FIRST_PORT + stream as u16)
    }
}

/// Way of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyWay {
    /// Name of the path.
    pub name: Arc<str>,
    /// Index of its tunnel interface.
    pub ifindex: u32,
    /// Address of this host on the path.
    pub src: IpAddr,
    /// Address of the far end on it.
    pub dst: IpAddr,
}

/// How parity is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityPlan {
    /// Packets that one parity packet is for; of 2 to [`preof::SPAN`].
    pub of: u8,
    /// How long the first of them waits at most until the parity is sent, in nanoseconds.
    pub wait_ns: u64,
}

/// Companion of a packet's first copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A second copy by another way.
    Copy(CopyWay),
    /// Parity by the same way.
    Parity(ParityPlan),
}

/// How the flows of a rule travel in copies, or with parity.
#[derive(Clone, Debug)]
pub struct Replication {
    /// Streams of their far end.
    pub streams: Arc<Streams>,
    /// The path that the rule has chosen.
    pub way: CopyWay,
    /// Second copy or parity of each packet.
    pub beside: Beside,
}

impl PartialEq for Replication {
    fn eq(&self, other: &Replication) -> bool {
        Arc::ptr_eq(&self.streams, &other.streams)
            && self.way == other.way
            && self.beside == other.beside
    }
}

/// Removal of second copies by this host.
#[derive(Clone, Debug)]
pub struct CopyRemoval {
    /// Labels that it has assigned.
    pub labels: Arc<Labels>,
    /// How long packets wait for those before them, in nanoseconds; 0: not at all.
    pub wait_ns: u64,
}

impl PartialEq for CopyRemoval {
    fn eq(&self, other: &CopyRemoval) -> bool {
        Arc::ptr_eq(&self.labels, &other.labels) && self.wait_ns == other.wait_ns
    }
}

impl Eq for CopyRemoval {}

/// Worker, of so many, that removes the second copies of a label's packets: one for all copies, whatever worker receives
/// them. It hangs on the stream alone, as the source port does, so that plans stay right when labels change.
pub(crate) const fn home_of(label: u32, workers: usize) -> usize {
    (label % STREAMS) as usize % workers
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOVAL: Removal = Removal { by: 7, label: 160, recovers: true };

    #[test]
    fn numbers_go_round_in_28_bits_also_where_their_counter_does() {
        let streams = Streams::new(REMOVAL);
        for first in [NUMBERS - 1, 0xf_u32 << 28 | (NUMBERS - 1)] {
            streams.next[5].store(first, Ordering::Relaxed);
            let numbers = [0; 3].map(|_| streams.next(STREAMS + 5).0.number);
            assert_eq!(numbers, [NUMBERS - 1, 0, 1]);
        }
        let (numbered, port) = streams.next(6);
        assert_eq!((numbered, port), (Numbered { label: 166, number: 0 }, FIRST_PORT + 6));
    }

    #[test]
    fn what_differs_in_any_part_is_another() {
        let way = |ifindex| {
            let [src, dst] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
            CopyWay { name: "path".into(), ifindex, src, dst }
        };
        let streams = [REMOVAL; 2].map(|removal| Arc::new(Streams::new(removal)));
        let of = |at: usize, first, second| {
            let beside = Beside::Copy(way(second));
            Replication { streams: Arc::clone(&streams[at]), way: way(first), beside }
        };
        assert!(of(0, 1, 2) == of(0, 1, 2));
        for other in [of(1, 1, 2), of(0, 3, 2), of(0, 1, 3)] {
            assert!(of(0, 1, 2) != other, "{other:?}");
        }
        let labels = [0; 2].map(|_| Arc::new(Labels::default()));
        let of = |at: usize, wait_ns| CopyRemoval { labels: Arc::clone(&labels[at]), wait_ns };
        assert_eq!(of(0, 1), of(0, 1));
        assert_ne!(of(0, 1), of(1, 1));
        assert_ne!(of(0, 1), of(0, 2));
    }
}
