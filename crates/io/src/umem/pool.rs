//! [`FramePool`]: a worker's own free frames, in front of the depot that all workers share.

#![allow(unsafe_code, reason = "makes frames of chunks from the depot; what is exported is safe")]

use std::sync::Arc;

use arrayvec::ArrayVec;
use dispatch::depot::BATCH;
use mem::Cache;

use super::frame::Frame;
use super::packet::{Burst, Packet};
use super::region::Region;

/// The most frames in a pool.
///
/// Two bursts on their way through a worker, a burst of each of a few ports' completions, and then room
/// before the depot is needed. All pools together should be a small part of the region.
pub const POOL_LEN: usize = 512;

/// Free frames of one region, for one thread; the frame that was given back last is taken first, since its
/// lines are the most likely to be near.
///
/// A pool that runs full gives a batch of [`BATCH`] frames to the region's depot; one that runs dry takes a
/// batch. So a frame may be put into any pool of its region, whichever it came from. Never locks, and never
/// allocates after it is made. What is in a pool that is dropped goes to the depot.
pub struct FramePool {
    region: Arc<Region>,
    free: Box<ArrayVec<Frame, POOL_LEN>>,
}

impl FramePool {
    /// An empty pool.
    pub(super) fn new(region: &Arc<Region>) -> Self {
        Self { region: Arc::clone(region), free: Box::default() }
    }

    /// Another pool of the same region, for another thread: with no frame yet.
    pub fn sibling(&self) -> Self {
        Self::new(&self.region)
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Takes a free frame; `None` when there is none. Its content is whatever was there last.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        match self.free.pop() {
            Some(frame) => Some(frame),
            None => self.take_from_depot(),
        }
    }

    #[cold]
    fn take_from_depot(&mut self) -> Option<Frame> {
        self.fetch();
        self.free.pop()
    }

    /// Prefetches the lines where a packet and the link's header begin in the frame that will be taken after `ahead`
    /// others, if there is one.
    #[inline]
    pub fn prefetch_next(&self, ahead: usize) {
        let place = self.free.len().checked_sub(ahead + 1);
        if let Some(frame) = place.and_then(|place| self.free.get(place)) {
            let start = frame.headroom();
            frame.prefetch(Cache::First, start - mem::LINE_LEN);
            frame.prefetch(Cache::First, start);
        }
    }

    /// Moves a batch, or what there is, from the depot to the pool, which has room for it. Says how many.
    fn fetch(&mut self) -> usize {
        let region = self.region.pointer();
        let chunks = self.region.take();
        let count = chunks.len();
        // The last one pushed is taken first: the chunk that the depot gave first.
        for chunk in chunks.into_iter().rev() {
            // SAFETY: just taken from the region, and this is its first handle.
            self.free.push(unsafe { Frame::new(region, chunk) });
        }
        count
    }

    /// Fills the pool for as long as a batch has room.
    pub(super) fn fill(&mut self) {
        while self.free.remaining_capacity() >= BATCH && self.fetch() > 0 {}
    }

    /// Gives a frame back. One of another region goes to its own region instead.
    #[inline]
    pub fn put(&mut self, frame: Frame) {
        if frame.is_of(self.region.pointer()) {
            if self.free.is_full() {
                self.give_batch();
            }
            self.free.push(frame);
        }
    }

    /// Gives the batch that was put last to the depot.
    #[cold]
    fn give_batch(&mut self) {
        let from = self.free.len() - BATCH;
        let chunks: ArrayVec<u32, BATCH> =
            self.free.drain(from..).rev().map(Frame::into_index).collect();
        if let Ok(chunks) = chunks.into_inner() {
            // SAFETY: all are of this region: put() has looked. Their frames have just been taken apart.
            unsafe { Region::give_batch(self.region.pointer(), &chunks) };
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

    /// Gives back the frames of those packets of a burst whose bits are set in `gone`, a bit for each place. The others
    /// stay, in their order. Returns how many went.
    pub fn put_gone(&mut self, burst: &mut Burst, gone: u64) -> usize {
        let count = gone.count_ones() as usize;
        if count == burst.len() {
            self.put_burst(burst);
        } else if count > 0 {
            for (place, packet) in core::mem::take(burst).into_iter().enumerate() {
                match gone & (1 << place) {
                    0 => burst.push(packet),
                    _ => self.put_packet(packet),
                }
            }
        }
        count
    }

    /// The number of free frames in the pool (without those in the depot).
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// The number of chunks of the region, wherever they are.
    pub fn chunks(&self) -> usize {
        self.region.chunks as usize
    }

    /// A chunk's length in bytes.
    pub fn chunk_len(&self) -> usize {
        self.region.chunk_len
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        while self.free.len() >= BATCH {
            self.give_batch();
        }
        // Those that are left go one by one, by their own drop.
    }
}

impl core::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FramePool({} free)", self.free.len())
    }
}
