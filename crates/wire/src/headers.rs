//! The record that a packet's headers are parsed into, once.

use core::net::IpAddr;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Whether and how a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole packet.
    Whole,
    /// The first fragment: the upper-layer header is there.
    First,
    /// A later fragment: no upper-layer header.
    Later,
}

/// A packet's IP and upper-layer headers, parsed and checked once; later stages read this.
///
/// Offsets are in bytes from the first byte of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Upper-layer protocol, after IPv6 extension headers. For a later fragment, the one that the
    /// fragment header names.
    pub protocol: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The whole DS field and ECN byte (`tos`, traffic class).
    pub traffic_class: u8,
    /// IPv4's DF; `true` for IPv6, whose routers never fragment.
    pub dont_fragment: bool,
    /// Fragmentation.
    pub fragment: Fragment,
    /// Length of the IP header with options or extension headers: where the upper layer begins.
    pub header_len: u16,
    /// The packet's length by its IP header (the frame may be longer: Ethernet padding).
    pub total_len: u16,
    /// Source port; ICMP type in host byte order for ICMP and ICMPv6 (as Linux's selectors have
    /// it); 0 where there is none, and for later fragments.
    pub src_port: u16,
    /// Destination port; ICMP code for ICMP and ICMPv6.
    pub dst_port: u16,
}

impl Headers {
    /// The IP version.
    pub const fn family(&self) -> Family {
        match self.src {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}
