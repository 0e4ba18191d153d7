//! Keys of a client's Initial packets (RFC 9001 §5.2).

use hkdf::Hkdf;
use openssl::symm::{Cipher, Crypter, Mode};
use sha2::Sha256;

use super::version::Version;

/// Keys that protect what a client sends in Initial packets: AES-128-GCM, and AES-128 for headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialKeys {
    version: Version,
    key: [u8; 16],
    iv: [u8; 12],
    hp: [u8; 16],
}

impl InitialKeys {
    /// Keys of a client that has chosen this connection id for its server. `None` if the id is longer than any is.
    pub fn of(version: Version, destination: &[u8]) -> Option<InitialKeys> {
        if destination.len() > MOST_ID_LEN {
            return None;
        }
        let initial = Hkdf::<Sha256>::new(Some(&version.salt()), destination);
        let mut secret = [0; 32];
        expand(&initial, "tls13 client in", &mut secret)?;
        let secret = Hkdf::<Sha256>::from_prk(&secret).ok()?;
        let (mut key, mut iv, mut hp) = ([0; 16], [0; 12], [0; 16]);
        let [of_key, of_iv, of_hp] = version.labels();
        expand(&secret, of_key, &mut key)?;
        expand(&secret, of_iv, &mut iv)?;
        expand(&secret, of_hp, &mut hp)?;
        Some(InitialKeys { version, key, iv, hp })
    }

    pub(super) const fn version(&self) -> Version {
        self.version
    }

    /// Mask of a header, by the sample of its packet (RFC 9001 §5.4.3).
    pub(super) fn mask(&self, sample: &[u8; 16]) -> Option<[u8; 5]> {
        let mut aes = Crypter::new(Cipher::aes_128_ecb(), Mode::Encrypt, &self.hp, None).ok()?;
        aes.pad(false);
        let mut block = [0; 32];
        aes.update(sample, &mut block).ok()?;
        block.first_chunk::<5>().copied()
    }

    /// Nonce of a packet, by its number (RFC 9001 §5.3).
    fn nonce(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce.iter_mut().rev().zip(number.to_le_bytes()) {
            *byte ^= of_number;
        }
        nonce
    }

    /// The payload of a packet whose header is `header`. `None` if it is not authentic.
    pub(super) fn open(&self, number: u64, header: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (ciphertext, tag) = sealed.split_last_chunk::<16>()?;
        let cipher = Cipher::aes_128_gcm();
        let nonce = self.nonce(number);
        openssl::symm::decrypt_aead(cipher, &self.key, Some(&nonce), header, ciphertext, tag).ok()
    }

    /// Seals the payload of a packet whose header is `header`.
    pub(super) fn seal(&self, number: u64, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let (cipher, nonce, mut tag) = (Cipher::aes_128_gcm(), self.nonce(number), [0; 16]);
        let (key, iv) = (&self.key, Some(&nonce[..]));
        let mut sealed =
            openssl::symm::encrypt_aead(cipher, key, iv, header, payload, &mut tag).ok()?;
        sealed.extend(tag);
        Some(sealed)
    }
}

/// The longest connection id of the versions that are known, in bytes (RFC 9000 §17.2).
pub(super) const MOST_ID_LEN: usize = 20;

/// HKDF-Expand-Label without a context (RFC 8446 §7.1). `None` if it is longer than the hash allows.
fn expand(secret: &Hkdf<Sha256>, label: &str, out: &mut [u8]) -> Option<()> {
    let len = u16::try_from(out.len()).ok()?.to_be_bytes();
    let info: [&[u8]; 4] = [&len, &[label.len() as u8], label.as_bytes(), &[0]];
    secret.expand_multi_info(&info, out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        core::array::from_fn(|at| {
            u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal")
        })
    }

    #[test]
    fn keys_of_the_standards() {
        let id = bytes::<8>("8394c8f03e515708");
        // RFC 9001 appendix A.1.
        let expected = InitialKeys {
            version: Version::V1,
            key: bytes("1f369613dd76d5467730efcbe3b1a22d"),
            iv: bytes("fa044b2f42a3fd3b46fb255c"),
            hp: bytes("9f50449e04a0e810283a1e9933adedd2"),
        };
        assert_eq!(InitialKeys::of(Version::V1, &id), Some(expected));
        // RFC 9369 appendix A.1.
        let expected = InitialKeys {
            version: Version::V2,
            key: bytes("8b1a0bc121284290a29e0971b5cd045d"),
            iv: bytes("91f73e2351d8fa91660e909f"),
            hp: bytes("45b95e15235d6f45a6b19cbcb0294ba9"),
        };
        assert_eq!(InitialKeys::of(Version::V2, &id), Some(expected));
        assert_eq!(InitialKeys::of(Version::V2, &[0; 21]), None);
    }
}
