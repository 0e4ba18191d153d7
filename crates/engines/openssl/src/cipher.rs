//! Cipher contexts of one worker: one for each cipher and direction, made once.

use crypto::{AesKey, Op};
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;

/// A cipher with its key size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gcm(AesKey),
    ChaCha20Poly1305,
    Cbc(AesKey),
}

impl Kind {
    /// Each of them, in the order of [`Kind::index`].
    const ALL: [Kind; 7] = [
        Kind::Gcm(AesKey::Aes128),
        Kind::Gcm(AesKey::Aes192),
        Kind::Gcm(AesKey::Aes256),
        Kind::Cbc(AesKey::Aes128),
        Kind::Cbc(AesKey::Aes192),
        Kind::Cbc(AesKey::Aes256),
        Kind::ChaCha20Poly1305,
    ];

    fn index(self) -> usize {
        let size = |key| match key {
            AesKey::Aes128 => 0,
            AesKey::Aes192 => 1,
            AesKey::Aes256 => 2,
        };
        match self {
            Kind::Gcm(key) => size(key),
            Kind::Cbc(key) => 3 + size(key),
            Kind::ChaCha20Poly1305 => 6,
        }
    }

    /// OpenSSL's name.
    fn name(self) -> &'static str {
        match self {
            Kind::Gcm(AesKey::Aes128) => "AES-128-GCM",
            Kind::Gcm(AesKey::Aes192) => "AES-192-GCM",
            Kind::Gcm(AesKey::Aes256) => "AES-256-GCM",
            Kind::Cbc(AesKey::Aes128) => "AES-128-CBC",
            Kind::Cbc(AesKey::Aes192) => "AES-192-CBC",
            Kind::Cbc(AesKey::Aes256) => "AES-256-CBC",
            Kind::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }
}

/// The contexts of one worker.
pub(crate) struct Contexts {
    slots: Vec<Slot>,
}

impl Contexts {
    /// Makes and keys (with zeros) every context, so that later use allocates nothing.
    pub(crate) fn new() -> Result<Contexts, ErrorStack> {
        let mut slots = Vec::with_capacity(2 * Kind::ALL.len());
        for kind in Kind::ALL {
            let cipher = Cipher::fetch(None, kind.name(), None)?;
            for op in [Op::Seal, Op::Open] {
                let mut ctx = CipherCtx::new()?;
                match op {
                    Op::Seal => ctx.encrypt_init(Some(&cipher), Some(&NO_KEY), Some(&NO_IV))?,
                    Op::Open => ctx.decrypt_init(Some(&cipher), Some(&NO_KEY), Some(&NO_IV))?,
                }
                slots.push(Slot { ctx, op, owner: None });
            }
        }
        Ok(Contexts { slots })
    }

    /// The context for a cipher and direction, ready for one message under `key` and `iv`.
    ///
    /// `owner` names the session that the key belongs to, as an address: as long as it is the one
    /// that used the context last since [`Contexts::forget_keys`], the key is not expanded again.
    pub(crate) fn start(
        &mut self,
        kind: Kind,
        op: Op,
        owner: usize,
        key: &[u8],
        iv: &[u8],
    ) -> Option<&mut CipherCtx> {
        let slot = self.slots.get_mut(2 * kind.index() + usize::from(op == Op::Open))?;
        let key = (slot.owner != Some(owner)).then_some(key);
        slot.owner = None;
        slot.init(key, iv).ok()?;
        slot.owner = Some(owner);
        Some(&mut slot.ctx)
    }

    /// Replaces every key that was used by zeros.
    pub(crate) fn forget_keys(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.owner.is_some()) {
            slot.owner = None;
            // Nothing can be done about a failure here, and no packet depends on it: the next
            // use sets its own key.
            let _ = slot.init(Some(&NO_KEY), &NO_IV);
        }
    }
}

/// One context and whose key is in it.
struct Slot {
    ctx: CipherCtx,
    op: Op,
    owner: Option<usize>,
}

impl Slot {
    fn init(&mut self, key: Option<&[u8]>, iv: &[u8]) -> Result<(), ErrorStack> {
        match self.op {
            Op::Seal => self.ctx.encrypt_init(None, key, Some(iv))?,
            Op::Open => self.ctx.decrypt_init(None, key, Some(iv))?,
        }
        // For CBC; a context forgets it when it is initialised. The others have no padding.
        self.ctx.set_padding(false);
        Ok(())
    }
}

const NO_KEY: [u8; 32] = [0; 32];
const NO_IV: [u8; 16] = [0; 16];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
        }
        assert_eq!(Contexts::new().unwrap().slots.len(), 14);
    }

    #[test]
    fn keys_are_forgotten() {
        let encrypt = |contexts: &mut Contexts, owner, key: &[u8]| {
            let kind = Kind::Cbc(AesKey::Aes128);
            let ctx = contexts.start(kind, Op::Seal, owner, key, &[0; 16]).unwrap();
            let mut out = [0; 32];
            ctx.cipher_update(&[0; 16], Some(&mut out)).unwrap();
            out
        };
        let mut contexts = Contexts::new().unwrap();
        let first = encrypt(&mut contexts, 1, &[1; 16]);
        assert_eq!(encrypt(&mut contexts, 1, &[9; 16]), first, "same owner keeps its key");
        assert_ne!(encrypt(&mut contexts, 2, &[2; 16]), first);
        contexts.forget_keys();
        assert!(contexts.slots.iter().all(|slot| slot.owner.is_none()));
        let zeros = encrypt(&mut Contexts::new().unwrap(), 3, &[0; 16]);
        let slot = &mut contexts.slots[2 * Kind::Cbc(AesKey::Aes128).index()];
        slot.init(None, &[0; 16]).unwrap();
        let mut out = [0; 32];
        slot.ctx.cipher_update(&[0; 16], Some(&mut out)).unwrap();
        assert_eq!(out, zeros, "the context is left with the zero key");
    }
}
