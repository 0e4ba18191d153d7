//! Initialisation vectors.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Where unpredictable IVs come from: a ChaCha12 generator, one per worker.
///
/// CBC needs IVs that nobody can predict (RFC 3602 §3, RFC 4303 §3.3.2.1). Counter modes need none
/// of this: their IV is the sequence number.
pub struct IvSource(ChaCha12Rng);

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
        IvSource(ChaCha12Rng::from_seed(seed))
    }

    /// Fills `iv` with unpredictable bytes.
    pub fn fill(&mut self, iv: &mut [u8]) {
        self.0.fill_bytes(iv);
    }
}

impl core::fmt::Debug for IvSource {
    /// Shows nothing of the state: whoever knows it can predict every later IV.
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
