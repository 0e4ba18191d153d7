//! The journal's format: how a record lies in the file, and how a whole file is read.
//!
//! The file starts with [`MAGIC`]; then record follows record without padding:
//!
//! ```text
//!  byte 0        4            8             12          16
//!       +--------+------------+-------------+-----------+-----------+-------------+
//!       | key's  | value's    | CRC of the  | CRC of    | key       | value       |
//!       | length | length, or | first eight | key and   |           | (none for   |
//!       |        | 2^32 - 1   | bytes       | value     |           | 2^32 - 1)   |
//!       +--------+------------+-------------+-----------+-----------+-------------+
//! ```
//!
//! All integers are little-endian 32-bit numbers. The length 2^32 - 1 says that the key was
//! removed. The lengths have a CRC of their own, so that a record that is cut short (the process
//! died while it wrote) can be told from one whose length was damaged: only the end of the file
//! can be cut short, and everything else that does not fit is [`Corrupt`].
//!
//! One thing may not fit: a value that a later record of the same key has made void. The writer
//! overwrites it with zeros, and may have died half-way.

use std::collections::HashMap;

use crate::crc::crc32c;

/// How the file starts; the last two digits are the format's version.
pub(crate) const MAGIC: &[u8; 8] = b"CVJRNL01";

/// Bytes of a record before its key.
pub(crate) const HEADER_LEN: usize = 16;

/// The longest key in bytes.
pub const MAX_KEY_LEN: usize = 4096;

/// The longest value in bytes.
pub const MAX_VALUE_LEN: usize = 1 << 20;

/// Stands in the value's length for "removed".
const REMOVED: u32 = u32::MAX;

/// One entry of the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Key of the record.
    pub key: &'a [u8],
    /// The value, or `None` if the key was removed.
    pub value: Option<&'a [u8]>,
}

impl Frame<'_> {
    /// Length in the file, in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        HEADER_LEN + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Appends the record to `out`; the lengths were checked by the caller.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let value = self.value.unwrap_or_default();
        let value_len = self.value.map_or(REMOVED, |v| v.len() as u32);
        let mut lengths = [0; 8];
        lengths[..4].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&value_len.to_le_bytes());
        out.extend(lengths);
        out.extend(crc32c(&[&lengths]).to_le_bytes());
        out.extend(crc32c(&[self.key, value]).to_le_bytes());
        out.extend(self.key);
        out.extend(value);
    }
}

/// Shows lengths only: values hold keys of SAs.
impl core::fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let value_len = self.value.map(<[u8]>::len);
        f.debug_struct("Frame")
            .field("key_len", &self.key.len())
            .field("value_len", &value_len)
            .finish()
    }
}

/// A journal that no interrupted writer can have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The file starts with something else.
    #[error("not a journal of this version")]
    Magic,
    /// The lengths of the record at this byte offset.
    #[error("wrong lengths in the record at byte {0}")]
    Lengths(usize),
    /// The key or value of the record at this byte offset.
    #[error("wrong checksum in the record at byte {0}")]
    Body(usize),
}

/// A journal read from its first byte to its last whole record.
#[derive(Debug, PartialEq, Eq)]
pub struct Replay<'a> {
    /// The records with the byte offset of each, in the order written. The value of one that a
    /// later one has made void may be anything.
    pub frames: Vec<(usize, Frame<'a>)>,
    /// Bytes up to the end of the last whole record. What follows was being written when the
    /// writer died; 0 says that not even the magic is whole.
    pub sound_len: usize,
}

/// Reads a whole journal.
pub(crate) fn replay(bytes: &[u8]) -> Result<Replay<'_>, Corrupt> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        return match MAGIC.starts_with(bytes) {
            true => Ok(Replay { frames: Vec::new(), sound_len: 0 }),
            false => Err(Corrupt::Magic),
        };
    };
    let mut frames = Vec::new();
    // Records with a wrong checksum, by their key: each needs a later one with that key.
    let mut unsound: HashMap<&[u8], usize> = HashMap::new();
    loop {
        let offset = bytes.len() - rest.len();
        let Some(first) = split_first(rest, offset)? else {
            return match unsound.into_values().min() {
                Some(offset) => Err(Corrupt::Body(offset)),
                None => Ok(Replay { frames, sound_len: offset }),
            };
        };
        let frame = first.frame;
        match (first.is_sound, frame.value) {
            (true, _) => _ = unsound.remove(frame.key),
            (false, Some(_)) => _ = unsound.insert(frame.key, offset),
            // It has no value that could have been overwritten.
            (false, None) => return Err(Corrupt::Body(offset)),
        }
        frames.push((offset, frame));
        rest = first.rest;
    }
}

/// A whole record at the beginning of some bytes.
struct First<'a> {
    frame: Frame<'a>,
    /// True if its checksum is right.
    is_sound: bool,
    /// Bytes behind the frame.
    rest: &'a [u8],
}

/// The first record, or `None` if it is not whole.
fn split_first(bytes: &[u8], offset: usize) -> Result<Option<First<'_>>, Corrupt> {
    let Some((lengths, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
    let Some((lengths_crc, rest)) = split_u32(rest) else { return Ok(None) };
    if lengths_crc != crc32c(&[lengths]) {
        return Err(Corrupt::Lengths(offset));
    }
    let [a, b, c, d, e, f, g, h] = *lengths;
    let key_len = u32::from_le_bytes([a, b, c, d]);
    let value_len = u32::from_le_bytes([e, f, g, h]);
    let value_len = (value_len != REMOVED).then_some(value_len as usize);
    let key_len = key_len as usize;
    if key_len > MAX_KEY_LEN || value_len.is_some_and(|len| len > MAX_VALUE_LEN) {
        return Err(Corrupt::Lengths(offset));
    }
    let Some((body_crc, rest)) = split_u32(rest) else { return Ok(None) };
    let Some((key, rest)) = rest.split_at_checked(key_len) else { return Ok(None) };
    let Some((value, rest)) = rest.split_at_checked(value_len.unwrap_or(0)) else {
        return Ok(None);
    };
    let is_sound = body_crc == crc32c(&[key, value]);
    Ok(Some(First { frame: Frame { key, value: value_len.map(|_| value) }, is_sound, rest }))
}

fn split_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn journal(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        frames.iter().for_each(|f| f.encode(&mut bytes));
        bytes
    }

    const SAMPLE: [Frame<'_>; 3] = [
        Frame { key: b"sa/1", value: Some(b"secret") },
        Frame { key: b"", value: Some(b"") },
        Frame { key: b"sa/1", value: None },
    ];

    #[test]
    fn a_file_cut_anywhere_loses_only_the_cut_record() {
        let bytes = journal(&SAMPLE);
        let mut ends = vec![MAGIC.len()];
        for f in SAMPLE {
            ends.push(ends[ends.len() - 1] + f.encoded_len());
        }
        assert_eq!(ends[3], bytes.len());
        for cut in 0..=bytes.len() {
            let replay = replay(&bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(replay.frames.len(), whole.saturating_sub(1), "cut at {cut}");
            assert_eq!(replay.sound_len, whole.checked_sub(1).map_or(0, |i| ends[i]));
            for ((_, got), sent) in replay.frames.iter().zip(&SAMPLE) {
                assert_eq!(got, sent);
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_but_in_a_void_value_or_its_checksum() {
        let bytes = journal(&SAMPLE);
        let good = replay(&bytes).unwrap().frames;
        let first = MAGIC.len()..MAGIC.len() + SAMPLE[0].encoded_len();
        let (checksum, value) = (first.start + 12..first.start + 16, first.end - 6..first.end);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = replay(&bad);
            let is_void = checksum.contains(&(bit / 8)) || value.contains(&(bit / 8));
            assert_eq!(found.is_ok(), is_void, "bit {bit}: {found:?}, {good:?}");
        }
    }

    #[test]
    fn an_overwritten_value_is_damage_unless_a_later_record_has_its_key() {
        let old = Frame { key: b"sa/1", value: Some(b"secret") };
        let other = Frame { key: b"sa/2", value: Some(b"public") };
        let new = Frame { value: Some(b"newer"), ..old };
        let gone = Frame { value: None, ..old };
        let end = MAGIC.len() + old.encoded_len();
        for (later, is_fine) in [
            (vec![], false),
            (vec![other], false),
            (vec![new], true),
            (vec![gone], true),
            (vec![other, new, gone], true),
        ] {
            for wiped in 1..=6 {
                let mut bytes = journal(&[vec![old], later.clone()].concat());
                bytes[end - 6..end - 6 + wiped].fill(0);
                match replay(&bytes) {
                    Ok(found) => assert!(is_fine && found.frames.len() == 1 + later.len()),
                    Err(e) => assert_eq!((is_fine, e), (false, Corrupt::Body(MAGIC.len()))),
                }
            }
        }
        // The later one is to be sound itself.
        let mut bytes = journal(&[old, new]);
        bytes[end - 6..end].fill(0);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(replay(&bytes), Err(Corrupt::Body(end)));
    }

    #[test]
    fn lengths_above_the_limits_are_refused() {
        for (key_len, value_len) in [(MAX_KEY_LEN + 1, 0), (0, MAX_VALUE_LEN + 1)] {
            let bytes =
                journal(&[Frame { key: &vec![7; key_len], value: Some(&vec![7; value_len]) }]);
            assert_eq!(replay(&bytes), Err(Corrupt::Lengths(MAGIC.len())));
        }
    }

    #[test]
    fn a_value_is_not_shown() {
        assert!(!format!("{:?}", SAMPLE[0]).contains("secret"));
        assert!(!format!("{:?}", SAMPLE[0]).contains("115")); // 's'
    }

    proptest! {
        #[test]
        fn noise_never_panics(mut bytes: Vec<u8>, with_magic: bool) {
            if with_magic {
                bytes.splice(0..0, *MAGIC);
            }
            if let Ok(r) = replay(&bytes) {
                prop_assert!(r.sound_len <= bytes.len());
            }
        }

        #[test]
        fn what_was_written_is_read(
            entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
            torn in proptest::collection::vec(any::<u8>(), 0..7),
        ) {
            let frames: Vec<_> =
                entries.iter().map(|(k, v)| Frame { key: k, value: v.as_deref() }).collect();
            let mut bytes = journal(&frames);
            let sound_len = bytes.len();
            bytes.extend(torn);
            let r = replay(&bytes).unwrap();
            prop_assert_eq!(r.sound_len, sound_len);
            prop_assert_eq!(r.frames.iter().map(|(_, f)| *f).collect::<Vec<_>>(), frames);
        }
    }
}
