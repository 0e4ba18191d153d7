//! A gateway whose tables a test writes itself, and the software twins of its SAs.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crypto::{AesKey, Cipher, IcvLen, Integrity, Keys, Suite};
use esp::{Mode, SaParams};
use rtl::{Direction, SaIndex, Simulation, Tables};

use crate::packets::Random;
use crate::software::{self, Software};

/// The suites that the gateway and the software path both have.
pub fn suites() -> Vec<Suite> {
    let keys = [AesKey::Aes128, AesKey::Aes192, AesKey::Aes256];
    let cbc = |integrity| {
        let suite = move |key| Suite::Separate { cipher: Cipher::AesCbc(key), integrity };
        keys.into_iter().map(suite)
    };
    let gcm = keys.into_iter().map(|key| Suite::AesGcm { key, icv: IcvLen::Icv16 });
    cbc(Integrity::Sha1_96).chain(cbc(Integrity::Sha256_128)).chain(gcm).collect()
}

/// One pair of SAs: the gateway's, by what it knows them by, and its peer's in software.
pub struct Tunnel<S> {
    pub name: String,
    pub mode: Mode,
    pub v6: bool,
    /// In the gateway.
    pub out: S,
    pub back: S,
    /// Opens what the gateway sealed.
    pub receiver: esp::Sa,
    /// Seals what the gateway is to open.
    pub sender: esp::Sa,
    /// Opens the same packets as the gateway does.
    pub twin: esp::Sa,
}

/// The reqid that inbound policies know a tunnel's SAs by; not their index, so that one is not taken for the other.
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
    pub tunnels: Vec<Tunnel<SaIndex>>,
    pub random: Random,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut gateway = Simulation::new();
        let tables = Tables::new(&mut gateway).unwrap();
        World {
            gateway,
            tables,
            software: Software::new(),
            tunnels: Vec::new(),
            random: Random(seed),
        }
    }

    pub fn add_tunnel(&mut self, suite: Suite, mode: Mode, v6: bool, esn: bool) -> usize {
        let number = self.tunnels.len() as u8;
        let pair = Pair::new(number, suite, mode, v6, esn, &mut self.random);
        let (tables, gateway) = (&mut self.tables, &mut self.gateway);
        let tunnel = pair.tunnel(&mut self.software, |is_inbound, params, keys| {
            let direction = if is_inbound { Direction::Inbound } else { Direction::Outbound };
            let sa = rtl::Sa { reqid: reqid(number), ..rtl::Sa::of(params, keys).unwrap() };
            tables.add_sa(gateway, direction, sa, 0).unwrap()
        });
        self.tunnels.push(tunnel);
        usize::from(number)
    }
}

/// Settings of a tunnel's two SAs.
pub struct Pair {
    name: String,
    mode: Mode,
    v6: bool,
    out: (SaParams, Keys),
    back: (SaParams, Keys),
}

impl Pair {
    pub fn new(
        number: u8,
        suite: Suite,
        mode: Mode,
        v6: bool,
        esn: bool,
        random: &mut Random,
    ) -> Pair {
        let (local, peer): (IpAddr, IpAddr) = match (mode, v6) {
            (Mode::Transport, _) => (here(number, v6), there(number, v6)),
            (Mode::Tunnel | Mode::Iptfs, false) => {
                ([192, 0, 2, 1].into(), [198, 51, 100, number].into())
            }
            (Mode::Tunnel | Mode::Iptfs, true) => (
                Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 1).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0xff, 1, 0, 0, 0, number.into()).into(),
            ),
        };
        let mut sa = |src, dst, spi| {
            let mut params: SaParams = software::params(suite, mode, src, dst, spi);
            params.esn = esn;
            let keys = Keys {
                cipher: random.bytes(suite.cipher_key_len_bytes()),
                salt: random.bytes(suite.salt_len_bytes()),
                auth: random.bytes(suite.auth_key_len_bytes()),
            };
            (params, keys)
        };
        Pair {
            name: format!(
                "{suite} {} {}{}",
                if mode == Mode::Tunnel { "tunnel" } else { "transport" },
                if v6 { "v6" } else { "v4" },
                if esn { " esn" } else { "" }
            ),
            mode,
            v6,
            out: sa(local, peer, 0x1000 + u32::from(number)),
            back: sa(peer, local, 0x8000 + u32::from(number)),
        }
    }

    /// Adds both to the gateway, as `add` does it, and makes their software twins.
    pub fn tunnel<S>(
        self,
        software: &mut Software,
        mut add: impl FnMut(bool, &SaParams, &Keys) -> S,
    ) -> Tunnel<S> {
        let Pair { name, mode, v6, out, back } = self;
        Tunnel {
            name,
            mode,
            v6,
            out: add(false, &out.0, &out.1),
            back: add(true, &back.0, &back.1),
            receiver: software.sa(&out.0, &out.1),
            sender: software.sa(&back.0, &back.1),
            twin: software.sa(&back.0, &back.1),
        }
    }
}
