//! The limits by volume of an SA.

use core::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use policy::{SaEntry, Volume};

/// Holds an SA's counters, as they are before the packet at hand, against its limits, and moves the SA
/// forward in its life if one is reached.
pub(crate) fn check_volume(sa: &SaEntry<Sa>) -> Volume {
    let live = sa.esp.live();
    sa.check_volume(live.bytes().load(Relaxed), live.packets().load(Relaxed))
}
