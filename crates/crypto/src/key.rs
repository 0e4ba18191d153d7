//! Key material that leaves memory when it is dropped.

use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::suite::Suite;

/// The keys of one SA, as the key exchange hands them over.
///
/// `Debug` shows lengths, never bytes.
#[derive(Clone, Default, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Keys {
    /// The cipher's key; empty for NULL.
    pub cipher: Vec<u8>,
    /// The salt of a counter mode (RFC 4106 §4, RFC 3686 §4); empty for the others.
    pub salt: Vec<u8>,
    /// The integrity key; empty for combined modes.
    pub auth: Vec<u8>,
}

impl Keys {
    /// True if each part has the length that the suite asks for. An integrity key has one that
    /// [`Integrity::takes_key_len`](crate::Integrity::takes_key_len) allows.
    pub fn fit(&self, suite: Suite) -> bool {
        self.cipher.len() == suite.cipher_key_len_bytes()
            && self.salt.len() == suite.salt_len_bytes()
            && match suite.integrity() {
                None => self.auth.is_empty(),
                Some(integrity) => integrity.takes_key_len(self.auth.len()),
            }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Keys {{ cipher: {} bytes, salt: {} bytes, auth: {} bytes }}",
            self.cipher.len(),
            self.salt.len(),
            self.auth.len()
        )
    }
}
