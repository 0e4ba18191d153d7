//! An SA in the database: configuration, packet work, and where it is in its life.

use core::sync::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{AcqRel, Acquire, Release},
};

use crate::model::SaConfig;

/// Where an SA is in its life; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SaState {
    /// In use.
    Valid = 0,
    /// A soft limit was reached: still in use, but outbound every valid SA is preferred.
    Dying = 1,
    /// A hard limit was reached: carries nothing any more.
    Expired = 2,
}

impl SaState {
    /// Whether packets may be carried.
    pub const fn is_usable(self) -> bool {
        matches!(self, SaState::Valid | SaState::Dying)
    }

    const fn from_u8(value: u8) -> SaState {
        match value {
            0 => SaState::Valid,
            1 => SaState::Dying,
            _ => SaState::Expired,
        }
    }
}

/// What [`SaEntry::check_volume`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// The packet may be carried and there is nothing to report.
    Within,
    /// The packet may be carried; a soft limit has just been reached: tell the owner (soft EXPIRE).
    SoftReached,
    /// The packet must not be carried; a hard limit has just been reached: tell the owner (hard
    /// EXPIRE).
    HardReached,
    /// The packet must not be carried: the SA had expired before.
    Unusable,
}

/// One SA, shared between the control thread and the workers by `Arc`.
///
/// `S` is the packet work (`esp::Sa`); the database only carries it.
#[derive(Debug)]
pub struct SaEntry<S> {
    /// As the owner described it.
    pub config: SaConfig,
    /// The packet work.
    pub esp: S,
    /// The smaller of soft and hard limit in bytes: below it there is nothing to look at.
    alarm_bytes: u64,
    /// The same in packets.
    alarm_packets: u64,
    state: AtomicU8,
    removed: AtomicBool,
}

impl<S> SaEntry<S> {
    pub(crate) fn new(config: SaConfig, esp: S) -> SaEntry<S> {
        let limits = &config.limits;
        SaEntry {
            alarm_bytes: limits.soft_bytes.min(limits.hard_bytes),
            alarm_packets: limits.soft_packets.min(limits.hard_packets),
            state: AtomicU8::new(SaState::Valid as u8),
            removed: AtomicBool::new(false),
            config,
            esp,
        }
    }

    /// Where the SA is in its life.
    pub fn state(&self) -> SaState {
        SaState::from_u8(self.state.load(Acquire))
    }

    /// Moves the SA forward to `state`; returns whether it was not there yet.
    ///
    /// For limits by time, which the owner watches. Any thread may call it; of
    /// several callers with the same state exactly one gets `true`.
    pub fn advance(&self, state: SaState) -> bool {
        self.state.fetch_max(state as u8, AcqRel) < state as u8
    }

    /// Whether the owner deleted the SA.
    ///
    /// Not a state: a worker may go on with it to the end of a burst, whose view of the databases
    /// may not have the successor yet. Whoever keeps an entry for longer has to ask.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Acquire)
    }

    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Release);
    }

    /// Holds the volume carried so far, before the packet at hand, against the limits.
    ///
    /// Linux's `xfrm_state_check_expire`: a limit of `n` packets lets `n` packets through. Each of
    /// soft and hard is reported once in the SA's life, to one caller, whichever thread asks;
    /// a soft limit that was reached by time before is not reported again.
    pub fn check_volume(&self, bytes: u64, packets: u64) -> Volume {
        if bytes < self.alarm_bytes && packets < self.alarm_packets {
            if self.state().is_usable() { Volume::Within } else { Volume::Unusable }
        } else {
            self.check_limits(bytes, packets)
        }
    }

    #[cold]
    fn check_limits(&self, bytes: u64, packets: u64) -> Volume {
        let limits = &self.config.limits;
        // `u64::MAX` is no limit, also for a counter that got there.
        let reached = |count: u64, limit: u64| limit != u64::MAX && count >= limit;
        if reached(bytes, limits.hard_bytes) || reached(packets, limits.hard_packets) {
            return if self.advance(SaState::Expired) {
                Volume::HardReached
            } else {
                Volume::Unusable
            };
        }
        if (reached(bytes, limits.soft_bytes) || reached(packets, limits.soft_packets))
            && self.advance(SaState::Dying)
        {
            return Volume::SoftReached;
        }
        if self.state().is_usable() { Volume::Within } else { Volume::Unusable }
    }
}
