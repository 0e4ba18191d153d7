//! Files that are root's alone: how they are made, and whose they have to be if they exist.
//!
//! A name in a file system may lead anywhere, to what somebody else has put there. So nothing is
//! followed, and what a name led to is looked at once it is open.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Why a file or directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A directory that others can put something into.
    #[error(
        "{}: {what}; it must be a directory of user {user} that nobody else can write to: see who made \
         it, then remove it, or: chown {user} {} && chmod 700 {}",
        path.display(), path.display(), path.display()
    )]
    Directory {
        /// Path of the directory that was refused.
        path: PathBuf,
        /// Kind that it is instead.
        what: String,
        /// User id that it must belong to.
        user: u32,
    },
    /// A file for secrets that others can read, or that somebody else has made.
    #[error(
        "{}: {what}; what is written there is secret: remove it, or name a file that does not exist",
        path.display()
    )]
    Secret {
        /// Path of the file that was refused.
        path: PathBuf,
        /// Fault of the file.
        what: String,
    },
    /// The file system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

impl FileError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError::Io { path, source }
    }
}

/// Makes an instance's runtime directory, and the one above it, unless they are there; checks whose
/// they are.
///
/// # Errors
/// One of them is somebody else's, can be written to by others, or is no directory.
pub fn runtime_directory(path: &Path) -> Result<(), FileError> {
    if let Some(above) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(above);
        made.map_err(FileError::io(above))?;
        // Where others can make files but not move ours, as in /tmp, the next check is enough.
        check_directory(above, |mode| mode & 0o022 == 0 || mode & 0o1000 != 0)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(FileError::io(path)(error));
        }
        _ => {}
    }
    check_directory(path, |mode| mode & 0o022 == 0)
}

fn check_directory(path: &Path, is_closed: impl Fn(u32) -> bool) -> Result<(), FileError> {
    let user = geteuid().as_raw();
    let meta = fs::symlink_metadata(path).map_err(FileError::io(path))?;
    let mode = meta.mode() & 0o7777;
    let what = match meta.file_type() {
        kind if kind.is_symlink() => "it is a symbolic link".to_owned(),
        kind if !kind.is_dir() => "it is no directory".to_owned(),
        _ if meta.uid() != user => format!("it is user {}'s", meta.uid()),
        _ if !is_closed(mode) => format!("others can write to it (mode {mode:04o})"),
        _ => return Ok(()),
    };
    Err(FileError::Directory { path: path.to_owned(), what, user })
}

/// Writes a small file of the runtime directory (mode 0600), in place of one that is there.
///
/// # Errors
/// When the file system refuses; the one before is still there.
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    let next = path.with_extension("next");
    match fs::remove_file(&next) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(FileError::io(&next)(error));
        }
        // A process that died has left it.
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)
        .map_err(FileError::io(&next))?;
    file.write_all(text.as_bytes()).map_err(FileError::io(&next))?;
    fs::rename(&next, path).map_err(FileError::io(path))
}

/// Opens an empty file for secrets: a new one of mode 0600, or one that is this user's alone. A pipe of
/// this user's will do, and a device.
///
/// # Errors
/// It is a link, somebody else's, or others can read it.
pub fn open_secret(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(FileError::io(path)),
    }
    let secret = |what| FileError::Secret { path: path.to_owned(), what };
    let existing = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let file = existing.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => secret("it is a symbolic link".to_owned()),
        _ => FileError::io(path)(error),
    })?;
    let meta = file.metadata().map_err(FileError::io(path))?;
    let (kind, mode) = (meta.file_type(), meta.mode() & 0o7777);
    if kind.is_char_device() {
        return Ok(file);
    }
    if meta.uid() != geteuid().as_raw() {
        return Err(secret(format!("it exists and is user {}'s", meta.uid())));
    }
    if mode & 0o077 != 0 {
        return Err(secret(format!("it exists and is open to others (mode {mode:04o})")));
    }
    if kind.is_file() && meta.nlink() != 1 {
        return Err(secret("it exists and has another name too".to_owned()));
    }
    if kind.is_file() {
        file.set_len(0).map_err(FileError::io(path))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn is_root() -> bool {
        geteuid().is_root()
    }

    #[test]
    fn a_runtime_directory_of_somebody_else_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (above, path) = (parent.path().join("culvert"), parent.path().join("culvert/a"));
        runtime_directory(&path).unwrap();
        assert_eq!((mode(&above), mode(&path)), (0o700, 0o700));
        let refused = |what: &str| {
            let error = runtime_directory(&path).unwrap_err();
            assert!(matches!(error, FileError::Directory { .. }), "{error}");
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.to_string().contains("chmod 700"), "{error}");
        };
        set_mode(&path, 0o755);
        runtime_directory(&path).unwrap();
        for open in [0o720, 0o702, 0o1777] {
            set_mode(&path, open);
            refused(&format!("mode {open:04o}"));
        }
        set_mode(&path, 0o700);
        set_mode(&above, 0o770);
        refused("mode 0770");
        set_mode(&above, 0o1777);
        runtime_directory(&path).unwrap();
        if is_root() {
            chown(&path, Some(12345), None).unwrap();
            refused("user 12345's");
        }
        fs::remove_dir(&path).unwrap();
        fs::create_dir(parent.path().join("theirs")).unwrap();
        symlink(parent.path().join("theirs"), &path).unwrap();
        refused("symbolic link");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        refused("no directory");
    }

    #[test]
    fn a_small_file_follows_no_link_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("interface"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        for link in [&path, &dir.path().join("interface.next")] {
            symlink(&precious, link).unwrap();
            write(&path, "culvert0").unwrap();
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
            assert_eq!(fs::read_to_string(&path).unwrap(), "culvert0");
            assert_eq!(mode(&path), 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_for_secrets_is_new_or_this_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        open_secret(&path).unwrap().write_all(b"a long secret").unwrap();
        assert_eq!(mode(&path), 0o600);
        open_secret(&path).unwrap().write_all(b"short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        let refused = |what: &str| {
            let error = open_secret(&path).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("remove it"), "{error}");
        };
        set_mode(&path, 0o640);
        refused("mode 0640");
        set_mode(&path, 0o600);
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        refused("another name");
        fs::remove_file(dir.path().join("other")).unwrap();
        if is_root() {
            chown(&path, Some(12345), None).unwrap();
            refused("user 12345's");
            chown(&path, Some(0), None).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "short", "nothing was cut");
        fs::remove_file(&path).unwrap();
        symlink(dir.path().join("nowhere"), &path).unwrap();
        refused("symbolic link");
        open_secret(Path::new("/dev/null")).unwrap();
    }
}
