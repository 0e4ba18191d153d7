//! Lifetimes by volume: an SA's counters held against its limits.

use core::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use policy::{SaEntry, SaId, Volume};

use crate::event::Event;
use crate::worker::Worker;

/// Holds the SA's counters, as they are before the packet at hand, against its limits.
pub(crate) fn check_volume(sa: &SaEntry<Sa>) -> Volume {
    let cells = sa.esp.cells();
    sa.check_volume(cells.bytes().load(Relaxed), cells.packets().load(Relaxed))
}

impl Worker {
    /// Tells the SA's owner of a limit that was reached; false if the SA may not be used any more.
    pub(crate) fn tell_volume(&mut self, sa: SaId, volume: Volume) -> bool {
        let hard = match volume {
            Volume::Within => return true,
            Volume::Unusable => return false,
            Volume::SoftReached => false,
            Volume::HardReached => true,
        };
        self.tell(Event::VolumeReached { sa, hard });
        !hard
    }
}
