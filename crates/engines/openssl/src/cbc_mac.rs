//! MACs of the CBC kind on OpenSSL's AES-CBC: AES-CMAC (RFC 4493) and AES-XCBC-MAC (RFC 3566).
//!
//! Both are the last block of AES-CBC with an IV of zeros over the message, whose last block is changed by a
//! subkey before: by one if it is whole, by the other if it had to be padded.

use crypto::Op;
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use zeroize::{Zeroize, Zeroizing};

use crate::cipher::{Contexts, Kind, NO_IV};
use crate::tag::{Tag, fill};

/// AES's block in bytes, and the key of both MACs.
const BLOCK_LEN: usize = 16;

/// Bytes that are encrypted at once.
const CHUNK_LEN: usize = 512;

/// A block of AES.
type Block = [u8; BLOCK_LEN];

/// The keys of one MAC. On the heap, so that the key's address is its own.
pub(crate) struct CbcMac {
    keys: Box<Zeroizing<Keys>>,
}

#[derive(Zeroize)]
struct Keys {
    chain: Block,
    /// Goes over a last block that is whole.
    whole: Block,
    /// Goes over one that was padded.
    padded: Block,
}

impl CbcMac {
    /// AES-CMAC's subkeys (RFC 4493 §2.3). `None` if the key has another length than 16 bytes, or OpenSSL fails.
    pub(crate) fn cmac(key: &[u8]) -> Option<CbcMac> {
        let double = |block: Block| {
            let number = u128::from_be_bytes(block);
            let carry = if number >> 127 == 1 { 0x87 } else { 0 };
            (number << 1 ^ carry).to_be_bytes()
        };
        CbcMac::with(|Keys { chain, whole, padded }| {
            *chain = key.try_into().ok()?;
            encrypt(chain, &[0; BLOCK_LEN], whole).ok()?;
            *whole = double(*whole);
            *padded = double(*whole);
            Some(())
        })
    }

    /// AES-XCBC-MAC's three keys (RFC 3566 §4). `None` as above.
    pub(crate) fn xcbc(key: &[u8]) -> Option<CbcMac> {
        let key: Zeroizing<Block> = Zeroizing::new(key.try_into().ok()?);
        CbcMac::with(|Keys { chain, whole, padded }| {
            for (byte, subkey) in (1..).zip([chain, whole, padded]) {
                encrypt(&key, &[byte; BLOCK_LEN], subkey).ok()?;
            }
            Some(())
        })
    }

    /// With keys that are made where they stay, so that no copy is left behind.
    fn with(make: impl FnOnce(&mut Keys) -> Option<()>) -> Option<CbcMac> {
        let zeros = [0; BLOCK_LEN];
        let mut keys = Box::new(Zeroizing::new(Keys { chain: zeros, whole: zeros, padded: zeros }));
        make(&mut keys)?;
        Some(CbcMac { keys })
    }

    /// The tag of the parts, one after the other; `None` when OpenSSL fails.
    pub(crate) fn tag(&self, contexts: &mut Contexts, parts: &[&[u8]]) -> Option<Tag> {
        let keys = &**self.keys;
        let owner = keys.chain.as_ptr().addr();
        let ctx = contexts.start(Kind::Mac, Op::Seal, owner, &keys.chain, &NO_IV)?;
        let (mut chunk, mut len) = ([0; CHUNK_LEN], 0);
        let mut out = [0; CHUNK_LEN + BLOCK_LEN];
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                // More comes, so the last block is not among these.
                if len == CHUNK_LEN {
                    ctx.cipher_update(&chunk, Some(&mut out)).ok()?;
                    len = 0;
                }
                let (now, later) = rest.split_at(rest.len().min(CHUNK_LEN - len));
                fill(chunk.get_mut(len..)?, now);
                (len, rest) = (len + now.len(), later);
            }
        }
        let last_at = len.saturating_sub(1) / BLOCK_LEN * BLOCK_LEN;
        let last = chunk.get_mut(last_at..)?.first_chunk_mut::<BLOCK_LEN>()?;
        let subkey = match len - last_at {
            BLOCK_LEN => &keys.whole,
            used => {
                let (one, zeros) = last.get_mut(used..)?.split_first_mut()?;
                *one = 0x80;
                zeros.fill(0);
                &keys.padded
            }
        };
        for (byte, key) in last.iter_mut().zip(subkey) {
            *byte ^= key;
        }
        let end = last_at + BLOCK_LEN;
        ctx.cipher_update(chunk.get(..end)?, Some(&mut out)).ok()?;
        let mut tag = Tag::default();
        fill(&mut tag, out.get(last_at..end)?);
        Some(tag)
    }
}

/// AES over one block.
fn encrypt(key: &Block, block: &Block, to: &mut Block) -> Result<(), ErrorStack> {
    let cipher = Cipher::fetch(None, "AES-128-ECB", None)?;
    let mut ctx = CipherCtx::new()?;
    ctx.encrypt_init(Some(&cipher), Some(key), None)?;
    ctx.set_padding(false);
    let mut out = [0; 2 * BLOCK_LEN];
    ctx.cipher_update(block, Some(&mut out))?;
    fill(to, &out);
    out.zeroize();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of every length around blocks and chunks, whole and split at every place, have one tag.
    #[test]
    fn splitting_the_message_does_not_matter() {
        let mut contexts = Contexts::new().unwrap();
        let message: Vec<u8> = (0..3 * CHUNK_LEN).map(|i| (i * 7) as u8).collect();
        for mac in [CbcMac::cmac(&[5; 16]).unwrap(), CbcMac::xcbc(&[5; 16]).unwrap()] {
            for len in (0..70).chain(CHUNK_LEN - 17..CHUNK_LEN + 18).chain([1024, 1025, 1536]) {
                let message = &message[..len];
                let whole = mac.tag(&mut contexts, &[message]).unwrap();
                for at in [0, 1, 8, 15, 16, 17, len / 2, len].into_iter().filter(|at| *at <= len) {
                    let (a, b) = message.split_at(at);
                    assert_eq!(mac.tag(&mut contexts, &[a, &[], b]).unwrap(), whole, "{len} {at}");
                }
            }
        }
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for len in [0, 15, 17, 24, 32] {
            assert!(CbcMac::cmac(&vec![1; len]).is_none() && CbcMac::xcbc(&vec![1; len]).is_none());
        }
    }
}
