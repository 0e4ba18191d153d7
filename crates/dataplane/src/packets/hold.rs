//! How many packets may wait, and how they are looked through.

use forward::HoldLimits;

/// Packets that wait for one neighbour, or for one policy's SA: about what Linux lets wait
/// (`unres_qlen_bytes`, 208 KiB).
const PER_KEY: usize = 256;

/// Packets that wait in all.
const IN_ALL: usize = 2048;

/// Keys of held packets that are looked at in one pass over all of them.
pub(crate) const KEYS_AT_ONCE: usize = 64;

/// The limits of a queue whose packets wait for so long.
pub(crate) const fn limits(timeout_ns: u64) -> HoldLimits {
    HoldLimits { per_key: PER_KEY, total: IN_ALL, timeout_ns }
}
