//! A gateway with SAs and policies of every kind, and the software twins of all of them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

use crypto::{AesKey, Hmac, IcvLen, Keys, Suite};
use esp::{Mode, SaParams};
use policy::Direction as Way;
use rtl::{Action, Direction, Policy, SaIndex, Selector, Simulation, Tables};

use crate::packets::Random;
use crate::software::{self, Policies, Software};

/// The UDP port that passes in clear, the TCP port that is never let through, and the UDP port that
/// goes by another SA than its network does.
pub const BYPASS_PORT: u16 = 500;
pub const DISCARD_PORT: u16 = 9;
pub const OTHER_PORT: u16 = 4433;

/// The suites that the gateway and the software path both have.
pub fn suites() -> Vec<Suite> {
    let keys = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];
    let cbc = |hmac| keys.into_iter().map(move |key| Suite::AesCbcHmac { key, hmac });
    let gcm = keys.into_iter().map(|key| Suite::AesGcm { key, icv: IcvLen::Icv16 });
    cbc(Hmac::Sha1_96).chain(cbc(Hmac::Sha256_128)).chain(gcm).collect()
}

/// One pair of SAs: the gateway's, and its peer's in software.
pub struct Tunnel {
    pub name: String,
    pub mode: Mode,
    pub v6: bool,
    /// In the gateway.
    pub out: SaIndex,
    pub back: SaIndex,
    /// Opens what the gateway sealed.
    pub receiver: esp::Sa,
    /// Seals what the gateway is to open.
    pub sender: esp::Sa,
    /// Opens the same packets as the gateway does.
    pub twin: esp::Sa,
}

/// What inbound policies know a tunnel's SAs by; not their index, so that one is not taken for the other.
pub fn reqid(tunnel: u8) -> u16 {
    1000 - u16::from(tunnel)
}

/// Host 1 of the network behind the gateway, of a tunnel.
pub fn here(tunnel: u8, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0x2001, 0xdb8, 2, tunnel.into(), 0, 0, 0, 1).into()
    } else {
        Ipv4Addr::new(10, 2, tunnel, 1).into()
    }
}

/// Host 1 of the network behind the peer.
pub fn there(tunnel: u8, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0x2001, 0xdb8, 1, tunnel.into(), 0, 0, 0, 1).into()
    } else {
        Ipv4Addr::new(10, 1, tunnel, 1).into()
    }
}

pub struct World {
    pub gateway: Simulation,
    pub tables: Tables,
    pub software: Software,
    pub policies: Policies,
    pub tunnels: Vec<Tunnel>,
    pub random: Random,
    /// What the policies of a direction say, by the number under which software knows them.
    pub actions: BTreeMap<u32, Action>,
    next_policy: u32,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut gateway = Simulation::new();
        let tables = Tables::new(&mut gateway).unwrap();
        World {
            gateway,
            tables,
            software: Software::new(),
            policies: Policies::new(),
            tunnels: Vec::new(),
            random: Random(seed),
            actions: BTreeMap::new(),
            next_policy: 1,
        }
    }

    /// Every suite in both modes, with both versions outside, with and without extended numbers.
    pub fn with_tunnels(seed: u64) -> World {
        let mut world = World::new(seed);
        for suite in suites() {
            for shape in 0..8 {
                let mode = if shape & 1 == 0 { Mode::Tunnel } else { Mode::Transport };
                world.add_tunnel(suite, mode, shape & 2 != 0, shape & 4 != 0);
            }
        }
        for tunnel in 0..world.tunnels.len() as u8 {
            world.add_networks(tunnel);
        }
        world.add_ports();
        world
    }

    pub fn add_tunnel(&mut self, suite: Suite, mode: Mode, v6: bool, esn: bool) -> usize {
        let number = self.tunnels.len() as u8;
        let (local, peer): (IpAddr, IpAddr) = match (mode, v6) {
            (Mode::Transport, _) => (here(number, v6), there(number, v6)),
            (Mode::Tunnel, false) => ([192, 0, 2, 1].into(), [198, 51, 100, number].into()),
            (Mode::Tunnel, true) => (
                Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 1).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0xff, 1, 0, 0, 0, number.into()).into(),
            ),
        };
        let mut sa = |src, dst, spi| {
            let mut params: SaParams = software::params(suite, mode, src, dst, spi);
            params.esn = esn;
            let keys = Keys {
                cipher: self.random.bytes(suite.cipher_key_len_bytes()),
                salt: self.random.bytes(suite.salt_len_bytes()),
                auth: self.random.bytes(suite.auth_key_len_bytes()),
            };
            (params, keys)
        };
        let (out, out_keys) = sa(local, peer, 0x1000 + u32::from(number));
        let (back, back_keys) = sa(peer, local, 0x8000 + u32::from(number));
        let (tables, gateway) = (&mut self.tables, &mut self.gateway);
        let mut add = |direction, params, keys| {
            let sa = rtl::Sa { reqid: reqid(number), ..rtl::Sa::of(params, keys).unwrap() };
            tables.add_sa(gateway, direction, sa, 0).unwrap()
        };
        let tunnel = Tunnel {
            name: format!(
                "{suite} {} {}{}",
                if mode == Mode::Tunnel { "tunnel" } else { "transport" },
                if v6 { "v6" } else { "v4" },
                if esn { " esn" } else { "" }
            ),
            mode,
            v6,
            out: add(Direction::Outbound, &out, &out_keys),
            back: add(Direction::Inbound, &back, &back_keys),
            receiver: self.software.sa(&out, &out_keys),
            sender: self.software.sa(&back, &back_keys),
            twin: self.software.sa(&back, &back_keys),
        };
        self.tunnels.push(tunnel);
        usize::from(number)
    }

    /// A policy on both sides; both directions of one selector.
    pub fn add_policy(&mut self, outbound: Selector, priority: u16, action: [Action; 2]) {
        let inbound = Selector {
            src: outbound.dst,
            dst: outbound.src,
            src_port: outbound.dst_port,
            dst_port: outbound.src_port,
            ..outbound
        };
        let is_low_class = priority.is_multiple_of(3);
        let halves = [
            (Direction::Outbound, Way::Out, outbound, action[0]),
            (Direction::Inbound, Way::In, inbound, action[1]),
        ];
        for (direction, way, selector, action) in halves {
            let policy = Policy { selector, action, priority, is_low_class };
            self.tables.add_policy(&mut self.gateway, direction, policy).unwrap();
            self.policies.add(way, self.next_policy, &policy);
            self.actions.insert(self.next_policy, action);
            self.next_policy += 1;
        }
    }

    fn any(v6: bool) -> (IpAddr, u8) {
        if v6 { (Ipv6Addr::UNSPECIFIED.into(), 0) } else { (Ipv4Addr::UNSPECIFIED.into(), 0) }
    }

    /// The networks behind a tunnel: of both versions in tunnel mode.
    fn add_networks(&mut self, number: u8) {
        let tunnel = &self.tunnels[usize::from(number)];
        let (mode, own) = (tunnel.mode, tunnel.v6);
        let action = [Action::Protect(tunnel.out), Action::Require(reqid(number))];
        for v6 in [false, true] {
            if mode == Mode::Transport && v6 != own {
                continue;
            }
            let net = (there(number, v6), if v6 { 64 } else { 24 });
            self.add_policy(
                Selector::between(World::any(v6), net),
                1000 + u16::from(number),
                action,
            );
        }
    }

    /// What goes by protocol and port, over the networks; and what lies under them.
    fn add_ports(&mut self) {
        for v6 in [false, true] {
            let port = |protocol, port| Selector {
                protocol: Some(protocol),
                dst_port: Some(port),
                ..Selector::between(World::any(v6), World::any(v6))
            };
            self.add_policy(port(17, BYPASS_PORT), 10, [Action::Bypass; 2]);
            self.add_policy(port(6, DISCARD_PORT), 11, [Action::Discard; 2]);
            // From each tunnel's host to one port: by the first tunnel, whichever network it is.
            let first = [Action::Protect(self.tunnels[0].out), Action::Require(reqid(0))];
            for number in (0..self.tunnels.len() as u8).step_by(5) {
                let host = if v6 { 128 } else { 32 };
                let from_host = Selector {
                    protocol: Some(17),
                    dst_port: Some(OTHER_PORT),
                    ..Selector::between((here(number, v6), host), World::any(v6))
                };
                self.add_policy(from_host, 100 + u16::from(number), first);
            }
            // Wider than every network: their remainder is discarded.
            let wide = (there(0, v6), if v6 { 48 } else { 16 });
            let rest = Selector::between(World::any(v6), wide);
            self.add_policy(rest, 5000, [Action::Discard; 2]);
        }
    }
}
