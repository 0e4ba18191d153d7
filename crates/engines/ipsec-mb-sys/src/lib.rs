//! Bindings to libipsec-mb, the multi-buffer crypto library for IPsec: the few calls that an ESP
//! engine needs, by hand.
//!
//! The library's interface is macros over function pointers inside a large struct whose layout
//! changes between versions, so a C shim (`shim/shim.c`), compiled against the installed header,
//! wraps them; Rust sees opaque pointers, sizes and lengths. The link is dynamic.
//!
//! Without libipsec-mb-dev 1.3 or newer, or on another processor than x86-64, the crate is empty.
#![cfg(any(ipsec_mb_present, doc))]

use core::ffi::{c_char, c_int, c_void};

/// The library's manager of jobs (`IMB_MGR`).
#[repr(C)]
pub struct Manager {
    _opaque: [u8; 0],
    // Neither Send nor Sync: one thread at a time, chosen by its owner.
    _not_send: core::marker::PhantomData<*mut ()>,
}

/// Most packets of one burst.
pub const BURST_LEN: usize = 64;

/// HMAC with SHA-1.
pub const HMAC_SHA1: u8 = 0;
/// HMAC with SHA-256.
pub const HMAC_SHA256: u8 = 1;
/// HMAC with SHA-384.
pub const HMAC_SHA384: u8 = 2;
/// HMAC with SHA-512.
pub const HMAC_SHA512: u8 = 3;
/// AES-XCBC-MAC (RFC 3566).
pub const MAC_XCBC: u8 = 4;
/// AES-CMAC (RFC 4493).
pub const MAC_CMAC: u8 = 5;
/// The tag of AES-CCM.
pub const MAC_CCM: u8 = 6;

/// No encryption: the text is hashed alone.
pub const CIPHER_NULL: u8 = 0;
/// AES in CBC mode.
pub const CIPHER_CBC: u8 = 1;
/// AES in counter mode.
pub const CIPHER_CTR: u8 = 2;
/// AES in CCM mode.
pub const CIPHER_CCM: u8 = 3;

/// Bytes of a key of [`culvert_mb_mac_keys`].
pub const MAC_KEY_LEN: usize = 11 * 16 + 2 * 16;

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

/// `flags` of [`culvert_mb_new`]: without SHA instructions.
pub const FLAG_SHANI_OFF: u64 = 1 << 0;
/// `flags` of [`culvert_mb_new`]: without Galois field instructions, and so without wide AES.
pub const FLAG_GFNI_OFF: u64 = 1 << 2;

/// `features` of [`culvert_mb_new`]: SHA instructions.
pub const FEATURE_SHANI: u64 = 1 << 0;
/// AES instructions on wide registers.
pub const FEATURE_VAES: u64 = 1 << 12;

/// One packet of a burst of ChaCha20-Poly1305.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChaCha {
    /// The key, 32 bytes.
    pub key: *const u8,
    /// The nonce, 12 bytes.
    pub nonce: *const u8,
    /// Additional data, which is authenticated alone.
    pub aad: *const u8,
    /// The text, in place.
    pub text: *mut u8,
    /// Where the computed tag goes.
    pub tag: *mut u8,
    /// Length of the text in bytes.
    pub text_len: u32,
    /// Length of the additional data in bytes.
    pub aad_len: u32,
}

const _: () = assert!(size_of::<ChaCha>() == 48);

/// One packet of [`culvert_mb_jobs`]; lengths and places in bytes, places from the packet's start.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Packet {
    /// AES's schedule, aligned to 16: for decryption where AES-CBC decrypts, else for encryption.
    pub keys: *const u8,
    /// AES-CBC's IV, 16 bytes; AES-CTR's first counter block, 16 bytes; AES-CCM's nonce, 11 bytes.
    pub iv: *const u8,
    /// HMAC's inner hash state; a key of [`culvert_mb_mac_keys`]; AES-CCM's additional data.
    pub mac: *const u8,
    /// First byte of the packet.
    pub packet: *mut u8,
    /// Where the computed tag goes: 32 bytes of room.
    pub tag: *mut u8,
    /// Where the text starts.
    pub text: u32,
    /// The text's length: with AES-CBC a multiple of 16, and not 0 but with AES-CCM or no cipher.
    pub text_len: u32,
    /// How much is hashed, from the packet's start; not for AES-CCM.
    pub hash_len: u32,
    /// AES-CCM: length of the additional data. HMAC: [`outer_at`].
    pub aad_len: u32,
    /// One of `CIPHER_*`.
    pub cipher: u8,
    /// The cipher's key length, 0 for none.
    pub key_len: u8,
    /// One of `HMAC_*` and `MAC_*`.
    pub hash: u8,
    /// The tag's length.
    pub tag_len: u8,
    /// 1 to decrypt, 0 to encrypt.
    pub open: u32,
}

const _: () = assert!(size_of::<Packet>() == 64);

/// Where HMAC's outer hash state lies behind the inner one, in bytes.
pub const fn outer_at(hmac: u8) -> usize {
    match hmac {
        HMAC_SHA1 | HMAC_SHA256 => 32,
        _ => 64,
    }
}

/// One of AES-GCM's functions over a whole text: keys, context, output, input, their length, IV of
/// 12 bytes, additional data, its length, tag, its length. Output and input may be the same.
pub type GcmCall = unsafe extern "C" fn(
    keys: *const c_void,
    context: *mut c_void,
    output: *mut u8,
    input: *const u8,
    len: u64,
    iv: *const u8,
    aad: *const u8,
    aad_len: u64,
    tag: *mut u8,
    tag_len: u64,
);

/// AES-GCM's functions by key size: 128, 192, 256 bits. `Open` computes the tag and leaves the
/// comparison to the caller.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GcmCalls {
    /// Calls that encrypt, by key size.
    pub seal: [GcmCall; 3],
    /// Calls that decrypt, by key size.
    pub open: [GcmCall; 3],
}

/// Begins AES-GMAC: keys as for AES-GCM, context, IV, its length.
pub type GmacInit =
    unsafe extern "C" fn(keys: *const c_void, context: *mut c_void, iv: *const u8, iv_len: u64);
/// Goes on with AES-GMAC: keys, context, what is authenticated, its length.
pub type GmacUpdate =
    unsafe extern "C" fn(keys: *const c_void, context: *mut c_void, input: *const u8, len: u64);
/// Ends AES-GMAC: keys, context, tag, its length.
pub type GmacFinish =
    unsafe extern "C" fn(keys: *const c_void, context: *mut c_void, tag: *mut u8, tag_len: u64);

/// AES-GMAC's functions by key size: 128, 192, 256 bits.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GmacCalls {
    /// Calls that begin a tag, by key size.
    pub init: [GmacInit; 3],
    /// Calls that go on with a tag, by key size.
    pub update: [GmacUpdate; 3],
    /// Calls that end a tag, by key size.
    pub finish: [GmacFinish; 3],
}

/// A packet of the `culvert_mb_bare_*` functions: SPI and sequence number, IV, text, tag.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Span {
    /// First byte of the span.
    pub start: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

/// The key of the `culvert_mb_bare_*` functions; lengths in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BareKey {
    /// AES-GCM's or ChaCha20's key; AES-CBC's for encryption.
    pub keys: *const u8,
    /// AES-CBC's key for decryption.
    pub dec: *const u8,
    /// HMAC's inner hash state, the outer one [`outer_at`] bytes behind it.
    pub mac: *const u8,
    /// The salt as it lies in memory.
    pub salt: u32,
    /// AES-CBC's key length; 0 for none.
    pub key_len: u32,
    /// One of `HMAC_*`.
    pub hmac: u32,
    /// The packet's IV.
    pub iv_len: u32,
    /// The packet's tag.
    pub tag_len: u32,
    /// [`outer_at`] of the hash.
    pub outer_at: u32,
}

// SAFETY: the signatures are those of shim/shim.c and of intel-ipsec-mb.h 1.3.
unsafe extern "C" {
    /// Size of the room for a burst, aligned to 8 bytes; zeros are valid.
    pub safe fn culvert_mb_batch_size() -> usize;
    /// Size of AES-GCM's expanded keys, which are aligned to 64 bytes.
    pub safe fn culvert_mb_gcm_key_size() -> usize;
    /// Size of AES-GCM's working state, aligned to 16 bytes.
    pub safe fn culvert_mb_gcm_context_size() -> usize;

    /// A manager for one of the `ARCH_*` code paths, or with 0 for this processor's best one, without what `FLAG_*`
    /// switches off. Null with the error's number where the processor lacks the path.
    pub fn culvert_mb_new(
        path: c_int,
        flags: u64,
        error: *mut c_int,
        arch: *mut c_int,
        features: *mut u64,
    ) -> *mut Manager;

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

    /// HMAC's inner and outer hash states, each 64 bytes or what [`outer_at`] says, aligned to 16.
    /// Returns the error's number or 0.
    pub fn culvert_mb_hmac_keys(
        manager: *mut Manager,
        hmac: u32,
        key: *const c_void,
        key_len: usize,
        ipad: *mut c_void,
        opad: *mut c_void,
    ) -> c_int;

    /// AES-GCM's functions of the manager's code path.
    pub fn culvert_mb_gcm_functions(manager: *const Manager, calls: *mut GcmCalls);

    /// AES-GMAC's functions of the manager's code path.
    pub fn culvert_mb_gmac_functions(manager: *const Manager, calls: *mut GmacCalls);

    /// Expands a key of 16 bytes for [`MAC_XCBC`] or [`MAC_CMAC`]: [`MAC_KEY_LEN`] bytes, aligned to 16. Returns the
    /// error's number or 0.
    pub fn culvert_mb_mac_keys(
        manager: *mut Manager,
        hash: u32,
        key: *const c_void,
        out: *mut c_void,
    ) -> c_int;

    /// Runs at most [`BURST_LEN`] packets of any mixture of ciphers, hashes and directions. Decrypts whatever the tag
    /// is. Returns `n`, or 0 if the library failed.
    pub fn culvert_mb_jobs(manager: *mut Manager, packets: *const Packet, n: u32) -> u32;

    /// Readies the batch for one suite and direction; `key_len` is 0 for HMAC alone.
    pub fn culvert_mb_shape(batch: *mut c_void, key_len: u32, hmac: u32, open: u32);

    /// Enters a packet, with a number below [`BURST_LEN`], for AES-CBC and HMAC: AES keys expanded
    /// for the direction, aligned to 16; HMAC's inner hash state; the packet; where the computed
    /// tag goes.
    ///
    /// In `lengths`, from the lowest bits, 16 each: where the text starts, with the IV's 16 bytes
    /// before it; its length; how many bytes behind it HMAC covers; [`outer_at`] of the hash.
    pub fn culvert_mb_enter(
        batch: *mut c_void,
        at: u32,
        keys: *const u8,
        mac: *const u8,
        packet: *mut u8,
        tag: *mut u8,
        lengths: u64,
    );

    /// AES-CBC over `n` of the packets entered, from the one at `from`; texts are multiples of 16
    /// bytes and not empty. Returns `n`, or 0 if the library failed. Nothing stays queued, here and
    /// below.
    pub fn culvert_mb_cipher(
        manager: *mut Manager,
        batch: *mut c_void,
        from: u32,
        n: u32,
        key_len: u32,
        open: u32,
    ) -> u32;

    /// HMAC over the first `n` packets entered, each from its start. Returns `n`, or 0 if the
    /// library failed.
    pub fn culvert_mb_hash(manager: *mut Manager, batch: *mut c_void, n: u32, hmac: u32) -> u32;

    /// ChaCha20-Poly1305 over at most [`BURST_LEN`] packets. Returns `n`, or 0 if the library
    /// failed.
    pub fn culvert_mb_chacha(
        manager: *mut Manager,
        packets: *const ChaCha,
        n: u32,
        open: u32,
    ) -> u32;

    /// AES-GCM over `n` packets. Returns how many are done, with the right tag if `open`.
    pub fn culvert_mb_bare_gcm(
        call: GcmCall,
        key: *const BareKey,
        context: *mut c_void,
        packets: *const Span,
        n: u32,
        open: u32,
    ) -> u32;

    /// ChaCha20-Poly1305 over at most [`BURST_LEN`] packets. Returns how many are done, with the
    /// right tag if `open`.
    pub fn culvert_mb_bare_chacha(
        manager: *mut Manager,
        key: *const BareKey,
        packets: *const Span,
        n: u32,
        open: u32,
    ) -> u32;

    /// AES-CBC and HMAC over at most [`BURST_LEN`] packets. Returns how many are done, with the
    /// right tag if `open`.
    pub fn culvert_mb_bare_hmac(
        manager: *mut Manager,
        batch: *mut c_void,
        key: *const BareKey,
        packets: *const Span,
        n: u32,
        open: u32,
    ) -> u32;

    /// The error of the last direct call in this process if `manager` is null; 0 if there was none.
    pub fn imb_get_errno(manager: *mut Manager) -> c_int;

    /// The text of an error's number; a static string.
    pub fn imb_get_strerror(error: c_int) -> *const c_char;

    /// The library's version; a static string.
    pub safe fn imb_get_version_str() -> *const c_char;
}

#[cfg(all(test, ipsec_mb_present))]
mod tests {
    use super::*;

    /// Zeroed memory for `len` bytes at least, aligned to 64.
    fn memory(len: usize) -> Vec<Line> {
        (0..len.div_ceil(64)).map(|_| Line([0; 64])).collect()
    }

    #[repr(C, align(64))]
    struct Line([u8; 64]);

    #[test]
    fn sizes_are_plausible() {
        assert!((512..8192).contains(&culvert_mb_gcm_key_size()));
        assert!((64..512).contains(&culvert_mb_gcm_context_size()));
        assert!(culvert_mb_batch_size() > BURST_LEN * 64);
    }

    #[test]
    fn a_direct_call_that_the_library_refuses_is_noticed() {
        let (mut error, mut arch, mut features) = (0, 0, 0);
        // SAFETY: the three places are valid.
        let manager = unsafe { culvert_mb_new(0, 0, &mut error, &mut arch, &mut features) };
        let mut calls = core::mem::MaybeUninit::uninit();
        // SAFETY: the manager was set up.
        unsafe { culvert_mb_gcm_functions(manager, calls.as_mut_ptr()) };
        // SAFETY: the shim has filled it.
        let GcmCalls { seal, .. } = unsafe { calls.assume_init() };
        let keys = memory(culvert_mb_gcm_key_size());
        let mut context = memory(culvert_mb_gcm_context_size());
        let (mut text, mut tag, nonce) = ([7; 16], [0; 16], [0; 12]);
        let good = keys.as_ptr().cast();
        for (keys, failed) in [(good, false), (core::ptr::null(), true), (good, false)] {
            let text: *mut u8 = text.as_mut_ptr();
            // SAFETY: the other pointers are valid for their lengths, and the library checks for
            // null.
            unsafe {
                seal[0](
                    keys,
                    context.as_mut_ptr().cast(),
                    text,
                    text,
                    16,
                    nonce.as_ptr(),
                    nonce.as_ptr(),
                    8,
                    tag.as_mut_ptr(),
                    16,
                );
            }
            // SAFETY: null is allowed.
            assert_eq!(unsafe { imb_get_errno(core::ptr::null_mut()) } != 0, failed);
        }
        // SAFETY: made above and not used any more.
        unsafe { culvert_mb_free(manager) };
    }
}
