//! The library without an engine around it, for benchmarks: loops in C (`shim/bare.c` of
//! `ipsec-mb-sys`).

use core::ptr;

use arrayvec::ArrayVec;
use crypto::{AesKey, Bare, EngineError, Keys, Layout, Maker, Op, Session, Suite};
use ipsec_mb_sys as sys;

use crate::code_path::CodePath;
use crate::keys::{self, Placed};
use crate::manager::Manager;
use crate::slab::Slab;
use crate::suites::cbc_hmac;

/// Bytes of SPI and sequence number.
const HEADER_LEN: usize = 8;

/// One key and what running it needs.
pub(crate) struct IpsecMbBare {
    maker: Maker,
    manager: Manager,
    calls: sys::GcmCalls,
    context: Slab,
    session: Session,
}

impl IpsecMbBare {
    /// Expands the keys.
    ///
    /// # Errors
    /// When the keys do not fit the suite or the library cannot be set up.
    pub(crate) fn new(suite: Suite, keys: &Keys) -> Result<IpsecMbBare, EngineError> {
        let maker = keys::maker()?;
        let mut manager = Manager::new(CodePath::default())?;
        let calls = manager.gcm_calls();
        let context = Slab::new(sys::culvert_mb_gcm_context_size());
        let session = keys::session(&mut manager, maker, suite, keys)?;
        Ok(IpsecMbBare { maker, manager, calls, context, session })
    }

    /// Runs one burst whose lengths fit the suite.
    fn burst(&mut self, op: Op, spans: &ArrayVec<sys::Span, { sys::BURST_LEN }>) -> usize {
        let Some((suite, lines)) = self.session.keys(self.maker) else { return 0 };
        let key = key(suite, Placed::new(lines));
        let (n, open) = (spans.len() as u32, u32::from(op == Op::Open));
        if let Suite::AesGcm { key: size, .. } = suite {
            let calls = if open == 1 { &self.calls.open } else { &self.calls.seal };
            let call = match size {
                AesKey::Aes128 => calls[0],
                AesKey::Aes192 => calls[1],
                AesKey::Aes256 => calls[2],
            };
            let context = self.context.line_mut(0);
            // SAFETY: the spans are whole packets of this suite, borrowed until this returns; key
            // and context are the library's own, of this key size.
            return unsafe { sys::culvert_mb_bare_gcm(call, &key, context, spans.as_ptr(), n, open) }
                as usize;
        }
        let (raw, batch) = self.manager.raw();
        let done = match suite {
            // SAFETY: as above, and no more packets than a burst takes.
            Suite::ChaCha20Poly1305 => unsafe {
                sys::culvert_mb_bare_chacha(raw, &key, spans.as_ptr(), n, open)
            },
            // SAFETY: as above.
            _ => unsafe { sys::culvert_mb_bare_hmac(raw, batch, &key, spans.as_ptr(), n, open) },
        };
        done as usize
    }
}

impl Bare for IpsecMbBare {
    fn run(&mut self, op: Op, packets: &mut [&mut [u8]]) -> usize {
        let suite = self.session.suite();
        // Packets of one length follow one another: each length is judged once.
        let mut judged = (0, false);
        let mut fits = |len: usize| {
            if len != judged.0 {
                let layout = Layout::of(suite, HEADER_LEN, len, false);
                judged = (len, len < 1 << 16 && layout.is_some_and(|l| l.icv > l.text));
            }
            judged.1
        };
        let mut done = 0;
        for burst in packets.chunks_mut(sys::BURST_LEN) {
            let mut spans: ArrayVec<sys::Span, { sys::BURST_LEN }> = ArrayVec::new();
            for packet in burst.iter_mut().filter(|packet| fits(packet.len())) {
                // There is room: a chunk is no longer than a burst.
                let _ = spans.try_push(sys::Span { start: packet.as_mut_ptr(), len: packet.len() });
            }
            done += self.burst(op, &spans);
        }
        done
    }
}

/// The shim's form of a key.
fn key(suite: Suite, placed: Placed<'_>) -> sys::BareKey {
    let mut key = sys::BareKey {
        keys: placed.keys(),
        dec: ptr::null(),
        mac: ptr::null(),
        salt: 0,
        key_len: 0,
        hmac: 0,
        iv_len: suite.iv_len_bytes() as u32,
        tag_len: suite.icv_len_bytes() as u32,
        outer_at: 0,
    };
    match suite {
        Suite::AesGcm { .. } => key.salt = placed.gcm_salt(),
        Suite::ChaCha20Poly1305 => key.salt = placed.chacha_salt(),
        Suite::Separate { cipher, integrity } => {
            // Sessions are of suites that the engine has.
            if let Some((size, hmac)) = cbc_hmac(cipher, integrity) {
                key.mac = placed.mac(size);
                key.hmac = hmac.code().into();
                key.outer_at = sys::outer_at(hmac.code()) as u32;
                if let Some(size) = size {
                    key.dec = placed.decryption(size);
                    key.key_len = size.len_bytes() as u32;
                }
            }
        }
        Suite::AesCcm { .. } | Suite::AesGmac { .. } | Suite::Sm4Gcm { .. } | Suite::None => {}
    }
    key
}
