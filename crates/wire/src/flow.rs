//! The key of a flow, as a few integers to compare and to hash.
//!
//! ```text
//!   word      0                     1          2          3          4
//!   IPv4      source, destination   0          0          0          ports, protocol, family, fragment
//!   IPv6      source ............              destination ........  the same
//! ```
//!
//! Addresses and ports as they lie in the packet, the first byte in the lowest place.
//!
//! The traffic class, the TTL and the lengths are no part of it: they differ between the packets
//! of one flow.

use core::net::{IpAddr, Ipv6Addr};

use crate::fragment::Fragment;
use crate::headers::{Family, Headers};

/// Addresses, ports, protocol, family and fragment state of a packet.
///
/// Two packets have equal keys just when all of these are equal. Fragments are flows of their own:
/// a later fragment has no ports, and a first one must not lead where its whole datagram went.
/// The default is that of no packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowKey {
    words: [u64; WORDS],
}

impl PartialEq for FlowKey {
    /// Without the call that comparing arrays is: all words at once.
    #[inline(always)]
    fn eq(&self, other: &FlowKey) -> bool {
        self.words.iter().zip(&other.words).fold(0, |unlike, (a, b)| unlike | (a ^ b)) == 0
    }
}

impl Eq for FlowKey {}

const WORDS: usize = 5;

const _: () = assert!(size_of::<FlowKey>() == 40, "small enough for a cache line with its value");

impl FlowKey {
    /// The key of the packet that the headers were parsed from.
    #[inline]
    pub fn of(h: &Headers) -> FlowKey {
        let (addresses, family) = match (&h.src, &h.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let [src, dst] = [src, dst].map(|address| u32::from_le_bytes(address.octets()));
                ([u64::from(src) | u64::from(dst) << 32, 0, 0, 0], Family::V4)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => (both(src, dst), Family::V6),
            _ => (mapped(h), Family::V6),
        };
        let ports = u32::from(h.src_port.swap_bytes()) | u32::from(h.dst_port.swap_bytes()) << 16;
        FlowKey::plain(addresses, ports, h.protocol, family as u8, h.fragment)
    }

    /// From the words of the addresses, and the ports as they lie in the packet; `family` as in
    /// [`Family`].
    #[inline(always)]
    pub(crate) const fn plain(
        addresses: [u64; 4],
        ports: u32,
        protocol: u8,
        family: u8,
        fragment: Fragment,
    ) -> FlowKey {
        let kinds = (protocol as u64) << 16 | (family as u64) << 8 | fragment as u64;
        let [a, b, c, d] = addresses;
        FlowKey { words: [a, b, c, d, (ports as u64) << 32 | kinds] }
    }

    /// The ports, source first, in host byte order; as [`Headers`] has them.
    #[inline]
    pub const fn ports(&self) -> (u16, u16) {
        let [a, b, c, d] = ((self.words[4] >> 32) as u32).to_le_bytes();
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// The source address.
    #[inline]
    pub fn src(&self) -> IpAddr {
        let [a, b, ..] = self.words;
        match self.is_v6() {
            false => IpAddr::V4((a as u32).to_le_bytes().into()),
            true => IpAddr::V6(octets(a, b).into()),
        }
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        let [a, _, c, d, _] = self.words;
        match self.is_v6() {
            false => IpAddr::V4(((a >> 32) as u32).to_le_bytes().into()),
            true => IpAddr::V6(octets(c, d).into()),
        }
    }

    /// The destination in words that two keys have in common just when they have the address.
    #[inline(always)]
    pub const fn dst_words(&self) -> [u64; 3] {
        let [a, _, c, d, kinds] = self.words;
        // IPv6's first word has nothing to do with the destination.
        let v4 = if self.is_v6() { 0 } else { a >> 32 };
        [c | v4, d, kinds >> 8 & 1]
    }

    /// The source, as [`FlowKey::dst_words`].
    #[inline(always)]
    pub const fn src_words(&self) -> [u64; 3] {
        let [a, b, .., kinds] = self.words;
        // The other half of IPv4's first word is the destination.
        let a = if self.is_v6() { a } else { a as u32 as u64 };
        [a, b, kinds >> 8 & 1]
    }

    #[inline(always)]
    const fn is_v6(&self) -> bool {
        self.words[4] >> 8 & 1 != 0
    }

    /// A hash whose low bits and high bits serve alike.
    ///
    /// Sums of products of words that secret keys were added to (the NH function of RFC 4418 §5.2,
    /// on wider words), then a folded product: a sender that does not know the seed cannot choose
    /// flows that collide. Not for authentication.
    #[inline(always)]
    pub const fn hash(&self, seed: &FlowSeed) -> u64 {
        let (w, k) = (&self.words, &seed.keys);
        let first = product(w[0].wrapping_add(k[0]), w[1].wrapping_add(k[1]));
        let third = product(w[4].wrapping_add(k[4]), k[5]);
        let mut sum = first.wrapping_add(third);
        // IPv4's addresses are in the first two words.
        if self.is_v6() {
            sum = sum.wrapping_add(product(w[2].wrapping_add(k[2]), w[3].wrapping_add(k[3])));
        }
        let mixed = product(sum as u64 ^ k[6], (sum >> 64) as u64 ^ k[7]);
        mixed as u64 ^ (mixed >> 64) as u64
    }
}

/// Seed of the hashes of a table's keys: 64 bits of secret, expanded.
#[derive(Clone)]
pub struct FlowSeed {
    keys: [u64; 8],
}

impl FlowSeed {
    /// Expands a random number that nobody outside the process knows.
    pub const fn new(random: u64) -> FlowSeed {
        let mut keys = [0; 8];
        let mut state = random;
        let mut i = 0;
        while i < keys.len() {
            // A Weyl sequence and a finaliser: one bit of the number changes all keys, and no two
            // keys differ by what somebody could know.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            // Odd: as a factor it loses no bit of the other one.
            keys[i] = (z ^ z >> 31) | 1;
            i += 1;
        }
        FlowSeed { keys }
    }
}

impl core::fmt::Debug for FlowSeed {
    /// Shows nothing of the keys: a reader of the log that knew them could choose collisions.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FlowSeed")
    }
}

/// Two IPv6 addresses as words.
#[inline(always)]
fn both(src: &Ipv6Addr, dst: &Ipv6Addr) -> [u64; 4] {
    let [src, dst] = [src, dst].map(|address| u128::from_le_bytes(address.octets()));
    [src as u64, (src >> 64) as u64, dst as u64, (dst >> 64) as u64]
}

/// An IPv6 address from its words.
#[inline(always)]
const fn octets(low: u64, high: u64) -> [u8; 16] {
    (low as u128 | (high as u128) << 64).to_le_bytes()
}

/// Addresses of two families, which no packet has.
#[cold]
fn mapped(h: &Headers) -> [u64; 4] {
    let [src, dst] = [h.src, h.dst].map(|address| match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    });
    both(&src, &dst)
}

const fn product(a: u64, b: u64) -> u128 {
    a as u128 * b as u128
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn headers(src: IpAddr, dst: IpAddr, protocol: u8, ports: (u16, u16)) -> Headers {
        Headers {
            src,
            dst,
            protocol,
            ttl: 64,
            traffic_class: 0,
            dont_fragment: false,
            fragment: Fragment::Whole,
            header_len: if src.is_ipv4() { 20 } else { 40 },
            total_len: 100,
            src_port: ports.0,
            dst_port: ports.1,
        }
    }

    fn v4(src: u32, dst: u32, ports: (u16, u16)) -> FlowKey {
        FlowKey::of(&headers(IpAddr::V4(src.into()), IpAddr::V4(dst.into()), 17, ports))
    }

    fn v6(src: u128, dst: u128, ports: (u16, u16)) -> FlowKey {
        FlowKey::of(&headers(IpAddr::V6(src.into()), IpAddr::V6(dst.into()), 17, ports))
    }

    /// The parts of the key, compared field by field.
    fn parts(h: &Headers) -> impl Eq + core::fmt::Debug {
        (h.src, h.dst, h.protocol, h.src_port, h.dst_port, h.fragment)
    }

    fn any_headers() -> impl Strategy<Value = Headers> {
        // Few values each, so that pairs are often equal in all parts or differ in just one.
        let address = (any::<bool>(), 0u128..3, 0u32..3)
            .prop_map(|(high, low, shift)| low << (shift * 40) | u128::from(high) << 127);
        let fragment =
            prop_oneof![Just(Fragment::Whole), Just(Fragment::First), Just(Fragment::Later)];
        (any::<bool>(), address.clone(), address, 0u8..3, (0u16..2, 0u16..2), fragment, 0u8..4)
            .prop_map(|(is_v4, src, dst, protocol, ports, fragment, other)| {
                let address = |bits: u128| match is_v4 {
                    true => IpAddr::V4((bits as u32 | (bits >> 96) as u32).into()),
                    false => IpAddr::V6(bits.into()),
                };
                let h = headers(address(src), address(dst), protocol, ports);
                let total_len = 100 + u16::from(other);
                Headers { fragment, ttl: other, traffic_class: other, total_len, ..h }
            })
    }

    /// Flows as real traffic has them: each list differs in few bits.
    fn families_of_flows() -> Vec<(&'static str, Vec<FlowKey>)> {
        const COUNT: u32 = 1 << 14;
        let list = |key: &dyn Fn(u32) -> FlowKey| (0..COUNT).map(key).collect::<Vec<_>>();
        let net = 0xfd00_u128 << 112;
        vec![
            ("source hosts", list(&|i| v4(0x0a00_0000 + i, 0xc0a8_0101, (5000, 80)))),
            ("source nets", list(&|i| v4(0x0a00_0001 + (i << 10), 0xc0a8_0101, (5000, 80)))),
            ("destinations", list(&|i| v4(0x0a00_0001, 0xc0a8_0000 + i, (5000, 80)))),
            ("source ports", list(&|i| v4(0x0a00_0001, 0xc0a8_0101, (i as u16, 80)))),
            ("destination ports", list(&|i| v4(0x0a00_0001, 0xc0a8_0101, (80, i as u16)))),
            ("both ports", list(&|i| v4(1, 2, ((i >> 7) as u16, (i & 127) as u16)))),
            ("both hosts", list(&|i| v4(0x0a00_0000 + (i >> 7), 0x0b00_0000 + (i & 127), (1, 1)))),
            ("v6 hosts", list(&|i| v6(net | u128::from(i), net | 1 << 64, (5000, 80)))),
            ("v6 nets", list(&|i| v6(net | u128::from(i) << 64, net | 1, (5000, 80)))),
            ("v6 top", list(&|i| v6(u128::from(i) << 114, 1, (5000, 80)))),
            ("v6 both", list(&|i| v6(net | u128::from(i), net | u128::from(i) << 16, (1, 1)))),
        ]
    }

    /// The key that these words make with one family or the other: IPv4's addresses are in the first.
    fn of_family(mut words: [u64; WORDS], is_v6: bool) -> FlowKey {
        const IS_V6: u64 = 1 << 8;
        words[4] = words[4] & !IS_V6 | if is_v6 { IS_V6 } else { 0 };
        if !is_v6 {
            words[1..4].fill(0);
        }
        FlowKey { words }
    }

    proptest! {
        #[test]
        fn equal_just_when_the_parts_are(a in any_headers(), b in any_headers()) {
            prop_assert_eq!(FlowKey::of(&a) == FlowKey::of(&b), parts(&a) == parts(&b));
            let key = FlowKey::of(&a);
            prop_assert_eq!((key.src(), key.dst()), (a.src, a.dst));
            prop_assert_eq!(key.ports(), (a.src_port, a.dst_port));
            prop_assert_eq!(key.dst_words() == FlowKey::of(&b).dst_words(), a.dst == b.dst);
            prop_assert_eq!(key.src_words() == FlowKey::of(&b).src_words(), a.src == b.src);
        }

        /// Half of all bits change, give or take, whichever bit of the key does. The bounds are
        /// wider than nine standard deviations.
        #[test]
        fn one_bit_changes_half_of_the_hash(
            word in 0..WORDS, bit in 0..64, random: u64, is_v6: bool,
        ) {
            prop_assume!((word, bit) != (4, 8), "which says the family");
            prop_assume!(is_v6 || !(1..4).contains(&word), "which IPv4 does not have");
            let mut changed = [0u32; 64];
            let seed = FlowSeed::new(random);
            for i in 0..1024u64 {
                let words = [0, 1, 2, 3, 4].map(|w| i.wrapping_mul(0x9e37_79b9) << (w * 5));
                let mut other = words;
                other[word] ^= 1u64 << bit;
                let [one, other] = [words, other].map(|w| of_family(w, is_v6).hash(&seed));
                let differ = one ^ other;
                for (at, count) in changed.iter_mut().enumerate() {
                    *count += (differ >> at & 1) as u32;
                }
            }
            for (at, count) in changed.iter().enumerate() {
                prop_assert!((368..=656).contains(count), "bit {} changed {} times", at, count);
            }
        }

        /// Exchanging words, or shifting one by what another key differs, gives no collision: the
        /// keys are not related in a way that does not depend on the seed.
        #[test]
        fn exchanged_words_do_not_collide(
            words: [u64; WORDS], random: u64, i in 0..WORDS, j in 0..WORDS, is_v6: [bool; 2],
        ) {
            let seed = FlowSeed::new(random);
            let mut other = words;
            other.swap(i, j);
            let (one, other) = (of_family(words, is_v6[0]), of_family(other, is_v6[1]));
            prop_assert_eq!(one.hash(&seed) == other.hash(&seed), one == other);
        }
    }

    /// Buckets by the low, the high and the middle bits fill as evenly as by chance.
    #[test]
    fn structured_flows_spread_over_every_part_of_the_hash() {
        const BUCKETS: usize = 1 << 10;
        for random in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let seed = FlowSeed::new(random);
            for (name, keys) in families_of_flows() {
                let hashes: Vec<u64> = keys.iter().map(|k| k.hash(&seed)).collect();
                assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), keys.len(), "{name}");
                for shift in [0, 27, 54] {
                    let mut counts = [0u32; BUCKETS];
                    for hash in &hashes {
                        counts[(hash >> shift) as usize & (BUCKETS - 1)] += 1;
                    }
                    let mean = keys.len() as f64 / BUCKETS as f64;
                    let chi: f64 =
                        counts.iter().map(|c| (f64::from(*c) - mean).powi(2) / mean).sum();
                    // 1023 degrees of freedom: mean 1023, standard deviation 45.
                    assert!((750.0..1300.0).contains(&chi), "{name}, shift {shift}: {chi}");
                }
            }
        }
    }

    /// Flows that share a bucket under one seed are scattered by another: what a sender learns of
    /// one gateway is of no use with the next.
    #[test]
    fn collisions_under_one_seed_are_none_under_another() {
        let (one, two) = (FlowSeed::new(1), FlowSeed::new(2));
        let together: Vec<FlowKey> =
            (0..1 << 16).map(|i| v4(i, !i, (7, 7))).filter(|k| k.hash(&one) & 1023 == 5).collect();
        assert!(together.len() > 30);
        let buckets: HashSet<u64> = together.iter().map(|k| k.hash(&two) & 1023).collect();
        assert!(buckets.len() > together.len() * 8 / 10, "{} of {}", buckets.len(), together.len());
    }

    #[test]
    fn a_mapped_address_is_another_flow() {
        let mapped = (0xffff_u128 << 32) | 0x0a00_0001;
        assert_ne!(v4(0x0a00_0001, 0x0a00_0001, (1, 1)), v6(mapped, mapped, (1, 1)));
        assert_eq!(format!("{:?}", FlowSeed::new(9)), "FlowSeed");
    }
}
