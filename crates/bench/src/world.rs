//! The world around the gateway: interfaces, routes, neighbours, SAs and policies.
//!
//! ```text
//!  10.1.0.0/16        lan +---------+ wan             172.16.0.0/12        10.128.0.0/9
//!  1000 hosts ------------| gateway |------- router ---- peers ------- a /26 for each SA
//!                10.1.255.1         192.0.2.1    192.0.2.254
//! ```
//!
//! An SA pair and the three policies that an IKE daemon installs for it exist for each tunnel,
//! whichever direction is measured. Reverse path filter: strict on both interfaces.

use core::net::{IpAddr, Ipv4Addr};

use crypto::{Keys, Suite};
use dataplane::{Interface, Topology};
use esp::{Mode, Protocol, SaFlags, SaParams};
use forward::{
    Fib, Hop, NeighbourEntry, NeighbourState, Neighbours, RouteEntry, RouteKind, RuleEntry,
    SourceCheck, Subnet, table,
};
use policy::{
    Action, Direction as PolicyDirection, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig,
    Selector, Template, VolumeLimits,
};
use wire::{MacAddr, protocol};

use crate::options::Direction;
use crate::random::Random;
use crate::shape::Shape;
use crate::traffic::{LOCAL_HOSTS, LOCAL_LEN, REMOTE_LEN, local_host, remote_network};

/// The keys of one SA, like no other's.
pub(crate) fn keys(suite: Suite, direction: Direction, n: u32) -> Keys {
    let mut random = Random::new((u64::from(n) << 1) | u64::from(direction == Direction::Inbound));
    let mut bytes = |len| (0..len).map(|_| random.next() as u8).collect::<Vec<u8>>();
    Keys {
        cipher: bytes(suite.cipher_key_len_bytes()),
        salt: bytes(suite.salt_len_bytes()),
        auth: bytes(suite.auth_key_len_bytes()),
    }
}

/// The SA of tunnel `n` in one direction. `generation` tells successors apart: it is part of the
/// SPI.
pub(crate) fn sa_config(suite: Suite, direction: Direction, n: u32, generation: u32) -> SaConfig {
    let (src, dst) = ends(direction, n);
    let params = SaParams {
        spi: spi(n, generation),
        src: src.into(),
        dst: dst.into(),
        protocol: Protocol::Esp,
        mode: Mode::Tunnel,
        suite,
        encap: None,
        esn: false,
        replay_window: REPLAY_WINDOW,
        tfc_pad_len: 0,
        flags: SaFlags::default(),
    };
    SaConfig {
        params,
        mark: Mark::default(),
        if_id: 0,
        reqid: 1 + n,
        selector: None,
        iptfs: None,
        // On, and never reached.
        set_mark: Mark::default(),
        cpu: None,
        limits: VolumeLimits {
            soft_bytes: 1 << 62,
            hard_bytes: 1 << 63,
            soft_packets: 1 << 62,
            hard_packets: 1 << 63,
        },
        added_s: 1,
        generation: u64::from(generation),
    }
}

/// The SPI of an SA: spread over the numbers, as random ones are, and below 2^31.
const fn spi(n: u32, generation: u32) -> u32 {
    // An odd factor keeps different numbers different; bit 30 keeps clear of those that are
    // reserved (RFC 4303 §2.1).
    (n + (generation << 17)).wrapping_mul(0x9e37_79b1) & 0x3fff_ffff | 1 << 30
}

/// Outer source and destination of tunnel `n`.
pub(crate) const fn ends(direction: Direction, n: u32) -> (Ipv4Addr, Ipv4Addr) {
    match direction {
        Direction::Outbound => (GATEWAY, peer(n)),
        Direction::Inbound => (peer(n), GATEWAY),
    }
}

/// The peer of tunnel `n`, in 172.16.0.0/12.
const fn peer(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xac10_0000 + 1 + n)
}

/// The policies of tunnel `n`: out, in, forward.
pub(crate) fn policies(n: u32) -> [PolicyConfig; 3] {
    let local = Prefix { addr: LOCAL.into(), len: LOCAL_LEN };
    let remote = Prefix { addr: remote_network(n).into(), len: REMOTE_LEN };
    let policy = |place: u32, direction, src, dst, ends: (Ipv4Addr, Ipv4Addr)| PolicyConfig {
        index: 8 * n + 8 + place,
        direction,
        selector: Selector::between(src, dst),
        priority: 1000,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: vec![Template {
            src: ends.0.into(),
            dst: ends.1.into(),
            spi: 0,
            protocol: protocol::ESP,
            mode: Mode::Tunnel,
            reqid: 1 + n,
            optional: false,
        }],
        mark: Mark::default(),
        if_id: 0,
    };
    let (out, back) = (ends(Direction::Outbound, n), ends(Direction::Inbound, n));
    [
        policy(0, PolicyDirection::Out, local, remote, out),
        policy(1, PolicyDirection::In, remote, local, back),
        policy(2, PolicyDirection::Forward, remote, local, back),
    ]
}

/// A policy that lets everything between the two networks pass in clear.
pub(crate) fn bypass() -> PolicyConfig {
    bypass_of(0)
}

/// One for the network of each of so many tunnels.
pub(crate) fn bypasses(count: u32) -> Vec<PolicyConfig> {
    (0..count).map(bypass_of).collect()
}

fn bypass_of(n: u32) -> PolicyConfig {
    let local = Prefix { addr: LOCAL.into(), len: LOCAL_LEN };
    let remote = Prefix { addr: remote_network(n).into(), len: REMOTE_LEN };
    PolicyConfig {
        // Those of tunnels are multiples of 8 and the next two.
        index: 8 * n + 3,
        direction: PolicyDirection::Out,
        selector: Selector::between(remote, local),
        priority: 100,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates: Vec::new(),
        mark: Mark::default(),
        if_id: 0,
    }
}

/// Interfaces and the routes that traffic of this shape needs; `more` stand beside them.
pub(crate) fn topology(shape: Shape, more: impl IntoIterator<Item = RouteEntry>) -> Topology {
    let mut topology = Topology::default();
    let on_link = |ifindex| vec![Hop { ifindex, gateway: None, weight: 1 }];
    let by_router = vec![Hop { ifindex: WAN, gateway: Some(ROUTER.into()), weight: 1 }];
    let routes = [
        route(table::LOCAL, GATEWAY, 32, RouteKind::Local, Vec::new()),
        route(table::LOCAL, GATEWAY_LAN, 32, RouteKind::Local, Vec::new()),
        route(table::MAIN, LOCAL, LOCAL_LEN, RouteKind::Unicast, on_link(LAN)),
        route(table::MAIN, GATEWAY, 24, RouteKind::Unicast, on_link(WAN)),
        route(table::MAIN, Ipv4Addr::UNSPECIFIED, 0, RouteKind::Unicast, by_router),
    ];
    let routes = routes.into_iter().map(|entry| shape.route(entry));
    topology.fib = Fib::new(routes.chain(more), RuleEntry::defaults(), None);
    topology.local.extend([GATEWAY, GATEWAY_LAN].map(|addr| shape.addr(addr)));
    let ports = [(LAN, LAN_PORT, MAC_LAN, GATEWAY_LAN), (WAN, WAN_PORT, MAC_WAN, GATEWAY)];
    for (ifindex, port, mac, addr) in ports {
        let interface = Interface {
            port: Some(port),
            mac,
            mtu: MTU,
            up: true,
            back: None,
            binding: None,
            source_check: SourceCheck::Strict,
            addr4: Some(addr),
            addr6: None,
        };
        topology.interfaces.insert(ifindex, interface);
    }
    topology
}

/// A route of priority 0.
pub(crate) fn route(
    table: u32,
    addr: Ipv4Addr,
    len: u8,
    kind: RouteKind,
    hops: Vec<Hop>,
) -> RouteEntry {
    let dst = Subnet { addr: addr.into(), len };
    RouteEntry { table, dst, kind, priority: 0, hops, mtu: None, src: None }
}

/// The hosts of the local network, and the router to all peers.
pub(crate) fn neighbours(shape: Shape) -> Neighbours {
    let entry = |ifindex, addr: Ipv4Addr, mac| NeighbourEntry {
        ifindex,
        addr: IpAddr::V4(addr),
        mac: Some(mac),
        state: NeighbourState::Reachable,
    };
    (0..LOCAL_HOSTS)
        .map(|n| entry(LAN, local_host(n), MAC_HOST))
        .chain([entry(WAN, ROUTER, MAC_ROUTER)])
        .map(|entry| shape.neighbour(entry))
        .collect()
}

/// MTU of both links, in bytes.
pub(crate) const MTU: u32 = 1500;
/// Replay window of the SAs, in packets.
pub(crate) const REPLAY_WINDOW: u32 = 128;
/// Index of the inner interface.
pub(crate) const LAN: u32 = 2;
pub(crate) const WAN: u32 = 3;
pub(crate) const PRIVATE: u32 = 4;
/// Their places in the worker.
pub(crate) const LAN_PORT: usize = 0;
pub(crate) const WAN_PORT: usize = 1;
pub(crate) const PRIVATE_PORT: usize = 2;
pub(crate) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 0);
/// All remote networks: a /9.
pub(crate) const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const GATEWAY_LAN: Ipv4Addr = Ipv4Addr::new(10, 1, 255, 1);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
pub(crate) const MAC_LAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(crate) const MAC_WAN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub(crate) const MAC_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
pub(crate) const MAC_ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::options::{MAX_SAS, suite_by_name};

    #[test]
    fn no_two_sas_share_spi_peer_or_key() {
        let suite = suite_by_name("aes128gcm16").unwrap();
        let mut seen = HashSet::new();
        for n in (0..MAX_SAS as u32).step_by(101) {
            for generation in [0, 1, 99] {
                let config = sa_config(suite, Direction::Inbound, n, generation);
                assert!(seen.insert(config.params.spi), "{n} {generation}");
            }
        }
        let first = keys(suite, Direction::Outbound, 1);
        assert!(first.fit(suite));
        assert_ne!(first, keys(suite, Direction::Inbound, 1));
        assert_ne!(first, keys(suite, Direction::Outbound, 2));
        assert_eq!(first, keys(suite, Direction::Outbound, 1));
    }

    #[test]
    fn remote_networks_are_inside_their_range_and_apart_from_the_local_one() {
        let last = remote_network(MAX_SAS as u32 - 1).to_bits();
        assert_eq!(last >> 23, 0x0a80_0000 >> 23, "10.128.0.0/9");
        assert_ne!(LOCAL.to_bits() >> 23, last >> 23);
    }
}
