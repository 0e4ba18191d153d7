//! The use time of outbound policies.
//!
//! IKE daemons tell from it whether an SA is idle, and nothing sets it but a look-up of Linux's own. A
//! socket that is connected makes one, for the flow that it would send, and sends nothing. Its source need
//! not be an address of this host. The mark leads past culvert's own table, where Linux would not look
//! policies up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use policy::{PortMask, Prefix, Selector};
use socket2::{Domain, Protocol, Socket, Type};

/// Has Linux look up the policy of a flow that a selector is for.
///
/// # Errors
/// The flow has no route, or Linux does not take such a socket.
pub fn touch(selector: &Selector, mark: u32) -> io::Result<()> {
    let (src, dst) = (host(selector.src), host(selector.dst));
    let domain = if dst.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let (kind, protocol) = match selector.protocol {
        0 | UDP => (Type::DGRAM, Protocol::UDP),
        other => (Type::RAW, Protocol::from(i32::from(other))),
    };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_mark(mark)?;
    match dst {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        IpAddr::V6(_) => socket.set_freebind_v6(true)?,
    }
    let port = |mask: PortMask, any| if mask.mask == 0 { any } else { mask.value };
    socket.bind(&SocketAddr::new(src, port(selector.src_port, 0)).into())?;
    socket.connect(&SocketAddr::new(dst, port(selector.dst_port, DISCARD)).into())
}

/// Selector that both a policy and an SA of its choice have in common. For another flow of the
/// policy Linux might have no SA, and would ask the IKE daemon for one.
pub fn within(policy: &Selector, sa: Option<&Selector>) -> Selector {
    let of_sa = sa.filter(|sa| sa.dst.addr.is_ipv4() == policy.dst.addr.is_ipv4());
    let Some(sa) = of_sa else { return *policy };
    let longer = |one: Prefix, other: Prefix| if one.len >= other.len { one } else { other };
    let fuller = |one: PortMask, other: PortMask| if one.mask != 0 { one } else { other };
    Selector {
        src: longer(policy.src, sa.src),
        dst: longer(policy.dst, sa.dst),
        protocol: if policy.protocol == 0 { sa.protocol } else { policy.protocol },
        src_port: fuller(policy.src_port, sa.src_port),
        dst_port: fuller(policy.dst_port, sa.dst_port),
        ..*policy
    }
}

/// The first address of a prefix that a host may have.
fn host(prefix: Prefix) -> IpAddr {
    match prefix.addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(addr.to_bits() & mask | u32::from(prefix.len < 31)))
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.len.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(addr.to_bits() & mask | u128::from(prefix.len < 127)))
        }
    }
}

const UDP: u8 = 17;

/// UDP port of the discard service (RFC 863).
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(src: &str, src_len: u8, dst: &str, dst_len: u8) -> Selector {
        let prefix = |addr: &str, len| Prefix { addr: addr.parse().unwrap(), len };
        Selector::between(prefix(src, src_len), prefix(dst, dst_len))
    }

    #[test]
    fn a_flow_is_one_of_the_sa_too() {
        let direct = selector("0.0.0.0", 0, "10.2.0.253", 32);
        let mut sa = selector("10.1.0.0", 24, "10.2.0.0", 24);
        let both = selector("10.1.0.0", 24, "10.2.0.253", 32);
        assert_eq!(within(&direct, Some(&sa)), both);
        assert_eq!(within(&direct, None), direct);
        (sa.protocol, sa.dst_port) = (UDP, PortMask { value: 53, mask: 0xffff });
        let dns = within(&direct, Some(&sa));
        assert_eq!((dns.protocol, dns.dst_port.value, dns.src_port.mask), (UDP, 53, 0));
        // An SA of the other family does not say.
        let six = selector("2001:db8:1::", 64, "2001:db8:2::", 64);
        assert_eq!(within(&direct, Some(&six)), direct);
    }

    #[test]
    fn the_first_host_of_a_prefix() {
        let of = |addr: &str, len| host(Prefix { addr: addr.parse().unwrap(), len }).to_string();
        assert_eq!(of("10.1.2.3", 24), "10.1.2.1");
        assert_eq!(of("10.1.2.3", 32), "10.1.2.3");
        assert_eq!(of("10.1.2.2", 31), "10.1.2.2");
        assert_eq!(of("0.0.0.0", 0), "0.0.0.1");
        assert_eq!(of("2001:db8::5", 64), "2001:db8::1");
        assert_eq!(of("2001:db8::5", 128), "2001:db8::5");
    }
}
