//! A cipher, or none, with an integrity algorithm.

use crypto::{JobStatus, Op, Parts};
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{Contexts, Kind};
use crate::mac::{Mac, Tools};

/// The longest block of the ciphers, in bytes.
const MAX_BLOCK_LEN: usize = 16;

/// Both algorithms' keys.
pub(crate) struct Separate {
    /// Nothing for NULL.
    pub(crate) cipher: Option<CipherKey>,
    pub(crate) mac: Mac,
}

impl Separate {
    /// `Seal`: encrypts, then authenticates. `Open`: verifies, and decrypts only what verified.
    pub(crate) fn run(
        &self,
        tools: &mut Tools,
        op: Op,
        parts: Parts<'_>,
        seq_hi: Option<u32>,
    ) -> JobStatus {
        let hi = seq_hi.map(u32::to_be_bytes);
        let hi = hi.as_ref().map_or(&[][..], |hi| &hi[..]);
        let Parts { header, iv, text, icv } = parts;
        let crypt = |tools: &mut Tools, text: &mut [u8]| {
            self.cipher.as_ref().is_none_or(|key| key.run(&mut tools.contexts, op, iv, text))
        };
        match op {
            Op::Seal => {
                let is_done =
                    crypt(tools, text) && self.mac.sign(tools, &[header, iv, &*text, hi], icv);
                if is_done { JobStatus::Done } else { JobStatus::Failed }
            }
            Op::Open => {
                let status = match self.mac.verify(tools, &[header, iv, &*text, hi], icv) {
                    Some(true) if crypt(tools, text) => return JobStatus::Done,
                    Some(true) => {
                        // Half decrypted, perhaps.
                        text.fill(0);
                        JobStatus::Failed
                    }
                    Some(false) => JobStatus::BadIcv,
                    None => JobStatus::Failed,
                };
                if self.cipher.is_none() {
                    // Without encryption the received text is plaintext.
                    text.fill(0);
                }
                status
            }
        }
    }
}

/// A cipher's key.
pub(crate) struct CipherKey {
    pub(crate) kind: Kind,
    pub(crate) key: Zeroizing<Vec<u8>>,
    /// The nonce of a counter mode (RFC 3686 §4), else empty.
    pub(crate) nonce: Zeroizing<Vec<u8>>,
    /// The cipher's block in bytes, 1 for a counter mode.
    pub(crate) block_len: usize,
}

impl CipherKey {
    /// Encrypts or decrypts whole blocks, without padding. False if it failed.
    fn run(&self, contexts: &mut Contexts, op: Op, iv: &[u8], text: &mut [u8]) -> bool {
        let owner = self.key.as_ptr().addr();
        if self.block_len == 1 {
            // Nonce, IV, and a block counter that begins with one.
            let mut counter = [0; 16];
            let block = self.nonce.iter().chain(iv).chain(&[0, 0, 0, 1]);
            counter.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
            let Some(ctx) = contexts.start(self.kind, op, owner, &self.key, &counter) else {
                return false;
            };
            return text.is_empty()
                || ctx.cipher_update_inplace(text, text.len()).ok() == Some(text.len());
        }
        let Some(ctx) = contexts.start(self.kind, op, owner, &self.key, iv) else {
            return false;
        };
        // The crate wants one block of room behind what it works on in place, which the packet
        // may not have: the last block goes through a buffer.
        let Some(most) = text.len().checked_sub(self.block_len) else {
            return true;
        };
        if ctx.cipher_update_inplace(text, most).ok() != Some(most) {
            return false;
        }
        let Some(last) = text.get_mut(most..) else {
            return false;
        };
        let mut out = [0; 2 * MAX_BLOCK_LEN];
        let is_done = ctx.cipher_update(last, Some(&mut out)).ok() == Some(last.len());
        if is_done {
            last.iter_mut().zip(out).for_each(|(to, from)| *to = from);
        }
        out.zeroize();
        is_done
    }
}
