//! What a session holds.

use crypto::{Keys, Suite};
use zeroize::Zeroizing;

use crate::cipher::Kind;
use crate::mac::Mac;

/// The keyed state of one SA.
pub(crate) enum State {
    /// AES-GCM or ChaCha20-Poly1305.
    Aead { kind: Kind, key: Zeroizing<Vec<u8>>, salt: Zeroizing<[u8; 4]> },
    /// AES-CBC with an HMAC.
    CbcHmac { kind: Kind, key: Zeroizing<Vec<u8>>, mac: Mac },
    /// An HMAC alone.
    NullHmac { mac: Mac },
}

impl State {
    /// Keys a suite; `None` if the keys do not fit.
    pub(crate) fn new(suite: Suite, keys: &Keys) -> Option<State> {
        if !keys.fit(suite) {
            return None;
        }
        let key = || Zeroizing::new(keys.cipher.clone());
        let aead = |kind| {
            let salt = Zeroizing::new(keys.salt.as_slice().try_into().ok()?);
            Some(State::Aead { kind, key: key(), salt })
        };
        match suite {
            Suite::AesGcm { key, .. } => aead(Kind::Gcm(key)),
            Suite::ChaCha20Poly1305 => aead(Kind::ChaCha20Poly1305),
            Suite::AesCbcHmac { key: size, hmac } => Some(State::CbcHmac {
                kind: Kind::Cbc(size),
                key: key(),
                mac: Mac::new(hmac, &keys.auth),
            }),
            Suite::NullHmac { hmac } => Some(State::NullHmac { mac: Mac::new(hmac, &keys.auth) }),
        }
    }
}
