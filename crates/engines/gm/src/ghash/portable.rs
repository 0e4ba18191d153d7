//! POLYVAL by products of integers.
//!
//! A product without carries is made of such with: each factor is split by its bits' places modulo four, so that a sum of up to
//! 16 bits grows into places that are then masked out.

use super::key::GhashKey;

pub(super) fn add(sum: u128, key: &GhashKey, blocks: &[[u8; 16]]) -> u128 {
    let [.., key] = key.0;
    blocks.iter().fold(sum, |sum, block| dot(sum ^ u128::from_be_bytes(*block), key))
}

/// Montgomery product `a·b·x⁻¹²⁸` in GHASH's field.
pub(super) fn dot(a: u128, b: u128) -> u128 {
    let (a1, a0, b1, b0) = ((a >> 64) as u64, a as u64, (b >> 64) as u64, b as u64);
    let (low, high) = (product(a0, b0), product(a1, b1));
    let cross = product(a0 ^ a1, b0 ^ b1) ^ low ^ high;
    reduced(low ^ cross << 64, high ^ cross >> 64)
}

/// Twice, the lowest 64 bits are made zero by a multiple of the polynomial, and go.
fn reduced(low: u128, high: u128) -> u128 {
    let fold = |low: u128| low.rotate_right(64) ^ high_part(low as u64);
    fold(fold(low)) ^ high
}

/// Times x⁶³+x⁶²+x⁵⁷: what the polynomial has between its ends, moved down by 64.
fn high_part(low: u64) -> u128 {
    let low = u128::from(low);
    low << 63 ^ low << 62 ^ low << 57
}

fn product(a: u64, b: u64) -> u128 {
    let low = low_product(a, b);
    // The upper half is the lower half of the factors turned round.
    let high = low_product(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
    u128::from(high) << 64 | u128::from(low)
}

fn low_product(a: u64, b: u64) -> u64 {
    const EACH_FOURTH: u64 = 0x1111_1111_1111_1111;
    let split = |x: u64| [0, 1, 2, 3].map(|place| x & EACH_FOURTH << place);
    let (a, b) = (split(a), split(b));
    [0, 1, 2, 3].into_iter().fold(0, |whole, place| {
        let sum = (0..4).fold(0, |sum, i| sum ^ a[i].wrapping_mul(b[(4 + place - i) % 4]));
        whole | sum & EACH_FOURTH << place
    })
}
