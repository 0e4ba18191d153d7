//! How many packets may wait, and how they are looked through.

use forward::HoldLimits;

/// Packets that wait for one neighbour, or for one policy's SA: about what Linux lets wait
/// (`unres_qlen_bytes`, 208 KiB).
const PER_KEY: usize = 256;

/// Packets that wait in all.
const IN_ALL: usize = 2048;

/// Keys of held packets that are looked at in one pass over all of them.
pub(crate) const KEYS_AT_ONCE: usize = 64;

/// The limits of one worker's queue whose packets wait for so long: with `workers` workers they hold
/// together what one alone may hold.
pub(crate) fn limits(timeout_ns: u64, workers: usize) -> HoldLimits {
    let total = IN_ALL.div_ceil(workers.max(1));
    HoldLimits { per_key: PER_KEY.min(total), total, timeout_ns }
}
