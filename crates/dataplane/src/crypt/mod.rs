//! Seal and open work: gathered by the burst, submitted, polled when done.
//!
//! ```text
//!   seal ─── gather ──> Seals ── number ── submit ──> cpu ──> poll ──> sent
//!            gather ──> Opens ──────────── submit ──> cpu ──> poll ──> accepted in order
//! ```
//!
//! The processor's engine finishes with [`Crypt::submit_seals`] and [`Crypt::submit_opens`]; a device
//! would finish later, and hand the same lists back by the same polls. The work on packets touches
//! nothing but the packets, so any thread may do it. Numbers, windows and counters of an SA have one
//! writer at a time: the thread that gathers, numbers and accepts.

mod cpu;
mod inflation;
mod lengths;
pub(crate) mod open_batch;
mod resync;
pub(crate) mod seal_batch;
mod volume;

use arrayvec::ArrayVec;
use crypto::Engine;
use esp::{Deflate, IvSource, Sa};
use policy::{MAX_BUNDLE, Reader};

use crate::model::Turn;

pub(crate) use inflation::Inflation;
pub(crate) use lengths::Lengths;
pub(crate) use open_batch::Opens;
pub(crate) use resync::Resync;
use resync::Tried;
pub(crate) use seal_batch::{Exit, Seals};
pub(crate) use volume::check_volume;

/// Bursts that a thread may have at hand, each with a list of work of its own: so many that with cores of half
/// its speed it need not wait.
pub(crate) const AT_HAND: usize = 3;

/// Lists of work of each kind. What was inside of one is opened while that one is at hand, as deep as SAs are
/// nested.
const LISTS: usize = AT_HAND + MAX_BUNDLE;

type Lists<T> = ArrayVec<Box<T>, LISTS>;

/// Runs of one SA in a burst from which on it counts as spread.
const SPREAD: usize = 8;

/// The crypto stage of one thread.
pub(crate) struct Crypt {
    engine: Box<dyn Engine>,
    pub(crate) ivs: IvSource,
    /// State of IPComp, made for the first packet that needs it.
    deflate: Option<Box<Deflate>>,
    /// How much IPComp may make of this burst.
    pub(crate) inflation: Inflation,
    /// Work that is being gathered.
    pub(crate) seals: Box<Seals>,
    pub(crate) opens: Box<Opens>,
    /// Seals that take their places while they are worked on.
    spare_seals: Lists<Seals>,
    spare_opens: Lists<Opens>,
    /// Work that is done, and not yet polled.
    done_seals: Lists<Seals>,
    done_opens: Lists<Opens>,
    /// True if bursts are spread over many SAs.
    pub(crate) is_spread: bool,
    pub(crate) resync: Resync,
}

impl Crypt {
    pub(crate) fn new(engine: Box<dyn Engine>, ivs: IvSource, resync: Resync) -> Crypt {
        Crypt {
            engine,
            ivs,
            deflate: None,
            inflation: Inflation::WHOLE,
            seals: Box::default(),
            opens: Box::default(),
            spare_seals: (0..LISTS).map(|_| Box::default()).collect(),
            spare_opens: (0..LISTS).map(|_| Box::default()).collect(),
            done_seals: ArrayVec::new(),
            done_opens: ArrayVec::new(),
            is_spread: false,
            resync,
        }
    }

    /// State of IPComp, and the bytes that may still be made in this burst. The first packet of
    /// all makes it: most gateways never need it.
    pub(crate) fn deflate(&mut self) -> (&mut Deflate, &mut Inflation) {
        (self.deflate.get_or_insert_default(), &mut self.inflation)
    }

    /// True if something was gathered, and is not opened or sealed yet.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.opens.is_empty() || !self.seals.is_empty()
    }

    /// Takes what was gathered to be sealed, with its sequence numbers; none if that is nothing.
    #[inline(always)]
    pub(crate) fn take_seals(&mut self, reader: &Reader<Sa>, turn: Turn<'_>) -> Option<Box<Seals>> {
        if self.seals.is_empty() {
            return None;
        }
        let mut work = core::mem::replace(&mut self.seals, self.spare_seals.pop()?);
        // While it is empty: the packets of one burst are all numbered in one way, in their order.
        self.seals.is_numbered = self.is_spread;
        let runs = work.number(reader, turn);
        self.note_spread(runs, work.len());
        Some(work)
    }

    /// Takes what was gathered to be opened; none if that is nothing.
    #[inline(always)]
    pub(crate) fn take_opens(&mut self) -> Option<Box<Opens>> {
        if self.opens.is_empty() {
            return None;
        }
        Some(core::mem::replace(&mut self.opens, self.spare_opens.pop()?))
    }

    /// Seals numbered work: headers, trailers, cipher.
    pub(crate) fn submit_seals(&mut self, mut work: Box<Seals>, reader: &Reader<Sa>) {
        if self.is_spread {
            work.prefetch_sas(reader);
        }
        cpu::seal_all(&mut work, reader, &mut *self.engine, &mut self.ivs);
        self.done_seals.push(work);
    }

    /// Looks for the numbers of packets that are about to be opened ([`Resync::resynchronise`]).
    #[cold]
    pub(crate) fn resynchronise(
        &mut self,
        opens: &mut Opens,
        reader: &Reader<Sa>,
        now_ns: u64,
    ) -> Tried {
        self.resync.resynchronise(opens, reader, &mut *self.engine, now_ns)
    }

    /// Opens work: cipher, trailer, inner headers.
    pub(crate) fn submit_opens(&mut self, mut work: Box<Opens>, reader: &Reader<Sa>) {
        if self.is_spread {
            work.prefetch_sas(reader);
        }
        cpu::open_all(&mut work, reader, &mut *self.engine);
        self.done_opens.push(work);
    }

    /// Sealed work, if any is done.
    #[inline(always)]
    pub(crate) fn poll_seals(&mut self) -> Option<Box<Seals>> {
        self.done_seals.pop_at(0)
    }

    /// Opened work, if any is done.
    #[inline(always)]
    pub(crate) fn poll_opens(&mut self) -> Option<Box<Opens>> {
        self.done_opens.pop_at(0)
    }

    /// Gives an emptied list back.
    pub(crate) fn put_back_seals(&mut self, work: Box<Seals>) {
        self.spare_seals.push(work);
    }

    /// Gives an emptied list back.
    pub(crate) fn put_back_opens(&mut self, work: Box<Opens>) {
        self.spare_opens.push(work);
    }

    /// Notes how a burst was spread: into how many runs of one SA.
    #[inline]
    pub(crate) fn note_spread(&mut self, runs: usize, packets: usize) {
        self.is_spread = runs >= SPREAD && runs * 2 >= packets;
    }
}
