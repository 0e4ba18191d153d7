//! Initialisation vectors.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

/// Where unpredictable IVs come from: a ChaCha12 generator, one per worker.
///
/// CBC needs IVs that nobody can predict (RFC 3602 §3, RFC 4303 §3.3.2.1). Counter modes need none
/// of this: their IV is the sequence number, combined with the SA's salt
/// ([`LiveNumbers::iv_salt`](crate::LiveNumbers::iv_salt)).
///
/// The generator runs for many packets at once. What it has made and nobody has taken yet is as
/// secret as its key: it is overwritten when the source is dropped.
pub struct IvSource {
    generator: ChaCha12Rng,
    /// Bytes made, of which the first `taken` have been handed out.
    made: Zeroizing<[u8; MADE_LEN]>,
    taken: usize,
}

/// Bytes made at once: 64 IVs of CBC.
const MADE_LEN: usize = 1024;

impl IvSource {
    /// A generator with a seed from the kernel.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn new() -> Result<IvSource, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(IvSource::from_seed(seed))
    }

    /// A generator whose output can be repeated. For tests and benchmarks: two sources with one
    /// seed give the same IVs.
    pub fn from_seed(seed: [u8; 32]) -> IvSource {
        let generator = ChaCha12Rng::from_seed(seed);
        IvSource { generator, made: Zeroizing::new([0; MADE_LEN]), taken: MADE_LEN }
    }

    /// A number that nobody can predict, to seed a hash.
    pub fn random(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Fills `iv` with unpredictable bytes, each of them handed out once.
    #[inline]
    pub fn fill(&mut self, iv: &mut [u8]) {
        match self.made.get(self.taken..).and_then(|rest| rest.get(..iv.len())) {
            Some(bytes) => {
                iv.copy_from_slice(bytes);
                self.taken += iv.len();
            }
            None => self.make_and_fill(iv),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_and_fill(&mut self, iv: &mut [u8]) {
        if iv.len() > MADE_LEN {
            // The rest of the block is not used.
            self.taken = MADE_LEN;
            return self.generator.fill_bytes(iv);
        }
        self.generator.fill_bytes(self.made.as_mut_slice());
        self.taken = 0;
        self.fill(iv);
    }
}

impl core::fmt::Debug for IvSource {
    /// Shows nothing of the state: a reader of the log that knew it could predict every later IV.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("IvSource")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_repeats_and_no_fixed_bits() {
        let mut source = IvSource::new().unwrap();
        let (mut ones, mut zeros) = (0u128, 0u128);
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let mut iv = [0; 16];
            source.fill(&mut iv);
            ones |= u128::from_be_bytes(iv);
            zeros |= !u128::from_be_bytes(iv);
            assert!(seen.insert(iv));
        }
        assert_eq!((ones, zeros), (u128::MAX, u128::MAX));
    }

    /// Whatever lengths are asked for, no byte of the generator's stream comes twice: all that was
    /// handed out is found in the stream in its order.
    #[test]
    fn no_byte_is_handed_out_twice() {
        let mut source = IvSource::from_seed([3; 32]);
        let mut stream = vec![0; 64 * 1024];
        ChaCha12Rng::from_seed([3; 32]).fill_bytes(&mut stream);
        let mut at = 0;
        for round in 0..2000usize {
            let len = [16, 16, 8, 1, 0, 16, 24, 1000, 1024, 1025, 3000][round % 11];
            let mut iv = vec![0; len];
            source.fill(&mut iv);
            if len < 8 {
                continue;
            }
            let Some(found) = stream[at..].windows(len).position(|bytes| bytes == iv) else {
                assert!(round > 50, "not in the stream");
                return;
            };
            assert!(found < MADE_LEN + 16, "a lot was skipped");
            at += found + len;
        }
    }

    #[test]
    fn two_sources_differ_unless_seeded_alike() {
        let take = |mut s: IvSource| {
            let mut iv = [0; 16];
            s.fill(&mut iv);
            iv
        };
        assert_ne!(take(IvSource::new().unwrap()), take(IvSource::new().unwrap()));
        assert_eq!(take(IvSource::from_seed([7; 32])), take(IvSource::from_seed([7; 32])));
        assert_eq!(format!("{:?}", IvSource::from_seed([7; 32])), "IvSource");
    }
}
