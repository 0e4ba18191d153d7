//! Routing tables like those of the Internet, for benchmarks and tests: so many prefixes with the
//! lengths and the clustering that full feeds have.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashSet;

use wire::Family;

use crate::route::{Hop, RouteEntry, RouteKind, Subnet, table};

/// Shares of prefix lengths in 1000, as in IPv4 feeds: most are /24, and few are short.
const LENS_V4: [(u8, u32); 10] = [
    (24, 600),
    (23, 100),
    (22, 110),
    (21, 50),
    (20, 45),
    (19, 30),
    (18, 20),
    (17, 15),
    (16, 25),
    (12, 5),
];

/// Shares of prefix lengths in 1000, as in IPv6 feeds.
const LENS_V6: [(u8, u32); 7] =
    [(48, 480), (44, 100), (40, 100), (36, 70), (32, 180), (29, 60), (64, 10)];

/// Next hops that routes are spread over.
const HOPS: u32 = 64;

/// `count` routes of table `main` to different prefixes; the same for the same seed. IPv4 has
/// room for about 5 million.
pub fn routes(family: Family, count: usize, seed: u64) -> Vec<RouteEntry> {
    let mut random = Random(seed);
    let mut known = HashSet::with_capacity(count);
    let mut routes = Vec::with_capacity(count);
    let mut near = 0_u128;
    while routes.len() < count {
        let lens: &[(u8, u32)] = match family {
            Family::V4 => &LENS_V4,
            Family::V6 => &LENS_V6,
        };
        let mut share = random.below(1000);
        let fits = |(_, part): &&(u8, u32)| match share.checked_sub(*part) {
            Some(rest) => {
                share = rest;
                false
            }
            None => true,
        };
        let len = lens.iter().find(fits).map_or(24, |(len, _)| *len);
        let dst = match family {
            Family::V4 => {
                // Half of all prefixes lie beside another, as when a provider splits its block.
                let address = match random.below(2) {
                    0 => near as u32 ^ random.below(1 << 12) << 8,
                    _ => (1 + random.below(223)) << 24 | random.below(1 << 24),
                };
                near = address.into();
                let address = address & !u32::MAX.checked_shr(len.into()).unwrap_or(0);
                if matches!(address >> 24, 0 | 127 | 224..) {
                    continue;
                }
                IpAddr::V4(Ipv4Addr::from_bits(address))
            }
            Family::V6 => {
                let address = match random.below(4) {
                    0 => {
                        let blocks = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
                        let block = blocks.get(random.below(6) as usize).copied().unwrap_or(0x2a00);
                        (block + u128::from(random.below(8))) << 112
                            | u128::from(random.below(1 << 13)) << 99
                            | u128::from(random.next()) << 35
                    }
                    // Sites of one provider share its block.
                    _ => near ^ u128::from(random.below(1 << 16)) << 80,
                };
                near = address;
                let address = address & !u128::MAX.checked_shr(len.into()).unwrap_or(0);
                if address >> 125 != 1 {
                    continue;
                }
                IpAddr::V6(Ipv6Addr::from_bits(address))
            }
        };
        let dst = Subnet { addr: dst, len };
        if !known.insert(dst) {
            near = random.next().into();
            continue;
        }
        let ifindex = 2 + random.below(HOPS);
        let gateway = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from_bits(0xc000_0200 + ifindex)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(ifindex))),
        };
        routes.push(RouteEntry {
            table: table::MAIN,
            dst,
            kind: RouteKind::Unicast,
            priority: 0,
            hops: vec![Hop { ifindex, gateway: Some(gateway), weight: 1 }],
            mtu: None,
            src: None,
        });
    }
    routes
}

/// `count` addresses that routes of the table hold: destinations for look-ups, in random order.
pub fn destinations(routes: &[RouteEntry], count: usize, seed: u64) -> Vec<IpAddr> {
    let mut random = Random(seed);
    let pick = |_| {
        let at = random.below(u32::try_from(routes.len()).unwrap_or(u32::MAX)) as usize;
        let dst = routes.get(at)?.dst;
        let noise = u128::from(random.next()) << 64 | u128::from(random.next());
        Some(match dst.addr {
            IpAddr::V4(a) => {
                let host = u32::MAX.checked_shr(dst.len.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() | noise as u32 & host))
            }
            IpAddr::V6(a) => {
                let host = u128::MAX.checked_shr(dst.len.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() | noise & host))
            }
        })
    };
    (0..count).filter_map(pick).collect()
}

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u32) -> u32 {
        (((self.next() >> 32) * u64::from(limit)) >> 32) as u32
    }
}
