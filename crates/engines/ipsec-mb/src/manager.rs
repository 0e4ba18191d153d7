//! The library's manager, made safe except for bursts.

use core::ffi::{CStr, c_int};
use core::ptr::{self, NonNull};

use crypto::{EngineError, Hmac, Op};
use ipsec_mb_sys as sys;

use crate::NAME;
use crate::slab::Slab;

/// Bytes of an AES key schedule, for the largest key.
const SCHEDULE_LEN: usize = 240;

/// One manager: queues and lanes of one thread.
pub(crate) struct Manager {
    raw: NonNull<sys::Manager>,
    arch: c_int,
    features: u64,
}

// SAFETY: the library keeps a manager's whole state in its allocation; nothing ties it to the
// thread that made it. It is not Sync: every call takes `&mut self`.
unsafe impl Send for Manager {}

impl Manager {
    /// Sets one up for this processor.
    ///
    /// # Errors
    /// When memory is short, when the library's own self-test fails, or when the processor lacks
    /// AES instructions: the library would emulate them, slower than any other engine.
    pub(crate) fn new() -> Result<Manager, EngineError> {
        let (mut error, mut arch, mut features) = (0, 0, 0);
        // SAFETY: the three places are valid for writing for the length of the call.
        let raw = unsafe { sys::culvert_mb_new(&mut error, &mut arch, &mut features) };
        let Some(raw) = NonNull::new(raw) else {
            return Err(unavailable(error));
        };
        let manager = Manager { raw, arch, features };
        if arch == sys::ARCH_NOAESNI {
            let what = "the processor has no AES instructions".to_owned();
            return Err(EngineError::Unavailable { engine: NAME, what });
        }
        Ok(manager)
    }

    /// Version and code path, for people.
    pub(crate) fn description(&self) -> String {
        let version = sys::imb_get_version_str();
        // SAFETY: the library returns a static string with its terminating zero.
        let version = unsafe { CStr::from_ptr(version) };
        let path = match self.arch {
            sys::ARCH_SSE => "SSE",
            sys::ARCH_AVX => "AVX",
            sys::ARCH_AVX2 => "AVX2",
            sys::ARCH_AVX512 => "AVX-512",
            _ => "unknown code path",
        };
        let vaes = if self.features & sys::FEATURE_VAES != 0 { " with VAES" } else { "" };
        let sha = if self.features & sys::FEATURE_SHANI != 0 { ", SHA instructions" } else { "" };
        format!("{}, {path}{vaes}{sha}", version.to_string_lossy())
    }

    /// Expands an AES key into lines 0 (encryption) and 4 (decryption) of a slab of 8 lines.
    pub(crate) fn aes_keys(&mut self, key: &[u8]) -> Result<Slab, EngineError> {
        let mut slab = Slab::new(2 * SCHEDULE_LEN.next_power_of_two());
        let (enc, dec) = (slab.line_mut(0), slab.line_mut(4));
        // SAFETY: the shim reads `key.len()` bytes of the key, and refuses other lengths than
        // 16, 24 and 32; both schedules have 256 aligned bytes of the slab for at most 240.
        let error = unsafe {
            sys::culvert_mb_aes_keys(self.raw.as_ptr(), len_u32(key), key.as_ptr().cast(), enc, dec)
        };
        result(error).map(|()| slab)
    }

    /// Expands an AES-GCM key.
    pub(crate) fn gcm_keys(&mut self, key: &[u8]) -> Result<Slab, EngineError> {
        let mut slab = Slab::new(sys::culvert_mb_gcm_key_size());
        let out = slab.line_mut(0);
        // SAFETY: as above; the slab has the size and the alignment that the library asks for.
        let error = unsafe {
            sys::culvert_mb_gcm_keys(self.raw.as_ptr(), len_u32(key), key.as_ptr().cast(), out)
        };
        result(error).map(|()| slab)
    }

    /// The hash states of HMAC after the padded key: inner in line 0, outer in line 1.
    pub(crate) fn hmac_keys(&mut self, hmac: Hmac, key: &[u8]) -> Result<Slab, EngineError> {
        let mut slab = Slab::new(128);
        let (ipad, opad) = (slab.line_mut(0), slab.line_mut(1));
        // SAFETY: the key is valid for its length; each state has a line of 64 bytes.
        let error = unsafe {
            sys::culvert_mb_hmac_keys(
                self.raw.as_ptr(),
                hmac_code(hmac).into(),
                key.as_ptr().cast(),
                key.len(),
                ipad,
                opad,
            )
        };
        result(error).map(|()| slab)
    }

    /// AES-GCM over a text in place: `Seal` writes the tag, `Open` writes the tag that the packet
    /// should have had. `keys` come from [`Manager::gcm_keys`] for a key of `key_len` bytes,
    /// `context` is a slab of [`gcm_context_len`] bytes or more; `tag` has 8, 12 or 16 bytes.
    ///
    /// False if the library reported an error.
    pub(crate) fn gcm(&mut self, call: GcmCall<'_>) -> bool {
        let GcmCall { op, key_len, keys, context, nonce, aad, text, tag } = call;
        debug_assert!(keys.len() >= sys::culvert_mb_gcm_key_size());
        debug_assert!(context.len() >= sys::culvert_mb_gcm_context_size());
        let function = match op {
            Op::Seal => sys::culvert_mb_gcm_seal,
            Op::Open => sys::culvert_mb_gcm_open,
        };
        // SAFETY: every pointer comes from a reference and goes with its own length; the nonce is
        // 12 bytes; keys and context are slabs of the library's sizes; in place is allowed.
        let error = unsafe {
            function(
                self.raw.as_ptr(),
                key_len,
                keys.line(0),
                context.line_mut(0),
                text.as_mut_ptr(),
                text.len() as u64,
                nonce.as_ptr(),
                aad.as_ptr(),
                aad.len() as u64,
                tag.as_mut_ptr(),
                tag.len() as u64,
            )
        };
        error == 0
    }

    /// Runs jobs to their end; afterwards `done` of each says how it went, and the library holds
    /// no pointer of them.
    ///
    /// # Safety
    /// Every pointer of every job is valid, for the lengths in the job and for as long as the
    /// call: keys, IV and additional data for reading, packet and tag for writing; packets and
    /// tags of different jobs do not overlap.
    pub(crate) unsafe fn burst(&mut self, jobs: &mut [sys::Job]) {
        if jobs.is_empty() {
            return;
        }
        // SAFETY: the slice is valid for its length; the rest is this function's own contract.
        unsafe { sys::culvert_mb_burst(self.raw.as_ptr(), jobs.as_mut_ptr(), jobs.len() as u32) };
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: the pointer came from culvert_mb_new and is not used after this.
        unsafe { sys::culvert_mb_free(self.raw.as_ptr()) }
    }
}

/// One AES-GCM call, see [`Manager::gcm`].
pub(crate) struct GcmCall<'a> {
    pub(crate) op: Op,
    pub(crate) key_len: u32,
    pub(crate) keys: &'a Slab,
    pub(crate) context: &'a mut Slab,
    pub(crate) nonce: &'a [u8; 12],
    pub(crate) aad: &'a [u8],
    pub(crate) text: &'a mut [u8],
    pub(crate) tag: &'a mut [u8],
}

/// Bytes of AES-GCM's working state.
pub(crate) fn gcm_context_len() -> usize {
    sys::culvert_mb_gcm_context_size()
}

/// The shim's number for a hash.
pub(crate) fn hmac_code(hmac: Hmac) -> u8 {
    match hmac {
        Hmac::Sha1_96 => sys::HMAC_SHA1,
        Hmac::Sha256_128 => sys::HMAC_SHA256,
        Hmac::Sha384_192 => sys::HMAC_SHA384,
        Hmac::Sha512_256 => sys::HMAC_SHA512,
    }
}

fn len_u32(key: &[u8]) -> u32 {
    u32::try_from(key.len()).unwrap_or(u32::MAX)
}

fn result(error: c_int) -> Result<(), EngineError> {
    match error {
        0 => Ok(()),
        error => Err(unavailable(error)),
    }
}

fn unavailable(error: c_int) -> EngineError {
    // SAFETY: the function takes any number.
    let text = unsafe { sys::imb_get_strerror(error) };
    let what = match ptr::NonNull::new(text.cast_mut()) {
        // SAFETY: the library returns a static string with its terminating zero.
        Some(text) => unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned(),
        None => format!("error {error}"),
    };
    EngineError::Unavailable { engine: NAME, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_key_length_is_the_librarys_error() {
        let mut manager = Manager::new().unwrap();
        assert!(manager.aes_keys(&[0; 17]).is_err());
        assert!(manager.gcm_keys(&[0; 15]).is_err());
        assert!(manager.aes_keys(&[0; 16]).is_ok(), "an error does not stick");
        assert!(manager.gcm_keys(&[0; 32]).is_ok());
    }

    #[test]
    fn a_refused_burst_leaves_the_manager_usable() {
        let mut manager = Manager::new().unwrap();
        let keys = manager.aes_keys(&[1; 16]).unwrap();
        let mut packet = [7u8; 32];
        let iv = [0u8; 16];
        let job = |packet: &mut [u8; 32], len| sys::Job {
            keys: keys.line(4),
            ipad: ptr::null(),
            opad: ptr::null(),
            iv: iv.as_ptr(),
            aad: ptr::null(),
            packet: packet.as_mut_ptr(),
            tag: ptr::null_mut(),
            key_len: 16,
            iv_len: 16,
            aad_len: 0,
            cipher_start: 0,
            cipher_len: len,
            hash_len: 0,
            tag_len: 0,
            user: 0,
            kind: sys::KIND_CBC_DECRYPT,
            hmac: 0,
            done: 1,
            reserved: [0; 5],
        };
        let mut good = [7u8; 32];
        let mut jobs = [job(&mut good, 32), job(&mut packet, 15)];
        // SAFETY: two packets of 32 bytes, an IV of 16 and a schedule, all alive.
        unsafe { manager.burst(&mut jobs) };
        assert_eq!(jobs[1].done, 0, "15 bytes are no block");
        assert_eq!(packet, [7; 32]);
        let mut again = [7u8; 32];
        let mut jobs = [job(&mut again, 32)];
        // SAFETY: as above.
        unsafe { manager.burst(&mut jobs) };
        assert_eq!(jobs[0].done, 1);
        assert_ne!(again, [7; 32]);
    }
}
