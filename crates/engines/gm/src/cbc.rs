//! SM4 in CBC mode.
//!
//! Encryption waits for the block before, so packets go side by side, each in a lane, with its own key: a lane whose packet ends
//! takes the next. Decryption waits for nothing and takes one packet's blocks together.

use zeroize::Zeroize;

use crate::ctr::xor;
use crate::isa::Isa;
use crate::sm4::{self, LANES, LaneKeys, RoundKeys};

/// Both directions' keys.
#[derive(zeroize::ZeroizeOnDrop)]
pub(crate) struct CbcKeys {
    encrypt: RoundKeys,
    decrypt: RoundKeys,
}

impl CbcKeys {
    pub(crate) fn new(isa: Isa, key: &[u8; 16]) -> CbcKeys {
        let encrypt = RoundKeys::expand(isa, key);
        let decrypt = encrypt.reversed();
        CbcKeys { encrypt, decrypt }
    }

    /// Decrypts a text in place.
    pub(crate) fn decrypt(&self, isa: Isa, iv: [u8; 16], text: &mut [u8]) {
        let mut before = iv;
        for blocks in text.as_chunks_mut::<16>().0.chunks_mut(BLOCKS) {
            let mut received = [[0; 16]; BLOCKS];
            received.iter_mut().zip(&*blocks).for_each(|(to, from)| *to = *from);
            sm4::one(isa, &self.decrypt, blocks);
            let others = [before].into_iter().chain(received);
            blocks.iter_mut().zip(others).for_each(|(block, other)| *block = xor(*block, other));
            before = received[blocks.len() - 1];
        }
    }
}

/// How many blocks are decrypted together.
const BLOCKS: usize = 96;

/// A text to encrypt.
pub(crate) struct Text<'p> {
    pub(crate) keys: &'p CbcKeys,
    pub(crate) iv: [u8; 16],
    pub(crate) text: &'p mut [u8],
}

/// Encrypts texts in place, in lanes.
pub(crate) struct Lanes {
    keys: LaneKeys,
}

impl Lanes {
    pub(crate) const fn new() -> Lanes {
        Lanes { keys: LaneKeys::NONE }
    }

    /// Encrypts all of them.
    pub(crate) fn encrypt<'p>(&mut self, isa: Isa, texts: impl Iterator<Item = Text<'p>>) {
        let mut texts = texts.filter(|text| text.text.len() >= 16);
        let mut chains = [[0; 16]; LANES];
        let mut lanes: [&mut [[u8; 16]]; LANES] = core::array::from_fn(|_| &mut [][..]);
        loop {
            // 1. Lanes without a packet take one, and how far all of them go is known.
            let (mut steps, mut used) = (usize::MAX, 0);
            for (number, (lane, chain)) in lanes.iter_mut().zip(&mut chains).enumerate() {
                if lane.is_empty()
                    && let Some(text) = texts.next()
                {
                    self.keys.set(isa, number, &text.keys.encrypt);
                    *chain = text.iv;
                    *lane = text.text.as_chunks_mut::<16>().0;
                }
                if !lane.is_empty() {
                    steps = steps.min(lane.len());
                    used = number + 1;
                }
            }
            if used == 0 {
                break;
            }
            // 2. They go that far. What a lane without a packet does is nobody's.
            for step in 0..steps {
                for (lane, chain) in lanes.iter().zip(&mut chains).take(used) {
                    *chain = lane.get(step).map_or(*chain, |block| xor(*block, *chain));
                }
                sm4::each(isa, &self.keys, &mut chains, used);
                for (lane, chain) in lanes.iter_mut().zip(&chains).take(used) {
                    if let Some(block) = lane.get_mut(step) {
                        *block = *chain;
                    }
                }
            }
            for lane in &mut lanes {
                let done = steps.min(lane.len());
                *lane = core::mem::take(lane).split_at_mut(done).1;
            }
        }
    }

    /// Forgets the keys.
    pub(crate) fn wipe(&mut self) {
        self.keys.zeroize();
    }
}
