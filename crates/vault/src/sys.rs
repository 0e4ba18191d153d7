//! The system calls that std does not wrap; all of the crate's unsafe code.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mem::StableWords;

/// The user that this process acts as.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::geteuid() }
}

/// True if a file is on a file system that has all of it in memory: a tmpfs, or a ramfs.
pub(crate) fn is_in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: integers: zero is valid.
    let mut status: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: the descriptor is open, and the structure lives through the call.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut status) } {
        // The type's width is the platform's.
        0 => Ok(matches!(status.f_type as u32, TMPFS | RAMFS)),
        _ => Err(io::Error::last_os_error()),
    }
}

const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;

/// Makes `len` bytes from `offset` on exist, with memory or disk space behind them.
///
/// Without this a store into a mapping of a full tmpfs would raise SIGBUS.
pub(crate) fn reserve(file: &File, offset: u64, len: usize) -> io::Result<()> {
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
        return Err(io::ErrorKind::FileTooLarge.into());
    };
    // SAFETY: the descriptor is open for as long as `file` is borrowed; no memory is passed.
    let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, len) };
    match errno {
        0 => Ok(()),
        e => Err(io::Error::from_raw_os_error(e)),
    }
}

/// A part of a file, mapped shared as a slice of atomics, at one address until it is dropped.
///
/// The mapping outlives the `File`. If somebody shortens the file, access raises SIGBUS, which
/// ends the process: not undefined behaviour, and only the file's owner can do it.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

impl Mapping {
    /// Maps `words` 64-bit words from byte `offset` on, which has to be a multiple of the page
    /// size. The file has to reach that far.
    pub(crate) fn new(file: &File, offset: u64, words: usize) -> io::Result<Mapping> {
        let Ok(offset) = offset.try_into() else { return Err(io::ErrorKind::InvalidInput.into()) };
        // SAFETY: no address is asked for, so nothing that exists is replaced; the descriptor is
        // open for as long as `file` is borrowed.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                words * size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, words })
    }

    /// The words. Any bit pattern is a valid `AtomicU64`.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `new` mapped that many words, page-aligned, readable and writable, and only
        // `drop` unmaps them, which the borrow of `self` forbids. All access, from whatever
        // process, is meant to be atomic; shared references to atomics allow that.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and the length are those of one mmap call, and no reference into the
        // mapping lives, since each borrows `self`.
        let _ = unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>())
        };
    }
}

/// Some of the words of a mapping, which stays mapped as long as they are held.
#[derive(Debug)]
pub(crate) struct Part {
    mapping: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl Part {
    /// `len` words from word `start` on.
    ///
    /// # Panics
    /// If the mapping has not so many.
    pub(crate) fn new(mapping: Arc<Mapping>, start: usize, len: usize) -> Part {
        let whole = mapping.words().len();
        assert!(start <= whole && len <= whole - start, "beyond the mapping");
        Part { mapping, start, len }
    }
}

// SAFETY: a mapping stays at its address until the last `Arc` of it is dropped, this one too, and
// nothing in a `Part` ever changes. All access is atomic: see `Mapping::words`.
unsafe impl StableWords for Part {
    fn words(&self) -> &[AtomicU64] {
        &self.mapping.words()[self.start..self.start + self.len]
    }
}

// SAFETY: the value is an address of memory that is not bound to a thread.
unsafe impl Send for Mapping {}

// SAFETY: all that `&Mapping` gives access to is atomics.
unsafe impl Sync for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0, 8192).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 8192);
        let whole = Mapping::new(&file, 0, 1024).unwrap();
        let tail = Mapping::new(&file, 4096, 512).unwrap();
        drop(file);
        whole.words()[513].store(7, Relaxed);
        assert_eq!(tail.words()[1].load(Relaxed), 7);
        drop(whole);
        assert_eq!(tail.words()[1].load(Relaxed), 7);
    }

    #[test]
    fn a_file_system_in_memory_is_told_from_others() {
        assert!(!is_in_memory(&File::open("/proc/self/stat").unwrap()).unwrap());
        // Where it is mounted, it is a tmpfs.
        if let Ok(shm) = File::open("/dev/shm") {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
            let is_tmpfs = mounts.lines().any(|line| {
                let mut words = line.split(' ').skip(1);
                (words.next(), words.next()) == (Some("/dev/shm"), Some("tmpfs"))
            });
            assert_eq!(is_in_memory(&shm).unwrap(), is_tmpfs);
        }
    }

    #[test]
    fn a_part_keeps_its_mapping() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0, 4096).unwrap();
        let mapping = Arc::new(Mapping::new(&file, 0, 512).unwrap());
        mapping.words()[511].store(7, Relaxed);
        let part = Part::new(Arc::clone(&mapping), 500, 12);
        drop((mapping, file));
        assert_eq!((part.words().len(), part.words()[11].load(Relaxed)), (12, 7));
    }

    #[test]
    #[should_panic(expected = "beyond the mapping")]
    fn a_part_does_not_reach_beyond() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0, 4096).unwrap();
        let _ = Part::new(Arc::new(Mapping::new(&file, 0, 512).unwrap()), 500, 13);
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(Mapping::new(&file, 1, 512).is_err());
        assert!(reserve(&file, u64::MAX, 1).is_err());
    }
}
