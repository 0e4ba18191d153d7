//! Runs bursts of jobs.
//!
//! For each stretch of at most [`BURST_LEN`] jobs:
//! 1. every job is checked and prepared; AES-GCM runs at once, in order, by direct calls;
//! 2. the others run as one burst: sealing whole, ChaCha20-Poly1305 whole, and of AES-CBC with
//!    HMAC on `Open` only the HMAC;
//! 3. tags are compared; a combined mode's text that did not verify is zeroised;
//! 4. what verified and is still encrypted is decrypted in a second burst.

use arrayvec::ArrayVec;
use core::hint::black_box;
use core::ptr;

use crypto::{Engine, EngineError, Job, JobStatus, Layout, Op, Parts, esn_aad};
use ipsec_mb_sys as sys;

use crate::manager::{GcmCall, Manager, gcm_context_len, hmac_code};
use crate::slab::Slab;
use crate::state::{CbcKey, ChaChaKey, GcmKey, HmacKey, State};

/// How many jobs are worked on together.
const BURST_LEN: usize = 128;

/// The longest packet, in bytes, of a job that runs in a burst: the library counts its lanes'
/// lengths in 16 bits and refuses 65535, and extended sequence numbers add four.
const MAX_BURST_PACKET_LEN: usize = 65530;

/// One worker's engine.
pub(crate) struct IpsecMbEngine {
    manager: Manager,
    context: Slab,
    slots: Box<[Slot; BURST_LEN]>,
    first: Box<ArrayVec<sys::Job, BURST_LEN>>,
    second: Box<ArrayVec<sys::Job, BURST_LEN>>,
}

// SAFETY: the raw pointers in the queues are used only inside `run`, which empties both queues;
// everything they point to is borrowed for that time.
unsafe impl Send for IpsecMbEngine {}

/// What a queued job needs beside its packet, at an address that stays during the burst.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Slot {
    /// The computed tag, where it does not go straight into the packet.
    tag: [u8; 64],
    /// The received ICV, while its place holds the high half of the sequence number.
    received: [u8; 32],
    nonce: [u8; 12],
    aad: [u8; 12],
}

const NO_SLOT: Slot = Slot { tag: [0; 64], received: [0; 32], nonce: [0; 12], aad: [0; 12] };

/// What comes of preparing a job.
enum Prepared {
    /// It is over.
    Over(JobStatus),
    /// It has to run in the first burst.
    Queued(sys::Job),
}

impl IpsecMbEngine {
    /// Sets up a manager and all memory that running needs.
    pub(crate) fn new() -> Result<IpsecMbEngine, EngineError> {
        Ok(IpsecMbEngine {
            manager: Manager::new()?,
            context: Slab::new(gcm_context_len()),
            slots: Box::new([NO_SLOT; BURST_LEN]),
            first: Box::default(),
            second: Box::default(),
        })
    }

    /// The numbered steps of the module's documentation, for at most [`BURST_LEN`] jobs.
    fn stretch(&mut self, jobs: &mut [Job<'_>]) {
        for ((index, job), slot) in jobs.iter_mut().enumerate().zip(self.slots.iter_mut()) {
            match prepare(&mut self.manager, &mut self.context, job, slot) {
                Prepared::Over(status) => job.status = status,
                Prepared::Queued(mut queued) => {
                    queued.user = index as u32;
                    job.status = match self.first.try_push(queued) {
                        Ok(()) => JobStatus::Pending,
                        Err(_) => JobStatus::Failed,
                    };
                }
            }
        }

        // SAFETY: `prepare` took every pointer from a job's own packet, its session, or its own
        // slot, and nothing of those is touched between there and here.
        unsafe { self.manager.burst(&mut self.first) };

        for queued in self.first.drain(..) {
            let index = queued.user as usize;
            let (Some(job), Some(slot)) = (jobs.get_mut(index), self.slots.get(index)) else {
                continue;
            };
            job.status = finish(job, slot, queued.done == 1);
            if job.status != JobStatus::Pending {
                continue;
            }
            job.status = JobStatus::Failed;
            if let Some(mut decrypt) = decryption(job) {
                decrypt.user = queued.user;
                // There is room: at most as many as in the first burst.
                let _ = self.second.try_push(decrypt);
            }
        }

        // SAFETY: as above, with `decryption` in the place of `prepare`.
        unsafe { self.manager.burst(&mut self.second) };

        for queued in self.second.drain(..) {
            let Some(job) = jobs.get_mut(queued.user as usize) else {
                continue;
            };
            if queued.done == 1 {
                job.status = JobStatus::Done;
            } else if let Some(parts) = job.parts() {
                parts.text.fill(0);
            }
        }
    }
}

impl Engine for IpsecMbEngine {
    fn run(&mut self, jobs: &mut [Job<'_>]) {
        for stretch in jobs.chunks_mut(BURST_LEN) {
            self.stretch(stretch);
        }
    }
}

/// Step 1: runs the job, or makes its entry for the first burst.
fn prepare(
    manager: &mut Manager,
    context: &mut Slab,
    job: &mut Job<'_>,
    slot: &mut Slot,
) -> Prepared {
    let session = job.session;
    let (Some(state), Some(layout)) = (session.state::<State>(), job.layout()) else {
        return Prepared::Over(JobStatus::Failed);
    };
    if let State::Gcm(key) = state {
        return Prepared::Over(gcm(manager, context, job, key, slot));
    }
    if job.packet.len() > MAX_BURST_PACKET_LEN {
        return Prepared::Over(JobStatus::Failed);
    }
    let queued = match state {
        State::Gcm(_) => None,
        State::ChaCha(key) => chacha(job, layout, key, slot),
        State::CbcHmac(cbc, mac) => {
            authentication(job, layout, mac, slot).map(|queued| match job.op {
                // An empty text is nothing to encrypt, and the library refuses it.
                Op::Seal if layout.icv > layout.text => sys::Job {
                    keys: cbc.keys.line(0),
                    key_len: cbc.key_len,
                    kind: sys::KIND_CBC_HMAC_SEAL,
                    ..queued
                },
                _ => queued,
            })
        }
        State::NullHmac(mac) => authentication(job, layout, mac, slot),
    };
    match queued {
        Some(queued) => Prepared::Queued(queued),
        None => Prepared::Over(JobStatus::Failed),
    }
}

/// AES-GCM, whole.
fn gcm(
    manager: &mut Manager,
    context: &mut Slab,
    job: &mut Job<'_>,
    key: &GcmKey,
    slot: &mut Slot,
) -> JobStatus {
    let (op, seq_hi) = (job.op, job.seq_hi);
    let Some(Parts { header, iv, text, icv }) = job.parts() else {
        return JobStatus::Failed;
    };
    let Slot { tag, nonce, aad, .. } = slot;
    fill_nonce(nonce, &key.salt, iv);
    let aad = match seq_hi {
        None => header,
        Some(hi) => match esn_aad(header, hi) {
            Some(esn) => {
                *aad = esn;
                &aad[..]
            }
            None => return JobStatus::Failed,
        },
    };
    let GcmKey { key_len, keys, .. } = key;
    let key_len = *key_len;
    match op {
        Op::Seal => {
            let call = GcmCall { op, key_len, keys, context, nonce, aad, text, tag: icv };
            if manager.gcm(call) { JobStatus::Done } else { JobStatus::Failed }
        }
        Op::Open => {
            let Some(tag) = tag.get_mut(..icv.len()) else {
                return JobStatus::Failed;
            };
            let call = GcmCall { op, key_len, keys, context, nonce, aad, text: &mut *text, tag };
            let ran = manager.gcm(call);
            if ran && equal(tag, icv) {
                return JobStatus::Done;
            }
            text.fill(0);
            if ran { JobStatus::BadIcv } else { JobStatus::Failed }
        }
    }
}

/// The entry of a ChaCha20-Poly1305 job.
fn chacha(job: &mut Job<'_>, layout: Layout, key: &ChaChaKey, slot: &mut Slot) -> Option<sys::Job> {
    let (op, seq_hi) = (job.op, job.seq_hi);
    {
        let Parts { header, iv, .. } = job.parts()?;
        fill_nonce(&mut slot.nonce, &key.salt, iv);
        if let Some(hi) = seq_hi {
            slot.aad = esn_aad(header, hi)?;
        }
    }
    let packet = job.packet.as_mut_ptr();
    let (aad, aad_len) = match seq_hi {
        None => (packet.cast_const(), layout.iv),
        Some(_) => (slot.aad.as_ptr(), slot.aad.len()),
    };
    let (kind, tag) = match op {
        Op::Seal => (sys::KIND_CHACHA_SEAL, packet.wrapping_add(layout.icv)),
        Op::Open => (sys::KIND_CHACHA_OPEN, slot.tag.as_mut_ptr()),
    };
    Some(sys::Job {
        keys: key.keys.line(0),
        key_len: 32,
        iv: slot.nonce.as_ptr(),
        iv_len: slot.nonce.len() as u32,
        aad,
        aad_len: aad_len as u32,
        tag,
        tag_len: 16,
        kind,
        ..on_packet(packet, layout)
    })
}

/// The entry that computes a job's HMAC; on `Seal` the tag goes into the packet, unless the high
/// half of the sequence number is there.
fn authentication(
    job: &mut Job<'_>,
    layout: Layout,
    key: &HmacKey,
    slot: &mut Slot,
) -> Option<sys::Job> {
    let (op, seq_hi) = (job.op, job.seq_hi);
    let mut hash_len = layout.icv;
    let icv_len = key.hmac.icv_len_bytes();
    if let Some(hi) = seq_hi {
        let icv = job.packet.get_mut(layout.icv..)?;
        slot.received.get_mut(..icv.len())?.copy_from_slice(icv);
        *icv.first_chunk_mut::<4>()? = hi.to_be_bytes();
        hash_len += 4;
    }
    let packet = job.packet.as_mut_ptr();
    let tag = match (op, seq_hi) {
        (Op::Seal, None) => packet.wrapping_add(layout.icv),
        _ => slot.tag.as_mut_ptr(),
    };
    Some(sys::Job {
        ipad: key.keys.line(0).cast(),
        opad: key.keys.line(1).cast(),
        iv: packet.wrapping_add(layout.iv),
        iv_len: (layout.text - layout.iv) as u32,
        hash_len: hash_len as u32,
        tag,
        tag_len: icv_len as u32,
        kind: sys::KIND_HMAC,
        hmac: hmac_code(key.hmac),
        ..on_packet(packet, layout)
    })
}

/// The entry that decrypts a verified AES-CBC job.
fn decryption(job: &mut Job<'_>) -> Option<sys::Job> {
    let session = job.session;
    let layout = job.layout()?;
    let State::CbcHmac(CbcKey { key_len, keys }, _) = session.state::<State>()? else {
        return None;
    };
    let packet = job.packet.as_mut_ptr();
    Some(sys::Job {
        keys: keys.line(4),
        key_len: *key_len,
        iv: packet.wrapping_add(layout.iv),
        iv_len: (layout.text - layout.iv) as u32,
        kind: sys::KIND_CBC_DECRYPT,
        ..on_packet(packet, layout)
    })
}

/// An entry with the packet's place and the text's, and nothing else.
fn on_packet(packet: *mut u8, layout: Layout) -> sys::Job {
    sys::Job {
        keys: ptr::null(),
        ipad: ptr::null(),
        opad: ptr::null(),
        iv: ptr::null(),
        aad: ptr::null(),
        packet,
        tag: ptr::null_mut(),
        key_len: 0,
        iv_len: 0,
        aad_len: 0,
        cipher_start: layout.text as u32,
        cipher_len: (layout.icv - layout.text) as u32,
        hash_len: 0,
        tag_len: 0,
        user: 0,
        kind: sys::KIND_HMAC,
        hmac: 0,
        done: 0,
        reserved: [0; 5],
    }
}

/// Step 3: the status after the first burst; `Pending` if the text is verified and has to be
/// decrypted.
fn finish(job: &mut Job<'_>, slot: &Slot, ran: bool) -> JobStatus {
    let (session, op, seq_hi) = (job.session, job.op, job.seq_hi);
    let (Some(state), Some(parts)) = (session.state::<State>(), job.parts()) else {
        return JobStatus::Failed;
    };
    let hmac = matches!(state, State::CbcHmac(..) | State::NullHmac(_));
    let Some(tag) = slot.tag.get(..parts.icv.len()) else {
        return JobStatus::Failed;
    };
    match op {
        Op::Seal if !ran => JobStatus::Failed,
        Op::Seal => {
            if hmac && seq_hi.is_some() {
                parts.icv.copy_from_slice(tag);
            }
            JobStatus::Done
        }
        Op::Open => {
            let received = if hmac && seq_hi.is_some() { &slot.received } else { &*parts.icv };
            let verified = ran && received.get(..tag.len()).is_some_and(|icv| equal(tag, icv));
            match state {
                State::CbcHmac(..) if verified && !parts.text.is_empty() => JobStatus::Pending,
                _ if verified => JobStatus::Done,
                _ => {
                    if !matches!(state, State::CbcHmac(..)) {
                        // Decrypted already, or never encrypted.
                        parts.text.fill(0);
                    }
                    if ran { JobStatus::BadIcv } else { JobStatus::Failed }
                }
            }
        }
    }
}

/// Salt, then IV (RFC 4106 §4, RFC 7634 §2).
fn fill_nonce(nonce: &mut [u8; 12], salt: &[u8; 4], iv: &[u8]) {
    for (to, from) in nonce.iter_mut().zip(salt.iter().chain(iv)) {
        *to = *from;
    }
}

/// Whether two tags of the same length are equal, in time that does not depend on the bytes.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    a.len() == b.len() && black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_looks_at_every_byte() {
        assert!(equal(&[], &[]));
        assert!(!equal(&[1, 2], &[1]));
        let tag = [0xa5; 16];
        for bit in 0..128 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!equal(&tag, &other));
        }
        assert!(equal(&tag, &tag.clone()));
    }

    #[test]
    fn nonce_is_salt_then_iv() {
        let mut nonce = [0; 12];
        fill_nonce(&mut nonce, &[1, 2, 3, 4], &[5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(nonce, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
