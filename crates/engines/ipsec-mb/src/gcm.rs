//! AES-GCM: one direct call for each packet.
//!
//! Data that the library reads right after it was written (nonce, additional data) is written by one
//! store as wide as the load: a load that spans two stores waits until both have left the store
//! buffer, which costs as much as encrypting a short packet.

use core::arch::x86_64::{__m128i, _mm_set_epi64x, _mm_store_si128};

use crypto::{AesKey, Job, JobStatus, KeyLine, Layout, Op, Suite};
use ipsec_mb_sys as sys;

use crate::keys::Placed;
use crate::manager::{Manager, direct_call_failed};
use crate::slab::Slab;
use crate::tag::equal;

/// Length of the nonce in bytes: salt and IV (RFC 4106 §4).
const NONCE_LEN: usize = 12;

/// Length of the additional data with extended sequence numbers, in bytes (RFC 4106 §5).
const ESN_AAD_LEN: usize = 12;

/// One worker's AES-GCM.
pub(crate) struct Gcm {
    calls: sys::GcmCalls,
    context: Slab,
    nonce: Wide,
    aad: Wide,
    tag: Wide,
}

impl Gcm {
    /// For the manager's code path.
    pub(crate) fn new(manager: &mut Manager) -> Gcm {
        Gcm {
            calls: manager.gcm_calls(),
            context: Slab::new(sys::culvert_mb_gcm_context_size()),
            nonce: Wide([0; 16]),
            aad: Wide([0; 16]),
            tag: Wide([0; 16]),
        }
    }

    /// Runs a job whose session has these lines and this suite, which is AES-GCM with this key
    /// size.
    #[inline(always)]
    pub(crate) fn run(
        &mut self,
        job: &mut Job<'_>,
        lines: &[KeyLine],
        suite: Suite,
        key: AesKey,
    ) -> JobStatus {
        // 1. The packet's parts.
        let Job { op, ref mut packet, header_len, seq_hi, .. } = *job;
        let Some(layout) = Layout::of(suite, header_len, packet.len(), seq_hi.is_some()) else {
            return JobStatus::Failed;
        };
        let Layout { iv: iv_at, text: text_at, icv: icv_at } = layout;
        let Some((header, rest)) = packet.split_at_checked(iv_at) else {
            return JobStatus::Failed;
        };
        let Some(iv) = rest.first_chunk::<8>() else {
            return JobStatus::Failed;
        };

        // 2. Nonce and additional data.
        let keys = Placed::new(lines);
        self.nonce.set_nonce(keys.gcm_salt(), iv);
        if let Some(hi) = seq_hi {
            let Some(header) = header.first_chunk::<8>() else {
                return JobStatus::Failed;
            };
            self.aad.set_esn(header, hi);
        }

        // 3. The call.
        let calls = match op {
            Op::Seal => &self.calls.seal,
            Op::Open => &self.calls.open,
        };
        let call = calls[number_of(key)];
        let icv_len = packet.len() - icv_at;
        let start = packet.as_mut_ptr();
        let text = start.wrapping_add(text_at);
        let (aad, aad_len) = match seq_hi {
            None => (start.cast_const(), iv_at),
            Some(_) => (self.aad.0.as_ptr(), ESN_AAD_LEN),
        };
        let tag = match op {
            Op::Seal => start.wrapping_add(icv_at),
            Op::Open => self.tag.0.as_mut_ptr(),
        };
        // SAFETY: the lines hold the library's structure for a key of this size (only `keys.rs`
        // makes sessions that get here); the context has its size and alignment; text, additional
        // data and tag lie inside the packet, as `Layout` says, or inside `self`; the nonce has
        // its 12 bytes. In place is allowed.
        unsafe {
            call(
                keys.keys().cast(),
                self.context.line_mut(0),
                text,
                text,
                (icv_at - text_at) as u64,
                self.nonce.0.as_ptr(),
                aad,
                aad_len as u64,
                tag,
                icv_len as u64,
            );
        }
        let failed = direct_call_failed();

        // 4. The tag.
        if op == Op::Seal {
            return if failed { JobStatus::Failed } else { JobStatus::Done };
        }
        let verified = match (self.tag.0.get(..icv_len), packet.get(icv_at..)) {
            (Some(tag), Some(icv)) => equal(tag, icv),
            _ => false,
        };
        if verified && !failed {
            return JobStatus::Done;
        }
        if let Some(text) = packet.get_mut(text_at..icv_at) {
            text.fill(0);
        }
        if failed { JobStatus::Failed } else { JobStatus::BadIcv }
    }
}

/// A key size's place among the three.
#[inline]
fn number_of(key: AesKey) -> usize {
    match key {
        AesKey::Aes128 => 0,
        AesKey::Aes192 => 1,
        AesKey::Aes256 => 2,
    }
}

/// Sixteen bytes that are written by one store.
#[repr(C, align(16))]
struct Wide([u8; 16]);

const _: () = assert!(NONCE_LEN <= size_of::<Wide>() && ESN_AAD_LEN <= size_of::<Wide>());

impl Wide {
    /// Salt, then IV.
    #[inline]
    fn set_nonce(&mut self, salt: u32, iv: &[u8; 8]) {
        let iv = u64::from_le_bytes(*iv);
        self.set(u64::from(salt.to_le()) | iv << 32, iv >> 32);
    }

    /// SPI, high half of the sequence number, low half: `header` is SPI and low half.
    #[inline]
    fn set_esn(&mut self, header: &[u8; 8], hi: u32) {
        let header = u64::from_le_bytes(*header);
        let hi = u64::from(hi.swap_bytes());
        self.set(header & 0xffff_ffff | hi << 32, header >> 32);
    }

    /// The low half first, each in little-endian order.
    #[inline]
    fn set(&mut self, low: u64, high: u64) {
        // SAFETY: every x86-64 processor has SSE2.
        let wide = unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) };
        let place: *mut __m128i = self.0.as_mut_ptr().cast();
        // SAFETY: the sixteen bytes of `self`, aligned to sixteen.
        unsafe { _mm_store_si128(place, wide) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_is_salt_then_iv() {
        let mut wide = Wide([0xff; 16]);
        wide.set_nonce(u32::from_ne_bytes([1, 2, 3, 4]), &[5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(wide.0[..NONCE_LEN], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn additional_data_with_esn_is_what_the_interface_says() {
        let mut wide = Wide([0xff; 16]);
        for (header, hi) in [([1, 2, 3, 4, 5, 6, 7, 8], 0x0a0b_0c0d), ([0xfe; 8], u32::MAX)] {
            wide.set_esn(&header, hi);
            assert_eq!(wide.0[..ESN_AAD_LEN], crypto::esn_aad(&header, hi).unwrap());
        }
    }
}
