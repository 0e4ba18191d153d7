//! Powers of AES-GCM's hash key, computed again instead of read.
//!
//! The library multiplies each block of a packet with a power of the hash key of its own, 48 of them at
//! most, so a packet of 512 bytes reads nine cache lines of powers. While many SAs are busy these lie in
//! memory, and to read them takes longer than to compute them from the three lowest ones, on processors
//! that multiply four at a time. So the engine has the library's structure a second time, and fills it
//! for one packet: round keys copied, as many powers as the packet needs.
//!
//! **Field.** GHASH is over GF(2^128) with bits reflected (NIST SP 800-38D §6.3). The library stores each
//! power shifted left by one bit, reduced, after which the carry-less product of two reflected
//! values needs no shift: `multiply(H^a << 1, H^b << 1)` is `H^(a + b) << 1`.
//!
//! **Trust.** The structure's layout is the library's own business. [`Powers::new`] expands keys by the
//! library and computes them again, and where a power differs there are no `Powers`.

use core::arch::x86_64::{
    __m512i, _mm512_bslli_epi128, _mm512_bsrli_epi128, _mm512_castsi512_si128,
    _mm512_clmulepi64_epi128, _mm512_inserti32x4, _mm512_loadu_si512, _mm512_set4_epi64,
    _mm512_shuffle_epi32, _mm512_shuffle_i64x2, _mm512_storeu_si512, _mm512_xor_si512,
};

use crypto::{AesKey, IcvLen, KeyLine, Keys, Maker, Suite};
use ipsec_mb_sys as sys;

use crate::keys::{self, BLOCK_LEN, GCM_LEN, GCM_POWERS_AT, Placed};
use crate::manager::Manager;
use crate::slab::{LINE_LEN, Slab};

/// Powers in one register.
const AT_ONCE: usize = LINE_LEN / BLOCK_LEN;

/// Registers of powers at most.
const MOST: usize = (GCM_LEN - GCM_POWERS_AT) / LINE_LEN;

/// From which length of a packet on, in bytes, its powers are computed rather than read: shorter ones read
/// few lines, and save none or one.
pub(crate) const FROM_LEN: usize = 192;

/// The library's structure for one packet's key.
pub(crate) struct Powers {
    structure: Slab,
    used: bool,
}

impl Powers {
    /// `None` where the processor lacks the instructions, or where the library uses other powers than
    /// these or keeps them elsewhere.
    pub(crate) fn new(manager: &mut Manager, maker: Maker) -> Option<Powers> {
        if !is_possible() {
            return None;
        }
        let mut powers = Powers { structure: Slab::new(GCM_LEN), used: false };
        for key in [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256] {
            let suite = Suite::AesGcm { key, icv: IcvLen::Icv16 };
            let cipher = (1..).take(key.len_bytes()).collect();
            let keys = Keys { cipher, salt: vec![0; suite.salt_len_bytes()], auth: vec![] };
            let session = keys::session(manager, maker, suite, &keys).ok()?;
            let (_, lines) = session.keys(maker)?;
            powers.fill(lines, key, usize::MAX);
            if !powers.equal(lines) {
                return None;
            }
        }
        powers.wipe();
        Some(powers)
    }

    /// Fills the structure for a text of `text_len` bytes, from the lines of an AES-GCM session with
    /// this key size; returns where it is.
    #[inline]
    pub(crate) fn fill(&mut self, lines: &[KeyLine], key: AesKey, text_len: usize) -> *const u8 {
        self.used = true;
        let (keys, to) = (Placed::new(lines), self.structure.line_mut(0).cast());
        // One power for each block, for the block of lengths and, so that nobody has to know whether
        // additional data need one of their own, one more.
        let blocks = text_len.div_ceil(BLOCK_LEN).saturating_add(2);
        let count = blocks.div_ceil(AT_ONCE).min(MOST);
        // SAFETY: the processor has the instructions, else there were no `Powers`; the lines hold the
        // library's structure for a key of this size and the slab has room for another.
        unsafe { expand(keys.keys(), keys.lowest_powers(key), to, count) };
        to
    }

    /// Forgets the key that was used last.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        if core::mem::take(&mut self.used) {
            self.structure.wipe();
        }
    }

    /// Whether every power is the one that the library has expanded.
    fn equal(&mut self, lines: &[KeyLine]) -> bool {
        let ours: *const u8 = self.structure.line_mut(0).cast_const().cast();
        let powers = |start: *const u8| {
            let start = start.wrapping_add(GCM_POWERS_AT);
            // SAFETY: the end of the library's structure, in the block of lines as in the slab.
            unsafe { core::slice::from_raw_parts(start, GCM_LEN - GCM_POWERS_AT) }
        };
        powers(ours) == powers(Placed::new(lines).keys())
    }
}

/// Whether the processor has what [`expand`] needs, and the library's structure has the length it had
/// when this was written.
fn is_possible() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("vpclmulqdq")
        && sys::culvert_mb_gcm_key_size() == GCM_LEN
}

/// Copies the round keys and computes `count` registers of powers, at least one and at most [`MOST`].
///
/// # Safety
/// `from` and `to` are valid for [`GCM_LEN`] bytes, for reading and for writing; `lowest` is valid
/// for reading 64 bytes, whose last 48 are the three lowest powers.
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
unsafe fn expand(from: *const u8, lowest: *const u8, to: *mut u8, count: usize) {
    for line in 0..GCM_POWERS_AT.div_ceil(LINE_LEN) {
        let at = line * LINE_LEN;
        // SAFETY: inside the structure, this function's own contract.
        let keys = unsafe { load(from.wrapping_add(at)) };
        // SAFETY: as above.
        unsafe { store(to.wrapping_add(at), keys) };
    }

    // A register holds four powers, the highest first. H^4 is computed, too.
    // SAFETY: this function's own contract.
    let lowest = unsafe { load(lowest) };
    let second = _mm512_shuffle_i64x2::<0b10_10_10_10>(lowest, lowest);
    let fourth = _mm512_castsi512_si128(multiply(second, second));
    let a = _mm512_inserti32x4::<0>(lowest, fourth);
    // SAFETY: this function's own contract, here and below: each number is below `MOST`.
    unsafe { put(to, 0, a) };
    if count <= 1 {
        return;
    }
    let by = highest(a);
    let b = multiply(a, by);
    // SAFETY: as above.
    unsafe { put(to, 1, b) };
    if count <= 2 {
        return;
    }
    let by = highest(b);
    let (c, d) = (multiply(a, by), multiply(b, by));
    // SAFETY: as above.
    unsafe { put_all(to, 2, [c, d]) };
    if count <= 4 {
        return;
    }
    let by = highest(d);
    let next = [multiply(a, by), multiply(b, by), multiply(c, by), multiply(d, by)];
    // SAFETY: as above.
    unsafe { put_all(to, 4, next) };
    if count <= 8 {
        return;
    }
    let by = highest(next[3]);
    let e = multiply(a, by);
    // SAFETY: as above.
    unsafe { put(to, 8, e) };
    if count <= 9 {
        return;
    }
    let rest = [multiply(b, by), multiply(c, by), multiply(d, by)];
    // SAFETY: as above.
    unsafe { put_all(to, 9, rest) };
}

/// The highest of four powers, four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn highest(powers: __m512i) -> __m512i {
    _mm512_shuffle_i64x2::<0>(powers, powers)
}

/// Four products in the field, each of the values that lie at the same place.
///
/// The product has 256 bits; its lower half is brought down in two steps, each by a product with the upper
/// half of the reduced polynomial, x^127 + x^126 + x^121.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn multiply(a: __m512i, b: __m512i) -> __m512i {
    const LOW_LOW: i32 = 0x00;
    const LOW_HIGH: i32 = 0x01;
    const HIGH_LOW: i32 = 0x10;
    const HIGH_HIGH: i32 = 0x11;
    const SWAP: i32 = 0b01_00_11_10;
    let polynomial = _mm512_set4_epi64(0, 0xc2 << 56, 0, 0xc2 << 56);

    let low = _mm512_clmulepi64_epi128::<LOW_LOW>(a, b);
    let high = _mm512_clmulepi64_epi128::<HIGH_HIGH>(a, b);
    let middle = _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<LOW_HIGH>(a, b),
        _mm512_clmulepi64_epi128::<HIGH_LOW>(a, b),
    );
    let low = _mm512_xor_si512(low, _mm512_bslli_epi128::<8>(middle));
    let step = _mm512_clmulepi64_epi128::<LOW_LOW>(low, polynomial);
    let low = _mm512_xor_si512(_mm512_shuffle_epi32::<SWAP>(low), step);
    let step = _mm512_clmulepi64_epi128::<LOW_LOW>(low, polynomial);
    let low = _mm512_xor_si512(_mm512_shuffle_epi32::<SWAP>(low), step);
    let high = _mm512_xor_si512(high, _mm512_bsrli_epi128::<8>(middle));
    _mm512_xor_si512(high, low)
}

/// Stores registers from number `first` on.
///
/// # Safety
/// As [`put`], for each of them.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put_all<const N: usize>(to: *mut u8, first: usize, powers: [__m512i; N]) {
    for (number, powers) in (first..).zip(powers) {
        // SAFETY: this function's own contract.
        unsafe { put(to, number, powers) };
    }
}

/// Stores register `number`: the lowest powers, number 0, end the structure.
///
/// # Safety
/// `to` is valid for writing [`GCM_LEN`] bytes, and `number` is below [`MOST`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put(to: *mut u8, number: usize, powers: __m512i) {
    // SAFETY: inside the structure, whose end the powers are.
    unsafe { store(to.wrapping_add(GCM_LEN - (number + 1) * LINE_LEN), powers) };
}

/// # Safety
/// `at` is valid for reading 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(at: *const u8) -> __m512i {
    // SAFETY: this function's own contract; any alignment will do.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// # Safety
/// `at` is valid for writing 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(at: *mut u8, value: __m512i) {
    // SAFETY: this function's own contract; any alignment will do.
    unsafe { _mm512_storeu_si512(at.cast(), value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [AesKey; 3] = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];

    /// `Powers`, and a session with a key of each byte; none where the processor cannot.
    fn powers() -> Option<(Powers, impl FnMut(AesKey, u8) -> crypto::Session)> {
        let mut manager = Manager::new().unwrap();
        let maker = keys::maker().unwrap();
        let found = Powers::new(&mut manager, maker);
        assert!(found.is_some() || !is_possible(), "the library's layout was not recognised");
        let session = move |key: AesKey, byte| {
            let suite = Suite::AesGcm { key, icv: IcvLen::Icv16 };
            let keys = Keys { cipher: vec![byte; key.len_bytes()], salt: vec![0; 4], auth: vec![] };
            keys::session(&mut manager, maker, suite, &keys).unwrap()
        };
        found.map(|powers| (powers, session))
    }

    /// The bytes from `from` to `to` of the library's structure.
    fn bytes<'a>(start: *const u8, (from, to): (usize, usize)) -> &'a [u8] {
        // SAFETY: the tests' sessions and `Powers` outlive the use, and the structure ends at `GCM_LEN`.
        unsafe { core::slice::from_raw_parts(start.wrapping_add(from), to.min(GCM_LEN) - from) }
    }

    #[test]
    fn what_a_packet_needs_is_what_the_library_has() {
        let Some((mut powers, mut session)) = powers() else { return };
        for key in SIZES {
            let (one, other) = (session(key, 0x5a), session(key, 0xa5));
            let (_, lines) = one.keys(keys::maker().unwrap()).unwrap();
            let (_, others) = other.keys(keys::maker().unwrap()).unwrap();
            let theirs = Placed::new(lines).keys();
            for text_len in (0..900).chain([1400, 9000, 65_535, usize::MAX]) {
                // All that was there before is of another key.
                powers.fill(others, key, usize::MAX);
                let filled = powers.fill(lines, key, text_len);
                let rounds = (0, key.len_bytes() / 4 * 16 + 7 * 16);
                assert_eq!(bytes(filled, rounds), bytes(theirs, rounds), "{key:?}");
                let needed = (text_len.div_ceil(BLOCK_LEN) + 2).min(48);
                let part = (GCM_LEN - needed * BLOCK_LEN, GCM_LEN);
                assert_eq!(bytes(filled, part), bytes(theirs, part), "{text_len}");
            }
        }
    }

    #[test]
    fn nothing_is_left_of_a_key() {
        let Some((mut powers, mut session)) = powers() else { return };
        let session = session(AesKey::Aes256, 7);
        let (_, lines) = session.keys(keys::maker().unwrap()).unwrap();
        let filled = powers.fill(lines, AesKey::Aes256, 1400);
        assert!(bytes(filled, (0, GCM_LEN)).iter().any(|byte| *byte != 0));
        powers.wipe();
        assert!(bytes(filled, (0, GCM_LEN)).iter().all(|byte| *byte == 0));
    }
}
