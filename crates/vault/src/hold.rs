//! Keeps a file's pages in memory, where the process locks its own.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::sys::Mapping;

/// Mappings of a file from its first byte on.
///
/// The file itself is read and written by system calls. The mappings are there because pages that a
/// file system keeps in memory may be swapped out, unless a process has them mapped in memory that it
/// has locked: `mlockall(2)` with `MCL_FUTURE` locks each page once it is touched. Without that the
/// mappings do nothing.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    segments: Vec<Mapping>,
}

impl Hold {
    /// Maps the file up to a length, which it need not have yet.
    pub(crate) fn cover(&mut self, file: &File, len: u64) -> io::Result<()> {
        while self.covered() < len {
            self.segments.push(Mapping::new(file, self.covered(), SEGMENT_WORDS)?);
        }
        Ok(())
    }

    /// Touches the pages of a range that is covered and that the file has.
    pub(crate) fn touch(&self, range: Range<u64>) {
        let first = range.start / PAGE_BYTES * PAGE_BYTES;
        for page in (first..range.end).step_by(PAGE_BYTES as usize) {
            let (segment, offset) = (page / SEGMENT_BYTES, page % SEGMENT_BYTES);
            let words = self.segments[segment as usize].words();
            black_box(words[offset as usize / 8].load(Relaxed));
        }
    }

    fn covered(&self) -> u64 {
        self.segments.len() as u64 * SEGMENT_BYTES
    }
}

const SEGMENT_BYTES: u64 = 1 << 20;
const SEGMENT_WORDS: usize = SEGMENT_BYTES as usize / 8;
/// The smallest page of any machine.
const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_touched_is_in_memory_also_behind_a_segment() {
        let file = tempfile::tempfile().unwrap();
        let mut hold = Hold::default();
        let end = SEGMENT_BYTES + 5000;
        hold.cover(&file, end).unwrap();
        assert_eq!(hold.segments.len(), 2);
        file.write_all_at(b"the last bytes", end - 14).unwrap();
        hold.touch(SEGMENT_BYTES - 1..end);
        let word = hold.segments[1].words()[(5000 - 8) / 8].load(Relaxed);
        assert_eq!(word.to_ne_bytes(), *b"st bytes");
        hold.cover(&file, end).unwrap();
        assert_eq!(hold.segments.len(), 2);
    }
}
