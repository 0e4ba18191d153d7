//! SM4-GCM (RFC 8998), one packet after the other.

use crypto::{JobStatus, Op, Parts, esn_aad};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::ctr::{Counter, Stream};
use crate::ghash::{GhashKey, Sum};
use crate::isa::Isa;
use crate::sm4::{self, RoundKeys};
use crate::tag;

/// Expanded key of SM4-GCM.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Gcm {
    keys: RoundKeys,
    ghash: GhashKey,
    salt: [u8; 4],
}

impl Gcm {
    pub(crate) fn new(isa: Isa, key: &[u8; 16], salt: [u8; 4]) -> Gcm {
        let keys = RoundKeys::expand(isa, key);
        let mut hash_key = [[0; 16]];
        sm4::one(isa, &keys, &mut hash_key);
        let gcm = Gcm { keys, ghash: GhashKey::new(hash_key[0]), salt };
        hash_key.zeroize();
        gcm
    }

    /// `Seal`: encrypts, then authenticates. `Open`: authenticates, and decrypts only what verified.
    pub(crate) fn run(&self, isa: Isa, op: Op, parts: Parts<'_>, seq_hi: Option<u32>) -> JobStatus {
        let Parts { header, iv, text, icv } = parts;
        let esn;
        let aad = match seq_hi {
            None => header,
            Some(hi) => match esn_aad(header, hi) {
                Some(aad) => {
                    esn = aad;
                    &esn[..]
                }
                None => return JobStatus::Failed,
            },
        };
        // The first block of the stream is for the tag, so that it comes with those for the text.
        let counter = Counter::new(self.salt, iv, 1);
        let mut stream = Stream::new(isa, &self.keys, counter, 16 + text.len());
        let mask = stream.block();
        match op {
            Op::Seal => {
                stream.crypt(isa, &self.keys, text);
                let tag = self.tag(isa, aad, text, mask);
                icv.iter_mut().zip(tag).for_each(|(to, from)| *to = from);
            }
            Op::Open => {
                if !tag::is_right(&self.tag(isa, aad, text, mask), icv) {
                    return JobStatus::BadIcv;
                }
                stream.crypt(isa, &self.keys, text);
            }
        }
        JobStatus::Done
    }

    fn tag(&self, isa: Isa, aad: &[u8], text: &[u8], mask: [u8; 16]) -> [u8; 16] {
        let mut sum = Sum::default();
        sum.add_padded(isa, &self.ghash, aad);
        sum.add_padded(isa, &self.ghash, text);
        let bits = |bytes: &[u8]| bytes.len() as u128 * 8;
        let lengths = bits(aad) << 64 | bits(text);
        sum.add(isa, &self.ghash, &[lengths.to_be_bytes()]);
        let mut tag = sum.bytes();
        tag.iter_mut().zip(mask).for_each(|(tag, mask)| *tag ^= mask);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8998 appendix A.1.
    #[test]
    fn the_rfc_s_example() {
        let bytes = |hex: &str| -> Vec<u8> {
            hex.as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        };
        let key = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes();
        let aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let iv = [0x56, 0x78, 0, 0, 0, 0, 0xab, 0xcd];
        let plain: Vec<u8> = [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0xee, 0xaa]
            .into_iter()
            .flat_map(|byte| [byte; 8])
            .collect();
        let sealed = bytes(
            "17f399f08c67d5ee19d0dc9969c4bb7d5fd46fd3756489069157b282bb200735\
             d82710ca5c22f0ccfa7cbf93d496ac15a56834cbcf98c397b4024a2691233b8d",
        );
        let tag = bytes("83de3541e4c2b58177e065a9bf7b62ec");
        for isa in Isa::available() {
            let gcm = Gcm::new(isa, &key, [0, 0, 0x12, 0x34]);
            let (mut text, mut icv) = (plain.clone(), vec![0; 16]);
            let run = |op, text: &mut [u8], icv: &mut [u8]| {
                gcm.run(isa, op, Parts { header: &aad, iv: &iv, text, icv }, None)
            };
            assert_eq!(run(Op::Seal, &mut text, &mut icv), JobStatus::Done);
            assert_eq!((&text, &icv), (&sealed, &tag), "{}", isa.name());
            assert_eq!(run(Op::Open, &mut text, &mut icv), JobStatus::Done);
            assert_eq!(text, plain, "{}", isa.name());
            assert_eq!(run(Op::Open, &mut text, &mut icv), JobStatus::BadIcv);
        }
    }
}
