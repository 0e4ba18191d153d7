//! Counters of SAs of IP-TFS mode.

use policy::{IptfsCounters, SaEntry};

/// Counts with an SA, which is of that mode if it has anything to count.
pub(super) fn count<S>(sa: &SaEntry<S>, count: impl FnOnce(&IptfsCounters)) {
    if let Some(counters) = sa.iptfs() {
        count(counters);
    }
}
