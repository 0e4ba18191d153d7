//! Which of a host's addresses is the source of a packet, as Linux chooses.

use std::net::{IpAddr, Ipv6Addr};

use mirror::{Address, Prefix};

use super::way::Way;

/// Scopes of `rtnetlink(7)`.
const SCOPE_LINK: u8 = 253;

/// IPv4: the first primary address of the egress interface in whose subnet the router is, else its
/// first, else the first of another interface (`inet_select_addr`).
pub fn v4_source<'a, I: Iterator<Item = &'a Address>>(
    addresses: impl Fn() -> I,
    way: Way,
) -> Option<IpAddr> {
    let primary = || addresses().filter(|a| !a.secondary && a.scope <= way.scope);
    let egress = || primary().filter(|a| a.ifindex == way.ifindex);
    let is_near = |a: &&Address| {
        let subnet = Prefix::of(a.addr, a.prefix_len);
        way.gateway.is_none_or(|gateway| subnet.contains(gateway))
    };
    egress()
        .find(is_near)
        .or_else(|| egress().next())
        .or_else(|| primary().find(|a| a.scope != SCOPE_LINK))
        .map(|a| a.addr)
}

/// IPv4: the best of some addresses where Linux's own choice is none of them. Those of the egress
/// interface come before others; of these, primary ones before secondary ones, and of these, one
/// in whose subnet the router is; then the first.
pub fn v4_nearest<'a>(
    addresses: impl Iterator<Item = &'a Address>,
    way: Option<Way>,
) -> Option<IpAddr> {
    let rank = |a: &&Address| {
        let gateway = way.and_then(|way| way.gateway);
        let is_near = gateway.is_some_and(|g| Prefix::of(a.addr, a.prefix_len).contains(g));
        let is_egress = way.is_some_and(|way| way.ifindex == a.ifindex);
        (!is_egress, a.secondary, !is_near)
    };
    // Of equals the first.
    addresses.min_by_key(rank).map(|a| a.addr)
}

/// IPv6: the best by the rules of RFC 6724 §5 (2 scope, 3 deprecated, 5 interface, 6 label, 7
/// public before temporary, 8 longest common prefix); of equals the first.
pub fn v6_source<'a>(
    addresses: impl Iterator<Item = &'a Address>,
    dst: Ipv6Addr,
    egress: Option<u32>,
) -> Option<IpAddr> {
    let rank = |(addr, a): &(Ipv6Addr, &Address)| {
        let (have, want) = (scope(*addr), scope(dst));
        // The smallest scope that suffices, else the largest.
        let reach = if have < want { (1, u8::MAX - have) } else { (0, have) };
        let common = (addr.to_bits() ^ dst.to_bits()).leading_zeros().min(a.prefix_len.into());
        (
            reach,
            a.deprecated,
            egress.is_some_and(|egress| egress != a.ifindex),
            label(*addr) != label(dst),
            a.secondary,
            u32::MAX - common,
        )
    };
    let v6 = addresses.filter_map(|a| match a.addr {
        IpAddr::V6(addr) => Some((addr, a)),
        IpAddr::V4(_) => None,
    });
    v6.min_by_key(rank).map(|(addr, _)| addr.into())
}

/// RFC 4291 §2.7's numbers: link-local 2, site-local 5, global 14.
fn scope(addr: Ipv6Addr) -> u8 {
    let [first, second, ..] = addr.octets();
    match (first, second) {
        (0xff, flags) => flags & 0xf,
        (0xfe, second) if second & 0xc0 == 0x80 => 2,
        (0xfe, second) if second & 0xc0 == 0xc0 => 5,
        _ if addr.is_loopback() => 2,
        _ => 14,
    }
}

/// The default policy table of RFC 6724 §2.1, with Linux's additions.
fn label(addr: Ipv6Addr) -> u8 {
    let table: [(Ipv6Addr, u8, u8); 9] = [
        (Ipv6Addr::LOCALHOST, 128, 0),
        (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
        (Ipv6Addr::UNSPECIFIED, 96, 3),
        (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 6),
        (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28, 7),
        (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
        (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
        (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
        (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 5),
    ];
    let mut rows = table.into_iter();
    let row =
        rows.find(|(of, len, _)| Prefix { addr: (*of).into(), len: *len }.contains(addr.into()));
    row.map_or(1, |(.., label)| label)
}
