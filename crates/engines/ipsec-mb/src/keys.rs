//! Where an SA's expanded keys lie in its block of cache lines.
//!
//! | suite | bytes, in this order |
//! | --- | --- |
//! | AES-GCM | the library's structure: round keys, powers of the hash key with the lowest last; salt in the last word |
//! | ChaCha20-Poly1305 | key, salt |
//! | AES-CBC with HMAC | encryption's schedule, decryption's, inner hash state, outer hash state |
//! | HMAC alone | inner hash state, outer hash state |
//! | AES-GMAC | as AES-GCM |
//! | what the scheduler runs | AES's two schedules, the MAC's key, the nonce: each if there is one |
//!
//! The structure of ipsec-mb 1.3 for AES-GCM has 1008 bytes, so the salt finds room in its last line,
//! which every packet reads for the lowest power.

use core::ptr;

use crypto::{AesKey, EngineError, KeyBlock, KeyLine, Keys, Maker, Session, Suite};
use ipsec_mb_sys as sys;

use crate::NAME;
use crate::manager::Manager;
use crate::suites::{Crypt, Hmac, Mac, cbc_hmac, scheduled};

/// Bytes of ChaCha20's key; the salt follows.
const CHACHA_KEY_LEN: usize = 32;

/// Where the powers of the hash key begin in the library's structure for AES-GCM, in bytes: behind
/// the round keys of the longest schedule.
const GCM_POWERS_AT: usize = schedule_len(AesKey::Aes256);

/// Bytes of a salt (RFC 4106 §4, RFC 7634 §2).
const SALT_LEN: usize = 4;

/// The maker of all sessions of this crate, see [`Maker`].
///
/// # Errors
/// When the process has made too many of them.
pub(crate) fn maker() -> Result<Maker, EngineError> {
    static MAKER: std::sync::LazyLock<Option<Maker>> = std::sync::LazyLock::new(Maker::new);
    let what = || "too many kinds of sessions".to_owned();
    MAKER.ok_or_else(|| EngineError::Unavailable { engine: NAME, what: what() })
}

/// Expands the keys of a suite.
///
/// # Errors
/// When the engine has no such suite, a key has the wrong length, or the library fails.
pub(crate) fn session(
    manager: &mut Manager,
    maker: Maker,
    suite: Suite,
    keys: &Keys,
) -> Result<Session, EngineError> {
    if !keys.fit(suite) {
        return Err(EngineError::KeyLength { suite });
    }
    let unsupported = EngineError::Unsupported { engine: NAME, suite };
    let Some(block_len) = block_len(suite) else {
        return Err(unsupported);
    };
    let mut block = KeyBlock::new(block_len);
    let Some(lines) = block.lines_mut() else {
        let what = "a new block of keys is shared".to_owned();
        return Err(EngineError::Unavailable { engine: NAME, what });
    };
    let lines_len = size_of_val(lines);
    let start: *mut u8 = lines.as_mut_ptr().cast();
    match suite {
        Suite::AesGcm { .. } | Suite::AesGmac { .. } => {
            // SAFETY: the block has room for the library's structure, aligned to a line.
            unsafe { manager.gcm_keys(&keys.cipher, start) }?;
            // SAFETY: the last word of the block, behind the structure: `block_len` counts the salt,
            // and `fit` knows its length.
            unsafe { copy(&keys.salt, start.wrapping_add(gcm_salt_at(lines_len))) };
        }
        Suite::ChaCha20Poly1305 => {
            // SAFETY: a line has room for both, and `fit` knows their lengths.
            unsafe { copy(&keys.cipher, start) };
            // SAFETY: as above.
            unsafe { copy(&keys.salt, start.wrapping_add(CHACHA_KEY_LEN)) };
        }
        Suite::Separate { cipher, integrity } => match cbc_hmac(cipher, integrity) {
            Some((Some(key), hmac)) => {
                let dec = start.wrapping_add(schedule_len(key));
                // SAFETY: `fit` says that the key has the length of `key`; each schedule has the
                // length for it, a multiple of 16.
                unsafe { manager.aes_keys(&keys.cipher, start, dec) }?;
                let mac = start.wrapping_add(cbc_mac_at(key));
                // SAFETY: the block ends with two states of `hmac`, aligned to 16.
                unsafe { manager.hmac_keys(hmac, &keys.auth, mac) }?;
            }
            Some((None, hmac)) => {
                // SAFETY: as above.
                unsafe { manager.hmac_keys(hmac, &keys.auth, start) }?;
            }
            None => {
                let (crypt, mac) = scheduled(suite).ok_or(unsupported)?;
                // SAFETY: the block has the length of these two, and `fit` knows the keys' lengths.
                unsafe { scheduled_keys(manager, crypt, mac, keys, start) }?;
            }
        },
        Suite::AesCcm { .. } => {
            let (crypt, mac) = scheduled(suite).ok_or(unsupported)?;
            // SAFETY: as above.
            unsafe { scheduled_keys(manager, crypt, mac, keys, start) }?;
        }
        Suite::Sm4Gcm { .. } | Suite::None => return Err(unsupported),
    }
    Ok(Session::with_keys(suite, maker, block))
}

/// Bytes of a suite's keys; `None` if the engine does not have it.
fn block_len(suite: Suite) -> Option<usize> {
    match suite {
        Suite::AesGcm { .. } | Suite::AesGmac { .. } => {
            Some(sys::culvert_mb_gcm_key_size() + SALT_LEN)
        }
        Suite::ChaCha20Poly1305 => Some(CHACHA_KEY_LEN + SALT_LEN),
        Suite::Separate { .. } | Suite::AesCcm { .. } => {
            let cbc = match suite {
                Suite::Separate { cipher, integrity } => cbc_hmac(cipher, integrity),
                _ => None,
            };
            match cbc {
                Some((key, hmac)) => Some(key.map_or(0, cbc_mac_at) + states_len(hmac)),
                None => scheduled(suite).map(|(crypt, mac)| ScheduledPlaces::of(crypt, mac).len()),
            }
        }
        Suite::Sm4Gcm { .. } | Suite::None => None,
    }
}

/// Where the keys of a suite that is scheduled lie, in bytes from the block's start: AES's two schedules first, the
/// MAC's key, the nonce.
#[derive(Clone, Copy)]
pub(crate) struct ScheduledPlaces {
    mac: usize,
    nonce: usize,
}

impl ScheduledPlaces {
    pub(crate) fn of(crypt: Crypt, mac: Mac) -> ScheduledPlaces {
        let mac_at = crypt.key().map_or(0, cbc_mac_at);
        let mac_len = match mac {
            Mac::Hmac(hmac) => states_len(hmac),
            Mac::Xcbc | Mac::Cmac => sys::MAC_KEY_LEN,
            Mac::Ccm => 0,
        };
        ScheduledPlaces { mac: mac_at, nonce: mac_at + mac_len }
    }

    /// The whole block's, with room for a nonce.
    fn len(self) -> usize {
        self.nonce + SALT_LEN
    }

    /// The MAC's key.
    pub(crate) fn mac(self, keys: Placed<'_>) -> *const u8 {
        keys.keys().wrapping_add(self.mac)
    }

    /// The nonce, or the salt and one byte more.
    pub(crate) fn nonce(self, keys: Placed<'_>) -> Option<[u8; SALT_LEN]> {
        let is_inside = self.len() <= size_of_val(keys.lines);
        is_inside.then(|| keys.word(self.nonce).to_ne_bytes())
    }
}

/// Expands the keys of a suite that is scheduled.
///
/// # Safety
/// `start` is aligned to 16 and has room for [`ScheduledPlaces::len`] bytes; the keys fit the suite.
unsafe fn scheduled_keys(
    manager: &mut Manager,
    crypt: Crypt,
    mac: Mac,
    keys: &Keys,
    start: *mut u8,
) -> Result<(), EngineError> {
    let places = ScheduledPlaces::of(crypt, mac);
    if let Some(key) = crypt.key() {
        let dec = start.wrapping_add(schedule_len(key));
        // SAFETY: both schedules come first, and each has a multiple of 16 bytes.
        unsafe { manager.aes_keys(&keys.cipher, start, dec) }?;
    }
    let mac_key = start.wrapping_add(places.mac);
    match mac {
        // SAFETY: two states of `hmac` lie there, aligned to 16.
        Mac::Hmac(hmac) => unsafe { manager.hmac_keys(hmac, &keys.auth, mac_key) }?,
        // SAFETY: room for the MAC's key is there, aligned to 16, and its own key has 16 bytes.
        Mac::Xcbc => unsafe { manager.mac_keys(sys::MAC_XCBC, &keys.auth, mac_key) }?,
        // SAFETY: as above.
        Mac::Cmac => unsafe { manager.mac_keys(sys::MAC_CMAC, &keys.auth, mac_key) }?,
        Mac::Ccm => {}
    }
    // SAFETY: the block ends with room for 4 bytes, and no nonce or salt is longer.
    unsafe { copy(&keys.salt, start.wrapping_add(places.nonce)) };
    Ok(())
}

/// Brings near what a packet of `len` bytes reads of a session's lines; waits for nothing.
#[inline]
pub(crate) fn prefetch(lines: &[KeyLine], suite: Suite, len: usize) {
    let Suite::AesGcm { key, .. } = suite else {
        // All of them: which schedule it will be is not known here.
        lines.iter().for_each(mem::prefetch);
        return;
    };
    // The round keys; and the powers of the hash key, one for each block, from the lowest on: so the last
    // line, which has the salt too, and one more for each whole line of the packet, until there are no more.
    let first = schedule_len(key).div_ceil(mem::LINE_LEN);
    let powers = lines.len().saturating_sub(GCM_POWERS_AT / mem::LINE_LEN);
    let last = (len / mem::LINE_LEN + 1).min(powers);
    lines.iter().take(first).for_each(mem::prefetch);
    lines.iter().rev().take(last).for_each(mem::prefetch);
}

/// Where AES-GCM's salt is in a block of `lines_len` bytes: its last word.
const fn gcm_salt_at(lines_len: usize) -> usize {
    lines_len.saturating_sub(SALT_LEN)
}

/// Bytes of an AES key schedule: a block for each round and one more.
const fn schedule_len(key: AesKey) -> usize {
    match key {
        AesKey::Aes128 => 11 * 16,
        AesKey::Aes192 => 13 * 16,
        AesKey::Aes256 => 15 * 16,
    }
}

/// Where the hash states of AES-CBC with HMAC are.
const fn cbc_mac_at(key: AesKey) -> usize {
    2 * schedule_len(key)
}

/// Bytes of both hash states.
const fn states_len(hmac: Hmac) -> usize {
    2 * sys::outer_at(hmac.code())
}

/// Copies bytes to where there is room for them.
///
/// # Safety
/// `to` is valid for writing as many bytes.
unsafe fn copy(from: &[u8], to: *mut u8) {
    // SAFETY: the caller says so, and memory that is being filled is not borrowed elsewhere.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

/// The keys of a session of this crate, by their places.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    lines: &'a [KeyLine],
}

impl<'a> Placed<'a> {
    /// The lines of a session that was made by [`session`] for the suite that is asked about below.
    #[inline]
    pub(crate) fn new(lines: &'a [KeyLine]) -> Placed<'a> {
        Placed { lines }
    }

    /// The library's structure for AES-GCM, ChaCha20's key, or AES-CBC's schedule for encryption.
    #[inline]
    pub(crate) fn keys(self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// AES-CBC's schedule for decryption.
    #[inline]
    pub(crate) fn decryption(self, key: AesKey) -> *const u8 {
        self.keys().wrapping_add(schedule_len(key))
    }

    /// HMAC's inner hash state behind AES-CBC's schedules, or without AES-CBC.
    #[inline]
    pub(crate) fn mac(self, key: Option<AesKey>) -> *const u8 {
        self.keys().wrapping_add(key.map_or(0, cbc_mac_at))
    }

    /// The salt of AES-GCM.
    #[inline]
    pub(crate) fn gcm_salt(self) -> u32 {
        self.word(gcm_salt_at(size_of_val(self.lines)))
    }

    /// The salt of ChaCha20-Poly1305.
    #[inline]
    pub(crate) fn chacha_salt(self) -> u32 {
        self.word(CHACHA_KEY_LEN)
    }

    /// Four bytes as they lie in memory.
    #[inline]
    fn word(self, at: usize) -> u32 {
        let place: *const u32 = self.keys().wrapping_add(at).cast();
        debug_assert!(at + SALT_LEN <= size_of_val(self.lines));
        // SAFETY: every salt lies inside the block, which begins at a line, and its place is a
        // multiple of four.
        unsafe { place.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_path::CodePath;
    use crate::suites;

    /// Bytes that `suite` needs on the heap.
    fn heap_len(suite: Suite) -> usize {
        let keys = Keys {
            cipher: vec![1; suite.cipher_key_len_bytes()],
            salt: vec![2; suite.salt_len_bytes()],
            auth: vec![3; suite.auth_key_len_bytes()],
        };
        let mut manager = Manager::new(CodePath::default()).unwrap();
        let session = session(&mut manager, maker().unwrap(), suite, &keys).unwrap();
        session.heap_len().unwrap()
    }

    #[test]
    fn one_line_more_than_the_keys() {
        for suite in Suite::all().filter(|suite| suites::has(*suite)) {
            let line = mem::LINE_LEN;
            let bare = block_len(suite).unwrap().next_multiple_of(line);
            assert_eq!(heap_len(suite), bare + line, "{suite}");
            if let Suite::AesGcm { .. } = suite {
                let library = sys::culvert_mb_gcm_key_size();
                assert_eq!(
                    bare,
                    library.next_multiple_of(line),
                    "the salt takes no line of its own"
                );
            }
        }
    }

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        for key in [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256] {
            assert_eq!(schedule_len(key) % 16, 0);
            assert_eq!(cbc_mac_at(key) % 16, 0);
            assert!(Hmac::ALL.iter().all(|hmac| states_len(*hmac).is_multiple_of(16)));
        }
    }
}
