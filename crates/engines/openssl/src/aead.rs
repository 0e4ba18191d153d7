//! Combined modes: AES-GCM, ChaCha20-Poly1305, AES-CCM, and AES-GMAC, which encrypts nothing.

use crypto::{JobStatus, Op, Parts, esn_aad};
use openssl::cipher_ctx::CipherCtxRef;
use openssl::error::ErrorStack;
use zeroize::Zeroizing;

use crate::cipher::{Contexts, Kind};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// AES-GCM and ChaCha20-Poly1305: text after text.
    Stream,
    /// AES-CCM: the whole text at once, its length before it.
    Ccm,
    /// AES-GMAC: AES-GCM over additional data alone.
    Gmac,
}

/// A combined mode's key. The salt has 3 bytes for AES-CCM, else 4.
pub(crate) struct Aead {
    pub(crate) mode: Mode,
    pub(crate) kind: Kind,
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) salt: Zeroizing<Vec<u8>>,
}

impl Aead {
    /// Runs a packet either way.
    pub(crate) fn run(
        &self,
        contexts: &mut Contexts,
        op: Op,
        parts: Parts<'_>,
        seq_hi: Option<u32>,
    ) -> JobStatus {
        // Salt and IV; AES-CCM's nonce ends one byte before the array (RFC 4309 §4).
        let mut nonce = [0; 12];
        for (to, from) in nonce.iter_mut().zip(self.salt.iter().chain(parts.iv)) {
            *to = *from;
        }
        let esn;
        let aad = match seq_hi {
            None => parts.header,
            Some(hi) => match esn_aad(parts.header, hi) {
                Some(aad) => {
                    esn = aad;
                    &esn[..]
                }
                None => return JobStatus::Failed,
            },
        };
        let owner = self.key.as_ptr().addr();
        let Some(ctx) = contexts.start(self.kind, op, owner, &self.key, &nonce) else {
            return JobStatus::Failed;
        };
        let Parts { iv, text, icv, .. } = parts;
        match op {
            Op::Seal => {
                let sealed = match self.mode {
                    Mode::Stream => absorb(ctx, aad, text),
                    Mode::Ccm => prepare(ctx, aad, text).and_then(|()| whole(ctx, text)),
                    Mode::Gmac => authenticate(ctx, [aad, iv, text]),
                };
                match sealed.and_then(|()| finish(ctx, icv)) {
                    Ok(()) => JobStatus::Done,
                    Err(_) => JobStatus::Failed,
                }
            }
            Op::Open => {
                let opened = ctx.set_tag(icv).and_then(|()| match self.mode {
                    Mode::Stream => absorb(ctx, aad, text).map(|()| verified(ctx)),
                    // The text's own call says whether the ICV is right.
                    Mode::Ccm => prepare(ctx, aad, text).map(|()| whole(ctx, text).is_ok()),
                    Mode::Gmac => authenticate(ctx, [aad, iv, text]).map(|()| verified(ctx)),
                });
                let status = match opened {
                    Ok(true) => return JobStatus::Done,
                    Ok(false) => JobStatus::BadIcv,
                    Err(_) => JobStatus::Failed,
                };
                // The buffer holds plaintext that must not be used.
                text.fill(0);
                status
            }
        }
    }
}

/// Additional data and text; EVP takes empty input for an error or for the end.
fn absorb(ctx: &mut CipherCtxRef, aad: &[u8], text: &mut [u8]) -> Result<(), ErrorStack> {
    if !aad.is_empty() {
        ctx.cipher_update(aad, None)?;
    }
    if !text.is_empty() {
        ctx.cipher_update_inplace(text, text.len())?;
    }
    Ok(())
}

/// AES-CCM's first block holds the text's length, and the additional data follow it.
fn prepare(ctx: &mut CipherCtxRef, aad: &[u8], text: &[u8]) -> Result<(), ErrorStack> {
    ctx.set_data_len(text.len())?;
    if !aad.is_empty() {
        ctx.cipher_update(aad, None)?;
    }
    Ok(())
}

/// AES-CCM's text, which may be empty.
fn whole(ctx: &mut CipherCtxRef, text: &mut [u8]) -> Result<(), ErrorStack> {
    ctx.cipher_update_inplace(text, text.len()).map(|_| ())
}

/// Additional data alone, in several parts (RFC 4543 §3.3: what a combined mode has, IV, text).
fn authenticate(ctx: &mut CipherCtxRef, parts: [&[u8]; 3]) -> Result<(), ErrorStack> {
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        ctx.cipher_update(part, None)?;
    }
    Ok(())
}

fn finish(ctx: &mut CipherCtxRef, icv: &mut [u8]) -> Result<(), ErrorStack> {
    ctx.cipher_final(&mut [])?;
    ctx.tag(icv)
}

/// True if the ICV verified.
fn verified(ctx: &mut CipherCtxRef) -> bool {
    ctx.cipher_final(&mut []).is_ok()
}
