//! SM4 in vectors of 32 bytes, by way of AES's S-box.
//!
//! A vector has one word of eight blocks. The instruction of AES's last round, with a key of zero, gives AES's S-box of each byte,
//! and exchanges bytes between the words, which the shuffles that follow undo. What is left of a round are two linear maps
//! ([`Behind`]), each a pair of tables of 16 bytes that a shuffle looks up within a register, and turns by whole bytes, which are
//! shuffles too.

#![allow(
    clippy::needless_range_loop,
    reason = "what an iterator or an array maps with is compiled without the instructions: vectors would go through memory"
)]

use core::arch::x86_64::*;

use super::basis::{BASIS, Behind};
use super::keys::LANES;
use crate::fields::{M_CONSTANT, Map};

/// Blocks to a vector.
const WIDTH: usize = 8;

/// How many vectors of each word are under way together, so that one's latency is another's time: with one key.
const DEPTH: usize = 3;

/// Both versions of AES's S-box; all else is the same.
macro_rules! version {
    ($(#[$doc:meta])* $name:ident, $features:literal, $substitute:item) => {
        $(#[$doc])*
        pub(super) mod $name {
            use core::arch::x86_64::*;

            use crate::transpose;

            use super::{DEPTH, Tables, WIDTH, load, load_keys, store};
            use super::super::keys::{LANES, LaneKeys, ROUNDS, RoundKeys};

            #[inline]
            #[target_feature(enable = $features)]
            $substitute

            #[target_feature(enable = $features)]
            pub(in super::super) fn one(keys: &RoundKeys, blocks: &mut [[u8; 16]]) {
                let key = |round: usize, _| _mm256_set1_epi32(keys.0[round] as i32);
                let (eights, rest) = blocks.as_chunks_mut::<WIDTH>();
                let (deep, left) = eights.as_chunks_mut::<DEPTH>();
                deep.iter_mut().for_each(|eights| crypt(eights, key));
                if rest.is_empty() && left.is_empty() {
                    return;
                }
                // Blocks that do not fill vectors go through a copy.
                let mut last = [[[0; 16]; WIDTH]; DEPTH];
                let count = left.len() * WIDTH + rest.len();
                let flat = last.as_flattened_mut();
                flat.iter_mut().zip(left.as_flattened().iter().chain(&*rest)).for_each(|(to, from)| *to = *from);
                if count <= WIDTH {
                    let (one, _) = last.as_chunks_mut::<1>();
                    one.iter_mut().take(1).for_each(|eight| crypt(eight, key));
                } else {
                    crypt(&mut last, key);
                }
                let flat = last.as_flattened();
                left.as_flattened_mut().iter_mut().chain(rest).zip(flat).for_each(|(to, from)| *to = *from);
            }

            #[target_feature(enable = $features)]
            pub(in super::super) fn each(keys: &LaneKeys, blocks: &mut [[u8; 16]; LANES], used: usize) {
                let (eights, _) = blocks.as_chunks_mut::<WIDTH>();
                let key = |round: usize, eight| load_keys(&keys.0[round], eight);
                let wanted = used.div_ceil(WIDTH);
                if wanted == 1 {
                    eights.as_chunks_mut::<1>().0.iter_mut().take(1).for_each(|one| crypt(one, key));
                } else if wanted == 2 {
                    eights.as_chunks_mut::<2>().0.iter_mut().take(1).for_each(|two| crypt(two, key));
                } else {
                    let all = eights.as_chunks_mut::<{ LANES / WIDTH }>().0;
                    all.iter_mut().for_each(|all| crypt(all, key));
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn crypt<const N: usize>(blocks: &mut [[[u8; 16]; WIDTH]; N], key: impl Fn(usize, usize) -> __m256i) {
                let tables = Tables::new();
                let mut x = [[_mm256_setzero_si256(); N]; 4];
                for (n, eight) in blocks.iter().enumerate() {
                    let loaded = transpose::in_32(load(eight));
                    for word in 0..4 {
                        x[word][n] = tables.into.of(loaded[word]);
                    }
                }
                let [mut a, mut b, mut c, mut d] = x;
                for round in (0..ROUNDS).step_by(4) {
                    step(&tables, &mut a, &b, &c, &d, |n| key(round, n));
                    step(&tables, &mut b, &c, &d, &a, |n| key(round + 1, n));
                    step(&tables, &mut c, &d, &a, &b, |n| key(round + 2, n));
                    step(&tables, &mut d, &a, &b, &c, |n| key(round + 3, n));
                }
                for (n, eight) in blocks.iter_mut().enumerate() {
                    let back = tables.back;
                    store(eight, transpose::in_32([back.of(d[n]), back.of(c[n]), back.of(b[n]), back.of(a[n])]));
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn step<const N: usize>(
                tables: &Tables,
                a: &mut [__m256i; N],
                b: &[__m256i; N],
                c: &[__m256i; N],
                d: &[__m256i; N],
                key: impl Fn(usize) -> __m256i,
            ) {
                for n in 0..N {
                    let others = _mm256_xor_si256(_mm256_xor_si256(c[n], d[n]), key(n));
                    let inverse = substitute(_mm256_xor_si256(others, b[n]));
                    let low = _mm256_and_si256(inverse, tables.nibble);
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(inverse), tables.nibble);
                    let (turned, near) = (tables.turned.at(low, high), tables.near.at(low, high));
                    let both = _mm256_xor_si256(turned, near);
                    let [by0, by1, by2, by3] = tables.bytes;
                    let first = _mm256_xor_si256(_mm256_shuffle_epi8(near, by0), _mm256_shuffle_epi8(turned, by1));
                    let second = _mm256_xor_si256(_mm256_shuffle_epi8(turned, by2), _mm256_shuffle_epi8(both, by3));
                    a[n] = _mm256_xor_si256(_mm256_xor_si256(a[n], first), second);
                }
            }
        }
    };
}

version!(
    /// With AES's instruction on 16 bytes.
    aes,
    "avx2,aes",
    fn substitute(bytes: __m256i) -> __m256i {
        let zero = _mm_setzero_si128();
        let low = _mm_aesenclast_si128(_mm256_castsi256_si128(bytes), zero);
        let high = _mm_aesenclast_si128(_mm256_extracti128_si256::<1>(bytes), zero);
        _mm256_set_m128i(high, low)
    }
);

version!(
    /// With AES's instruction on 32 bytes.
    vaes,
    "avx2,aes,vaes",
    fn substitute(bytes: __m256i) -> __m256i {
        _mm256_aesenclast_epi128(bytes, _mm256_setzero_si256())
    }
);

/// Constants of the rounds, in registers as far as there are any.
struct Tables {
    into: Linear,
    back: Linear,
    turned: Linear,
    near: Linear,
    nibble: __m256i,
    /// How bytes are turned by 0 to 3 places in their words, once AES's instruction has exchanged them.
    bytes: [__m256i; 4],
}

impl Tables {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Tables {
        Tables {
            into: Linear::new(&INTO),
            back: Linear::new(&BACK),
            turned: Linear::new(&TURNED),
            near: Linear::new(&NEAR),
            nibble: _mm256_set1_epi8(15),
            bytes: [twice(&BYTES[0]), twice(&BYTES[1]), twice(&BYTES[2]), twice(&BYTES[3])],
        }
    }
}

/// An affine map of bytes by their nibbles.
#[derive(Clone, Copy)]
struct Linear {
    low: __m256i,
    high: __m256i,
}

impl Linear {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new([low, high]: &[[u8; 16]; 2]) -> Linear {
        Linear { low: twice(low), high: twice(high) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn at(self, low: __m256i, high: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_shuffle_epi8(self.low, low), _mm256_shuffle_epi8(self.high, high))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(self, bytes: __m256i) -> __m256i {
        let nibble = _mm256_set1_epi8(15);
        self.at(
            _mm256_and_si256(bytes, nibble),
            _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), nibble),
        )
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn twice(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes are read that are there; they may lie anywhere.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(blocks: &[[u8; 16]; WIDTH]) -> [__m256i; 4] {
    let mut vectors = [_mm256_setzero_si256(); 4];
    for pair in 0..4 {
        let blocks = &blocks.as_chunks::<2>().0[pair];
        // SAFETY: 32 bytes are read that are there; they may lie anywhere.
        vectors[pair] = unsafe { _mm256_loadu_si256(blocks.as_ptr().cast()) };
    }
    vectors
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(blocks: &mut [[u8; 16]; WIDTH], vectors: [__m256i; 4]) {
    for pair in 0..4 {
        let blocks = &mut blocks.as_chunks_mut::<2>().0[pair];
        // SAFETY: 32 bytes are written that are there and nobody else's; they may lie anywhere.
        unsafe { _mm256_storeu_si256(blocks.as_mut_ptr().cast(), vectors[pair]) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_keys(keys: &[u32; LANES], eight: usize) -> __m256i {
    let keys = &keys.as_chunks::<WIDTH>().0[eight];
    // SAFETY: 32 bytes are read that are there; they may lie anywhere.
    unsafe { _mm256_loadu_si256(keys.as_ptr().cast()) }
}

const INTO: [[u8; 16]; 2] = tables(BASIS, 0);
const BACK: [[u8; 16]; 2] = tables(BASIS.inverse(), 0);
const TURNED: [[u8; 16]; 2] = behind(Behind::TURNED);
const NEAR: [[u8; 16]; 2] = behind(Behind::NEAR);

/// AES's S-box is more than the inversion: that comes off first.
const fn behind(part: Behind) -> [[u8; 16]; 2] {
    let map = part.map.after(crate::fields::M.inverse());
    tables(map, part.constant ^ map.apply(M_CONSTANT))
}

const fn tables(map: Map, constant: u8) -> [[u8; 16]; 2] {
    let (mut tables, mut nibble) = ([[0; 16]; 2], 0);
    while nibble < 16 {
        tables[0][nibble] = map.apply(nibble as u8) ^ constant;
        tables[1][nibble] = map.apply((nibble as u8) << 4);
        nibble += 1;
    }
    tables
}

/// AES's ShiftRows brings to byte `r` of word `c` what was byte `r` of word `c + r`.
const BYTES: [[u8; 16]; 4] = {
    let mut bytes = [[0; 16]; 4];
    let mut at = 0;
    while at < 64 {
        let (by, word, byte) = (at / 16, at % 16 / 4, at % 4);
        let from = (byte + by) % 4;
        bytes[by][at % 16] = (4 * ((word + 4 - from) % 4) + from) as u8;
        at += 1;
    }
    bytes
};
