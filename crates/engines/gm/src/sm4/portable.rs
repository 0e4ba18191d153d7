//! SM4 without instructions of its own: words are numbers, and the S-box is computed for 64 bytes at once.
//!
//! For each round the bytes of 16 blocks are turned into eight slices, one for each bit. There the S-box is some 200 operations: a
//! linear map into a tower of fields, the inversion, a linear map back.

use crate::fields::{A, C, Map, Multiply};

use super::keys::{LANES, LaneKeys, ROUNDS, RoundKeys};

/// Blocks that are done together.
const WIDTH: usize = 16;

/// Encrypts (or decrypts) blocks with keys of their own.
pub(super) fn each(keys: &LaneKeys, blocks: &mut [[u8; 16]; LANES], used: usize) {
    let wide = blocks.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate();
    for (at, blocks) in wide.take(used.div_ceil(WIDTH)) {
        crypt(blocks, |round, lane| keys.0[round][at * WIDTH + lane]);
    }
}

/// Encrypts (or decrypts) blocks with one key.
pub(super) fn one(keys: &RoundKeys, blocks: &mut [[u8; 16]]) {
    for blocks in blocks.chunks_mut(WIDTH) {
        let mut all = [[0; 16]; WIDTH];
        all[..blocks.len()].copy_from_slice(blocks);
        crypt(&mut all, |round, _| keys.0[round]);
        blocks.copy_from_slice(&all[..blocks.len()]);
    }
}

/// The S-box over each byte of a word, for the keys' expansion.
pub(super) fn substitute(word: u32) -> u32 {
    let mut words = [0; WIDTH];
    words[0] = word;
    sboxes(&mut words);
    words[0]
}

fn crypt(blocks: &mut [[u8; 16]; WIDTH], key: impl Fn(usize, usize) -> u32) {
    let mut words = [[0; WIDTH]; 4];
    for (lane, block) in blocks.iter().enumerate() {
        for (words, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            words[lane] = u32::from_be_bytes(*bytes);
        }
    }
    for round in 0..ROUNDS {
        let [a, b, c, d] = words;
        let mut t: [u32; WIDTH] =
            core::array::from_fn(|lane| b[lane] ^ c[lane] ^ d[lane] ^ key(round, lane));
        sboxes(&mut t);
        let next = core::array::from_fn(|lane| {
            let t = t[lane];
            let turned = [2, 10, 18, 24].map(|by| t.rotate_left(by));
            a[lane] ^ turned.into_iter().fold(t, |sum, turned| sum ^ turned)
        });
        words = [b, c, d, next];
    }
    for (lane, block) in blocks.iter_mut().enumerate() {
        for (words, bytes) in words.iter().rev().zip(block.as_chunks_mut::<4>().0) {
            *bytes = words[lane].to_be_bytes();
        }
    }
}

/// A bit of each of 64 bytes.
type Slice = u64;

fn sboxes(words: &mut [u32; WIDTH]) {
    let mut slices: [Slice; 8] =
        core::array::from_fn(|i| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32);
    turn(&mut slices);
    let slices = &mut linear(&INTO, &slices);
    add(slices, INTO_CONSTANT);
    let slices = &mut linear(&OUT, &inverse(slices));
    add(slices, C);
    turn(slices);
    for (words, slice) in words.as_chunks_mut::<2>().0.iter_mut().zip(slices) {
        *words = [*slice as u32, (*slice >> 32) as u32];
    }
}

/// From bytes to slices or back: bit `i` of byte `j` of each eight changes places with bit `j` of byte `i`, where the bytes of
/// an eight are at the same place of the eight numbers.
fn turn(slices: &mut [Slice; 8]) {
    for (by, mask) in
        [(1, 0x5555_5555_5555_5555), (2, 0x3333_3333_3333_3333), (4, 0x0f0f_0f0f_0f0f_0f0f)]
    {
        for low in (0..8).filter(|low| low & by == 0) {
            let (a, b) = (slices[low], slices[low + by]);
            slices[low] = a & mask | (b & mask) << by;
            slices[low + by] = a >> by & mask | b & !mask;
        }
    }
}

fn linear<const N: usize, const K: usize>(rows: &[u8; K], slices: &[Slice; N]) -> [Slice; K] {
    rows.map(|row| {
        let bits = slices.iter().enumerate().filter(|(bit, _)| row >> bit & 1 == 1);
        bits.fold(0, |sum, (_, slice)| sum ^ slice)
    })
}

fn add(slices: &mut [Slice; 8], constant: u8) {
    for (bit, slice) in slices.iter_mut().enumerate() {
        if constant >> bit & 1 == 1 {
            *slice = !*slice;
        }
    }
}

type Nibble = [Slice; 4];

/// The inverse in the tower of [`crate::fields`]; of zero it is zero.
fn inverse(byte: &[Slice; 8]) -> [Slice; 8] {
    let [l0, l1, l2, l3, h0, h1, h2, h3] = *byte;
    let (low, high) = ([l0, l1, l2, l3], [h0, h1, h2, h3]);
    let sum = xor(low, high);
    // The norm, a nibble, whose inverse is its 14th power.
    let norm = xor(linear(&SQUARE_TIMES_8, &high), multiply(low, sum));
    let second = linear(&SQUARE, &norm);
    let fourth = linear(&SQUARE, &second);
    let eighth = linear(&SQUARE, &fourth);
    let back = multiply(multiply(second, fourth), eighth);
    let ([l0, l1, l2, l3], [h0, h1, h2, h3]) = (multiply(sum, back), multiply(high, back));
    [l0, l1, l2, l3, h0, h1, h2, h3]
}

fn xor(a: Nibble, b: Nibble) -> Nibble {
    core::array::from_fn(|bit| a[bit] ^ b[bit])
}

/// A product modulo x⁴+x+1.
fn multiply(a: Nibble, b: Nibble) -> Nibble {
    let [a0, a1, a2, a3] = a;
    let [b0, b1, b2, b3] = b;
    let fourth = a1 & b3 ^ a2 & b2 ^ a3 & b1;
    let fifth = a2 & b3 ^ a3 & b2;
    let sixth = a3 & b3;
    [
        a0 & b0 ^ fourth,
        a0 & b1 ^ a1 & b0 ^ fourth ^ fifth,
        a0 & b2 ^ a1 & b1 ^ a2 & b0 ^ fifth ^ sixth,
        a0 & b3 ^ a1 & b2 ^ a2 & b1 ^ a3 & b0 ^ sixth,
    ]
}

/// The linear maps as rows: for each bit that comes out, the bits whose sum it is.
const INTO: [u8; 8] = rows(TOWER.after(A));
const INTO_CONSTANT: u8 = TOWER.apply(C);
const OUT: [u8; 8] = rows(A.after(TOWER.inverse()));
const TOWER: Map = Map::from_sm4(Multiply::Tower.root(), Multiply::Tower);
const SQUARE: [u8; 4] = [0b0101, 0b0100, 0b1010, 0b1000];
const SQUARE_TIMES_8: [u8; 4] = [0b0100, 0b1110, 0b0010, 0b1101];

const fn rows(map: Map) -> [u8; 8] {
    let (mut rows, mut bit) = ([0; 8], 0);
    while bit < 64 {
        rows[bit / 8] |= (map.0[bit % 8] >> (bit / 8) & 1) << (bit % 8);
        bit += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{nibble, tests::sbox};

    #[test]
    fn the_sliced_s_box_is_the_s_box() {
        for first in 0..=255_u8 {
            let word = u32::from_be_bytes([first, first ^ 0x5a, 0, 255]);
            let wanted = word.to_be_bytes().map(sbox);
            assert_eq!(substitute(word).to_be_bytes(), wanted);
            let mut words = core::array::from_fn(|lane| word.rotate_left(lane as u32));
            let wanted = words.map(|word: u32| u32::from_be_bytes(word.to_be_bytes().map(sbox)));
            sboxes(&mut words);
            assert_eq!(words, wanted);
        }
    }

    #[test]
    fn squares_of_nibbles() {
        for element in 0..16_u8 {
            let bits: Nibble = core::array::from_fn(|bit| u64::from(element >> bit & 1));
            let number = |bits: Nibble| (0..4).map(|bit| (bits[bit] as u8) << bit).sum::<u8>();
            let square = nibble(element, element);
            assert_eq!(number(linear(&SQUARE, &bits)), square);
            assert_eq!(number(linear(&SQUARE_TIMES_8, &bits)), nibble(square, 8));
        }
    }
}
