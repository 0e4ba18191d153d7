//! Four words of four rows, exchanged within each 16 bytes: words of blocks into words alone, and back.

use core::arch::x86_64::*;

/// Transposes vectors of 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn in_32([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (low_ab, high_ab) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (low_cd, high_cd) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(low_ab, low_cd),
        _mm256_unpackhi_epi64(low_ab, low_cd),
        _mm256_unpacklo_epi64(high_ab, high_cd),
        _mm256_unpackhi_epi64(high_ab, high_cd),
    ]
}

/// Transposes vectors of 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn in_64([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (low_ab, high_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (low_cd, high_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(low_ab, low_cd),
        _mm512_unpackhi_epi64(low_ab, low_cd),
        _mm512_unpacklo_epi64(high_ab, high_cd),
        _mm512_unpackhi_epi64(high_ab, high_cd),
    ]
}
