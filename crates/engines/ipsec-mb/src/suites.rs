//! Which suites the engine has, and what the library calls their parts.
//!
//! The library's HMAC functions write tags of RFC 2404's and RFC 4868's lengths; a tag of another length comes out
//! whole, beyond the packet's end. So the suites with other truncations are left to another engine, and so are the
//! algorithms that the library has no multi-buffer code for.

use crypto::{AesKey, Cipher, Integrity, Suite};
use ipsec_mb_sys as sys;

/// A hash of the library's HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hmac {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hmac {
    /// Every one of them.
    #[cfg(test)]
    pub(crate) const ALL: [Hmac; 4] = [Hmac::Sha1, Hmac::Sha256, Hmac::Sha384, Hmac::Sha512];

    /// The hash of an integrity algorithm, if the library truncates it so.
    #[inline]
    pub(crate) const fn of(integrity: Integrity) -> Option<Hmac> {
        match integrity {
            Integrity::Sha1_96 => Some(Hmac::Sha1),
            Integrity::Sha256_128 => Some(Hmac::Sha256),
            Integrity::Sha384_192 => Some(Hmac::Sha384),
            Integrity::Sha512_256 => Some(Hmac::Sha512),
            _ => None,
        }
    }

    /// The shim's number for it.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Hmac::Sha1 => sys::HMAC_SHA1,
            Hmac::Sha256 => sys::HMAC_SHA256,
            Hmac::Sha384 => sys::HMAC_SHA384,
            Hmac::Sha512 => sys::HMAC_SHA512,
        }
    }
}

/// AES-CBC's key size, or none for HMAC alone, with HMAC's hash.
pub(crate) type CbcHmac = (Option<AesKey>, Hmac);

/// A suite of AES-CBC and HMAC, or of HMAC alone.
#[inline]
pub(crate) const fn cbc_hmac(cipher: Cipher, integrity: Integrity) -> Option<CbcHmac> {
    match (cipher, Hmac::of(integrity)) {
        (Cipher::Null, Some(hmac)) => Some((None, hmac)),
        (Cipher::AesCbc(key), Some(hmac)) => Some((Some(key), hmac)),
        _ => None,
    }
}

/// Whether the engine has a suite.
pub(crate) const fn has(suite: Suite) -> bool {
    match suite {
        Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => true,
        Suite::Separate { cipher, integrity } => cbc_hmac(cipher, integrity).is_some(),
        Suite::AesCcm { .. } | Suite::AesGmac { .. } => false,
    }
}
