//! The algorithm suites of ESP that culvert knows.

use core::fmt;

use crate::cipher::{AesKey, Cipher, IcvLen};
use crate::integrity::Integrity;

/// One combination of confidentiality and integrity for ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-GCM (RFC 4106).
    AesGcm {
        /// Size of the AES key.
        key: AesKey,
        /// Length of the ICV.
        icv: IcvLen,
    },
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-CCM (RFC 4309).
    AesCcm {
        /// Size of the AES key.
        key: AesKey,
        /// Length of the ICV.
        icv: IcvLen,
    },
    /// AES-GMAC (RFC 4543): integrity alone, by AES-GCM over additional data.
    AesGmac {
        /// Size of the AES key.
        key: AesKey,
    },
    /// SM4-GCM (RFC 8998), used as AES-GCM is.
    Sm4Gcm {
        /// Length of the ICV.
        icv: IcvLen,
    },
    /// A cipher and an integrity algorithm, encrypt-then-authenticate as ESP orders.
    Separate {
        /// The cipher, or none.
        cipher: Cipher,
        /// The integrity algorithm.
        integrity: Integrity,
    },
    /// No algorithm, of protocols that neither encrypt nor authenticate (IPComp). No engine has it.
    None,
}

/// The suites before those with a cipher and an integrity algorithm.
const COMBINED_COUNT: usize = 9 + 1 + 9 + 3 + 3;

impl Suite {
    /// NULL encryption with this integrity algorithm (RFC 2410).
    pub const fn integrity_only(integrity: Integrity) -> Suite {
        Suite::Separate { cipher: Cipher::Null, integrity }
    }

    /// The integrity algorithm, where it is one of its own.
    pub const fn integrity(self) -> Option<Integrity> {
        match self {
            Suite::Separate { integrity, .. } => Some(integrity),
            _ => None,
        }
    }

    /// Length in bytes of the cipher key, without salt.
    pub const fn cipher_key_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { key, .. } | Suite::AesCcm { key, .. } | Suite::AesGmac { key } => {
                key.len_bytes()
            }
            Suite::ChaCha20Poly1305 => 32,
            Suite::Sm4Gcm { .. } => 16,
            Suite::Separate { cipher, .. } => cipher.key_len_bytes(),
            Suite::None => 0,
        }
    }

    /// Length in bytes of the salt that comes from the key exchange, not from the packet.
    pub const fn salt_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { .. }
            | Suite::ChaCha20Poly1305
            | Suite::AesGmac { .. }
            | Suite::Sm4Gcm { .. } => 4,
            Suite::AesCcm { .. } => 3,
            Suite::Separate { cipher, .. } => cipher.salt_len_bytes(),
            Suite::None => 0,
        }
    }

    /// Length in bytes of the integrity key that the RFC asks for.
    pub const fn auth_key_len_bytes(self) -> usize {
        match self {
            Suite::Separate { integrity, .. } => integrity.key_len_bytes(),
            _ => 0,
        }
    }

    /// Length in bytes of the IV that each packet carries.
    pub const fn iv_len_bytes(self) -> usize {
        match self {
            Suite::Separate { cipher, .. } => cipher.iv_len_bytes(),
            Suite::None => 0,
            _ => 8,
        }
    }

    /// Length in bytes of the integrity check value.
    pub const fn icv_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { icv, .. } | Suite::AesCcm { icv, .. } | Suite::Sm4Gcm { icv } => {
                icv.len_bytes()
            }
            Suite::ChaCha20Poly1305 | Suite::AesGmac { .. } => 16,
            Suite::Separate { integrity, .. } => integrity.icv_len_bytes(),
            Suite::None => 0,
        }
    }

    /// The multiple, in bytes, that a text must have: a cipher's block, or 1.
    pub const fn block_bytes(self) -> usize {
        match self {
            Suite::Separate { cipher, .. } => cipher.block_bytes(),
            _ => 1,
        }
    }

    /// The multiple, in bytes, that payload plus trailer must have: the cipher's block or 4
    /// (RFC 4303 §2.4).
    pub const fn align_bytes(self) -> usize {
        match self.block_bytes() {
            1 => 4,
            block => block,
        }
    }

    /// True if the IV must be unpredictable (CBC) rather than merely unique (counter modes).
    pub const fn needs_random_iv(self) -> bool {
        self.block_bytes() != 1
    }

    /// True if each packet carries the IV of a counter mode, which makes the nonce together with
    /// the salt of the key exchange: under one key no two packets may have the same (RFC 4106 §3.1,
    /// RFC 7634 §2, RFC 3686 §3.1, RFC 4309 §3.1, RFC 4543 §3.1).
    pub const fn has_counter_iv(self) -> bool {
        self.iv_len_bytes() != 0 && !self.needs_random_iv()
    }

    /// True if the text is encrypted.
    pub const fn is_confidential(self) -> bool {
        !matches!(
            self,
            Suite::AesGmac { .. } | Suite::Separate { cipher: Cipher::Null, .. } | Suite::None
        )
    }

    /// The names of what is broken or too short in it, if something is: `DES`, `3DES`, `MD5`. Such a suite is
    /// for peers that have nothing better, and only where the operator says so.
    pub fn weaknesses(self) -> impl Iterator<Item = &'static str> {
        let (cipher, integrity) = match self {
            Suite::Separate { cipher, integrity } => (cipher.weakness(), integrity.weakness()),
            _ => (None, None),
        };
        cipher.into_iter().chain(integrity)
    }

    /// How many suites there are, beside that of no algorithm.
    pub const COUNT: usize = COMBINED_COUNT + Cipher::COUNT * Integrity::ALL.len();

    /// The suite's place in [`Suite::all`], below [`Suite::COUNT`]; that itself for no algorithm.
    #[inline]
    pub const fn number(self) -> usize {
        match self {
            Suite::AesGcm { key, icv } => key as usize * 3 + icv as usize,
            Suite::ChaCha20Poly1305 => 9,
            Suite::AesCcm { key, icv } => 10 + key as usize * 3 + icv as usize,
            Suite::AesGmac { key } => 19 + key as usize,
            Suite::Sm4Gcm { icv } => 22 + icv as usize,
            Suite::Separate { cipher, integrity } => {
                COMBINED_COUNT + cipher.number() * Integrity::ALL.len() + integrity as usize
            }
            Suite::None => Suite::COUNT,
        }
    }

    /// Every suite with an algorithm, in the order of [`Suite::number`].
    pub fn all() -> impl Iterator<Item = Suite> {
        let with_icv = |of: fn(AesKey, IcvLen) -> Suite| {
            AesKey::ALL.into_iter().flat_map(move |key| IcvLen::ALL.map(|icv| of(key, icv)))
        };
        let gmac = AesKey::ALL.into_iter().map(|key| Suite::AesGmac { key });
        let separate = Cipher::all().flat_map(|cipher| {
            Integrity::ALL.map(|integrity| Suite::Separate { cipher, integrity })
        });
        with_icv(|key, icv| Suite::AesGcm { key, icv })
            .chain([Suite::ChaCha20Poly1305])
            .chain(with_icv(|key, icv| Suite::AesCcm { key, icv }))
            .chain(gmac)
            .chain(IcvLen::ALL.map(|icv| Suite::Sm4Gcm { icv }))
            .chain(separate)
    }
}

impl fmt::Display for Suite {
    /// The name as strongSwan's proposals spell it, for instance `aes128gcm16`, `aes256-sha256`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |k: AesKey| k.len_bytes() * 8;
        match *self {
            Suite::AesGcm { key, icv } => write!(f, "aes{}gcm{}", bits(key), icv.len_bytes()),
            Suite::ChaCha20Poly1305 => f.write_str("chacha20poly1305"),
            Suite::AesCcm { key, icv } => write!(f, "aes{}ccm{}", bits(key), icv.len_bytes()),
            Suite::AesGmac { key } => write!(f, "aes{}gmac", bits(key)),
            Suite::Sm4Gcm { icv } => write!(f, "sm4gcm{}", icv.len_bytes()),
            Suite::Separate { cipher, integrity } => write!(f, "{cipher}-{}", integrity.name()),
            Suite::None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_once() {
        let all: Vec<_> = Suite::all().collect();
        assert_eq!(all.len(), Suite::COUNT);
        assert!(all.iter().enumerate().all(|(place, suite)| suite.number() == place));
        let names: std::collections::HashSet<_> = all.iter().map(Suite::to_string).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn weak_ones_are_named() {
        let weak = |name: &str| {
            let suite = Suite::all().find(|suite| suite.to_string() == name).unwrap();
            suite.weaknesses().collect::<Vec<_>>()
        };
        assert_eq!(weak("3des-sha1"), ["3DES"]);
        assert_eq!(weak("des-md5_128"), ["DES", "MD5"]);
        assert_eq!(weak("null-md5"), ["MD5"]);
        assert!(weak("aes128-sha1").is_empty() && weak("aes128gcm8").is_empty());
        assert_eq!(
            Suite::all().filter(|s| s.weaknesses().next().is_some()).count(),
            2 * 13 + 2 * 12
        );
    }
}
