//! SM3 of 16 messages side by side: a vector has one word of each.

#![allow(
    clippy::needless_range_loop,
    reason = "what an iterator or an array maps with is compiled without the instructions: vectors would go through memory"
)]

use core::arch::x86_64::*;

use super::rounds::rounds;
use super::words::{BLOCK_LEN, CONSTANTS, LANES, States};
use crate::transpose;

#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn compress(states: &mut States, blocks: &[&[u8; BLOCK_LEN]; LANES]) {
    let mut state = [_mm512_setzero_si512(); 8];
    for word in 0..8 {
        // SAFETY: 64 bytes are read that are there; they may lie anywhere.
        state[word] = unsafe { _mm512_loadu_si512(states.0[word].as_ptr().cast()) };
    }
    state = rounds(state, message(blocks));
    for word in 0..8 {
        // SAFETY: 64 bytes are written that are there and nobody else's; they may lie anywhere.
        unsafe { _mm512_storeu_si512(states.0[word].as_mut_ptr().cast(), state[word]) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rounds(state: Words<8>, mut w: Words<16>) -> Words<8> {
    let mut after = rounds!(round, state, &mut w);
    for word in 0..8 {
        after[word] = _mm512_xor_si512(after[word], state[word]);
    }
    after
}

/// Truth table of VPTERNLOG, an instruction of three operands: bit `i` is the result for the bits
/// of the number `i`, first operand highest.
const SUM: i32 = 0x96;
const MAJORITY: i32 = 0xe8;
const CHOICE: i32 = 0xca;

/// One round, where the new A takes D's place and the new E takes H's. The message's words go round in sixteen places: a round needs
/// its own and that of four rounds on, which is made then.
#[inline]
#[target_feature(enable = "avx512f")]
fn round<const LATE: bool, const EXPAND: bool>(
    w: &mut Words<16>,
    j: usize,
    [a, e]: Words<2>,
    [b, f]: [&mut __m512i; 2],
    [c, g]: Words<2>,
    [d, h]: [&mut __m512i; 2],
) {
    let add = |x, y| _mm512_add_epi32(x, y);
    let sum = |x, y, z| _mm512_ternarylogic_epi32::<SUM>(x, y, z);
    let now = w[j % 16];
    let mut later = w[(j + 4) % 16];
    if EXPAND {
        let x = sum(later, w[(j + 11) % 16], _mm512_rol_epi32::<15>(w[(j + 1) % 16]));
        let p1 = sum(x, _mm512_rol_epi32::<15>(x), _mm512_rol_epi32::<23>(x));
        later = sum(p1, _mm512_rol_epi32::<7>(w[(j + 7) % 16]), w[(j + 14) % 16]);
        w[(j + 4) % 16] = later;
    }
    let a12 = _mm512_rol_epi32::<12>(a);
    let ss1 = add(add(a12, e), _mm512_set1_epi32(CONSTANTS[j] as i32));
    let ss1 = _mm512_rol_epi32::<7>(ss1);
    let ss2 = _mm512_xor_si512(ss1, a12);
    let (ff, gg) = if LATE {
        let majority = _mm512_ternarylogic_epi32::<MAJORITY>(a, *b, c);
        (majority, _mm512_ternarylogic_epi32::<CHOICE>(e, *f, g))
    } else {
        (sum(a, *b, c), sum(e, *f, g))
    };
    *d = add(add(ff, *d), add(ss2, _mm512_xor_si512(now, later)));
    let tt2 = add(add(gg, *h), add(ss1, now));
    *b = _mm512_rol_epi32::<9>(*b);
    *f = _mm512_rol_epi32::<19>(*f);
    *h = sum(tt2, _mm512_rol_epi32::<9>(tt2), _mm512_rol_epi32::<17>(tt2));
}

/// Words of 16 messages.
type Words<const N: usize> = [__m512i; N];

/// The messages' words as numbers, vector by vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn message(blocks: &[&[u8; BLOCK_LEN]; LANES]) -> Words<16> {
    let swap =
        _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    let mut rows = [_mm512_setzero_si512(); LANES];
    for lane in 0..LANES {
        // SAFETY: 64 bytes are read that are there; they may lie anywhere.
        rows[lane] = unsafe { _mm512_loadu_si512(blocks[lane].as_ptr().cast()) };
    }
    rows = transposed(rows);
    for word in 0..16 {
        rows[word] = _mm512_shuffle_epi8(rows[word], swap);
    }
    rows
}

/// Sixteen words of sixteen rows, exchanged: first within four rows, then four rows with four rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: Words<16>) -> Words<16> {
    let mut fours = [[_mm512_setzero_si512(); 4]; 4];
    for four in 0..4 {
        fours[four] = transpose::in_64(rows.as_chunks::<4>().0[four]);
    }
    let mut columns = rows;
    for word in 0..4 {
        let [p, q, r, s] = [fours[0][word], fours[1][word], fours[2][word], fours[3][word]];
        // Their quarters 0 and 2, or 1 and 3; then of two such the same of each.
        let (even_pq, odd_pq) =
            (_mm512_shuffle_i32x4::<0x88>(p, q), _mm512_shuffle_i32x4::<0xdd>(p, q));
        let (even_rs, odd_rs) =
            (_mm512_shuffle_i32x4::<0x88>(r, s), _mm512_shuffle_i32x4::<0xdd>(r, s));
        columns[word] = _mm512_shuffle_i32x4::<0x88>(even_pq, even_rs);
        columns[4 + word] = _mm512_shuffle_i32x4::<0x88>(odd_pq, odd_rs);
        columns[8 + word] = _mm512_shuffle_i32x4::<0xdd>(even_pq, even_rs);
        columns[12 + word] = _mm512_shuffle_i32x4::<0xdd>(odd_pq, odd_rs);
    }
    columns
}
