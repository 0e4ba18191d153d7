//! Integrity algorithms of their own: keyed hashes and block cipher MACs, each with its truncation.

/// An integrity algorithm with its truncation, for ESP beside a cipher, or alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integrity {
    /// HMAC-SHA1-96 (RFC 2404).
    Sha1_96,
    /// HMAC-SHA1 with its whole output, 160 bits (RFC 4595).
    Sha1_160,
    /// HMAC-SHA2-256 with 96 bits: an early draft of RFC 4868, and Linux's default for `hmac(sha256)`.
    Sha256_96,
    /// HMAC-SHA2-256-128 (RFC 4868).
    Sha256_128,
    /// HMAC-SHA2-384-192 (RFC 4868).
    Sha384_192,
    /// HMAC-SHA2-512-256 (RFC 4868).
    Sha512_256,
    /// HMAC-MD5-96 (RFC 2403).
    Md5_96,
    /// HMAC-MD5 with its whole output, 128 bits (RFC 4595).
    Md5_128,
    /// AES-XCBC-MAC-96 (RFC 3566).
    AesXcbc96,
    /// AES-CMAC-96 (RFC 4494).
    AesCmac96,
    /// HMAC-SM3 (GB/T 32905) with 96 bits.
    Sm3_96,
    /// HMAC-SM3 with 128 bits.
    Sm3_128,
    /// HMAC-SM3 with its whole output, 256 bits: Linux's default for `hmac(sm3)`.
    Sm3_256,
}

impl Integrity {
    /// Every one of them, in the order of their numbers.
    pub const ALL: [Integrity; 13] = [
        Integrity::Sha1_96,
        Integrity::Sha1_160,
        Integrity::Sha256_96,
        Integrity::Sha256_128,
        Integrity::Sha384_192,
        Integrity::Sha512_256,
        Integrity::Md5_96,
        Integrity::Md5_128,
        Integrity::AesXcbc96,
        Integrity::AesCmac96,
        Integrity::Sm3_96,
        Integrity::Sm3_128,
        Integrity::Sm3_256,
    ];

    /// The key's length in bytes that the RFC asks for: the hash's output length, or the cipher's key.
    pub const fn key_len_bytes(self) -> usize {
        match self {
            Integrity::Sha1_96 | Integrity::Sha1_160 => 20,
            Integrity::Sha256_96
            | Integrity::Sha256_128
            | Integrity::Sm3_96
            | Integrity::Sm3_128
            | Integrity::Sm3_256 => 32,
            Integrity::Sha384_192 => 48,
            Integrity::Sha512_256 => 64,
            Integrity::Md5_96
            | Integrity::Md5_128
            | Integrity::AesXcbc96
            | Integrity::AesCmac96 => 16,
        }
    }

    /// True if a key of this many bytes is taken.
    ///
    /// HMAC keys of other lengths than the RFC's are legal in the kernel's interface (`ip xfrm` takes
    /// any): 1 to 128 bytes. The block cipher MACs have keys of 128 bits only (RFC 3566 §4.1, RFC 4494 §2).
    pub const fn takes_key_len(self, len_bytes: usize) -> bool {
        match self {
            Integrity::AesXcbc96 | Integrity::AesCmac96 => len_bytes == self.key_len_bytes(),
            _ => len_bytes >= 1 && len_bytes <= 128,
        }
    }

    /// The truncated output's length in bytes.
    pub const fn icv_len_bytes(self) -> usize {
        match self {
            Integrity::Sha1_96
            | Integrity::Sha256_96
            | Integrity::Md5_96
            | Integrity::AesXcbc96
            | Integrity::AesCmac96
            | Integrity::Sm3_96 => 12,
            Integrity::Sha256_128 | Integrity::Md5_128 | Integrity::Sm3_128 => 16,
            Integrity::Sha1_160 => 20,
            Integrity::Sha384_192 => 24,
            Integrity::Sha512_256 | Integrity::Sm3_256 => 32,
        }
    }

    /// The name as strongSwan's proposals spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Integrity::Sha1_96 => "sha1",
            Integrity::Sha1_160 => "sha1_160",
            Integrity::Sha256_96 => "sha256_96",
            Integrity::Sha256_128 => "sha256",
            Integrity::Sha384_192 => "sha384",
            Integrity::Sha512_256 => "sha512",
            Integrity::Md5_96 => "md5",
            Integrity::Md5_128 => "md5_128",
            Integrity::AesXcbc96 => "aesxcbc",
            Integrity::AesCmac96 => "aescmac",
            Integrity::Sm3_96 => "sm3_96",
            Integrity::Sm3_128 => "sm3_128",
            Integrity::Sm3_256 => "sm3",
        }
    }

    /// The name of what is broken or too short in it, if something is: MD5 (RFC 8221 §6: MUST NOT).
    pub const fn weakness(self) -> Option<&'static str> {
        match self {
            Integrity::Md5_96 | Integrity::Md5_128 => Some("MD5"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_fits_its_own_key() {
        for (place, integrity) in Integrity::ALL.into_iter().enumerate() {
            assert_eq!(integrity as usize, place);
            assert!(integrity.takes_key_len(integrity.key_len_bytes()));
            assert!(!integrity.takes_key_len(0) && !integrity.takes_key_len(129));
        }
        assert!(Integrity::Sha1_96.takes_key_len(1));
        assert!(!Integrity::AesCmac96.takes_key_len(24));
    }
}
