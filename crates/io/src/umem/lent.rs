//! The ledger of frames that a pair of kernel rings has.

#![allow(unsafe_code, reason = "makes frames of chunks that come back; what is exported is safe")]

use std::sync::Arc;

use super::frame::Frame;
use super::region::Region;

/// The frames that are in the kernel's hands by way of one pair of rings.
pub(crate) struct Lent {
    region: Arc<Region>,
    /// One bit a chunk: set while it is lent by this ledger.
    bits: Box<[u64]>,
    count: usize,
}

impl Lent {
    pub(super) fn new(region: &Arc<Region>) -> Self {
        let words = region.chunks.div_ceil(64) as usize;
        Self { region: Arc::clone(region), bits: vec![0; words].into_boxed_slice(), count: 0 }
    }

    /// Enters a frame and returns its chunk's offset in the region, in bytes.
    ///
    /// # Errors
    ///
    /// The frame itself, if it is of another region.
    #[inline]
    pub(crate) fn lend(&mut self, frame: Frame) -> Result<u64, Frame> {
        if !frame.is_of(self.region.pointer()) {
            return Err(frame);
        }
        let index = frame.into_index();
        if let Some(word) = self.bits.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
        self.count += 1;
        Ok(u64::from(index) << self.region.chunk_shift)
    }

    /// Strikes out the chunk that contains `address` (an offset in the region) and returns its
    /// frame; `None` if this ledger has not lent it.
    #[inline]
    pub(crate) fn redeem(&mut self, address: u64) -> Option<Frame> {
        let index = u32::try_from(address >> self.region.chunk_shift).ok()?;
        let word = self.bits.get_mut(index as usize / 64)?;
        let bit = 1 << (index % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        Some(self.frame(index))
    }

    /// Makes the frame of a chunk whose bit the caller has just cleared.
    #[inline]
    fn frame(&self, index: u32) -> Frame {
        // SAFETY: the chunk's only Frame, of this region, went into lend(), which set the bit; the chunk is
        // still out, and the bit is cleared now, so it comes back once.
        unsafe { Frame::new(self.region.pointer(), index) }
    }

    /// The number of lent frames.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Gives every lent frame back to the region. Only when the kernel can't touch them any more.
    pub(crate) fn redeem_all(&mut self) {
        for index in 0..self.region.chunks {
            let address = u64::from(index) << self.region.chunk_shift;
            drop(self.redeem(address));
        }
    }
}

impl Drop for Lent {
    /// Leaks what is still lent: the kernel may read or write it, so it is never used again.
    fn drop(&mut self) {
        for index in 0..self.region.chunks {
            let address = u64::from(index) << self.region.chunk_shift;
            if let Some(frame) = self.redeem(address) {
                frame.into_index();
                // SAFETY: the chunk was out, and its only handle is gone.
                unsafe { Region::quarantine(self.region.pointer()) };
            }
        }
    }
}
