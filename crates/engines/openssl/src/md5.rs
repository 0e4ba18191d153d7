//! HMAC-MD5 (RFC 2403) on OpenSSL's interface for every hash: MD5 has no state that is a plain value.
//!
//! Each packet absorbs the padded key anew, and OpenSSL takes and gives back a little memory of its own heap:
//! MD5 is for peers that have nothing better, not for speed.

use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::md_ctx::MdCtx;
use zeroize::{Zeroize, Zeroizing};

use crate::tag::{Tag, fill};

/// MD5's block and output in bytes.
const BLOCK_LEN: usize = 64;
const OUTPUT_LEN: usize = 16;

/// One worker's MD5.
pub(crate) struct Md5 {
    md5: Md,
    ctx: MdCtx,
}

impl Md5 {
    /// # Errors
    /// When OpenSSL has no MD5.
    pub(crate) fn new() -> Result<Md5, ErrorStack> {
        Ok(Md5 { md5: Md::fetch(None, "MD5", None)?, ctx: MdCtx::new()? })
    }

    fn hash(&mut self, parts: &[&[u8]]) -> Result<[u8; OUTPUT_LEN], ErrorStack> {
        self.ctx.digest_init(&self.md5)?;
        for part in parts {
            self.ctx.digest_update(part)?;
        }
        let mut output = [0; OUTPUT_LEN];
        self.ctx.digest_final(&mut output)?;
        Ok(output)
    }
}

/// HMAC's two padded keys.
pub(crate) struct Md5Key {
    inner: Zeroizing<[u8; BLOCK_LEN]>,
    outer: Zeroizing<[u8; BLOCK_LEN]>,
}

impl Md5Key {
    /// Pads the key; one that is longer than the hash's block is hashed first. `None` when OpenSSL has no MD5.
    pub(crate) fn new(key: &[u8]) -> Option<Md5Key> {
        let mut block = Zeroizing::new([0; BLOCK_LEN]);
        if key.len() > BLOCK_LEN {
            let mut hashed = Md5::new().and_then(|mut md5| md5.hash(&[key])).ok()?;
            fill(&mut *block, &hashed);
            hashed.zeroize();
        } else {
            fill(&mut *block, key);
        }
        let padded = |pad| Zeroizing::new(block.map(|byte| byte ^ pad));
        Some(Md5Key { inner: padded(0x36), outer: padded(0x5c) })
    }

    /// The tag of the parts, one after the other; `None` when OpenSSL fails.
    pub(crate) fn tag(&self, md5: &mut Md5, parts: &[&[u8]]) -> Option<Tag> {
        md5.ctx.digest_init(&md5.md5).ok()?;
        md5.ctx.digest_update(&*self.inner).ok()?;
        for part in parts {
            md5.ctx.digest_update(part).ok()?;
        }
        let mut inner = [0; OUTPUT_LEN];
        md5.ctx.digest_final(&mut inner).ok()?;
        let outer = md5.hash(&[&*self.outer, &inner]).ok()?;
        let mut tag = Tag::default();
        fill(&mut tag, &outer);
        Some(tag)
    }
}
