//! AES-128-GCM and AES-128-GMAC over one ESP packet (RFC 4106, RFC 4543).

use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The cipher cannot be set up.
#[derive(Debug)]
pub struct EngineError(ErrorStack);

impl core::fmt::Display for EngineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OpenSSL has no AES-128-GCM: {}", self.0)
    }
}

impl std::error::Error for EngineError {}

/// A key and its salt as they lie in a table: words as registers have them.
#[derive(Clone, Default, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub words: [u32; 4],
    pub salt: u32,
}

impl Key {
    /// The last four bytes come first.
    pub fn new(key: &[u8; 16], salt: &[u8; 4]) -> Key {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().rev().zip(key.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Key { words, salt: u32::from_be_bytes(*salt) }
    }

    fn bytes(&self) -> [u8; 16] {
        let mut key = [0; 16];
        for (to, word) in key.chunks_exact_mut(4).zip(self.words.iter().rev()) {
            to.copy_from_slice(&word.to_be_bytes());
        }
        key
    }
}

/// Not the key.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

/// The parts of an ESP packet: SPI and number, IV, text with trailer, ICV.
struct Parts<'p> {
    header: &'p [u8],
    iv: &'p [u8],
    text: &'p mut [u8],
    icv: &'p mut [u8],
}

impl<'p> Parts<'p> {
    fn of(esp: &'p mut [u8]) -> Option<Parts<'p>> {
        let (header, rest) = esp.split_at_mut_checked(HEADER_LEN)?;
        let (iv, rest) = rest.split_at_mut_checked(IV_LEN)?;
        let (text, icv) = rest.split_at_mut_checked(rest.len().checked_sub(ICV_LEN)?)?;
        Some(Parts { header, iv, text, icv })
    }
}

/// The cipher section.
pub(crate) struct Engine {
    seal: CipherCtx,
    open: CipherCtx,
}

impl Engine {
    pub fn new() -> Result<Engine, EngineError> {
        let contexts = || {
            let cipher = Cipher::fetch(None, "AES-128-GCM", None)?;
            let (mut seal, mut open) = (CipherCtx::new()?, CipherCtx::new()?);
            seal.encrypt_init(Some(&cipher), None, None)?;
            open.decrypt_init(Some(&cipher), None, None)?;
            Ok(Engine { seal, open })
        };
        contexts().map_err(EngineError)
    }

    /// Encrypts, unless it is GMAC, and writes the ICV; `None` if the packet is too short.
    pub fn seal(&mut self, key: &Key, is_encrypted: bool, esp: &mut [u8]) -> Option<()> {
        let Parts { header, iv, text, icv } = Parts::of(esp)?;
        let ctx = &mut self.seal;
        let mut bytes = key.bytes();
        let started = ctx.encrypt_init(None, Some(&bytes), Some(&nonce(key.salt, iv)));
        bytes.zeroize();
        started.and_then(|()| run(ctx, is_encrypted, header, iv, text)).ok()?;
        ctx.cipher_final(&mut []).and_then(|_| ctx.tag(icv)).ok()
    }

    /// Checks the ICV and decrypts, unless it is GMAC; `None` if the packet is too short. A packet whose ICV is wrong has
    /// no text any more.
    pub fn open(&mut self, key: &Key, is_encrypted: bool, esp: &mut [u8]) -> Option<bool> {
        let Parts { header, iv, text, icv } = Parts::of(esp)?;
        let ctx = &mut self.open;
        let mut bytes = key.bytes();
        let started = ctx.decrypt_init(None, Some(&bytes), Some(&nonce(key.salt, iv)));
        bytes.zeroize();
        let opened = started
            .and_then(|()| ctx.set_tag(icv))
            .and_then(|()| run(ctx, is_encrypted, header, iv, text))
            .and_then(|()| ctx.cipher_final(&mut []));
        if opened.is_err() {
            text.fill(0);
        }
        Some(opened.is_ok())
    }
}

fn nonce(salt: u32, iv: &[u8]) -> [u8; 12] {
    let mut nonce = [0; 12];
    let salt = salt.to_be_bytes();
    for (to, from) in nonce.iter_mut().zip(salt.iter().chain(iv)) {
        *to = *from;
    }
    nonce
}

/// Encrypted: the header is authenticated, the text encrypted. Else header, IV and text are authenticated.
fn run(
    ctx: &mut CipherCtx,
    is_encrypted: bool,
    header: &[u8],
    iv: &[u8],
    text: &mut [u8],
) -> Result<(), ErrorStack> {
    ctx.cipher_update(header, None)?;
    if is_encrypted {
        // Empty input ends the message for OpenSSL.
        return match text.is_empty() {
            true => Ok(()),
            false => ctx.cipher_update_inplace(text, text.len()).map(|_| ()),
        };
    }
    ctx.cipher_update(iv, None)?;
    match text.is_empty() {
        true => Ok(()),
        false => ctx.cipher_update(text, None).map(|_| ()),
    }
}

/// SPI and sequence number.
const HEADER_LEN: usize = 8;
const IV_LEN: usize = 8;
pub(crate) const ICV_LEN: usize = 16;
/// Bytes of an ESP packet without text.
pub(crate) const LEAST_LEN: usize = HEADER_LEN + IV_LEN + ICV_LEN;
