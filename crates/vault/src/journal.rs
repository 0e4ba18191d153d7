//! The journal file: append, replay, compact.
//!
//! Records are only ever appended. When more than half of the file and more than
//! [`COMPACT_ABOVE`] bytes are records that later ones made void, the live ones are copied to a
//! second file that is then renamed over the first; a process that dies in between leaves the
//! first one whole.
//!
//! # A void value is gone at once
//!
//! A value may hold keys of an SA, and these end with the SA. So when a later record has made a value
//! void, zeros are written over it, by the call that wrote the later record. What is lost by a
//! process that dies in between:
//!
//! | it died | the next start |
//! | --- | --- |
//! | before the later record was whole | finds the earlier one live: the call had not returned |
//! | before the last zero was written | writes all zeros again; the void record's checksum may be wrong, which [`frame::replay`] allows where a later record has the same key |
//!
//! Zeros go over a file that was compacted, before its memory is given back. On a file system that
//! writes elsewhere than it has read (btrfs, flash) the old blocks keep what they had.
//!
//! # Held in memory
//!
//! Written pages are touched by a mapping ([`Hold`]). Under `mlockall` its pages stay in memory as
//! the process's own do, and are not swapped out, as pages of a tmpfs else would be.
//!
//! Memory holds the place of each live record, neither its value nor its key. A key is found by its
//! hash of 128 bits under a secret of the process: of a million keys two collide in one of 2^88
//! processes. Buffers that held values are zeroised.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::directory::open_private;
use crate::error::VaultError;
use crate::frame::{self, Frame, HEADER_LEN, MAGIC, MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::hold::Hold;
use crate::zero::{self, overwrite};

/// Void bytes that are tolerated in any case.
const COMPACT_ABOVE: u64 = 1 << 20;
/// Bytes of a compaction's buffer.
const COPIED_AT_ONCE: usize = 1 << 18;

/// One live record, as [`Vault::open`](crate::Vault::open) returns it.
#[derive(PartialEq, Eq)]
pub struct Record {
    /// The key, as it was put.
    pub key: Vec<u8>,
    /// The value last put under the key; zeroised when dropped.
    pub value: Zeroizing<Vec<u8>>,
}

/// Shows the value's length only: it may hold keys of an SA.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("key", &self.key)
            .field("value_len", &self.value.len())
            .finish()
    }
}

/// Where a live record lies. Every SA and policy has one.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Rises with the time at which the key was first put.
    order: u64,
    offset: u64,
    /// At most that of the longest key and value.
    len: u32,
}

const _: () = assert!(HEADER_LEN + MAX_KEY_LEN + MAX_VALUE_LEN <= u32::MAX as usize);

impl Place {
    fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Where the value lies, if the key is so long.
    fn value(&self, key_len: usize) -> Range<u64> {
        self.offset + (HEADER_LEN + key_len) as u64..self.end()
    }
}

/// The hash of a key.
type Digest = [u64; 2];

/// The secret under which keys are hashed.
#[derive(Debug)]
struct Secret([RandomState; 2]);

impl Secret {
    fn new() -> Secret {
        Secret([RandomState::new(), RandomState::new()])
    }

    fn digest(&self, key: &[u8]) -> Digest {
        self.0.each_ref().map(|half| half.hash_one(key))
    }
}

/// The open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    path_new: PathBuf,
    file: File,
    hold: Hold,
    /// Where the next record goes; the file may be longer after a failed write.
    end: u64,
    /// Void values that could not be overwritten; tried again with the next record.
    unwiped: Vec<Range<u64>>,
    secret: Secret,
    live: HashMap<Digest, Place>,
    live_bytes: u64,
    next_order: u64,
    /// No compaction below this end: set after one failed, so that it is not tried at each put.
    retry_at: u64,
}

impl Journal {
    /// Opens or makes the file, cuts off a record that was not finished, and returns the live
    /// records in order.
    pub(crate) fn open(path: &Path, path_new: &Path) -> Result<(Journal, Vec<Record>), VaultError> {
        zero::remove(path_new)
            .map_err(VaultError::io(path_new, "cannot remove what a dead process left"))?;
        let mut file = open_private(path, false)?;
        let mut bytes = Zeroizing::new(Vec::new());
        let len = file.metadata().map_err(VaultError::io(path, "cannot read the length"))?.len();
        // One allocation: a vector that grows leaves copies of keys behind.
        bytes.reserve_exact(len as usize + 1);
        file.read_to_end(&mut bytes).map_err(VaultError::io(path, "cannot read"))?;
        let replay = frame::replay(&bytes)
            .map_err(|source| VaultError::DamagedJournal { path: path.to_owned(), source })?;

        let mut journal = Journal {
            path: path.to_owned(),
            path_new: path_new.to_owned(),
            file,
            hold: Hold::default(),
            end: replay.sound_len as u64,
            unwiped: Vec::new(),
            secret: Secret::new(),
            live: HashMap::new(),
            live_bytes: 0,
            next_order: 0,
            retry_at: 0,
        };
        for (offset, frame) in &replay.frames {
            journal.note(frame, *offset as u64);
        }
        // The process before may have left files that it could not overwrite any more.
        journal.unwiped.retain(|value| {
            let value = &bytes[value.start as usize..value.end as usize];
            value.iter().any(|byte| *byte != 0)
        });
        journal.wipe_void().map_err(VaultError::io(path, "cannot overwrite void values"))?;
        if journal.end < MAGIC.len() as u64 {
            journal.write_at_end(MAGIC)?;
        } else {
            journal.cut()?;
            let covered = journal.hold.cover(&journal.file, journal.end);
            covered.map_err(VaultError::io(path, "cannot map"))?;
            journal.hold.touch(0..journal.end);
        }
        let mut live: Vec<(u64, Record)> = Vec::new();
        for (offset, Frame { key, value }) in &replay.frames {
            let place = journal.live.get(&journal.secret.digest(key));
            if let Some(place) = place.filter(|p| p.offset == *offset as u64) {
                let value = Zeroizing::new(value.unwrap_or_default().to_vec());
                live.push((place.order, Record { key: key.to_vec(), value }));
            }
        }
        live.sort_unstable_by_key(|(order, _)| *order);
        Ok((journal, live.into_iter().map(|(_, record)| record).collect()))
    }

    /// Appends one record; rewrites the file if too much of it is void.
    pub(crate) fn append(&mut self, frame: &Frame<'_>) -> Result<(), VaultError> {
        let check = |what, len, max| match len <= max {
            true => Ok(()),
            false => Err(VaultError::TooLong { what, len, max }),
        };
        check("a key", frame.key.len(), MAX_KEY_LEN)?;
        check("a value", frame.value.map_or(0, <[u8]>::len), MAX_VALUE_LEN)?;
        if frame.value.is_none() && !self.live.contains_key(&self.secret.digest(frame.key)) {
            return Ok(());
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(frame.encoded_len()));
        frame.encode(&mut bytes);
        let offset = self.end;
        self.write_at_end(&bytes)?;
        self.note(frame, offset);
        // The record is safe already: what fails here is tried again with the next one.
        let _ = self.wipe_void();
        let void = self.end - MAGIC.len() as u64 - self.live_bytes;
        if void > COMPACT_ABOVE && void > self.end / 2 && self.end >= self.retry_at {
            // The record is safe already, so a full file system is no failure of this call.
            if self.compact().is_err() {
                self.retry_at = self.end + COMPACT_ABOVE;
                // The next attempt or the next start removes the rest of it.
                let _ = zero::remove(&self.path_new);
            }
        }
        Ok(())
    }

    /// Updates the index by one record; the value that it makes void is to be overwritten.
    fn note(&mut self, frame: &Frame<'_>, offset: u64) {
        let key = self.secret.digest(frame.key);
        let old = match frame.value {
            None => self.live.remove(&key),
            Some(_) => {
                let kept = self.live.get(&key).map(|place| place.order);
                let order = kept.unwrap_or(self.next_order);
                self.next_order += 1;
                let len = frame.encoded_len() as u32;
                self.live_bytes += u64::from(len);
                self.live.insert(key, Place { order, offset, len })
            }
        };
        if let Some(old) = old {
            self.live_bytes -= u64::from(old.len);
            let value = old.value(frame.key.len());
            if !value.is_empty() {
                self.unwiped.push(value);
            }
        }
    }

    /// Overwrites void values with zeros.
    fn wipe_void(&mut self) -> io::Result<()> {
        while let Some(value) = self.unwiped.last() {
            overwrite(&self.file, value.clone())?;
            self.unwiped.pop();
        }
        Ok(())
    }

    /// Writes where the last record ends. After a failure the file is cut there again.
    fn write_at_end(&mut self, bytes: &[u8]) -> Result<(), VaultError> {
        let range = self.end..self.end + bytes.len() as u64;
        self.hold.cover(&self.file, range.end).map_err(VaultError::io(&self.path, "cannot map"))?;
        if let Err(e) = self.file.write_all_at(bytes, self.end) {
            // If this fails too, the next record overwrites the stump.
            let _ = self.cut();
            return Err(VaultError::io(&self.path, "cannot write")(e));
        }
        self.hold.touch(range.clone());
        self.end = range.end;
        Ok(())
    }

    /// Cuts off what follows the last whole record.
    fn cut(&self) -> Result<(), VaultError> {
        self.file.set_len(self.end).map_err(VaultError::io(&self.path, "cannot cut"))
    }

    /// Copies the live records to a new file and puts it in place of the old one.
    fn compact(&mut self) -> io::Result<()> {
        let new = open_private(&self.path_new, true).map_err(io::Error::other)?;
        let mut hold = Hold::default();
        hold.cover(&new, MAGIC.len() as u64 + self.live_bytes)?;
        new.write_all_at(MAGIC, 0)?;
        let mut in_order: Vec<&mut Place> = self.live.values_mut().collect();
        in_order.sort_unstable_by_key(|place| place.order);
        let mut end = MAGIC.len() as u64;
        let mut buffer = Zeroizing::new(vec![0; COPIED_AT_ONCE]);
        // Most live records are adjacent: two system calls copy many of them.
        let runs = in_order.chunk_by(|a, b| a.end() == b.offset);
        for run in runs {
            let mut offset = run[0].offset;
            let mut left: u64 = run.iter().map(|place| u64::from(place.len)).sum();
            while left > 0 {
                let len = left.min(COPIED_AT_ONCE as u64);
                let piece = &mut buffer[..len as usize];
                self.file.read_exact_at(piece, offset)?;
                new.write_all_at(piece, end)?;
                hold.touch(end..end + len);
                (offset, end, left) = (offset + len, end + len, left - len);
            }
        }
        fs::rename(&self.path_new, &self.path)?;
        let mut at = MAGIC.len() as u64;
        for place in in_order {
            place.offset = at;
            at += u64::from(place.len);
        }
        self.live.shrink_to(2 * self.live.len());
        // No name leads to the old file: what cannot be overwritten is given back as it is.
        let _ = overwrite(&self.file, 0..self.end);
        self.unwiped.clear();
        (self.file, self.hold, self.end) = (new, hold, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(dir: &Path) -> (Journal, Vec<Record>) {
        Journal::open(&dir.join("journal"), &dir.join("journal.new")).unwrap()
    }

    fn pairs(records: &[Record]) -> Vec<(&[u8], &[u8])> {
        records.iter().map(|r| (r.key.as_slice(), r.value.as_slice())).collect()
    }

    fn put(journal: &mut Journal, key: &[u8], value: &[u8]) {
        journal.append(&Frame { key, value: Some(value) }).unwrap();
    }

    #[test]
    fn a_new_value_keeps_the_place_and_a_removed_key_loses_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, none) = open(dir.path());
        assert!(none.is_empty());
        for key in [b"a", b"b", b"c", b"d"] {
            put(&mut j, key, b"1");
        }
        put(&mut j, b"a", b"2");
        j.append(&Frame { key: b"b", value: None }).unwrap();
        put(&mut j, b"b", b"2");
        j.append(&Frame { key: b"c", value: None }).unwrap();
        drop(j);
        let (_, records) = open(dir.path());
        let want: [(&[u8], &[u8]); 3] = [(b"a", b"2"), (b"d", b"1"), (b"b", b"2")];
        assert_eq!(pairs(&records), want);
    }

    #[test]
    fn a_torn_record_is_cut_and_the_next_one_follows_the_last_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, _) = open(dir.path());
        put(&mut j, b"first", b"1");
        let sound = j.end;
        put(&mut j, b"second", b"2");
        drop(j);
        let path = dir.path().join("journal");
        let whole = fs::read(&path).unwrap();
        for cut in sound as usize..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut j, records) = open(dir.path());
            assert_eq!(pairs(&records), [(&b"first"[..], &b"1"[..])]);
            put(&mut j, b"third", b"3");
            drop(j);
            let (_, records) = open(dir.path());
            assert_eq!(records.len(), 2);
            assert_eq!(records[1].key, b"third");
        }
    }

    #[test]
    fn compaction_bounds_the_file_and_keeps_order_and_values() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, _) = open(dir.path());
        let big = |i: u32| vec![i as u8; 10_000];
        put(&mut j, b"kept", b"first of all");
        // Runs of neighbours that are longer than the buffer of the copy.
        for i in 0..1000u32 {
            put(&mut j, &(i % 40).to_le_bytes(), &big(i));
        }
        put(&mut j, b"last", b"");
        let len = fs::metadata(dir.path().join("journal")).unwrap().len();
        assert!(len < 3 * COMPACT_ABOVE, "{len}");
        assert_eq!(len, j.end);
        assert!(!dir.path().join("journal.new").exists());
        drop(j);
        let (_, records) = open(dir.path());
        assert_eq!(records.len(), 42);
        assert_eq!(records[0].value.as_slice(), b"first of all");
        for i in 0..40u32 {
            let r = &records[1 + i as usize];
            assert_eq!(
                (r.key.as_slice(), r.value.as_slice()),
                (&i.to_le_bytes()[..], &big(960 + i)[..])
            );
        }
        assert_eq!(records[41].key, b"last");
    }

    #[test]
    fn a_compaction_that_died_half_way_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, _) = open(dir.path());
        put(&mut j, b"k", b"v");
        drop(j);
        fs::write(dir.path().join("journal.new"), b"CVJRNL01 half a copy").unwrap();
        let (_, records) = open(dir.path());
        assert_eq!(pairs(&records), [(&b"k"[..], &b"v"[..])]);
        assert!(!dir.path().join("journal.new").exists());
    }

    #[test]
    fn a_compaction_that_cannot_be_written_does_not_fail_the_put() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, _) = open(dir.path());
        fs::create_dir(dir.path().join("journal.new")).unwrap();
        let big = vec![1; MAX_VALUE_LEN];
        for _ in 0..6 {
            put(&mut j, b"k", &big);
        }
        assert!(j.end > 5 * MAX_VALUE_LEN as u64, "not compacted");
        fs::remove_dir(dir.path().join("journal.new")).unwrap();
        for _ in 0..2 {
            put(&mut j, b"k", &big);
        }
        assert!(j.end < 3 * MAX_VALUE_LEN as u64, "compacted later: {}", j.end);
    }

    #[test]
    fn too_long_keys_and_values_are_refused_and_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (mut j, _) = open(dir.path());
        let end = j.end;
        let long = vec![0; MAX_VALUE_LEN + 1];
        for frame in [
            Frame { key: &long[..MAX_KEY_LEN + 1], value: Some(b"") },
            Frame { key: b"", value: Some(&long) },
        ] {
            assert!(matches!(j.append(&frame), Err(VaultError::TooLong { .. })));
        }
        assert_eq!(j.end, end);
        put(&mut j, &long[..MAX_KEY_LEN], &long[..MAX_VALUE_LEN]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_reopened_journal_says_what_a_map_says(
            steps in proptest::collection::vec((0..6u8, proptest::option::of(0..4u8), any::<bool>()), 0..60),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (mut j, _) = open(dir.path());
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for (key, value, reopen) in steps {
                let value = value.map(|v| vec![v; usize::from(v) * 100]);
                j.append(&Frame { key: &[key], value: value.as_deref() }).unwrap();
                let at = model.iter().position(|(k, _)| k[..] == [key]);
                match (at, value) {
                    (Some(i), Some(v)) => model[i].1 = v,
                    (Some(i), None) => drop(model.remove(i)),
                    (None, Some(v)) => model.push((vec![key], v)),
                    (None, None) => {}
                }
                if reopen {
                    j.compact().unwrap();
                    j = open(dir.path()).0;
                }
            }
            drop(j);
            let (_, records) = open(dir.path());
            let got: Vec<_> = records.iter().map(|r| (r.key.clone(), r.value.to_vec())).collect();
            prop_assert_eq!(got, model);
        }
    }
}
