//! An ESP packet as a device is given it.
//!
//! | suite | front | body | tail | additional data | IV |
//! | --- | --- | --- | --- | --- | --- |
//! | AES-GCM, ChaCha20-Poly1305 | | IV, text | | SPI, number | salt, IV |
//! | AES-CCM (RFC 4309) | | IV, text | | SPI, number | a byte of the device's, salt, IV |
//! | AES-GMAC (RFC 4543) | SPI, number | IV, text | | | salt, IV |
//! | a cipher and a MAC | SPI, low half | IV, text | high half, with ESN | | the packet's; AES-CTR: salt, IV, 1 (RFC 3686) |
//! | a MAC | SPI, low half | text | high half, with ESN | | |
//!
//! With ESN the number of a combined mode is of 64 bits, the high half first (RFC 4106 §5).

use arrayvec::ArrayVec;
use crypto::{Cipher, Layout, Op, Suite, esn_aad};

use crate::sys::Packet;

/// Length of SPI and sequence number.
const HEADER_LEN: usize = 8;

/// An ESP packet's parts, laid out as [`crypto::Job`] says; `None` if its lengths do not fit the suite.
pub fn parts<'p>(
    suite: Suite,
    op: Op,
    salt: &[u8],
    esp: &'p [u8],
    seq_hi: Option<u32>,
) -> Option<Packet<'p>> {
    let layout = Layout::of(suite, HEADER_LEN, esp.len(), seq_hi.is_some())?;
    let header = esp.get(..HEADER_LEN)?;
    let body = esp.get(layout.iv..layout.icv)?;
    let iv = esp.get(layout.iv..layout.text)?;
    let icv = esp.get(layout.icv..)?;
    let mut packet = Packet {
        body,
        text: layout.text - layout.iv,
        icv: (op == Op::Open).then_some(icv),
        ..Packet::default()
    };
    let number: ArrayVec<u8, 12> = match seq_hi {
        Some(high) => ArrayVec::from(esn_aad(header, high)?),
        None => header.iter().copied().collect(),
    };
    match suite {
        Suite::AesGcm { .. } | Suite::ChaCha20Poly1305 => {
            packet.aad = number;
            fill(&mut packet.iv, &[salt, iv]);
        }
        Suite::AesCcm { .. } => {
            packet.aad = number;
            fill(&mut packet.iv, &[&[0], salt, iv]);
        }
        Suite::AesGmac { .. } => {
            packet.front = number;
            fill(&mut packet.iv, &[salt, iv]);
        }
        Suite::Separate { cipher, .. } => {
            packet.front = header.iter().copied().collect();
            packet.tail = seq_hi.map_or_else(ArrayVec::new, |high| high.to_be_bytes().into());
            match cipher {
                Cipher::AesCtr(_) => fill(&mut packet.iv, &[salt, iv, &[0, 0, 0, 1]]),
                _ => fill(&mut packet.iv, &[iv]),
            }
        }
        Suite::Sm4Gcm { .. } | Suite::None => return None,
    }
    Some(packet)
}

/// Writes parts one behind the other.
fn fill(iv: &mut [u8; 16], parts: &[&[u8]]) {
    for (to, from) in iv.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Suite {
        Suite::all().find(|suite| suite.to_string() == name).unwrap()
    }

    /// An ESP packet with 32 bytes of text, each byte its own place.
    fn esp(suite: Suite) -> Vec<u8> {
        (0..).take(8 + suite.iv_len_bytes() + 32 + suite.icv_len_bytes()).collect()
    }

    #[test]
    fn a_combined_mode_has_the_number_beside_the_packet() {
        let suite = named("aes128gcm16");
        let esp = esp(suite);
        let packet = parts(suite, Op::Seal, &[9; 4], &esp, None).unwrap();
        assert_eq!((packet.body, packet.text, packet.icv), (&esp[8..48], 8, None));
        assert!(packet.front.is_empty() && packet.tail.is_empty());
        assert_eq!(packet.aad[..], esp[..8]);
        assert_eq!(packet.iv, [9, 9, 9, 9, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, 0]);
        let packet = parts(suite, Op::Open, &[9; 4], &esp, Some(7)).unwrap();
        assert_eq!(packet.aad[..], [0, 1, 2, 3, 0, 0, 0, 7, 4, 5, 6, 7]);
        assert_eq!(packet.icv, Some(&esp[48..]));
    }

    #[test]
    fn a_mac_has_it_around_the_packet() {
        let suite = named("aes128-sha256");
        let esp = esp(suite);
        let packet = parts(suite, Op::Open, &[], &esp, Some(7)).unwrap();
        assert_eq!((&packet.front[..], &packet.tail[..]), (&esp[..8], &[0, 0, 0, 7][..]));
        assert_eq!((packet.body, packet.text), (&esp[8..56], 16));
        assert_eq!(packet.iv[..], esp[8..24]);
        let suite = named("aes256gmac");
        let esp = self::esp(suite);
        let packet = parts(suite, Op::Seal, &[1, 2, 3, 4], &esp, Some(7)).unwrap();
        assert_eq!(packet.front[..], [0, 1, 2, 3, 0, 0, 0, 7, 4, 5, 6, 7]);
        assert!(packet.tail.is_empty() && packet.aad.is_empty());
    }

    #[test]
    fn counters_begin_as_their_rfcs_say() {
        let ctr = named("aes128ctr-sha1");
        let packet = esp(ctr);
        let packet = parts(ctr, Op::Seal, &[1, 2, 3, 4], &packet, None).unwrap();
        assert_eq!(packet.iv, [1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, 1]);
        let ccm = named("aes128ccm16");
        let packet = esp(ccm);
        let packet = parts(ccm, Op::Seal, &[1, 2, 3], &packet, None).unwrap();
        assert_eq!(packet.iv, [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_too_short_has_no_parts() {
        let suite = named("aes128-sha1");
        assert_eq!(parts(suite, Op::Seal, &[], &esp(suite)[..35], None), None);
        assert_eq!(parts(suite, Op::Seal, &[], &esp(suite)[..55], None), None, "no whole block");
    }
}
