//! SAs whose packets fail one after the other: when their numbers are looked for farther ahead.
//!
//! With ESN a receiver that has missed 2^32 packets or more takes every packet's number for another,
//! and every ICV is wrong (RFC 4303 appendix A3; [`esp::Sa::resynchronise`]). Anybody who knows the SPI
//! can make packets with wrong ICVs, so what is done about it is bounded:
//!
//! - [`RUN`] packets of the SA have failed, and none was accepted meanwhile;
//! - of an SA one packet in [`EVERY_NS`], of all SAs one in [`THREAD_EVERY_NS`] for each thread, each
//!   with [`esp::RESYNC_TRIES`] tries.
//!
//! Who counts failures and who tries need not be one thread: a worker and its helpers share the notes.
//! Failures are counted in the SA's turn, by its one writer; to try takes a claim.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::Arc;

use crypto::Engine;
use esp::Sa;
use policy::{Reader, SaEntry, SaHandle};

use super::open_batch::Opens;

/// Failures in a row from which on an SA may have lost its peer's numbers.
pub(crate) const RUN: u32 = 16;

/// How often a packet of one SA is tried, in nanoseconds.
pub(crate) const EVERY_NS: u64 = 100_000_000;

/// How often a thread tries a packet of any SA, in nanoseconds.
pub(crate) const THREAD_EVERY_NS: u64 = 20_000_000;

/// After so long without a failure an SA's note may go to another, in nanoseconds.
const FORGET_NS: u64 = 1_000_000_000;

/// Notes: of so many SAs at a time.
const PLACES: usize = 1024;

/// Room for the longest packet, and its headers once more.
const SCRATCH_LEN: usize = 2 * 65_536;

/// Notes about SAs that fail, by all threads of a worker.
struct SaNotes([Note; PLACES]);

/// Notes about one SA.
#[derive(Default)]
struct Note {
    /// [`SaHandle::word`]; 0 for none.
    sa: AtomicU64,
    /// Failures in a row.
    run: AtomicU32,
    /// How many packets the SA had accepted when the last one failed.
    accepted: AtomicU64,
    /// When the last one failed.
    last_ns: AtomicU64,
    /// When the next packet may be tried.
    next_ns: AtomicU64,
}

/// A thread's part in it.
pub(crate) struct Resync {
    notes: Arc<SaNotes>,
    /// True if an SA failed lately that may have lost its numbers. Else bursts are not looked at.
    pub(crate) is_watching: bool,
    /// When this thread may try the next packet.
    next_ns: u64,
    scratch: Box<[u8]>,
}

/// Attempts in one burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    /// Packets that were tried.
    pub(crate) packets: u64,
    /// Packets whose number was found.
    pub(crate) found: u64,
}

impl Resync {
    pub(crate) fn new() -> Resync {
        Resync::with(Arc::new(SaNotes(core::array::from_fn(|_| Note::default()))))
    }

    /// A resync with the same notes, for a helper of the same worker.
    pub(crate) fn sibling(&self) -> Resync {
        Resync::with(Arc::clone(&self.notes))
    }

    fn with(notes: Arc<SaNotes>) -> Resync {
        let scratch = vec![0; SCRATCH_LEN].into();
        Resync { notes, is_watching: false, next_ns: 0, scratch }
    }

    /// Notes that a packet's ICV was wrong. For the one writer of the SA's numbers.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_failure(&mut self, handle: SaHandle, sa: &SaEntry<Sa>, now_ns: u64) {
        if sa.config.params.esn && self.notes.note_failure(handle, accepted(sa), now_ns) {
            self.is_watching = true;
        }
    }

    /// Claims an attempt with a packet of the SA. True if it may be made now.
    fn claim(&mut self, handle: SaHandle, now_ns: u64) -> bool {
        let is_due = now_ns >= self.next_ns && self.notes.claim(handle, now_ns);
        if is_due {
            self.next_ns = now_ns.saturating_add(THREAD_EVERY_NS);
        }
        is_due
    }
}

fn accepted(sa: &SaEntry<Sa>) -> u64 {
    sa.esp.live().packets().load(Relaxed)
}

impl SaNotes {
    fn of(&self, handle: SaHandle) -> Option<&Note> {
        // The slot is in the word's upper half, and slots are used in their order.
        let slot = (handle.word().get() >> 32) as usize;
        self.0.get(slot % PLACES)
    }

    /// Notes a failure. True if the SA may have lost its peer's numbers.
    fn note_failure(&self, handle: SaHandle, accepted: u64, now_ns: u64) -> bool {
        let Some(note) = self.of(handle) else { return false };
        let word = handle.word().get();
        let owner = note.sa.load(Relaxed);
        if owner != word {
            if owner != 0 && now_ns < note.last_ns.load(Relaxed).saturating_add(FORGET_NS) {
                return false;
            }
            note.run.store(0, Relaxed);
            note.next_ns.store(0, Relaxed);
        } else if note.accepted.load(Relaxed) != accepted {
            note.run.store(0, Relaxed);
        }
        let run = note.run.load(Relaxed).saturating_add(1);
        note.run.store(run, Relaxed);
        note.accepted.store(accepted, Relaxed);
        note.last_ns.store(now_ns, Relaxed);
        note.sa.store(word, Release);
        run >= RUN
    }

    /// True if the SA, which has accepted so many packets by now, may have lost its peer's
    /// numbers.
    fn is_lost(&self, handle: SaHandle, accepted: u64) -> bool {
        self.of(handle).is_some_and(|note| {
            note.sa.load(Acquire) == handle.word().get()
                && note.run.load(Relaxed) >= RUN
                && note.accepted.load(Relaxed) == accepted
        })
    }

    /// Takes the SA's next try, if it is due; of several threads one gets it.
    fn claim(&self, handle: SaHandle, now_ns: u64) -> bool {
        let Some(note) = self.of(handle) else { return false };
        let next_ns = note.next_ns.load(Relaxed);
        let then = now_ns.saturating_add(EVERY_NS);
        now_ns >= next_ns && note.next_ns.compare_exchange(next_ns, then, Relaxed, Relaxed).is_ok()
    }
}

impl Resync {
    /// Looks for the numbers of packets that are about to be opened, where their SA may have lost its
    /// peer's: one that is found, and those of the SA that follow in the burst, are opened by it.
    #[cold]
    #[inline(never)]
    pub(crate) fn resynchronise(
        &mut self,
        opens: &mut Opens,
        reader: &Reader<Sa>,
        engine: &mut dyn Engine,
        now_ns: u64,
    ) -> Tried {
        let mut tried = Tried::default();
        let mut found: Option<(SaHandle, u64)> = None;
        self.is_watching = false;
        for (packet, work) in opens.packets.iter().zip(&mut opens.work) {
            let Some(sa) = reader.sa(work.sa) else { continue };
            if let Some((_, number)) = found.filter(|(handle, _)| *handle == work.sa) {
                work.opening = sa.esp.open_after(number, &work.opening);
                continue;
            }
            if !self.notes.is_lost(work.sa, accepted(sa)) {
                continue;
            }
            self.is_watching = true;
            if !self.claim(work.sa, now_ns) {
                continue;
            }
            tried.packets += 1;
            let (buffer, scratch) = (packet.frame.bytes(), &mut self.scratch);
            let (outer, opening) = (work.outer, &work.opening);
            let opening = sa.esp.resynchronise(buffer, outer, opening, engine, scratch);
            if let Some(opening) = opening {
                tried.found += 1;
                found = Some((work.sa, opening.seq));
                work.opening = opening;
            }
        }
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(slot: u32, generation: u32) -> SaHandle {
        let word = u64::from(!slot) << 32 | u64::from(generation);
        SaHandle::from_word(core::num::NonZero::new(word).expect("not zero")).expect("a handle")
    }

    fn notes() -> SaNotes {
        SaNotes(core::array::from_fn(|_| Note::default()))
    }

    #[test]
    fn a_run_is_of_failures_with_nothing_between() {
        let (notes, sa) = (notes(), handle(3, 1));
        for n in 1..RUN {
            assert!(!notes.note_failure(sa, 7, n.into()));
        }
        assert!(!notes.note_failure(sa, 8, 20), "one was accepted: the run begins anew");
        assert!(!notes.is_lost(sa, 8));
        for n in 2..=RUN {
            assert_eq!(notes.note_failure(sa, 8, n.into()), n == RUN);
        }
        assert!(notes.is_lost(sa, 8));
        assert!(!notes.is_lost(sa, 9), "since then one was accepted");
        assert!(!notes.is_lost(handle(3, 2), 8), "another SA of the same place");
    }

    #[test]
    fn a_place_goes_to_another_sa_only_when_it_is_quiet() {
        let notes = notes();
        let (first, second) = (handle(3, 1), handle(3 + PLACES as u32, 1));
        for _ in 0..RUN {
            notes.note_failure(first, 0, 0);
        }
        assert!(!notes.note_failure(second, 0, FORGET_NS - 1));
        assert!(notes.is_lost(first, 0));
        assert!(!notes.note_failure(second, 0, FORGET_NS));
        assert!(!notes.is_lost(first, 0));
    }

    #[test]
    fn tries_are_as_rare_as_they_are_said_to_be() {
        let mut thread = Resync::new();
        let mut other = thread.sibling();
        let (a, b) = (handle(1, 1), handle(2, 1));
        assert!(thread.claim(a, 0));
        assert!(!thread.claim(b, THREAD_EVERY_NS - 1), "the thread's bound");
        assert!(!other.claim(a, EVERY_NS - 1), "the SA's bound, whichever thread");
        assert!(thread.claim(b, THREAD_EVERY_NS));
        assert!(other.claim(a, EVERY_NS));
        // A second of packets every microsecond.
        let mut claims = 0;
        for us in 200_000..1_200_000 {
            claims += u64::from(thread.claim(a, us * 1000)) + u64::from(other.claim(a, us * 1000));
        }
        assert_eq!(claims, 1_000_000_000 / EVERY_NS);
    }
}
