//! What a session holds: expanded keys, both directions.

use crypto::{EngineError, Hmac, Keys, Suite};
use zeroize::Zeroizing;

use crate::manager::Manager;
use crate::slab::Slab;

/// The keyed state of one SA.
pub(crate) enum State {
    /// AES-GCM.
    Gcm(GcmKey),
    /// ChaCha20-Poly1305.
    ChaCha(ChaChaKey),
    /// AES-CBC with an HMAC.
    CbcHmac(CbcKey, HmacKey),
    /// An HMAC alone.
    NullHmac(HmacKey),
}

/// AES-GCM's expanded key.
pub(crate) struct GcmKey {
    /// Length of the key before expansion, in bytes.
    pub(crate) key_len: u32,
    pub(crate) keys: Slab,
    pub(crate) salt: Zeroizing<[u8; 4]>,
}

/// ChaCha20-Poly1305's key, 32 bytes.
pub(crate) struct ChaChaKey {
    pub(crate) keys: Slab,
    pub(crate) salt: Zeroizing<[u8; 4]>,
}

/// AES key schedules: encryption from line 0, decryption from line 4.
pub(crate) struct CbcKey {
    /// Length of the key before expansion, in bytes.
    pub(crate) key_len: u32,
    pub(crate) keys: Slab,
}

/// HMAC's hash states: inner in line 0, outer in line 1.
pub(crate) struct HmacKey {
    pub(crate) hmac: Hmac,
    pub(crate) keys: Slab,
}

impl State {
    /// Expands the keys of a suite.
    ///
    /// # Errors
    /// When a key has the wrong length or the library fails.
    pub(crate) fn new(
        manager: &mut Manager,
        suite: Suite,
        keys: &Keys,
    ) -> Result<State, EngineError> {
        let wrong = || EngineError::KeyLength { suite };
        if !keys.fit(suite) {
            return Err(wrong());
        }
        let salt = || match <[u8; 4]>::try_from(keys.salt.as_slice()) {
            Ok(salt) => Ok(Zeroizing::new(salt)),
            Err(_) => Err(wrong()),
        };
        let mac = |manager: &mut Manager, hmac| -> Result<HmacKey, EngineError> {
            Ok(HmacKey { hmac, keys: manager.hmac_keys(hmac, &keys.auth)? })
        };
        Ok(match suite {
            Suite::AesGcm { key, .. } => State::Gcm(GcmKey {
                key_len: key.len_bytes() as u32,
                keys: manager.gcm_keys(&keys.cipher)?,
                salt: salt()?,
            }),
            Suite::ChaCha20Poly1305 => {
                State::ChaCha(ChaChaKey { keys: Slab::from_bytes(&keys.cipher), salt: salt()? })
            }
            Suite::AesCbcHmac { key, hmac } => {
                let cbc = CbcKey {
                    key_len: key.len_bytes() as u32,
                    keys: manager.aes_keys(&keys.cipher)?,
                };
                State::CbcHmac(cbc, mac(manager, hmac)?)
            }
            Suite::NullHmac { hmac } => State::NullHmac(mac(manager, hmac)?),
        })
    }
}
