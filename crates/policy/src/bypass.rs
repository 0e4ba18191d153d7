//! Packets that no policy applies to: the gateway's own key exchange and neighbour discovery.
//!
//! RFC 4301 §4.4.1 makes an implementation able to let IKE and neighbour discovery pass whatever
//! the SPD says: without them no SA can be negotiated and no next hop be found. Linux leaves IKE
//! to a socket option of the daemon, which the data path does not see, so the rule stands here.

use wire::{Fragment, Headers};

/// The host's part in a packet: an end of it, or a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Source or destination is this host (a multicast group that it listens to counts).
    Local,
    /// The packet is only forwarded.
    Forwarded,
}

/// True if the packet bypasses the policies of every direction.
///
/// Only the host's own packets do. A forwarded packet never does: a client behind the gateway
/// could otherwise choose port 500 to get past the policies, and neighbour discovery is not
/// forwarded (RFC 4861 §3).
///
/// `natt_ike` is the caller's finding that the packet is UDP on a NAT traversal port and begins
/// with the non-ESP marker, or is a keepalive (RFC 3948 §2.2, §2.3): the headers do not tell.
///
/// Not handled: later fragments of an IKE message, which have no ports. IKE messages come to this
/// host through Linux, which reassembles them.
pub fn always_bypass(h: &Headers, ends: Ends, natt_ike: bool) -> bool {
    if ends == Ends::Forwarded || h.fragment == Fragment::Later {
        return false;
    }
    match h.protocol {
        UDP => natt_ike || h.src_port == IKE_PORT || h.dst_port == IKE_PORT,
        // Hop limit 255 shows that no router has touched it (RFC 4861 §6.1, §7.1, §8.1).
        ICMPV6 => h.src.is_ipv6() && h.ttl == 255 && ND_TYPES.contains(&h.src_port),
        _ => false,
    }
}

const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// RFC 7296 §2.
const IKE_PORT: u16 = 500;
/// Router solicitation to redirect (RFC 4861 §4); the type stands in the source port's place.
const ND_TYPES: core::ops::RangeInclusive<u16> = 133..=137;
