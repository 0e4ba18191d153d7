//! Routes and rules as Linux has them: the input that a FIB is built from.

use core::net::IpAddr;

use wire::Family;

/// Numbers of the routing tables that every Linux host has (`/etc/iproute2/rt_tables`).
pub mod table {
    /// `default`, the last resort.
    pub const DEFAULT: u32 = 253;
    /// `main`: routes without another table.
    pub const MAIN: u32 = 254;
    /// `local`: this host's own and its broadcast addresses.
    pub const LOCAL: u32 = 255;
}

/// An address prefix. Host bits need not be zero; a length above the family's is its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subnet {
    /// The address, whose bits behind the length mean nothing.
    pub addr: IpAddr,
    /// The prefix length in bits; 0 holds every address of the family.
    pub len: u8,
}

impl Subnet {
    /// True if the address is of the same family and inside.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(p), IpAddr::V4(a)) => {
                let shift = 32u32.saturating_sub(self.len.into());
                (p.to_bits() ^ a.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(p), IpAddr::V6(a)) => {
                let shift = 128u32.saturating_sub(self.len.into());
                (p.to_bits() ^ a.to_bits()).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Family of the address.
    pub const fn family(&self) -> Family {
        match self.addr {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

/// Effect of a route on a packet (`RTN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// On to a next hop.
    Unicast,
    /// To this host; also for Linux's types broadcast, multicast and anycast.
    Local,
    /// Dropped without a word.
    Blackhole,
    /// Dropped with an ICMP error: unreachable.
    Unreachable,
    /// Dropped with an ICMP error: administratively prohibited.
    Prohibit,
    /// As if the table had no route: the next rule decides.
    Throw,
}

/// One next hop of a unicast route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Index of the egress interface.
    pub ifindex: u32,
    /// The router, or `None` where the destination is on the link. Its family may differ from
    /// the route's (`via inet6`).
    pub gateway: Option<IpAddr>,
    /// The share of flows that go this way, relative to the other hops; 0 counts as 1. (Linux's
    /// `rtnh_hops` is this less one.)
    pub weight: u16,
}

/// One route of one table.
///
/// Hops that are dead or whose link is down are to be left out; a unicast route without hops is
/// as good as none. Routes for one TOS only are not handled and are to be left out too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEntry {
    /// The table's number.
    pub table: u32,
    /// Destinations of the route.
    pub dst: Subnet,
    /// Effect on the packets.
    pub kind: RouteKind,
    /// Linux's priority or metric: of several routes to one prefix, the lowest counts; among
    /// equals, the first given.
    pub priority: u32,
    /// The next hops; only for unicast routes.
    pub hops: Vec<Hop>,
    /// MTU of the route (`RTAX_MTU`), in bytes, where it has its own.
    pub mtu: Option<u32>,
    /// Preferred source address.
    pub src: Option<IpAddr>,
}

impl RouteEntry {
    /// False for a unicast route without hops, which counts as none.
    pub fn is_usable(&self) -> bool {
        self.kind != RouteKind::Unicast || !self.hops.is_empty()
    }
}

/// Effect of a rule on the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// Looks into a table; where that has no route, the next rule decides.
    Table(u32),
    /// Goes on at the rule of this priority; ignored if there is none further on.
    Goto(u32),
    /// Drops without a word.
    Blackhole,
    /// Drops with an ICMP error: unreachable.
    Unreachable,
    /// Drops with an ICMP error: administratively prohibited.
    Prohibit,
    /// The rule has a condition or action that only Linux can judge (`uidrange`, `ipproto`,
    /// `l3mdev`, ...): a packet that matches the conditions given here is left to Linux.
    Opaque,
}

/// One rule (`ip rule`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// The family whose packets it is for.
    pub family: Family,
    /// Rules are tried in ascending order; equals in the order given.
    pub priority: u32,
    /// Sources that match. `None`: all.
    pub from: Option<Subnet>,
    /// Destinations that match. `None`: all.
    pub to: Option<Subnet>,
    /// Ingress interface. For a name that no interface has, give an index that none has.
    pub iif: Option<u32>,
    /// Egress interface: only sockets bound to one have it, so such a rule never matches a
    /// packet that is being routed here.
    pub oif: Option<u32>,
    /// The mark's value under the mask.
    pub fwmark: u32,
    /// The bits of the mark that count; 0 for any mark.
    pub fwmask: u32,
    /// Matches what the conditions do not (`ip rule add not ...`).
    pub invert: bool,
    /// Routes found in the table whose prefix is this long or shorter do not count
    /// (`suppress_prefixlength`).
    pub suppress_prefix_len: Option<u8>,
    /// Effect on the packets that match.
    pub action: RuleAction,
}

impl RuleEntry {
    /// A rule that sends every packet of the family to one table.
    pub const fn table(family: Family, priority: u32, table: u32) -> Self {
        Self {
            family,
            priority,
            from: None,
            to: None,
            iif: None,
            oif: None,
            fwmark: 0,
            fwmask: 0,
            invert: false,
            suppress_prefix_len: None,
            action: RuleAction::Table(table),
        }
    }

    /// The rules that a Linux host begins with, for both families.
    pub fn defaults() -> Vec<Self> {
        vec![
            Self::table(Family::V4, 0, table::LOCAL),
            Self::table(Family::V4, 32_766, table::MAIN),
            Self::table(Family::V4, 32_767, table::DEFAULT),
            Self::table(Family::V6, 0, table::LOCAL),
            Self::table(Family::V6, 32_766, table::MAIN),
        ]
    }

    /// True if a packet that is being routed meets the conditions.
    pub fn matches(&self, dst: IpAddr, src: IpAddr, mark: u32, iif: u32) -> bool {
        let conditions = self.oif.is_none()
            && self.from.is_none_or(|p| p.contains(src))
            && self.to.is_none_or(|p| p.contains(dst))
            && self.iif.is_none_or(|i| i == iif)
            && (mark ^ self.fwmark) & self.fwmask == 0;
        // The inverse of a condition that is not known is not known either.
        conditions != self.invert || self.invert && self.action == RuleAction::Opaque
    }

    /// True if every packet of the family that is being routed matches.
    pub fn always_matches(&self) -> bool {
        match self.invert {
            false => self.is_unconditional(),
            true => self.oif.is_some() || self.action == RuleAction::Opaque,
        }
    }

    /// True if no packet of the family that is being routed matches.
    pub fn never_matches(&self) -> bool {
        match self.invert {
            false => self.oif.is_some(),
            true => self.is_unconditional() && self.action != RuleAction::Opaque,
        }
    }

    fn is_unconditional(&self) -> bool {
        let is_any = |p: Option<Subnet>| p.is_none_or(|p| p.len == 0 && p.family() == self.family);
        self.oif.is_none()
            && self.iif.is_none()
            && is_any(self.from)
            && is_any(self.to)
            && self.fwmask == 0
    }
}
