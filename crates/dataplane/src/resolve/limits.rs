//! Limits of SAs in volume.

use core::sync::atomic::Ordering::Relaxed;

use esp::Sa;
use policy::{SaEntry, SaHandle, Volume};

/// Answer of the SAs on one more packet, by their limits in volume.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// The first that has reached one, of which its owner is to be told.
    pub(crate) at_limit: Option<SaHandle>,
    /// True if one of them carries no more.
    pub(crate) is_over: bool,
}

impl Limits {
    /// Of SAs, up to the first that carries no more.
    pub(crate) fn of<'s>(sas: impl Iterator<Item = (SaHandle, &'s SaEntry<Sa>)>) -> Limits {
        let mut limits = Limits::default();
        for (handle, sa) in sas {
            let live = sa.esp.live();
            let volume = sa.volume(live.bytes().load(Relaxed), live.packets().load(Relaxed));
            if matches!(volume, Volume::SoftReached | Volume::HardReached) {
                limits.at_limit.get_or_insert(handle);
            }
            limits.is_over = matches!(volume, Volume::HardReached | Volume::Unusable);
            if limits.is_over {
                break;
            }
        }
        limits
    }
}
