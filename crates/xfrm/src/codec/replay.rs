//! Replay state with a bitmap of any size (`xfrm_replay_state_esn`), and what its bits mean.

use netlink::{Field, Reader, TooShort, layout};

layout! {
    /// The fixed part of `xfrm_replay_state_esn`.
    EsnHead, 24 bytes {
        /// Words in the bitmap.
        words: u32,
        /// Last number sent, low half.
        oseq: u32,
        /// Highest number received, low half.
        seq: u32,
        /// Last number sent, high half.
        oseq_hi: u32,
        /// Highest number received, high half.
        seq_hi: u32,
        /// Window in packets.
        window: u32,
    }
}

/// `xfrm_replay_state_esn`.
///
/// The bitmap is a ring: a packet with sequence number `s` has bit `(s - 1) mod window`, counted
/// back from the highest number received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EsnReplay {
    /// Last number sent.
    pub sent: u64,
    /// Highest number received.
    pub edge: u64,
    /// Window in packets.
    pub window: u32,
    /// The bitmap's words.
    pub bitmap: Vec<u32>,
}

impl EsnReplay {
    /// Decodes; where only the fixed part is there, the bitmap is zero.
    ///
    /// # Errors
    /// Shorter than the fixed part, or between that and the bitmap that it announces, or a bitmap
    /// above [`MAX_BITMAP_WORDS`].
    pub fn decode(bytes: &[u8]) -> Result<EsnReplay, TooShort> {
        let mut r = Reader::new(bytes);
        let head = EsnHead::read(&mut r)?;
        let words = usize::try_from(head.words).map_err(|_| TooShort)?;
        if words > MAX_BITMAP_WORDS {
            return Err(TooShort);
        }
        let mut bitmap = Vec::with_capacity(words);
        if r.rest().is_empty() {
            bitmap.resize(words, 0);
        } else {
            for _ in 0..words {
                bitmap.push(u32::read(&mut r)?);
            }
        }
        Ok(EsnReplay {
            sent: u64::from(head.oseq_hi) << 32 | u64::from(head.oseq),
            edge: u64::from(head.seq_hi) << 32 | u64::from(head.seq),
            window: head.window,
            bitmap,
        })
    }

    /// The value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (oseq_hi, oseq) = halves(self.sent);
        let (seq_hi, seq) = halves(self.edge);
        let words = u32::try_from(self.bitmap.len()).unwrap_or(u32::MAX);
        let mut out = Vec::with_capacity(EsnHead::LEN + self.bitmap.len() * 4);
        EsnHead { words, oseq, seq, oseq_hi, seq_hi, window: self.window }.write(&mut out);
        for word in &self.bitmap {
            word.write(&mut out);
        }
        out
    }

    /// True if the window fits into the bitmap.
    pub fn window_fits(&self) -> bool {
        u64::from(self.window) <= self.bitmap.len() as u64 * 32
    }

    /// The packets received, as a row of bits that starts with the edge: bit 0 of the first word
    /// is the edge itself, the next bit the number before it.
    pub fn received(&self) -> Vec<u64> {
        let bits = u32::try_from(self.bitmap.len() * 32).unwrap_or(u32::MAX);
        let window = self.window.min(bits);
        let mut row = vec![0u64; (window as usize).div_ceil(64)];
        for back in 0..window {
            let Some((word, bit)) = self.place(back) else { break };
            if self.bitmap.get(word).is_some_and(|w| w & bit != 0)
                && let Some(out) = row.get_mut(back as usize / 64)
            {
                *out |= 1 << (back % 64);
            }
        }
        row
    }

    /// Sets the bitmap from such a row.
    pub fn set_received(&mut self, row: &[u64]) {
        self.bitmap.fill(0);
        for back in 0..self.window {
            let set = row.get(back as usize / 64).is_some_and(|w| w >> (back % 64) & 1 != 0);
            if let Some((word, bit)) = self.place(back).filter(|_| set)
                && let Some(out) = self.bitmap.get_mut(word)
            {
                *out |= bit;
            }
        }
    }

    /// Word and bit of the number `back` before the edge; `None` before number 1.
    fn place(&self, back: u32) -> Option<(usize, u32)> {
        if u64::from(back) >= self.edge.max(1) || self.window == 0 {
            return None;
        }
        let (_, low) = halves(self.edge);
        let top = low.wrapping_sub(1) % self.window;
        let nr = if top >= back { top - back } else { self.window - (back - top) };
        Some((nr as usize / 32, 1 << (nr % 32)))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
const fn halves(n: u64) -> (u32, u32) {
    ((n >> 32) as u32, n as u32)
}

/// The largest bitmap in 32-bit words: windows to 65536 packets. Linux stops at 128 words.
pub const MAX_BITMAP_WORDS: usize = 2048;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_a_bitmap_it_is_zero() {
        let mut bytes =
            EsnReplay { sent: 1 << 33, edge: 5, window: 64, bitmap: vec![9, 9] }.to_bytes();
        assert_eq!(bytes.len(), 32);
        bytes.truncate(24);
        let r = EsnReplay::decode(&bytes).unwrap();
        assert_eq!((r.sent, r.edge, r.bitmap.as_slice()), (1 << 33, 5, &[0, 0][..]));
        bytes.push(0);
        assert_eq!(EsnReplay::decode(&bytes), Err(TooShort));
    }

    #[test]
    fn too_large_a_bitmap_is_refused() {
        let mut bytes = EsnReplay { sent: 0, edge: 0, window: 32, bitmap: vec![0] }.to_bytes();
        bytes[..4].copy_from_slice(&2049u32.to_ne_bytes());
        assert_eq!(EsnReplay::decode(&bytes[..24]), Err(TooShort));
    }

    #[test]
    fn bits_count_back_from_the_edge() {
        // Numbers 1, 2 and 4 of a window of 32 were received: bits 0, 1 and 3 of the ring.
        let r = EsnReplay { sent: 0, edge: 4, window: 32, bitmap: vec![0b1011] };
        assert_eq!(r.received(), [0b1101]);
        // Number 33 sits where number 1 sat.
        let r = EsnReplay { sent: 0, edge: 33, window: 32, bitmap: vec![0b11] };
        assert_eq!(r.received(), [1 | 1 << 31]);
    }

    #[test]
    fn nothing_before_number_one() {
        let mut r = EsnReplay { sent: 0, edge: 2, window: 32, bitmap: vec![0] };
        r.set_received(&[u64::MAX]);
        assert_eq!(r.bitmap, [0b11]);
    }

    proptest! {
        #[test]
        fn rows_round_trip(
            edge in 65536u64..(1 << 40),
            words in 1usize..8,
            short in 0u32..31,
            row in proptest::collection::vec(any::<u64>(), 8),
        ) {
            let window = u32::try_from(words * 32).unwrap() - short;
            let mut r = EsnReplay { sent: 0, edge, window, bitmap: vec![0; words] };
            r.set_received(&row);
            let back = r.received();
            for i in 0..window as usize {
                prop_assert_eq!(back[i / 64] >> (i % 64) & 1, row[i / 64] >> (i % 64) & 1);
            }
            prop_assert_eq!(EsnReplay::decode(&r.to_bytes()).unwrap(), r);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(r) = EsnReplay::decode(&noise) {
                prop_assert!(r.received().len() * 64 < noise.len() * 8 + 65536 + 64);
            }
        }
    }
}
