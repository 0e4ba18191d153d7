//! A region: the mapping, the depot of its free chunks, and what keeps it alive.
//!
//! # Life
//!
//! Handles (the region's own, pools, ledgers, parcels) each hold an [`Arc`]. Frames do not: a count that all
//! workers write would be written once a packet. Instead [`Region::out`] counts the chunks that are outside
//! of the depot, and is written once a batch. While it is not zero it stands for one strong count of the
//! [`Arc`]. So the mapping outlives the last frame, wherever that is.
//!
//! ```text
//!   depot  --take()-->  out: pools, frames, ledgers, parcels  --give(), give_batch()-->  depot
//!                           '--quarantine()-->  never again
//! ```

#![allow(unsafe_code, reason = "keeps the counts that keep the mapping alive")]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::sync::Arc;

use arrayvec::ArrayVec;
use dispatch::Depot;
use dispatch::depot::BATCH;

use super::pages::{Mapping, Pages};

/// The most chunks in a region: 16 GiB at 4096 bytes.
pub(super) const MAX_CHUNKS: u32 = 1 << 22;

/// The mapping, and the books about its chunks.
pub(crate) struct Region {
    /// First, with the next: what every access to a frame reads.
    pub(super) chunk_len: usize,
    pub(super) chunk_shift: u32,
    pub(super) chunks: u32,
    mapping: Mapping,
    /// Free chunks that are in no pool.
    depot: Depot,
    /// Chunks outside of the depot that are not quarantined. On a line of its own: written by all workers.
    out: Line<AtomicUsize>,
    /// Chunks that the kernel may read for ever; never used again.
    quarantined: AtomicUsize,
}

#[repr(align(128))]
struct Line<T>(T);

impl Region {
    /// `chunks` chunks of `chunk_len` bytes, a power of two, all of them in the depot: those of low addresses
    /// are taken first.
    pub(super) fn new(
        chunks: u32,
        chunk_len: usize,
        len: NonZeroUsize,
        populate: bool,
    ) -> io::Result<Self> {
        let mapping = Mapping::new(len, populate)?;
        let depot = Depot::new(chunks);
        let batches = chunks / BATCH as u32;
        (batches * BATCH as u32..chunks).rev().for_each(|chunk| depot.put(chunk));
        for batch in (0..batches).rev() {
            let first = batch * BATCH as u32;
            depot.put_batch(&core::array::from_fn(|number| first + number as u32));
        }
        Ok(Self {
            chunk_len,
            chunk_shift: chunk_len.trailing_zeros(),
            chunks,
            mapping,
            depot,
            out: Line(AtomicUsize::new(0)),
            quarantined: AtomicUsize::new(0),
        })
    }

    /// The region as its frames know it.
    #[inline]
    pub(super) fn pointer(self: &Arc<Self>) -> NonNull<Self> {
        // SAFETY: an Arc's content is never at address zero.
        unsafe { NonNull::new_unchecked(Arc::as_ptr(self).cast_mut()) }
    }

    /// Where the first chunk begins.
    pub(super) const fn base(&self) -> NonNull<u8> {
        self.mapping.base
    }

    /// The length of all chunks, in bytes.
    pub(super) const fn len(&self) -> usize {
        (self.chunks as usize) << self.chunk_shift
    }

    pub(super) const fn pages(&self) -> Pages {
        self.mapping.pages
    }

    /// Chunks in the depot.
    pub(super) fn in_depot(&self) -> usize {
        self.depot.len()
    }

    pub(super) fn quarantined(&self) -> usize {
        self.quarantined.load(Ordering::Acquire)
    }

    /// Takes up to [`BATCH`] chunks from the depot. Each is the caller's alone, and keeps the region alive
    /// until it is given back.
    pub(super) fn take(self: &Arc<Self>) -> ArrayVec<u32, BATCH> {
        let mut taken = ArrayVec::new();
        let count = self.depot.take(&mut taken);
        // Relaxed: the caller's own count keeps the region alive meanwhile.
        if count > 0 && self.out.0.fetch_add(count, Ordering::Relaxed) == 0 {
            // The chunks out there have one strong count of their own, for all of them together.
            core::mem::forget(Arc::clone(self));
        }
        taken
    }

    /// Gives one chunk back. Costs a change of words that all workers share: a batch is the cheap way.
    ///
    /// # Safety
    ///
    /// `region` lives, the chunk came from its [`Self::take`], and there is no handle to the chunk any more.
    /// Without a handle to the region the caller does not use it afterwards.
    pub(super) unsafe fn give(region: NonNull<Self>, chunk: u32) {
        // SAFETY: the caller promises that it lives: the chunk is out, at least until the next call.
        unsafe { region.as_ref() }.depot.put(chunk);
        // SAFETY: as the caller promises.
        unsafe { Self::are_in(region, 1) };
    }

    /// Gives a batch back.
    ///
    /// # Safety
    ///
    /// As for [`Self::give`], for each of them.
    pub(super) unsafe fn give_batch(region: NonNull<Self>, chunks: &[u32; BATCH]) {
        // SAFETY: as in give().
        unsafe { region.as_ref() }.depot.put_batch(chunks);
        // SAFETY: as the caller promises.
        unsafe { Self::are_in(region, BATCH) };
    }

    /// Takes note of a chunk that is never used again.
    ///
    /// # Safety
    ///
    /// As for [`Self::give`].
    pub(super) unsafe fn quarantine(region: NonNull<Self>) {
        // SAFETY: as in give().
        unsafe { region.as_ref() }.quarantined.fetch_add(1, Ordering::AcqRel);
        // SAFETY: as the caller promises.
        unsafe { Self::are_in(region, 1) };
    }

    /// So many chunks are not out any more; the last takes along the strong count.
    ///
    /// # Safety
    ///
    /// They were out until now, and each is counted once.
    unsafe fn are_in(region: NonNull<Self>, count: usize) {
        // SAFETY: the region lives, since the chunks are still counted.
        let out = unsafe { &region.as_ref().out.0 };
        // Release: what was done with a chunk comes before the end of the region, which another thread may
        // bring about. Acquire: if it is this one, what the others did has happened.
        if out.fetch_sub(count, Ordering::AcqRel) == count {
            // SAFETY: take() made this count when the word rose from zero, and each fall to zero drops one.
            drop(unsafe { Arc::from_raw(region.as_ptr().cast_const()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_count_for_all_that_is_out() {
        let len = NonZeroUsize::new(100 * 2048).expect("not 0");
        let region = Arc::new(Region::new(100, 2048, len, false).expect("memory"));
        assert_eq!((region.in_depot(), Arc::strong_count(&region)), (100, 1));
        let batch = region.take();
        assert!(batch.iter().copied().eq(0..64), "low addresses first");
        let rest = region.take();
        assert_eq!((rest.len(), region.take().len()), (36, 0));
        assert_eq!(Arc::strong_count(&region), 2);
        let at = region.pointer();
        // SAFETY: taken above, once, as are all below.
        unsafe { Region::give_batch(at, &batch.into_inner().expect("full")) };
        for chunk in &rest[1..] {
            // SAFETY: as above.
            unsafe { Region::give(at, *chunk) };
        }
        assert_eq!((region.in_depot(), Arc::strong_count(&region)), (99, 2));
        let weak = Arc::downgrade(&region);
        drop(region);
        // SAFETY: as above; the chunk that is out keeps the region.
        unsafe { Region::quarantine(at) };
        assert!(weak.upgrade().is_none());
    }
}
