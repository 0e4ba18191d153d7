//! SM3 (GB/T 32905): blocks of 64 bytes, a state of eight words, 64 rounds. Messages are hashed side by side.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod rounds;
mod words;

pub(crate) use words::{BLOCK_LEN, LANES, OUTPUT_LEN, State, States};

use crate::isa::{Isa, Kind};

/// IV (GB/T 32905 §4.1).
pub(crate) const IV: State = [
    0x7380_166f,
    0x4914_b2b9,
    0x1724_42d7,
    0xda8a_0600,
    0xa96f_30bc,
    0x1631_38aa,
    0xe38d_ee4d,
    0xb0fb_0e4e,
];

/// Takes a block of each lane in, of the first `used` at least.
#[inline]
pub(crate) fn compress(
    isa: Isa,
    states: &mut States,
    blocks: &[&[u8; BLOCK_LEN]; LANES],
    used: usize,
) {
    match isa.kind() {
        Kind::Portable => portable::compress(states, blocks, used),
        // SAFETY: such a value exists only where the processor has the instructions: Isa checks it.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 | Kind::Vaes => unsafe { avx2::compress(states, blocks, used) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { avx512::compress(states, blocks) },
    }
}

/// Takes a block of one message in.
pub(crate) fn compress_one(state: &mut State, block: &[u8; BLOCK_LEN]) {
    portable::compress_one(state, block);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GB/T 32905 annex A.1 and A.2: "abc", and "abcd" sixteen times.
    #[test]
    fn the_standard_s_examples() {
        let mut abc = [0; BLOCK_LEN];
        abc[..4].copy_from_slice(b"abc\x80");
        abc[63] = 24;
        let mut end = [0; BLOCK_LEN];
        (end[0], end[62]) = (0x80, 2);
        let abcd: [u8; BLOCK_LEN] = b"abcd".repeat(16).try_into().unwrap();
        let wanted = [
            "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0",
            "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732",
        ];
        for isa in Isa::available() {
            let mut states = States::NONE;
            (0..LANES).for_each(|lane| states.set(lane, &IV));
            compress(
                isa,
                &mut states,
                &core::array::from_fn(|lane| [&abc, &abcd][lane % 2]),
                LANES,
            );
            let after = |states: &States, lane| {
                states.bytes(lane).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            };
            assert_eq!(after(&states, 4), wanted[0], "{}", isa.name());
            compress(isa, &mut states, &[&end; LANES], LANES);
            for lane in [1, 7, 9, 15] {
                assert_eq!(after(&states, lane), wanted[1], "{}", isa.name());
            }
        }
    }

    #[test]
    fn every_lane_is_hashed_alone() {
        let blocks: [[u8; BLOCK_LEN]; LANES] =
            core::array::from_fn(|lane| core::array::from_fn(|at| (lane * 31 + at * 7) as u8));
        for isa in Isa::available() {
            let mut states = States::NONE;
            let mut alone: [State; LANES] =
                core::array::from_fn(|lane| IV.map(|word| word ^ lane as u32));
            alone.iter().enumerate().for_each(|(lane, state)| states.set(lane, state));
            for shift in 0..3 {
                let of = |lane: usize| &blocks[(lane + shift) % LANES];
                compress(isa, &mut states, &core::array::from_fn(of), LANES);
                alone
                    .iter_mut()
                    .enumerate()
                    .for_each(|(lane, state)| compress_one(state, of(lane)));
            }
            for (lane, state) in alone.iter().enumerate() {
                let state: Vec<u8> = state.iter().flat_map(|word| word.to_be_bytes()).collect();
                assert_eq!(states.bytes(lane)[..], state, "{}", isa.name());
            }
        }
    }
}
