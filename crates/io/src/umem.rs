//! The memory that packets live in: one region of equal chunks, and owned handles to them.
//!
//! A [`Frame`] is the only handle to its chunk. It can't be cloned, so `bytes_mut()` is exclusive
//! by construction. A frame that is given to a kernel ring is entered in a `Lent` ledger, and can
//! come back only through that ledger, once: whatever address a ring names, no two frames of the
//! same chunk can exist.

#![allow(
    unsafe_code,
    reason = "maps the region and turns chunk numbers into slices; everything exported is safe"
)]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use crate::packet::{Burst, Packet};
use crate::xsk::Donors;

/// Where a received packet begins in its frame, in bytes: room for outer headers in front.
///
/// The kernel's AF_XDP receive path leaves the same (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// A chunk's size. AF_XDP takes powers of two from 2048 bytes up to the page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkSize {
    /// 2048 bytes: Ethernet frames up to 1792 bytes, the right size for an MTU of 1500.
    #[default]
    Bytes2048,
    /// 4096 bytes: frames up to 3840 bytes.
    Bytes4096,
}

impl ChunkSize {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bytes2048 => 2048,
            Self::Bytes4096 => 4096,
        }
    }
}

/// How large a region is, and whether it is touched at once.
#[derive(Clone, Copy, Debug)]
pub struct UmemConfig {
    /// Number of chunks, at least 1. A worker needs, for each of its queues, the fill ring's and
    /// the transmit ring's size, and a few bursts.
    pub chunks: u32,
    /// The chunk's size.
    pub chunk_size: ChunkSize,
    /// Fault all pages in now (`MAP_POPULATE`) rather than at the first touch.
    pub populate: bool,
}

/// Why a region could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UmemError {
    /// `chunks` was 0, or the region would not fit the address space.
    #[error("a packet region of {chunks} chunks is not possible; use 1 to 4194304")]
    Size {
        /// What was asked for.
        chunks: u32,
    },
    /// The kernel gave no memory.
    #[error(
        "no memory for packets: mmap of {len} bytes failed: {source}; lower the number of frames per worker"
    )]
    Map {
        /// The region's length in bytes.
        len: usize,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The most chunks in a region: 16 GiB at 4096 bytes.
const MAX_CHUNKS: u32 = 1 << 22;

pub(crate) struct Region {
    base: NonNull<u8>,
    len: NonZeroUsize,
    chunk_size: usize,
    chunks: u32,
    /// Chunks whose frame was dropped instead of put into the pool.
    returned: Mutex<Vec<u32>>,
    /// `returned.len()`, readable without the lock.
    returned_count: AtomicUsize,
    /// Chunks that the kernel may read for ever; never used again.
    quarantined: AtomicUsize,
    /// AF_XDP sockets with which this region is registered.
    pub(crate) donors: Mutex<Donors>,
}

// SAFETY: the mapping is plain memory that stays until drop; access to each chunk goes through the
// one Frame of that chunk.
unsafe impl Send for Region {}
// SAFETY: as above: a shared Region hands out no reference to chunk memory.
unsafe impl Sync for Region {}

impl Region {
    fn return_chunk(&self, index: u32) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.push(index);
        self.returned_count.store(returned.len(), Ordering::Release);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mmap in Umem::new; each Frame and each ledger
        // holds the Region alive, so nobody can still refer to the memory.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len.get()) };
    }
}

/// A region of packet memory, shared by all ports of one worker. Clones are handles to the same.
#[derive(Clone)]
pub struct Umem {
    pub(crate) region: Arc<Region>,
}

impl core::fmt::Debug for Umem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Umem({} chunks of {} bytes)", self.chunks(), self.chunk_len())
    }
}

impl Umem {
    /// Maps a region and returns it with the pool that holds all its frames.
    ///
    /// # Errors
    ///
    /// [`UmemError::Size`] for an impossible size, [`UmemError::Map`] when memory is short.
    pub fn new(config: UmemConfig) -> Result<(Self, FramePool), UmemError> {
        let chunk_size = config.chunk_size.bytes();
        if config.chunks > MAX_CHUNKS {
            return Err(UmemError::Size { chunks: config.chunks });
        }
        let len = NonZeroUsize::new(config.chunks as usize * chunk_size)
            .ok_or(UmemError::Size { chunks: config.chunks })?;
        let populate = if config.populate { libc::MAP_POPULATE } else { 0 };
        // SAFETY: a fresh anonymous mapping; no existing memory is touched.
        let mapped = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len.get(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | populate,
                -1,
                0,
            )
        };
        let failed = || UmemError::Map { len: len.get(), source: io::Error::last_os_error() };
        if mapped == libc::MAP_FAILED {
            return Err(failed());
        }
        let base = NonNull::new(mapped.cast::<u8>()).ok_or_else(failed)?;
        // A fork would make these pages copy-on-write, and the kernel's rings would then look at
        // other pages than we do. No child of ours needs them.
        // SAFETY: the range is the mapping made above.
        let _advice = unsafe { libc::madvise(mapped, len.get(), libc::MADV_DONTFORK) };
        let region = Arc::new(Region {
            base,
            len,
            chunk_size,
            chunks: config.chunks,
            returned: Mutex::new(Vec::with_capacity(config.chunks as usize)),
            returned_count: AtomicUsize::new(0),
            quarantined: AtomicUsize::new(0),
            donors: Mutex::new(Donors::default()),
        });
        let mut free = Vec::with_capacity(config.chunks as usize);
        // Low addresses are at the end, so they are used first.
        for index in (0..config.chunks).rev() {
            free.push(Frame { region: Arc::clone(&region), index });
        }
        let pool = FramePool { region: Arc::clone(&region), free };
        Ok((Self { region }, pool))
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.region.chunks as usize
    }

    /// A chunk's length in bytes.
    pub fn chunk_len(&self) -> usize {
        self.region.chunk_size
    }

    /// The region's address and length in bytes, for registration with the kernel.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.region.base.as_ptr() as u64, self.region.len.get() as u64)
    }

    /// Adds up where all frames are. `in_ports` is the sum of [`crate::Port::frames_held`], and
    /// `in_packets` the number of packets that the caller holds.
    pub fn accounting(&self, pool: &FramePool, in_ports: usize, in_packets: usize) -> Accounting {
        Accounting {
            chunks: self.chunks(),
            in_pool: pool.free.len(),
            returned: self.region.returned_count.load(Ordering::Acquire),
            quarantined: self.region.quarantined.load(Ordering::Acquire),
            in_ports,
            in_packets,
        }
    }
}

/// Where the frames of a region are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// All chunks.
    pub chunks: usize,
    /// Free, in the pool.
    pub in_pool: usize,
    /// Dropped outside the pool; the pool takes them back when it runs dry.
    pub returned: usize,
    /// Never to be used again, because the kernel may still read them.
    pub quarantined: usize,
    /// In the rings or queues of ports.
    pub in_ports: usize,
    /// In packets that the caller holds.
    pub in_packets: usize,
}

impl Accounting {
    /// Whether each chunk is in exactly one place.
    pub const fn balances(&self) -> bool {
        self.in_pool + self.returned + self.quarantined + self.in_ports + self.in_packets
            == self.chunks
    }
}

/// The only handle to one chunk.
///
/// Dropping it gives the chunk back to the region under a lock; on the hot path give it to
/// [`FramePool::put`].
pub struct Frame {
    region: Arc<Region>,
    index: u32,
}

impl Frame {
    /// The whole chunk.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let start = self.pointer();
        // SAFETY: the chunk lies inside the mapping (see pointer()), is initialised (zeroed by the
        // kernel), and only this frame refers to it, so nobody writes it during the borrow.
        unsafe { core::slice::from_raw_parts(start, self.region.chunk_size) }
    }

    /// The whole chunk, to write.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.pointer();
        // SAFETY: as in bytes(); `&mut self` on the chunk's only handle makes it exclusive.
        unsafe { core::slice::from_raw_parts_mut(start, self.region.chunk_size) }
    }

    /// The chunk's number in its region.
    pub const fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    fn pointer(&self) -> *mut u8 {
        let offset = self.index as usize * self.region.chunk_size;
        // SAFETY: index is below chunks for every Frame that is made, so the result is inside the
        // mapping of chunks * chunk_size bytes.
        unsafe { self.region.base.as_ptr().add(offset) }
    }

    /// Takes the frame apart without returning its chunk.
    fn into_parts(self) -> (Arc<Region>, u32) {
        let frame = ManuallyDrop::new(self);
        // SAFETY: the frame is never used or dropped again, so the Arc is moved out exactly once.
        let region = unsafe { core::ptr::read(&frame.region) };
        (region, frame.index)
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.region.return_chunk(self.index);
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({})", self.index)
    }
}

/// The free frames of one region. For one thread; never allocates after it is made.
pub struct FramePool {
    region: Arc<Region>,
    free: Vec<Frame>,
}

impl FramePool {
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
        if self.region.returned_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut returned = self.region.returned.lock().unwrap_or_else(PoisonError::into_inner);
        // A returned number is one whose Frame was dropped: the new Frame is again the only one.
        for index in returned.drain(..) {
            self.free.push(Frame { region: Arc::clone(&self.region), index });
        }
        self.region.returned_count.store(0, Ordering::Release);
        drop(returned);
        self.free.pop()
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
        self.region.chunk_size
    }
}

impl core::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FramePool({} free)", self.free.len())
    }
}

/// The frames that are in the kernel's hands by way of one pair of rings.
pub(crate) struct Lent {
    region: Arc<Region>,
    /// One bit a chunk: set while it is lent by this ledger.
    bits: Box<[u64]>,
    count: usize,
}

impl Lent {
    pub(crate) fn new(umem: &Umem) -> Self {
        let words = umem.chunks().div_ceil(64);
        Self { region: Arc::clone(&umem.region), bits: vec![0; words].into_boxed_slice(), count: 0 }
    }

    /// Enters a frame and returns its chunk's offset in the region, in bytes.
    ///
    /// # Errors
    ///
    /// The frame itself, if it is of another region.
    #[inline]
    pub(crate) fn lend(&mut self, frame: Frame) -> Result<u64, Frame> {
        if !Arc::ptr_eq(&self.region, &frame.region) {
            return Err(frame);
        }
        let (region, index) = frame.into_parts();
        // The ledger's own Arc keeps the region; the frame's count stays with the bit and is
        // taken over again in redeem() or drop().
        core::mem::forget(region);
        if let Some(word) = self.bits.get_mut(index as usize / 64) {
            *word |= 1 << (index % 64);
        }
        self.count += 1;
        Ok(u64::from(index) * self.region.chunk_size as u64)
    }

    /// Strikes out the chunk that contains `address` (an offset in the region) and returns its
    /// frame; `None` if this ledger has not lent it.
    #[inline]
    pub(crate) fn redeem(&mut self, address: u64) -> Option<Frame> {
        let index = u32::try_from(address / self.region.chunk_size as u64).ok()?;
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
        // SAFETY: lend() forgot one strong count of this very region for each set bit; the bit was
        // set and is cleared now, so that count is taken over exactly once.
        let region = unsafe { Arc::from_raw(Arc::as_ptr(&self.region)) };
        Frame { region, index }
    }

    /// The number of lent frames.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Gives every lent frame back to the region. Only when the kernel can't touch them any more.
    pub(crate) fn redeem_all(&mut self) {
        for index in 0..self.region.chunks {
            let address = u64::from(index) * self.region.chunk_size as u64;
            drop(self.redeem(address));
        }
    }
}

impl Drop for Lent {
    /// What is still lent may be read or written by the kernel: it is never used again.
    fn drop(&mut self) {
        for index in 0..self.region.chunks {
            let address = u64::from(index) * self.region.chunk_size as u64;
            if let Some(frame) = self.redeem(address) {
                let (region, _) = frame.into_parts();
                region.quarantined.fetch_add(1, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> (Umem, FramePool) {
        Umem::new(UmemConfig { chunks: 70, chunk_size: ChunkSize::Bytes2048, populate: false })
            .expect("mmap")
    }

    #[test]
    fn no_two_frames_share_a_byte() {
        let (umem, mut pool) = small();
        let mut frames: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        assert_eq!(frames.len(), 70);
        for (number, frame) in frames.iter_mut().enumerate() {
            frame.bytes_mut().fill(number as u8);
        }
        for (number, frame) in frames.iter().enumerate() {
            assert_eq!(frame.bytes().len(), 2048);
            assert!(frame.bytes().iter().all(|&byte| byte == number as u8));
        }
        assert!(umem.accounting(&pool, 0, 70).balances());
        assert!(!umem.accounting(&pool, 0, 69).balances());
    }

    #[test]
    fn a_dropped_frame_comes_back_when_the_pool_is_dry() {
        let (umem, mut pool) = small();
        drop(pool.take());
        let now = umem.accounting(&pool, 0, 0);
        assert_eq!((now.in_pool, now.returned), (69, 1));
        let all: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 70);
        assert!(umem.accounting(&pool, 0, 70).balances());
    }

    #[test]
    fn a_frame_of_another_region_never_enters_the_pool() {
        let (one, mut pool_one) = small();
        let (_two, mut pool_two) = small();
        pool_two.put(pool_one.take().expect("frame"));
        assert_eq!(pool_two.available(), 70);
        assert!(one.accounting(&pool_one, 0, 0).balances());
        let mut ledger = Lent::new(&one);
        assert!(ledger.lend(pool_two.take().expect("frame")).is_err());
        assert_eq!(ledger.count(), 0);
    }

    #[test]
    fn a_ledger_redeems_each_chunk_once_and_nothing_else() {
        let (umem, mut pool) = small();
        let mut ledger = Lent::new(&umem);
        let frame = pool.take().expect("frame");
        let index = frame.index();
        let address = ledger.lend(frame).expect("own region");
        assert_eq!(address, u64::from(index) * 2048);
        assert!(ledger.redeem(address + 2048).is_none(), "never lent");
        assert!(ledger.redeem(u64::MAX).is_none());
        assert!(ledger.redeem(70 * 2048).is_none(), "one past the last");
        let back = ledger.redeem(address + 300).expect("any address inside the chunk");
        assert_eq!(back.index(), index);
        assert!(ledger.redeem(address).is_none(), "only once");
        pool.put(back);
        assert!(umem.accounting(&pool, ledger.count(), 0).balances());
    }

    #[test]
    fn what_a_dead_ledger_held_is_quarantined() {
        let (umem, mut pool) = small();
        let mut ledger = Lent::new(&umem);
        for _ in 0..3 {
            let frame = pool.take().expect("frame");
            ledger.lend(frame).expect("own region");
        }
        drop(ledger);
        let now = umem.accounting(&pool, 0, 0);
        assert_eq!((now.in_pool, now.quarantined), (67, 3));
        assert!(now.balances());
        let mut ledger = Lent::new(&umem);
        ledger.lend(pool.take().expect("frame")).expect("own region");
        ledger.redeem_all();
        assert_eq!(umem.accounting(&pool, 0, 0).returned, 1);
    }

    #[test]
    fn the_region_goes_with_its_last_user() {
        let (umem, mut pool) = small();
        let weak = Arc::downgrade(&umem.region);
        let mut ledger = Lent::new(&umem);
        ledger.lend(pool.take().expect("frame")).expect("own region");
        drop((umem, pool));
        assert!(weak.upgrade().is_some());
        drop(ledger);
        assert!(weak.upgrade().is_none(), "no count was leaked");
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for chunks in [0, u32::MAX] {
            let config = UmemConfig { chunks, chunk_size: ChunkSize::Bytes4096, populate: false };
            assert!(matches!(Umem::new(config), Err(UmemError::Size { .. })));
        }
    }
}
