//! Ciphers of their own, which need an integrity algorithm beside them, and the sizes of AES.

use core::fmt;

/// An AES key's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AesKey {
    /// AES-128: a key of 16 bytes.
    Aes128,
    /// AES-192: a key of 24 bytes.
    Aes192,
    /// AES-256: a key of 32 bytes.
    Aes256,
}

impl AesKey {
    /// All key sizes, ascending.
    pub const ALL: [AesKey; 3] = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];

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

/// The length of a combined mode's integrity check value (RFC 4106 §6, RFC 4309 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcvLen {
    /// A truncated tag of 8 bytes.
    Icv8,
    /// A truncated tag of 12 bytes.
    Icv12,
    /// The whole tag of 16 bytes.
    Icv16,
}

impl IcvLen {
    /// All lengths, ascending.
    pub const ALL: [IcvLen; 3] = [IcvLen::Icv8, IcvLen::Icv12, IcvLen::Icv16];

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

/// A cipher that authenticates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// No confidentiality (RFC 2410).
    Null,
    /// AES-CBC (RFC 3602).
    AesCbc(AesKey),
    /// AES-CTR (RFC 3686).
    AesCtr(AesKey),
    /// Camellia-CBC (RFC 4312); its keys have AES's sizes.
    CamelliaCbc(AesKey),
    /// 3DES-CBC (RFC 2451).
    TripleDesCbc,
    /// DES-CBC (RFC 2405).
    DesCbc,
    /// SM4-CBC (GB/T 32907), used as AES-CBC is.
    Sm4Cbc,
    /// SM4-CTR, used as AES-CTR is.
    Sm4Ctr,
}

impl Cipher {
    /// How many there are.
    pub const COUNT: usize = 1 + 3 * 3 + 2 + 2;

    /// The place in [`Cipher::all`].
    #[inline]
    pub const fn number(self) -> usize {
        match self {
            Cipher::Null => 0,
            Cipher::AesCbc(key) => 1 + key as usize,
            Cipher::AesCtr(key) => 4 + key as usize,
            Cipher::CamelliaCbc(key) => 7 + key as usize,
            Cipher::TripleDesCbc => 10,
            Cipher::DesCbc => 11,
            Cipher::Sm4Cbc => 12,
            Cipher::Sm4Ctr => 13,
        }
    }

    /// Every one, in the order of [`Cipher::number`].
    pub fn all() -> impl Iterator<Item = Cipher> {
        let sizes = |of: fn(AesKey) -> Cipher| AesKey::ALL.into_iter().map(of);
        [Cipher::Null]
            .into_iter()
            .chain(sizes(Cipher::AesCbc))
            .chain(sizes(Cipher::AesCtr))
            .chain(sizes(Cipher::CamelliaCbc))
            .chain([Cipher::TripleDesCbc, Cipher::DesCbc, Cipher::Sm4Cbc, Cipher::Sm4Ctr])
    }

    /// Length in bytes of the key.
    pub const fn key_len_bytes(self) -> usize {
        match self {
            Cipher::Null => 0,
            Cipher::AesCbc(key) | Cipher::AesCtr(key) | Cipher::CamelliaCbc(key) => key.len_bytes(),
            Cipher::TripleDesCbc => 24,
            Cipher::DesCbc => 8,
            Cipher::Sm4Cbc | Cipher::Sm4Ctr => 16,
        }
    }

    /// Length in bytes of the salt that comes from the key exchange: the nonce of RFC 3686 §4.
    pub const fn salt_len_bytes(self) -> usize {
        match self {
            Cipher::AesCtr(_) | Cipher::Sm4Ctr => 4,
            _ => 0,
        }
    }

    /// Length in bytes of the IV that each packet carries.
    pub const fn iv_len_bytes(self) -> usize {
        match self {
            Cipher::Null => 0,
            Cipher::AesCbc(_) | Cipher::CamelliaCbc(_) | Cipher::Sm4Cbc => 16,
            Cipher::AesCtr(_) | Cipher::Sm4Ctr | Cipher::TripleDesCbc | Cipher::DesCbc => 8,
        }
    }

    /// The multiple, in bytes, that the text must have: the block of a mode that chains blocks, else 1.
    pub const fn block_bytes(self) -> usize {
        match self {
            Cipher::Null | Cipher::AesCtr(_) | Cipher::Sm4Ctr => 1,
            Cipher::AesCbc(_) | Cipher::CamelliaCbc(_) | Cipher::Sm4Cbc => 16,
            Cipher::TripleDesCbc | Cipher::DesCbc => 8,
        }
    }

    /// The name of what is broken or too short in it, if something is: DES and 3DES (RFC 8221 §5: MUST NOT
    /// and SHOULD NOT).
    pub const fn weakness(self) -> Option<&'static str> {
        match self {
            Cipher::DesCbc => Some("DES"),
            Cipher::TripleDesCbc => Some("3DES"),
            _ => None,
        }
    }
}

impl fmt::Display for Cipher {
    /// The name as strongSwan's proposals spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |key: AesKey| key.len_bytes() * 8;
        match *self {
            Cipher::Null => f.write_str("null"),
            Cipher::AesCbc(key) => write!(f, "aes{}", bits(key)),
            Cipher::AesCtr(key) => write!(f, "aes{}ctr", bits(key)),
            Cipher::CamelliaCbc(key) => write!(f, "camellia{}", bits(key)),
            Cipher::TripleDesCbc => f.write_str("3des"),
            Cipher::DesCbc => f.write_str("des"),
            Cipher::Sm4Cbc => f.write_str("sm4"),
            Cipher::Sm4Ctr => f.write_str("sm4ctr"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_once() {
        let all: Vec<Cipher> = Cipher::all().collect();
        assert_eq!(all.len(), Cipher::COUNT);
        assert!(all.iter().enumerate().all(|(place, cipher)| cipher.number() == place));
    }

    #[test]
    fn a_block_is_no_longer_than_the_iv() {
        for cipher in Cipher::all().filter(|cipher| cipher.block_bytes() > 1) {
            assert_eq!(cipher.block_bytes(), cipher.iv_len_bytes(), "{cipher}");
        }
    }
}
