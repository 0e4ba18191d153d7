//! Keys of probes, from files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use paths::stamp::{Key, KeyError};
use thiserror::Error;
use zeroize::Zeroizing;

/// Most bytes of a file that are read: two digits for each of 64, and white space.
const MOST: u64 = 256;

/// Reason that a file has no key.
#[derive(Debug, Error)]
pub enum KeyFile {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    /// The file has no key in it.
    #[error("{0}")]
    NoKey(#[from] KeyError),
}

/// Reads the key that a file has in hexadecimal digits.
///
/// # Errors
/// The file cannot be read, or has something else in it.
pub fn read_key(path: &Path) -> Result<Key, KeyFile> {
    let mut text = Zeroizing::new(Vec::with_capacity(MOST as usize + 1));
    File::open(path)?.take(MOST + 1).read_to_end(&mut text)?;
    Ok(Key::from_hex(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_keys_in_hexadecimal_digits() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            read_key(&path).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!("{}\n", "0f".repeat(32))), Ok(()));
        assert_eq!(read("0f"), Err("the key has 1 bytes, and 16 to 64 are wanted".into()));
        assert!(read("password").is_err_and(|error| error.contains("hexadecimal")));
        assert!(read(&"0".repeat(1000)).is_err());
        assert!(read_key(&folder.path().join("none")).is_err());
    }
}
