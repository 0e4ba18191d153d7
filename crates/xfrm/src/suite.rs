//! From the kernel's algorithm names to the suites that are carried.

use crypto::{AesKey, Cipher, IcvLen, Integrity, Keys, Suite};

use crate::codec::{self, Aead, Auth, Truncation};
use crate::failure::Failure;

/// An SA's algorithms, with their settled names and truncations, as dumps give them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// A cipher of combined mode.
    Aead(Aead),
    /// Encryption (or none) with authentication.
    CipherAuth(codec::Cipher, Auth),
    /// Authentication, of AH.
    Auth(Auth),
    /// Compression, of IPComp.
    Compression(codec::Compression),
    /// None, of IP in IP.
    None,
}

impl Algorithms {
    /// Settles names and truncations as Linux does.
    ///
    /// # Errors
    /// An algorithm is missing, or not known.
    pub fn settle(
        aead: Option<Aead>,
        cipher: Option<codec::Cipher>,
        auth: Option<Auth>,
    ) -> Result<Algorithms, Failure> {
        match (aead, cipher, auth) {
            (Some(aead), None, None) => Ok(Algorithms::Aead(aead)),
            (Some(_), _, _) => Err(Failure::AlgorithmConflict),
            (None, Some(cipher), Some(auth)) => {
                let name = cipher_name(cipher.name()).ok_or_else(|| unknown(cipher.name()))?;
                let auth = settle_auth(auth)?;
                Ok(Algorithms::CipherAuth(cipher.settled(name), auth))
            }
            // charon hands over combined modes that its own list lacks as ciphers (strongswan/gm);
            // Linux knows no cipher of this name.
            (None, Some(cipher), None) if cipher.name() == SM4_GCM => {
                Ok(Algorithms::Aead(cipher.into_aead(128)))
            }
            (None, Some(_), None) => Err(Failure::NoIntegrity),
            (None, None, Some(_)) => Err(Failure::NoCipher),
            (None, None, None) => Err(Failure::NoAlgorithm),
        }
    }

    /// Settles the algorithm of AH.
    ///
    /// # Errors
    /// It is missing, or not known.
    pub fn settle_ah(auth: Option<Auth>) -> Result<Algorithms, Failure> {
        settle_auth(auth.ok_or(Failure::AhAlgorithm)?).map(Algorithms::Auth)
    }

    /// Settles the algorithm of IPComp.
    ///
    /// # Errors
    /// It is another one than deflate: nothing in use has LZS (RFC 2395) or LZJH (RFC 3051), and Linux
    /// has no code for them either.
    pub fn settle_ipcomp(algorithm: codec::Compression) -> Result<Algorithms, Failure> {
        match algorithm.name() {
            DEFLATE => Ok(Algorithms::Compression(algorithm)),
            name => {
                Err(Failure::Algorithm { name: printable(name), detail: "for IPComp".to_owned() })
            }
        }
    }

    /// The suite and its keys.
    ///
    /// # Errors
    /// The combination, the ICV's length or the key's length is not carried.
    pub fn suite(&self) -> Result<(Suite, Keys), Failure> {
        let (suite, keys) = match self {
            Algorithms::Aead(a) => {
                let suite = aead_suite(a)?;
                let cipher_len = suite.cipher_key_len_bytes();
                let (cipher, salt) = a
                    .key()
                    .split_at_checked(cipher_len)
                    .ok_or_else(|| key_length(a.name(), a.key()))?;
                (suite, Keys { cipher: cipher.to_vec(), salt: salt.to_vec(), auth: Vec::new() })
            }
            Algorithms::CipherAuth(cipher, auth) => {
                let integrity = integrity(auth)?;
                let kind = cipher_of(cipher)?;
                // The nonce of a counter mode follows its key, as a salt does (RFC 3686 §5.1).
                let (key, salt) = cipher
                    .key()
                    .split_at_checked(kind.key_len_bytes())
                    .ok_or_else(|| key_length(cipher.name(), cipher.key()))?;
                let keys =
                    Keys { cipher: key.to_vec(), salt: salt.to_vec(), auth: auth.key().to_vec() };
                (Suite::Separate { cipher: kind, integrity }, keys)
            }
            Algorithms::Auth(auth) => {
                let keys = Keys { cipher: Vec::new(), salt: Vec::new(), auth: auth.key().to_vec() };
                (Suite::integrity_only(integrity(auth)?), keys)
            }
            Algorithms::Compression(_) | Algorithms::None => (Suite::None, Keys::default()),
        };
        if !keys.fit(suite) {
            let (name, key) = match self {
                Algorithms::Aead(a) => (a.name(), a.key()),
                Algorithms::CipherAuth(c, a) if c.key().len() == cipher_blob_len(suite) => {
                    (a.name(), a.key())
                }
                Algorithms::CipherAuth(c, _) => (c.name(), c.key()),
                Algorithms::Auth(a) => (a.name(), a.key()),
                Algorithms::Compression(_) | Algorithms::None => ("", &[][..]),
            };
            return Err(key_length(name, key));
        }
        Ok((suite, keys))
    }
}

/// An integrity algorithm as Linux's table has it.
struct Hash {
    name: &'static str,
    default_bits: u32,
    full_bits: u32,
}

fn hash(name: &str) -> Option<Hash> {
    let h = |name, default_bits, full_bits| Some(Hash { name, default_bits, full_bits });
    match name {
        "hmac(md5)" | "md5" => h("hmac(md5)", 96, 128),
        "hmac(sha1)" | "sha1" => h("hmac(sha1)", 96, 160),
        // Linux kept the truncation of an early draft as the default; RFC 4868 has 128.
        "hmac(sha256)" | "sha256" => h("hmac(sha256)", 96, 256),
        "hmac(sha384)" | "sha384" => h("hmac(sha384)", 192, 384),
        "hmac(sha512)" | "sha512" => h("hmac(sha512)", 256, 512),
        "xcbc(aes)" => h("xcbc(aes)", 96, 128),
        "cmac(aes)" => h("cmac(aes)", 96, 128),
        "hmac(sm3)" | "sm3" => h("hmac(sm3)", 256, 256),
        _ => None,
    }
}

/// Settles name and truncation of an authentication algorithm.
fn settle_auth(auth: Auth) -> Result<Auth, Failure> {
    let hash = hash(auth.name()).ok_or_else(|| unknown(auth.name()))?;
    let bits = match auth.truncation() {
        Truncation::Default | Truncation::Bits(0) => hash.default_bits,
        Truncation::Bits(bits) if bits > hash.full_bits => return Err(Failure::TruncationTooLong),
        Truncation::Bits(bits) => bits,
    };
    Ok(auth.settled(hash.name, bits))
}

fn cipher_name(name: &str) -> Option<&'static str> {
    match name {
        "cbc(aes)" | "aes" => Some("cbc(aes)"),
        "ecb(cipher_null)" | "cipher_null" => Some(NULL),
        "rfc3686(ctr(aes))" => Some(CTR),
        "cbc(camellia)" | "camellia" => Some("cbc(camellia)"),
        "cbc(des3_ede)" | "des3_ede" => Some("cbc(des3_ede)"),
        "cbc(des)" | "des" => Some("cbc(des)"),
        "cbc(sm4)" | "sm4" => Some("cbc(sm4)"),
        SM4_CTR => Some(SM4_CTR),
        _ => None,
    }
}

/// The cipher of a settled name, by the key's length where there are several.
fn cipher_of(cipher: &codec::Cipher) -> Result<Cipher, Failure> {
    let key = |len: usize| {
        AesKey::from_len_bytes(len).ok_or_else(|| key_length(cipher.name(), cipher.key()))
    };
    let len = cipher.key().len();
    match cipher.name() {
        NULL => Ok(Cipher::Null),
        "cbc(aes)" => key(len).map(Cipher::AesCbc),
        CTR => key(len.saturating_sub(CTR_NONCE_LEN)).map(Cipher::AesCtr),
        "cbc(camellia)" => key(len).map(Cipher::CamelliaCbc),
        "cbc(des3_ede)" => Ok(Cipher::TripleDesCbc),
        "cbc(des)" => Ok(Cipher::DesCbc),
        "cbc(sm4)" => Ok(Cipher::Sm4Cbc),
        SM4_CTR => Ok(Cipher::Sm4Ctr),
        name => Err(unknown(name)),
    }
}

/// The length of a cipher's key and nonce together, as they come in one attribute.
fn cipher_blob_len(suite: Suite) -> usize {
    suite.cipher_key_len_bytes() + suite.salt_len_bytes()
}

fn integrity(auth: &Auth) -> Result<Integrity, Failure> {
    let bits = match auth.truncation() {
        Truncation::Default => 0,
        Truncation::Bits(bits) => bits,
    };
    match (auth.name(), bits) {
        ("hmac(md5)", 96) => Ok(Integrity::Md5_96),
        ("hmac(md5)", 128) => Ok(Integrity::Md5_128),
        ("hmac(sha1)", 96) => Ok(Integrity::Sha1_96),
        ("hmac(sha1)", 160) => Ok(Integrity::Sha1_160),
        ("hmac(sha256)", 96) => Ok(Integrity::Sha256_96),
        ("hmac(sha256)", 128) => Ok(Integrity::Sha256_128),
        ("hmac(sha384)", 192) => Ok(Integrity::Sha384_192),
        ("hmac(sha512)", 256) => Ok(Integrity::Sha512_256),
        ("xcbc(aes)", 96) => Ok(Integrity::AesXcbc96),
        ("cmac(aes)", 96) => Ok(Integrity::AesCmac96),
        ("hmac(sm3)", 96) => Ok(Integrity::Sm3_96),
        ("hmac(sm3)", 128) => Ok(Integrity::Sm3_128),
        ("hmac(sm3)", 256) => Ok(Integrity::Sm3_256),
        (name, bits) => Err(Failure::Algorithm {
            name: name.to_owned(),
            detail: format!("truncated to {bits} bits"),
        }),
    }
}

fn aead_suite(a: &Aead) -> Result<Suite, Failure> {
    let unsupported = || Failure::Algorithm {
        name: a.name().to_owned(),
        detail: format!("with an ICV of {} bits", a.icv_bits()),
    };
    let icv = || {
        let len = a.icv_bits().is_multiple_of(8).then_some(a.icv_bits() / 8);
        let len = len.and_then(|len| usize::try_from(len).ok());
        len.and_then(IcvLen::from_len_bytes).ok_or_else(unsupported)
    };
    let key = |salt_len| {
        let key = a.key().len().checked_sub(salt_len).and_then(AesKey::from_len_bytes);
        key.ok_or_else(|| key_length(a.name(), a.key()))
    };
    match a.name() {
        "rfc4106(gcm(aes))" => Ok(Suite::AesGcm { icv: icv()?, key: key(GCM_SALT_LEN)? }),
        SM4_GCM => Ok(Suite::Sm4Gcm { icv: icv()? }),
        "rfc4309(ccm(aes))" => Ok(Suite::AesCcm { icv: icv()?, key: key(CCM_SALT_LEN)? }),
        "rfc4543(gcm(aes))" if a.icv_bits() == 128 => {
            Ok(Suite::AesGmac { key: key(GCM_SALT_LEN)? })
        }
        "rfc7539esp(chacha20,poly1305)" if a.icv_bits() == 128 => Ok(Suite::ChaCha20Poly1305),
        "rfc4543(gcm(aes))" | "rfc7539esp(chacha20,poly1305)" => Err(unsupported()),
        name => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::Algorithm { name: printable(name), detail: "for ESP".to_owned() }
}

fn key_length(name: &str, key: &[u8]) -> Failure {
    Failure::KeyLength { name: printable(name), bytes: key.len() }
}

/// A name from outside, fit for a log line.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

const NULL: &str = "ecb(cipher_null)";
const CTR: &str = "rfc3686(ctr(aes))";
/// As Linux's cryptography names them. Its XFRM takes neither of these, as its lists of SAs' algorithms lack them.
const SM4_CTR: &str = "rfc3686(ctr(sm4))";
const SM4_GCM: &str = "rfc4106(gcm(sm4))";
const DEFLATE: &str = "deflate";

/// Bytes of salt or nonce behind a key: RFC 4106 §8.1 and RFC 4543 §5.4; RFC 4309 §7.1; RFC 3686 §5.1.
const GCM_SALT_LEN: usize = 4;
const CCM_SALT_LEN: usize = 3;
const CTR_NONCE_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(name: &str, numbers: &[usize], key: &[u8]) -> Vec<u8> {
        let mut b = name.as_bytes().to_vec();
        b.resize(64, 0);
        for &n in numbers {
            b.extend(u32::try_from(n).unwrap().to_ne_bytes());
        }
        b.extend(key);
        b
    }

    fn aead(name: &str, key_len: usize, icv: usize) -> Result<(Suite, Keys), Failure> {
        let key: Vec<u8> = (0..key_len).map(|i| i as u8).collect();
        let a = Aead::decode(&bytes(name, &[key_len * 8, icv], &key)).unwrap();
        Algorithms::settle(Some(a), None, None)?.suite()
    }

    fn pair(
        c: &str,
        c_len: usize,
        a: &str,
        a_len: usize,
        bits: Option<usize>,
    ) -> Result<Suite, Failure> {
        let cipher = codec::Cipher::decode(&bytes(c, &[c_len * 8], &vec![1; c_len])).unwrap();
        let auth = match bits {
            Some(bits) => {
                Auth::decode_truncated(&bytes(a, &[a_len * 8, bits], &vec![2; a_len])).unwrap()
            }
            None => Auth::decode(&bytes(a, &[a_len * 8], &vec![2; a_len])).unwrap(),
        };
        Algorithms::settle(None, Some(cipher), Some(auth))?.suite().map(|(s, _)| s)
    }

    #[test]
    fn gcm_in_all_sizes() {
        for key in [16, 24, 32] {
            for icv in [64, 96, 128] {
                let (suite, keys) = aead("rfc4106(gcm(aes))", key + 4, icv).unwrap();
                assert_eq!(suite.cipher_key_len_bytes(), key);
                assert_eq!(suite.icv_len_bytes() * 8, icv);
                assert_eq!(keys.salt, [key as u8, key as u8 + 1, key as u8 + 2, key as u8 + 3]);
            }
        }
        assert!(matches!(aead("rfc4106(gcm(aes))", 20, 80), Err(Failure::Algorithm { .. })));
        assert!(matches!(aead("rfc4106(gcm(aes))", 20, 124), Err(Failure::Algorithm { .. })));
        assert!(matches!(aead("rfc4106(gcm(aes))", 16, 128), Err(Failure::KeyLength { .. })));
        assert!(matches!(aead("rfc4106(gcm(aes))", 3, 128), Err(Failure::KeyLength { .. })));
    }

    #[test]
    fn chacha() {
        let (suite, keys) = aead("rfc7539esp(chacha20,poly1305)", 36, 128).unwrap();
        assert_eq!((suite, keys.salt.len()), (Suite::ChaCha20Poly1305, 4));
        assert!(aead("rfc7539esp(chacha20,poly1305)", 32, 128).is_err());
        assert!(aead("rfc7539esp(chacha20,poly1305)", 36, 96).is_err());
        assert!(aead("rfc7539esp(chacha20,poly1305)", 10, 128).is_err());
    }

    #[test]
    fn default_truncations_are_linux_s() {
        let cbc = |a, len, bits| pair("cbc(aes)", 16, a, len, bits);
        let cipher = Cipher::AesCbc(AesKey::Aes128);
        let suite = |integrity| Ok(Suite::Separate { cipher, integrity });
        assert_eq!(cbc("hmac(md5)", 16, None), suite(Integrity::Md5_96));
        assert_eq!(cbc("hmac(sha1)", 20, None), suite(Integrity::Sha1_96));
        assert_eq!(cbc("hmac(sha256)", 32, None), suite(Integrity::Sha256_96));
        assert_eq!(cbc("hmac(sha384)", 48, None), suite(Integrity::Sha384_192));
        assert_eq!(cbc("hmac(sha512)", 64, None), suite(Integrity::Sha512_256));
        assert_eq!(cbc("hmac(sha512)", 64, Some(0)), suite(Integrity::Sha512_256));
        assert_eq!(cbc("xcbc(aes)", 16, None), suite(Integrity::AesXcbc96));
        assert_eq!(cbc("cmac(aes)", 16, None), suite(Integrity::AesCmac96));
        assert_eq!(cbc("sm3", 32, None), suite(Integrity::Sm3_256));
        assert_eq!(cbc("hmac(md5)", 16, Some(128)), suite(Integrity::Md5_128));
        assert_eq!(cbc("hmac(sha1)", 20, Some(160)), suite(Integrity::Sha1_160));
        assert_eq!(cbc("hmac(sha256)", 32, Some(128)), suite(Integrity::Sha256_128));
        let e = cbc("hmac(sha256)", 32, Some(192)).unwrap_err();
        assert_eq!(e.errno(), libc::ENOSYS);
        assert!(e.text().contains("hmac(sha256)") && e.text().contains("192"), "{e}");
        assert_eq!(cbc("hmac(sha1)", 20, Some(161)), Err(Failure::TruncationTooLong));
        assert_eq!(cbc("xcbc(aes)", 16, Some(129)), Err(Failure::TruncationTooLong));
    }

    #[test]
    fn keys_of_block_cipher_macs_have_one_length() {
        for name in ["xcbc(aes)", "cmac(aes)"] {
            for len in [1, 20, 24, 32] {
                let e = pair("cbc(aes)", 16, name, len, Some(96)).unwrap_err();
                assert_eq!(e, Failure::KeyLength { name: name.to_owned(), bytes: len });
            }
        }
    }

    /// Every suite has a name in Linux, with the lengths that Linux has, and no other name leads to it.
    #[test]
    fn every_suite_is_reached() {
        let mut reached = std::collections::HashSet::new();
        for key in [16, 24, 32] {
            for icv in [64, 96, 128] {
                reached.insert(aead("rfc4106(gcm(aes))", key + 4, icv).unwrap().0);
                reached.insert(aead("rfc4309(ccm(aes))", key + 3, icv).unwrap().0);
            }
            reached.insert(aead("rfc4543(gcm(aes))", key + 4, 128).unwrap().0);
        }
        reached.insert(aead("rfc7539esp(chacha20,poly1305)", 36, 128).unwrap().0);
        for icv in [64, 96, 128] {
            reached.insert(aead("rfc4106(gcm(sm4))", 20, icv).unwrap().0);
        }
        let mut ciphers = vec![("ecb(cipher_null)", 0), ("cbc(des3_ede)", 24), ("cbc(des)", 8)];
        ciphers.extend([("cbc(sm4)", 16), ("rfc3686(ctr(sm4))", 20)]);
        for key in [16, 24, 32] {
            ciphers.extend([("cbc(aes)", key), ("rfc3686(ctr(aes))", key + 4)]);
            ciphers.push(("cbc(camellia)", key));
        }
        let auths = [
            ("hmac(md5)", 16, &[96, 128][..]),
            ("hmac(sha1)", 20, &[96, 160]),
            ("hmac(sha256)", 32, &[96, 128]),
            ("hmac(sha384)", 48, &[192]),
            ("hmac(sha512)", 64, &[256]),
            ("xcbc(aes)", 16, &[96]),
            ("cmac(aes)", 16, &[96]),
            ("hmac(sm3)", 32, &[96, 128, 256]),
        ];
        for (cipher, cipher_len) in ciphers {
            for (auth, auth_len, bits) in auths {
                for &bits in bits {
                    let suite = pair(cipher, cipher_len, auth, auth_len, Some(bits)).unwrap();
                    assert_eq!(suite.icv_len_bytes() * 8, bits);
                    reached.insert(suite);
                }
            }
        }
        assert_eq!(reached.len(), Suite::COUNT);
    }

    #[test]
    fn salts_come_behind_the_keys() {
        let (suite, keys) = aead("rfc4309(ccm(aes))", 19, 96).unwrap();
        assert_eq!(suite, Suite::AesCcm { key: AesKey::Aes128, icv: IcvLen::Icv12 });
        assert_eq!(keys.salt, [16, 17, 18]);
        let (suite, keys) = aead("rfc4543(gcm(aes))", 36, 128).unwrap();
        assert_eq!(suite, Suite::AesGmac { key: AesKey::Aes256 });
        assert_eq!(keys.salt, [32, 33, 34, 35]);
        assert!(aead("rfc4543(gcm(aes))", 36, 96).is_err());
        assert!(aead("rfc4309(ccm(aes))", 20, 96).is_err());

        let key: Vec<u8> = (0..28).collect();
        let ctr = codec::Cipher::decode(&bytes("rfc3686(ctr(aes))", &[28 * 8], &key)).unwrap();
        let auth = Auth::decode(&bytes("sha1", &[20 * 8], &[2; 20])).unwrap();
        let (suite, keys) =
            Algorithms::settle(None, Some(ctr), Some(auth)).unwrap().suite().unwrap();
        let cipher = Cipher::AesCtr(AesKey::Aes192);
        assert_eq!(suite, Suite::Separate { cipher, integrity: Integrity::Sha1_96 });
        assert_eq!((keys.cipher.len(), &keys.salt[..]), (24, &[24, 25, 26, 27][..]));
        for len in [0, 3, 4, 16, 32] {
            assert!(matches!(
                pair("rfc3686(ctr(aes))", len, "sha1", 20, None),
                Err(Failure::KeyLength { .. })
            ));
        }
    }

    #[test]
    fn sm4_gcm_may_come_as_a_cipher() {
        let key: Vec<u8> = (0..20).collect();
        let named = |name, key: &[u8]| {
            let bits = 8 * key.len();
            codec::Cipher::decode(&bytes(name, &[bits], key)).unwrap()
        };
        let settle = |cipher| Algorithms::settle(None, Some(cipher), None);
        let settled = settle(named("rfc4106(gcm(sm4))", &key)).unwrap();
        let (suite, keys) = settled.suite().unwrap();
        assert_eq!(suite, Suite::Sm4Gcm { icv: IcvLen::Icv16 });
        assert_eq!((&keys.cipher[..], &keys.salt[..]), (&key[..16], &key[16..]));
        assert!(settle(named("rfc4106(gcm(sm4))", &key[..16])).unwrap().suite().is_err());
        assert!(matches!(settle(named("rfc4106(gcm(aes))", &key)), Err(Failure::NoIntegrity)));
        assert!(matches!(settle(named("cbc(sm4)", &key[..16])), Err(Failure::NoIntegrity)));
    }

    #[test]
    fn null_encryption_and_aliases() {
        let null = Suite::integrity_only(Integrity::Sha256_128);
        assert_eq!(pair("cipher_null", 0, "sha256", 32, Some(128)), Ok(null));
        assert_eq!(pair("ecb(cipher_null)", 0, "hmac(sha256)", 32, Some(128)), Ok(null));
        assert!(matches!(
            pair("ecb(cipher_null)", 4, "hmac(sha256)", 32, Some(128)),
            Err(Failure::KeyLength { .. })
        ));
        assert!(pair("aes", 24, "sha1", 20, None).is_ok());
        assert!(pair("aes", 17, "sha1", 20, None).is_err());
        assert!(pair("aes", 16, "sha1", 0, None).is_err());
    }

    #[test]
    fn unknown_names_are_named() {
        let e = pair("cbc(serpent)", 16, "hmac(sha1)", 20, None).unwrap_err();
        assert!(e.text().contains("cbc(serpent)"), "{e}");
        let e = pair("cbc(aes)", 16, "hmac(rmd160)", 20, None).unwrap_err();
        assert!(e.text().contains("hmac(rmd160)"), "{e}");
        let e = aead("gcm(aes)", 20, 128).unwrap_err();
        assert_eq!(e.errno(), libc::ENOSYS);
        let e = aead("bad\u{7}name", 19, 128).unwrap_err();
        assert!(e.text().contains("bad?name"), "{e}");
    }
}
