//! How large a replay window may be, and the ring of words that holds it (RFC 6479).

/// The largest replay window, in packets.
pub const MAX_REPLAY_WINDOW: u32 = 65536;

/// Words in the ring of a window of this size, in packets; what [`LiveNumbers::needed`](crate::LiveNumbers::needed)
/// reserves.
pub(crate) const fn ring_words(size: u32) -> usize {
    (size as usize).div_ceil(64).next_power_of_two() * 2
}
