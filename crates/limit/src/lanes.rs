//! Where lanes lie: those of many limiters beside each other, each worker's apart.

use std::sync::Arc;

use crate::lane::Lane;

/// Where lanes are taken from.
///
/// A worker whose packets are of a hundred thousand limiters touches a lane for each of them. In memory of their own these would
/// be spread over as many pages as there are lanes; here they are a cache line each, one behind the other.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The open chunk of each worker.
    open: Vec<Open>,
}

/// Chunk from which the next lanes of a worker are taken.
#[derive(Debug)]
struct Open {
    chunk: Arc<[Lane]>,
    next: u32,
}

/// A lane among others.
#[derive(Clone, Debug)]
pub(crate) struct LaneRef {
    chunk: Arc<[Lane]>,
    at: u32,
}

impl Lanes {
    /// A new lane of a worker. Each chunk is twice as long as the one before.
    pub(crate) fn take(&mut self, worker: usize) -> LaneRef {
        let new =
            |lanes: usize| Open { chunk: (0..lanes).map(|_| Lane::default()).collect(), next: 0 };
        if self.open.len() <= worker {
            self.open.resize_with(worker + 1, || new(1));
        }
        let Some(open) = self.open.get_mut(worker) else {
            return LaneRef { chunk: new(1).chunk, at: 0 };
        };
        if open.next as usize >= open.chunk.len() {
            *open = new((open.chunk.len() * 2).min(LONGEST_CHUNK));
        }
        let at = open.next;
        open.next += 1;
        LaneRef { chunk: Arc::clone(&open.chunk), at }
    }
}

impl LaneRef {
    /// The lane that it refers to, if there is one.
    #[inline(always)]
    pub(crate) fn lane(&self) -> Option<&Lane> {
        self.chunk.get(self.at as usize)
    }

    /// The lanes among which it is, and which of them.
    pub(crate) fn into_parts(self) -> (Arc<[Lane]>, u32) {
        (self.chunk, self.at)
    }
}

/// Lanes that are allocated together at most: 256 KiB.
const LONGEST_CHUNK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_a_worker_lie_beside_each_other() {
        let mut lanes = Lanes::default();
        let taken: Vec<[LaneRef; 2]> = (0..1000).map(|_| [0, 1].map(|w| lanes.take(w))).collect();
        for worker in [0, 1] {
            let at = |n: usize| std::ptr::from_ref(taken[n][worker].lane().unwrap()).addr();
            let beside = (1..1000).filter(|n| at(*n) == at(n - 1) + 64).count();
            // All but where a chunk ends: after 1, 2, 4, ... 512 lanes.
            assert!(beside >= 999 - 9, "{beside}");
            let all: std::collections::HashSet<usize> = (0..1000).map(at).collect();
            assert_eq!(all.len(), 1000);
        }
    }
}
