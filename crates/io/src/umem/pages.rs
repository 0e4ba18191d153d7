//! A region's mapping: which pages it is made of, and how it goes.
//!
//! A region of packets is touched at random, a few lines in each chunk: with pages of 4 KiB almost
//! every packet misses the first-level TLB. So a region that is to be populated and is large enough
//! asks for huge pages, in this order:
//!
//! 1. pages that the administrator has set aside (`vm.nr_hugepages`), if they are enough;
//! 2. an aligned mapping for which the kernel is asked to use huge pages by itself
//!    (`MADV_HUGEPAGE`, unless `/sys/kernel/mm/transparent_hugepage/enabled` says `never`);
//! 3. ordinary pages.
//!
//! Nothing of that can fail the region, only slow it down: [`Pages`] tells which it got.

#![allow(unsafe_code, reason = "maps and unmaps memory; what is exported is safe")]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::io;

/// Kind of pages of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages that were set aside for programs that ask (`MAP_HUGETLB`).
    Reserved,
    /// The kernel was asked to use huge pages, and did for so many bytes of the region.
    Transparent {
        /// Bytes of the region on huge pages when it was populated.
        huge_bytes: usize,
    },
    /// Ordinary pages: the region is small, was not populated, or the kernel has no huge pages.
    Small,
}

impl core::fmt::Display for Pages {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Pages::Reserved => f.write_str("reserved huge pages"),
            Pages::Transparent { .. } => f.write_str("transparent huge pages"),
            Pages::Small => f.write_str("small pages"),
        }
    }
}

/// A private mapping of zeroed memory that no child process inherits.
pub(super) struct Mapping {
    pub(super) base: NonNull<u8>,
    len: NonZeroUsize,
    pub(super) pages: Pages,
}

// SAFETY: plain memory that is nobody's until the owner of the mapping hands it out.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared Mapping gives out no reference to its memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes at least; with `populate`, faults them in, on huge pages if there are some.
    pub(super) fn new(len: NonZeroUsize, populate: bool) -> io::Result<Self> {
        if !populate {
            return Self::map(len, 0);
        }
        if len.get() >= HUGE_PAGE_LEN {
            if let Ok(mapping) = Self::reserved(len) {
                return Ok(mapping);
            }
            if let Ok(mapping) = Self::transparent(len) {
                return Ok(mapping);
            }
        }
        Self::map(len, libc::MAP_POPULATE)
    }

    fn map(len: NonZeroUsize, flags: libc::c_int) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // Reserved huge pages are promised by the call itself, or it fails.
        let flags =
            if flags & libc::MAP_HUGETLB != 0 { flags } else { flags | libc::MAP_NORESERVE };
        // SAFETY: a fresh anonymous mapping; no existing memory is touched.
        let mapped = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len.get(),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(mapped.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        let mapping = Self { base, len, pages: Pages::Small };
        // A fork would make these pages copy-on-write, and the kernel's rings would then look at
        // other pages than we do. No child of ours needs them.
        let _only_a_precaution = mapping.advise(libc::MADV_DONTFORK);
        Ok(mapping)
    }

    /// On pages that were set aside. Faulted in before anyone relies on them: a limit of the
    /// control group would otherwise end the process at the first touch.
    fn reserved(len: NonZeroUsize) -> io::Result<Self> {
        let len = len.get().checked_next_multiple_of(HUGE_PAGE_LEN).and_then(NonZeroUsize::new);
        let len = len.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mut mapping = Self::map(len, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB)?;
        mapping.advise(libc::MADV_POPULATE_WRITE)?;
        mapping.pages = Pages::Reserved;
        Ok(mapping)
    }

    /// On memory aligned so that the kernel can use huge pages for all of it but the end.
    fn transparent(len: NonZeroUsize) -> io::Result<Self> {
        let mut mapping = Self::map(len.saturating_add(HUGE_PAGE_LEN), 0)?;
        mapping.align(len);
        mapping.advise(libc::MADV_HUGEPAGE)?;
        mapping.advise(libc::MADV_POPULATE_WRITE)?;
        let huge_bytes = std::fs::read_to_string("/proc/self/smaps")
            .map_or(0, |smaps| anon_huge_bytes(&smaps, mapping.base.addr().get()));
        if huge_bytes > 0 {
            mapping.pages = Pages::Transparent { huge_bytes };
        }
        Ok(mapping)
    }

    /// Unmaps the memory before the first huge page's boundary, and the surplus behind.
    fn align(&mut self, len: NonZeroUsize) {
        let before = self.base.align_offset(HUGE_PAGE_LEN).min(HUGE_PAGE_LEN);
        let len =
            len.get().checked_next_multiple_of(PAGE_LEN).and_then(NonZeroUsize::new).unwrap_or(len);
        let behind = self.len.get().saturating_sub(before).saturating_sub(len.get());
        if before > 0 {
            // SAFETY: the front of this mapping, which nobody refers to yet.
            unsafe { libc::munmap(self.base.as_ptr().cast(), before) };
        }
        // SAFETY: the mapping is at least one huge page longer than `len`, and `before` less.
        self.base = unsafe { self.base.add(before) };
        self.len = len;
        if behind > 0 {
            // SAFETY: `len + behind` bytes of the mapping lie behind the new base.
            let end = unsafe { self.base.as_ptr().add(len.get()) };
            // SAFETY: the end of this mapping, which nobody refers to yet.
            unsafe { libc::munmap(end.cast(), behind) };
        }
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is this mapping; none of the advice used here changes its content.
        let result = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len.get(), advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and len are those of the mapping, as align() has left it; each reference to
        // its memory keeps the owner of this alive.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len.get()) };
    }
}

/// The anonymous memory on huge pages in the mapping that contains `address`, by the text of
/// `/proc/self/smaps`, in bytes.
fn anon_huge_bytes(smaps: &str, address: usize) -> usize {
    let mut is_ours = false;
    for line in smaps.lines() {
        let word = line.split_whitespace().next().unwrap_or("");
        let hex = |text| usize::from_str_radix(text, 16).ok();
        if let Some((from, to)) = word.split_once('-').map(|(from, to)| (hex(from), hex(to))) {
            is_ours = from.is_some_and(|from| from <= address) && to.is_some_and(|to| address < to);
        } else if is_ours && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kib = rest.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<usize>().ok());
            return kib.unwrap_or(0) * 1024;
        }
    }
    0
}

const HUGE_PAGE_LEN: usize = 2 << 20;
const PAGE_LEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(len: usize, populate: bool) -> Mapping {
        Mapping::new(NonZeroUsize::new(len).expect("not 0"), populate).expect("memory")
    }

    /// Every byte of a mapping is there and zero, whatever pages it got.
    fn check(mapping: &Mapping, len: usize) {
        assert!(mapping.len.get() >= len);
        for at in (0..len).step_by(PAGE_LEN).chain([len - 1]) {
            // SAFETY: inside the mapping, checked above.
            let place = unsafe { mapping.base.add(at) };
            // SAFETY: as above; nobody else knows of it.
            assert_eq!(unsafe { place.read() }, 0);
            // SAFETY: as above.
            unsafe { place.write(1) };
        }
    }

    #[test]
    fn a_large_region_is_aligned_and_whole_whatever_pages_it_gets() {
        for len in [HUGE_PAGE_LEN, 3 * HUGE_PAGE_LEN + 2048, 5 * HUGE_PAGE_LEN - PAGE_LEN] {
            let mapping = mapped(len, true);
            check(&mapping, len);
            match mapping.pages {
                Pages::Reserved => assert!(mapping.len.get().is_multiple_of(HUGE_PAGE_LEN)),
                Pages::Transparent { huge_bytes } => {
                    assert!(mapping.base.addr().get().is_multiple_of(HUGE_PAGE_LEN));
                    assert!(huge_bytes <= mapping.len.get() && huge_bytes >= HUGE_PAGE_LEN);
                }
                Pages::Small => {}
            }
        }
    }

    #[test]
    fn an_aligned_mapping_gives_the_rest_back() {
        let len = NonZeroUsize::new(HUGE_PAGE_LEN + 100).expect("not 0");
        let mapping = Mapping::transparent(len);
        // The kernel may be built without them; then there is nothing to see here.
        let Ok(mapping) = mapping else { return };
        assert!(mapping.base.addr().get().is_multiple_of(HUGE_PAGE_LEN));
        assert_eq!(mapping.len.get(), HUGE_PAGE_LEN + PAGE_LEN);
        check(&mapping, mapping.len.get());
    }

    #[test]
    fn small_ones_have_small_pages() {
        for (len, populate) in [(2048, true), (HUGE_PAGE_LEN - 1, true), (HUGE_PAGE_LEN, false)] {
            let mapping = mapped(len, populate);
            assert_eq!(mapping.pages, Pages::Small);
            check(&mapping, len);
        }
    }

    #[test]
    fn smaps_is_read_for_the_right_mapping() {
        let smaps = "7f00-7f40 rw-p 0 00:00 0 \nSize: 4 kB\nAnonHugePages:      2048 kB\n\
            8000-9000 rw-p 0 00:00 0 [heap]\nAnonHugePages:         0 kB\nVmFlags: rd\n\
            a000-b000 rw-p\nAnonHugePages: what\nc000-d000 rw-p\nRss: 1 kB\n";
        for (address, bytes) in [
            (0x7eff, 0),
            (0x7f00, 2 << 20),
            (0x7f3f, 2 << 20),
            (0x7f40, 0),
            (0x8000, 0),
            (0xa000, 0),
            (0xc000, 0),
        ] {
            assert_eq!(anon_huge_bytes(smaps, address), bytes, "{address:x}");
        }
    }
}
