//! State of a session.

use crypto::{Cipher, Integrity, Keys, Suite};

use crate::cbc::CbcKeys;
use crate::ctr::{Counter, Stream};
use crate::gcm::Gcm;
use crate::hmac::HmacKey;
use crate::isa::Isa;
use crate::sm4::RoundKeys;

/// The keyed state of one SA, for one instruction set.
pub(crate) struct State {
    pub(crate) isa: Isa,
    pub(crate) keyed: Keyed,
}

/// By the kind of suite.
pub(crate) enum Keyed {
    Gcm(Gcm),
    Separate { crypt: Crypt, mac: HmacKey },
}

/// Cipher of a suite beside HMAC-SM3.
pub(crate) enum Crypt {
    Null,
    Cbc(CbcKeys),
    Ctr(CtrKeys),
}

/// A key and its nonce.
#[derive(zeroize::ZeroizeOnDrop)]
pub(crate) struct CtrKeys {
    keys: RoundKeys,
    salt: [u8; 4],
}

impl CtrKeys {
    /// Encrypts or decrypts in place: nonce, IV, and a block counter that begins with one (RFC 3686 §4).
    pub(crate) fn crypt(&self, isa: Isa, iv: &[u8], text: &mut [u8]) {
        let counter = Counter::new(self.salt, iv, 1);
        Stream::new(isa, &self.keys, counter, text.len()).crypt(isa, &self.keys, text);
    }
}

impl State {
    /// Keys a suite; `None` if the keys do not fit, or the suite is another engine's.
    pub(crate) fn new(isa: Isa, suite: Suite, keys: &Keys) -> Option<State> {
        if !keys.fit(suite) {
            return None;
        }
        let key = || keys.cipher.first_chunk();
        let salt = || keys.salt.first_chunk().copied();
        let keyed = match suite {
            Suite::Sm4Gcm { .. } => Keyed::Gcm(Gcm::new(isa, key()?, salt()?)),
            Suite::Separate { cipher, integrity } if is_sm3(integrity) => {
                let crypt = match cipher {
                    Cipher::Null => Crypt::Null,
                    Cipher::Sm4Cbc => Crypt::Cbc(CbcKeys::new(isa, key()?)),
                    Cipher::Sm4Ctr => {
                        Crypt::Ctr(CtrKeys { keys: RoundKeys::expand(isa, key()?), salt: salt()? })
                    }
                    _ => return None,
                };
                Keyed::Separate { crypt, mac: HmacKey::new(&keys.auth) }
            }
            _ => return None,
        };
        Some(State { isa, keyed })
    }
}

/// True if the engine has a suite.
pub(crate) fn has(suite: Suite) -> bool {
    match suite {
        Suite::Sm4Gcm { .. } => true,
        Suite::Separate { cipher, integrity } => {
            matches!(cipher, Cipher::Null | Cipher::Sm4Cbc | Cipher::Sm4Ctr) && is_sm3(integrity)
        }
        _ => false,
    }
}

const fn is_sm3(integrity: Integrity) -> bool {
    matches!(integrity, Integrity::Sm3_96 | Integrity::Sm3_128 | Integrity::Sm3_256)
}
