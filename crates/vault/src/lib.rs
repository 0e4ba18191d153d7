//! State that must outlive the daemon: the SAs and policies it serves, and their live numbers.
//!
//! A daemon that is killed under traffic has to take up the same SAs again without repeating a
//! sequence number and without opening the replay window a second time. The [`Vault`] is a
//! directory, usually on a tmpfs below `/run`, that holds what this takes:
//!
//! ```text
//!   control thread ──put, remove──> journal   records of key and value, in order; values hold keys
//!                  ──live_numbers─> cells     a mapped file: a slot of 64-bit atomics for each SA
//!                                     ^
//!   workers ────────load, store───────┘       a store into a slot *is* the persistence
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`Vault::open`] | locks the directory; returns the [`Record`]s that live |
//! | [`Vault::put`], [`Vault::remove`] | the journal; survives the process once they return |
//! | [`Vault::live_numbers`], [`Grant`], [`Origin`] | an owner's live numbers: its earlier ones, or new ones |
//! | [`Vault::release`], [`Vault::sweep`] | releases live numbers: of one owner, or of all without a record |
//! | [`Vault::wipe`] | removes it all |
//! | [`read_journal`] | the journal's bytes without a vault, for fuzzing and tools |
//!
//! # Example
//!
//! ```
//! use core::sync::atomic::Ordering::Relaxed;
//! use vault::{Origin, Vault};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path().join("vault");
//! let (mut vault, records) = Vault::open(&dir)?;
//! assert!(records.is_empty());
//! let grant = vault.live_numbers(7, 11)?; // owner 7: one SA under one key
//! vault.put(b"sa 7", b"parameters and keys")?;
//! grant.memory.words()[0].store(41, Relaxed);
//!
//! // The process ends here, at whatever instruction. The next one:
//! drop((vault, grant));
//! let (mut vault, records) = Vault::open(&dir)?;
//! assert_eq!(records[0].key, b"sa 7");
//! let grant = vault.live_numbers(7, 11)?;
//! assert_eq!(grant.origin, Origin::Kept, "a restored SA with new numbers must not send");
//! assert_eq!(grant.memory.words()[0].load(Relaxed), 41);
//! # Ok(())
//! # }
//! ```
//!
//! # What survives what
//!
//! Everything written survives the death of the process at any instruction (`kill -9`), because the
//! page cache belongs to the kernel. Nothing survives the machine: nothing is synced to a disk, and
//! what a disk has after a crash of the machine may be older than the last number that was used. So a
//! vault of another boot is discarded when it is opened ([`Vault::has_discarded`]), wherever it is
//! kept, and the SAs have to be negotiated anew.
//!
//! A value is overwritten when it becomes void, so that the keys in it end with their SA.
//!
//! # Who may touch it
//!
//! The directory is its owner's alone (mode 0700, files 0600), and one process at a time holds the
//! lock on it. Someone with the owner's rights who shortens the `cells` file while it is mapped
//! makes the daemon die by SIGBUS at the next access; that is not defended against.
//!
//! The files are mapped. A process that has locked its memory (`mlockall(2)` with `MCL_FUTURE`) locks
//! their pages with it, so that those of a tmpfs are not swapped out. On any other file system keys
//! get to the disk ([`Vault::is_on_disk`]), and may stay there after they were overwritten.
//!
//! # Threads
//!
//! [`Vault`] is one control thread's. The live numbers that it hands out are atomics, for any thread;
//! their owner decides who writes. A slot is used again only when no handle to it lives.
//!
//! # Not handled
//!
//! The meaning of a record is the daemon's. There is no migration between versions of the
//! format: files of another version are refused.

mod arena;
mod boot;
mod crc;
mod directory;
mod error;
mod frame;
mod hold;
mod journal;
mod sys;
mod zero;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use directory::{FILES, JOURNAL, JOURNAL_NEW, LIVE_NUMBERS};

pub use arena::{Grant, MAX_LIVE_NUMBERS, Origin};
pub use error::VaultError;
pub use frame::{Corrupt, Frame, MAX_KEY_LEN, MAX_VALUE_LEN, Replay};
pub use journal::Record;

/// A directory of state that outlives the process, locked for this process.
///
/// Meant for one control thread: what changes the vault takes `&mut self`. Only the live numbers that
/// it hands out are shared with workers.
#[derive(Debug)]
pub struct Vault {
    journal: journal::Journal,
    arena: arena::Arena,
    has_discarded: bool,
    is_on_disk: bool,
    // Last, so that the lock is released after all else.
    directory: directory::Directory,
}

impl Vault {
    /// Opens the vault in `dir`, which is created (mode 0700) if it is not there.
    ///
    /// Returns the live records too: for each key the last value put, ordered by when the key was
    /// first put since it was last removed. A record that was being written when the process died
    /// is not among them; its [`put`](Vault::put) had not returned.
    ///
    /// # Errors
    ///
    /// If another process has the vault open, if the directory is open to others, if a file is
    /// damaged (the error names it), or if the file system refuses.
    pub fn open(dir: impl AsRef<Path>) -> Result<(Vault, Vec<Record>), VaultError> {
        Vault::open_in_boot(dir, &boot::current()?)
    }

    /// As [`open`](Vault::open), in a boot of the machine that is told by its id. Meant for tests.
    ///
    /// # Errors
    ///
    /// As for [`open`](Vault::open).
    pub fn open_in_boot(
        dir: impl AsRef<Path>,
        boot: &str,
    ) -> Result<(Vault, Vec<Record>), VaultError> {
        let directory = directory::Directory::lock(dir.as_ref())?;
        let is_on_disk = directory.is_on_disk()?;
        let has_discarded = boot::begin(&directory, boot)?;
        let arena = arena::Arena::open(&directory.file(LIVE_NUMBERS))?;
        let (journal, records) =
            journal::Journal::open(&directory.file(JOURNAL), &directory.file(JOURNAL_NEW))?;
        Ok((Vault { journal, arena, has_discarded, is_on_disk, directory }, records))
    }

    /// True if the files of another boot of the machine were discarded.
    pub fn has_discarded(&self) -> bool {
        self.has_discarded
    }

    /// True if its file system keeps files elsewhere than in memory.
    pub fn is_on_disk(&self) -> bool {
        self.is_on_disk
    }

    /// Where the vault is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Records `value` under `key`, in place of an earlier value.
    ///
    /// Survives the process once this returns, and the earlier value is overwritten. A key that is
    /// already there keeps its place in the order of records.
    ///
    /// # Errors
    ///
    /// [`VaultError::TooLong`] above [`MAX_KEY_LEN`] or [`MAX_VALUE_LEN`], or an I/O error
    /// (usually a full file system), after which the earlier value still stands.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), VaultError> {
        self.journal.append(&Frame { key, value: Some(value) })
    }

    /// Takes the record of `key` away and overwrites its value; nothing happens if there is none.
    ///
    /// # Errors
    ///
    /// As for [`put`](Vault::put).
    pub fn remove(&mut self, key: &[u8]) -> Result<(), VaultError> {
        self.journal.append(&Frame { key, value: None })
    }

    /// The `len` live numbers of `owner`.
    ///
    /// If the owner already has a slot of that length, also from an earlier process, these are its
    /// numbers, and the grant says [`Origin::Kept`]. Otherwise it is a new slot, all zero, and one of
    /// another length is released. **A restored outbound SA whose grant says
    /// [`Origin::New`] must not send**: its last sequence number is lost.
    ///
    /// An owner id stands for one SA under one key. Never use it again for other keys without
    /// [`release`](Vault::release) in between.
    ///
    /// # Errors
    ///
    /// If `len` is 0 or above [`MAX_LIVE_NUMBERS`], or the file system has no room for another
    /// segment.
    pub fn live_numbers(&mut self, owner: u64, len: usize) -> Result<Grant, VaultError> {
        self.arena.live_numbers(owner, len)
    }

    /// Releases the live numbers of `owner`; nothing happens if it has none.
    ///
    /// No later process finds them. Handles already given out keep working: the slot is used again
    /// only after the last of them is gone.
    pub fn release(&mut self, owner: u64) {
        self.arena.release(owner);
    }

    /// Every owner, and how many live numbers it has.
    pub fn owners(&self) -> impl Iterator<Item = (u64, usize)> {
        self.arena.owners()
    }

    /// True while a handle to the present live numbers of `owner` lives.
    pub fn is_held(&self, owner: u64) -> bool {
        self.arena.is_held(owner)
    }

    /// The owners for which [`is_held`](Vault::is_held) is true, in no order.
    pub fn holders(&self) -> impl Iterator<Item = u64> {
        self.arena.holders()
    }

    /// Releases the live numbers of every owner that is not in `keep`, and returns how many those
    /// were.
    ///
    /// To be called once all records are restored: a process that dies between creating a slot and
    /// recording its SA leaves such orphans.
    pub fn sweep(&mut self, keep: &HashSet<u64>) -> usize {
        self.arena.sweep(keep)
    }

    /// Ends the vault, overwrites what had keys, and removes its files, and the directory if nothing
    /// else is in it.
    ///
    /// Handles to live numbers keep working, in memory that no name leads to.
    ///
    /// # Errors
    ///
    /// The first removal that failed; the others were tried all the same.
    pub fn wipe(self) -> Result<(), VaultError> {
        let Vault { journal, arena, directory, .. } = self;
        drop((journal, arena));
        // Not the live numbers: a handle that is left must go on counting.
        for name in [JOURNAL, JOURNAL_NEW] {
            // A file that cannot be overwritten is removed all the same.
            let _ = zero::overwrite_file(&directory.file(name));
        }
        directory.wipe(&FILES)
    }

    /// The files that a vault in `dir` consists of, whether they exist or not.
    pub fn files(dir: &Path) -> [PathBuf; 4] {
        FILES.map(|name| dir.join(name))
    }
}

/// Reads arbitrary bytes as a journal, as [`Vault::open`] would read the file.
///
/// For fuzzing and for tools that look at a journal from outside.
///
/// # Errors
///
/// [`Corrupt`] if the bytes cannot be what an interrupted writer left.
pub fn read_journal(bytes: &[u8]) -> Result<Replay<'_>, Corrupt> {
    frame::replay(bytes)
}
