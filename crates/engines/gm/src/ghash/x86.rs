//! POLYVAL by instructions that multiply without carries: of one, two or four blocks.
//!
//! Blocks of a stride are multiplied by falling powers of the key, and the sum of all products is reduced once.

#![allow(
    clippy::needless_range_loop,
    reason = "what an iterator or an array maps with is compiled without the instructions: vectors would go through memory"
)]

use core::arch::x86_64::*;

use super::key::{GhashKey, STRIDE};

#[target_feature(enable = "avx2,pclmulqdq")]
pub(super) fn narrow(sum: u128, key: &GhashKey, blocks: &[[u8; 16]]) -> u128 {
    strides(sum, key, blocks, |first, blocks, powers| products(first, blocks, powers))
}

#[target_feature(enable = "avx2,pclmulqdq,vpclmulqdq")]
pub(super) fn two(sum: u128, key: &GhashKey, blocks: &[[u8; 16]]) -> u128 {
    strides(sum, key, blocks, |first, blocks, powers| {
        let (wide, rest) = blocks.as_chunks::<2>();
        let (wide_powers, rest_powers) = powers.as_chunks::<2>();
        let mut first = _mm256_zextsi128_si256(first);
        let swap = _mm256_broadcastsi128_si256(swap());
        let mut sums = [_mm256_setzero_si256(); 3];
        for (blocks, powers) in wide.iter().zip(wide_powers) {
            // SAFETY: 32 bytes are read that are there; they may lie anywhere.
            let x = unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) };
            // SAFETY: likewise.
            let power = unsafe { _mm256_loadu_si256(powers.as_ptr().cast()) };
            let x = _mm256_xor_si256(_mm256_shuffle_epi8(x, swap), first);
            first = _mm256_setzero_si256();
            let cross = _mm256_xor_si256(
                _mm256_clmulepi64_epi128::<0x01>(x, power),
                _mm256_clmulepi64_epi128::<0x10>(x, power),
            );
            let [low, high] = [
                _mm256_clmulepi64_epi128::<0x00>(x, power),
                _mm256_clmulepi64_epi128::<0x11>(x, power),
            ];
            sums = [
                _mm256_xor_si256(sums[0], low),
                _mm256_xor_si256(sums[1], high),
                _mm256_xor_si256(sums[2], cross),
            ];
        }
        let sums = [halves(sums[0]), halves(sums[1]), halves(sums[2])];
        more(sums, products(_mm256_castsi256_si128(first), rest, rest_powers))
    })
}

#[target_feature(enable = "avx2,avx512f,avx512bw,pclmulqdq,vpclmulqdq")]
pub(super) fn four(sum: u128, key: &GhashKey, blocks: &[[u8; 16]]) -> u128 {
    strides(sum, key, blocks, |first, blocks, powers| {
        let (wide, rest) = blocks.as_chunks::<4>();
        let (wide_powers, rest_powers) = powers.as_chunks::<4>();
        let mut first = _mm512_zextsi128_si512(first);
        let swap = _mm512_broadcast_i32x4(swap());
        let mut sums = [_mm512_setzero_si512(); 3];
        for (blocks, powers) in wide.iter().zip(wide_powers) {
            // SAFETY: 64 bytes are read that are there; they may lie anywhere.
            let x = unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) };
            // SAFETY: likewise.
            let power = unsafe { _mm512_loadu_si512(powers.as_ptr().cast()) };
            let x = _mm512_xor_si512(_mm512_shuffle_epi8(x, swap), first);
            first = _mm512_setzero_si512();
            let cross = _mm512_xor_si512(
                _mm512_clmulepi64_epi128::<0x01>(x, power),
                _mm512_clmulepi64_epi128::<0x10>(x, power),
            );
            let [low, high] = [
                _mm512_clmulepi64_epi128::<0x00>(x, power),
                _mm512_clmulepi64_epi128::<0x11>(x, power),
            ];
            sums = [
                _mm512_xor_si512(sums[0], low),
                _mm512_xor_si512(sums[1], high),
                _mm512_xor_si512(sums[2], cross),
            ];
        }
        let sums = [quarters(sums[0]), quarters(sums[1]), quarters(sums[2])];
        more(sums, products(_mm512_castsi512_si128(first), rest, rest_powers))
    })
}

/// The sum of a vector's halves.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(sum: __m256i) -> __m128i {
    _mm_xor_si128(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum))
}

/// The sum of a vector's quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters(sum: __m512i) -> __m128i {
    halves(_mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum)))
}

/// Sums of products: the lower halves', the upper halves', those of one with the other.
type Products = [__m128i; 3];

/// Stride by stride; `multiply` is given what is added to the first block, the blocks, and as many powers.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq")]
fn strides(
    sum: u128,
    key: &GhashKey,
    blocks: &[[u8; 16]],
    multiply: impl Fn(__m128i, &[[u8; 16]], &[u128]) -> Products,
) -> u128 {
    let mut sum = vector(sum);
    for blocks in blocks.chunks(STRIDE) {
        sum = reduced(multiply(sum, blocks, &key.0[STRIDE - blocks.len()..]));
    }
    let [high, low] = [_mm_extract_epi64::<1>(sum), _mm_extract_epi64::<0>(sum)];
    u128::from(high as u64) << 64 | u128::from(low as u64)
}

#[inline]
#[target_feature(enable = "avx2,pclmulqdq")]
fn products(mut first: __m128i, blocks: &[[u8; 16]], powers: &[u128]) -> Products {
    let mut sums = [_mm_setzero_si128(); 3];
    for (block, power) in blocks.iter().zip(powers) {
        // SAFETY: 16 bytes are read that are there; they may lie anywhere.
        let x = unsafe { _mm_loadu_si128(block.as_ptr().cast()) };
        let x = _mm_xor_si128(_mm_shuffle_epi8(x, swap()), first);
        first = _mm_setzero_si128();
        let power = vector(*power);
        let cross = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x01>(x, power),
            _mm_clmulepi64_si128::<0x10>(x, power),
        );
        let [low, high] =
            [_mm_clmulepi64_si128::<0x00>(x, power), _mm_clmulepi64_si128::<0x11>(x, power)];
        sums = more(sums, [low, high, cross]);
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2")]
fn more(mut sums: Products, products: Products) -> Products {
    for part in 0..3 {
        sums[part] = _mm_xor_si128(sums[part], products[part]);
    }
    sums
}

/// Twice, the lowest 64 bits are made zero by a multiple of the polynomial, and go.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq")]
fn reduced([low, high, cross]: Products) -> __m128i {
    let polynomial = _mm_set_epi64x(0, 0xc200_0000_0000_0000_u64.cast_signed());
    let mut low = _mm_xor_si128(low, _mm_slli_si128::<8>(cross));
    for _ in 0..2 {
        let part = _mm_clmulepi64_si128::<0x00>(low, polynomial);
        low = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(low), part);
    }
    _mm_xor_si128(low, _mm_xor_si128(high, _mm_srli_si128::<8>(cross)))
}

/// A block's bytes in the opposite order.
#[inline]
#[target_feature(enable = "avx2")]
fn swap() -> __m128i {
    _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}
