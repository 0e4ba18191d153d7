//! Overwrites what is given up: key bytes are to be gone, and not only unnamed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::directory::unless_missing;

/// Writes zeros over a part of a file.
pub(crate) fn overwrite(file: &File, range: Range<u64>) -> io::Result<()> {
    for at in range.clone().step_by(ZEROS.len()) {
        let len = (range.end - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..len as usize], at)?;
    }
    Ok(())
}

/// Writes zeros over a whole file; nothing happens if there is none.
pub(crate) fn overwrite_file(path: &Path) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    match OpenOptions::new().write(true).custom_flags(flags).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => {
            let file = opened?;
            overwrite(&file, 0..file.metadata()?.len())
        }
    }
}

/// Overwrites a file and removes it; nothing happens if there is none.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    // A file that cannot be overwritten is removed all the same.
    let _ = overwrite_file(path);
    unless_missing(fs::remove_file(path))
}

static ZEROS: [u8; 1 << 14] = [0; 1 << 14];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_and_nothing_else_becomes_zero() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 50_000], 0).unwrap();
        overwrite(&file, 3..40_000).unwrap();
        overwrite(&file, 50_000..50_000).unwrap();
        let mut bytes = vec![1; 50_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[..3].iter().chain(&bytes[40_000..]).all(|b| *b == 7));
        assert!(bytes[3..40_000].iter().all(|b| *b == 0));
        assert_eq!(file.metadata().unwrap().len(), 50_000);
    }

    #[test]
    fn a_removed_file_was_zero_to_whom_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, b"secret").unwrap();
        let open = File::open(&path).unwrap();
        remove(&path).unwrap();
        let mut bytes = [1; 6];
        open.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [0; 6]);
        assert!(!path.exists());
        remove(&path).unwrap();
    }
}
