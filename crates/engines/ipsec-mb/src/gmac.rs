//! AES-GMAC (RFC 4543): direct calls for each packet, with AES-GCM's keys.

use crypto::{AesKey, Job, JobStatus, KeyLine, Layout, Op, Suite, esn_aad};
use ipsec_mb_sys as sys;

use crate::keys::Placed;
use crate::manager::{Manager, direct_call_failed};
use crate::slab::Slab;
use crate::tag::equal;

/// Length of the ICV in bytes.
const ICV_LEN: usize = 16;

/// One worker's AES-GMAC.
pub(crate) struct Gmac {
    calls: sys::GmacCalls,
    context: Slab,
}

impl Gmac {
    /// For the manager's code path.
    pub(crate) fn new(manager: &Manager) -> Gmac {
        let context = Slab::new(sys::culvert_mb_gcm_context_size());
        Gmac { calls: manager.gmac_calls(), context }
    }

    /// Runs a job whose session has these lines and this suite, which is AES-GMAC with this key size.
    #[inline(never)]
    pub(crate) fn run(
        &mut self,
        job: &mut Job<'_>,
        lines: &[KeyLine],
        suite: Suite,
        key: AesKey,
    ) -> JobStatus {
        let Job { op, ref mut packet, header_len, seq_hi, .. } = *job;
        let Some(layout) = Layout::of(suite, header_len, packet.len(), seq_hi.is_some()) else {
            return JobStatus::Failed;
        };
        let Some((covered, icv)) = packet.split_at_mut_checked(layout.icv) else {
            return JobStatus::Failed;
        };
        let Some(tag) = self.tag(covered, layout, seq_hi, lines, key) else {
            // Nothing is encrypted: what was received is plaintext.
            if let (Op::Open, Some(text)) = (op, covered.get_mut(layout.text..)) {
                text.fill(0);
            }
            return JobStatus::Failed;
        };
        if op == Op::Seal {
            icv.copy_from_slice(&tag);
            return JobStatus::Done;
        }
        if equal(&tag, icv) {
            return JobStatus::Done;
        }
        if let Some(text) = covered.get_mut(layout.text..) {
            text.fill(0);
        }
        JobStatus::BadIcv
    }

    /// The tag over header, IV and text (RFC 4543 §3.3), with the high half of the sequence number after the first
    /// four bytes; `None` if the library failed.
    fn tag(
        &mut self,
        covered: &[u8],
        layout: Layout,
        seq_hi: Option<u32>,
        lines: &[KeyLine],
        key: AesKey,
    ) -> Option<[u8; ICV_LEN]> {
        let keys = Placed::new(lines);
        let mut nonce = [0; 12];
        let (salt, iv) = nonce.split_first_chunk_mut::<4>()?;
        *salt = keys.gcm_salt().to_ne_bytes();
        iv.copy_from_slice(covered.get(layout.iv..layout.text)?);
        let esn;
        let (first, rest) = match seq_hi {
            None => (covered, &[][..]),
            Some(hi) => {
                let (header, rest) = covered.split_at_checked(layout.iv)?;
                esn = esn_aad(header, hi)?;
                (&esn[..], rest)
            }
        };
        let at = key as usize;
        let (init, update, finish) =
            (*self.calls.init.get(at)?, *self.calls.update.get(at)?, *self.calls.finish.get(at)?);
        let (keys, context) = (keys.keys().cast(), self.context.line_mut(0));
        let mut tag = [0; ICV_LEN];
        // SAFETY: the lines hold the library's structure for a key of this size (only `keys.rs` makes sessions that
        // get here), the context has its size and alignment, and the nonce 12 bytes.
        unsafe { init(keys, context, nonce.as_ptr(), nonce.len() as u64) };
        for part in [first, rest].into_iter().filter(|part| !part.is_empty()) {
            // SAFETY: as above, after `init`; the part is valid for its length.
            unsafe { update(keys, context, part.as_ptr(), part.len() as u64) };
        }
        // SAFETY: as above, and the tag has its 16 bytes.
        unsafe { finish(keys, context, tag.as_mut_ptr(), ICV_LEN as u64) };
        (!direct_call_failed()).then_some(tag)
    }
}
