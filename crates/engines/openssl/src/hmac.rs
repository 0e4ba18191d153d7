//! HMAC (RFC 2104) on OpenSSL's SHA functions, keyed once per session.
//!
//! A keyed hash state is a plain value, so a packet's HMAC starts from a copy of it: neither
//! re-keying nor allocation per packet.

use core::hint::black_box;

use openssl::sha::{Sha1, Sha256, Sha384, Sha512};
use zeroize::Zeroize;

use crate::tag::{Tag, fill};

/// The longest block of the hashes below, in bytes.
const MAX_BLOCK_LEN: usize = 128;

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
    /// Keys the hash; a key longer than the hash's block is hashed first.
    pub(crate) fn new(key: &[u8]) -> Self {
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

    /// The tag of the parts, one after the other, cut to the longest that any suite has.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.absorb(part);
        }
        let mut outer = self.outer.clone();
        outer.absorb(inner.output().as_ref());
        let mut tag = Tag::default();
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
        fn check<D: Digest>() {
            let keyed = Keyed::<D>::new(b"key");
            let whole = keyed.tag(&[b"one two three"]);
            assert_eq!(keyed.tag(&[b"one ", b"", b"two three"]), whole);
            assert_ne!(keyed.tag(&[b"one two thref"]), whole);
        }
        check::<Sha1>();
        check::<Sha256>();
        check::<Sha384>();
        check::<Sha512>();
    }

    #[test]
    fn a_key_longer_than_the_block_is_its_hash() {
        let long = [0xaa; 80];
        let hashed = openssl::sha::sha256(&long);
        let a = Keyed::<Sha256>::new(&long).tag(&[b"x"]);
        let b = Keyed::<Sha256>::new(&hashed).tag(&[b"x"]);
        assert_eq!(a, b);
        let whole_block = Keyed::<Sha512>::new(&[0xaa; 128]).tag(&[b"x"]);
        assert_ne!(whole_block, Keyed::<Sha512>::new(&[0xaa; 127]).tag(&[b"x"]));
    }
}
