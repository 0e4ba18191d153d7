//! Atomic words in memory that someone else owns: one pointer away, and kept alive by their owner.
//!
//! ```text
//!   Words<HEAD>   | first word | count | owner: Arc |
//!                       |
//!                       v
//!                 | HEAD words: an array | the rest: a slice |
//! ```
//!
//! A trait object that is asked for its slice costs a virtual call for each access; the slice
//! itself, found once, costs none. What makes that sound is the owner's promise in
//! [`StableWords`]. The first `HEAD` words are reached without a bounds check.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::sync::Arc;

use crate::{Cache, LINE_LEN};

/// An owner of atomic words that never move.
///
/// # Safety
/// As long as a value lives and is not moved, every call of [`StableWords::words`] returns the
/// same slice: the same address, the same length. What it points to stays allocated and is
/// accessed as atomics alone until the value is dropped, also through pointers that were made
/// from the slice and outlive the borrow.
pub unsafe trait StableWords: Send + Sync {
    /// The words; always the same slice.
    fn words(&self) -> &[AtomicU64];
}

// SAFETY: a boxed slice is reached through a shared reference, so it is neither replaced nor
// freed before the box is dropped, and atomics are all that it consists of.
unsafe impl StableWords for Box<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// A shared handle to an owner's words, at least `HEAD` of them.
///
/// A clone shares them. Dereferences to the whole slice.
pub struct Words<const HEAD: usize> {
    first: NonNull<AtomicU64>,
    count: usize,
    /// Behind an `Arc`, so that it never moves.
    owner: Arc<dyn StableWords>,
}

impl<const HEAD: usize> Words<HEAD> {
    /// Finds the owner's words; `None` if they are fewer than `HEAD`.
    pub fn new(owner: Arc<dyn StableWords>) -> Option<Words<HEAD>> {
        (owner.words().len() >= HEAD).then(|| Words::of(owner))
    }

    /// `HEAD` words and `rest` more of ordinary memory, all zero, of which number `lead` begins a
    /// cache line.
    ///
    /// # Panics
    /// If so many words are beyond all memory.
    pub fn on_heap(rest: usize, lead: usize) -> Words<HEAD> {
        Words::of(Arc::new(Lines::zeroed(rest.saturating_add(HEAD), lead)))
    }

    /// `owner` has `HEAD` words at least.
    fn of(owner: Arc<dyn StableWords>) -> Words<HEAD> {
        let words = owner.words();
        let (first, count) = (NonNull::from(words).cast(), words.len());
        Words { first, count, owner }
    }

    /// The first words.
    #[inline(always)]
    pub fn head(&self) -> &[AtomicU64; HEAD] {
        // SAFETY: the caller of `of` saw to it that at least `HEAD` words are there, in one
        // allocation and aligned as a slice of them is; the owner, which lives as long as `self`, keeps them there, and all access
        // is atomic. Both by the promise of `StableWords`.
        unsafe { self.first.cast().as_ref() }
    }

    /// The words behind the first ones.
    #[inline(always)]
    pub fn rest(&self) -> &[AtomicU64] {
        // SAFETY: `count` is at least `HEAD`, so this is inside the slice or one past its end.
        let first = unsafe { self.first.add(HEAD) };
        // SAFETY: as in `head`, for the `count - HEAD` words that follow.
        unsafe { core::slice::from_raw_parts(first.as_ptr(), self.count - HEAD) }
    }

    /// Brings the cache line of word `at` near; past the end nothing happens.
    #[inline(always)]
    pub fn prefetch(&self, cache: Cache, at: usize) {
        if let Some(word) = self.get(at) {
            crate::prefetch_into(cache, word);
        }
    }
}

impl<const HEAD: usize> Deref for Words<HEAD> {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the slice that `of` saw is still there, by the promise of `StableWords`.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl<const HEAD: usize> Clone for Words<HEAD> {
    fn clone(&self) -> Self {
        Words { first: self.first, count: self.count, owner: Arc::clone(&self.owner) }
    }
}

// SAFETY: what the pointer leads to are atomics, which any thread may use; the owner is `Send`
// and `Sync` itself.
unsafe impl<const HEAD: usize> Send for Words<HEAD> {}

// SAFETY: as above.
unsafe impl<const HEAD: usize> Sync for Words<HEAD> {}

/// Words in ordinary memory, in whole cache lines.
struct Lines {
    lines: Box<[Line]>,
    skip: usize,
    count: usize,
}

/// One cache line of words.
#[repr(C, align(64))]
struct Line([AtomicU64; LINE_WORDS]);

const LINE_WORDS: usize = LINE_LEN / size_of::<AtomicU64>();

const _: () = assert!(size_of::<Line>() == LINE_LEN, "nothing but words");

impl Lines {
    fn zeroed(count: usize, lead: usize) -> Lines {
        // Before the first word: as many as make word `lead` the first of a line.
        let skip = lead.wrapping_neg() % LINE_WORDS;
        let line = || Line(core::array::from_fn(|_| AtomicU64::new(0)));
        // A sum of the two could overflow.
        let lines = count.div_ceil(LINE_WORDS) + usize::from(skip != 0);
        let lines = (0..lines).map(|_| line()).collect();
        Lines { lines, skip, count }
    }
}

// SAFETY: the box is reached through a shared reference, so it is neither replaced nor freed before
// the value is dropped, the two numbers never change, and atomics are all that it consists of.
unsafe impl StableWords for Lines {
    fn words(&self) -> &[AtomicU64] {
        let first: *const AtomicU64 = self.lines.as_ptr().cast();
        // SAFETY: `zeroed` made lines for `skip + count` words, or panicked for want of memory.
        let first = unsafe { first.add(self.skip) };
        // SAFETY: `count` words follow, since a line is eight words and nothing else; they live
        // as long as the borrow of `self`.
        unsafe { core::slice::from_raw_parts(first, self.count) }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn boxed(count: u64) -> Arc<dyn StableWords> {
        let words: Box<[AtomicU64]> = (0..count).map(AtomicU64::new).collect();
        Arc::new(words)
    }

    #[test]
    fn head_and_rest_are_the_whole() {
        for count in 3..20 {
            let words = Words::<3>::new(boxed(count)).unwrap();
            let parts: Vec<u64> =
                words.head().iter().chain(words.rest()).map(|w| w.load(Relaxed)).collect();
            assert_eq!(parts, (0..count).collect::<Vec<_>>());
            assert_eq!(words.len() as u64, count);
            assert!(core::ptr::eq(&raw const words.head()[2], &raw const words[2]));
        }
    }

    #[test]
    fn too_few_words_are_refused() {
        assert!(Words::<4>::new(boxed(3)).is_none());
        assert!(Words::<4>::new(boxed(4)).is_some_and(|w| w.rest().is_empty()));
        assert_eq!(Words::<4>::on_heap(0, 0).len(), 4);
        assert!(Words::<0>::new(boxed(0)).is_some_and(|w| w.is_empty()));
    }

    #[test]
    fn a_clone_shares_the_words_and_keeps_the_owner() {
        let owner = boxed(8);
        let weak = Arc::downgrade(&owner);
        let one = Words::<1>::new(owner).unwrap();
        let two = one.clone();
        one[7].store(99, Relaxed);
        drop(one);
        assert_eq!(two[7].load(Relaxed), 99);
        assert!(weak.upgrade().is_some());
        drop(two);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn the_leading_word_begins_a_line() {
        for lead in 0..20 {
            for count in 1..40 {
                let words = Words::<0>::on_heap(count, lead);
                assert_eq!(words.len(), count);
                assert!(words.iter().all(|w| w.load(Relaxed) == 0));
                let at = words.as_ptr() as usize + lead * 8;
                assert_eq!(at % LINE_LEN, 0, "{count} words, lead {lead}");
                words.prefetch(Cache::First, lead);
                words.prefetch(Cache::Second, usize::MAX);
            }
        }
    }

    #[test]
    fn threads_see_each_other() {
        let words = Words::<1>::on_heap(3, 0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                let words = words.clone();
                s.spawn(move || (0..1000).for_each(|_| _ = words[3].fetch_add(1, Relaxed)));
            }
        });
        assert_eq!(words[3].load(Relaxed), 4000);
    }
}
