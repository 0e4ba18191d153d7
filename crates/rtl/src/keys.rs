//! Values computed once per SA, so that the gateway need not: HMAC's states behind the key pads,
//! and the powers of AES-GCM's hash key.

use openssl::error::ErrorStack;
use openssl::symm::{Cipher, Crypter, Mode};
use zeroize::Zeroizing;

/// An SA's `auth_keys`, as they stand in its record.
pub(crate) type AuthKeys = Zeroizing<[u8; 64]>;

const BLOCK: usize = 64;
/// RFC 2104 section 2.
const INNER_PAD: u8 = 0x36;
const OUTER_PAD: u8 = 0x5c;

/// HMAC-SHA1's states: behind the inner pad, and from byte 32 on behind the outer one.
pub(crate) fn hmac_sha1(key: &[u8]) -> AuthKeys {
    states(key, |block| {
        let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
        sha1::block_api::compress(&mut state, &[*block]);
        state
    })
}

/// HMAC-SHA2-256's states, likewise.
pub(crate) fn hmac_sha256(key: &[u8]) -> AuthKeys {
    states(key, |block| {
        let mut state = [
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ];
        sha2::block_api::compress256(&mut state, &[*block]);
        state
    })
}

/// The key has at most one block; longer ones are for the caller to hash first.
fn states<const N: usize>(key: &[u8], compress: impl Fn(&[u8; BLOCK]) -> [u32; N]) -> AuthKeys {
    let mut keys = Zeroizing::new([0; 64]);
    for (half, pad) in [INNER_PAD, OUTER_PAD].into_iter().enumerate() {
        let mut block = Zeroizing::new([pad; BLOCK]);
        block.iter_mut().zip(key).for_each(|(b, k)| *b ^= k);
        let state = Zeroizing::new(compress(&block));
        for (place, word) in keys[32 * half..].chunks_exact_mut(4).zip(state.iter()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
    keys
}

/// H^4, H^3, H^2, H, where H is the encrypted zero block (SP 800-38D section 6.4).
///
/// # Errors
/// The library's, if the key has no AES key's length.
pub(crate) fn gcm_powers(key: &[u8]) -> Result<AuthKeys, ErrorStack> {
    let cipher = match key.len() {
        16 => Cipher::aes_128_ecb(),
        24 => Cipher::aes_192_ecb(),
        _ => Cipher::aes_256_ecb(),
    };
    let mut crypter = Crypter::new(cipher, Mode::Encrypt, key, None)?;
    crypter.pad(false);
    // The library wants room for one block more than it writes.
    let mut h = Zeroizing::new([0; 32]);
    crypter.update(&[0; 16], h.as_mut_slice())?;
    let (h, _) = h.split_at(16);
    let h = u128::from_be_bytes(h.try_into().unwrap_or_default());
    let mut keys = Zeroizing::new([0; 64]);
    let mut power = h;
    for place in keys.rchunks_exact_mut(16) {
        place.copy_from_slice(&power.to_be_bytes());
        power = product(power, h);
    }
    Ok(keys)
}

/// In GF(2^128) as GCM writes it: the coefficient of x^0 is the highest bit.
fn product(a: u128, b: u128) -> u128 {
    let (mut sum, mut power) = (0, b);
    for bit in (0..128).rev() {
        if a >> bit & 1 != 0 {
            sum ^= power;
        }
        let carry = power & 1;
        power = power >> 1 ^ (carry * (0xe1 << 120));
    }
    sum
}

#[cfg(test)]
mod tests {
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::sign::Signer;

    use super::*;

    /// Finishes an HMAC from the states, as the gateway does, for a message of at most 55 bytes.
    fn finish<const N: usize>(
        keys: &AuthKeys,
        message: &[u8],
        compress: impl Fn(&mut [u32; N], &[u8; BLOCK]),
    ) -> Vec<u8> {
        let load = |half: usize| -> [u32; N] {
            core::array::from_fn(|i| {
                u32::from_be_bytes(keys[32 * half + 4 * i..][..4].try_into().unwrap())
            })
        };
        let padded = |text: &[u8]| {
            let mut block = [0; BLOCK];
            block[..text.len()].copy_from_slice(text);
            block[text.len()] = 0x80;
            block[56..].copy_from_slice(&(8 * (BLOCK + text.len()) as u64).to_be_bytes());
            block
        };
        let bytes =
            |state: [u32; N]| state.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        let (mut inner, mut outer) = (load(0), load(1));
        compress(&mut inner, &padded(message));
        compress(&mut outer, &padded(&bytes(inner)));
        bytes(outer)
    }

    #[test]
    fn hmac_goes_on_from_the_states() {
        for len in [1, 20, 32, 64] {
            let key: Vec<u8> = (1..=len).collect();
            let reference = |digest| {
                let key = PKey::hmac(&key).unwrap();
                let mut signer = Signer::new(digest, &key).unwrap();
                signer.update(b"what do ya want for nothing?").unwrap();
                signer.sign_to_vec().unwrap()
            };
            let message = b"what do ya want for nothing?";
            let sha1 = finish(&hmac_sha1(&key), message, |state: &mut [u32; 5], block| {
                sha1::block_api::compress(state, &[*block]);
            });
            assert_eq!(sha1, reference(MessageDigest::sha1()));
            let sha256 = finish(&hmac_sha256(&key), message, |state: &mut [u32; 8], block| {
                sha2::block_api::compress256(state, &[*block]);
            });
            assert_eq!(sha256, reference(MessageDigest::sha256()));
        }
    }

    #[test]
    fn powers_of_the_hash_key() {
        // The GCM specification's test case 1: key of zeros, H = 66e94bd4...
        let keys = gcm_powers(&[0; 16]).unwrap();
        let power = |n: usize| u128::from_be_bytes(keys[64 - 16 * n..][..16].try_into().unwrap());
        let h = 0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e;
        assert_eq!(power(1), h);
        assert_eq!(power(2), product(h, h));
        assert_eq!(power(3), product(product(h, h), h));
        assert_eq!(power(4), product(power(2), power(2)));
        // Its test case 2: GHASH of one block C and the lengths, by powers as the gateway uses them.
        let c = 0x0388_dace_60b6_a392_f328_c2b9_71b2_fe78;
        let ghash = product(c, power(2)) ^ product(128, power(1));
        assert_eq!(ghash, 0xf38c_bb1a_d692_23dc_c345_7ae5_b6b0_f885);
    }
}
