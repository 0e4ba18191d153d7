//! Which headers packets have: the IP version, ESP or AH or both, IPComp, and whether ESP is in UDP or in
//! fragments.
//!
//! The world and its traffic are written down in IPv4; in IPv6 each address has the same low-order
//! bits.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crypto::{Integrity, Suite};
use esp::{Mode, Protocol, UdpEncap};
use forward::{NeighbourEntry, RouteEntry};
use policy::{PolicyConfig, Prefix, SaConfig, Selector, Template};
use wire::ethernet::EtherType;
use wire::natt;
use wire::{protocol, udp};

/// Which headers packets have. By default ESP is bare, and all is IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// IPv6 outside and inside.
    pub(crate) v6: bool,
    /// ESP in UDP (RFC 3948).
    pub(crate) encap: bool,
    /// AH in place of ESP.
    pub(crate) ah: bool,
    /// True if packets arrive under ESP in two fragments each.
    pub(crate) in_two: bool,
    /// An SA around or inside of that one.
    pub(crate) nested: Nested,
    /// ESP carries payloads of IP-TFS.
    pub(crate) iptfs: bool,
    /// An overlay inside of ESP, which is of transport mode then; there is one SA, and all is IPv4.
    pub(crate) overlay: Option<Overlay>,
}

/// An overlay between the gateway and its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// IP in GRE, without a key.
    Gre,
    /// Ethernet in VXLAN.
    Vxlan,
}

/// Two SAs, one inside the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Nested {
    /// There is one SA.
    #[default]
    No,
    /// AH in transport mode is around the tunnel.
    InAh,
    /// The tunnel is IPComp's, and the SA is of transport mode around it.
    Compressed,
}

impl Shape {
    /// The address in place of an IPv4 one.
    pub(crate) fn addr(self, v4: Ipv4Addr) -> IpAddr {
        match self.v6 {
            false => v4.into(),
            true => Ipv6Addr::from_bits(NETWORK | u128::from(v4.to_bits())).into(),
        }
    }

    fn ip(self, addr: IpAddr) -> IpAddr {
        match addr {
            IpAddr::V4(v4) => self.addr(v4),
            IpAddr::V6(_) => addr,
        }
    }

    fn len(self, v4_len: u8) -> u8 {
        if self.v6 { NETWORK_LEN + v4_len } else { v4_len }
    }

    fn prefix(self, Prefix { addr, len }: Prefix) -> Prefix {
        Prefix { addr: self.ip(addr), len: self.len(len) }
    }

    /// An SA of the world with these headers.
    pub(crate) fn sa(self, mut config: SaConfig) -> SaConfig {
        let params = &mut config.params;
        (params.src, params.dst) = (self.ip(params.src), self.ip(params.dst));
        params.encap =
            self.encap.then_some(UdpEncap { src_port: natt::PORT, dst_port: natt::PORT });
        if self.ah {
            params.protocol = Protocol::Ah;
        }
        if self.overlay.is_some() {
            params.mode = Mode::Transport;
        }
        if self.iptfs {
            params.mode = Mode::Iptfs;
            config.iptfs = Some(Box::default());
        }
        config
    }

    /// The SA of the world with these headers, and those that protect the same packets; the innermost first.
    pub(crate) fn sas(self, config: SaConfig) -> Vec<SaConfig> {
        let tunnel = self.sa(config);
        let mut other = tunnel.clone();
        match self.nested {
            Nested::No => vec![tunnel],
            Nested::InAh => {
                (other.params.protocol, other.params.mode) = (Protocol::Ah, Mode::Transport);
                other.params.suite = Suite::integrity_only(Integrity::Sha256_128);
                vec![tunnel, other]
            }
            Nested::Compressed => {
                (other.params.protocol, other.params.suite) = (Protocol::IpComp, Suite::None);
                (other.params.spi, other.params.replay_window) = (CPI, 0);
                let mut around = tunnel;
                around.params.mode = Mode::Transport;
                vec![other, around]
            }
        }
    }

    /// A policy of the world for them.
    pub(crate) fn policy(self, mut config: PolicyConfig) -> PolicyConfig {
        let selector = &mut config.selector;
        (selector.src, selector.dst) = (self.prefix(selector.src), self.prefix(selector.dst));
        for template in &mut config.templates {
            (template.src, template.dst) = (self.ip(template.src), self.ip(template.dst));
            if self.ah {
                template.protocol = protocol::AH;
            }
            if self.iptfs {
                template.mode = Mode::Iptfs;
            }
        }
        let Some(tunnel) = config.templates.first().copied() else { return config };
        let transport = |protocol| Template {
            src: self.addr(Ipv4Addr::UNSPECIFIED),
            dst: self.addr(Ipv4Addr::UNSPECIFIED),
            protocol,
            mode: Mode::Transport,
            ..tunnel
        };
        if self.overlay.is_some() {
            let end = |addr| Prefix { addr, len: 32 };
            config.selector = Selector::between(end(tunnel.src), end(tunnel.dst));
        }
        config.templates = match self.nested {
            Nested::No if self.overlay.is_some() => vec![transport(tunnel.protocol)],
            Nested::No => vec![tunnel],
            Nested::InAh => vec![tunnel, transport(protocol::AH)],
            Nested::Compressed => {
                let comp = Template { protocol: protocol::IPCOMP, ..tunnel };
                vec![comp, transport(tunnel.protocol)]
            }
        };
        config
    }

    /// A route of the world for them.
    pub(crate) fn route(self, mut entry: RouteEntry) -> RouteEntry {
        entry.dst.addr = self.ip(entry.dst.addr);
        entry.dst.len = self.len(entry.dst.len);
        for hop in &mut entry.hops {
            hop.gateway = hop.gateway.map(|addr| self.ip(addr));
        }
        entry
    }

    /// A neighbour of the world.
    pub(crate) fn neighbour(self, entry: NeighbourEntry) -> NeighbourEntry {
        NeighbourEntry { addr: self.ip(entry.addr), ..entry }
    }

    pub(crate) const fn ether_type(self) -> EtherType {
        if self.v6 { EtherType::IPV6 } else { EtherType::IPV4 }
    }

    /// Length of the UDP header in front of ESP.
    pub(crate) const fn encap_len(self) -> usize {
        if self.encap { udp::HEADER_LEN } else { 0 }
    }
}

/// The only one: nested shapes are of one tunnel.
const CPI: u32 = 0x1234;

/// 2001:db8::/96: the world's IPv4 addresses fill the rest.
const NETWORK: u128 = 0x2001_0db8 << 96;
const NETWORK_LEN: u8 = 96;
