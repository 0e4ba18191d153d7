//! From the kernel's algorithm names to the suites that are carried.

use crypto::{AesKey, Hmac, IcvLen, Keys, Suite};

use crate::codec::{Aead, Auth, Cipher, Truncation};
use crate::failure::Failure;

/// An SA's algorithms, with their settled names and truncations, as dumps give them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// Combined mode.
    Aead(Aead),
    /// Encryption (or none) with authentication.
    CipherAuth(Cipher, Auth),
}

impl Algorithms {
    /// Settles names and truncations as Linux does.
    ///
    /// # Errors
    /// An algorithm is missing, or not known.
    pub fn settle(
        aead: Option<Aead>,
        cipher: Option<Cipher>,
        auth: Option<Auth>,
    ) -> Result<Algorithms, Failure> {
        match (aead, cipher, auth) {
            (Some(aead), None, None) => Ok(Algorithms::Aead(aead)),
            (Some(_), _, _) => Err(Failure::AlgorithmConflict),
            (None, Some(cipher), Some(auth)) => {
                let name = cipher_name(cipher.name()).ok_or_else(|| unknown(cipher.name()))?;
                let hash = hash(auth.name()).ok_or_else(|| unknown(auth.name()))?;
                let bits = match auth.truncation() {
                    Truncation::Default | Truncation::Bits(0) => hash.default_bits,
                    Truncation::Bits(bits) if bits > hash.full_bits => {
                        return Err(Failure::TruncationTooLong);
                    }
                    Truncation::Bits(bits) => bits,
                };
                let auth = auth.settled(hash.name, bits);
                Ok(Algorithms::CipherAuth(cipher.settled(name), auth))
            }
            (None, Some(_), None) => Err(Failure::NoIntegrity),
            (None, None, Some(_)) => Err(Failure::NoCipher),
            (None, None, None) => Err(Failure::NoAlgorithm),
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
                let hmac = hmac(auth)?;
                let suite = if cipher.name() == NULL {
                    Suite::NullHmac { hmac }
                } else {
                    let key = AesKey::from_len_bytes(cipher.key().len())
                        .ok_or_else(|| key_length(cipher.name(), cipher.key()))?;
                    Suite::AesCbcHmac { key, hmac }
                };
                let keys = Keys {
                    cipher: cipher.key().to_vec(),
                    salt: Vec::new(),
                    auth: auth.key().to_vec(),
                };
                (suite, keys)
            }
        };
        if !keys.fit(suite) {
            let (name, key) = match self {
                Algorithms::Aead(a) => (a.name(), a.key()),
                Algorithms::CipherAuth(c, _) if c.key().len() != suite.cipher_key_len_bytes() => {
                    (c.name(), c.key())
                }
                Algorithms::CipherAuth(_, a) => (a.name(), a.key()),
            };
            return Err(key_length(name, key));
        }
        Ok((suite, keys))
    }
}

/// A hash as Linux's table has it.
struct Hash {
    name: &'static str,
    default_bits: u32,
    full_bits: u32,
}

fn hash(name: &str) -> Option<Hash> {
    let h = |name, default_bits, full_bits| Some(Hash { name, default_bits, full_bits });
    match name {
        "hmac(sha1)" | "sha1" => h("hmac(sha1)", 96, 160),
        // Linux kept the truncation of an early draft as the default; RFC 4868 has 128.
        "hmac(sha256)" | "sha256" => h("hmac(sha256)", 96, 256),
        "hmac(sha384)" | "sha384" => h("hmac(sha384)", 192, 384),
        "hmac(sha512)" | "sha512" => h("hmac(sha512)", 256, 512),
        _ => None,
    }
}

fn cipher_name(name: &str) -> Option<&'static str> {
    match name {
        "cbc(aes)" | "aes" => Some("cbc(aes)"),
        "ecb(cipher_null)" | "cipher_null" => Some(NULL),
        _ => None,
    }
}

fn hmac(auth: &Auth) -> Result<Hmac, Failure> {
    let bits = match auth.truncation() {
        Truncation::Default => 0,
        Truncation::Bits(bits) => bits,
    };
    match (auth.name(), bits) {
        ("hmac(sha1)", 96) => Ok(Hmac::Sha1_96),
        ("hmac(sha256)", 128) => Ok(Hmac::Sha256_128),
        ("hmac(sha384)", 192) => Ok(Hmac::Sha384_192),
        ("hmac(sha512)", 256) => Ok(Hmac::Sha512_256),
        (name, bits) => Err(Failure::Algorithm {
            name: name.to_owned(),
            detail: format!("truncated to {bits} bits"),
        }),
    }
}

fn aead_suite(a: &Aead) -> Result<Suite, Failure> {
    let icv = || {
        let len = a.icv_bits().is_multiple_of(8).then_some(a.icv_bits() / 8)?;
        IcvLen::from_len_bytes(usize::try_from(len).ok()?)
    };
    let unsupported = || Failure::Algorithm {
        name: a.name().to_owned(),
        detail: format!("with an ICV of {} bits", a.icv_bits()),
    };
    match a.name() {
        "rfc4106(gcm(aes))" => {
            let icv = icv().ok_or_else(unsupported)?;
            let key = a.key().len().checked_sub(GCM_SALT_LEN);
            let key = key.and_then(AesKey::from_len_bytes);
            let key = key.ok_or_else(|| key_length(a.name(), a.key()))?;
            Ok(Suite::AesGcm { key, icv })
        }
        "rfc7539esp(chacha20,poly1305)" if a.icv_bits() == 128 => Ok(Suite::ChaCha20Poly1305),
        "rfc7539esp(chacha20,poly1305)" => Err(unsupported()),
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
const GCM_SALT_LEN: usize = 4;

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
        let cipher = Cipher::decode(&bytes(c, &[c_len * 8], &vec![1; c_len])).unwrap();
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
        let suite = |hmac| Suite::AesCbcHmac { key: AesKey::Aes128, hmac };
        assert_eq!(cbc("hmac(sha1)", 20, None), Ok(suite(Hmac::Sha1_96)));
        assert_eq!(cbc("hmac(sha384)", 48, None), Ok(suite(Hmac::Sha384_192)));
        assert_eq!(cbc("hmac(sha512)", 64, None), Ok(suite(Hmac::Sha512_256)));
        assert_eq!(cbc("hmac(sha512)", 64, Some(0)), Ok(suite(Hmac::Sha512_256)));
        assert_eq!(cbc("hmac(sha256)", 32, Some(128)), Ok(suite(Hmac::Sha256_128)));
        let e = cbc("hmac(sha256)", 32, None).unwrap_err();
        assert_eq!(e.errno(), libc::ENOSYS);
        assert!(e.text().contains("hmac(sha256)") && e.text().contains("96"), "{e}");
        assert_eq!(cbc("hmac(sha1)", 20, Some(161)), Err(Failure::TruncationTooLong));
    }

    #[test]
    fn null_encryption_and_aliases() {
        let null = Suite::NullHmac { hmac: Hmac::Sha256_128 };
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
        let e = pair("cbc(des3_ede)", 24, "hmac(sha1)", 20, None).unwrap_err();
        assert!(e.text().contains("cbc(des3_ede)"), "{e}");
        let e = aead("rfc4309(ccm(aes))", 19, 128).unwrap_err();
        assert_eq!(e.errno(), libc::ENOSYS);
        let e = aead("bad\u{7}name", 19, 128).unwrap_err();
        assert!(e.text().contains("bad?name"), "{e}");
    }
}
