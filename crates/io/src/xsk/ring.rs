//! One of an AF_XDP socket's four rings, mapped from the kernel.
//!
//! Each ring has one producer and one consumer, and the kernel is one of them. The indices run
//! free (they wrap at 2^32) and are masked to find a slot. The side that owns an index publishes
//! it with release order after it has written or read the slots; the other side loads it with
//! acquire order.

#![allow(
    unsafe_code,
    reason = "maps ring memory that the kernel reads and writes; everything exported is safe"
)]

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Content of a ring's slot: an address (fill, completion) or a descriptor (receive, transmit).
pub(super) trait Slot: Copy {}
impl Slot for u64 {}
impl Slot for libc::xdp_desc {}

/// A mapping of ring memory.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(socket: BorrowedFd<'_>, len: usize, page_offset: i64) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses; no memory is overwritten.
        let mapped = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                page_offset,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(mapped.cast()).ok_or_else(io::Error::last_os_error)?;
        // A child would otherwise keep the socket alive by its copy of the mapping.
        // SAFETY: the range is the mapping made above.
        let _advice = unsafe { libc::madvise(mapped, len, libc::MADV_DONTFORK) };
        Ok(Self { base, len })
    }

    /// A pointer `offset` bytes in, to `count` values of type `T`.
    fn at<T>(&self, offset: u64, count: usize) -> io::Result<NonNull<T>> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let fits = count
            .checked_mul(size_of::<T>())
            .and_then(|len| len.checked_add(offset))
            .is_some_and(|end| end <= self.len);
        if !fits || !offset.is_multiple_of(align_of::<T>()) {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        // SAFETY: offset lies inside the mapping, checked above.
        let pointer = unsafe { self.base.add(offset) };
        Ok(pointer.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mmap in new(); the pointers into it live in the
        // Ring that owns this mapping.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Where a ring's parts lie in its mapping, as the kernel reports it.
pub(super) struct Layout {
    pub(super) offsets: libc::xdp_ring_offset,
    pub(super) page_offset: i64,
}

/// The parts that both kinds of ring have.
struct Ring<T: Slot> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    slots: NonNull<T>,
    size: u32,
    _mapping: Mapping,
    _slots: PhantomData<T>,
}

// SAFETY: the pointers go into the ring's own mapping, which moves along; nothing in it is tied to
// a thread.
unsafe impl<T: Slot> Send for Ring<T> {}

impl<T: Slot> Ring<T> {
    fn new(socket: BorrowedFd<'_>, layout: &Layout, size: u32) -> io::Result<Self> {
        if !size.is_power_of_two() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let len = usize::try_from(layout.offsets.desc)
            .unwrap_or(usize::MAX)
            .saturating_add(size as usize * size_of::<T>());
        let mapping = Mapping::new(socket, len, layout.page_offset)?;
        Ok(Self {
            producer: mapping.at(layout.offsets.producer, 1)?,
            consumer: mapping.at(layout.offsets.consumer, 1)?,
            flags: mapping.at(layout.offsets.flags, 1)?,
            slots: mapping.at(layout.offsets.desc, size as usize)?,
            size,
            _mapping: mapping,
            _slots: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: at() checked bounds and alignment; the mapping lives as long as self; the kernel
        // accesses the word atomically too.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in producer().
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as in producer().
        unsafe { self.flags.as_ref() }
    }

    fn slot(&self, index: u32) -> *mut T {
        let place = (index & (self.size - 1)) as usize;
        // SAFETY: place is below size, and at() checked that size slots lie in the mapping.
        unsafe { self.slots.as_ptr().add(place) }
    }

    fn needs_wakeup(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring that we fill: fill and transmit.
pub(super) struct Producer<T: Slot> {
    ring: Ring<T>,
    /// Our index, ahead of the published one between `push` and `publish`.
    next: u32,
    /// The consumer's index when last looked at.
    seen: u32,
}

impl<T: Slot> Producer<T> {
    pub(super) fn new(socket: BorrowedFd<'_>, layout: &Layout, size: u32) -> io::Result<Self> {
        let ring = Ring::new(socket, layout, size)?;
        Ok(Self { ring, next: 0, seen: 0 })
    }

    /// How many slots are free; looks at the kernel's index when fewer than `wanted` were.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let known = self.ring.size.saturating_sub(self.next.wrapping_sub(self.seen));
        if known >= wanted {
            return known;
        }
        self.seen = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size.saturating_sub(self.next.wrapping_sub(self.seen))
    }

    /// Writes a slot; the caller has seen to it that there is room.
    pub(super) fn push(&mut self, value: T) {
        // SAFETY: the slot lies in the mapping; it is ours until publish(), because room() said
        // that the kernel has consumed it.
        unsafe { self.ring.slot(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes all pushed slots visible to the kernel.
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The kernel has not yet taken everything that was published.
    pub(super) fn is_pending(&mut self) -> bool {
        self.seen = self.ring.consumer().load(Ordering::Acquire);
        self.seen != self.next
    }

    /// The slots that were published and that the kernel has not taken, oldest first.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = T> {
        self.seen = self.ring.consumer().load(Ordering::Acquire);
        let count = self.next.wrapping_sub(self.seen).min(self.ring.size);
        (0..count).map(|step| {
            // SAFETY: the slot lies in the mapping, and push() has initialised it; the kernel only
            // reads this ring's slots.
            unsafe { self.ring.slot(self.seen.wrapping_add(step)).read() }
        })
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that we empty: receive and completion.
pub(super) struct Consumer<T: Slot> {
    ring: Ring<T>,
    /// Our index, ahead of the published one between `pop` and `release`.
    next: u32,
    /// The producer's index when last looked at.
    seen: u32,
}

impl<T: Slot> Consumer<T> {
    pub(super) fn new(socket: BorrowedFd<'_>, layout: &Layout, size: u32) -> io::Result<Self> {
        let ring = Ring::new(socket, layout, size)?;
        Ok(Self { ring, next: 0, seen: 0 })
    }

    /// Takes the next slot's value.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.seen {
            self.seen = self.ring.producer().load(Ordering::Acquire);
            if self.next == self.seen {
                return None;
            }
        }
        // SAFETY: the slot lies in the mapping; the acquire load above saw the kernel's index
        // pass it, so it is written, and the kernel leaves it alone until release().
        let value = unsafe { self.ring.slot(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(value)
    }

    /// Lets the kernel reuse the slots that were taken.
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
