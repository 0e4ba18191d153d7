//! Result of a route look-up.

use core::net::IpAddr;

use outcome::DropReason;
use wire::Family;

use crate::icmp_error::IcmpCause;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteResult {
    /// To this host.
    Local,
    /// Out of an interface.
    Unicast {
        /// Index of the egress interface.
        ifindex: u32,
        /// The router, or `None` where the destination is on the link.
        gateway: Option<IpAddr>,
        /// The route's own MTU, in bytes.
        mtu: Option<u32>,
        /// The route's preferred source address.
        src: Option<IpAddr>,
    },
    /// Nowhere, without a word. Also for addresses that no router may forward (RFC 1812 §5.3.7).
    Blackhole,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says prohibited.
    Prohibit,
    /// A rule matched that only Linux can judge, or the tables do not fit culvert's memory: the
    /// packet is Linux's.
    Linux,
    /// No rule led to a route.
    None,
}

impl RouteResult {
    /// Which neighbour the packet goes to: interface and address of the router or, on the link,
    /// of the destination. `None` unless unicast.
    pub fn neighbour(&self, dst: IpAddr) -> Option<(u32, IpAddr)> {
        match *self {
            Self::Unicast { ifindex, gateway, .. } => Some((ifindex, gateway.unwrap_or(dst))),
            _ => None,
        }
    }

    /// The reason to count, where the packet goes nowhere.
    pub const fn drop_reason(&self) -> Option<DropReason> {
        match self {
            Self::Blackhole | Self::Unreachable | Self::Prohibit => {
                Some(DropReason::RouteProhibited)
            }
            Self::None => Some(DropReason::NoRoute),
            Self::Local | Self::Unicast { .. } | Self::Linux => None,
        }
    }

    /// The ICMP error to send, where the packet goes nowhere and its sender is told, as Linux
    /// chooses it.
    pub const fn icmp_cause(&self, family: Family) -> Option<IcmpCause> {
        match (self, family) {
            (Self::None, _) | (Self::Unreachable, Family::V6) => Some(IcmpCause::NoRoute),
            (Self::Unreachable, Family::V4) => Some(IcmpCause::HostUnreachable),
            (Self::Prohibit, _) => Some(IcmpCause::Prohibited),
            _ => None,
        }
    }
}
