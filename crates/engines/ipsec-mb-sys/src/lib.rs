//! Bindings to libipsec-mb, the multi-buffer crypto library for IPsec: the few calls that an ESP
//! engine needs, by hand.
//!
//! The library's interface is macros over function pointers inside a large struct whose layout
//! changes between versions, so a C shim (`shim/shim.c`), compiled against the installed header,
//! wraps them; Rust sees opaque pointers, sizes, and [`Job`]. The link is dynamic.
//!
//! Without libipsec-mb-dev 1.3 or newer, or on another processor than x86-64, the crate is empty.
#![cfg(any(ipsec_mb_present, doc))]

use core::ffi::{c_char, c_int, c_void};

/// The library's manager of jobs (`IMB_MGR`).
#[repr(C)]
pub struct Manager {
    _opaque: [u8; 0],
    // Neither Send nor Sync: one thread at a time, and whoever owns it says which.
    _not_send: core::marker::PhantomData<*mut ()>,
}

/// Encrypt with AES-CBC, then HMAC from the packet's start.
pub const KIND_CBC_HMAC_SEAL: u8 = 0;
/// Decrypt with AES-CBC, no HMAC.
pub const KIND_CBC_DECRYPT: u8 = 1;
/// HMAC from the packet's start, no cipher.
pub const KIND_HMAC: u8 = 2;
/// ChaCha20-Poly1305, encrypt.
pub const KIND_CHACHA_SEAL: u8 = 3;
/// ChaCha20-Poly1305, decrypt; the caller compares the tag.
pub const KIND_CHACHA_OPEN: u8 = 4;

/// HMAC with SHA-1.
pub const HMAC_SHA1: u8 = 0;
/// HMAC with SHA-256.
pub const HMAC_SHA256: u8 = 1;
/// HMAC with SHA-384.
pub const HMAC_SHA384: u8 = 2;
/// HMAC with SHA-512.
pub const HMAC_SHA512: u8 = 3;

/// `arch` of [`culvert_mb_new`]: emulated AES.
pub const ARCH_NOAESNI: c_int = 1;
/// SSE code path.
pub const ARCH_SSE: c_int = 2;
/// AVX code path.
pub const ARCH_AVX: c_int = 3;
/// AVX2 code path.
pub const ARCH_AVX2: c_int = 4;
/// AVX-512 code path.
pub const ARCH_AVX512: c_int = 5;

/// `features` of [`culvert_mb_new`]: SHA instructions.
pub const FEATURE_SHANI: u64 = 1 << 0;
/// AES instructions on wide registers.
pub const FEATURE_VAES: u64 = 1 << 12;

/// One job of [`culvert_mb_burst`]. Lengths and offsets in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Job {
    /// Expanded AES keys of the direction, or ChaCha20's key.
    pub keys: *const c_void,
    /// HMAC's inner hash state.
    pub ipad: *const u8,
    /// HMAC's outer hash state.
    pub opad: *const u8,
    /// The IV or nonce.
    pub iv: *const u8,
    /// Additional data of ChaCha20-Poly1305.
    pub aad: *const u8,
    /// The packet.
    pub packet: *mut u8,
    /// Where the computed tag goes.
    pub tag: *mut u8,
    /// Length of the cipher's key.
    pub key_len: u32,
    /// Length of the IV.
    pub iv_len: u32,
    /// Length of the additional data.
    pub aad_len: u32,
    /// Where the text starts in the packet.
    pub cipher_start: u32,
    /// Length of the text.
    pub cipher_len: u32,
    /// How much of the packet the HMAC covers.
    pub hash_len: u32,
    /// How much of the tag is written.
    pub tag_len: u32,
    /// The caller's; not touched.
    pub user: u32,
    /// One of `KIND_*`.
    pub kind: u8,
    /// One of `HMAC_*`.
    pub hmac: u8,
    /// Set by the burst: 1 when the job completed without error, else 0.
    pub done: u8,
    /// Padding.
    pub reserved: [u8; 5],
}

const _: () = assert!(size_of::<Job>() == 96);

// SAFETY: the signatures are those of shim/shim.c and of intel-ipsec-mb.h 1.3.
unsafe extern "C" {
    /// `sizeof(struct culvert_mb_job)`.
    pub safe fn culvert_mb_job_size() -> usize;
    /// `offsetof(struct culvert_mb_job, done)`.
    pub safe fn culvert_mb_job_done_offset() -> usize;
    /// Size of AES-GCM's expanded keys, which are aligned to 64 bytes.
    pub safe fn culvert_mb_gcm_key_size() -> usize;
    /// Size of AES-GCM's working state, aligned to 16 bytes.
    pub safe fn culvert_mb_gcm_context_size() -> usize;

    /// A manager for this processor's best code path, or null with the error's number.
    pub fn culvert_mb_new(error: *mut c_int, arch: *mut c_int, features: *mut u64) -> *mut Manager;

    /// Wipes and frees a manager from [`culvert_mb_new`].
    pub fn culvert_mb_free(manager: *mut Manager);

    /// Expands an AES key for both directions: 240 bytes each, aligned to 16. Returns the error's
    /// number or 0.
    pub fn culvert_mb_aes_keys(
        manager: *mut Manager,
        key_len: u32,
        key: *const c_void,
        enc: *mut c_void,
        dec: *mut c_void,
    ) -> c_int;

    /// Expands an AES-GCM key. Returns the error's number or 0.
    pub fn culvert_mb_gcm_keys(
        manager: *mut Manager,
        key_len: u32,
        key: *const c_void,
        out: *mut c_void,
    ) -> c_int;

    /// HMAC's inner and outer hash states: 64 bytes of room each, aligned to 16. Returns the
    /// error's number or 0.
    pub fn culvert_mb_hmac_keys(
        manager: *mut Manager,
        hmac: u32,
        key: *const c_void,
        key_len: usize,
        ipad: *mut c_void,
        opad: *mut c_void,
    ) -> c_int;

    /// AES-GCM encryption of one text in place, 12-byte IV. Returns the error's number or 0.
    pub fn culvert_mb_gcm_seal(
        manager: *mut Manager,
        key_len: u32,
        keys: *const c_void,
        context: *mut c_void,
        text: *mut u8,
        text_len: u64,
        iv: *const u8,
        aad: *const u8,
        aad_len: u64,
        tag: *mut u8,
        tag_len: u64,
    ) -> c_int;

    /// AES-GCM decryption of one text in place; `tag` receives the computed tag.
    pub fn culvert_mb_gcm_open(
        manager: *mut Manager,
        key_len: u32,
        keys: *const c_void,
        context: *mut c_void,
        text: *mut u8,
        text_len: u64,
        iv: *const u8,
        aad: *const u8,
        aad_len: u64,
        tag: *mut u8,
        tag_len: u64,
    ) -> c_int;

    /// Runs `n` jobs to their end and returns how many are done; nothing stays queued.
    pub fn culvert_mb_burst(manager: *mut Manager, jobs: *mut Job, n: u32) -> u32;

    /// The text of an error's number; a static string.
    pub fn imb_get_strerror(error: c_int) -> *const c_char;

    /// The library's version; a static string.
    pub safe fn imb_get_version_str() -> *const c_char;
}

#[cfg(all(test, ipsec_mb_present))]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_shim_and_rust_agree_on_the_job() {
        assert_eq!(culvert_mb_job_size(), size_of::<Job>());
        assert_eq!(culvert_mb_job_done_offset(), offset_of!(Job, done));
    }

    #[test]
    fn sizes_are_plausible() {
        assert!((512..8192).contains(&culvert_mb_gcm_key_size()));
        assert!((64..512).contains(&culvert_mb_gcm_context_size()));
    }
}
