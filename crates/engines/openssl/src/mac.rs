//! The integrity algorithms: which one a session has, its tag, and the tag's comparison.

use crypto::Integrity;
use openssl::error::ErrorStack;
use openssl::memcmp;
use openssl::sha::{Sha1, Sha256, Sha384, Sha512};

use crate::cbc_mac::CbcMac;
use crate::cipher::Contexts;
use crate::digest::{Digest, DigestKey};
use crate::hmac::Keyed;
use crate::tag::Tag;

/// Names of digests for OpenSSL.
const MD5: &str = "MD5";
const SM3: &str = "SM3";

/// OpenSSL contexts of one worker, used with each session's keys.
pub(crate) struct Tools {
    pub(crate) contexts: Contexts,
    /// Nothing where OpenSSL has no such hash.
    md5: Option<Digest>,
    sm3: Option<Digest>,
}

impl Tools {
    /// # Errors
    /// When OpenSSL lacks a cipher that every build has.
    pub(crate) fn new() -> Result<Tools, ErrorStack> {
        let digest = |name| Digest::new(name).ok();
        Ok(Tools { contexts: Contexts::new()?, md5: digest(MD5), sm3: digest(SM3) })
    }

    /// True if OpenSSL has the algorithm.
    pub(crate) fn has(&self, integrity: Integrity) -> bool {
        match integrity {
            Integrity::Md5_96 | Integrity::Md5_128 => self.md5.is_some(),
            Integrity::Sm3_96 | Integrity::Sm3_128 | Integrity::Sm3_256 => self.sm3.is_some(),
            _ => true,
        }
    }
}

/// One of the algorithms with its key.
pub(crate) enum Mac {
    Sha1(Keyed<Sha1>),
    Sha256(Keyed<Sha256>),
    Sha384(Keyed<Sha384>),
    Sha512(Keyed<Sha512>),
    Md5(DigestKey),
    Sm3(DigestKey),
    Cbc(CbcMac),
}

impl Mac {
    /// Keys the algorithm; `None` when the key does not fit or OpenSSL fails.
    pub(crate) fn new(integrity: Integrity, key: &[u8]) -> Option<Mac> {
        Some(match integrity {
            Integrity::Sha1_96 | Integrity::Sha1_160 => Mac::Sha1(Keyed::new(key)),
            Integrity::Sha256_96 | Integrity::Sha256_128 => Mac::Sha256(Keyed::new(key)),
            Integrity::Sha384_192 => Mac::Sha384(Keyed::new(key)),
            Integrity::Sha512_256 => Mac::Sha512(Keyed::new(key)),
            Integrity::Md5_96 | Integrity::Md5_128 => Mac::Md5(DigestKey::new(MD5, key)?),
            Integrity::Sm3_96 | Integrity::Sm3_128 | Integrity::Sm3_256 => {
                Mac::Sm3(DigestKey::new(SM3, key)?)
            }
            Integrity::AesXcbc96 => Mac::Cbc(CbcMac::xcbc(key)?),
            Integrity::AesCmac96 => Mac::Cbc(CbcMac::cmac(key)?),
        })
    }

    /// Writes the truncated tag of the parts, one after the other, to `icv`. False if it failed.
    pub(crate) fn sign(&self, tools: &mut Tools, parts: &[&[u8]], icv: &mut [u8]) -> bool {
        match self.tag(tools, parts).as_ref().and_then(|tag| tag.get(..icv.len())) {
            Some(tag) => {
                icv.copy_from_slice(tag);
                true
            }
            None => false,
        }
    }

    /// True if `icv` is the truncated tag of the parts. The time does not depend on the bytes.
    /// `None` if OpenSSL failed.
    pub(crate) fn verify(&self, tools: &mut Tools, parts: &[&[u8]], icv: &[u8]) -> Option<bool> {
        let tag = self.tag(tools, parts)?;
        Some(tag.get(..icv.len()).is_some_and(|tag| memcmp::eq(tag, icv)))
    }

    fn tag(&self, tools: &mut Tools, parts: &[&[u8]]) -> Option<Tag> {
        match self {
            Mac::Sha1(keyed) => Some(keyed.tag(parts)),
            Mac::Sha256(keyed) => Some(keyed.tag(parts)),
            Mac::Sha384(keyed) => Some(keyed.tag(parts)),
            Mac::Sha512(keyed) => Some(keyed.tag(parts)),
            Mac::Md5(key) => key.tag(tools.md5.as_mut()?, parts),
            Mac::Sm3(key) => key.tag(tools.sm3.as_mut()?, parts),
            Mac::Cbc(mac) => mac.tag(&mut tools.contexts, parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_the_message_does_not_matter() {
        let mut tools = Tools::new().unwrap();
        for integrity in Integrity::ALL {
            let mac = Mac::new(integrity, &[b'k'; 16]).unwrap();
            let mut tag = |parts: &[&[u8]]| mac.tag(&mut tools, parts).unwrap();
            let whole = tag(&[b"one two three"]);
            assert_eq!(tag(&[b"one ", b"", b"two three"]), whole, "{integrity:?}");
            assert_ne!(tag(&[b"one two thref"]), whole, "{integrity:?}");
        }
    }

    #[test]
    fn verify_wants_every_byte() {
        let mut tools = Tools::new().unwrap();
        for integrity in Integrity::ALL {
            let mac = Mac::new(integrity, &[7; 16]).unwrap();
            let mut icv = vec![0; integrity.icv_len_bytes()];
            assert!(mac.sign(&mut tools, &[b"abc"], &mut icv));
            assert_eq!(mac.verify(&mut tools, &[b"abc"], &icv), Some(true));
            for bit in 0..8 * icv.len() {
                let mut bad = icv.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(mac.verify(&mut tools, &[b"abc"], &bad), Some(false));
            }
            let long = [0; 33];
            assert_eq!(
                mac.verify(&mut tools, &[b"abc"], &long),
                Some(false),
                "longer than any tag"
            );
        }
    }
}
