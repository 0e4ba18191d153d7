//! Huge pages for the peer, given back afterwards.

use std::fs;
use std::path::Path;

use crate::error::BenchError;

/// As many huge pages as the peer needs, while this lives.
pub(crate) struct HugePages {
    /// How many there were, if that was changed.
    before: Option<u64>,
}

impl HugePages {
    /// Reserves what is missing.
    pub(crate) fn reserve() -> Result<HugePages, BenchError> {
        let path = Path::new(COUNT);
        let read = || -> Result<u64, BenchError> {
            let text =
                fs::read_to_string(path).map_err(BenchError::system(&format!("read {COUNT}")))?;
            Ok(text.trim().parse().unwrap_or(0))
        };
        let before = read()?;
        if before >= NEEDED {
            return Ok(HugePages { before: None });
        }
        let pages = HugePages { before: Some(before) };
        fs::write(path, NEEDED.to_string())
            .map_err(BenchError::system(&format!("reserve huge pages by {COUNT}")))?;
        let got = read()?;
        if got < NEEDED {
            return Err(BenchError::Peer(format!(
                "{got} huge pages of 2 MiB are to be had, the peer needs {NEEDED}: free some memory"
            )));
        }
        Ok(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = self.before
            && let Err(error) = fs::write(COUNT, before.to_string())
        {
            eprintln!("{COUNT} is not {before} again: {error}");
        }
    }
}

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
/// Huge pages of 2 MiB that a run needs.
const NEEDED: u64 = 512;
