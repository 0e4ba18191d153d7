//! A network as Linux knows it, in plain values.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::overlay::Overlay;
use crate::seg6::Encap;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Address family IPv4 (`AF_INET`).
    V4,
    /// Address family IPv6 (`AF_INET6`).
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(addr: IpAddr) -> Family {
        match addr {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The address `0.0.0.0` or `::`.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// A prefix: address and length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The address; Linux gives it with host bits zero.
    pub addr: IpAddr,
    /// Length in bits.
    pub len: u8,
}

impl Prefix {
    /// The prefix of this length that an address lies in.
    pub const fn of(addr: IpAddr, len: u8) -> Prefix {
        let (addr, len) = match addr {
            IpAddr::V4(a) => {
                let len = if len > 32 { 32 } else { len };
                let mask = if len == 0 { 0 } else { u32::MAX << (32 - len) };
                (IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask)), len)
            }
            IpAddr::V6(a) => {
                let len = if len > 128 { 128 } else { len };
                let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
                (IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask)), len)
            }
        };
        Prefix { addr, len }
    }

    /// How many bits an address has in common with the prefix, at most the prefix's length; `None`
    /// for one of the other family.
    pub fn common_len(&self, addr: IpAddr) -> Option<u8> {
        let common = match (self.addr, addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return None,
        };
        Some(u8::try_from(common).map_or(self.len, |common| common.min(self.len)))
    }

    /// True if the address is of the same family and inside.
    pub fn contains(&self, addr: IpAddr) -> bool {
        self.common_len(addr) == Some(self.len)
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the interface.
    pub index: u32,
    /// Name of the interface.
    pub name: String,
    /// Ethernet address, where the interface has one.
    pub mac: Option<[u8; 6]>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Administratively up (`IFF_UP`).
    pub up: bool,
    /// Up and with carrier (`IFF_RUNNING`).
    pub running: bool,
    /// The loopback interface (`IFF_LOOPBACK`).
    pub loopback: bool,
    /// Kind as `ip -d link` calls it (`veth`, `vlan`, `tun`, …); `None` for physical interfaces.
    pub kind: Option<String>,
    /// Index of the bridge, bond or VRF that the interface belongs to.
    pub master: Option<u32>,
    /// Index of the interface that this one lies on (of a VLAN) or is joined to (of a veth).
    pub lower: Option<u32>,
    /// True if the interface that it lies on, or is joined to, is in another network namespace. An
    /// XFRM interface's policies and SAs are there, too.
    pub is_tied_elsewhere: bool,
    /// Settings of an XFRM interface (`ip link add type xfrm`); `None` for other kinds.
    pub xfrm: Option<XfrmInterface>,
    /// Tag of a VLAN's frames (`ip link add type vlan`); `None` for other kinds.
    pub vlan: Option<Vlan>,
    /// The table of a VRF (`ip link add type vrf`); `None` for other kinds.
    pub vrf_table: Option<u32>,
    /// Bytes that Linux leaves in front of frames for this interface's headers; `None` before Linux 6.16.
    pub headroom: Option<u16>,
    /// Settings of an overlay (`ip link add type gre`, `vxlan`, `geneve`; `ip l2tp`); `None` for other kinds.
    pub overlay: Option<Box<Overlay>>,
}

/// Tag of a VLAN's frames on the interface that it lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The TPID of their tag: 0x8100 (802.1Q) or 0x88a8 (802.1ad).
    pub tpid: u16,
    /// The VLAN identifier.
    pub id: u16,
    /// The tag's priority for priorities of Linux's packets (`egress-qos-map`); 0 for all others.
    pub egress_qos: BTreeMap<u32, u8>,
}

/// The policies and SAs that are an XFRM interface's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XfrmInterface {
    /// The policies and SAs with this `if_id`, which is not 0.
    IfId(u32),
    /// The policies and SAs that each packet's route or metadata name (`external`, or
    /// `collect_md`).
    External,
}

/// An address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the interface.
    pub ifindex: u32,
    /// The host's own address.
    pub addr: IpAddr,
    /// Length in bits of the prefix on the link.
    pub prefix_len: u8,
    /// Scope as in `rtnetlink(7)`: 0 global, 253 link, 254 host.
    pub scope: u8,
    /// Duplicate address detection is under way or has failed: not usable as a source.
    pub tentative: bool,
    /// IPv4: of the same subnet as an earlier one, and not chosen as a source. IPv6: temporary.
    pub secondary: bool,
    /// True once its preferred lifetime is over (IPv6): a source only where there is no other.
    pub deprecated: bool,
}

impl Address {
    /// IPv4 or IPv6.
    pub const fn family(&self) -> Family {
        Family::of(self.addr)
    }
}

/// Action of a routing rule (`FR_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Looks into the rule's table.
    Lookup,
    /// Goes on at the rule of this priority.
    Goto(u32),
    /// No action: the next rule decides.
    Nop,
    /// Drops packets without an ICMP error.
    Blackhole,
    /// Drops, ICMP unreachable.
    Unreachable,
    /// Drops, ICMP prohibited.
    Prohibit,
    /// Something this version does not know; its number.
    Other(u8),
}

/// A routing rule (`ip rule`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Lower comes first.
    pub priority: u32,
    /// Table that is looked into.
    pub table: u32,
    /// Source prefix, `None` for all.
    pub from: Option<Prefix>,
    /// Destination prefix, `None` for all.
    pub to: Option<Prefix>,
    /// Name of the ingress interface, `lo` for locally generated packets.
    pub iif: Option<String>,
    /// Name of the egress interface that a socket is bound to.
    pub oif: Option<String>,
    /// Mark that packets must carry.
    pub fwmark: u32,
    /// The mark's bits that count; 0 where the rule does not look at the mark.
    pub fwmask: u32,
    /// The rule is for packets that do not match (`not`).
    pub invert: bool,
    /// Action for packets that match.
    pub action: RuleAction,
    /// Routes with a prefix not longer than this are passed over (`suppress_prefixlength`).
    pub suppress_prefix_len: Option<u32>,
    /// Upper-layer protocol. `None`: all.
    pub ip_protocol: Option<u8>,
    /// Source ports, the first and the last.
    pub sport: Option<(u16, u16)>,
    /// Destination ports, the first and the last.
    pub dport: Option<(u16, u16)>,
    /// Only for packets that come or go by an interface of a VRF, and a look-up is one into that VRF's table.
    pub l3mdev: bool,
    /// The rule also looks at something that is not in this model (users, TOS, …): a packet
    /// that matches the rest may or may not match.
    pub has_more: bool,
    /// Origin of the rule, as for routes.
    pub protocol: u8,
}

impl Rule {
    /// A rule that sends every packet of the family to one table; protocol unspecified.
    pub const fn new(family: Family, priority: u32, table: u32) -> Rule {
        Rule {
            family,
            priority,
            table,
            from: None,
            to: None,
            iif: None,
            oif: None,
            fwmark: 0,
            fwmask: 0,
            invert: false,
            action: RuleAction::Lookup,
            suppress_prefix_len: None,
            ip_protocol: None,
            sport: None,
            dport: None,
            l3mdev: false,
            has_more: false,
            protocol: 0,
        }
    }
}

/// Effect of a route (`RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// To the next hops.
    Unicast,
    /// To this host.
    Local,
    /// Broadcast on the link layer.
    Broadcast,
    /// Anycast address of this host.
    Anycast,
    /// Packets to a multicast group.
    Multicast,
    /// Drops packets without an ICMP error.
    Blackhole,
    /// Drops, ICMP unreachable.
    Unreachable,
    /// Drops, ICMP prohibited.
    Prohibit,
    /// The look-up goes on with the next rule.
    Throw,
    /// Something this version does not know; its number.
    Other(u8),
}

/// One of a route's next hops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Egress interface, 0 where there is none.
    pub ifindex: u32,
    /// Gateway, `None` where the destination is on the link. May be IPv6 for an IPv4 route.
    pub gateway: Option<IpAddr>,
    /// Weight among several, 1 to 256.
    pub weight: u16,
    /// Linux does not use it at present (`RTNH_F_DEAD`).
    pub dead: bool,
    /// True if its interface has no carrier (`RTNH_F_LINKDOWN`). It is used all the same, unless
    /// the `ignore_routes_with_linkdown` setting says otherwise.
    pub link_down: bool,
    /// Encapsulation of packets that leave by it.
    pub encap: Option<Arc<Encap>>,
}

impl NextHop {
    /// A usable next hop of weight 1.
    pub const fn new(ifindex: u32, gateway: Option<IpAddr>) -> NextHop {
        NextHop { ifindex, gateway, weight: 1, dead: false, link_down: false, encap: None }
    }
}

/// Identity of a route. Several routes may share one key (appended routes, IPv6 routes of several
/// interfaces); then their order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    /// Number of the table.
    pub table: u32,
    /// Prefix of the destinations.
    pub dst: Prefix,
    /// Lower is preferred.
    pub metric: u32,
    /// TOS that the route is for, 0 for all.
    pub tos: u8,
    /// Source prefix of an IPv6 subtree route.
    pub src: Option<Prefix>,
}

/// One route of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Prefix of the destinations.
    pub dst: Prefix,
    /// Source prefix of an IPv6 subtree route; `None` for all.
    pub src: Option<Prefix>,
    /// Table; 254 main, 255 local.
    pub table: u32,
    /// Effect on the packets.
    pub kind: RouteKind,
    /// Priority: lower is preferred.
    pub metric: u32,
    /// TOS that the route is for, 0 for all.
    pub tos: u8,
    /// Next hops; empty for routes that drop.
    pub next_hops: Vec<NextHop>,
    /// Preferred source address for locally generated packets.
    pub prefsrc: Option<IpAddr>,
    /// MTU of the path in bytes.
    pub mtu: Option<u32>,
    /// Scope as in `rtnetlink(7)`.
    pub scope: u8,
    /// Origin of the route: 2 kernel, 3 boot, 4 static, … (`rtnetlink(7)`).
    pub protocol: u8,
    /// The route encapsulates (MPLS, SRv6, …); its next hops say how, where that is in this model.
    pub has_encap: bool,
}

impl Route {
    /// A unicast route through one interface in the main table, protocol static.
    pub fn new(dst: Prefix, next_hop: NextHop) -> Route {
        // An IPv4 next hop on the link itself has scope link, IPv6 knows no scopes.
        let on_link_v4 = dst.addr.is_ipv4() && next_hop.gateway.is_none();
        Route {
            dst,
            src: None,
            table: 254,
            kind: RouteKind::Unicast,
            metric: 0,
            tos: 0,
            next_hops: vec![next_hop],
            prefsrc: None,
            mtu: None,
            scope: if on_link_v4 { 253 } else { 0 },
            protocol: 4,
            has_encap: false,
        }
    }

    /// IPv4 or IPv6.
    pub const fn family(&self) -> Family {
        Family::of(self.dst.addr)
    }

    /// Identity of the route.
    pub const fn key(&self) -> RouteKey {
        RouteKey {
            table: self.table,
            dst: self.dst,
            metric: self.metric,
            tos: self.tos,
            src: self.src,
        }
    }
}

/// How well Linux knows a neighbour (`NUD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighbourState {
    /// Being asked for.
    Incomplete,
    /// Confirmed lately (`NUD_REACHABLE`).
    Reachable,
    /// Usable, to be confirmed when used.
    Stale,
    /// Usable, confirmation due.
    Delay,
    /// Usable, being confirmed.
    Probe,
    /// Did not answer.
    Failed,
    /// Set by hand, not to be resolved. (Such entries that Linux derives, for multicast and the
    /// like, are not in the model.)
    NoArp,
    /// Set by hand.
    Permanent,
    /// No entry, or another state.
    None,
}

impl NeighbourState {
    /// True if the link-layer address may be used.
    pub const fn is_usable(self) -> bool {
        matches!(
            self,
            NeighbourState::Reachable
                | NeighbourState::Stale
                | NeighbourState::Delay
                | NeighbourState::Probe
                | NeighbourState::NoArp
                | NeighbourState::Permanent
        )
    }
}

/// An entry of the ARP or neighbour discovery cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub ifindex: u32,
    /// The neighbour's address.
    pub ip: IpAddr,
    /// Ethernet address, if known.
    pub mac: Option<[u8; 6]>,
    /// How well it is known.
    pub state: NeighbourState,
    /// True for a router (IPv6).
    pub router: bool,
    /// Address of the far end that a neighbour on an interface with several is behind (of GRE without a remote address).
    pub far_end: Option<IpAddr>,
}

/// A forwarding entry of an overlay with Ethernet inside (`bridge fdb`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// Index of the interface.
    pub ifindex: u32,
    /// Ethernet address of the station; zero for all that have no entry.
    pub mac: [u8; 6],
    /// Address of the far end that it is behind.
    pub far_end: IpAddr,
    /// Index of the interface that packets there leave by, where the entry names one.
    pub via: Option<u32>,
    /// True if packets there have another port or network identifier than the interface's.
    pub has_more: bool,
}
