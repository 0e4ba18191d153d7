//! The algorithm suites of ESP that culvert knows.

use core::fmt;

/// An AES key's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AesKey {
    /// 128-bit key.
    Aes128,
    /// 192-bit key.
    Aes192,
    /// 256-bit key.
    Aes256,
}

impl AesKey {
    /// The key's length in bytes.
    pub const fn len_bytes(self) -> usize {
        match self {
            AesKey::Aes128 => 16,
            AesKey::Aes192 => 24,
            AesKey::Aes256 => 32,
        }
    }

    /// The size that has this many bytes.
    pub const fn from_len_bytes(len: usize) -> Option<Self> {
        match len {
            16 => Some(AesKey::Aes128),
            24 => Some(AesKey::Aes192),
            32 => Some(AesKey::Aes256),
            _ => None,
        }
    }
}

/// The length of AES-GCM's integrity check value (RFC 4106 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcvLen {
    /// 8 bytes.
    Icv8,
    /// 12 bytes.
    Icv12,
    /// 16 bytes.
    Icv16,
}

impl IcvLen {
    /// The length in bytes.
    pub const fn len_bytes(self) -> usize {
        match self {
            IcvLen::Icv8 => 8,
            IcvLen::Icv12 => 12,
            IcvLen::Icv16 => 16,
        }
    }

    /// The length that has this many bytes.
    pub const fn from_len_bytes(len: usize) -> Option<Self> {
        match len {
            8 => Some(IcvLen::Icv8),
            12 => Some(IcvLen::Icv12),
            16 => Some(IcvLen::Icv16),
            _ => None,
        }
    }
}

/// A keyed hash with its truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hmac {
    /// HMAC-SHA1-96 (RFC 2404).
    Sha1_96,
    /// HMAC-SHA2-256-128 (RFC 4868).
    Sha256_128,
    /// HMAC-SHA2-384-192 (RFC 4868).
    Sha384_192,
    /// HMAC-SHA2-512-256 (RFC 4868).
    Sha512_256,
}

impl Hmac {
    /// Every one of them.
    pub const ALL: [Hmac; 4] =
        [Hmac::Sha1_96, Hmac::Sha256_128, Hmac::Sha384_192, Hmac::Sha512_256];

    /// The key's length in bytes that the RFC asks for: the hash's output length.
    pub const fn key_len_bytes(self) -> usize {
        match self {
            Hmac::Sha1_96 => 20,
            Hmac::Sha256_128 => 32,
            Hmac::Sha384_192 => 48,
            Hmac::Sha512_256 => 64,
        }
    }

    /// The truncated output's length in bytes.
    pub const fn icv_len_bytes(self) -> usize {
        match self {
            Hmac::Sha1_96 => 12,
            Hmac::Sha256_128 => 16,
            Hmac::Sha384_192 => 24,
            Hmac::Sha512_256 => 32,
        }
    }
}

/// One combination of confidentiality and integrity for ESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-GCM (RFC 4106).
    AesGcm {
        /// Key size.
        key: AesKey,
        /// ICV length.
        icv: IcvLen,
    },
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-CBC (RFC 3602) with an HMAC, encrypt-then-authenticate as ESP orders.
    AesCbcHmac {
        /// Key size.
        key: AesKey,
        /// Integrity algorithm.
        hmac: Hmac,
    },
    /// No confidentiality (RFC 2410), with an HMAC.
    NullHmac {
        /// Integrity algorithm.
        hmac: Hmac,
    },
}

impl Suite {
    /// Length in bytes of the cipher key, without salt.
    pub const fn cipher_key_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { key, .. } | Suite::AesCbcHmac { key, .. } => key.len_bytes(),
            Suite::ChaCha20Poly1305 => 32,
            Suite::NullHmac { .. } => 0,
        }
    }

    /// Length in bytes of the salt that comes from the key exchange, not from the packet.
    pub const fn salt_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => 4,
            Suite::AesCbcHmac { .. } | Suite::NullHmac { .. } => 0,
        }
    }

    /// Length in bytes of the integrity key.
    pub const fn auth_key_len_bytes(self) -> usize {
        match self {
            Suite::AesCbcHmac { hmac, .. } | Suite::NullHmac { hmac } => hmac.key_len_bytes(),
            Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => 0,
        }
    }

    /// Length in bytes of the IV that each packet carries.
    pub const fn iv_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => 8,
            Suite::AesCbcHmac { .. } => 16,
            Suite::NullHmac { .. } => 0,
        }
    }

    /// Length in bytes of the integrity check value.
    pub const fn icv_len_bytes(self) -> usize {
        match self {
            Suite::AesGcm { icv, .. } => icv.len_bytes(),
            Suite::ChaCha20Poly1305 => 16,
            Suite::AesCbcHmac { hmac, .. } | Suite::NullHmac { hmac } => hmac.icv_len_bytes(),
        }
    }

    /// The multiple, in bytes, that payload plus trailer must have: the cipher's block or 4
    /// (RFC 4303 §2.4).
    pub const fn align_bytes(self) -> usize {
        match self {
            Suite::AesCbcHmac { .. } => 16,
            _ => 4,
        }
    }

    /// Whether the IV must be unpredictable (CBC) rather than merely unique (counter modes).
    pub const fn needs_random_iv(self) -> bool {
        matches!(self, Suite::AesCbcHmac { .. })
    }

    /// How many suites there are.
    pub const COUNT: usize = 9 + 1 + 12 + 4;

    /// The suite's place in [`Suite::all`], below [`Suite::COUNT`].
    #[inline]
    pub const fn number(self) -> usize {
        match self {
            Suite::AesGcm { key, icv } => key as usize * 3 + icv as usize,
            Suite::ChaCha20Poly1305 => 9,
            Suite::AesCbcHmac { key, hmac } => 10 + key as usize * 4 + hmac as usize,
            Suite::NullHmac { hmac } => 22 + hmac as usize,
        }
    }

    /// Every suite, in the order of [`Suite::number`].
    pub fn all() -> impl Iterator<Item = Suite> {
        const KEYS: [AesKey; 3] = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];
        const ICVS: [IcvLen; 3] = [IcvLen::Icv8, IcvLen::Icv12, IcvLen::Icv16];
        let gcm = KEYS
            .into_iter()
            .flat_map(|key| ICVS.into_iter().map(move |icv| Suite::AesGcm { key, icv }));
        let cbc = KEYS
            .into_iter()
            .flat_map(|key| Hmac::ALL.into_iter().map(move |hmac| Suite::AesCbcHmac { key, hmac }));
        let null = Hmac::ALL.into_iter().map(|hmac| Suite::NullHmac { hmac });
        gcm.chain([Suite::ChaCha20Poly1305]).chain(cbc).chain(null)
    }
}

impl fmt::Display for Suite {
    /// The name as strongSwan's proposals spell it, for instance `aes128gcm16`, `aes256-sha256`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |k: AesKey| k.len_bytes() * 8;
        let auth = |h: Hmac| match h {
            Hmac::Sha1_96 => "sha1",
            Hmac::Sha256_128 => "sha256",
            Hmac::Sha384_192 => "sha384",
            Hmac::Sha512_256 => "sha512",
        };
        match *self {
            Suite::AesGcm { key, icv } => write!(f, "aes{}gcm{}", bits(key), icv.len_bytes()),
            Suite::ChaCha20Poly1305 => f.write_str("chacha20poly1305"),
            Suite::AesCbcHmac { key, hmac } => write!(f, "aes{}-{}", bits(key), auth(hmac)),
            Suite::NullHmac { hmac } => write!(f, "null-{}", auth(hmac)),
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
}
