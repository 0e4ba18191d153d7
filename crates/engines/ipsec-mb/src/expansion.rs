//! Keys of AES-GCM, expanded for one packet instead of read.
//!
//! The library multiplies each block of a packet with a power of the hash key of its own, 48 of them at
//! most, so a packet of 512 bytes reads nine cache lines of powers, and three of round keys. While many SAs
//! are busy these lie in memory, and to read them takes longer than to compute them, on processors
//! that multiply four at a time. So the engine has the library's structure a second time, and fills it
//! for one packet from one line ([`keys`]): with the round keys, and as many powers as the packet needs.
//!
//! **Round keys** are AES's key expansion (FIPS 197 §5.2), of AES-128 and AES-256. Those of AES-192, which is
//! rare, are copied.
//!
//! **Powers.** GHASH is over GF(2^128) with bits reflected (NIST SP 800-38D §6.3). The library stores each
//! power shifted left by one bit, reduced, after which the carry-less product of two reflected
//! values needs no shift: `multiply(H^a << 1, H^b << 1)` is `H^(a + b) << 1`.
//!
//! **Trust.** The structure's layout is the library's own business. [`Expansion::new`] expands keys by the
//! library and once more by itself, and where a byte differs there is no `Expansion`. How many powers the library
//! reads for a packet is its own business too: [`Gcm::new`](crate::gcm::Gcm::new) seals packets of every number of
//! blocks, and does without where that shows.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_aesenclast_si128, _mm_loadu_si128, _mm_set_epi8, _mm_set1_epi32,
    _mm_setzero_si128, _mm_shuffle_epi8, _mm_slli_si128, _mm_storeu_si128, _mm_xor_si128,
    _mm512_castsi512_si128, _mm512_clmulepi64_epi128, _mm512_inserti32x4, _mm512_loadu_si512,
    _mm512_set4_epi64, _mm512_shuffle_epi32, _mm512_shuffle_i64x2, _mm512_storeu_si512,
    _mm512_xor_si512,
};

use crypto::{AesKey, IcvLen, KeyLine, Keys, Maker, Suite};
use ipsec_mb_sys as sys;

use crate::keys::{self, BLOCK_LEN, GCM_LEN, GCM_POWERS_AT, Placed, powers_beside, schedule_len};
use crate::manager::Manager;
use crate::slab::{LINE_LEN, Slab};

/// Powers in one register.
const AT_ONCE: usize = LINE_LEN / BLOCK_LEN;

/// Registers of powers at most.
const MOST: usize = (GCM_LEN - GCM_POWERS_AT) / LINE_LEN;

/// Blocks of the longest packet that has a power for each.
pub(crate) const MOST_BLOCKS: usize = MOST * AT_ONCE;

/// The library's structure for one packet's key.
pub(crate) struct Expansion {
    structure: Slab,
    used: bool,
}

impl Expansion {
    /// `None` where the processor lacks the instructions, or where the library uses other values than
    /// these or keeps them elsewhere.
    pub(crate) fn new(manager: &mut Manager, maker: Maker) -> Option<Expansion> {
        if !is_possible() {
            return None;
        }
        let mut expansion = Expansion { structure: Slab::new(GCM_LEN), used: false };
        for key in [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256] {
            let suite = Suite::AesGcm { key, icv: IcvLen::Icv16 };
            let cipher = (1..).take(key.len_bytes()).collect();
            let keys = Keys { cipher, salt: vec![0; suite.salt_len_bytes()], auth: vec![] };
            let session = keys::session(manager, maker, suite, &keys).ok()?;
            let (_, lines) = session.keys(maker)?;
            expansion.fill(lines, key, usize::MAX);
            if !expansion.equal(lines, key) {
                return None;
            }
        }
        expansion.wipe();
        Some(expansion)
    }

    /// Fills the structure for a text of `text_len` bytes, from the lines of an AES-GCM session with
    /// this key size; returns where it is.
    #[inline]
    pub(crate) fn fill(&mut self, lines: &[KeyLine], key: AesKey, text_len: usize) -> *const u8 {
        self.used = true;
        let (keys, to) = (Placed::new(lines), self.structure.line_mut(0).cast());
        // One power for each block; additional data and the block of lengths take the lowest.
        let count = text_len.div_ceil(BLOCK_LEN * AT_ONCE).clamp(1, MOST);
        // SAFETY: the processor has the instructions, else there were no `Expansion`; the lines are those
        // of an AES-GCM session with a key of this size, and the slab has room for a structure.
        unsafe { expand(keys, key, to, count) };
        to
    }

    /// Forgets the key that was used last.
    #[inline]
    pub(crate) fn wipe(&mut self) {
        if core::mem::take(&mut self.used) {
            self.structure.wipe();
        }
    }

    /// Whether every round key and every power is the one that the library has expanded.
    fn equal(&mut self, lines: &[KeyLine], key: AesKey) -> bool {
        let ours: *const u8 = self.structure.line_mut(0).cast_const().cast();
        let theirs = Placed::new(lines).keys();
        let part = |start: *const u8, from: usize, to: usize| {
            // SAFETY: inside the library's structure, in the block of lines as in the slab.
            unsafe { core::slice::from_raw_parts(start.wrapping_add(from), to - from) }
        };
        [(0, schedule_len(key)), (GCM_POWERS_AT, GCM_LEN)]
            .into_iter()
            .all(|(from, to)| part(ours, from, to) == part(theirs, from, to))
    }
}

/// Whether the processor has what [`Expansion::fill`] needs, and the library's structure has the length it had
/// when this was written.
fn is_possible() -> bool {
    is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("vpclmulqdq")
        && sys::culvert_mb_gcm_key_size() == GCM_LEN
}

/// Round keys, and `count` registers of powers, at least one and at most [`MOST`].
///
/// # Safety
/// `keys` are those of an AES-GCM session with a key of this size; `to` is valid for writing [`GCM_LEN`] bytes.
#[target_feature(enable = "aes,avx512f,avx512bw,vpclmulqdq")]
unsafe fn expand(keys: Placed<'_>, key: AesKey, to: *mut u8, count: usize) {
    let last = keys.last_line();
    match key {
        // SAFETY: the last line begins with the key; else this function's own contract, here and below.
        AesKey::Aes128 => unsafe { expand_128(last, to) },
        // SAFETY: as above.
        AesKey::Aes256 => unsafe { expand_256(last, to) },
        // SAFETY: both are structures of the library.
        AesKey::Aes192 => unsafe { copy_round_keys(keys.keys(), to) },
    }
    // SAFETY: the last line ends with so many powers.
    unsafe { multiply_out(last, powers_beside(key), to, count) };
}

/// The round keys of AES-128.
///
/// # Safety
/// `key` is valid for reading 16 bytes, and `to` for writing 11 round keys.
#[inline]
#[target_feature(enable = "aes,ssse3")]
unsafe fn expand_128(key: *const u8, to: *mut u8) {
    // SAFETY: this function's own contract.
    let mut last = unsafe { load_block(key) };
    // SAFETY: as above, here and below.
    unsafe { put_block(to, 0, last) };
    for (number, constant) in (1..).zip(ROUND_CONSTANTS) {
        last = _mm_xor_si128(sums(last), substitute(last, LAST_WORD_ROTATED, constant));
        // SAFETY: as above.
        unsafe { put_block(to, number, last) };
    }
}

/// The round keys of AES-256.
///
/// # Safety
/// `key` is valid for reading 32 bytes, and `to` for writing 15 round keys.
#[inline]
#[target_feature(enable = "aes,ssse3")]
unsafe fn expand_256(key: *const u8, to: *mut u8) {
    // SAFETY: this function's own contract.
    let mut even = unsafe { load_block(key) };
    // SAFETY: as above, here and below.
    let mut odd = unsafe { load_block(key.wrapping_add(BLOCK_LEN)) };
    // SAFETY: as above.
    unsafe { put_block(to, 0, even) };
    // SAFETY: as above.
    unsafe { put_block(to, 1, odd) };
    for (pair, constant) in (1..7).zip(ROUND_CONSTANTS) {
        even = _mm_xor_si128(sums(even), substitute(odd, LAST_WORD_ROTATED, constant));
        // SAFETY: as above.
        unsafe { put_block(to, 2 * pair, even) };
        odd = _mm_xor_si128(sums(odd), substitute(even, LAST_WORD, 0));
        // SAFETY: as above.
        unsafe { put_block(to, 2 * pair + 1, odd) };
    }
    even = _mm_xor_si128(sums(even), substitute(odd, LAST_WORD_ROTATED, ROUND_CONSTANTS[6]));
    // SAFETY: as above.
    unsafe { put_block(to, 14, even) };
}

/// Copies all round keys of a structure.
///
/// # Safety
/// `from` and `to` are valid for [`GCM_LEN`] bytes, for reading and for writing.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn copy_round_keys(from: *const u8, to: *mut u8) {
    for line in 0..GCM_POWERS_AT.div_ceil(LINE_LEN) {
        let at = line * LINE_LEN;
        // SAFETY: inside the structure, this function's own contract.
        let keys = unsafe { load(from.wrapping_add(at)) };
        // SAFETY: as above.
        unsafe { store(to.wrapping_add(at), keys) };
    }
}

/// The first words' running sums: each word of a round key is the sum of all words of the round key before up
/// to its place, and of one more that is the same for all four.
#[inline]
#[target_feature(enable = "sse2")]
fn sums(key: __m128i) -> __m128i {
    let pairs = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs))
}

/// The last word of a round key, its bytes in the order given, substituted, and a round constant added: four
/// times. AES's last round does that, as four equal columns are left as they are by its shift of rows.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn substitute(key: __m128i, order: [i8; 4], constant: i32) -> __m128i {
    let [a, b, c, d] = order;
    let order = _mm_set_epi8(d, c, b, a, d, c, b, a, d, c, b, a, d, c, b, a);
    let words = _mm_shuffle_epi8(key, order);
    match constant {
        0 => _mm_aesenclast_si128(words, _mm_setzero_si128()),
        _ => _mm_aesenclast_si128(words, _mm_set1_epi32(constant)),
    }
}

/// The bytes of a round key's last word, and the same moved by one.
const LAST_WORD: [i8; 4] = [12, 13, 14, 15];
const LAST_WORD_ROTATED: [i8; 4] = [13, 14, 15, 12];

/// Rcon of FIPS 197 §5.2.
const ROUND_CONSTANTS: [i32; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

/// Computes `count` registers of powers, at least one and at most [`MOST`].
///
/// # Safety
/// `last` is valid for reading 64 bytes, whose last ones are the lowest one or two powers, as `known` says; `to`
/// is valid for writing [`GCM_LEN`] bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
unsafe fn multiply_out(last: *const u8, known: usize, to: *mut u8, count: usize) {
    // A register holds four powers, the highest first.
    // SAFETY: this function's own contract.
    let mut a = unsafe { load(last) };
    if known < 2 {
        let first = factor::<FIRST>(a);
        let second = _mm512_castsi512_si128(multiply(first.value, first));
        a = _mm512_inserti32x4::<2>(a, second);
    }
    // H^2 * H^2 and H * H^2 come to stand where H^2 and H were; they belong in the lower half.
    let higher = multiply(a, factor::<SECOND>(a));
    let a = _mm512_shuffle_i64x2::<0b11_10_11_10>(higher, a);
    // SAFETY: this function's own contract, here and below: each number is below `MOST`.
    unsafe { put(to, 0, a) };
    if count <= 1 {
        return;
    }
    let by = factor::<HIGHEST>(a);
    let b = multiply(a, by);
    // SAFETY: as above.
    unsafe { put(to, 1, b) };
    if count <= 2 {
        return;
    }
    let by = factor::<HIGHEST>(b);
    let (c, d) = (multiply(a, by), multiply(b, by));
    // SAFETY: as above.
    unsafe { put_all(to, 2, [c, d]) };
    if count <= 4 {
        return;
    }
    let by = factor::<HIGHEST>(d);
    let next = [multiply(a, by), multiply(b, by), multiply(c, by), multiply(d, by)];
    // SAFETY: as above.
    unsafe { put_all(to, 4, next) };
    if count <= 8 {
        return;
    }
    let by = factor::<HIGHEST>(next[3]);
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

/// What powers are multiplied by: the same four times.
#[derive(Clone, Copy)]
struct Factor {
    value: __m512i,
    /// The value divided by x^64, for the lower halves of what it is multiplied by.
    shifted: __m512i,
}

/// One of four powers as a factor: `LANE` is its place four times, two bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn factor<const LANE: i32>(powers: __m512i) -> Factor {
    let value = _mm512_shuffle_i64x2::<LANE>(powers, powers);
    Factor { value, shifted: divide(value) }
}

/// The places of four powers for [`factor`].
const HIGHEST: i32 = 0;
const SECOND: i32 = 0b10_10_10_10;
const FIRST: i32 = 0b11_11_11_11;

/// Four products in the field, in the representation that the module's documentation tells of: each is divided by
/// x^128.
///
/// With the halves of `a` that is (a.high * by + a.low * (by / x^64)) / x^64, and both products have 192 bits: one
/// division by x^64 is left, where the product of two whole values needs two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn multiply(a: __m512i, by: Factor) -> __m512i {
    let low = _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<LOW_LOW>(a, by.shifted),
        _mm512_clmulepi64_epi128::<HIGH_LOW>(a, by.value),
    );
    let high = _mm512_xor_si512(
        _mm512_clmulepi64_epi128::<LOW_HIGH>(a, by.shifted),
        _mm512_clmulepi64_epi128::<HIGH_HIGH>(a, by.value),
    );
    _mm512_xor_si512(high, divide(low))
}

/// Four values divided by x^64: the lower half is brought up by a product with the upper half of the reduced
/// polynomial, x^127 + x^126 + x^121.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vpclmulqdq")]
fn divide(values: __m512i) -> __m512i {
    const SWAP: i32 = 0b01_00_11_10;
    let polynomial = _mm512_set4_epi64(0, 0xc2 << 56, 0, 0xc2 << 56);
    let step = _mm512_clmulepi64_epi128::<LOW_LOW>(values, polynomial);
    _mm512_xor_si512(_mm512_shuffle_epi32::<SWAP>(values), step)
}

/// Which halves are multiplied: the first operand's, the second's.
const LOW_LOW: i32 = 0x00;
const LOW_HIGH: i32 = 0x10;
const HIGH_LOW: i32 = 0x01;
const HIGH_HIGH: i32 = 0x11;

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
/// `from` is valid for reading a block.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn load_block(from: *const u8) -> __m128i {
    // SAFETY: this function's own contract; any alignment will do.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
/// `to` is valid for writing `number + 1` blocks.
#[inline]
#[target_feature(enable = "sse2")]
unsafe fn put_block(to: *mut u8, number: usize, block: __m128i) {
    // SAFETY: this function's own contract; any alignment will do.
    unsafe { _mm_storeu_si128(to.wrapping_add(number * BLOCK_LEN).cast(), block) };
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

    /// An `Expansion`, and a session with a key of each byte; none where the processor cannot.
    fn expansion() -> Option<(Expansion, impl FnMut(AesKey, u8) -> crypto::Session)> {
        let mut manager = Manager::new().unwrap();
        let maker = keys::maker().unwrap();
        let found = Expansion::new(&mut manager, maker);
        assert!(found.is_some() || !is_possible(), "the library's layout was not recognised");
        let session = move |key: AesKey, byte| {
            let suite = Suite::AesGcm { key, icv: IcvLen::Icv16 };
            let keys = Keys {
                cipher: (byte..).take(key.len_bytes()).collect(),
                salt: vec![0; 4],
                auth: vec![],
            };
            keys::session(&mut manager, maker, suite, &keys).unwrap()
        };
        found.map(|expansion| (expansion, session))
    }

    /// The bytes from `from` to `to` of the library's structure.
    fn bytes<'a>(start: *const u8, (from, to): (usize, usize)) -> &'a [u8] {
        // SAFETY: the tests' sessions and `Expansion` outlive the use, and the structure ends at `GCM_LEN`.
        unsafe { core::slice::from_raw_parts(start.wrapping_add(from), to.min(GCM_LEN) - from) }
    }

    #[test]
    fn what_a_packet_needs_is_what_the_library_has() {
        let Some((mut expansion, mut session)) = expansion() else { return };
        for key in SIZES {
            let (one, other) = (session(key, 0x5a), session(key, 0xa5));
            let (_, lines) = one.keys(keys::maker().unwrap()).unwrap();
            let (_, others) = other.keys(keys::maker().unwrap()).unwrap();
            let theirs = Placed::new(lines).keys();
            for text_len in (0..900).chain([1400, 9000, 65_535, usize::MAX]) {
                // All that was there before is of another key.
                expansion.fill(others, key, usize::MAX);
                let filled = expansion.fill(lines, key, text_len);
                let rounds = (0, schedule_len(key));
                assert_eq!(bytes(filled, rounds), bytes(theirs, rounds), "{key:?}");
                let needed = text_len.div_ceil(BLOCK_LEN).clamp(1, MOST_BLOCKS);
                let part = (GCM_LEN - needed * BLOCK_LEN, GCM_LEN);
                assert_eq!(bytes(filled, part), bytes(theirs, part), "{text_len}");
            }
        }
    }

    #[test]
    fn nothing_is_left_of_a_key() {
        let Some((mut expansion, mut session)) = expansion() else { return };
        let session = session(AesKey::Aes256, 7);
        let (_, lines) = session.keys(keys::maker().unwrap()).unwrap();
        let filled = expansion.fill(lines, AesKey::Aes256, 1400);
        assert!(bytes(filled, (0, GCM_LEN)).iter().any(|byte| *byte != 0));
        expansion.wipe();
        assert!(bytes(filled, (0, GCM_LEN)).iter().all(|byte| *byte == 0));
    }
}
