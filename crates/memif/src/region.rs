//! Memory that is shared with a peer.
//!
//! The peer may write to it at any time. So there are no references to its bytes: rings in it are atomics
//! ([`crate::ring`]), all else is copied, by a function that the compiler knows nothing about: it can neither
//! leave a copy out nor read the memory again in place of the copy.

#![allow(unsafe_code, reason = "maps memory and copies from and to it; what is exported is safe")]

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs};
use rustix::fs::{ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Demand on a peer's memory file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// A memory file of small pages that nobody can make shorter (`F_SEAL_SHRINK`). Holes that the
    /// peer punches are filled as they are touched, for which there is memory unless
    /// `vm.overcommit_memory` is 2.
    #[default]
    Sealed,
    /// Any file. A peer that makes it shorter ends this process (SIGBUS). DPDK's zero-copy clients
    /// need that: DPDK does not seal the memory of its packets.
    Any,
}

/// Why a region was not mapped.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// No region has that length.
    #[error("a region of {0} bytes; 1 to 4294967296 are possible")]
    Size(u64),
    /// The file can be made shorter while it is mapped.
    #[error("its memory is not sealed against being cut (F_SEAL_SHRINK on a memfd)")]
    NotSealed,
    /// The file is shorter than the region is said to be.
    #[error("a region of {said} bytes in a file of {len}")]
    Short {
        /// Length that the peer told, in bytes.
        said: u64,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// Name of the system call.
        call: &'static str,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> RegionError {
    move |errno| RegionError::System { call, source: errno.into() }
}

/// A region: a mapping that both programs write to.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping has no owner: all access to it is by atomics or copies, at any time, from any
// thread or process.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// The longest region: offsets in it have 32 bits.
const MAX_LEN: u64 = 1 << 32;

/// `TMPFS_MAGIC`: of memory files of small pages. Those of huge pages fault where a hole was punched and no page is left.
const TMPFS: i64 = 0x0102_1994;

impl Region {
    /// Maps a peer's memory file.
    ///
    /// # Errors
    /// [`RegionError`]; the file is not mapped then.
    pub fn map(file: BorrowedFd<'_>, size: u64, trust: Trust) -> Result<Arc<Self>, RegionError> {
        let len = usize::try_from(size).ok().filter(|_| (1..=MAX_LEN).contains(&size));
        let len = len.ok_or(RegionError::Size(size))?;
        // The seal first: what it holds for then stays so.
        if trust == Trust::Sealed {
            let is_sealed = fcntl_get_seals(file).is_ok_and(|s| s.contains(SealFlags::SHRINK));
            let is_small = fstatfs(file).is_ok_and(|fs| fs.f_type == TMPFS);
            if !(is_sealed && is_small) {
                return Err(RegionError::NotSealed);
            }
        }
        let there = fstat(file).map_err(system("fstat"))?.st_size as u64;
        if there < size {
            return Err(RegionError::Short { said: size, len: there });
        }
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses: no memory that is there changes.
        let base = unsafe { mmap(core::ptr::null_mut(), len, prot, flags, file, 0) };
        let base = NonNull::new(base.map_err(system("mmap"))?.cast::<u8>());
        let base = base.ok_or(RegionError::Size(size))?;
        Ok(Arc::new(Self { base, len }))
    }

    /// Makes a region for a peer, all zero, and its file, sealed against every change of its length.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn create(len: usize) -> Result<(Arc<Self>, OwnedFd), RegionError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("culvert-memif", flags).map_err(system("memfd_create"))?;
        ftruncate(&file, len as u64).map_err(system("ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(system("fcntl(F_ADD_SEALS)"))?;
        Ok((Self::map(file.as_fd(), len as u64, Trust::Sealed)?, file))
    }

    /// Length of the region in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has a byte at least.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Where `len` bytes at an offset begin, if they are all inside and the offset is a multiple of `align`, which is a
    /// power of two up to a page.
    pub(crate) fn place(&self, offset: usize, len: usize, align: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.len || !offset.is_multiple_of(align) {
            return None;
        }
        // SAFETY: the offset is inside the mapping, or one past it.
        Some(unsafe { self.base.add(offset) })
    }

    /// Copies bytes out of the region. False, and nothing is copied, if they are not all inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let Some(from) = self.place(offset, into.len(), 1) else { return false };
        // SAFETY: `place` has found so many bytes in the mapping, which lives as long as `self`; `into` is exclusive,
        // and not in it: nothing gives out references to the mapping.
        unsafe { copier()(into.as_mut_ptr().cast(), from.as_ptr().cast(), into.len()) };
        true
    }

    /// Copies bytes into the region. False, and nothing is copied, if there is no room for all of them.
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.place(offset, from.len(), 1) else { return false };
        // SAFETY: as in `read`. That others may write there too is what the memory is for: nobody has a
        // reference to it.
        unsafe { copier()(to.as_ptr().cast(), from.as_ptr().cast(), from.len()) };
        true
    }
}

type Copier = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// `memcpy`, as a function that could be any other.
#[inline(always)]
fn copier() -> Copier {
    core::hint::black_box(libc::memcpy as Copier)
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`; rings in it hold the region, and copies are over.
        let result = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok());
    }
}

impl core::fmt::Debug for Region {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Region({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_memory() {
        let (one, file) = Region::create(8192).unwrap();
        let two = Region::map(file.as_fd(), 8192, Trust::Sealed).unwrap();
        assert!(one.write(8000, &[7; 192]));
        let mut bytes = [0; 192];
        assert!(two.read(8000, &mut bytes));
        assert_eq!(bytes, [7; 192]);
    }

    #[test]
    fn nothing_outside_is_touched() {
        let (region, _) = Region::create(4096).unwrap();
        assert!(!region.write(4095, &[0; 2]) && !region.read(4096, &mut [0]));
        assert!(!region.read(usize::MAX, &mut [0; 2]));
        assert!(region.read(4096, &mut []));
        assert!(region.place(8, 16, 16).is_none() && region.place(16, 16, 16).is_some());
    }

    #[test]
    fn memory_that_could_be_cut_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, 4096).unwrap();
        let refused = Region::map(file.as_fd(), 4096, Trust::Sealed);
        assert!(matches!(refused, Err(RegionError::NotSealed)));
        assert!(Region::map(file.as_fd(), 4096, Trust::Any).is_ok());
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(Region::map(file.as_fd(), 4096, Trust::Sealed).is_ok());
        assert!(ftruncate(&file, 100).is_err(), "what the seal is for");
        let short = Region::map(file.as_fd(), 4097, Trust::Sealed);
        assert!(matches!(short, Err(RegionError::Short { said: 4097, len: 4096 })));
        for size in [0, (1 << 32) + 1, u64::MAX] {
            assert!(matches!(
                Region::map(file.as_fd(), size, Trust::Any),
                Err(RegionError::Size(_))
            ));
        }
        let (pipe, _writer) = std::io::pipe().unwrap();
        assert!(Region::map(pipe.as_fd(), 1, Trust::Any).is_err(), "not a file");
    }
}
