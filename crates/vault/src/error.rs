//! Why the vault refuses.

use std::io;
use std::path::{Path, PathBuf};

use crate::frame::Corrupt;

/// Failure of a vault, with the file that it concerns.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Environment: another process holds the lock.
    #[error("{}: in use by another process", path.display())]
    InUse {
        /// The vault's directory.
        path: PathBuf,
    },
    /// Environment: the directory is a link, belongs to somebody else or is open to others.
    #[error("{}: must be a directory of this process's user with mode 0700", path.display())]
    NotPrivate {
        /// The vault's directory.
        path: PathBuf,
    },
    /// Environment: the journal is not what a vault wrote.
    #[error("{}: damaged: {source}", path.display())]
    DamagedJournal {
        /// Path of the journal.
        path: PathBuf,
        /// Where and how.
        source: Corrupt,
    },
    /// Environment: the file of live numbers is not what a vault wrote.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    DamagedLiveNumbers {
        /// Path of the file of live numbers.
        path: PathBuf,
        /// Byte offset of the field that makes no sense.
        offset: u64,
        /// Content that was expected there.
        what: &'static str,
    },
    /// Caller: a key or value above the limit, or more live numbers than a slot can hold.
    #[error("{what} of {len}, where 1 to {max} are possible")]
    TooLong {
        /// Name of the thing that is too long.
        what: &'static str,
        /// Length that was given.
        len: usize,
        /// The longest possible.
        max: usize,
    },
    /// Environment: the file system refused.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Step that failed.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl VaultError {
    /// For `map_err`: an I/O error with the file and what was tried.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> VaultError {
        let path = path.to_owned();
        move |source| VaultError::Io { path, doing, source }
    }
}
