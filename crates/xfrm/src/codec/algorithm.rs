//! Algorithms with their keys: `xfrm_algo`, `xfrm_algo_auth`, `xfrm_algo_aead`.
//!
//! ```text
//! +----------------------------------+------------------+---------------------+-------+
//! | name, zero-terminated   64 bytes | key length, bits | truncation, bits *) |  key  |
//! +----------------------------------+------------------+---------------------+-------+
//! ```
//! *) not in `xfrm_algo`. Numbers are 32 bits, native byte order.

use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use netlink::{Field, Reader, TooShort};

/// Where the length of the integrity check value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// The attribute has none (`XFRMA_ALG_AUTH`): the algorithm's default.
    Default,
    /// So many bits; 0 asks for the default too.
    Bits(u32),
}

/// A name, a number of bits, and a key. `Debug` shows no key.
///
/// Every SA has one or two of these for as long as it lives: hence one allocation.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
struct Keyed {
    /// The name in UTF-8, then the key.
    name_and_key: Box<[u8]>,
    name_len: u16,
    key_bits: u32,
}

impl Keyed {
    /// Reads name, key length, what `between` reads, and the key.
    fn read<T>(
        bytes: &[u8],
        between: impl FnOnce(&mut Reader<'_>) -> Result<T, TooShort>,
    ) -> Result<(Keyed, T), TooShort> {
        let mut r = Reader::new(bytes);
        let name = r.take::<NAME_LEN>()?;
        // Linux forces the last byte to zero, so 63 characters count at most.
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        let name = name.get(..NAME_LEN - 1).unwrap_or(name);
        let key_bits = u32::read(&mut r)?;
        let extra = between(&mut r)?;
        let key_len = usize::try_from(key_bits.div_ceil(8)).map_err(|_| TooShort)?;
        let key = r.rest().get(..key_len).ok_or(TooShort)?;
        Ok((Keyed::new(&String::from_utf8_lossy(name), key_bits, key), extra))
    }

    /// `name` has been cut to [`NAME_LEN`] characters.
    fn new(name: &str, key_bits: u32, key: &[u8]) -> Keyed {
        let name_and_key = [name.as_bytes(), key].concat().into();
        let name_len = u16::try_from(name.len()).unwrap_or_default();
        Keyed { name_and_key, name_len, key_bits }
    }

    /// The same with another name.
    fn named(&self, name: &str) -> Keyed {
        Keyed::new(name, self.key_bits, self.key())
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.name_and_key.split_at_checked(self.name_len.into()).unwrap_or_default()
    }

    fn name(&self) -> &str {
        core::str::from_utf8(self.parts().0).unwrap_or_default()
    }

    fn key(&self) -> &[u8] {
        self.parts().1
    }

    fn write(&self, between: Option<u32>, out: &mut Vec<u8>) {
        let start = out.len();
        let (name, key) = self.parts();
        out.extend_from_slice(name.get(..NAME_LEN - 1).unwrap_or(name));
        out.resize(start + NAME_LEN, 0);
        self.key_bits.write(out);
        if let Some(n) = between {
            n.write(out);
        }
        out.extend_from_slice(key);
    }

    fn fmt(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{what} {{ {}, {} bits }}", self.name(), self.key_bits)
    }
}

/// An authentication algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    keyed: Keyed,
    truncation: Truncation,
}

impl Auth {
    /// Decodes `XFRMA_ALG_AUTH`.
    ///
    /// # Errors
    /// Shorter than the key length asks for.
    pub fn decode(bytes: &[u8]) -> Result<Auth, TooShort> {
        let (keyed, ()) = Keyed::read(bytes, |_| Ok(()))?;
        Ok(Auth { keyed, truncation: Truncation::Default })
    }

    /// Decodes `XFRMA_ALG_AUTH_TRUNC`.
    ///
    /// # Errors
    /// Shorter than the key length asks for.
    pub fn decode_truncated(bytes: &[u8]) -> Result<Auth, TooShort> {
        let (keyed, bits) = Keyed::read(bytes, u32::read)?;
        Ok(Auth { keyed, truncation: Truncation::Bits(bits) })
    }

    /// The same with the algorithm's own name and a truncation that is settled.
    pub fn settled(mut self, name: &str, bits: u32) -> Auth {
        self.keyed = self.keyed.named(name);
        self.truncation = Truncation::Bits(bits);
        self
    }

    /// The name as the owner gave it.
    pub fn name(&self) -> &str {
        self.keyed.name()
    }

    /// Key of the algorithm.
    pub fn key(&self) -> &[u8] {
        self.keyed.key()
    }

    /// Truncation of the tag.
    pub fn truncation(&self) -> Truncation {
        self.truncation
    }

    /// Appends `XFRMA_ALG_AUTH`'s value.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.keyed.write(None, out);
    }

    /// Appends `XFRMA_ALG_AUTH_TRUNC`'s value.
    pub fn write_truncated(&self, out: &mut Vec<u8>) {
        let bits = match self.truncation {
            Truncation::Default => 0,
            Truncation::Bits(bits) => bits,
        };
        self.keyed.write(Some(bits), out);
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keyed.fmt("Auth", f)
    }
}

/// An encryption algorithm.
#[derive(Clone, PartialEq, Eq)]
pub struct Cipher {
    keyed: Keyed,
}

impl Cipher {
    /// Decodes `XFRMA_ALG_CRYPT`.
    ///
    /// # Errors
    /// Shorter than the key length asks for.
    pub fn decode(bytes: &[u8]) -> Result<Cipher, TooShort> {
        Keyed::read(bytes, |_| Ok(())).map(|(keyed, ())| Cipher { keyed })
    }

    /// The same with the algorithm's own name.
    pub fn settled(mut self, name: &str) -> Cipher {
        self.keyed = self.keyed.named(name);
        self
    }

    /// The combined mode of that name and key, with an ICV of so many bits.
    pub fn into_aead(self, icv_bits: u32) -> Aead {
        Aead { keyed: self.keyed, icv_bits }
    }

    /// The name as the owner gave it.
    pub fn name(&self) -> &str {
        self.keyed.name()
    }

    /// Key of the algorithm.
    pub fn key(&self) -> &[u8] {
        self.keyed.key()
    }

    /// Appends the attribute's value.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.keyed.write(None, out);
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keyed.fmt("Cipher", f)
    }
}

/// A compression algorithm; it has no key.
#[derive(Clone, PartialEq, Eq)]
pub struct Compression {
    keyed: Keyed,
}

impl Compression {
    /// Decodes `XFRMA_ALG_COMP`.
    ///
    /// # Errors
    /// Shorter than the key length asks for.
    pub fn decode(bytes: &[u8]) -> Result<Compression, TooShort> {
        Keyed::read(bytes, |_| Ok(())).map(|(keyed, ())| Compression { keyed })
    }

    /// The name as the owner gave it.
    pub fn name(&self) -> &str {
        self.keyed.name()
    }

    /// Appends the attribute's value.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.keyed.write(None, out);
    }
}

impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keyed.fmt("Compression", f)
    }
}

/// A combined-mode algorithm; the key ends with the salt.
#[derive(Clone, PartialEq, Eq)]
pub struct Aead {
    keyed: Keyed,
    icv_bits: u32,
}

impl Aead {
    /// Decodes `XFRMA_ALG_AEAD`.
    ///
    /// # Errors
    /// Shorter than the key length asks for.
    pub fn decode(bytes: &[u8]) -> Result<Aead, TooShort> {
        Keyed::read(bytes, u32::read).map(|(keyed, icv_bits)| Aead { keyed, icv_bits })
    }

    /// The name as the owner gave it.
    pub fn name(&self) -> &str {
        self.keyed.name()
    }

    /// The key with the salt.
    pub fn key(&self) -> &[u8] {
        self.keyed.key()
    }

    /// The integrity check value's length in bits.
    pub fn icv_bits(&self) -> u32 {
        self.icv_bits
    }

    /// Appends the attribute's value.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.keyed.write(Some(self.icv_bits), out);
    }
}

impl fmt::Debug for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keyed.fmt("Aead", f)
    }
}

const NAME_LEN: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn algorithm(name: &str, numbers: &[u32], key: &[u8]) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(64, 0);
        for n in numbers {
            bytes.extend(n.to_ne_bytes());
        }
        bytes.extend(key);
        bytes
    }

    #[test]
    fn round_trips() {
        let bytes = algorithm("rfc4106(gcm(aes))", &[160, 128], &[7; 20]);
        let a = Aead::decode(&bytes).unwrap();
        assert_eq!((a.name(), a.icv_bits(), a.key()), ("rfc4106(gcm(aes))", 128, &[7; 20][..]));
        let mut out = Vec::new();
        a.write(&mut out);
        assert_eq!(out, bytes);

        let bytes = algorithm("hmac(sha256)", &[256, 128], &[8; 32]);
        let a = Auth::decode_truncated(&bytes).unwrap();
        assert_eq!(a.truncation(), Truncation::Bits(128));
        let mut out = Vec::new();
        a.write_truncated(&mut out);
        assert_eq!(out, bytes);
        let mut short = Vec::new();
        a.write(&mut short);
        assert_eq!(short, algorithm("hmac(sha256)", &[256], &[8; 32]));
        assert_eq!(Auth::decode(&short).unwrap().truncation(), Truncation::Default);
    }

    #[test]
    fn keys_longer_than_the_attribute_are_refused() {
        assert_eq!(Cipher::decode(&algorithm("x", &[136], &[0; 16])), Err(TooShort));
        assert_eq!(Cipher::decode(&algorithm("x", &[u32::MAX], &[0; 16])), Err(TooShort));
        assert_eq!(Cipher::decode(&algorithm("x", &[121], &[0; 16])).unwrap().key().len(), 16);
    }

    #[test]
    fn a_name_without_end_is_cut() {
        let name = "n".repeat(64);
        let c = Cipher::decode(&algorithm(&name, &[0], &[])).unwrap();
        assert_eq!(c.name().len(), 63);
    }

    #[test]
    fn debug_shows_no_key() {
        let c = Cipher::decode(&algorithm("cbc(aes)", &[32], b"KEY!")).unwrap();
        assert_eq!(format!("{c:?}"), "Cipher { cbc(aes), 32 bits }");
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..160)) {
            let _ = Aead::decode(&noise);
            let _ = Auth::decode(&noise);
            let _ = Auth::decode_truncated(&noise);
            let _ = Cipher::decode(&noise);
        }
    }
}
