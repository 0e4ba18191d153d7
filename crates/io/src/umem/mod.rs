//! The memory that packets live in: one region of equal chunks, and owned handles to them.
//!
//! A [`Frame`] is the only handle to its chunk. It can't be cloned, so `bytes_mut()` is exclusive
//! by construction. A frame that is given to a kernel ring is entered in a `Lent` ledger, and can
//! come back only through that ledger, once: whatever address a ring names, no two frames of the
//! same chunk can exist.
//!
//! All workers and ports share one region. Each worker has a [`FramePool`]; the region's depot evens them
//! out, a batch at a time. A frame may be freed by any worker. Nothing here knows how packets come and go:
//! ports know of this memory, and it of none of them.
//!
//! ```text
//!   worker 0   FramePool [..512] <--+                  +--> FramePool [..512]   worker 1
//!                 |      ^          |   depot          |       |      ^
//!              take()  put()        +-- [64][64][64] --+    take()  put()
//!                 v      |              one by one:            v      |
//!               Packet { Frame, Span }  dropped frames       Packet
//! ```

mod frame;
mod lent;
mod packet;
mod pages;
mod parcel;
mod pool;
mod region;

use core::num::NonZeroUsize;
use std::io;
use std::sync::Arc;

pub use frame::{Frame, MAX_HEADROOM, MIN_HEADROOM};
pub(crate) use lent::Lent;
pub use packet::{BURST_LEN, Burst, Packet};
pub use pages::Pages;
pub use parcel::Parcel;
pub use pool::{FramePool, POOL_LEN};
use region::{MAX_CHUNKS, Region};

/// Where a received packet begins in its frame, in bytes: room for outer headers in front.
///
/// The kernel's AF_XDP receive path leaves the same (`XDP_PACKET_HEADROOM`).
pub const HEADROOM: usize = 256;

/// A chunk's size. AF_XDP takes powers of two from 2048 bytes up to the page size, the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkSize {
    /// 2048 bytes: Ethernet frames up to 1792 bytes, the right size for an MTU of 1500.
    #[default]
    Bytes2048,
    /// 4096 bytes: frames up to 3840 bytes.
    Bytes4096,
    /// 131072 bytes: any IP packet, with room for the headers and trailers of a tunnel. Not for AF_XDP; a
    /// queue that has to send such a frame copies the packet out of it.
    Bytes131072,
}

impl ChunkSize {
    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bytes2048 => 2048,
            Self::Bytes4096 => 4096,
            Self::Bytes131072 => 131_072,
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
    /// Fault all pages in now rather than at the first touch, and use huge pages for it where there
    /// are some ([`Umem::pages`] tells).
    pub populate: bool,
}

/// Why a region could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UmemError {
    /// `chunks` was 0, or the region would not fit the address space.
    #[error("a packet region of {chunks} chunks is not possible; use 1 to 4194304")]
    Size {
        /// Chunks that were asked for.
        chunks: u32,
    },
    /// The kernel gave no memory.
    #[error(
        "no memory for packets: mmap of {len} bytes failed: {source}; lower the number of frames per worker"
    )]
    Map {
        /// The region's length in bytes.
        len: usize,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// A region of packet memory, shared by all workers and ports. Clones are handles to the same.
#[derive(Clone)]
pub struct Umem {
    region: Arc<Region>,
}

impl core::fmt::Debug for Umem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Umem({} chunks of {} bytes)", self.chunks(), self.chunk_len())
    }
}

impl Umem {
    /// Maps a region and returns it with a pool that holds its first frames, up to [`POOL_LEN`].
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
        let region = Region::new(config.chunks, chunk_size, len, config.populate)
            .map_err(|source| UmemError::Map { len: len.get(), source })?;
        let umem = Self { region: Arc::new(region) };
        let mut pool = umem.pool();
        pool.fill();
        Ok((umem, pool))
    }

    /// A pool for one more worker: with no frame yet.
    pub fn pool(&self) -> FramePool {
        FramePool::new(&self.region)
    }

    /// A ledger of frames that are lent to the kernel.
    pub(crate) fn ledger(&self) -> Lent {
        Lent::new(&self.region)
    }

    /// Kind of pages that the region's memory has.
    pub fn pages(&self) -> Pages {
        self.region.pages()
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.region.chunks as usize
    }

    /// A chunk's length in bytes.
    pub fn chunk_len(&self) -> usize {
        self.region.chunk_len
    }

    /// The region's address and length in bytes, for registration with the kernel.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.region.base().addr().get() as u64, self.region.len() as u64)
    }

    /// Adds up where all frames are. `in_ports` is the sum of what ports hold (`Port::frames_held`), and
    /// `in_packets` the number of packets that the caller holds, with the frames of other pools. Exact while no
    /// other thread moves frames.
    pub fn accounting(&self, pool: &FramePool, in_ports: usize, in_packets: usize) -> Accounting {
        Accounting {
            chunks: self.chunks(),
            in_pool: pool.available(),
            returned: self.region.in_depot(),
            quarantined: self.region.quarantined(),
            in_ports,
            in_packets,
        }
    }
}

/// Where the frames of a region are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// Chunks of the region.
    pub chunks: usize,
    /// Free, in the pool.
    pub in_pool: usize,
    /// Free, in the depot: given back by pools that ran full, dropped elsewhere, or never used. A pool takes
    /// them when it runs dry.
    pub returned: usize,
    /// Never to be used again, because the kernel may still read them.
    pub quarantined: usize,
    /// In the rings or queues of ports.
    pub in_ports: usize,
    /// In packets that the caller holds.
    pub in_packets: usize,
}

impl Accounting {
    /// True if each chunk is in exactly one place.
    pub const fn balances(&self) -> bool {
        self.in_pool + self.returned + self.quarantined + self.in_ports + self.in_packets
            == self.chunks
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
    fn headers_of_neighbours_lie_in_different_cache_sets() {
        let (_umem, mut pool) = small();
        let frames: Vec<_> = core::iter::from_fn(|| pool.take()).take(64).collect();
        let mut packets_in_set = [0; 64];
        for frame in &frames {
            let start = frame.headroom();
            assert!((MIN_HEADROOM..=MAX_HEADROOM).contains(&start));
            assert!(start.is_multiple_of(mem::LINE_LEN));
            let line = frame.bytes()[start..].as_ptr().addr() / mem::LINE_LEN;
            packets_in_set[line % 64] += 1;
        }
        let most = packets_in_set.into_iter().max();
        assert!(most <= Some(12), "more than a set of 12 ways holds: {packets_in_set:?}");
    }

    /// A packet may lie in a frame of another region; its frame finds the way back.
    #[test]
    fn a_large_frame_goes_back_to_its_region() {
        let (_umem, mut pool) = small();
        let config = UmemConfig { chunks: 3, chunk_size: ChunkSize::Bytes131072, populate: false };
        let (large, mut larges) = Umem::new(config).expect("mmap");
        let mut frame = larges.take().expect("frame");
        frame.bytes_mut().fill(7);
        assert_eq!(frame.bytes().len(), 131_072);
        pool.put(frame);
        assert_eq!((pool.available(), larges.available()), (70, 2));
        assert_eq!(large.accounting(&larges, 0, 0).returned, 1);
        let all: Vec<_> = core::iter::from_fn(|| larges.take()).collect();
        assert_eq!(all.len(), 3);
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
        let mut ledger = one.ledger();
        assert!(ledger.lend(pool_two.take().expect("frame")).is_err());
        assert_eq!(ledger.count(), 0);
    }

    #[test]
    fn a_ledger_redeems_each_chunk_once_and_nothing_else() {
        let (umem, mut pool) = small();
        let mut ledger = umem.ledger();
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
        let mut ledger = umem.ledger();
        for _ in 0..3 {
            let frame = pool.take().expect("frame");
            ledger.lend(frame).expect("own region");
        }
        drop(ledger);
        let now = umem.accounting(&pool, 0, 0);
        assert_eq!((now.in_pool, now.quarantined), (67, 3));
        assert!(now.balances());
        let mut ledger = umem.ledger();
        ledger.lend(pool.take().expect("frame")).expect("own region");
        ledger.redeem_all();
        assert_eq!(umem.accounting(&pool, 0, 0).returned, 1);
    }

    #[test]
    fn the_region_goes_with_its_last_user() {
        let (umem, mut pool) = small();
        let weak = Arc::downgrade(&umem.region);
        let mut ledger = umem.ledger();
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
