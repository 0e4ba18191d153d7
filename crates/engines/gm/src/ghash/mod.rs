//! GHASH (NIST SP 800-38D §6.4), computed as POLYVAL (RFC 8452 appendix A), whose bits are in the order that processors have: with a
//! key that is the byte-reversed key times x, and of blocks that are byte-reversed.

mod key;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use key::GhashKey;
use key::STRIDE;
use zeroize::Zeroize;

use crate::isa::{Isa, Kind};

impl GhashKey {
    /// From the block of zeros, encrypted.
    pub(crate) fn new(hash_key: [u8; 16]) -> GhashKey {
        let reversed = u128::from_be_bytes(hash_key);
        // Times x, modulo x¹²⁸+x¹²⁷+x¹²⁶+x¹²¹+1.
        let key = reversed << 1 ^ POLYNOMIAL & 0_u128.wrapping_sub(reversed >> 127);
        let mut powers = [key; STRIDE];
        for place in (0..STRIDE - 1).rev() {
            powers[place] = portable::dot(powers[place + 1], key);
        }
        GhashKey(powers)
    }
}

/// The polynomial but for x¹²⁸.
const POLYNOMIAL: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;

/// A sum under way.
#[derive(Clone, Copy, Default, Zeroize)]
pub(crate) struct Sum(u128);

impl Sum {
    /// Takes whole blocks in.
    #[inline]
    pub(crate) fn add(&mut self, isa: Isa, key: &GhashKey, blocks: &[[u8; 16]]) {
        self.0 = match isa.kind() {
            Kind::Portable => portable::add(self.0, key, blocks),
            // SAFETY: such a value exists only where the processor has the instructions: Isa checks it.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { x86::narrow(self.0, key, blocks) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kind::Vaes => unsafe { x86::two(self.0, key, blocks) },
            // SAFETY: likewise.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { x86::four(self.0, key, blocks) },
        }
    }

    /// Takes bytes in, the last block filled up with zeros.
    #[inline]
    pub(crate) fn add_padded(&mut self, isa: Isa, key: &GhashKey, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        if !blocks.is_empty() {
            self.add(isa, key, blocks);
        }
        if !rest.is_empty() {
            let mut last = [0; 16];
            last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.add(isa, key, &[last]);
        }
    }

    /// The sum as GHASH has it.
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second test case of "The Galois/Counter Mode of Operation" (McGrew and Viega), appendix B.
    #[test]
    fn the_published_case() {
        let key = GhashKey::new(0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e_u128.to_be_bytes());
        let text = 0x0388_dace_60b6_a392_f328_c2b9_71b2_fe78_u128.to_be_bytes();
        let lengths = 128_u128.to_be_bytes();
        for isa in Isa::available() {
            let mut sum = Sum::default();
            sum.add(isa, &key, &[text, lengths]);
            let wanted = 0xf38c_bb1a_d692_23dc_c345_7ae5_b6b0_f885_u128.to_be_bytes();
            assert_eq!(sum.bytes(), wanted, "{}", isa.name());
        }
    }

    #[test]
    fn all_agree_on_every_length() {
        let key = GhashKey::new(core::array::from_fn(|i| (i * 37 + 129) as u8));
        let bytes: Vec<u8> = (0..16 * 70_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in (0..bytes.len()).step_by(7) {
            let sums = Isa::available().into_iter().map(|isa| {
                let mut sum = Sum(77);
                sum.add_padded(isa, &key, &bytes[..len]);
                sum.bytes()
            });
            let sums: Vec<_> = sums.collect();
            assert!(sums.iter().all(|sum| *sum == sums[0]), "{len}");
        }
    }
}
