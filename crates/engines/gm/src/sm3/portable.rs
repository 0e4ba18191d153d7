//! SM3 of one message after the other.

use super::words::{BLOCK_LEN, CONSTANTS, LANES, State, States};

pub(super) fn compress(states: &mut States, blocks: &[&[u8; BLOCK_LEN]; LANES], used: usize) {
    for (lane, block) in blocks.iter().enumerate().take(used) {
        let mut state = states.0.map(|words| words[lane]);
        compress_one(&mut state, block);
        states.set(lane, &state);
    }
}

pub(super) fn compress_one(state: &mut State, block: &[u8; BLOCK_LEN]) {
    let mut w = [0_u32; 68];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for j in 16..68 {
        let x = w[j - 16] ^ w[j - 9] ^ w[j - 3].rotate_left(15);
        let p1 = x ^ x.rotate_left(15) ^ x.rotate_left(23);
        w[j] = p1 ^ w[j - 13].rotate_left(7) ^ w[j - 6];
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for j in 0..64 {
        let a12 = a.rotate_left(12);
        let ss1 = a12.wrapping_add(e).wrapping_add(CONSTANTS[j]).rotate_left(7);
        let ss2 = ss1 ^ a12;
        let (ff, gg) =
            if j < 16 { (a ^ b ^ c, e ^ f ^ g) } else { (a & b | (a | b) & c, (f ^ g) & e ^ g) };
        let tt1 = ff.wrapping_add(d).wrapping_add(ss2).wrapping_add(w[j] ^ w[j + 4]);
        let tt2 = gg.wrapping_add(h).wrapping_add(ss1).wrapping_add(w[j]);
        (d, c, b, a) = (c, b.rotate_left(9), a, tt1);
        (h, g, f, e) = (g, f.rotate_left(19), e, tt2 ^ tt2.rotate_left(9) ^ tt2.rotate_left(17));
    }
    for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word ^= new;
    }
}
