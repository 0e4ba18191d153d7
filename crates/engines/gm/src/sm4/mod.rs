//! SM4 (GB/T 32907): blocks of 16 bytes, keys of 16 bytes, 32 rounds.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod basis;
mod keys;
mod portable;

pub(crate) use keys::{LANES, LaneKeys, RoundKeys};

use keys::ROUNDS;
use zeroize::Zeroize;

#[cfg(target_arch = "x86_64")]
use self::basis::{BASIS, BASIS_CONSTANT};
use crate::isa::{Isa, Kind};

impl RoundKeys {
    /// Expands a key for encryption.
    pub(crate) fn expand(isa: Isa, key: &[u8; 16]) -> RoundKeys {
        let mut state = [0; 4];
        for ((word, bytes), system) in state.iter_mut().zip(key.as_chunks::<4>().0).zip(SYSTEM) {
            *word = u32::from_be_bytes(*bytes) ^ system;
        }
        let mut keys = [0; ROUNDS];
        for (round, round_key) in keys.iter_mut().enumerate() {
            let [a, b, c, d] = state;
            let t = portable::substitute(b ^ c ^ d ^ constant(round));
            let next = a ^ t ^ t.rotate_left(13) ^ t.rotate_left(23);
            state = [b, c, d, next];
            *round_key = match isa.kind() {
                Kind::Portable => next,
                #[cfg(target_arch = "x86_64")]
                _ => u32::from_le_bytes(
                    next.to_be_bytes().map(|byte| BASIS.apply(byte) ^ BASIS_CONSTANT),
                ),
            };
        }
        state.zeroize();
        RoundKeys(keys)
    }

    /// The keys for decryption: the same in the opposite order.
    pub(crate) fn reversed(&self) -> RoundKeys {
        let mut keys = self.0;
        keys.reverse();
        RoundKeys(keys)
    }
}

impl LaneKeys {
    /// No keys yet.
    pub(crate) const NONE: LaneKeys = LaneKeys([[0; LANES]; ROUNDS]);

    /// Gives a lane its key.
    pub(crate) fn set(&mut self, isa: Isa, lane: usize, keys: &RoundKeys) {
        let column = column(isa, lane);
        for (lanes, key) in self.0.iter_mut().zip(keys.0) {
            if let Some(place) = lanes.get_mut(column) {
                *place = key;
            }
        }
    }
}

/// Where in a vector the words of a block are: instructions that exchange words do so within 16 bytes.
fn column(isa: Isa, lane: usize) -> usize {
    match isa.kind() {
        Kind::Portable => lane,
        // Of each eight blocks two to a vector.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 | Kind::Vaes => lane / 8 * 8 + lane % 2 * 4 + lane % 8 / 2,
        // Of each 16 blocks four to a vector.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => lane / 16 * 16 + lane % 4 * 4 + lane % 16 / 4,
    }
}

/// Encrypts blocks in place, or decrypts them, with one key.
#[inline]
pub(crate) fn one(isa: Isa, keys: &RoundKeys, blocks: &mut [[u8; 16]]) {
    match isa.kind() {
        Kind::Portable => portable::one(keys, blocks),
        // SAFETY: such a value exists only where the processor has the instructions: Isa checks it.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::aes::one(keys, blocks) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Kind::Vaes => unsafe { avx2::vaes::one(keys, blocks) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::one(keys, blocks) },
    }
}

/// Encrypts one block of each lane in place, of the first `used` at least.
#[inline]
pub(crate) fn each(isa: Isa, keys: &LaneKeys, blocks: &mut [[u8; 16]; LANES], used: usize) {
    match isa.kind() {
        Kind::Portable => portable::each(keys, blocks, used),
        // SAFETY: such a value exists only where the processor has the instructions: Isa checks it.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2::aes::each(keys, blocks, used) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Kind::Vaes => unsafe { avx2::vaes::each(keys, blocks, used) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::each(keys, blocks, used) },
    }
}

/// FK (GB/T 32907 §7.3).
const SYSTEM: [u32; 4] = [0xa3b1_bac6, 0x56aa_3350, 0x677d_9197, 0xb270_22dc];

/// CK: byte `j` of word `i` is 7·(4i+j), modulo 256.
fn constant(round: usize) -> u32 {
    u32::from_be_bytes([0, 1, 2, 3].map(|byte| ((4 * round + byte) * 7) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GB/T 32907 annex A.1 and A.2, as RFC 8998 and draft-ribose-cfrg-sm4 repeat them.
    const KEY: [u8; 16] = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes();
    const ONCE: [u8; 16] = 0x681e_df34_d206_965e_86b3_e94f_536e_4246_u128.to_be_bytes();
    const MILLION: [u8; 16] = 0x5952_98c7_c6fd_271f_0402_f804_c33d_3f66_u128.to_be_bytes();

    #[test]
    fn the_standard_s_example() {
        for isa in Isa::available() {
            let keys = RoundKeys::expand(isa, &KEY);
            for count in [1, 2, 15, 16, 17, 31, 64, 65, 100] {
                let mut blocks = vec![KEY; count];
                one(isa, &keys, &mut blocks);
                assert_eq!(blocks, vec![ONCE; count], "{}", isa.name());
                one(isa, &keys.reversed(), &mut blocks);
                assert_eq!(blocks, vec![KEY; count], "{}", isa.name());
            }
        }
    }

    /// The standard's second example is the fastest implementation's alone: a million blocks, one after the other.
    #[test]
    fn the_standard_s_example_of_a_million() {
        let isa = *Isa::available().last().unwrap();
        let keys = RoundKeys::expand(isa, &KEY);
        let mut lanes = LaneKeys::NONE;
        (0..LANES).for_each(|lane| lanes.set(isa, lane, &keys));
        let mut blocks = [KEY; LANES];
        // Sixteen lanes that begin where the one before ends would be no chain: all do the same.
        for _ in 0..if cfg!(debug_assertions) { 10_000 } else { 1_000_000 } {
            each(isa, &lanes, &mut blocks, LANES);
        }
        if !cfg!(debug_assertions) {
            assert_eq!(blocks, [MILLION; LANES]);
        }
        assert!(blocks.iter().all(|block| *block == blocks[0]));
    }

    #[test]
    fn lanes_have_keys_of_their_own() {
        for isa in Isa::available() {
            let mut lanes = LaneKeys::NONE;
            let mut blocks = [[0; 16]; LANES];
            let mut wanted = blocks;
            for lane in 0..LANES {
                let keys = RoundKeys::expand(isa, &[lane as u8; 16]);
                lanes.set(isa, lane, &keys);
                blocks[lane] = [3 * lane as u8; 16];
                let mut alone = [blocks[lane]];
                one(isa, &keys, &mut alone);
                wanted[lane] = alone[0];
            }
            each(isa, &lanes, &mut blocks, LANES);
            assert_eq!(blocks, wanted, "{}", isa.name());
        }
    }
}
