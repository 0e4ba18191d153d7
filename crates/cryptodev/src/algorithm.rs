//! Algorithm suites in DPDK's words.

use crypto::{Cipher, Integrity, Suite};

use crate::sys::{
    AEAD_CCM, AEAD_CHACHA, AEAD_GCM, AUTH_CMAC, AUTH_GMAC, AUTH_MD5, AUTH_SHA1, AUTH_SHA256,
    AUTH_SHA384, AUTH_SHA512, AUTH_XCBC, CIPHER_3DES_CBC, CIPHER_AES_CBC, CIPHER_AES_CTR,
    CIPHER_DES_CBC, KIND_AEAD, KIND_AUTH, KIND_CHAIN, Transform,
};

/// Lengths of the additional data of a combined mode: without and with the high half of the number. A session of DPDK
/// has one of them.
pub const AAD_LENS: [u8; 2] = [8, 12];

/// A suite with an integrity key of `auth_key_len` bytes as a transform; `None` for what DPDK has no word for. A
/// combined mode's additional data is as long as the first of [`AAD_LENS`].
pub fn transform(suite: Suite, auth_key_len: usize) -> Option<Transform> {
    let whole = Transform {
        kind: KIND_AEAD,
        cipher: 0,
        auth: 0,
        cipher_key_len: suite.cipher_key_len_bytes() as u8,
        auth_key_len: u8::try_from(auth_key_len).ok()?,
        iv_len: 12,
        icv_len: suite.icv_len_bytes() as u8,
        aad_len: AAD_LENS[0],
    };
    match suite {
        Suite::AesGcm { .. } => Some(Transform { cipher: AEAD_GCM, ..whole }),
        Suite::ChaCha20Poly1305 => Some(Transform { cipher: AEAD_CHACHA, ..whole }),
        // The nonce: salt and IV (RFC 4309 §4).
        Suite::AesCcm { .. } => Some(Transform { cipher: AEAD_CCM, iv_len: 11, ..whole }),
        // A MAC for DPDK, whose key is the cipher's.
        Suite::AesGmac { .. } => Some(Transform {
            kind: KIND_AUTH,
            auth: AUTH_GMAC,
            cipher_key_len: 0,
            auth_key_len: whole.cipher_key_len,
            aad_len: 0,
            ..whole
        }),
        Suite::Separate { cipher, integrity } => {
            let auth = auth(integrity)?;
            let Some((cipher, iv_len)) = cipher_and_iv(cipher)? else {
                return Some(Transform { kind: KIND_AUTH, auth, iv_len: 0, aad_len: 0, ..whole });
            };
            Some(Transform { kind: KIND_CHAIN, cipher, auth, iv_len, aad_len: 0, ..whole })
        }
        Suite::Sm4Gcm { .. } | Suite::None => None,
    }
}

/// The cipher and the length of what it begins with; none of NULL.
fn cipher_and_iv(cipher: Cipher) -> Option<Option<(u8, u8)>> {
    match cipher {
        Cipher::Null => Some(None),
        Cipher::AesCbc(_) => Some(Some((CIPHER_AES_CBC, 16))),
        // The first counter block (RFC 3686 §4).
        Cipher::AesCtr(_) => Some(Some((CIPHER_AES_CTR, 16))),
        Cipher::TripleDesCbc => Some(Some((CIPHER_3DES_CBC, 8))),
        Cipher::DesCbc => Some(Some((CIPHER_DES_CBC, 8))),
        Cipher::CamelliaCbc(_) | Cipher::Sm4Cbc | Cipher::Sm4Ctr => None,
    }
}

const fn auth(integrity: Integrity) -> Option<u8> {
    Some(match integrity {
        Integrity::Md5_96 | Integrity::Md5_128 => AUTH_MD5,
        Integrity::Sha1_96 | Integrity::Sha1_160 => AUTH_SHA1,
        Integrity::Sha256_96 | Integrity::Sha256_128 => AUTH_SHA256,
        Integrity::Sha384_192 => AUTH_SHA384,
        Integrity::Sha512_256 => AUTH_SHA512,
        Integrity::AesXcbc96 => AUTH_XCBC,
        Integrity::AesCmac96 => AUTH_CMAC,
        Integrity::Sm3_96 | Integrity::Sm3_128 | Integrity::Sm3_256 => return None,
    })
}

#[cfg(test)]
mod tests {
    use crypto::AesKey;

    use super::*;

    fn named(name: &str) -> Suite {
        Suite::all().find(|suite| suite.to_string() == name).unwrap()
    }

    #[test]
    fn all_but_camellia_sm4_and_sm3_have_a_word() {
        for suite in Suite::all() {
            let name = suite.to_string();
            let has_none = ["camellia", "sm4", "sm3"].iter().any(|word| name.contains(word));
            let found = transform(suite, suite.auth_key_len_bytes());
            assert_eq!(found.is_none(), has_none, "{suite}");
        }
    }

    #[test]
    fn lengths_are_the_drivers() {
        let of = |name| transform(named(name), named(name).auth_key_len_bytes()).unwrap();
        let chain = of("aes256-sha256");
        assert_eq!((chain.kind, chain.cipher_key_len, chain.auth_key_len), (KIND_CHAIN, 32, 32));
        assert_eq!((chain.iv_len, chain.icv_len, chain.aad_len), (16, 16, 0));
        let ctr = of("aes128ctr-sha1");
        assert_eq!((ctr.cipher, ctr.iv_len, ctr.icv_len), (CIPHER_AES_CTR, 16, 12));
        let gmac = transform(Suite::AesGmac { key: AesKey::Aes192 }, 0).unwrap();
        assert_eq!((gmac.kind, gmac.cipher_key_len, gmac.auth_key_len), (KIND_AUTH, 0, 24));
        assert_eq!(of("aes128ccm8").iv_len, 11);
        assert_eq!(transform(named("null-sha512"), 300), None);
    }
}
