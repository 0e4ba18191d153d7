//! Where a route leads.

use std::net::IpAddr;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The egress interface.
    pub ifindex: u32,
    /// The router, `None` where the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The route's `prefsrc`.
    pub prefsrc: Option<IpAddr>,
    /// The route's scope, which the source's must not exceed (IPv4).
    pub scope: u8,
}
