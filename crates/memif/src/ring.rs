//! A ring of descriptors in shared memory.
//!
//! ```text
//!    0  cookie u32 | flags u16 | head u16      written by the client, flags by the receiver
//!   64  tail u16                               written by the server
//!  128  descriptors, 16 bytes each:
//!       flags u16 | region u16 | length u32 | offset u32 | metadata u32
//! ```
//!
//! Indices count on and wrap at 65536; a descriptor's place is its index modulo the ring's size. A descriptor is
//! read as two words, each once: what is checked is what is used.

#![allow(unsafe_code, reason = "atomics at checked places of a mapping; what is exported is safe")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crate::MAX_LOG2_RING_SIZE;
use crate::region::Region;

/// `MEMIF_COOKIE`: what the first word of a ring is.
pub const COOKIE: u32 = 0x03E3_1F20;

/// Ring flag: its receiver looks by itself, and need not be woken.
const MASK_INTERRUPT: u16 = 1;

/// Descriptor flag: the packet goes on in the next descriptor.
pub const NEXT: u16 = 1;

/// Bytes of a ring before its descriptors.
const HEADER_LEN: usize = 128;

/// Bytes of a descriptor.
const DESCRIPTOR_LEN: usize = 16;

#[repr(C)]
struct Header {
    cookie: AtomicU32,
    flags: AtomicU16,
    head: AtomicU16,
    _first_line: [AtomicU64; 7],
    tail: AtomicU16,
    _second_line: [AtomicU16; 31],
}

type Words = [AtomicU64; 2];

const _: () = assert!(size_of::<Header>() == HEADER_LEN && size_of::<Words>() == DESCRIPTOR_LEN);
const _: () = assert!(cfg!(target_endian = "little"), "descriptors are taken apart as words");

/// A buffer, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// [`NEXT`], or none.
    pub flags: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Bytes that are in it, or that fit.
    pub length: u32,
    /// Where it lies.
    pub offset: u32,
}

/// A ring of descriptors in shared memory.
pub struct Ring {
    header: NonNull<Header>,
    descriptors: NonNull<Words>,
    /// A power of two.
    size: u16,
    /// Keeps the mapping.
    region: Arc<Region>,
}

// SAFETY: all access is by atomics in a mapping that the ring keeps alive.
unsafe impl Send for Ring {}

impl Ring {
    /// The length in bytes of a ring of `1 << log2_size` descriptors.
    pub const fn bytes(log2_size: u8) -> usize {
        HEADER_LEN + (DESCRIPTOR_LEN << log2_size)
    }

    /// The ring at an offset. `None` if it is not all inside of the region, or not aligned, or too large.
    pub fn new(region: &Arc<Region>, offset: u32, log2_size: u8) -> Option<Self> {
        if log2_size > MAX_LOG2_RING_SIZE {
            return None;
        }
        let place = region.place(offset as usize, Self::bytes(log2_size), align_of::<Header>())?;
        // SAFETY: the ring's bytes, more than a header, are inside the mapping from `place` on.
        let descriptors = unsafe { place.add(HEADER_LEN) };
        let (header, descriptors) = (place.cast(), descriptors.cast());
        Some(Self { header, descriptors, size: 1 << log2_size, region: Arc::clone(region) })
    }

    /// How many descriptors it has.
    pub const fn size(&self) -> u16 {
        self.size
    }

    fn header(&self) -> &Header {
        // SAFETY: `new` has found the header inside the mapping, aligned (the mapping is, by a page). `self.region`
        // keeps it. It consists of atomics alone, so others may write to it.
        unsafe { self.header.as_ref() }
    }

    fn words(&self, index: u16) -> &Words {
        // SAFETY: `size` of them follow the header, inside the mapping; the place is below `size`.
        let words = unsafe { self.descriptors.add(usize::from(index & (self.size - 1))) };
        // SAFETY: as in `header`: a multiple of 16 bytes behind an aligned place.
        unsafe { words.as_ref() }
    }

    /// Makes a new ring of zeroed memory: the client's.
    pub fn set_up(&self) {
        self.header().cookie.store(COOKIE, Ordering::Release);
    }

    /// True if its first word is that of a ring.
    pub fn has_cookie(&self) -> bool {
        self.header().cookie.load(Ordering::Acquire) == COOKIE
    }

    /// The client's index. What it did before is seen after.
    #[inline]
    pub fn head(&self) -> u16 {
        self.header().head.load(Ordering::Acquire)
    }

    /// Moves the client's index, after all that was written before.
    #[inline]
    pub fn set_head(&self, index: u16) {
        self.header().head.store(index, Ordering::Release);
    }

    /// The server's index.
    #[inline]
    pub fn tail(&self) -> u16 {
        self.header().tail.load(Ordering::Acquire)
    }

    /// Moves the server's index.
    #[inline]
    pub fn set_tail(&self, index: u16) {
        self.header().tail.store(index, Ordering::Release);
    }

    /// True if its receiver wants to be woken.
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        // The sender's index comes before this look, as the receiver's next look at that index comes after it has
        // asked to be woken: one of the two sees the other.
        core::sync::atomic::fence(Ordering::SeqCst);
        self.header().flags.load(Ordering::Relaxed) & MASK_INTERRUPT == 0
    }

    /// The receiver's: whether to be woken when something comes.
    #[inline]
    pub fn set_wakeup(&self, wanted: bool) {
        self.header().flags.store(if wanted { 0 } else { MASK_INTERRUPT }, Ordering::Relaxed);
        core::sync::atomic::fence(Ordering::SeqCst);
    }

    /// A descriptor, read once.
    #[inline]
    pub fn descriptor(&self, index: u16) -> Descriptor {
        let [first, second] = self.words(index);
        // Relaxed: the index that was read before has ordered it.
        let (first, second) = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        Descriptor {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    /// Writes a descriptor.
    #[inline]
    pub fn set_descriptor(&self, index: u16, descriptor: Descriptor) {
        let Descriptor { flags, region, length, offset } = descriptor;
        let [first, second] = self.words(index);
        let word = u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32;
        first.store(word, Ordering::Relaxed);
        second.store(u64::from(offset), Ordering::Relaxed);
    }
}

impl core::fmt::Debug for Ring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ring(of {} in {:?})", self.size, self.region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_protocol_has_them() {
        let (region, _) = Region::create(4096).unwrap();
        let ring = Ring::new(&region, 64, 3).unwrap();
        ring.set_up();
        ring.set_head(0x0102);
        ring.set_tail(0x0304);
        ring.set_wakeup(false);
        ring.set_descriptor(9, Descriptor { flags: NEXT, region: 2, length: 3, offset: 4 });
        let mut bytes = [0; 8];
        assert!(region.read(64, &mut bytes));
        assert_eq!(bytes, [0x20, 0x1f, 0xe3, 0x03, 1, 0, 2, 1]);
        assert!(region.read(128, &mut bytes));
        assert_eq!(bytes[..2], [4, 3]);
        let mut bytes = [0; 16];
        // The second of eight.
        assert!(region.read(64 + 128 + 16, &mut bytes));
        assert_eq!(bytes, [1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ring.descriptor(1), ring.descriptor(9));
        assert!(ring.has_cookie() && !ring.wants_wakeup());
    }

    #[test]
    fn a_ring_that_is_not_there_is_none() {
        let (region, _) = Region::create(4096).unwrap();
        assert!(Ring::new(&region, 4, 3).is_none(), "not aligned");
        assert!(Ring::new(&region, 0, 8).is_none(), "128 + 4096 bytes");
        assert!(Ring::new(&region, 4096 - 128 - 16, 0).is_some());
        assert!(Ring::new(&region, 4096 - 128 - 8, 0).is_none());
        assert!(Ring::new(&region, u32::MAX - 7, 0).is_none());
        assert!(Ring::new(&region, 0, 15).is_none());
        assert!(Ring::new(&region, 0, 255).is_none());
    }
}
