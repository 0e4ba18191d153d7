//! HMAC (RFC 2104) on OpenSSL's hash functions, keyed once per session.
//!
//! A keyed hash state is a plain value, so a packet's HMAC starts from a copy of it: neither
//! re-keying nor allocation per packet.

use core::hint::black_box;

use crypto::Hmac;
use openssl::memcmp;
use openssl::sha::{Sha1, Sha256, Sha384, Sha512};
use zeroize::Zeroize;

/// The longest block of the hashes below, in bytes.
const MAX_BLOCK_LEN: usize = 128;

/// The longest truncated tag, in bytes.
const MAX_ICV_LEN: usize = 32;

/// One of the keyed hashes.
pub(crate) enum Mac {
    Sha1(Keyed<Sha1>),
    Sha256(Keyed<Sha256>),
    Sha384(Keyed<Sha384>),
    Sha512(Keyed<Sha512>),
}

impl Mac {
    /// Keys the hash; a key longer than the hash's block is hashed first.
    pub(crate) fn new(hmac: Hmac, key: &[u8]) -> Mac {
        match hmac {
            Hmac::Sha1_96 => Mac::Sha1(Keyed::new(key)),
            Hmac::Sha256_128 => Mac::Sha256(Keyed::new(key)),
            Hmac::Sha384_192 => Mac::Sha384(Keyed::new(key)),
            Hmac::Sha512_256 => Mac::Sha512(Keyed::new(key)),
        }
    }

    /// Writes the truncated tag of the parts, one after the other, to `icv`.
    pub(crate) fn sign(&self, parts: &[&[u8]], icv: &mut [u8]) {
        let tag = self.tag(parts);
        for (to, from) in icv.iter_mut().zip(tag) {
            *to = from;
        }
    }

    /// Whether `icv` is the truncated tag of the parts; in time that does not depend on the bytes.
    pub(crate) fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        let tag = self.tag(parts);
        tag.get(..icv.len()).is_some_and(|tag| memcmp::eq(tag, icv))
    }

    fn tag(&self, parts: &[&[u8]]) -> [u8; MAX_ICV_LEN] {
        match self {
            Mac::Sha1(keyed) => keyed.tag(parts),
            Mac::Sha256(keyed) => keyed.tag(parts),
            Mac::Sha384(keyed) => keyed.tag(parts),
            Mac::Sha512(keyed) => keyed.tag(parts),
        }
    }
}

/// A hash as HMAC needs it.
pub(crate) trait Digest: Clone {
    /// The hash's block in bytes, at most [`MAX_BLOCK_LEN`].
    const BLOCK_LEN: usize;
    /// The full output.
    type Output: AsRef<[u8]>;
    fn fresh() -> Self;
    fn absorb(&mut self, bytes: &[u8]);
    fn output(self) -> Self::Output;
}

macro_rules! digest {
    ($hash:ty, $block:literal, $out:literal) => {
        impl Digest for $hash {
            const BLOCK_LEN: usize = $block;
            type Output = [u8; $out];
            fn fresh() -> Self {
                Self::new()
            }
            fn absorb(&mut self, bytes: &[u8]) {
                self.update(bytes);
            }
            fn output(self) -> Self::Output {
                self.finish()
            }
        }
    };
}

digest!(Sha1, 64, 20);
digest!(Sha256, 64, 32);
digest!(Sha384, 128, 48);
digest!(Sha512, 128, 64);

/// The two hash states of HMAC after the padded key.
pub(crate) struct Keyed<D: Digest> {
    inner: D,
    outer: D,
}

impl<D: Digest> Keyed<D> {
    fn new(key: &[u8]) -> Self {
        let mut block = [0; MAX_BLOCK_LEN];
        if key.len() > D::BLOCK_LEN {
            let mut hash = D::fresh();
            hash.absorb(key);
            fill(&mut block, hash.output().as_ref());
        } else {
            fill(&mut block, key);
        }
        let keyed = Keyed { inner: padded(&block, 0x36), outer: padded(&block, 0x5c) };
        block.zeroize();
        keyed
    }

    fn tag(&self, parts: &[&[u8]]) -> [u8; MAX_ICV_LEN] {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.absorb(part);
        }
        let mut outer = self.outer.clone();
        outer.absorb(inner.output().as_ref());
        let mut tag = [0; MAX_ICV_LEN];
        fill(&mut tag, outer.output().as_ref());
        tag
    }
}

impl<D: Digest> Drop for Keyed<D> {
    fn drop(&mut self) {
        // The states are keys in all but name. The hash types have no zeroise of their own; the
        // black box keeps the compiler from dropping the overwrite as a dead store.
        self.inner = D::fresh();
        self.outer = D::fresh();
        black_box(&self.inner);
        black_box(&self.outer);
    }
}

/// Copies as much of `from` as fits to the start of `to`.
fn fill(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// A hash state that has absorbed the key block under a pad byte.
fn padded<D: Digest>(block: &[u8; MAX_BLOCK_LEN], pad: u8) -> D {
    let mut bytes = *block;
    for byte in &mut bytes {
        *byte ^= pad;
    }
    let mut hash = D::fresh();
    hash.absorb(&bytes[..D::BLOCK_LEN]);
    bytes.zeroize();
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_the_message_does_not_matter() {
        for hmac in Hmac::ALL {
            let mac = Mac::new(hmac, b"key");
            let whole = mac.tag(&[b"one two three"]);
            assert_eq!(mac.tag(&[b"one ", b"", b"two three"]), whole);
            assert_ne!(mac.tag(&[b"one two thref"]), whole);
        }
    }

    #[test]
    fn a_key_longer_than_the_block_is_its_hash() {
        let long = [0xaa; 80];
        let hashed = openssl::sha::sha256(&long);
        let a = Mac::new(Hmac::Sha256_128, &long).tag(&[b"x"]);
        let b = Mac::new(Hmac::Sha256_128, &hashed).tag(&[b"x"]);
        assert_eq!(a, b);
        let whole_block = Mac::new(Hmac::Sha512_256, &[0xaa; 128]).tag(&[b"x"]);
        assert_ne!(whole_block, Mac::new(Hmac::Sha512_256, &[0xaa; 127]).tag(&[b"x"]));
    }

    #[test]
    fn verify_wants_every_byte() {
        let mac = Mac::new(Hmac::Sha1_96, &[7; 20]);
        let mut icv = [0; 12];
        mac.sign(&[b"abc"], &mut icv);
        assert!(mac.verify(&[b"abc"], &icv));
        for bit in 0..96 {
            let mut bad = icv;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!mac.verify(&[b"abc"], &bad));
        }
        assert!(!mac.verify(&[b"abc"], &[0; 33]), "longer than any tag");
    }
}
