//! Runs jobs, one after the other.
//!
//! For each job:
//! 1. find the session's state and the packet's parts, else the job has failed;
//! 2. `Seal`: encrypt, then authenticate;
//! 3. `Open`: HMAC suites verify first and decrypt only what verified; combined modes decrypt and
//!    verify in one pass, and what did not verify is zeroised.

use core::ptr;

use crypto::{Engine, Job, JobStatus, Op, Parts, esn_aad};
use openssl::cipher_ctx::CipherCtxRef;
use openssl::error::ErrorStack;
use zeroize::Zeroize;

use crate::cipher::{Contexts, Kind};
use crate::mac::Mac;
use crate::state::State;

/// The block of AES in bytes.
const BLOCK_LEN: usize = 16;

/// One worker's engine.
pub(crate) struct OpensslEngine {
    contexts: Contexts,
}

impl OpensslEngine {
    /// Makes every context that a job may need.
    pub(crate) fn new() -> Result<OpensslEngine, ErrorStack> {
        Ok(OpensslEngine { contexts: Contexts::new()? })
    }

    fn one(&mut self, job: &mut Job<'_>) -> JobStatus {
        let (session, op, seq_hi) = (job.session, job.op, job.seq_hi);
        let Some(state) = session.state::<State>() else {
            return JobStatus::Failed;
        };
        // EVP counts in C's int.
        if i32::try_from(job.packet.len()).is_err() {
            return JobStatus::Failed;
        }
        let Some(parts) = job.parts() else {
            return JobStatus::Failed;
        };
        let owner = ptr::from_ref(state).addr();
        match state {
            State::Aead { kind, key, salt } => {
                let keyed = Aead { kind: *kind, owner, key, salt };
                self.aead(&keyed, op, parts, seq_hi)
            }
            State::CbcHmac { kind, key, mac } => match op {
                Op::Seal => {
                    let Parts { header, iv, text, icv } = parts;
                    if !self.cbc(*kind, op, owner, key, iv, text) {
                        return JobStatus::Failed;
                    }
                    sign(mac, header, iv, text, icv, seq_hi)
                }
                Op::Open => match verify(mac, &parts, seq_hi) {
                    JobStatus::Done => {
                        if self.cbc(*kind, op, owner, key, parts.iv, parts.text) {
                            JobStatus::Done
                        } else {
                            parts.text.fill(0);
                            JobStatus::Failed
                        }
                    }
                    bad => bad,
                },
            },
            State::NullHmac { mac } => match op {
                Op::Seal => {
                    let Parts { header, iv, text, icv } = parts;
                    sign(mac, header, iv, text, icv, seq_hi)
                }
                Op::Open => {
                    let status = verify(mac, &parts, seq_hi);
                    if status != JobStatus::Done {
                        // Without encryption the received text is plaintext.
                        parts.text.fill(0);
                    }
                    status
                }
            },
        }
    }

    /// A combined mode, either way.
    fn aead(
        &mut self,
        keyed: &Aead<'_>,
        op: Op,
        parts: Parts<'_>,
        seq_hi: Option<u32>,
    ) -> JobStatus {
        let mut nonce = [0; 12];
        for (to, from) in nonce.iter_mut().zip(keyed.salt.iter().chain(parts.iv)) {
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
        let Some(ctx) = self.contexts.start(keyed.kind, op, keyed.owner, keyed.key, &nonce) else {
            return JobStatus::Failed;
        };
        match op {
            Op::Seal => match seal(ctx, aad, parts.text, parts.icv) {
                Ok(()) => JobStatus::Done,
                Err(_) => JobStatus::Failed,
            },
            Op::Open => match open(ctx, aad, parts.text, parts.icv) {
                Ok(true) => JobStatus::Done,
                Ok(false) => {
                    parts.text.fill(0);
                    JobStatus::BadIcv
                }
                Err(_) => {
                    parts.text.fill(0);
                    JobStatus::Failed
                }
            },
        }
    }

    /// AES-CBC without padding, either way; the text is whole blocks. False if it failed.
    fn cbc(
        &mut self,
        kind: Kind,
        op: Op,
        owner: usize,
        key: &[u8],
        iv: &[u8],
        text: &mut [u8],
    ) -> bool {
        let Some(ctx) = self.contexts.start(kind, op, owner, key, iv) else {
            return false;
        };
        // The crate wants one block of room behind what it works on in place, which the packet
        // may not have: the last block goes through a buffer.
        let Some(most) = text.len().checked_sub(BLOCK_LEN) else {
            return true;
        };
        if ctx.cipher_update_inplace(text, most).ok() != Some(most) {
            return false;
        }
        let Some(last) = text.last_chunk_mut::<BLOCK_LEN>() else {
            return false;
        };
        let mut out = [0; 2 * BLOCK_LEN];
        let done = ctx.cipher_update(last, Some(&mut out)).ok() == Some(BLOCK_LEN);
        if done {
            last.copy_from_slice(&out[..BLOCK_LEN]);
        }
        out.zeroize();
        done
    }
}

impl Engine for OpensslEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        for job in jobs {
            job.status = self.one(job);
        }
        self.contexts.forget_keys();
    }
}

/// A combined mode's key.
struct Aead<'a> {
    kind: Kind,
    owner: usize,
    key: &'a [u8],
    salt: &'a [u8; 4],
}

fn seal(
    ctx: &mut CipherCtxRef,
    aad: &[u8],
    text: &mut [u8],
    icv: &mut [u8],
) -> Result<(), ErrorStack> {
    absorb(ctx, aad, text)?;
    ctx.cipher_final(&mut [])?;
    ctx.tag(icv)
}

/// Whether the ICV verified; if not, the text is plaintext that must not be used.
fn open(
    ctx: &mut CipherCtxRef,
    aad: &[u8],
    text: &mut [u8],
    icv: &[u8],
) -> Result<bool, ErrorStack> {
    ctx.set_tag(icv)?;
    absorb(ctx, aad, text)?;
    Ok(ctx.cipher_final(&mut []).is_ok())
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

fn sign(
    mac: &Mac,
    header: &[u8],
    iv: &[u8],
    text: &[u8],
    icv: &mut [u8],
    seq_hi: Option<u32>,
) -> JobStatus {
    let hi = seq_hi.unwrap_or_default().to_be_bytes();
    let hi = if seq_hi.is_some() { &hi[..] } else { &[] };
    mac.sign(&[header, iv, text, hi], icv);
    JobStatus::Done
}

fn verify(mac: &Mac, parts: &Parts<'_>, seq_hi: Option<u32>) -> JobStatus {
    let hi = seq_hi.unwrap_or_default().to_be_bytes();
    let hi = if seq_hi.is_some() { &hi[..] } else { &[] };
    if mac.verify(&[parts.header, parts.iv, parts.text, hi], parts.icv) {
        JobStatus::Done
    } else {
        JobStatus::BadIcv
    }
}
