//! The system calls of a UDP socket, one safe function each.

#![allow(unsafe_code, reason = "system calls that libc declares; everything exported is safe")]

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

pub(super) use crate::packet::socket::pending_error;
use crate::packet::socket::{get, set};
use crate::umem::BURST_LEN;

/// True if a descriptor is a UDP socket.
pub(super) fn is_udp(fd: BorrowedFd<'_>) -> bool {
    let option = |option| get(fd, libc::SOL_SOCKET, option).ok();
    option(libc::SO_PROTOCOL) == Some(libc::IPPROTO_UDP)
        && option(libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
        && matches!(option(libc::SO_DOMAIN), Some(libc::AF_INET | libc::AF_INET6))
}

/// Where a socket is bound.
pub(super) fn local(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut name = Name::default();
    let mut len = size_of::<Name>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `name`, which the kernel fills at most to len.
    let result = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    address(&name.0).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Sets what the socket needs. An option that an older kernel does not know is left out where it only costs speed.
pub(super) fn prepare(fd: BorrowedFd<'_>, is_v4: bool) -> Result<(), (&'static str, io::Error)> {
    let (level, packet_info, ds_field, fragments) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_MTU_DISCOVER),
        false => (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_MTU_DISCOVER,
        ),
    };
    for (option, value, call) in [
        (packet_info, 1, "setsockopt(PKTINFO)"),
        (ds_field, 1, "setsockopt(RECVTOS)"),
        // IP_PMTUDISC_DONT, and IPv6's of the same number.
        (fragments, 0, "setsockopt(MTU_DISCOVER)"),
    ] {
        set(fd, level, option, value).map_err(|error| (call, error))?;
    }
    let _ = set(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
    for (forced, option) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        // Forced is for the privileged; else as much as net.core.rmem_max and wmem_max allow.
        if set(fd, libc::SOL_SOCKET, forced, BUFFER_BYTES).is_err() {
            let _ = set(fd, libc::SOL_SOCKET, option, BUFFER_BYTES);
        }
    }
    // The guard's policies are not for what is protected already. A kernel without XFRM has none.
    for direction in [POLICY_IN, POLICY_OUT] {
        let _ = set_bytes(fd, level, if is_v4 { 17 } else { 35 }, &bypass(is_v4, direction));
    }
    Ok(())
}

/// `struct xfrm_userpolicy_info` that lets everything pass: family, direction and action are all that is not 0.
fn bypass(is_v4: bool, direction: u8) -> [u8; 168] {
    let family = if is_v4 { libc::AF_INET } else { libc::AF_INET6 } as u16;
    let mut policy = [0; 168];
    let fields = family.to_ne_bytes().into_iter().zip(FAMILY_AT..);
    for (byte, at) in fields.chain([(direction, DIRECTION_AT)]) {
        if let Some(place) = policy.get_mut(at) {
            *place = byte;
        }
    }
    policy
}

fn set_bytes(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A peer's address as the kernel has it: room for both families.
#[derive(Clone, Copy, Default)]
#[repr(C, align(4))]
pub(super) struct Name([u8; NAME_LEN]);

/// The address that a name holds, if it is one of IP.
pub(super) fn address(name: &[u8]) -> Option<SocketAddr> {
    let field = |at: usize| name.get(at..).and_then(<[u8]>::first_chunk::<2>);
    let family = i32::from(u16::from_ne_bytes(*field(0)?));
    let port = u16::from_be_bytes(*field(2)?);
    let ip = match family {
        libc::AF_INET => IpAddr::from(*name.get(4..)?.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*name.get(8..)?.first_chunk::<16>()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

impl Name {
    /// Of an address; `scope` is the interface of a link-local one.
    pub(super) fn of(address: SocketAddr) -> (Self, usize) {
        let mut name = [0; NAME_LEN];
        let (family, at, len) = match address.ip() {
            IpAddr::V4(_) => (libc::AF_INET as u16, 4, 16),
            IpAddr::V6(_) => (libc::AF_INET6 as u16, 8, 28),
        };
        put(&mut name, 0, &family.to_ne_bytes());
        put(&mut name, 2, &address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => put(&mut name, at, &ip.octets()),
            IpAddr::V6(ip) => put(&mut name, at, &ip.octets()),
        }
        (Self(name), len)
    }
}

/// Control messages of one datagram: addresses, DS field, length of a segment.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; CONTROL_LEN],
    len: usize,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; CONTROL_LEN], len: 0 }
    }

    /// The address that a datagram is to leave from, and its DS field.
    pub(super) fn from_source(source: IpAddr, ds_field: u8) -> Self {
        let mut control = Self::new();
        match source {
            IpAddr::V4(source) => {
                // Interface, the source, and what only the kernel fills.
                let mut info = [0; 12];
                put(&mut info, 4, &source.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
                let ds_field = i32::from(ds_field).to_ne_bytes();
                control.push(libc::IPPROTO_IP, libc::IP_TOS, &ds_field);
            }
            IpAddr::V6(source) => {
                let mut info = [0; 20];
                put(&mut info, 0, &source.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
                let ds_field = i32::from(ds_field).to_ne_bytes();
                control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &ds_field);
            }
        }
        control
    }

    /// With the length by which the kernel cuts the payload.
    pub(super) fn cut_by(mut self, len: u16) -> Self {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, &len.to_ne_bytes());
        self
    }

    fn push(&mut self, level: c_int, kind: c_int, value: &[u8]) {
        let at = self.len;
        put(&mut self.bytes, at, &(HEADER_LEN + value.len()).to_ne_bytes());
        put(&mut self.bytes, at + 8, &level.to_ne_bytes());
        put(&mut self.bytes, at + 12, &kind.to_ne_bytes());
        put(&mut self.bytes, at + HEADER_LEN, value);
        self.len = at + HEADER_LEN + value.len().next_multiple_of(8);
    }
}

/// The kernel's report on a datagram, from control messages.
pub(super) fn told(control: &[u8]) -> Told {
    let mut told = Told::default();
    let mut rest = control;
    while let Some(header) = rest.first_chunk::<HEADER_LEN>() {
        let word = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
        let own = header.first_chunk::<8>().map_or(0, |len| usize::from_ne_bytes(*len));
        let Some(value) = rest.get(HEADER_LEN..own) else { break };
        let level = word(8).map_or(0, i32::from_ne_bytes);
        let kind = word(12).map_or(0, i32::from_ne_bytes);
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // Interface, the local address of the route, the destination in the header.
                let dst = value.get(8..).and_then(<[u8]>::first_chunk::<4>);
                told.dst = dst.map(|dst| Ipv4Addr::from(*dst).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let dst = value.first_chunk::<16>();
                told.dst = dst.map(|dst| Ipv6Addr::from(*dst).into());
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                told.ds_field = value.first().copied().unwrap_or(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = value.first_chunk::<4>().map_or(0, |v| i32::from_ne_bytes(*v));
                told.ds_field = class as u8;
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let len = value.first_chunk::<4>().map_or(0, |v| i32::from_ne_bytes(*v));
                told.segment = usize::try_from(len).unwrap_or(0);
            }
            _ => {}
        }
        rest = rest.get(own.next_multiple_of(8)..).unwrap_or(&[]);
    }
    told
}

/// The kernel's report on a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The address that it came to.
    pub(super) dst: Option<IpAddr>,
    pub(super) ds_field: u8,
    /// The length of each datagram but the last, where several were joined; else 0.
    pub(super) segment: usize,
}

/// One message to be sent: where to, how, and how many of the parts are its own.
pub(super) struct Outgoing {
    pub(super) to: Name,
    pub(super) to_len: usize,
    pub(super) control: Control,
    pub(super) parts: usize,
}

/// Sends messages; `parts` are those of all, one after the other. Returns how many went; an error is about the
/// first.
pub(super) fn send(
    fd: BorrowedFd<'_>,
    messages: &mut [Outgoing],
    parts: &[IoSlice<'_>],
) -> io::Result<usize> {
    // SAFETY: integers and pointers: zero is valid.
    let mut headers: [libc::mmsghdr; BURST_LEN] = unsafe { core::mem::zeroed() };
    let mut rest = parts;
    let mut len = 0;
    for (header, message) in headers.iter_mut().zip(messages) {
        let Some((own, behind)) = rest.split_at_checked(message.parts) else { break };
        rest = behind;
        header.msg_hdr.msg_name = (&raw mut message.to).cast();
        header.msg_hdr.msg_namelen = message.to_len as libc::socklen_t;
        // An IoSlice is an iovec (std promises it), which the kernel only reads here.
        header.msg_hdr.msg_iov = own.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_iovlen = own.len();
        header.msg_hdr.msg_control = message.control.bytes.as_mut_ptr().cast();
        header.msg_hdr.msg_controllen = message.control.len;
        len += 1;
    }
    // SAFETY: the first `len` headers were filled above; each refers to what outlives the call.
    let sent =
        unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr(), len, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Length of `struct cmsghdr`.
const HEADER_LEN: usize = 16;
pub(super) const CONTROL_LEN: usize = 128;

/// `struct sockaddr_in6`, the longer one.
pub(super) const NAME_LEN: usize = 28;

const _: () = assert!(size_of::<libc::cmsghdr>() == HEADER_LEN);

/// Of `struct xfrm_userpolicy_info`: the selector's family, and behind lifetimes, priority and index the direction.
const FAMILY_AT: usize = 40;
const DIRECTION_AT: usize = 160;
const POLICY_IN: u8 = 0;
const POLICY_OUT: u8 = 1;

/// Size of each socket buffer, receive and send, in bytes.
const BUFFER_BYTES: i32 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_they_were() {
        for text in ["192.0.2.1:4500", "[2001:db8::1]:4500"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(super::address(&Name::of(address).0.0), Some(address));
        }
        assert_eq!(address(&Name::default().0), None);
    }

    #[test]
    fn control_messages_are_read_as_the_kernel_writes_them() {
        let mut control = Control::new();
        let mut info = [0; 12];
        put(&mut info, 8, &[192, 0, 2, 1]);
        control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
        control.push(libc::IPPROTO_IP, libc::IP_TOS, &[0xb8]);
        control.push(libc::SOL_UDP, libc::UDP_GRO, &1400_i32.to_ne_bytes());
        let dst = Some(IpAddr::from([192, 0, 2, 1]));
        assert_eq!(
            told(&control.bytes[..control.len]),
            Told { dst, ds_field: 0xb8, segment: 1400 }
        );
        let six = Control::from_source(IpAddr::from([7; 16]), 4).cut_by(9);
        assert_eq!(told(&six.bytes[..six.len]).dst, Some(IpAddr::from([7; 16])));
        for len in 0..control.len {
            told(&control.bytes[..len]);
        }
        let mut wild = control;
        put(&mut wild.bytes, 0, &usize::MAX.to_ne_bytes());
        assert_eq!(told(&wild.bytes), Told::default());
        put(&mut wild.bytes, 0, &0_usize.to_ne_bytes());
        assert_eq!(told(&wild.bytes), Told::default());
    }
}
