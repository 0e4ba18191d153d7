//! [`Frame`], the only handle to its chunk, and [`FramePool`], where the free ones are.

#![allow(unsafe_code, reason = "turns chunk numbers into slices; what is exported is safe")]

use core::ptr::NonNull;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use mem::Cache;

use super::region::Region;
use crate::packet::{Burst, Packet};

/// The only handle to one chunk: where it begins, and its region.
///
/// Dropping it gives the chunk back to the region under a lock; on the hot path give it to
/// [`FramePool::put`].
pub struct Frame {
    start: NonNull<u8>,
    pub(super) region: Arc<Region>,
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
    /// `index` is below the region's number of chunks, and there is no other handle to this chunk.
    #[inline]
    pub(super) unsafe fn new(region: Arc<Region>, index: u32) -> Self {
        debug_assert!(index < region.chunks);
        let offset = (index as usize) << region.chunk_shift;
        // SAFETY: the region has `chunks << chunk_shift` bytes, and index is below chunks.
        let start = unsafe { region.base().add(offset) };
        Self { start, region }
    }

    /// The whole chunk.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the chunk lies inside the mapping (see new()), is initialised (zeroed by the
        // kernel), and only this frame refers to it, so nobody writes it during the borrow.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.region.chunk_len) }
    }

    /// The whole chunk, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in bytes(); `&mut self` on the chunk's only handle makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.region.chunk_len) }
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
        let offset = self.start.addr().get() - self.region.base().addr().get();
        (offset >> self.region.chunk_shift) as u32
    }

    /// Takes the frame apart without returning its chunk.
    #[inline]
    pub(super) fn into_parts(self) -> (Arc<Region>, u32) {
        let index = self.index();
        let frame = ManuallyDrop::new(self);
        // SAFETY: the frame is never used or dropped again, so the Arc is moved out exactly once.
        let region = unsafe { core::ptr::read(&frame.region) };
        (region, index)
    }
}

impl Drop for Frame {
    #[cold]
    fn drop(&mut self) {
        self.region.return_chunk(self.index());
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({})", self.index())
    }
}

/// The free frames of one region, the one that was given back last first: its lines are the most
/// likely to be still near. For one thread; never allocates after it is made.
pub struct FramePool {
    pub(super) region: Arc<Region>,
    free: Vec<Frame>,
}

impl FramePool {
    /// The pool of a new region, with all its frames.
    ///
    /// # Safety
    ///
    /// No frame of this region has been made.
    pub(super) unsafe fn all_of(region: &Arc<Region>) -> Self {
        let mut free = Vec::with_capacity(region.chunks as usize);
        // Low addresses are at the end, so they are used first.
        for index in (0..region.chunks).rev() {
            // SAFETY: each number below `chunks` once, and the caller says that there were none.
            free.push(unsafe { Frame::new(Arc::clone(region), index) });
        }
        Self { region: Arc::clone(region), free }
    }

    /// Another pool of the same region, for another thread: with no frame yet.
    pub fn sibling(&self) -> Self {
        // As many as may ever be put there.
        let free = Vec::with_capacity(self.region.chunks as usize);
        Self { region: Arc::clone(&self.region), free }
    }

    /// Takes a free frame; `None` when there is none. Its content is whatever was there last.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        match self.free.pop() {
            Some(frame) => Some(frame),
            None => self.take_returned(),
        }
    }

    #[cold]
    fn take_returned(&mut self) -> Option<Frame> {
        let Self { region, free } = self;
        region.take_returned(|index| {
            // SAFETY: the number of a chunk whose Frame was dropped, handed out once: the new
            // Frame is again the only one.
            free.push(unsafe { Frame::new(Arc::clone(region), index) });
        });
        free.pop()
    }

    /// Gives a frame back. One of another region goes to its own region instead.
    #[inline]
    pub fn put(&mut self, frame: Frame) {
        // The capacity is the number of chunks, and no two frames have one chunk: it never grows.
        if Arc::ptr_eq(&self.region, &frame.region) {
            self.free.push(frame);
        }
    }

    /// Gives a packet's frame back.
    #[inline]
    pub fn put_packet(&mut self, packet: Packet) {
        self.put(packet.frame);
    }

    /// Gives back the frames of all packets of a burst, and empties it.
    pub fn put_burst(&mut self, burst: &mut Burst) {
        for packet in burst.drain(..) {
            self.put(packet.frame);
        }
    }

    /// The number of free frames at hand (without those that were dropped elsewhere).
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// A chunk's length in bytes.
    pub fn chunk_len(&self) -> usize {
        self.region.chunk_len
    }
}

/// The least room in front of a packet, in bytes: enough for Ethernet with a tag, IPv6, UDP, ESP
/// and an IV, which are 18 + 40 + 8 + 8 + 16.
pub const MIN_HEADROOM: usize = 128;

/// Different places where packets begin: four of them already take away most of the misses.
const STAGGER_STEPS: usize = 4;

/// The most room in front of a packet, in bytes.
pub const MAX_HEADROOM: usize = MIN_HEADROOM + (STAGGER_STEPS - 1) * mem::LINE_LEN;

impl core::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FramePool({} free)", self.free.len())
    }
}
