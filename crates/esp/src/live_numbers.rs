//! The live numbers of one SA, in memory that may outlive the process.
//!
//! ```text
//!   line 0   ...  | IV salt | too old | replays | wrong ICVs |
//!   line 1   sent | edge | bytes | packets | first use | last use | bitmap ............
//!   line 2   bitmap, of a window above 64 packets ...
//! ```
//!
//! Words of 64 bits; the lines are cache lines. An outbound packet touches line 1; an inbound one
//! too, and one more line if its window is above 64 packets. What no good packet touches lies in
//! front, where the memory's owner has its own notes about the live numbers.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use mem::{Cache, StableWords, Words};

use crate::ring::ring_words;

/// Index of each number in the live numbers; the replay bitmap follows at [`index::BITMAP`].
mod index {
    /// Salt of the IVs of a counter mode; 0 until it is drawn.
    pub const IV_SALT: usize = 0;
    /// Packets dropped as older than the replay window (Linux's `stats.replay_window`).
    pub const TOO_OLD: usize = 1;
    /// Packets dropped as replays (Linux's `stats.replay`).
    pub const REPLAYS: usize = 2;
    /// Packets with a wrong ICV (Linux's `stats.integrity_failed`).
    pub const INTEGRITY: usize = 3;
    /// Next outbound sequence number minus one: the last one handed out.
    pub const SENT: usize = 4;
    /// Highest inbound sequence number accepted.
    pub const EDGE: usize = 5;
    /// Bytes carried, both directions of use alike (an SA has one).
    pub const BYTES: usize = 6;
    /// Packets that the SA has carried.
    pub const PACKETS: usize = 7;
    /// Wall-clock second of the first use, 0 for never.
    pub const FIRST_USE: usize = 8;
    /// Wall-clock second of the last use, 0 for never.
    pub const LAST_USE: usize = 9;
    /// First word of the replay bitmap.
    pub const BITMAP: usize = 10;
}

/// The live numbers of one SA: sequence numbers, replay window, counters.
///
/// They are atomics so that control threads can read them while a worker writes; the contract is
/// **one writer at a time for each SA** (the worker that owns it), or a control thread while no
/// worker uses the SA. Kept in memory that outlives the process (a mapped file), they make a
/// restart safe: a sequence number is moved past before it is used, so no restart repeats it, and
/// the replay window survives.
#[derive(Clone)]
pub struct LiveNumbers(Words<{ index::BITMAP }>);

impl LiveNumbers {
    /// The number that packets touch first. Memory whose word of this index begins a cache line
    /// serves best; with other memory packets touch one line more.
    pub const LINE_START: usize = index::SENT;

    /// How many live numbers an SA with this replay window (in packets) needs.
    pub const fn needed(replay_window: u32) -> usize {
        // One word more than the window: the words form a ring, and the one that the edge is
        // about to enter is cleared as a whole (RFC 6479).
        index::BITMAP + ring_words(replay_window)
    }

    /// LiveNumbers in ordinary memory, all zero.
    pub fn on_heap(replay_window: u32) -> LiveNumbers {
        LiveNumbers(Words::on_heap(ring_words(replay_window), Self::LINE_START))
    }

    /// Live numbers in ordinary memory, for an outbound SA whose owner leases its numbers; see
    /// [`Sa::with_ceiling`](crate::Sa::with_ceiling). None above `ceiling` is handed out.
    ///
    /// One word more, behind all others: memory of other makes has none.
    pub fn on_heap_with_ceiling(replay_window: u32, ceiling: u64) -> LiveNumbers {
        let words = ring_words(replay_window) + 1;
        let live = LiveNumbers(Words::on_heap(words, Self::LINE_START));
        live.ceiling().into_iter().for_each(|word| word.store(ceiling, Relaxed));
        live
    }

    /// The ceiling of live numbers that were made with one.
    pub(crate) fn ceiling(&self) -> Option<&AtomicU64> {
        self.bitmap().last()
    }

    /// LiveNumbers in the memory given, with whatever values it holds.
    ///
    /// Returns `None` if it is too small for the replay window.
    pub fn in_memory(memory: Arc<dyn StableWords>, replay_window: u32) -> Option<LiveNumbers> {
        let words = Words::new(memory)?;
        (words.len() >= Self::needed(replay_window)).then_some(LiveNumbers(words))
    }

    /// Brings the live numbers that every packet touches near.
    #[inline]
    pub fn prefetch(&self, cache: Cache) {
        self.0.prefetch(cache, Self::LINE_START);
    }

    /// Salt of the IVs of a counter mode, with which outbound sequence numbers are combined. Random
    /// bits, drawn by the first call and then the same for as long as the live numbers are kept.
    ///
    /// Numbers that begin again at 1 under the same keys (set by hand, after a reboot) are other live
    /// numbers, and so have another salt. So have the two directions of a tunnel, and any two SAs.
    /// Memory of a version that knew no salt holds 0 here: its SAs go on past their last number, with
    /// a salt from then on.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn iv_salt(&self) -> Result<u64, getrandom::Error> {
        let word = &self.0.head()[index::IV_SALT];
        let kept = word.load(Relaxed);
        if kept != 0 {
            return Ok(kept);
        }
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn)?;
        let drawn = u64::from_ne_bytes(drawn).max(1);
        Ok(word.compare_exchange(0, drawn, Relaxed, Relaxed).err().unwrap_or(drawn))
    }

    /// The last outbound sequence number handed out.
    pub fn sent(&self) -> &AtomicU64 {
        &self.0.head()[index::SENT]
    }

    /// Ends the handing out of outbound numbers, for every thread, and returns the last one handed
    /// out. It is exact: a lease either came before, or gets nothing. For an SA that is deleted.
    pub fn close(&self) -> u64 {
        crate::sequence::close(self.sent())
    }

    /// The value of [`sent`](LiveNumbers::sent) once numbers were closed.
    pub const CLOSED: u64 = crate::sequence::CLOSED;

    /// The highest inbound sequence number accepted.
    pub fn edge(&self) -> &AtomicU64 {
        &self.0.head()[index::EDGE]
    }

    /// The replay bitmap's words.
    pub fn bitmap(&self) -> &[AtomicU64] {
        self.0.rest()
    }

    /// Bytes that the SA has carried.
    pub fn bytes(&self) -> &AtomicU64 {
        &self.0.head()[index::BYTES]
    }

    /// Packets that the SA has carried.
    pub fn packets(&self) -> &AtomicU64 {
        &self.0.head()[index::PACKETS]
    }

    /// Wall-clock second of the first use, 0 for never.
    pub fn first_use(&self) -> &AtomicU64 {
        &self.0.head()[index::FIRST_USE]
    }

    /// Wall-clock second of the last use, 0 for never.
    pub fn last_use(&self) -> &AtomicU64 {
        &self.0.head()[index::LAST_USE]
    }

    /// Packets dropped as duplicates.
    pub fn replays(&self) -> &AtomicU64 {
        &self.0.head()[index::REPLAYS]
    }

    /// Packets dropped as older than the window.
    pub fn too_old(&self) -> &AtomicU64 {
        &self.0.head()[index::TOO_OLD]
    }

    /// Packets dropped for a wrong ICV.
    pub fn integrity_failures(&self) -> &AtomicU64 {
        &self.0.head()[index::INTEGRITY]
    }

    /// Counts one packet of `len_bytes` at wall-clock second `now_s`; the owner's call.
    #[inline]
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

impl fmt::Debug for LiveNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LiveNumbers {{ sent: {}, edge: {}, packets: {} }}",
            self.sent().load(Relaxed),
            self.edge().load(Relaxed),
            self.packets().load(Relaxed)
        )
    }
}
