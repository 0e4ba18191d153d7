//! Cipher contexts of one worker: one for each cipher and direction, made once.

use crypto::{AesKey, IcvLen, Op};
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;

/// A cipher with its key size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gcm(AesKey),
    Cbc(AesKey),
    ChaCha20Poly1305,
    Ctr(AesKey),
    /// AES-128-CBC for MACs, whose keys so do not drive out those of a cipher.
    Mac,
    /// The ICV's length goes into what is authenticated, and is fixed before the key.
    Ccm(AesKey, IcvLen),
    Camellia(AesKey),
    /// DES, too: with the same key three times.
    TripleDes,
    Sm4Cbc,
    Sm4Ctr,
    Sm4Gcm,
}

/// AES-CCM's nonce in bytes: salt and IV (RFC 4309 §4).
const CCM_NONCE_LEN: usize = 11;

impl Kind {
    /// Each of them, in the order of [`Kind::index`].
    pub(crate) fn all() -> impl Iterator<Item = Kind> {
        let sizes = |of: fn(AesKey) -> Kind| AesKey::ALL.into_iter().map(of);
        let ccm =
            AesKey::ALL.into_iter().flat_map(|key| IcvLen::ALL.map(|icv| Kind::Ccm(key, icv)));
        sizes(Kind::Gcm)
            .chain(sizes(Kind::Cbc))
            .chain([Kind::ChaCha20Poly1305])
            .chain(sizes(Kind::Ctr))
            .chain([Kind::Mac])
            .chain(ccm)
            .chain(sizes(Kind::Camellia))
            .chain([Kind::TripleDes, Kind::Sm4Cbc, Kind::Sm4Ctr, Kind::Sm4Gcm])
    }

    fn index(self) -> usize {
        match self {
            Kind::Gcm(key) => key as usize,
            Kind::Cbc(key) => 3 + key as usize,
            Kind::ChaCha20Poly1305 => 6,
            Kind::Ctr(key) => 7 + key as usize,
            Kind::Mac => 10,
            Kind::Ccm(key, icv) => 11 + 3 * key as usize + icv as usize,
            Kind::Camellia(key) => 20 + key as usize,
            Kind::TripleDes => 23,
            Kind::Sm4Cbc => 24,
            Kind::Sm4Ctr => 25,
            Kind::Sm4Gcm => 26,
        }
    }

    /// Name of the cipher for OpenSSL.
    fn name(self) -> String {
        let bits = |key: AesKey| key.len_bytes() * 8;
        match self {
            Kind::Gcm(key) => format!("AES-{}-GCM", bits(key)),
            Kind::Cbc(key) => format!("AES-{}-CBC", bits(key)),
            Kind::ChaCha20Poly1305 => "ChaCha20-Poly1305".to_owned(),
            Kind::Ctr(key) => format!("AES-{}-CTR", bits(key)),
            Kind::Mac => Kind::Cbc(AesKey::Aes128).name(),
            Kind::Ccm(key, _) => format!("AES-{}-CCM", bits(key)),
            Kind::Camellia(key) => format!("CAMELLIA-{}-CBC", bits(key)),
            Kind::TripleDes => "DES-EDE3-CBC".to_owned(),
            Kind::Sm4Cbc => "SM4-CBC".to_owned(),
            Kind::Sm4Ctr => "SM4-CTR".to_owned(),
            Kind::Sm4Gcm => "SM4-GCM".to_owned(),
        }
    }

    /// True if a build of OpenSSL, or its FIPS provider, may lack it.
    fn may_lack(self) -> bool {
        matches!(
            self,
            Kind::Camellia(_) | Kind::TripleDes | Kind::Sm4Cbc | Kind::Sm4Ctr | Kind::Sm4Gcm
        )
    }
}

/// The contexts of one worker.
pub(crate) struct Contexts {
    /// By [`Kind::index`] and direction; nothing where OpenSSL has no such cipher.
    slots: Vec<Option<Slot>>,
}

impl Contexts {
    /// Makes and keys (with zeros) every context, so that later use allocates nothing.
    ///
    /// # Errors
    /// When a cipher is missing that every OpenSSL has.
    pub(crate) fn new() -> Result<Contexts, ErrorStack> {
        let mut slots = Vec::new();
        for kind in Kind::all() {
            for op in [Op::Seal, Op::Open] {
                match Slot::new(kind, op) {
                    Ok(slot) => slots.push(Some(slot)),
                    Err(_) if kind.may_lack() => slots.push(None),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Contexts { slots })
    }

    /// True if OpenSSL has the cipher.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.slots.get(2 * kind.index()).is_some_and(Option::is_some)
    }

    /// The context for a cipher and direction, ready for one message under `key` and `iv`.
    ///
    /// `owner` names the key, as its address in the session: as long as it is the one that was used in the context
    /// last since [`Contexts::forget_keys`], it is not expanded again.
    pub(crate) fn start(
        &mut self,
        kind: Kind,
        op: Op,
        owner: usize,
        key: &[u8],
        iv: &[u8],
    ) -> Option<&mut CipherCtx> {
        let slot = self.slots.get_mut(2 * kind.index() + usize::from(op == Op::Open))?.as_mut()?;
        let key = (slot.owner != Some(owner)).then_some(key);
        slot.owner = None;
        slot.init(key, iv).ok()?;
        slot.owner = Some(owner);
        Some(&mut slot.ctx)
    }

    /// Replaces every key that was used by zeros.
    pub(crate) fn forget_keys(&mut self) {
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.owner.is_some()) {
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
    fn new(kind: Kind, op: Op) -> Result<Slot, ErrorStack> {
        let cipher = Cipher::fetch(None, &kind.name(), None)?;
        let mut ctx = CipherCtx::new()?;
        match op {
            Op::Seal => ctx.encrypt_init(Some(&cipher), None, None)?,
            Op::Open => ctx.decrypt_init(Some(&cipher), None, None)?,
        }
        if let Kind::Ccm(_, icv) = kind {
            ctx.set_iv_length(CCM_NONCE_LEN)?;
            ctx.set_tag_length(icv.len_bytes())?;
        }
        let mut slot = Slot { ctx, op, owner: None };
        slot.init(Some(&NO_KEY), &NO_IV)?;
        Ok(slot)
    }

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

/// An IV of zeros, as long as the longest: also that of a MAC.
pub(crate) const NO_IV: [u8; 16] = [0; 16];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        for (index, kind) in Kind::all().enumerate() {
            assert_eq!(kind.index(), index);
        }
        let contexts = Contexts::new().unwrap();
        assert_eq!(contexts.slots.len(), 2 * Kind::all().count());
        let mut common = Kind::all().filter(|kind| *kind != Kind::Sm4Gcm);
        assert!(common.all(|kind| contexts.has(kind)), "Debian's OpenSSL has all but SM4-GCM");
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
        assert!(contexts.slots.iter().flatten().all(|slot| slot.owner.is_none()));
        let zeros = encrypt(&mut Contexts::new().unwrap(), 3, &[0; 16]);
        let slot = &mut contexts.slots[2 * Kind::Cbc(AesKey::Aes128).index()];
        let slot = slot.as_mut().unwrap();
        slot.init(None, &[0; 16]).unwrap();
        let mut out = [0; 32];
        slot.ctx.cipher_update(&[0; 16], Some(&mut out)).unwrap();
        assert_eq!(out, zeros, "the context is left with the zero key");
    }
}
