//! Keys of authenticated mode: HMAC-SHA-256, truncated to 128 bits (RFC 8762 §4.4, RFC 4868).

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Length of the truncated HMAC, in bytes.
pub(crate) const HMAC_LEN: usize = 16;

/// Lengths of keys that are taken, in bytes. A shorter one is guessed, a longer one hashed to 32 bytes (RFC 2104 §3).
const LENGTHS: core::ops::RangeInclusive<usize> = 16..=64;

/// A key of authenticated mode, overwritten when it is dropped. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<Vec<u8>>);

/// Reason that bytes are no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key's length, in bytes.
    #[error("the key has {0} bytes, and 16 to 64 are wanted")]
    Length(usize),
    /// The file's text is not hexadecimal digits.
    #[error("the key is no even number of hexadecimal digits")]
    Digits,
}

impl Key {
    /// The key with these bytes.
    ///
    /// # Errors
    /// It has fewer than 16 bytes, or more than 64.
    pub fn new(bytes: &[u8]) -> Result<Key, KeyError> {
        if !LENGTHS.contains(&bytes.len()) {
            return Err(KeyError::Length(bytes.len()));
        }
        Ok(Key(Zeroizing::new(bytes.to_vec())))
    }

    /// The key whose bytes a file has as hexadecimal digits, two a byte, with white space around them.
    ///
    /// # Errors
    /// Other characters, an odd number of digits, or fewer than 16 bytes or more than 64.
    pub fn from_hex(text: &[u8]) -> Result<Key, KeyError> {
        let digits = text.trim_ascii();
        let (pairs, odd) = digits.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(KeyError::Digits);
        }
        let digit = |c: u8| char::from(c).to_digit(16).ok_or(KeyError::Digits);
        // With room for all, so that no part of it is left where it grew from.
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for [high, low] in pairs {
            bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        }
        Key::new(&bytes)
    }

    fn mac(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        // A key of any length is taken.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// The truncated HMAC of some bytes after one another.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; HMAC_LEN] {
        let mut short = [0; HMAC_LEN];
        if let Some(mac) = self.mac(parts) {
            let whole = mac.finalize().into_bytes();
            short.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        }
        short
    }

    /// True if a truncated HMAC is that of some bytes after one another; compared in constant time.
    pub(crate) fn verifies(&self, parts: &[&[u8]], hmac: &[u8; HMAC_LEN]) -> bool {
        self.mac(parts).is_some_and(|mac| mac.verify_truncated_left(hmac).is_ok())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key { .. }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_rfc_4868_does() {
        // RFC 4868 §2.7.2.1, test case AUTH256-2: a key of 32 bytes.
        let key: Vec<u8> = (1..=32).collect();
        let key = Key::new(&key).expect("a key");
        let data = [0xcd; 50];
        let whole = [
            0x37, 0x2e, 0xfc, 0xf9, 0xb4, 0x0b, 0x35, 0xc2, 0x11, 0x5b, 0x13, 0x46, 0x90, 0x3d,
            0x2e, 0xf4,
        ];
        assert_eq!(key.sign(&[&data]), whole);
        assert_eq!(key.sign(&[&data[..7], &data[7..]]), whole);
        assert!(key.verifies(&[&data], &whole));
        let mut other = whole;
        other[15] ^= 1;
        assert!(!key.verifies(&[&data], &other));
    }

    #[test]
    fn reads_hexadecimal_digits() {
        let key = Key::from_hex(b" 000102030405060708090a0B0C0D0E0F\n").expect("a key");
        assert_eq!(key.0.as_slice(), (0..16).collect::<Vec<u8>>());
        assert_eq!(
            Key::from_hex(b"00112233445566778899aabbccddee").err(),
            Some(KeyError::Length(15))
        );
        assert_eq!(Key::from_hex(&[b'0'; 33]).err(), Some(KeyError::Digits));
        assert_eq!(Key::from_hex(&[b'x'; 32]).err(), Some(KeyError::Digits));
        assert_eq!(Key::from_hex(&[b'0'; 130]).err(), Some(KeyError::Length(65)));
        assert_eq!(format!("{key:?}"), "Key { .. }");
    }
}
