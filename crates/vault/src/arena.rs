//! The file of live numbers: slots of atomics, found again by their owner's id.
//!
//! The file is a row of segments of 1 MiB. Each is mapped by itself and so never moves when the
//! file grows. A segment holds slots of one size class:
//!
//! ```text
//!  segment   | header | slot | slot | slot ...      (each as long as the class says)
//!  header    | magic | words per slot | 0 ...
//!  slot      | generation | owner | count | 0 | number | number | number ...
//! ```
//!
//! Each field is a 64-bit word in native byte order: the file never leaves the machine. A slot
//! begins a cache line, so that numbers of two SAs never share one. Its header leaves room in that
//! line for just the four numbers that packets do not touch: the fifth begins a line, as
//! `esp::LiveNumbers::LINE_START` wants it. The first number is not in the count.
//!
//! # Versions
//!
//! Slots of version 2 had no first number: a zero stands in its place, and the others are where they
//! are now. So a segment of version 2 is marked as one of version 3 and taken up. A daemon of version
//! 2 refuses it from then on: it would neither clear the first number of a slot that it uses again, nor
//! go by it.
//!
//! # When a slot is taken
//!
//! The generation is 0 in a free slot and is written last, so a slot with a generation is whole.
//! Generations rise, so if a process died while it replaced an owner's slot, the newer one counts.
//!
//! # When a slot is used again
//!
//! Three conditions have to hold: the slot was released ([`Arena::release`]), no handle lives, and a
//! slot of this class is asked for. Handles are `Arc`s, and the numbers can be reached only by
//! borrowing from one, so a dead `Weak` proves that nobody reads or writes the slot any more. Only
//! then is it zeroed and given a new owner. Dropping a handle does nothing to the file: a daemon that
//! shuts down in whatever order loses no number, and workers take no lock.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;
use std::sync::{Arc, Weak};

use mem::StableWords;

use crate::directory::open_private;
use crate::error::VaultError;
use crate::sys::{self, Mapping, Part};

/// Most live numbers that one owner can have: enough for a replay window of 65536 packets.
pub const MAX_LIVE_NUMBERS: usize = LARGEST - HEADER;

/// An owner's live numbers.
#[derive(Clone)]
pub struct Grant {
    /// The numbers, as many as asked for; the fifth begins a cache line.
    pub memory: Arc<dyn StableWords>,
    /// Tells if the numbers have their earlier values.
    pub origin: Origin,
}

/// Origin of the values in granted live numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The values that the owner last stored, in this process or an earlier one.
    Kept,
    /// Zeros: the owner is new.
    New,
}

/// Where a slot lies. Of 32 bits each: every SA has one, and 2^32 segments are 4 PiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct At {
    /// Number of the segment.
    segment: u32,
    /// Word index in it.
    start: u32,
}

impl At {
    fn new(segment: usize, start: usize) -> At {
        let narrow = |n| u32::try_from(n).unwrap_or(u32::MAX);
        At { segment: narrow(segment), start: narrow(start) }
    }

    fn segment(self) -> usize {
        self.segment as usize
    }

    fn start(self) -> usize {
        self.start as usize
    }
}

/// The slot of an owner. Its length is in the slot's header.
#[derive(Debug)]
struct Owned {
    at: At,
    handle: Weak<Part>,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Arena {
    path: PathBuf,
    file: File,
    segments: Vec<Arc<Mapping>>,
    owned: HashMap<u64, Owned>,
    /// Released slots that a handle may still reach.
    leaving: Vec<(At, Weak<Part>)>,
    /// Free slots by class.
    free: HashMap<usize, Vec<At>>,
    next_generation: u64,
}

impl Arena {
    /// Maps the file and finds the slots in it.
    pub(crate) fn open(path: &Path) -> Result<Arena, VaultError> {
        let file = open_private(path, false)?;
        let len = file.metadata().map_err(VaultError::io(path, "cannot read the length"))?.len();
        // A process that died while the file grew leaves part of a segment, with nothing in it.
        let segments = len / SEGMENT_BYTES;
        let mut arena = Arena {
            path: path.to_owned(),
            file,
            segments: Vec::new(),
            owned: HashMap::new(),
            leaving: Vec::new(),
            free: HashMap::new(),
            next_generation: 1,
        };
        for _ in 0..segments {
            arena.map_next()?;
        }
        for number in 0..arena.segments.len() {
            arena.find_slots(number)?;
        }
        Ok(arena)
    }

    /// The body of [`Vault::live_numbers`](crate::Vault::live_numbers).
    pub(crate) fn live_numbers(&mut self, owner: u64, len: usize) -> Result<Grant, VaultError> {
        if len <= UNCOUNTED || len > MAX_LIVE_NUMBERS {
            let what = "a count of live numbers";
            return Err(VaultError::TooLong { what, len, max: MAX_LIVE_NUMBERS });
        }
        let segments = &self.segments;
        let is_as_long = |o: &&mut Owned| note(segments, o.at, COUNT) == (len - UNCOUNTED) as u64;
        if let Some(owned) = self.owned.get_mut(&owner).filter(is_as_long) {
            let handle = owned.handle.upgrade().unwrap_or_else(|| {
                let segment = Arc::clone(&segments[owned.at.segment()]);
                let slot = Arc::new(Part::new(segment, owned.at.start() + HEADER, len));
                owned.handle = Arc::downgrade(&slot);
                slot
            });
            return Ok(Grant { memory: handle, origin: Origin::Kept });
        }
        let at = self.take_free(class_of(len))?;
        let segment = Arc::clone(&self.segments[at.segment()]);
        let words = &segment.words()[at.start()..];
        for number in &words[HEADER..HEADER + len] {
            number.store(0, Relaxed);
        }
        words[OWNER].store(owner, Relaxed);
        words[COUNT].store((len - UNCOUNTED) as u64, Relaxed);
        let generation = self.next_generation;
        self.next_generation += 1;
        words[GENERATION].store(generation, Release);

        self.release(owner);
        let slot = Arc::new(Part::new(segment, at.start() + HEADER, len));
        let handle = Arc::downgrade(&slot);
        self.owned.insert(owner, Owned { at, handle });
        Ok(Grant { memory: slot, origin: Origin::New })
    }

    /// The body of [`Vault::release`](crate::Vault::release).
    pub(crate) fn release(&mut self, owner: u64) {
        if let Some(Owned { at, handle }) = self.owned.remove(&owner) {
            self.mark_free(at);
            self.leaving.push((at, handle));
        }
    }

    /// The body of [`Vault::owners`](crate::Vault::owners).
    pub(crate) fn owners(&self) -> impl Iterator<Item = (u64, usize)> {
        let len = |at| note(&self.segments, at, COUNT) as usize + UNCOUNTED;
        self.owned.iter().map(move |(owner, owned)| (*owner, len(owned.at)))
    }

    /// The body of [`Vault::holders`](crate::Vault::holders).
    pub(crate) fn holders(&self) -> impl Iterator<Item = u64> {
        self.owned.iter().filter(|(_, owned)| owned.is_held()).map(|(owner, _)| *owner)
    }

    /// The body of [`Vault::is_held`](crate::Vault::is_held).
    pub(crate) fn is_held(&self, owner: u64) -> bool {
        self.owned.get(&owner).is_some_and(Owned::is_held)
    }

    /// The body of [`Vault::sweep`](crate::Vault::sweep).
    pub(crate) fn sweep(&mut self, keep: &HashSet<u64>) -> usize {
        let orphans: Vec<u64> =
            self.owned.keys().filter(|owner| !keep.contains(owner)).copied().collect();
        for owner in &orphans {
            self.release(*owner);
        }
        orphans.len()
    }

    /// A free slot of the class; makes a segment if there is none.
    fn take_free(&mut self, class: usize) -> Result<At, VaultError> {
        if let Some(at) = self.free.get_mut(&class).and_then(Vec::pop) {
            return Ok(at);
        }
        for (at, _) in self.leaving.extract_if(.., |(_, handle)| handle.strong_count() == 0) {
            // Pairs with the drop of the last handle: all access through it is over.
            fence(Acquire);
            let class = self.segments[at.segment()].words()[CLASS].load(Relaxed) as usize;
            self.free.entry(class).or_default().push(at);
        }
        if let Some(at) = self.free.get_mut(&class).and_then(Vec::pop) {
            return Ok(at);
        }
        let number = self.segments.len();
        let offset = number as u64 * SEGMENT_BYTES;
        sys::reserve(&self.file, offset, SEGMENT_BYTES as usize)
            .map_err(VaultError::io(&self.path, "cannot grow"))?;
        self.map_next()?;
        self.format(number, class);
        self.free.get_mut(&class).and_then(Vec::pop).ok_or(VaultError::TooLong {
            what: "a size class",
            len: class,
            max: LARGEST,
        })
    }

    /// Maps the segment that follows the last mapped one.
    fn map_next(&mut self) -> Result<(), VaultError> {
        let offset = self.segments.len() as u64 * SEGMENT_BYTES;
        let mapping = Mapping::new(&self.file, offset, SEGMENT_WORDS)
            .map_err(VaultError::io(&self.path, "cannot map"))?;
        self.segments.push(Arc::new(mapping));
        Ok(())
    }

    /// Gives an empty segment its class.
    fn format(&mut self, number: usize, class: usize) {
        let words = self.segments[number].words();
        words[CLASS].store(class as u64, Relaxed);
        words[MAGIC].store(SEGMENT_MAGIC, Release);
        let slots = slot_starts(class).map(|start| At::new(number, start));
        self.free.entry(class).or_default().extend(slots);
    }

    /// Reads a segment that an earlier process left.
    fn find_slots(&mut self, number: usize) -> Result<(), VaultError> {
        let segment = Arc::clone(&self.segments[number]);
        let words = segment.words();
        let damaged = |word: usize, what| VaultError::DamagedLiveNumbers {
            path: self.path.clone(),
            offset: number as u64 * SEGMENT_BYTES + word as u64 * 8,
            what,
        };
        let class = match (words[MAGIC].load(Acquire), words[CLASS].load(Relaxed)) {
            // The process died between growing the file and formatting; any class will do.
            (0, _) => {
                self.format(number, SMALLEST);
                return Ok(());
            }
            (SEGMENT_MAGIC, class) => class as usize,
            (VERSION_2, class) => {
                words[MAGIC].store(SEGMENT_MAGIC, Release);
                class as usize
            }
            _ => return Err(damaged(MAGIC, "the mark of a segment of this version")),
        };
        if !is_class(class) {
            return Err(damaged(CLASS, "a size class"));
        }
        for start in slot_starts(class) {
            let at = At::new(number, start);
            let generation = words[start + GENERATION].load(Acquire);
            let owner = words[start + OWNER].load(Relaxed);
            let count = words[start + COUNT].load(Relaxed) as usize;
            if generation == 0 {
                self.free.entry(class).or_default().push(at);
                continue;
            }
            if generation == u64::MAX {
                return Err(damaged(start + GENERATION, "a generation"));
            }
            if count == 0 || class_of(count.saturating_add(UNCOUNTED)) > class {
                return Err(damaged(start + COUNT, "a count of live numbers that fits the slot"));
            }
            self.next_generation = self.next_generation.max(generation + 1);
            let found = Owned { at, handle: Weak::new() };
            let other = self.owned.get(&owner).map(|o| note(&self.segments, o.at, GENERATION));
            let loser = match other {
                Some(other) if other == generation => {
                    return Err(damaged(start + GENERATION, "a generation not seen before"));
                }
                Some(other) if other > generation => Some(at),
                _ => self.owned.insert(owner, found).map(|older| older.at),
            };
            if let Some(at) = loser {
                self.mark_free(at);
                self.leaving.push((at, Weak::new()));
            }
        }
        Ok(())
    }

    /// Marks a slot free in the file; its numbers stay untouched.
    fn mark_free(&self, at: At) {
        self.segments[at.segment()].words()[at.start() + GENERATION].store(0, Release);
    }
}

impl Owned {
    /// True while a handle lives.
    fn is_held(&self) -> bool {
        self.handle.strong_count() > 0
    }
}

/// A word of a slot's header.
fn note(segments: &[Arc<Mapping>], at: At, word: usize) -> u64 {
    segments[at.segment()].words()[at.start() + word].load(Relaxed)
}

/// Words a slot needs for so many numbers: the size class, a power of two or one and a half of one,
/// so that it is whole cache lines. A replay window of 128 packets takes the second of them.
fn class_of(count: usize) -> usize {
    let words = count.saturating_add(HEADER);
    match words.checked_next_power_of_two() {
        None => usize::MAX,
        Some(class) if class <= SMALLEST => SMALLEST,
        Some(class) if words <= class / 4 * 3 => class / 4 * 3,
        Some(class) => class,
    }
}

/// True if slots may have so many words.
fn is_class(words: usize) -> bool {
    (SMALLEST..=LARGEST).contains(&words) && class_of(words - HEADER) == words
}

/// Word indices of the slots of a segment; the segment's header takes the first slot's place.
fn slot_starts(class: usize) -> impl DoubleEndedIterator<Item = usize> {
    (1..SEGMENT_WORDS / class).rev().map(move |slot| slot * class)
}

const SEGMENT_BYTES: u64 = 1 << 20;
const SEGMENT_WORDS: usize = SEGMENT_BYTES as usize / 8;
/// The last two digits are the format's version.
const SEGMENT_MAGIC: u64 = u64::from_ne_bytes(*b"CVCELL03");
const VERSION_2: u64 = u64::from_ne_bytes(*b"CVCELL02");

/// Words of a slot's header: the first cache line, but for four numbers.
const HEADER: usize = 4;
/// Numbers of a slot that are not in its count.
const UNCOUNTED: usize = 1;
const SMALLEST: usize = 16;
const LARGEST: usize = 4096;

// Word indices in a segment's header.
const MAGIC: usize = 0;
const CLASS: usize = 1;

// Word indices in a slot's header.
const GENERATION: usize = 0;
const OWNER: usize = 1;
const COUNT: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use esp::LiveNumbers;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::FileExt;

    fn arena(dir: &tempfile::TempDir) -> Arena {
        Arena::open(&dir.path().join("cells")).unwrap()
    }

    fn value(grant: &Grant, i: usize) -> u64 {
        grant.memory.words()[i].load(Relaxed)
    }

    #[test]
    fn an_owner_finds_its_numbers_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let grant = a.live_numbers(7, 11).unwrap();
        assert_eq!((grant.origin, grant.memory.words().len()), (Origin::New, 11));
        grant.memory.words()[3].store(99, Relaxed);
        assert_eq!(value(&a.live_numbers(7, 11).unwrap(), 3), 99, "while a handle lives");
        drop((a, grant));
        let mut a = arena(&dir);
        let again = a.live_numbers(7, 11).unwrap();
        assert_eq!((again.origin, value(&again, 3)), (Origin::Kept, 99));
        let other = a.live_numbers(8, 11).unwrap();
        assert_eq!((other.origin, value(&other, 3)), (Origin::New, 0));
    }

    #[test]
    fn another_length_means_new_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let short = a.live_numbers(7, 11).unwrap();
        short.memory.words()[0].store(1, Relaxed);
        let long = a.live_numbers(7, 2057).unwrap();
        assert_eq!((long.origin, value(&long, 0)), (Origin::New, 0));
        long.memory.words()[2056].store(5, Relaxed);
        assert_eq!(value(&short, 0), 1);
        drop(a);
        let mut a = arena(&dir);
        assert_eq!(value(&a.live_numbers(7, 2057).unwrap(), 2056), 5);
        assert_eq!(a.owned.len(), 1);
    }

    #[test]
    fn a_released_slot_is_used_again_only_after_its_last_handle() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let held = a.live_numbers(1, 4000).unwrap();
        let address = held.memory.words().as_ptr();
        held.memory.words()[9].store(42, Relaxed);
        a.release(1);
        let mut others = Vec::new();
        for owner in 2..100 {
            let grant = a.live_numbers(owner, 4000).unwrap();
            assert_ne!(grant.memory.words().as_ptr(), address);
            others.push(grant);
        }
        assert_eq!(value(&held, 9), 42, "still its holder's");
        drop(held);
        let reused = (100..200).map(|owner| a.live_numbers(owner, 4000).unwrap()).find(|g| {
            assert_eq!(value(g, 9), 0);
            g.memory.words().as_ptr() == address
        });
        assert!(reused.is_some());
    }

    #[test]
    fn dropping_everything_frees_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let grant = a.live_numbers(1, 11).unwrap();
        grant.memory.words()[0].store(1000, Relaxed);
        drop(grant);
        assert_eq!(value(&a.live_numbers(1, 11).unwrap(), 0), 1000);
        let grant = a.live_numbers(1, 11).unwrap();
        drop(a);
        grant.memory.words()[0].store(1001, Relaxed);
        drop(grant);
        assert_eq!(value(&arena(&dir).live_numbers(1, 11).unwrap(), 0), 1001);
    }

    #[test]
    fn an_owner_is_held_while_a_handle_to_its_present_numbers_lives() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let grants = [1, 2, 3].map(|owner| a.live_numbers(owner, 11).unwrap());
        assert!((1..4).all(|owner| a.is_held(owner)) && !a.is_held(4));
        a.release(2);
        assert!(!a.is_held(2), "its numbers are nobody's, though handles may live");
        let holders = |a: &Arena| a.holders().collect::<HashSet<_>>();
        assert_eq!(holders(&a), HashSet::from([1, 3]));
        let [one, _two, three] = grants;
        let second = three.memory.clone();
        drop((one, three));
        assert_eq!(holders(&a), HashSet::from([3]));
        drop((second, a));
        let mut a = arena(&dir);
        assert_eq!(holders(&a), HashSet::new(), "nobody has asked in this process");
        let _one = a.live_numbers(1, 11).unwrap();
        assert_eq!(holders(&a), HashSet::from([1]));
    }

    #[test]
    fn released_and_swept_owners_are_not_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        for owner in 0..10 {
            a.live_numbers(owner, 20).unwrap().memory.words()[0].store(1, Relaxed);
        }
        a.release(3);
        a.release(1234);
        assert_eq!(a.sweep(&HashSet::from([5, 6, 77])), 7);
        assert_eq!(a.sweep(&HashSet::from([5, 6])), 0);
        drop(a);
        let mut a = arena(&dir);
        for owner in 0..10 {
            let kept = owner == 5 || owner == 6;
            let grant = a.live_numbers(owner, 20).unwrap();
            assert_eq!(grant.origin == Origin::Kept, kept, "owner {owner}");
            assert_eq!(value(&grant, 0), u64::from(kept));
        }
    }

    #[test]
    fn segments_are_added_and_never_move() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let first = a.live_numbers(0, MAX_LIVE_NUMBERS).unwrap();
        let grants: Vec<_> =
            (1..100).map(|o| a.live_numbers(o, MAX_LIVE_NUMBERS).unwrap()).collect();
        assert_eq!(a.segments.len(), 4); // 31 slots of 32 KiB each
        first.memory.words()[MAX_LIVE_NUMBERS - 1].store(3, Relaxed);
        assert_eq!(value(&a.live_numbers(0, MAX_LIVE_NUMBERS).unwrap(), MAX_LIVE_NUMBERS - 1), 3);
        assert!(grants.iter().all(|g| value(g, MAX_LIVE_NUMBERS - 1) == 0));
        assert_eq!(fs::metadata(dir.path().join("cells")).unwrap().len(), 4 << 20);
    }

    #[test]
    fn counts_that_no_slot_has_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        for len in [0, 1, MAX_LIVE_NUMBERS + 1, usize::MAX] {
            assert!(matches!(a.live_numbers(1, len), Err(VaultError::TooLong { .. })));
        }
        let needed = LiveNumbers::needed(65536);
        let memory = a.live_numbers(1, needed).unwrap().memory;
        assert!(LiveNumbers::in_memory(memory, 65536).is_some());
    }

    #[test]
    fn what_packets_touch_begins_a_cache_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let mut lines = HashSet::new();
        for (owner, window) in [0u32, 1, 32, 64, 65, 128, 1000, 65536].into_iter().enumerate() {
            let memory = a.live_numbers(owner as u64, LiveNumbers::needed(window)).unwrap().memory;
            let first = &raw const memory.words()[LiveNumbers::LINE_START] as usize;
            assert_eq!(first % 64, 0, "window {window}");
            for word in memory.words() {
                lines.insert((std::ptr::from_ref(word) as usize / 64, owner));
            }
        }
        let mut seen = HashSet::new();
        assert!(lines.iter().all(|(line, _)| seen.insert(*line)), "two owners share a line");
        // strongSwan's default window of 32 packets takes two lines, with the header.
        assert_eq!(class_of(LiveNumbers::needed(32)), 16);
        assert_eq!(class_of(LiveNumbers::needed(64)), 16);
        assert_eq!(class_of(LiveNumbers::needed(128)), 24);
    }

    #[test]
    fn classes_are_whole_lines_and_the_least_that_fits() {
        let classes: Vec<usize> = (0..=LARGEST).filter(|words| is_class(*words)).collect();
        assert_eq!(classes[..6], [16, 24, 32, 48, 64, 96]);
        assert_eq!(classes.last(), Some(&LARGEST));
        for count in 1..=MAX_LIVE_NUMBERS {
            let class = class_of(count);
            assert_eq!(class * 8 % mem::LINE_LEN, 0);
            assert_eq!(classes.iter().find(|class| **class >= count + HEADER), Some(&class));
        }
        assert!(class_of(MAX_LIVE_NUMBERS + 1) > LARGEST);
        assert_eq!(class_of(usize::MAX), usize::MAX);
    }

    #[test]
    fn a_window_of_128_is_found_in_the_slots_that_used_to_be_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells");
        let needed = LiveNumbers::needed(128);
        let file = File::create(&path).unwrap();
        file.set_len(SEGMENT_BYTES).unwrap();
        // A segment of 32 words a slot, the first slot taken by owner 9.
        let magic = u64::from_ne_bytes(*b"CVCELL02");
        for (word, value) in [(MAGIC, magic), (CLASS, 32)] {
            file.write_all_at(&value.to_ne_bytes(), word as u64 * 8).unwrap();
        }
        // Of these versions' numbers the first is at word 5.
        let of_slot = [(GENERATION, 5), (OWNER, 9), (COUNT, needed as u64 - 1), (5 + 3, 77)];
        for (word, value) in of_slot {
            file.write_all_at(&u64::to_ne_bytes(value), (32 + word) as u64 * 8).unwrap();
        }
        let mut a = arena(&dir);
        let live = |a: &mut Arena, owner| {
            let grant = a.live_numbers(owner, needed).unwrap();
            (grant.origin, LiveNumbers::in_memory(grant.memory, 128).unwrap())
        };
        let (origin, kept) = live(&mut a, 9);
        assert_eq!((origin, kept.sent().load(Relaxed)), (Origin::Kept, 77));
        let salt = kept.iv_salt().unwrap();
        let (origin, new) = live(&mut a, 10);
        assert_eq!(origin, Origin::New);
        assert_ne!(new.iv_salt().unwrap(), salt);
        assert_eq!(a.segments.len(), 2, "new ones have slots of their own length");
        drop((a, kept, new));
        let mut a = arena(&dir);
        let (origin, again) = live(&mut a, 9);
        assert_eq!((origin, again.sent().load(Relaxed)), (Origin::Kept, 77));
        assert_eq!(again.iv_salt().unwrap(), salt);
        drop((a, again));
        assert_eq!(fs::read(&path).unwrap()[..8], *b"CVCELL03", "an older daemon refuses it");
    }

    #[test]
    fn a_slot_that_is_used_again_has_no_salt_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let mut salts = HashSet::new();
        let mut places = HashSet::new();
        for owner in 0..50 {
            let memory = a.live_numbers(owner, LiveNumbers::needed(32)).unwrap().memory;
            places.insert(memory.words().as_ptr());
            let live = LiveNumbers::in_memory(memory, 32).unwrap();
            assert!(salts.insert(live.iv_salt().unwrap()));
            a.release(owner);
        }
        // Free slots come first, and then those that were released.
        for owner in 50..20_000 {
            let memory = a.live_numbers(owner, LiveNumbers::needed(32)).unwrap().memory;
            if places.contains(&memory.words().as_ptr()) {
                assert_eq!(memory.words()[0].load(Relaxed), 0);
                return;
            }
        }
        panic!("no slot was used again");
    }

    #[test]
    fn a_file_of_the_first_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells");
        let file = File::create(&path).unwrap();
        file.set_len(SEGMENT_BYTES).unwrap();
        file.write_all_at(b"CVCELL01", 0).unwrap();
        file.write_all_at(&32u64.to_ne_bytes(), 8).unwrap();
        let text = Arena::open(&path).unwrap_err().to_string();
        assert!(text.ends_with("the mark of a segment of this version"), "{text}");
    }

    #[test]
    fn a_replacement_that_died_half_way_leaves_the_newer_slot() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = arena(&dir);
        let _old = a.live_numbers(7, 11).unwrap();
        let new = a.live_numbers(8, 12).unwrap();
        new.memory.words()[0].store(5, Relaxed);
        // As if the process had died before the old slot of owner 7 was marked free.
        let at = a.owned[&8].at;
        a.segments[at.segment()].words()[at.start() + OWNER].store(7, Relaxed);
        drop(a);
        let mut a = arena(&dir);
        assert_eq!(a.owned.len(), 1);
        let grant = a.live_numbers(7, 12).unwrap();
        assert_eq!((grant.origin, value(&grant, 0)), (Origin::Kept, 5));
        drop(a);
        assert_eq!(arena(&dir).owned.len(), 1, "the older one was marked free in the file");
    }

    #[test]
    fn a_file_that_was_growing_is_taken_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells");
        for len in [1, 4096, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1] {
            let file = File::create(&path).unwrap();
            file.set_len(len).unwrap();
            let mut a = arena(&dir);
            assert_eq!(a.live_numbers(1, 2057).unwrap().origin, Origin::New);
            drop(a);
            assert_eq!(arena(&dir).live_numbers(1, 2057).unwrap().origin, Origin::Kept);
        }
    }

    #[test]
    fn damage_is_an_error_that_names_file_and_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells");
        let slot = arena(&dir).live_numbers(1, 11).map(|_| SMALLEST as u64 * 8).unwrap();
        let good = fs::read(&path).unwrap();
        for (offset, bad) in [
            (0, 1u64),
            (8, 0),
            (8, 33),
            (8, u64::MAX),
            (slot, u64::MAX),
            (slot + 16, 0),
            (slot + 16, 25),
            (slot + 16, u64::MAX),
        ] {
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&bad.to_ne_bytes(), offset).unwrap();
            let e = Arena::open(&path).unwrap_err();
            let text = e.to_string();
            assert!(text.contains("cells: damaged at byte") && text.contains(&offset.to_string()));
            fs::write(&path, &good).unwrap();
        }
        Arena::open(&path).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn noise_in_the_file_never_panics(
            class in 0..5000u64,
            patches in proptest::collection::vec((0..SEGMENT_WORDS, 0..70u64), 0..40),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("cells");
            let file = File::options().write(true).create_new(true).open(&path).unwrap();
            file.set_len(SEGMENT_BYTES).unwrap();
            file.write_all_at(&SEGMENT_MAGIC.to_ne_bytes(), 0).unwrap();
            let class = if class > 4096 { SMALLEST as u64 } else { class };
            file.write_all_at(&class.to_ne_bytes(), 8).unwrap();
            for (at, value) in patches {
                file.write_all_at(&value.to_ne_bytes(), (at - at % 16) as u64 * 8 + value % 4 * 8).unwrap();
            }
            if let Ok(mut a) = Arena::open(&path) {
                for owner in 0..70 {
                    for grant in [a.live_numbers(owner, 11), a.live_numbers(owner, 100)] {
                        grant.unwrap().memory.words().iter().for_each(|c| c.store(1, Relaxed));
                    }
                }
            }
        }
    }
}
