//! SM3 of eight messages side by side, twice: a vector has one word of each.

#![allow(
    clippy::needless_range_loop,
    reason = "what an iterator or an array maps with is compiled without the instructions: vectors would go through memory"
)]

use core::arch::x86_64::*;

use super::rounds::rounds;
use super::words::{BLOCK_LEN, CONSTANTS, LANES, States};
use crate::transpose;

/// Messages to a vector.
const WIDTH: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) fn compress(states: &mut States, blocks: &[&[u8; BLOCK_LEN]; LANES], used: usize) {
    let halves = blocks.as_chunks::<WIDTH>().0.iter().enumerate();
    for (half, blocks) in halves.take(used.div_ceil(WIDTH)) {
        let mut state = [_mm256_setzero_si256(); 8];
        for word in 0..8 {
            let words = &states.0[word].as_chunks::<WIDTH>().0[half];
            // SAFETY: 32 bytes are read that are there; they may lie anywhere.
            state[word] = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        }
        let state = rounds(state, message(blocks));
        for word in 0..8 {
            let words = &mut states.0[word].as_chunks_mut::<WIDTH>().0[half];
            // SAFETY: 32 bytes are written that are there and nobody else's; they may lie anywhere.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), state[word]) };
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn rounds(state: [__m256i; 8], mut w: Words) -> [__m256i; 8] {
    let mut after = rounds!(round, state, &mut w);
    for word in 0..8 {
        after[word] = _mm256_xor_si256(after[word], state[word]);
    }
    after
}

/// One round, where the new A takes D's place and the new E takes H's. The message's words go round in sixteen places: a round needs
/// its own and that of four rounds on, which is made then.
#[inline]
#[target_feature(enable = "avx2")]
fn round<const LATE: bool, const EXPAND: bool>(
    w: &mut Words,
    j: usize,
    [a, e]: [__m256i; 2],
    [b, f]: [&mut __m256i; 2],
    [c, g]: [__m256i; 2],
    [d, h]: [&mut __m256i; 2],
) {
    let add = |x, y| _mm256_add_epi32(x, y);
    let xor = |x, y| _mm256_xor_si256(x, y);
    let and = |x, y| _mm256_and_si256(x, y);
    let now = w[j % 16];
    let mut later = w[(j + 4) % 16];
    if EXPAND {
        let x = xor(xor(later, w[(j + 11) % 16]), turn::<15>(w[(j + 1) % 16]));
        let x15 = turn::<15>(x);
        let p1 = xor(xor(x, x15), turn_byte(x15));
        later = xor(xor(p1, turn::<7>(w[(j + 7) % 16])), w[(j + 14) % 16]);
        w[(j + 4) % 16] = later;
    }
    let a12 = turn::<12>(a);
    let ss1 = turn::<7>(add(add(a12, e), _mm256_set1_epi32(CONSTANTS[j] as i32)));
    let ss2 = xor(ss1, a12);
    let (ff, gg) = if LATE {
        // The majority, and the choice by E.
        (xor(and(xor(a, *b), xor(*b, c)), *b), xor(and(xor(*f, g), e), g))
    } else {
        (xor(xor(a, *b), c), xor(xor(e, *f), g))
    };
    *d = add(add(ff, *d), add(ss2, xor(now, later)));
    let tt2 = add(add(gg, *h), add(ss1, now));
    *b = turn::<9>(*b);
    *f = turn::<19>(*f);
    let t9 = turn::<9>(tt2);
    *h = xor(xor(tt2, t9), turn_byte(t9));
}

/// A message's last sixteen words, of eight messages.
type Words = [__m256i; 16];

/// Turns each word left.
#[inline]
#[target_feature(enable = "avx2")]
fn turn<const BY: i32>(x: __m256i) -> __m256i {
    // The other shift's number would be an expression, which a constant parameter cannot be.
    let right = match BY {
        7 => _mm256_srli_epi32::<25>(x),
        9 => _mm256_srli_epi32::<23>(x),
        12 => _mm256_srli_epi32::<20>(x),
        15 => _mm256_srli_epi32::<17>(x),
        _ => _mm256_srli_epi32::<13>(x),
    };
    _mm256_or_si256(_mm256_slli_epi32::<BY>(x), right)
}

/// Turns each word left by a byte.
#[inline]
#[target_feature(enable = "avx2")]
fn turn_byte(x: __m256i) -> __m256i {
    let places = _mm256_setr_epi8(
        3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10,
        15, 12, 13, 14,
    );
    _mm256_shuffle_epi8(x, places)
}

/// The messages' words as numbers, vector by vector.
#[inline]
#[target_feature(enable = "avx2")]
fn message(blocks: &[&[u8; BLOCK_LEN]; WIDTH]) -> Words {
    let swap = _mm256_setr_epi8(
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8,
        15, 14, 13, 12,
    );
    let mut w = [_mm256_setzero_si256(); 16];
    for half in 0..2 {
        let w = &mut w.as_chunks_mut::<8>().0[half];
        let mut rows = [_mm256_setzero_si256(); 8];
        for lane in 0..WIDTH {
            let bytes = &blocks[lane].as_chunks::<32>().0[half];
            // SAFETY: 32 bytes are read that are there; they may lie anywhere.
            rows[lane] = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
        }
        rows = transposed(rows);
        for word in 0..8 {
            w[word] = _mm256_shuffle_epi8(rows[word], swap);
        }
    }
    w
}

/// Eight words of eight rows, exchanged.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed([a, b, c, d, e, f, g, h]: [__m256i; 8]) -> [__m256i; 8] {
    let [p, q, r, s] = transpose::in_32([a, b, c, d]);
    let [t, u, v, w] = transpose::in_32([e, f, g, h]);
    let low = |x, y| _mm256_permute2x128_si256::<0x20>(x, y);
    let high = |x, y| _mm256_permute2x128_si256::<0x31>(x, y);
    [low(p, t), low(q, u), low(r, v), low(s, w), high(p, t), high(q, u), high(r, v), high(s, w)]
}
