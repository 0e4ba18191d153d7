//! HMAC-SM3 (RFC 2104 with GB/T 32905) of many messages side by side.
//!
//! A key is two states of the hash, behind its two padded blocks. A lane hashes a message's whole blocks where they lie, then its end
//! with the padding, from a copy, then the outer block; then it takes the next message.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::isa::Isa;
use crate::sm3::{self, BLOCK_LEN, IV, LANES, OUTPUT_LEN, State, States};

/// Hash states of an HMAC key, inner and outer.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct HmacKey {
    inner: State,
    outer: State,
}

impl HmacKey {
    /// Keys the hash; a key longer than the hash's block is hashed first.
    pub(crate) fn new(key: &[u8]) -> HmacKey {
        let mut block = [0; BLOCK_LEN];
        if key.len() > BLOCK_LEN {
            let mut hash = hash(key);
            block[..OUTPUT_LEN].copy_from_slice(&hash);
            hash.zeroize();
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let padded = |pad: u8| {
            let (mut state, mut bytes) = (IV, block.map(|byte| byte ^ pad));
            sm3::compress_one(&mut state, &bytes);
            bytes.zeroize();
            state
        };
        let key = HmacKey { inner: padded(0x36), outer: padded(0x5c) };
        block.zeroize();
        key
    }
}

/// SM3 of one message.
fn hash(message: &[u8]) -> [u8; OUTPUT_LEN] {
    let mut state = IV;
    let (whole, end) = End::new(message, None, 0);
    whole.iter().chain(end.blocks()).for_each(|block| sm3::compress_one(&mut state, block));
    let mut output = [0; OUTPUT_LEN];
    let words = output.as_chunks_mut::<4>().0.iter_mut();
    words.zip(state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    output
}

/// The end of a message with its padding: one block or two.
#[derive(Clone, Copy)]
struct End {
    blocks: [[u8; BLOCK_LEN]; 2],
    count: usize,
}

impl End {
    /// A message's whole blocks and its end; `before` bytes were hashed before it.
    fn new(message: &[u8], seq_hi: Option<u32>, before: usize) -> (&[[u8; BLOCK_LEN]], End) {
        let (whole, rest) = message.as_chunks::<BLOCK_LEN>();
        let mut blocks = [[0; BLOCK_LEN]; 2];
        let bytes = blocks.as_flattened_mut();
        let mut len = rest.len();
        bytes[..len].copy_from_slice(rest);
        if let Some(hi) = seq_hi {
            bytes[len..len + 4].copy_from_slice(&hi.to_be_bytes());
            len += 4;
        }
        bytes[len] = 0x80;
        let count = (len + 9).div_ceil(BLOCK_LEN);
        let bits = 8 * (before + whole.len() * BLOCK_LEN + len) as u64;
        bytes[count * BLOCK_LEN - 8..count * BLOCK_LEN].copy_from_slice(&bits.to_be_bytes());
        (whole, End { blocks, count })
    }

    fn blocks(&self) -> &[[u8; BLOCK_LEN]] {
        &self.blocks[..self.count]
    }
}

/// A message to be authenticated: bytes, and the upper half of an extended sequence number behind
/// them.
#[derive(Clone, Copy)]
pub(crate) struct Message<'p> {
    pub(crate) key: &'p HmacKey,
    pub(crate) bytes: &'p [u8],
    pub(crate) seq_hi: Option<u32>,
}

/// A tag before it is cut.
pub(crate) type Tag = [u8; OUTPUT_LEN];

/// A lane's message, and how far it is.
#[derive(Clone, Copy)]
struct Lane<'p> {
    /// Number of the lane's message. A number of no message when the lane is idle.
    number: usize,
    key: Option<&'p HmacKey>,
    whole: &'p [[u8; BLOCK_LEN]],
    end: End,
    /// Blocks of the end that are hashed.
    done: usize,
    is_outer: bool,
}

impl Lane<'_> {
    fn block(&self) -> &[u8; BLOCK_LEN] {
        self.whole.first().unwrap_or(&self.end.blocks[self.done % 2])
    }

    /// Steps on; whether that was the last block.
    fn step(&mut self) -> bool {
        match self.whole.split_first() {
            Some((_, rest)) => self.whole = rest,
            None => self.done += 1,
        }
        self.whole.is_empty() && self.done >= self.end.count
    }
}

/// Hashes in lanes.
pub(crate) struct Lanes {
    states: States,
}

impl Lanes {
    pub(crate) const fn new() -> Lanes {
        Lanes { states: States::NONE }
    }

    /// The tags of messages, in their order.
    pub(crate) fn tags(&mut self, isa: Isa, messages: &[Message<'_>], tags: &mut [Tag]) {
        let none = End { blocks: [[0; BLOCK_LEN]; 2], count: 0 };
        let idle = Lane { number: 0, key: None, whole: &[], end: none, done: 0, is_outer: false };
        let mut lanes = [idle; LANES];
        let mut next = messages.iter().enumerate();
        for (at, lane) in lanes.iter_mut().enumerate() {
            self.take(at, lane, next.next());
        }
        // Lanes are taken from the first on, and are given up one by one.
        while let Some(used) = lanes.iter().rposition(|lane| lane.key.is_some()) {
            let blocks = lanes.each_ref().map(Lane::block);
            sm3::compress(isa, &mut self.states, &blocks, used + 1);
            for (at, lane) in lanes.iter_mut().enumerate().take(used + 1) {
                let Some(key) = lane.key else { continue };
                if !lane.step() {
                    continue;
                }
                let output = self.states.bytes(at);
                if lane.is_outer {
                    if let Some(tag) = tags.get_mut(lane.number) {
                        *tag = output;
                    }
                    self.take(at, lane, next.next());
                } else {
                    (_, lane.end) = End::new(&output, None, BLOCK_LEN);
                    (lane.done, lane.is_outer) = (0, true);
                    self.states.set(at, &key.outer);
                }
            }
        }
    }

    /// Gives a lane its next message, if there is one.
    fn take<'p>(&mut self, at: usize, lane: &mut Lane<'p>, next: Option<(usize, &Message<'p>)>) {
        let Some((number, message)) = next else {
            lane.key = None;
            return;
        };
        let (whole, end) = End::new(message.bytes, message.seq_hi, BLOCK_LEN);
        *lane = Lane { number, key: Some(message.key), whole, end, done: 0, is_outer: false };
        self.states.set(at, &message.key.inner);
    }

    /// Forgets what came of the keys.
    pub(crate) fn wipe(&mut self) {
        self.states.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of all lengths about the blocks', with and without a number behind them, against one hash after the other.
    #[test]
    fn tags_are_those_of_the_definition() {
        let bytes: Vec<u8> = (0..400).map(|at| (at * 3) as u8).collect();
        let keys: Vec<Vec<u8>> = [1, 32, 64, 65, 128].map(|len| bytes[..len].to_vec()).into();
        let hmac_keys: Vec<HmacKey> = keys.iter().map(|key| HmacKey::new(key)).collect();
        let lens = (0..140).chain([190, 191, 192, 247, 255, 256, 300]);
        let cases: Vec<(usize, usize, Option<u32>)> = lens
            .enumerate()
            .map(|(at, len)| (at % 5, len, [None, Some(0x0a0b_0c0d)][at % 2]))
            .collect();
        let wanted: Vec<Tag> = cases
            .iter()
            .map(|(key, len, seq_hi)| {
                let mut block = keys[*key].clone();
                if block.len() > BLOCK_LEN {
                    block = hash(&block).to_vec();
                }
                block.resize(BLOCK_LEN, 0);
                let hi = seq_hi.map_or(vec![], |hi| hi.to_be_bytes().to_vec());
                let pad = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<u8>>();
                let inner = hash(&[&pad(0x36), &bytes[..*len], &hi].concat());
                hash(&[&pad(0x5c)[..], &inner].concat())
            })
            .collect();
        let messages: Vec<Message<'_>> = cases
            .iter()
            .map(|(key, len, seq_hi)| Message {
                key: &hmac_keys[*key],
                bytes: &bytes[..*len],
                seq_hi: *seq_hi,
            })
            .collect();
        for isa in Isa::available() {
            let mut lanes = Lanes::new();
            for count in [1, 7, 9, messages.len()] {
                let mut tags = vec![[0; OUTPUT_LEN]; count];
                lanes.tags(isa, &messages[..count], &mut tags);
                assert_eq!(tags, wanted[..count], "{}", isa.name());
            }
        }
    }
}
