//! The use time of outbound policies.
//!
//! IKE daemons tell from it whether an SA is idle, and nothing sets it but a look-up of Linux's own. A
//! socket that is connected makes one, for the flow that it would send, and sends nothing. Its source need
//! not be an address of this host. The mark leads past culvert's own table, where Linux would not look
//! policies up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use policy::{Prefix, Selector};
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
    let port = |mask: policy::PortMask, any| if mask.mask == 0 { any } else { mask.value };
    socket.bind(&SocketAddr::new(src, port(selector.src_port, 0)).into())?;
    socket.connect(&SocketAddr::new(dst, port(selector.dst_port, DISCARD)).into())
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

/// RFC 863.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

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
