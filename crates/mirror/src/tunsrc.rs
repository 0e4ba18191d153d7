//! The source of outer headers that Linux has for all of SRv6 (`ip sr tunsrc`), by generic netlink (`linux/seg6_genl.h`).

use core::net::{IpAddr, Ipv6Addr};
use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

use crate::attribute::{Attributes, Request, as_ip, u16_at};
use crate::connection::{BUFFER_LEN, receive_datagram};
use crate::uapi::NLMSG_HEADER_LEN;

/// Asks for it, in the network namespace of the calling thread. None where it is not set: Linux takes an address of the
/// interface then.
///
/// # Errors
/// The system has no generic netlink, or no SRv6.
pub fn tunnel_source() -> io::Result<Option<Ipv6Addr>> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    // Connected to the kernel: nobody else's messages are received.
    socket.connect(&SocketAddr::new(0, 0))?;
    let unknown = || io::Error::from_raw_os_error(libc::EPROTO);
    let name = Request::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0])
        .attribute(CTRL_ATTR_FAMILY_NAME, b"SEG6\0");
    let family = answer(&socket, name, CTRL_ATTR_FAMILY_ID)?;
    let family = family.and_then(|id| u16_at(&id, 0)).ok_or_else(unknown)?;
    let ask = Request::new(family, 0, &[SEG6_CMD_GET_TUNSRC, 1, 0, 0]);
    match answer(&socket, ask, SEG6_ATTR_DST)?.as_deref().and_then(as_ip) {
        Some(IpAddr::V6(addr)) => Ok(Some(addr).filter(|addr| !addr.is_unspecified())),
        _ => Err(unknown()),
    }
}

/// One attribute of the answer to a request.
fn answer(socket: &Socket, request: Request, attribute: u16) -> io::Result<Option<Vec<u8>>> {
    socket.send(&request.finish(1), 0)?;
    let mut buffer = Vec::with_capacity(BUFFER_LEN);
    receive_datagram(socket, &mut buffer, 0)?;
    let payload = buffer.get(NLMSG_HEADER_LEN..).unwrap_or_default();
    if u16_at(&buffer, 4) == Some(NLMSG_ERROR) {
        // The negative of an errno.
        let errno = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
        return Err(io::Error::from_raw_os_error(-errno));
    }
    let attributes = Attributes::new(payload.get(GENL_HEADER_LEN..).unwrap_or_default());
    Ok(attributes.find(attribute).map(<[u8]>::to_vec))
}

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
/// `struct genlmsghdr`.
const GENL_HEADER_LEN: usize = 4;
const GENL_ID_CTRL: u16 = libc::GENL_ID_CTRL as u16;
const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
const SEG6_CMD_GET_TUNSRC: u8 = 4;
const SEG6_ATTR_DST: u16 = 1;
