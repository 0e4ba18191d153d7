//! SM4 in counter mode: of one packet as many blocks at once as the implementation likes.

use crate::isa::Isa;
use crate::sm4::{self, RoundKeys};

/// How many blocks of the key stream are made together.
const BLOCKS: usize = 96;

/// A key stream's blocks: nonce of 12 bytes and a counter of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    /// The nonce, as the first bytes of a block whose last are zero.
    nonce: u128,
    number: u32,
}

impl Counter {
    /// Salt and IV; the first block has this number.
    pub(crate) fn new(salt: [u8; 4], iv: &[u8], number: u32) -> Counter {
        let mut nonce = [0; 16];
        let bytes = salt.iter().chain(iv).take(12);
        nonce.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Counter { nonce: u128::from_be_bytes(nonce), number }
    }

    #[inline]
    fn next(&mut self) -> [u8; 16] {
        let block = self.nonce | u128::from(self.number);
        self.number = self.number.wrapping_add(1);
        block.to_be_bytes()
    }
}

/// A key stream, some blocks of it made.
pub(crate) struct Stream {
    counter: Counter,
    blocks: [[u8; 16]; BLOCKS],
    /// Blocks of the key stream that are made and not used: from here to `end`.
    from: usize,
    end: usize,
}

impl Stream {
    /// Begins a stream with as many blocks as `len` bytes need, or as are made together.
    pub(crate) fn new(isa: Isa, keys: &RoundKeys, counter: Counter, len: usize) -> Stream {
        let mut stream = Stream { counter, blocks: [[0; 16]; BLOCKS], from: 0, end: 0 };
        stream.make(isa, keys, len);
        stream
    }

    fn make(&mut self, isa: Isa, keys: &RoundKeys, len: usize) {
        (self.from, self.end) = (0, len.div_ceil(16).min(BLOCKS));
        let blocks = &mut self.blocks[..self.end];
        blocks.iter_mut().for_each(|block| *block = self.counter.next());
        sm4::one(isa, keys, blocks);
    }

    /// Takes the next block out of the stream.
    pub(crate) fn block(&mut self) -> [u8; 16] {
        self.from += 1;
        self.blocks.get(self.from - 1).copied().unwrap_or_default()
    }

    /// Encrypts or decrypts all of a text in place.
    pub(crate) fn crypt(&mut self, isa: Isa, keys: &RoundKeys, mut text: &mut [u8]) {
        loop {
            let stream = self.blocks.get(self.from..self.end).unwrap_or(&[]);
            let (now, later) = text.split_at_mut(text.len().min(16 * stream.len()));
            let (whole, rest) = now.as_chunks_mut::<16>();
            let last = stream.get(whole.len()).unwrap_or(&[0; 16]);
            whole.iter_mut().zip(stream).for_each(|(text, stream)| *text = xor(*text, *stream));
            rest.iter_mut().zip(last).for_each(|(text, stream)| *text ^= stream);
            if later.is_empty() {
                return;
            }
            text = later;
            self.make(isa, keys, text.len());
        }
    }
}

/// The sum of two blocks.
#[inline]
pub(crate) fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}
