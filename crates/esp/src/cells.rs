//! The live numbers of one SA, in memory that may outlive the process.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// The memory behind [`Cells`]: a slice of atomics that never moves.
pub trait CellMemory: Send + Sync {
    /// The cells; always the same slice.
    fn cells(&self) -> &[AtomicU64];
}

impl CellMemory for Box<[AtomicU64]> {
    fn cells(&self) -> &[AtomicU64] {
        self
    }
}

/// Index of each number in the cells; the replay bitmap follows at [`BITMAP`].
mod index {
    /// Next outbound sequence number minus one: the last one handed out.
    pub const SENT: usize = 0;
    /// Highest inbound sequence number accepted.
    pub const EDGE: usize = 1;
    /// Bytes carried, both directions of use alike (an SA has one).
    pub const BYTES: usize = 2;
    /// Packets carried.
    pub const PACKETS: usize = 3;
    /// Wall-clock second of the first use, 0 for never.
    pub const FIRST_USE: usize = 4;
    /// Wall-clock second of the last use, 0 for never.
    pub const LAST_USE: usize = 5;
    /// Packets dropped as replays (Linux's `stats.replay`).
    pub const REPLAYS: usize = 6;
    /// Packets that failed the replay window's lower edge (Linux's `stats.replay_window`).
    pub const TOO_OLD: usize = 7;
    /// Packets with a wrong ICV (Linux's `stats.integrity_failed`).
    pub const INTEGRITY: usize = 8;
    /// First word of the replay bitmap.
    pub const BITMAP: usize = 9;
}

/// The live numbers of one SA: sequence numbers, replay window, counters.
///
/// They are atomics so that control threads can read them while a worker writes; the contract is
/// **one writer at a time for each SA** (the worker that owns it), or a control thread while no
/// worker uses the SA. Kept in memory that outlives the process (a mapped file), they make a
/// restart safe: a sequence number is moved past before it is used, so no restart repeats it, and
/// the replay window survives.
#[derive(Clone)]
pub struct Cells(Arc<dyn CellMemory>);

impl Cells {
    /// How many cells an SA with this replay window (in packets) needs.
    pub const fn needed(replay_window: u32) -> usize {
        // One word more than the window: the words form a ring, and the one that the edge is
        // about to enter is cleared as a whole (RFC 6479).
        index::BITMAP + (replay_window as usize).div_ceil(64).next_power_of_two() * 2
    }

    /// Cells in ordinary memory, all zero.
    pub fn on_heap(replay_window: u32) -> Cells {
        let cells: Box<[AtomicU64]> =
            (0..Self::needed(replay_window)).map(|_| AtomicU64::new(0)).collect();
        Cells(Arc::new(cells))
    }

    /// Cells in the memory given, with whatever values it holds.
    ///
    /// Returns `None` if it is too small for the replay window.
    pub fn in_memory(memory: Arc<dyn CellMemory>, replay_window: u32) -> Option<Cells> {
        (memory.cells().len() >= Self::needed(replay_window)).then_some(Cells(memory))
    }

    fn cell(&self, i: usize) -> &AtomicU64 {
        &self.0.cells()[i]
    }

    /// The last outbound sequence number handed out.
    pub fn sent(&self) -> &AtomicU64 {
        self.cell(index::SENT)
    }

    /// The highest inbound sequence number accepted.
    pub fn edge(&self) -> &AtomicU64 {
        self.cell(index::EDGE)
    }

    /// The replay bitmap's words.
    pub fn bitmap(&self) -> &[AtomicU64] {
        &self.0.cells()[index::BITMAP..]
    }

    /// Bytes carried.
    pub fn bytes(&self) -> &AtomicU64 {
        self.cell(index::BYTES)
    }

    /// Packets carried.
    pub fn packets(&self) -> &AtomicU64 {
        self.cell(index::PACKETS)
    }

    /// Wall-clock second of the first use, 0 for never.
    pub fn first_use(&self) -> &AtomicU64 {
        self.cell(index::FIRST_USE)
    }

    /// Wall-clock second of the last use, 0 for never.
    pub fn last_use(&self) -> &AtomicU64 {
        self.cell(index::LAST_USE)
    }

    /// Packets dropped as duplicates.
    pub fn replays(&self) -> &AtomicU64 {
        self.cell(index::REPLAYS)
    }

    /// Packets dropped as older than the window.
    pub fn too_old(&self) -> &AtomicU64 {
        self.cell(index::TOO_OLD)
    }

    /// Packets dropped for a wrong ICV.
    pub fn integrity_failures(&self) -> &AtomicU64 {
        self.cell(index::INTEGRITY)
    }

    /// Counts one packet of `len_bytes` at wall-clock second `now_s`; the owner's call.
    pub fn count(&self, len_bytes: u64, now_s: u64) {
        // One writer: a load and a store, not a locked read-modify-write.
        let add = |c: &AtomicU64, n: u64| c.store(c.load(Relaxed).wrapping_add(n), Relaxed);
        add(self.bytes(), len_bytes);
        add(self.packets(), 1);
        if self.first_use().load(Relaxed) == 0 {
            self.first_use().store(now_s, Relaxed);
        }
        self.last_use().store(now_s, Relaxed);
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Cells {{ sent: {}, edge: {}, packets: {} }}",
            self.sent().load(Relaxed),
            self.edge().load(Relaxed),
            self.packets().load(Relaxed)
        )
    }
}
