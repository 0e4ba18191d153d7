//! SM4 in counter mode: of one packet as many blocks at once as the implementation likes.

use crate::isa::Isa;
use crate::sm4::{self, RoundKeys};

/// How many blocks of the key stream are made together.
const BLOCKS: usize = 48;

/// A key stream's blocks: nonce of 12 bytes and a counter of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    nonce: [u8; 12],
    number: u32,
}

impl Counter {
    /// Salt and IV; the first block has this number.
    pub(crate) fn new(salt: [u8; 4], iv: &[u8], number: u32) -> Counter {
        let mut nonce = [0; 12];
        nonce.iter_mut().zip(salt.iter().chain(iv)).for_each(|(to, from)| *to = *from);
        Counter { nonce, number }
    }

    fn next(&mut self) -> [u8; 16] {
        let mut block = [0; 16];
        let (nonce, number) = block.split_at_mut(12);
        nonce.copy_from_slice(&self.nonce);
        number.copy_from_slice(&self.number.to_be_bytes());
        self.number = self.number.wrapping_add(1);
        block
    }
}

/// A key stream, some blocks of it made.
pub(crate) struct Stream {
    counter: Counter,
    blocks: [[u8; 16]; BLOCKS],
    /// Those that are made and not used.
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
            let stream = self.blocks.get(self.from..self.end).unwrap_or(&[]).as_flattened();
            let (now, later) = text.split_at_mut(text.len().min(stream.len()));
            now.iter_mut().zip(stream).for_each(|(text, stream)| *text ^= stream);
            if later.is_empty() {
                return;
            }
            text = later;
            self.make(isa, keys, text.len());
        }
    }
}
