//! Raw deflate over whole packets (RFC 1951, RFC 2394).

use core::fmt;

use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use outcome::DropReason;

use crate::size::MAX_IP_LEN;

/// A thread's compressor and decompressor. Made once: no packet allocates.
pub struct Deflate {
    compressor: Compressor,
    decompressor: Decompressor,
    /// Output of a compression or decompression.
    scratch: Box<[u8]>,
}

impl Deflate {
    /// Some 300 KiB.
    pub fn new() -> Deflate {
        Deflate {
            // On packets higher levels save a few bytes more, for a multiple of the time.
            compressor: Compressor::new(CompressionLvl::new(1).unwrap_or_default()),
            decompressor: Decompressor::new(),
            scratch: vec![0; MAX_IP_LEN].into(),
        }
    }

    /// The bytes as a deflate stream; `None` if that is longer than `at_most`.
    pub(crate) fn compress(&mut self, bytes: &[u8], at_most: usize) -> Option<&[u8]> {
        let room = self.scratch.get_mut(..at_most)?;
        let len = self.compressor.deflate_compress(bytes, room).ok()?;
        self.scratch.get(..len)
    }

    /// Decompresses a deflate stream, to at most `at_most` bytes. Bytes behind the stream's end are
    /// ignored, as in Linux.
    pub(crate) fn decompress(
        &mut self,
        stream: &[u8],
        at_most: usize,
    ) -> Result<&[u8], DropReason> {
        let room = self.scratch.get_mut(..at_most).ok_or(DropReason::InDeflateTooLong)?;
        match self.decompressor.deflate_decompress(stream, room) {
            Ok(len) => self.scratch.get(..len).ok_or(DropReason::InDeflateTooLong),
            Err(DecompressionError::InsufficientSpace) => Err(DropReason::InDeflateTooLong),
            Err(DecompressionError::BadData) => Err(DropReason::InDeflate),
        }
    }
}

impl Default for Deflate {
    fn default() -> Deflate {
        Deflate::new()
    }
}

impl fmt::Debug for Deflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflate")
    }
}
