//! The source of outer headers that Linux has for all of SRv6 (`ip sr tunsrc`, `linux/seg6_genl.h`).

use core::net::{IpAddr, Ipv6Addr};
use std::io;

use netlink::attribute::as_ip;

use crate::generic::{Generic, unknown};

/// Asks for it, in the network namespace of the calling thread. None where it is not set: Linux takes an address of the
/// interface then.
///
/// # Errors
/// The system has no generic netlink, or no SRv6.
pub fn tunnel_source() -> io::Result<Option<Ipv6Addr>> {
    let source = Generic::open(b"SEG6\0")?.ask(SEG6_CMD_GET_TUNSRC, None, SEG6_ATTR_DST)?;
    match source.as_deref().and_then(as_ip) {
        Some(IpAddr::V6(addr)) => Ok(Some(addr).filter(|addr| !addr.is_unspecified())),
        _ => Err(unknown()),
    }
}

const SEG6_CMD_GET_TUNSRC: u8 = 4;
const SEG6_ATTR_DST: u16 = 1;
