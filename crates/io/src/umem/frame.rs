//! [`Frame`], the only handle to its chunk.

#![allow(unsafe_code, reason = "turns chunk numbers into slices; what is exported is safe")]

use core::ptr::NonNull;

use mem::Cache;

use super::region::Region;

/// The only handle to one chunk: where it begins, and its region, which it keeps alive.
///
/// Dropping it gives the chunk back to the region, by itself, which all workers pay for; on the hot path
/// give it to [`FramePool::put`](super::FramePool::put).
pub struct Frame {
    start: NonNull<u8>,
    /// Alive, since the chunk is counted in [`Region::take`] until the frame's end.
    region: NonNull<Region>,
}

// SAFETY: the handle is the only one to plain memory that lives as long as the region.
unsafe impl Send for Frame {}
// SAFETY: a shared Frame gives out shared references alone.
unsafe impl Sync for Frame {}

impl Frame {
    /// The handle to a chunk.
    ///
    /// # Safety
    ///
    /// `index` came from this region's [`Region::take`], has not been given back, and there is no other handle
    /// to the chunk.
    #[inline]
    pub(super) unsafe fn new(region: NonNull<Region>, index: u32) -> Self {
        // SAFETY: the region lives while one of its chunks is out.
        let of = unsafe { region.as_ref() };
        debug_assert!(index < of.chunks);
        let offset = (index as usize) << of.chunk_shift;
        // SAFETY: the region has `chunks << chunk_shift` bytes, and index is below chunks.
        let start = unsafe { of.base().add(offset) };
        Self { start, region }
    }

    #[inline]
    fn region(&self) -> &Region {
        // SAFETY: the frame's chunk is out, which keeps the region alive; nobody has it mutably.
        unsafe { self.region.as_ref() }
    }

    /// True if the chunk is of this region.
    #[inline]
    pub(super) fn is_of(&self, region: NonNull<Region>) -> bool {
        self.region == region
    }

    /// The whole chunk.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the chunk lies inside the mapping (see new()), is initialised (zeroed by the
        // kernel), and only this frame refers to it, so nobody writes it during the borrow.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.region().chunk_len) }
    }

    /// The whole chunk, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in bytes(); `&mut self` on the chunk's only handle makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.region().chunk_len) }
    }

    /// Where a packet that is written into this frame should begin, in bytes: [`super::HEADROOM`],
    /// give or take two cache lines.
    ///
    /// Chunks are a power of two apart, so places at one offset in all of them share a few sets of
    /// the first-level cache (48 KiB, 12 ways: the first lines of 64 packets have room for 24).
    /// Neighbouring chunks give different answers, which spreads the headers of a burst. Where the
    /// kernel writes the packet (AF_XDP) it is the one that says where.
    #[inline]
    pub fn headroom(&self) -> usize {
        // The chunk's page, in which there may be two.
        let turn = (self.start.addr().get() >> 12) % STAGGER_STEPS;
        MIN_HEADROOM + turn * mem::LINE_LEN
    }

    /// Asks for the cache line that is `offset` bytes into the chunk; reads nothing.
    #[inline]
    pub fn prefetch(&self, cache: Cache, offset: usize) {
        mem::prefetch_pointer(cache, self.start.as_ptr().wrapping_add(offset));
    }

    /// The chunk's number in its region.
    #[inline]
    pub fn index(&self) -> u32 {
        let region = self.region();
        let offset = self.start.addr().get() - region.base().addr().get();
        (offset >> region.chunk_shift) as u32
    }

    /// Takes the chunk's number out. The chunk stays out of the depot: the caller answers for it.
    #[inline]
    pub(super) fn into_index(self) -> u32 {
        let index = self.index();
        core::mem::forget(self);
        index
    }
}

impl Drop for Frame {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: the chunk is out, and this was the only handle to it.
        unsafe { Region::give(self.region, self.index()) };
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({})", self.index())
    }
}

/// The least room in front of a packet, in bytes: enough for Ethernet with a tag, IPv6, UDP, ESP
/// and an IV, which are 18 + 40 + 8 + 8 + 16.
pub const MIN_HEADROOM: usize = 128;

/// Different places where packets begin: four of them already take away most of the misses.
const STAGGER_STEPS: usize = 4;

/// The most room in front of a packet, in bytes.
pub const MAX_HEADROOM: usize = MIN_HEADROOM + (STAGGER_STEPS - 1) * mem::LINE_LEN;
