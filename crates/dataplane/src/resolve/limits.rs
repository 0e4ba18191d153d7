//! Limits of SAs in volume.

use core::sync::atomic::Ordering::Relaxed;
use esp::Sa;
use forward::IcmpCause;
use outcome::DropReason;
use policy::{SaEntry, SaHandle, Volume};

use super::{Decision, Question};
use crate::model::{Notes, Origin};

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

/// How a packet ends that the SAs carry no more, or whose TTL is used up by being forwarded.
pub(super) fn ends_here<N: Notes>(
    question: &mut Question<'_, N>,
    origin: Origin,
    limits: Limits,
) -> Option<Decision> {
    question.at_limit = limits.at_limit;
    if limits.is_over {
        return Some(Decision::Drop(DropReason::OutStateExpired));
    }
    let is_last = origin.is_hop() && question.h.ttl <= 1;
    is_last.then_some(Decision::Error(IcmpCause::TimeExceeded, DropReason::TtlExceeded, origin))
}
