//! SM4 in vectors of 64 bytes, the inversion by GFNI.
//!
//! A vector has one word of 16 blocks. One instruction inverts each byte in AES's field and maps the inverse linearly; two of them,
//! one for each map of [`Behind`], are all of a round but for sums and turns by whole bytes.

#![allow(
    clippy::needless_range_loop,
    reason = "what an iterator or an array maps with is compiled without the instructions: vectors would go through memory"
)]

use core::arch::x86_64::*;

use super::basis::{BASIS, Behind};
use super::keys::{LANES, LaneKeys, ROUNDS, RoundKeys};
use crate::fields::Map;
use crate::transpose;

/// Blocks to a vector.
const WIDTH: usize = 16;

/// How many vectors of each word are under way together, so that one's latency is another's time: with one key.
const DEPTH: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn one(keys: &RoundKeys, blocks: &mut [[u8; 16]]) {
    let key = |round: usize, _| _mm512_set1_epi32(keys.0[round] as i32);
    let (wide, rest) = blocks.as_chunks_mut::<{ DEPTH * WIDTH }>();
    for wide in wide {
        wide.as_chunks_mut::<WIDTH>()
            .0
            .as_chunks_mut::<DEPTH>()
            .0
            .iter_mut()
            .for_each(|deep| crypt(deep, key));
    }
    if rest.is_empty() {
        return;
    }
    // Blocks that do not fill vectors go through a copy.
    let mut last = [[[0; 16]; WIDTH]; DEPTH];
    last.as_flattened_mut().iter_mut().zip(&*rest).for_each(|(to, from)| *to = *from);
    match rest.len().div_ceil(WIDTH) {
        1 => last.as_chunks_mut::<1>().0.iter_mut().take(1).for_each(|wide| crypt(wide, key)),
        2 => last.as_chunks_mut::<2>().0.iter_mut().take(1).for_each(|wide| crypt(wide, key)),
        _ => crypt(&mut last, key),
    }
    rest.iter_mut().zip(last.as_flattened()).for_each(|(to, from)| *to = *from);
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn each(keys: &LaneKeys, blocks: &mut [[u8; 16]; LANES], used: usize) {
    let (wide, _) = blocks.as_chunks_mut::<WIDTH>();
    let key = |round: usize, wide: usize| {
        let keys = &keys.0[round].as_chunks::<WIDTH>().0[wide];
        // SAFETY: 64 bytes are read that are there; they may lie anywhere.
        unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) }
    };
    if used <= WIDTH {
        wide.as_chunks_mut::<1>().0.iter_mut().take(1).for_each(|one| crypt(one, key));
    } else {
        let all = wide.as_chunks_mut::<{ LANES / WIDTH }>().0;
        all.iter_mut().for_each(|all| crypt(all, key));
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn crypt<const N: usize>(
    blocks: &mut [[[u8; 16]; WIDTH]; N],
    key: impl Fn(usize, usize) -> __m512i,
) {
    let (into, back) = (_mm512_set1_epi64(INTO), _mm512_set1_epi64(BACK));
    let mut x = [[_mm512_setzero_si512(); N]; 4];
    for (n, wide) in blocks.iter().enumerate() {
        let loaded = transpose::in_64(load(wide));
        for word in 0..4 {
            x[word][n] = _mm512_gf2p8affine_epi64_epi8::<0>(loaded[word], into);
        }
    }
    let [mut a, mut b, mut c, mut d] = x;
    for round in (0..ROUNDS).step_by(4) {
        step(&mut a, &b, &c, &d, |n| key(round, n));
        step(&mut b, &c, &d, &a, |n| key(round + 1, n));
        step(&mut c, &d, &a, &b, |n| key(round + 2, n));
        step(&mut d, &a, &b, &c, |n| key(round + 3, n));
    }
    for (n, wide) in blocks.iter_mut().enumerate() {
        let mut vectors = [d[n], c[n], b[n], a[n]];
        for word in 0..4 {
            vectors[word] = _mm512_gf2p8affine_epi64_epi8::<0>(vectors[word], back);
        }
        store(wide, transpose::in_64(vectors));
    }
}

/// The sum of three, as the instruction wants it: bit `i` is what bits of the number `i` sum up to.
const SUM: i32 = 0x96;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn step<const N: usize>(
    a: &mut [__m512i; N],
    b: &[__m512i; N],
    c: &[__m512i; N],
    d: &[__m512i; N],
    key: impl Fn(usize) -> __m512i,
) {
    const TURNED_CONSTANT: i32 = Behind::TURNED.constant as i32;
    const NEAR_CONSTANT: i32 = Behind::NEAR.constant as i32;
    let (turned_map, near_map) = (_mm512_set1_epi64(TURNED), _mm512_set1_epi64(NEAR));
    for n in 0..N {
        let others = _mm512_ternarylogic_epi32::<SUM>(c[n], d[n], key(n));
        let sum = _mm512_xor_si512(others, b[n]);
        let turned = _mm512_gf2p8affineinv_epi64_epi8::<TURNED_CONSTANT>(sum, turned_map);
        let near = _mm512_gf2p8affineinv_epi64_epi8::<NEAR_CONSTANT>(sum, near_map);
        // In memory's order the next byte is the next higher of the number.
        let by1 = _mm512_ror_epi32::<8>(turned);
        let by2 = _mm512_ror_epi32::<16>(turned);
        let by3 = _mm512_ror_epi32::<24>(_mm512_xor_si512(turned, near));
        let sum = _mm512_ternarylogic_epi32::<SUM>(a[n], near, by1);
        a[n] = _mm512_ternarylogic_epi32::<SUM>(sum, by2, by3);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(blocks: &[[u8; 16]; WIDTH]) -> [__m512i; 4] {
    let mut vectors = [_mm512_setzero_si512(); 4];
    for four in 0..4 {
        let blocks = &blocks.as_chunks::<4>().0[four];
        // SAFETY: 64 bytes are read that are there; they may lie anywhere.
        vectors[four] = unsafe { _mm512_loadu_si512(blocks.as_ptr().cast()) };
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(blocks: &mut [[u8; 16]; WIDTH], vectors: [__m512i; 4]) {
    for four in 0..4 {
        let blocks = &mut blocks.as_chunks_mut::<4>().0[four];
        // SAFETY: 64 bytes are written that are there and nobody else's; they may lie anywhere.
        unsafe { _mm512_storeu_si512(blocks.as_mut_ptr().cast(), vectors[four]) }
    }
}

const INTO: i64 = matrix(BASIS);
const BACK: i64 = matrix(BASIS.inverse());
const TURNED: i64 = matrix(Behind::TURNED.map);
const NEAR: i64 = matrix(Behind::NEAR.map);

/// A map as GFNI has it: byte `7 - i` says which bits of a byte sum up to bit `i` of its image.
const fn matrix(map: Map) -> i64 {
    let (mut matrix, mut at) = (0_u64, 0);
    while at < 64 {
        let (to, from) = (at / 8, at % 8);
        matrix |= ((map.0[from] >> to & 1) as u64) << (8 * (7 - to) + from);
        at += 1;
    }
    matrix as i64
}
