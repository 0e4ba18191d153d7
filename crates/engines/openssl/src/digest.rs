//! HMAC-MD5 (RFC 2403) and HMAC-SM3 on OpenSSL's interface for every hash: neither has a state that is a plain value.
//!
//! Each packet absorbs the padded key anew, and OpenSSL takes and gives back a little memory of its own heap: MD5 is for
//! peers that have nothing better, and SM3 has an engine of its own.

use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::md_ctx::MdCtx;
use zeroize::{Zeroize, Zeroizing};

use crate::tag::{Tag, fill};

/// Both hashes' block, and the longer one's output, in bytes.
const BLOCK_LEN: usize = 64;
const MAX_OUTPUT_LEN: usize = 32;

/// One worker's hash.
pub(crate) struct Digest {
    md: Md,
    ctx: MdCtx,
}

impl Digest {
    /// # Errors
    /// When OpenSSL has no such hash.
    pub(crate) fn new(name: &str) -> Result<Digest, ErrorStack> {
        Ok(Digest { md: Md::fetch(None, name, None)?, ctx: MdCtx::new()? })
    }

    /// The output, and zeros behind a short one.
    fn hash(&mut self, parts: &[&[u8]]) -> Result<[u8; MAX_OUTPUT_LEN], ErrorStack> {
        self.ctx.digest_init(&self.md)?;
        for part in parts {
            self.ctx.digest_update(part)?;
        }
        let mut output = [0; MAX_OUTPUT_LEN];
        self.ctx.digest_final(&mut output)?;
        Ok(output)
    }
}

/// HMAC's two padded keys.
pub(crate) struct DigestKey {
    inner: Zeroizing<[u8; BLOCK_LEN]>,
    outer: Zeroizing<[u8; BLOCK_LEN]>,
}

impl DigestKey {
    /// Pads the key; one that is longer than the hash's block is hashed first. `None` when OpenSSL has no such hash.
    pub(crate) fn new(name: &str, key: &[u8]) -> Option<DigestKey> {
        let mut block = Zeroizing::new([0; BLOCK_LEN]);
        if key.len() > BLOCK_LEN {
            let mut hashed = Digest::new(name).and_then(|mut digest| digest.hash(&[key])).ok()?;
            fill(&mut *block, &hashed);
            hashed.zeroize();
        } else {
            fill(&mut *block, key);
        }
        let padded = |pad| Zeroizing::new(block.map(|byte| byte ^ pad));
        Some(DigestKey { inner: padded(0x36), outer: padded(0x5c) })
    }

    /// The tag of the parts, one after the other; `None` when OpenSSL fails.
    pub(crate) fn tag(&self, digest: &mut Digest, parts: &[&[u8]]) -> Option<Tag> {
        digest.ctx.digest_init(&digest.md).ok()?;
        digest.ctx.digest_update(&*self.inner).ok()?;
        for part in parts {
            digest.ctx.digest_update(part).ok()?;
        }
        let mut inner = [0; MAX_OUTPUT_LEN];
        let len = digest.ctx.digest_final(&mut inner).ok()?;
        let outer = digest.hash(&[&*self.outer, inner.get(..len)?]).ok()?;
        let mut tag = Tag::default();
        fill(&mut tag, &outer);
        Some(tag)
    }
}
