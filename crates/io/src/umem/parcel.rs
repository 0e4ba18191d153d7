//! [`Parcel`]: a burst packed small, to be handed from one core to another.

#![allow(unsafe_code, reason = "makes frames of packed chunks; what is exported is safe")]

use std::sync::Arc;

use wire::Span;

use super::frame::Frame;
use super::packet::{BURST_LEN, Packet};
use super::pool::FramePool;
use super::region::{MAX_CHUNKS, Region};

/// Up to [`BURST_LEN`] packets of one region, in eight bytes each, with a tag of the caller's.
///
/// Every cache line that goes from one core to another is waited for. A list of packets as they are takes 32
/// lines for a burst, this one eight. Never allocates.
pub struct Parcel {
    region: Arc<Region>,
    len: usize,
    /// Words of the packets. Those at `len` and behind mean nothing.
    words: [u64; BURST_LEN],
}

/// Bits of a word: the chunk's number from 0 on, then these.
const TAG: u32 = 24;
const START: u32 = 32;
const LEN: u32 = 48;

const _: () = assert!(MAX_CHUNKS <= 1 << TAG);

impl FramePool {
    /// An empty parcel for packets of this pool's region.
    pub fn parcel(&self) -> Parcel {
        Parcel { region: Arc::clone(self.region()), len: 0, words: [0; BURST_LEN] }
    }
}

impl Parcel {
    /// How many packets there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks for all its lines, which another core has written and this one will write.
    #[inline]
    pub fn prefetch(&self) {
        mem::prefetch_all_to_write(self);
    }

    /// Puts a packet behind the others.
    ///
    /// # Errors
    ///
    /// The packet comes back if there is no room for it, if its frame is of another region, or if its span
    /// lies beyond 64 KiB.
    #[inline]
    pub fn push(&mut self, packet: Packet, tag: u8) -> Result<(), Packet> {
        let is_ours = packet.frame.is_of(self.region.pointer());
        let (Ok(start), Ok(len)) =
            (u16::try_from(packet.span.start), u16::try_from(packet.span.len))
        else {
            return Err(packet);
        };
        let Some(word) = self.words.get_mut(self.len).filter(|_| is_ours) else {
            return Err(packet);
        };
        *word = u64::from(packet.frame.into_index())
            | u64::from(tag) << TAG
            | u64::from(start) << START
            | u64::from(len) << LEN;
        self.len += 1;
        Ok(())
    }

    /// Takes all packets out, in their order, each with its tag.
    ///
    /// Not an iterator: an `Option` of a packet would go through memory, and wait there.
    #[inline(always)]
    pub fn unpack(&mut self, mut to: impl FnMut(Packet, u8)) {
        let len = core::mem::take(&mut self.len);
        let mut rest = Rest { parcel: self, next: 0, len };
        while let Some(word) = rest.take() {
            to(rest.packet(word), (word >> TAG) as u8);
        }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.unpack(|packet, _| drop(packet));
    }
}

impl core::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Parcel({} packets)", self.len)
    }
}

/// Packets still to be taken out. They go back to the region if the taker panics.
struct Rest<'a> {
    parcel: &'a mut Parcel,
    next: usize,
    len: usize,
}

impl Rest<'_> {
    #[inline(always)]
    fn take(&mut self) -> Option<u64> {
        let word = self.parcel.words.get(..self.len)?.get(self.next)?;
        self.next += 1;
        Some(*word)
    }

    /// The packet of a word that was just taken.
    #[inline(always)]
    fn packet(&self, word: u64) -> Packet {
        let chunk = word as u32 & ((1 << TAG) - 1);
        // SAFETY: the chunk's only Frame, of this region, went into push(), which wrote its number; take()
        // gives each once: the parcel's length was set to zero before the first.
        let frame = unsafe { Frame::new(self.parcel.region.pointer(), chunk) };
        let start = usize::from((word >> START) as u16);
        Packet { frame, span: Span { start, len: usize::from((word >> LEN) as u16) } }
    }
}

impl Drop for Rest<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.next < self.len {
            self.give_back();
        }
    }
}

impl Rest<'_> {
    #[cold]
    fn give_back(&mut self) {
        while let Some(word) = self.take() {
            drop(self.packet(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChunkSize, Umem, UmemConfig};
    use super::*;

    fn small() -> (Umem, FramePool) {
        Umem::new(UmemConfig { chunks: 70, chunk_size: ChunkSize::Bytes4096, populate: false })
            .expect("mmap")
    }

    fn packet(pool: &mut FramePool, start: usize, len: usize) -> Packet {
        Packet { frame: pool.take().expect("frame"), span: Span { start, len } }
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let (umem, mut pool) = small();
        let mut parcel = pool.parcel();
        for lap in 0..3 {
            let mut numbers = Vec::new();
            for n in 0..BURST_LEN {
                let mut packet = packet(&mut pool, 4095 - n, n + lap);
                packet.buffer_mut()[0] = n as u8;
                numbers.push(packet.frame.index());
                parcel.push(packet, 255 - n as u8).expect("room");
            }
            assert_eq!(parcel.len(), BURST_LEN);
            assert!(umem.accounting(&pool, 0, BURST_LEN).balances());
            let mut n = 0;
            parcel.unpack(|packet, tag| {
                assert_eq!((packet.span.start, packet.span.len), (4095 - n, n + lap));
                assert_eq!((usize::from(tag), packet.frame.index()), (255 - n, numbers[n]));
                assert_eq!(packet.frame.bytes()[0], n as u8);
                pool.put_packet(packet);
                n += 1;
            });
            assert_eq!(n, BURST_LEN);
            assert!(parcel.is_empty() && umem.accounting(&pool, 0, 0).balances());
        }
    }

    #[test]
    fn what_it_can_not_hold_comes_back() {
        let ((one, mut pool), (two, mut other)) = (small(), small());
        let mut parcel = pool.parcel();
        for span in [(0, 1 << 16), (1 << 16, 0), (usize::MAX, 3)] {
            let packet = packet(&mut pool, span.0, span.1);
            let back = parcel.push(packet, 0).expect_err("out of reach");
            assert_eq!((back.span.start, back.span.len), span);
            pool.put_packet(back);
        }
        let foreign = parcel.push(packet(&mut other, 0, 60), 0).expect_err("of another region");
        other.put_packet(foreign);
        for _ in 0..BURST_LEN {
            parcel.push(packet(&mut pool, 65535, 65535), 0).expect("room");
        }
        let full = parcel.push(packet(&mut pool, 0, 60), 0).expect_err("full");
        pool.put_packet(full);
        assert!(one.accounting(&pool, 0, BURST_LEN).balances());
        assert!(two.accounting(&other, 0, 0).balances());
    }

    #[test]
    fn what_is_left_in_it_goes_back_to_the_region() {
        let (umem, mut pool) = small();
        let mut parcel = pool.parcel();
        for n in 0..10 {
            parcel.push(packet(&mut pool, n, 60), 0).expect("room");
        }
        let mut took = 0;
        let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            parcel.unpack(|packet, _| {
                took += 1;
                assert!(took < 4, "on purpose");
                pool.put_packet(packet);
            });
        }));
        assert!(result.is_err() && parcel.is_empty());
        let now = umem.accounting(&pool, 0, 0);
        assert_eq!((now.returned, now.in_pool), (7, 63));
        for n in 0..3 {
            parcel.push(packet(&mut pool, n, 60), 0).expect("room");
        }
        drop(parcel);
        assert_eq!(umem.accounting(&pool, 0, 0).returned, 10);
        let weak = Arc::downgrade(&umem.region);
        let all: Vec<Frame> = core::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 70);
        drop((umem, pool, all));
        assert!(weak.upgrade().is_none(), "no count was leaked");
    }
}
