//! The library's manager: one thread's lanes and queues.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use arrayvec::ArrayVec;
use crypto::{AesKey, EngineError, Op};
use ipsec_mb_sys as sys;

use crate::NAME;
use crate::code_path::CodePath;
use crate::slab::Slab;
use crate::suites::Hmac;

/// Requests of one burst of ChaCha20-Poly1305.
pub(crate) type ChaChas = ArrayVec<sys::ChaCha, { sys::BURST_LEN }>;

/// Requests of one burst through the scheduler.
pub(crate) type Packets = ArrayVec<sys::Packet, { sys::BURST_LEN }>;

/// Parameters that the packets of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) op: Op,
    pub(crate) hmac: Hmac,
    /// AES-CBC's key size, or none for HMAC alone.
    pub(crate) key: Option<AesKey>,
}

/// One packet of a batch; lengths and places in bytes, places from the packet's start.
pub(crate) struct Entry {
    /// AES's schedule for the direction, aligned to 16.
    pub(crate) keys: *const u8,
    /// HMAC's inner hash state, the outer one [`sys::outer_at`] bytes behind it.
    pub(crate) mac: *const u8,
    pub(crate) packet: *mut u8,
    /// Where the computed tag goes.
    pub(crate) tag: *mut u8,
    /// Where the text starts; with AES-CBC there are 16 bytes of IV before it.
    pub(crate) text: u16,
    /// The text's length; with AES-CBC a multiple of 16, and not 0.
    pub(crate) text_len: u16,
    /// How many bytes behind the text HMAC covers, which it covers from the packet's start.
    pub(crate) behind: u16,
}

/// One manager: queues and lanes of one thread.
pub(crate) struct Manager {
    raw: NonNull<sys::Manager>,
    /// The library's own form of a burst's packets.
    batch: Slab,
    arch: c_int,
    features: u64,
}

// SAFETY: the library keeps a manager's whole state in its allocation; nothing ties it to the
// thread that made it. It is not Sync: every call takes `&mut self`.
unsafe impl Send for Manager {}

impl Manager {
    /// Sets one up for a code path.
    ///
    /// # Errors
    /// When memory is short, when the library's own self-test fails, when the processor lacks the
    /// path's instructions, or AES instructions: the library would emulate them, slower than any
    /// other engine.
    pub(crate) fn new(path: CodePath) -> Result<Manager, EngineError> {
        let (mut error, mut arch, mut features) = (0, 0, 0);
        // SAFETY: the three places are valid for writing for the length of the call.
        let raw = unsafe {
            sys::culvert_mb_new(path.arch, path.flags, &mut error, &mut arch, &mut features)
        };
        let Some(raw) = NonNull::new(raw) else {
            return Err(unavailable(error));
        };
        let batch = Slab::new(sys::culvert_mb_batch_size());
        let manager = Manager { raw, batch, arch, features };
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

    /// Expands an AES key of 16, 24 or 32 bytes for both directions; any other is the library's
    /// error.
    ///
    /// # Safety
    /// `enc` and `dec` are aligned to 16 and each valid for writing a schedule: 16 bytes for each
    /// of the key's 10, 12 or 14 rounds and 16 more.
    pub(crate) unsafe fn aes_keys(
        &mut self,
        key: &[u8],
        enc: *mut u8,
        dec: *mut u8,
    ) -> Result<(), EngineError> {
        // SAFETY: the shim reads `key.len()` bytes of the key and refuses other lengths than these
        // three; the rest is this function's own contract.
        let error = unsafe {
            sys::culvert_mb_aes_keys(
                self.raw.as_ptr(),
                len_u32(key),
                key.as_ptr().cast(),
                enc.cast(),
                dec.cast(),
            )
        };
        result(error)
    }

    /// Expands an AES-GCM key of 16, 24 or 32 bytes; any other is the library's error.
    ///
    /// # Safety
    /// `out` is aligned to 64 and valid for writing what `culvert_mb_gcm_key_size` says.
    pub(crate) unsafe fn gcm_keys(&mut self, key: &[u8], out: *mut u8) -> Result<(), EngineError> {
        // SAFETY: as above.
        let error = unsafe {
            sys::culvert_mb_gcm_keys(
                self.raw.as_ptr(),
                len_u32(key),
                key.as_ptr().cast(),
                out.cast(),
            )
        };
        result(error)
    }

    /// The hash states of HMAC after the padded key: the inner one, and [`sys::outer_at`] bytes
    /// behind it the outer one.
    ///
    /// # Safety
    /// `states` is aligned to 16 and valid for writing twice [`sys::outer_at`] bytes.
    pub(crate) unsafe fn hmac_keys(
        &mut self,
        hmac: Hmac,
        key: &[u8],
        states: *mut u8,
    ) -> Result<(), EngineError> {
        let code = hmac.code();
        // SAFETY: the key is valid for its length; the rest is this function's own contract.
        let error = unsafe {
            sys::culvert_mb_hmac_keys(
                self.raw.as_ptr(),
                code.into(),
                key.as_ptr().cast(),
                key.len(),
                states.cast(),
                states.wrapping_add(sys::outer_at(code)).cast(),
            )
        };
        result(error)
    }

    /// Expands a key of 16 bytes for AES-XCBC-MAC or AES-CMAC, by the shim's number; any other number is the library's
    /// error.
    ///
    /// # Safety
    /// `key` has 16 bytes; `out` is aligned to 16 and valid for writing [`sys::MAC_KEY_LEN`] bytes.
    pub(crate) unsafe fn mac_keys(
        &mut self,
        hash: u8,
        key: &[u8],
        out: *mut u8,
    ) -> Result<(), EngineError> {
        // SAFETY: this function's own contract.
        let error = unsafe {
            sys::culvert_mb_mac_keys(
                self.raw.as_ptr(),
                hash.into(),
                key.as_ptr().cast(),
                out.cast(),
            )
        };
        result(error)
    }

    /// AES-GMAC's functions on this processor.
    pub(crate) fn gmac_calls(&self) -> sys::GmacCalls {
        let mut calls = MaybeUninit::uninit();
        // SAFETY: the manager is set up, and there is room for the functions.
        unsafe { sys::culvert_mb_gmac_functions(self.raw.as_ptr(), calls.as_mut_ptr()) };
        // SAFETY: the shim fills every field, and a manager that is set up has every function.
        unsafe { calls.assume_init() }
    }

    /// Runs packets through the scheduler; each one's tag is written, and its text encrypted or decrypted whatever
    /// the tag is. False if the library failed, for all of them.
    ///
    /// # Safety
    /// Every pointer is valid as [`sys::Packet`] says and for as long as the call: keys, IV and additional data for
    /// reading, the packet and the tag for writing. Packets and tags do not overlap.
    pub(crate) unsafe fn scheduled(&mut self, packets: &Packets) -> bool {
        let n = packets.len() as u32;
        // SAFETY: as many packets are there, and no more than a burst takes; the rest is this
        // function's own contract.
        unsafe { sys::culvert_mb_jobs(self.raw.as_ptr(), packets.as_ptr(), n) == n }
    }

    /// AES-GCM's functions on this processor.
    pub(crate) fn gcm_calls(&self) -> sys::GcmCalls {
        let mut calls = MaybeUninit::uninit();
        // SAFETY: the manager is set up, and there is room for the functions.
        unsafe { sys::culvert_mb_gcm_functions(self.raw.as_ptr(), calls.as_mut_ptr()) };
        // SAFETY: the shim fills every field, and a manager that is set up has every function.
        unsafe { calls.assume_init() }
    }

    /// Readies the batch for packets of one suite and direction.
    #[inline]
    pub(crate) fn shape(&mut self, shape: Shape) {
        let Shape { op, hmac, key } = shape;
        let (hmac, open) = (hmac.code().into(), open(op));
        // SAFETY: the batch has the shim's size and is what the shim left, or zeros.
        unsafe { sys::culvert_mb_shape(self.batch.line_mut(0), key_len(key), hmac, open) };
    }

    /// Enters a packet into the batch, which is in the same shape; `at` is the number of those that
    /// are in it already. Only stores the pointers.
    #[inline]
    pub(crate) fn enter(&mut self, at: usize, shape: Shape, entry: Entry) {
        let Entry { keys, mac, packet, tag, text, text_len, behind } = entry;
        let outer_at = sys::outer_at(shape.hmac.code());
        let lengths = [text, text_len, behind, outer_at as u16];
        let lengths = lengths.iter().rev().fold(0, |sum, len| sum << 16 | u64::from(*len));
        let at = (at % sys::BURST_LEN) as u32;
        let batch = self.batch.line_mut(0);
        // SAFETY: the batch has the shim's size, and the number is one of its places.
        unsafe { sys::culvert_mb_enter(batch, at, keys, mac, packet, tag, lengths) };
    }

    /// AES-CBC over `n` packets of the batch, from the one at `from`. False if the library failed,
    /// for all of them.
    ///
    /// # Safety
    /// The batch's shape has this key size and direction, and `from + n` packets are in it whose
    /// entries fit [`Entry`]'s documentation. Each pointer is valid for as long as the call: keys
    /// and IV for reading, the text for writing. Texts of different entries do not overlap.
    pub(crate) unsafe fn cipher(&mut self, from: usize, n: usize, key: AesKey, op: Op) -> bool {
        let (raw, batch) = (self.raw.as_ptr(), self.batch.line_mut(0));
        let (from, n, key) = (from as u32, n as u32, key_len(Some(key)));
        // SAFETY: this function's own contract.
        unsafe { sys::culvert_mb_cipher(raw, batch, from, n, key, open(op)) == n }
    }

    /// HMAC over the first `n` packets of the batch; each one's tag is written. False if the library
    /// failed, for all of them.
    ///
    /// # Safety
    /// The batch's shape has this hash, and `n` packets are in it whose entries fit [`Entry`]'s
    /// documentation. Each pointer is valid for as long as the call: hash states and what is hashed
    /// for reading, the tag for writing. Tags overlap neither each other nor what is hashed.
    pub(crate) unsafe fn hash(&mut self, n: usize, hmac: Hmac) -> bool {
        let (raw, batch, n) = (self.raw.as_ptr(), self.batch.line_mut(0), n as u32);
        // SAFETY: this function's own contract.
        unsafe { sys::culvert_mb_hash(raw, batch, n, hmac.code().into()) == n }
    }

    /// ChaCha20-Poly1305; each packet's tag is written. False if the library failed, for all of
    /// them.
    ///
    /// # Safety
    /// Every pointer is valid for the lengths in [`sys::ChaCha`] and for as long as the call: key,
    /// nonce and additional data for reading, text and tag for writing. Texts and tags of different
    /// packets do not overlap.
    pub(crate) unsafe fn chacha(&mut self, packets: &ChaChas, op: Op) -> bool {
        let n = packets.len() as u32;
        // SAFETY: as many packets are there, and no more than a burst takes; the rest is this
        // function's own contract.
        unsafe { sys::culvert_mb_chacha(self.raw.as_ptr(), packets.as_ptr(), n, open(op)) == n }
    }

    /// The manager and its room for a burst, for benchmarks.
    pub(crate) fn raw(&mut self) -> (*mut sys::Manager, *mut c_void) {
        (self.raw.as_ptr(), self.batch.line_mut(0))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: the pointer came from culvert_mb_new and is not used after this.
        unsafe { sys::culvert_mb_free(self.raw.as_ptr()) }
    }
}

/// True if the library reported an error in the last direct call of the process.
#[inline]
pub(crate) fn direct_call_failed() -> bool {
    // SAFETY: null is allowed, and asks for the error of direct calls.
    unsafe { sys::imb_get_errno(ptr::null_mut()) != 0 }
}

/// The shim's form of a key size.
fn key_len(key: Option<AesKey>) -> u32 {
    key.map_or(0, |key| key.len_bytes() as u32)
}

/// The shim's form of a direction.
fn open(op: Op) -> u32 {
    u32::from(op == Op::Open)
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
        let mut manager = Manager::new(CodePath::default()).unwrap();
        let mut slab = Slab::new(sys::culvert_mb_gcm_key_size().max(512));
        let enc: *mut u8 = slab.line_mut(0).cast();
        let dec = enc.wrapping_add(256);
        for (len, fits) in [(17, false), (16, true), (0, false), (32, true)] {
            let key = vec![1; len];
            // SAFETY: 256 bytes for each schedule.
            assert_eq!(unsafe { manager.aes_keys(&key, enc, dec) }.is_ok(), fits, "{len}");
            // SAFETY: the slab has the library's size.
            assert_eq!(unsafe { manager.gcm_keys(&key, enc) }.is_ok(), fits, "{len}");
        }
    }
}
