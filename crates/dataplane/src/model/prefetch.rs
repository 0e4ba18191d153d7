//! How far ahead of a packet its lines are prefetched.

use io::Packet;
use mem::Cache;

/// Distance of the second prefetch, in packets.
pub(crate) const AGAIN: usize = 4;

/// Distance of the second prefetch of what is found by way of that, in packets.
pub(crate) const SOON: usize = 2;

/// Prefetches a packet's headers, and the line in front of them, where outer headers go.
#[inline(always)]
pub(crate) fn prefetch_headers(cache: Cache, packet: &Packet) {
    for offset in [0, mem::LINE_LEN.wrapping_neg(), mem::LINE_LEN] {
        packet.prefetch(cache, offset);
    }
}
