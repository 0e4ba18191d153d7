//! States, and what is the same in every round of every version.

/// How many messages are hashed together.
pub(crate) const LANES: usize = 16;

/// A block's and an output's length in bytes.
pub(crate) const BLOCK_LEN: usize = 64;
pub(crate) const OUTPUT_LEN: usize = 32;

/// The state of one message.
pub(crate) type State = [u32; 8];

/// The states of all lanes, word by word.
#[derive(zeroize::Zeroize)]
#[repr(align(64))]
pub(crate) struct States(pub(super) [[u32; LANES]; 8]);

impl States {
    pub(crate) const NONE: States = States([[0; LANES]; 8]);

    pub(crate) fn set(&mut self, lane: usize, state: &State) {
        for (words, word) in self.0.iter_mut().zip(state) {
            if let Some(place) = words.get_mut(lane) {
                *place = *word;
            }
        }
    }

    /// A lane's state in bytes: the output when the message is over.
    pub(crate) fn bytes(&self, lane: usize) -> [u8; OUTPUT_LEN] {
        let mut bytes = [0; OUTPUT_LEN];
        for (to, words) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&self.0) {
            *to = words.get(lane).copied().unwrap_or(0).to_be_bytes();
        }
        bytes
    }
}

/// T of a round (GB/T 32905 §4.2), turned left by the round's number.
const fn constant(round: usize) -> u32 {
    let t: u32 = if round < 16 { 0x79cc_4519 } else { 0x7a87_9d8a };
    t.rotate_left(round as u32 % 32)
}

/// All of them.
pub(super) const CONSTANTS: [u32; 64] = {
    let (mut constants, mut round) = ([0; 64], 0);
    while round < 64 {
        constants[round] = constant(round);
        round += 1;
    }
    constants
};
