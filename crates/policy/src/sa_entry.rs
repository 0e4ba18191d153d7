//! An SA in the database: configuration, packet work, and where it is in its life.

use core::net::IpAddr;
use core::sync::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::OnceLock;

use dispatch::Home;
use esp::Mode;
use mem::Cache;

use crate::class_counts::ClassCounts;
use crate::counters::WorkerIndex;
use crate::iptfs_counters::IptfsCounters;
use crate::model::{Mark, SaConfig, SaId, Template};
use crate::selector::Selector;

/// Where an SA is in its life; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SaState {
    /// In use, for both directions.
    Valid = 0,
    /// A soft limit was reached: still in use, but outbound every valid SA is preferred.
    Dying = 1,
    /// A hard limit was reached: carries nothing any more.
    Expired = 2,
}

impl SaState {
    /// True if packets may be carried.
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

/// Result of [`SaEntry::check_volume`].
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
///
/// In this order, so that what packets read lies side by side.
#[derive(Debug)]
#[repr(C)]
pub struct SaEntry<S> {
    hot: Hot,
    /// The packet work.
    pub esp: S,
    /// As the owner described it.
    pub config: SaConfig,
    /// In that mode.
    iptfs: Option<Box<IptfsCounters>>,
    /// Once somebody measures a path through it.
    classes: OnceLock<Box<ClassCounts>>,
}

/// The fields that a look-up compares and each packet reads: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Hot {
    dst: IpAddr,
    protocol: u8,
    state: AtomicU8,
    removed: AtomicBool,
    spi: u32,
    mark: Mark,
    /// The smaller of soft and hard limit in bytes: below it there is nothing to look at.
    alarm_bytes: u64,
    /// Alarm of the packets carried, as of the bytes.
    alarm_packets: u64,
    reqid: u32,
    if_id: u32,
    /// The outer source, if it is an IPv4 address other than 0.0.0.0; else 0: see `config`.
    src_v4: u32,
    mode: Mode,
    traits: Traits,
    /// The worker whose packets leave by it, [`EVERY_CPU`] or [`NO_WORKER`].
    cpu: u8,
    home: Home,
}

/// Answers that take one bit each.
#[derive(Debug)]
struct Traits(AtomicU8);

impl Traits {
    const FROM_ANY: u8 = 1;
    const HAS_SELECTOR: u8 = 2;
    /// Set once somebody measures a path through the SA.
    const COUNTS_CLASSES: u8 = 4;

    fn of(config: &SaConfig) -> Traits {
        let from_any = if config.params.src.is_unspecified() { Traits::FROM_ANY } else { 0 };
        let selector = if config.selector.is_some() { Traits::HAS_SELECTOR } else { 0 };
        Traits(AtomicU8::new(from_any | selector))
    }

    #[inline]
    fn has(&self, bit: u8) -> bool {
        self.0.load(Relaxed) & bit != 0
    }
}

/// For the packets of all CPUs.
const EVERY_CPU: u8 = u8::MAX;

/// For those of a CPU that no worker is.
const NO_WORKER: u8 = EVERY_CPU - 1;

const _: () = assert!(WorkerIndex::MAX <= NO_WORKER as usize);

/// The packets that may leave by an SA, seen from one worker (RFC 9611).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Packets of this worker alone.
    Own,
    /// Packets of every worker.
    Every,
    /// Packets of another worker.
    Other,
}

const _: () = assert!(size_of::<Hot>() == 64);

impl<S> SaEntry<S> {
    pub(crate) fn new(config: SaConfig, esp: S) -> SaEntry<S> {
        let limits = &config.limits;
        let SaId { dst, spi, protocol, mark } = config.id();
        let hot = Hot {
            dst,
            protocol,
            state: AtomicU8::new(SaState::Valid as u8),
            removed: AtomicBool::new(false),
            spi,
            mark,
            alarm_bytes: limits.soft_bytes.min(limits.hard_bytes),
            alarm_packets: limits.soft_packets.min(limits.hard_packets),
            reqid: config.reqid,
            if_id: config.if_id,
            src_v4: match config.params.src {
                IpAddr::V4(src) => src.to_bits(),
                IpAddr::V6(_) => 0,
            },
            mode: config.params.mode,
            traits: Traits::of(&config),
            cpu: match config.cpu {
                None => EVERY_CPU,
                Some(cpu) => u8::try_from(cpu).unwrap_or(NO_WORKER).min(NO_WORKER),
            },
            home: Home::vacant(),
        };
        let iptfs = (config.params.mode == Mode::Iptfs).then(Box::default);
        SaEntry { hot, esp, config, iptfs, classes: OnceLock::new() }
    }

    /// Brings near what each packet reads of the entry; its packet work is not the database's.
    /// Reads nothing.
    #[inline]
    pub fn prefetch(&self, cache: Cache) {
        mem::prefetch_into(cache, &self.hot);
    }

    /// Counters of an SA of IP-TFS mode. `None` in another mode.
    pub fn iptfs(&self) -> Option<&IptfsCounters> {
        self.iptfs.as_deref()
    }

    /// Counters of packets by their class, if the SA is measured.
    #[inline]
    pub fn classes(&self) -> Option<&ClassCounts> {
        // The flag lies beside what each packet reads.
        match self.hot.traits.has(Traits::COUNTS_CLASSES) {
            true => self.classes.get().map(|classes| &**classes),
            false => None,
        }
    }

    /// The same, which count from the first call on. That one allocates.
    pub fn measure_classes(&self) -> &ClassCounts {
        if let Some(classes) = self.classes() {
            return classes;
        }
        let classes = self.classes.get_or_init(|| Box::new(ClassCounts::new()));
        self.hot.traits.0.fetch_or(Traits::COUNTS_CLASSES, Relaxed);
        classes
    }

    /// The worker that writes the SA's numbers, window and counters.
    #[inline]
    pub fn home(&self) -> &Home {
        &self.hot.home
    }

    /// True if an arriving packet names this SA. The mark is not compared.
    #[inline]
    pub(crate) fn is_for(&self, dst: IpAddr, spi: u32, protocol: u8) -> bool {
        self.hot.spi == spi && self.hot.protocol == protocol && self.hot.dst == dst
    }

    /// True if the outer source is unspecified: the SA carries packets from any.
    #[inline]
    pub(crate) fn is_from_any(&self) -> bool {
        self.hot.traits.has(Traits::FROM_ANY)
    }

    /// The packets that may leave by the SA, seen from a worker. `None`: a worker that has no SAs
    /// of its own.
    #[inline]
    pub fn cpu(&self, worker: Option<WorkerIndex>) -> Cpu {
        match self.hot.cpu {
            EVERY_CPU => Cpu::Every,
            cpu if worker.is_some_and(|worker| worker.get() == usize::from(cpu)) => Cpu::Own,
            _ => Cpu::Other,
        }
    }

    /// True if packets with these outer ends may leave through the SA.
    #[inline]
    pub(crate) fn is_between(&self, src: IpAddr, dst: IpAddr) -> bool {
        let is_from = match src {
            IpAddr::V4(src) if self.hot.src_v4 != 0 => src.to_bits() == self.hot.src_v4,
            _ => self.config.params.src == src,
        };
        self.hot.dst == dst && (is_from || self.is_from_any() || src.is_unspecified())
    }

    /// True if the SA fulfils a template of a policy. Its ends are not compared.
    #[inline]
    pub(crate) fn suits(&self, template: &Template, if_id: u32, mark: u32) -> bool {
        let hot = &self.hot;
        hot.reqid == template.reqid
            && hot.if_id == if_id
            && hot.mode == template.mode
            && hot.protocol == template.protocol
            && (template.spi == 0 || template.spi == hot.spi)
            && hot.mark.matches(mark)
    }

    /// The SA's own selector.
    #[inline]
    pub(crate) fn selector(&self) -> Option<&Selector> {
        if self.hot.traits.has(Traits::HAS_SELECTOR) { self.config.selector.as_ref() } else { None }
    }

    /// True if the SA accepts an arriving packet's mark.
    #[inline]
    pub(crate) fn accepts_mark(&self, mark: u32) -> bool {
        self.hot.mark.matches(mark)
    }

    /// Where the SA is in its life.
    pub fn state(&self) -> SaState {
        SaState::from_u8(self.hot.state.load(Acquire))
    }

    /// Moves the SA forward to `state`; returns whether it was not there yet.
    ///
    /// For limits by time, which the owner watches. Any thread may call it; of
    /// several callers with the same state exactly one gets `true`.
    pub fn advance(&self, state: SaState) -> bool {
        self.hot.state.fetch_max(state as u8, AcqRel) < state as u8
    }

    /// True if the owner deleted the SA.
    ///
    /// Not a state: a worker may go on with it to the end of a burst, whose view of the databases
    /// may not have the successor yet. A holder that keeps an entry for longer has to ask.
    pub fn is_removed(&self) -> bool {
        self.hot.removed.load(Acquire)
    }

    pub(crate) fn set_removed(&self) {
        self.hot.removed.store(true, Release);
    }

    /// Holds the volume carried so far, before the packet at hand, against the limits, and moves the
    /// SA forward if one is reached.
    ///
    /// Linux's `xfrm_state_check_expire`: a limit of `n` packets lets `n` packets through. Each of
    /// soft and hard is reported once in the SA's life, to one caller, whichever thread asks;
    /// a soft limit that was reached by time before is not reported again.
    pub fn check_volume(&self, bytes: u64, packets: u64) -> Volume {
        let volume = self.volume(bytes, packets);
        let is_first = match volume {
            Volume::SoftReached => self.advance(SaState::Dying),
            Volume::HardReached => self.advance(SaState::Expired),
            Volume::Within | Volume::Unusable => true,
        };
        // Another thread was first: there is nothing to report any more.
        if is_first { volume } else { self.volume(bytes, packets) }
    }

    /// As [`SaEntry::check_volume`], without a change.
    pub fn volume(&self, bytes: u64, packets: u64) -> Volume {
        if self.is_below_alarms(bytes, packets) {
            if self.state().is_usable() { Volume::Within } else { Volume::Unusable }
        } else {
            self.volume_above_alarms(bytes, packets)
        }
    }

    /// True if no limit is near: nothing to report, and nothing to refuse.
    #[inline]
    pub fn is_below_alarms(&self, bytes: u64, packets: u64) -> bool {
        bytes < self.hot.alarm_bytes && packets < self.hot.alarm_packets
    }

    #[cold]
    fn volume_above_alarms(&self, bytes: u64, packets: u64) -> Volume {
        let limits = &self.config.limits;
        // `u64::MAX` is no limit, also for a counter that got there.
        let reached = |count: u64, limit: u64| limit != u64::MAX && count >= limit;
        let hard = reached(bytes, limits.hard_bytes) || reached(packets, limits.hard_packets);
        let soft = reached(bytes, limits.soft_bytes) || reached(packets, limits.soft_packets);
        match self.state() {
            SaState::Expired => Volume::Unusable,
            _ if hard => Volume::HardReached,
            SaState::Valid if soft => Volume::SoftReached,
            SaState::Valid | SaState::Dying => Volume::Within,
        }
    }
}
