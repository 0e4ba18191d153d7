//! A byte stream put together from pieces that come in any order, within bounds.
//!
//! ```text
//!   offset 0                                 MOST_BYTES
//!   |#########|....|####|......|###|.............|
//!   prefix()       parts that wait for what is before them
//! ```
//!
//! Bytes that came first stay: who sends the same offset again with other bytes changes nothing.

/// A stream from offset 0 on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// Parts that are there, in order, with gaps between.
    parts: Vec<(usize, usize)>,
}

/// The longest beginning of a stream that is kept, in bytes: more than the largest ClientHello that is seen, with shares of
/// post-quantum keys and tickets.
pub(crate) const MOST_BYTES: usize = 16 * 1024;

/// Parts with gaps between them, at most: browsers cut a ClientHello into some ten, in random order.
const MOST_PARTS: usize = 64;

/// There are more gaps, or the bytes are further on, than is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl Pieces {
    /// Adds bytes at an offset. What lies beyond [`MOST_BYTES`] is cut off.
    ///
    /// # Errors
    /// There would be too many gaps; the stream stays as it was.
    pub(crate) fn insert(&mut self, offset: usize, bytes: &[u8]) -> Result<(), TooMuch> {
        let end = offset.saturating_add(bytes.len()).min(MOST_BYTES);
        if offset >= MOST_BYTES || offset >= end {
            return if bytes.is_empty() { Ok(()) } else { Err(TooMuch) };
        }
        let first = self.parts.partition_point(|(_, part_end)| *part_end < offset);
        let last = self.parts.partition_point(|(start, _)| *start <= end);
        if first == last && self.parts.len() >= MOST_PARTS {
            return Err(TooMuch);
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let touched = self.parts.get(first..last).unwrap_or_default();
        let mut at = offset;
        let (mut start, mut stop) = (offset, end);
        for (part_start, part_end) in touched.iter().copied() {
            Self::fill(&mut self.bytes, offset, bytes, (at, part_start.min(end)));
            at = at.max(part_end);
            (start, stop) = (start.min(part_start), stop.max(part_end));
        }
        Self::fill(&mut self.bytes, offset, bytes, (at, end));
        self.parts.splice(first..last, [(start, stop)]);
        Ok(())
    }

    /// Copies the bytes of a gap.
    fn fill(into: &mut [u8], offset: usize, bytes: &[u8], (from, to): (usize, usize)) {
        if from >= to {
            return;
        }
        if let (Some(gap), Some(new)) =
            (into.get_mut(from..to), bytes.get(from - offset..to - offset))
        {
            gap.copy_from_slice(new);
        }
    }

    /// Has the stream begin earlier by so many bytes, which are not there yet.
    ///
    /// # Errors
    /// It would be longer than is kept; it stays as it was.
    pub(crate) fn begin_earlier(&mut self, by: usize) -> Result<(), TooMuch> {
        if self.bytes.len().saturating_add(by) > MOST_BYTES {
            return Err(TooMuch);
        }
        self.bytes.splice(0..0, core::iter::repeat_n(0, by));
        for (start, end) in &mut self.parts {
            (*start, *end) = (*start + by, *end + by);
        }
        Ok(())
    }

    /// The bytes from the beginning up to the first gap.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self.parts.first() {
            Some((0, end)) => self.bytes.get(..*end).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.bytes.capacity() + self.parts.capacity() * size_of::<(usize, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_that_came_first_stay() {
        let mut pieces = Pieces::default();
        pieces.insert(2, b"cd").expect("room");
        assert_eq!(pieces.prefix(), b"");
        pieces.insert(0, b"abXXef").expect("room");
        assert_eq!(pieces.prefix(), b"abcdef");
        pieces.insert(0, b"zzzzzz").expect("room");
        assert_eq!(pieces.prefix(), b"abcdef");
    }

    #[test]
    fn gaps_and_lengths_are_bounded() {
        let mut pieces = Pieces::default();
        for n in 0..MOST_PARTS {
            pieces.insert(10 + n * 2, b"a").expect("room");
        }
        let before = pieces.parts.clone();
        assert_eq!(pieces.insert(9_000, b"a"), Err(TooMuch));
        assert_eq!(pieces.insert(MOST_BYTES, b"a"), Err(TooMuch));
        assert_eq!(pieces.insert(usize::MAX, b"ab"), Err(TooMuch));
        assert_eq!(pieces.parts, before);
        pieces.insert(11, &[b'b'; MOST_BYTES]).expect("it joins what is there");
        assert_eq!(pieces.parts, [(10, MOST_BYTES)]);
        assert!(pieces.footprint() < 2 * MOST_BYTES);
    }

    #[test]
    fn a_stream_may_turn_out_to_have_begun_earlier() {
        let mut pieces = Pieces::default();
        pieces.insert(0, b"def").expect("room");
        pieces.begin_earlier(3).expect("room");
        pieces.insert(0, b"abc").expect("room");
        assert_eq!(pieces.prefix(), b"abcdef");
        assert_eq!(pieces.begin_earlier(MOST_BYTES), Err(TooMuch));
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_stream(
            stream in prop::collection::vec(any::<u8>(), 1..600),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            turns in prop::collection::vec(any::<prop::sample::Index>(), 40),
            overlap in 0usize..5,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let mut parts: Vec<(usize, usize)> = cuts.windows(2)
                .map(|cut| (cut[0].saturating_sub(overlap), cut[1]))
                .collect();
            for (at, turn) in turns.iter().enumerate().take(parts.len()) {
                let other = turn.index(parts.len());
                parts.swap(at, other);
            }
            let mut pieces = Pieces::default();
            for (start, end) in parts {
                pieces.insert(start, &stream[start..end]).expect("few gaps");
            }
            prop_assert_eq!(pieces.prefix(), &stream[..]);
        }
    }
}
