//! Keyed hashing of look-up keys.
//!
//! Peers choose SPIs, and addresses of traffic selectors: they must not be able to choose
//! collisions. So each [`Databases`](crate::Databases) draws its own seeds. The mixing is a
//! multiplication of 64 by 64 bits whose halves are folded, twice for an IPv4 key (once leaves
//! patterns: numbers in a row can come out in a row): a few cycles, against twenty and more for
//! SipHash.
//!
//! A tag is never trusted: a look-up that finds an entry by it compares the whole key.

use core::array;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv6Addr};
use std::hash::RandomState;

/// The part of a hash that an index keeps: its place in the table and what is compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    /// From a hash. Zero and all ones are left to the index, for places without an entry.
    #[inline]
    pub(crate) fn new(hash: u64) -> Tag {
        Tag(((hash >> 32) as u32).clamp(1, u32::MAX - 1))
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// The secret of one instance.
#[derive(Clone, Copy)]
pub(crate) struct Seeds([u64; 4]);

impl Seeds {
    /// Seeds from the standard library's random keys, which come from the system.
    pub(crate) fn random() -> Seeds {
        let state = RandomState::new();
        Seeds(array::from_fn(|i| state.hash_one(i)))
    }

    /// Tag of an inbound SA, by the fields of an arriving packet.
    #[inline]
    pub(crate) fn inbound(&self, dst: IpAddr, spi: u32, protocol: u8) -> Tag {
        let [a, b, c, d] = self.0;
        Tag::new(match dst {
            IpAddr::V4(dst) => {
                let words = u64::from(dst.to_bits()) << 32 | u64::from(spi);
                mix(mix(words ^ a, u64::from(protocol) ^ b) ^ c, d)
            }
            IpAddr::V6(dst) => {
                let (high, low) = halves(dst);
                let rest = u64::from(spi) << 8 | u64::from(protocol);
                mix(mix(high ^ a, low ^ b) ^ c, rest ^ d)
            }
        })
    }

    /// Tag of the outbound SAs of a template.
    #[inline]
    pub(crate) fn outbound(&self, dst: IpAddr, reqid: u32, if_id: u32) -> Tag {
        let [a, b, c, d] = self.0;
        Tag::new(match dst {
            IpAddr::V4(dst) => {
                let words = u64::from(dst.to_bits()) << 32 | u64::from(reqid);
                mix(mix(words ^ c, u64::from(if_id) ^ d) ^ a, b)
            }
            IpAddr::V6(dst) => {
                let (high, low) = halves(dst);
                let rest = u64::from(if_id) << 32 | u64::from(reqid);
                mix(mix(high ^ c, low ^ d) ^ a, rest ^ b)
            }
        })
    }

    /// A policy's key of IPv4: both networks in one word; the XFRM interface and the mark; the
    /// protocol and the ports.
    #[inline]
    pub(crate) fn policy_v4(&self, networks: u64, scope: u64, upper: u64) -> Tag {
        let [a, b, c, d] = self.0;
        let rest = scope ^ upper.wrapping_mul(c | 1);
        Tag::new(mix(mix(networks ^ a, rest ^ b) ^ d, c))
    }

    /// As [`policy_v4`](Seeds::policy_v4), of IPv6.
    #[inline]
    pub(crate) fn policy_v6(&self, src: u128, dst: u128, scope: u64, upper: u64) -> Tag {
        let [a, b, c, d] = self.0;
        let src = mix((src >> 64) as u64 ^ a, src as u64 ^ b);
        let dst = mix((dst >> 64) as u64 ^ c, dst as u64 ^ d);
        let rest = scope ^ upper.wrapping_mul(c | 1);
        Tag::new(mix(mix(src ^ d, rest ^ b) ^ dst, a))
    }

    /// The top bits of an address, and where it stands.
    pub(crate) fn network(&self, bits: u64, place: u64) -> Tag {
        let [a, b, c, d] = self.0;
        Tag::new(mix(mix(bits ^ c, place ^ b) ^ d, a))
    }
}

/// The product of two words, folded.
const fn mix(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

fn halves(addr: Ipv6Addr) -> (u64, u64) {
    let bits = addr.to_bits();
    ((bits >> 64) as u64, bits as u64)
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::collections::HashSet;

    use super::*;

    /// Counters and strides, as allocators of addresses and SPIs produce them, spread like random
    /// numbers: the top bits fill the places of a table as evenly.
    #[test]
    fn regular_keys_spread() {
        for _ in 0..8 {
            spread(&Seeds::random());
        }
    }

    fn spread(seeds: &Seeds) {
        let v4 = |bits: u32| IpAddr::V4(Ipv4Addr::from_bits(bits));
        let v6 = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(bits));
        type Family<'s> = (&'static str, Box<dyn Fn(u32) -> Tag + 's>);
        let families: [Family<'_>; 11] = [
            ("SPIs in a row", Box::new(|i| seeds.inbound(v4(0x0a00_0001), i, 50))),
            ("SPIs by 256", Box::new(|i| seeds.inbound(v4(0x0a00_0001), i << 8, 50))),
            ("addresses", Box::new(|i| seeds.inbound(v4(0x0a00_0000 + i), 7, 50))),
            ("IPv6", Box::new(|i| seeds.inbound(v6(u128::from(i) << 64 | 1), 7, 50))),
            ("reqids", Box::new(|i| seeds.outbound(v4(0x0a00_0001), i, 0))),
            ("interfaces", Box::new(|i| seeds.outbound(v4(0x0a00_0001), 1, i))),
            ("clients", Box::new(|i| seeds.policy_v4(u64::from(i) << 32 | 0x0a00_0000, 0, 0))),
            ("policies of interfaces", Box::new(|i| seeds.policy_v4(0, u64::from(i), 0))),
            ("IPv6 clients", Box::new(|i| seeds.policy_v6(1, u128::from(i) << 64, 0, 0))),
            ("networks", Box::new(|i| seeds.network(u64::from(i), 1))),
            ("ports", Box::new(|i| seeds.policy_v4(0, 0, u64::from(i)))),
        ];
        const KEYS: u32 = 1 << 14;
        for (name, tag) in &families {
            let tags: HashSet<u32> = (0..KEYS).map(|i| tag(i).get()).collect();
            assert!(tags.len() as u32 >= KEYS - 8, "{name}: {} tags", tags.len());
            // As many places as keys: 63 % are taken at random.
            let places: HashSet<u32> = tags.iter().map(|tag| tag >> 18).collect();
            let share = places.len() * 100 / KEYS as usize;
            assert!(share >= 55, "{name}: {share} % of the places");
        }
    }

    #[test]
    fn every_part_of_a_key_counts() {
        let seeds = Seeds::random();
        let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let tags = [
            seeds.inbound(v4, 1, 50),
            seeds.inbound(v4, 1, 51),
            seeds.inbound(v4, 2, 50),
            seeds.inbound(v6, 1, 50),
            seeds.inbound(v6, 1, 51),
            seeds.inbound(v6, 2, 50),
            seeds.outbound(v4, 1, 0),
            seeds.outbound(v4, 1, 1),
            seeds.outbound(v6, 1, 0),
            seeds.outbound(v6, 1, 1),
            seeds.policy_v4(1, 0, 0),
            seeds.policy_v4(0, 1, 0),
            seeds.policy_v4(0, 0, 1),
            seeds.policy_v6(1, 0, 0, 0),
            seeds.policy_v6(0, 1, 0, 0),
            seeds.policy_v6(1 << 64, 0, 0, 0),
            seeds.policy_v6(0, 1 << 64, 0, 0),
            seeds.policy_v6(0, 0, 1, 0),
            seeds.policy_v6(0, 0, 0, 1),
        ];
        let distinct: HashSet<u32> = tags.iter().map(|tag| tag.get()).collect();
        assert_eq!(distinct.len(), tags.len());
    }
}
