//! The vault's directory: private to its owner, locked for one process.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::VaultError;
use crate::sys;

pub(crate) const JOURNAL: &str = "journal";
pub(crate) const JOURNAL_NEW: &str = "journal.new";
/// The name stays as it is: a daemon that is updated in place must find the live numbers of its SAs.
pub(crate) const LIVE_NUMBERS: &str = "cells";
pub(crate) const BOOT: &str = "boot";
pub(crate) const FILES: [&str; 4] = [JOURNAL, JOURNAL_NEW, LIVE_NUMBERS, BOOT];

/// A directory that this process holds the lock on, until the value is dropped or the process
/// dies.
///
/// The lock is `flock` on the directory itself: there is no lock file that could be left behind
/// or be removed while held.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Makes the directory if need be, checks that it is private, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Directory, VaultError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                return Err(VaultError::io(path, "cannot create the directory")(e));
            }
            _ => {}
        }
        let lock = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path)
            .map_err(|e| match e.raw_os_error() {
                Some(libc::ENOTDIR | libc::ELOOP) => {
                    VaultError::NotPrivate { path: path.to_owned() }
                }
                _ => VaultError::io(path, "cannot open the directory")(e),
            })?;
        let meta = lock.metadata().map_err(VaultError::io(path, "cannot read the mode"))?;
        if meta.mode() & 0o077 != 0 || meta.uid() != sys::effective_user() {
            return Err(VaultError::NotPrivate { path: path.to_owned() });
        }
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => VaultError::InUse { path: path.to_owned() },
            TryLockError::Error(e) => VaultError::io(path, "cannot lock")(e),
        })?;
        Ok(Directory { path: path.to_owned(), lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// True if its file system keeps files elsewhere than in memory.
    pub(crate) fn is_on_disk(&self) -> Result<bool, VaultError> {
        sys::is_in_memory(&self.lock)
            .map(|is_in_memory| !is_in_memory)
            .map_err(VaultError::io(&self.path, "cannot read the kind of file system"))
    }

    /// Removes the files named, then the directory if it is empty, and lets go of the lock.
    pub(crate) fn wipe(self, names: &[&str]) -> Result<(), VaultError> {
        let mut result = Ok(());
        for name in names {
            let path = self.file(name);
            if let Err(e) = unless_missing(fs::remove_file(&path)) {
                result = result.and(Err(VaultError::io(&path, "cannot remove")(e)));
            }
        }
        match fs::remove_dir(&self.path) {
            // Somebody else's file, or a mount point: what is ours is gone.
            Err(e)
                if !matches!(
                    e.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy | ErrorKind::NotFound
                ) =>
            {
                result.and(Err(VaultError::io(&self.path, "cannot remove")(e)))
            }
            _ => result,
        }
    }
}

/// Opens (and makes, with mode 0600) a file for reading and writing, following no link.
pub(crate) fn open_private(path: &Path, truncate: bool) -> Result<File, VaultError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(truncate)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(VaultError::io(path, "cannot open"))
}

/// An absent file is as good as a removed one.
pub(crate) fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
