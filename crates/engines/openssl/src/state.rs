//! State of a session.

use crypto::{Cipher, Keys, Suite};
use zeroize::Zeroizing;

use crate::aead::{Aead, Mode};
use crate::cipher::Kind;
use crate::mac::{Mac, Tools};
use crate::separate::{CipherKey, Separate};

/// The keyed state of one SA.
pub(crate) enum State {
    Aead(Aead),
    Separate(Box<Separate>),
}

impl State {
    /// Keys a suite; `None` if the keys do not fit, or if OpenSSL fails.
    pub(crate) fn new(suite: Suite, keys: &Keys) -> Option<State> {
        if !keys.fit(suite) {
            return None;
        }
        let (cipher, integrity) = match suite {
            Suite::Separate { cipher, integrity } => (cipher, integrity),
            _ => {
                let (mode, kind) = combined(suite)?;
                let key = Zeroizing::new(keys.cipher.clone());
                let salt = Zeroizing::new(keys.salt.clone());
                return Some(State::Aead(Aead { mode, kind, key, salt }));
            }
        };
        let mac = Mac::new(integrity, &keys.auth)?;
        let cipher = kind(cipher).map(|kind| CipherKey {
            kind,
            key: Zeroizing::new(match cipher {
                // 3DES with the same key three times is DES.
                Cipher::DesCbc => keys.cipher.repeat(3),
                _ => keys.cipher.clone(),
            }),
            nonce: Zeroizing::new(keys.salt.clone()),
            block_len: cipher.block_bytes(),
        });
        Some(State::Separate(Box::new(Separate { cipher, mac })))
    }
}

/// True if OpenSSL has all that a suite needs.
pub(crate) fn supports(tools: &Tools, suite: Suite) -> bool {
    match suite {
        Suite::Separate { cipher, integrity } => {
            kind(cipher).is_none_or(|kind| tools.contexts.has(kind)) && tools.has(integrity)
        }
        _ => combined(suite).is_some_and(|(_, kind)| tools.contexts.has(kind)),
    }
}

/// How a combined mode is run.
fn combined(suite: Suite) -> Option<(Mode, Kind)> {
    match suite {
        Suite::AesGcm { key, .. } => Some((Mode::Stream, Kind::Gcm(key))),
        Suite::ChaCha20Poly1305 => Some((Mode::Stream, Kind::ChaCha20Poly1305)),
        Suite::AesCcm { key, icv } => Some((Mode::Ccm, Kind::Ccm(key, icv))),
        Suite::AesGmac { key } => Some((Mode::Gmac, Kind::Gcm(key))),
        Suite::Sm4Gcm { .. } => Some((Mode::Stream, Kind::Sm4Gcm)),
        Suite::Separate { .. } | Suite::None => None,
    }
}

/// OpenSSL's cipher; `None` for NULL.
fn kind(cipher: Cipher) -> Option<Kind> {
    match cipher {
        Cipher::Null => None,
        Cipher::AesCbc(key) => Some(Kind::Cbc(key)),
        Cipher::AesCtr(key) => Some(Kind::Ctr(key)),
        Cipher::CamelliaCbc(key) => Some(Kind::Camellia(key)),
        Cipher::TripleDesCbc | Cipher::DesCbc => Some(Kind::TripleDes),
        Cipher::Sm4Cbc => Some(Kind::Sm4Cbc),
        Cipher::Sm4Ctr => Some(Kind::Sm4Ctr),
    }
}
