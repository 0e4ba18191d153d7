//! Entries for the library's scheduler, see [`crate::suites`].

use core::ptr;

use crypto::{Job, Layout, Op, esn_aad};
use ipsec_mb_sys as sys;

use crate::keys::{Placed, ScheduledPlaces};
use crate::slot::{SEQ_HI_LEN, Slot};
use crate::suites::{Crypt, Mac, scheduled};

/// The entry of a job whose session is of a suite that is scheduled, and whether its ICV has been moved out of the
/// packet. Tags go to the slot: some are longer than the ICV.
pub(crate) fn entry(
    job: &mut Job<'_>,
    layout: Layout,
    op: Op,
    keys: Placed<'_>,
    slot: &mut Slot,
) -> Option<(sys::Packet, bool)> {
    let suite = job.session.suite();
    let (crypt, mac) = scheduled(suite)?;
    let places = ScheduledPlaces::of(crypt, mac);
    let icv_len = job.packet.len() - layout.icv;
    let text_len = layout.icv - layout.text;
    let (mut aad_len, mut hash_len, mut moved) = (0, layout.icv, false);
    match (mac, job.seq_hi) {
        (Mac::Ccm, seq_hi) => {
            aad_len = layout.iv;
            if let Some(hi) = seq_hi {
                slot.aad = esn_aad(job.packet.get(..layout.iv)?, hi)?;
                aad_len = slot.aad.len();
            }
        }
        (_, Some(hi)) => {
            // Behind the text, where the ICV is (RFC 4303 §2.2.1).
            let icv = job.packet.get_mut(layout.icv..)?;
            slot.received.get_mut(..icv_len)?.copy_from_slice(icv);
            *icv.first_chunk_mut()? = hi.to_be_bytes();
            hash_len += usize::from(SEQ_HI_LEN);
            moved = true;
        }
        (_, None) => {}
    }
    let iv = job.packet.get(layout.iv..layout.text)?;
    let iv = match crypt {
        Crypt::Null => ptr::null(),
        Crypt::Cbc(_) => iv.as_ptr(),
        Crypt::Ctr(_) => {
            // Nonce, IV, and a block counter that begins with one (RFC 3686 §4).
            let nonce = places.nonce(keys)?;
            let block = nonce.iter().chain(iv).chain(&[0, 0, 0, 1]);
            slot.nonce.iter_mut().zip(block).for_each(|(to, from)| *to = *from);
            slot.nonce.as_ptr()
        }
        Crypt::Ccm(_) => {
            // Salt and IV (RFC 4309 §4).
            let salt = places.nonce(keys)?;
            let nonce = salt.iter().take(CCM_SALT_LEN).chain(iv);
            slot.nonce.iter_mut().zip(nonce).for_each(|(to, from)| *to = *from);
            slot.nonce.as_ptr()
        }
    };
    let (cipher, schedule) = match crypt {
        // An empty text is nothing to encrypt, and the library does not take it.
        Crypt::Null => (sys::CIPHER_NULL, ptr::null()),
        Crypt::Cbc(_) | Crypt::Ctr(_) if text_len == 0 => (sys::CIPHER_NULL, ptr::null()),
        Crypt::Cbc(key) if op == Op::Open => (sys::CIPHER_CBC, keys.decryption(key)),
        Crypt::Cbc(_) => (sys::CIPHER_CBC, keys.keys()),
        Crypt::Ctr(_) => (sys::CIPHER_CTR, keys.keys()),
        Crypt::Ccm(_) => (sys::CIPHER_CCM, keys.keys()),
    };
    let packet = job.packet.as_mut_ptr();
    let (hash, mac_key) = match mac {
        Mac::Hmac(hmac) => {
            aad_len = sys::outer_at(hmac.code());
            (hmac.code(), places.mac(keys))
        }
        Mac::Xcbc => (sys::MAC_XCBC, places.mac(keys)),
        Mac::Cmac => (sys::MAC_CMAC, places.mac(keys)),
        Mac::Ccm if job.seq_hi.is_some() => (sys::MAC_CCM, slot.aad.as_ptr()),
        Mac::Ccm => (sys::MAC_CCM, packet.cast_const()),
    };
    let entry = sys::Packet {
        keys: schedule,
        iv,
        mac: mac_key,
        packet,
        tag: slot.tag.as_mut_ptr(),
        text: layout.text as u32,
        text_len: text_len as u32,
        hash_len: hash_len as u32,
        aad_len: aad_len as u32,
        cipher,
        key_len: if cipher == sys::CIPHER_NULL { 0 } else { suite.cipher_key_len_bytes() as u8 },
        hash,
        tag_len: icv_len as u8,
        open: u32::from(op == Op::Open),
    };
    // A tag that was made goes from the slot into the packet.
    Some((entry, moved || op == Op::Seal))
}

/// AES-CCM's salt in bytes.
const CCM_SALT_LEN: usize = 3;
