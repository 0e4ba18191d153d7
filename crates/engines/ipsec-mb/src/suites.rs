//! Which suites the engine has, and what the library calls their parts.
//!
//! | suites | how |
//! | --- | --- |
//! | AES-GCM, AES-GMAC | direct calls for each packet |
//! | ChaCha20-Poly1305 | a burst of its own |
//! | AES-CBC or NULL with the HMACs of RFC 2404 and RFC 4868 | two synchronous bursts |
//! | AES-CTR, AES-CCM, AES-XCBC, AES-CMAC, HMACs truncated otherwise | the library's scheduler |
//!
//! The last are the ones that are seldom asked for. What the library has no code for, or is weak (Camellia, AES-CCM
//! with keys of 192 bits, DES, MD5), is left to another engine.

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

    /// The hash of an integrity algorithm, if the library's bursts truncate it so: a tag of another length comes out
    /// whole, beyond the packet's end.
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

/// Cipher of a suite that the scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crypt {
    Null,
    Cbc(AesKey),
    Ctr(AesKey),
    Ccm(AesKey),
}

impl Crypt {
    /// The key's size.
    pub(crate) const fn key(self) -> Option<AesKey> {
        match self {
            Crypt::Null => None,
            Crypt::Cbc(key) | Crypt::Ctr(key) | Crypt::Ccm(key) => Some(key),
        }
    }
}

/// MAC of a suite that the scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mac {
    Hmac(Hmac),
    Xcbc,
    Cmac,
    Ccm,
}

/// A suite that the library's scheduler runs.
#[inline(never)]
pub(crate) const fn scheduled(suite: Suite) -> Option<(Crypt, Mac)> {
    let (cipher, integrity) = match suite {
        Suite::AesCcm { key: key @ (AesKey::Aes128 | AesKey::Aes256), .. } => {
            return Some((Crypt::Ccm(key), Mac::Ccm));
        }
        Suite::Separate { cipher, integrity } => (cipher, integrity),
        _ => return None,
    };
    let crypt = match cipher {
        Cipher::Null => Crypt::Null,
        Cipher::AesCbc(key) => Crypt::Cbc(key),
        Cipher::AesCtr(key) => Crypt::Ctr(key),
        Cipher::CamelliaCbc(_)
        | Cipher::TripleDesCbc
        | Cipher::DesCbc
        | Cipher::Sm4Cbc
        | Cipher::Sm4Ctr => return None,
    };
    let mac = match integrity {
        Integrity::Sha1_96 | Integrity::Sha1_160 => Mac::Hmac(Hmac::Sha1),
        Integrity::Sha256_96 | Integrity::Sha256_128 => Mac::Hmac(Hmac::Sha256),
        Integrity::Sha384_192 => Mac::Hmac(Hmac::Sha384),
        Integrity::Sha512_256 => Mac::Hmac(Hmac::Sha512),
        Integrity::AesXcbc96 => Mac::Xcbc,
        Integrity::AesCmac96 => Mac::Cmac,
        Integrity::Md5_96
        | Integrity::Md5_128
        | Integrity::Sm3_96
        | Integrity::Sm3_128
        | Integrity::Sm3_256 => return None,
    };
    Some((crypt, mac))
}

/// True if the engine has a suite.
pub(crate) const fn has(suite: Suite) -> bool {
    match suite {
        Suite::AesGcm { .. } | Suite::AesGmac { .. } | Suite::ChaCha20Poly1305 => true,
        Suite::AesCcm { .. } | Suite::Separate { .. } => scheduled(suite).is_some(),
        Suite::Sm4Gcm { .. } | Suite::None => false,
    }
}

/// True if [`crate::bare`] has a suite.
pub(crate) const fn has_bare(suite: Suite) -> bool {
    match suite {
        Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => true,
        Suite::Separate { cipher, integrity } => cbc_hmac(cipher, integrity).is_some(),
        Suite::AesCcm { .. } | Suite::AesGmac { .. } | Suite::Sm4Gcm { .. } | Suite::None => false,
    }
}
