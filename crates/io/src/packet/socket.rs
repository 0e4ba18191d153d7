//! The system calls of a packet socket, one safe function each.

#![allow(unsafe_code, reason = "system calls that libc declares; everything exported is safe")]

use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::umem::BURST_LEN;

/// Opens a socket that receives nothing until it is bound.
pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option that is one integer.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is one integer.
pub(crate) fn get(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which the kernel fills at most to len.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Takes the socket's pending error, as `SO_ERROR` reports it.
pub(crate) fn pending_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    match get(socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// How many frames found no room in the socket since this was asked last.
pub(super) fn lost(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `stats`, integers that the kernel fills at most to len.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    };
    if result == 0 { Ok(stats.tp_drops) } else { Err(io::Error::last_os_error()) }
}

/// Binds the socket to an interface: from now on it receives whatever its filter lets through.
pub(super) fn bind(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    // SAFETY: integers and an array: zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex as c_int;
    // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends messages of several parts each, `parts` being those of all, one after the other, and `counts` how many
/// each has. Returns how many messages went; an error is about the first.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    counts: &[usize],
) -> io::Result<usize> {
    let mut messages: [MaybeUninit<libc::mmsghdr>; BURST_LEN] =
        [const { MaybeUninit::uninit() }; BURST_LEN];
    let mut rest = parts;
    let mut len = 0;
    for (message, &count) in messages.iter_mut().zip(counts) {
        let Some((own, behind)) = rest.split_at_checked(count) else { break };
        rest = behind;
        // SAFETY: integers and pointers: zero is valid.
        let mut header: libc::mmsghdr = unsafe { core::mem::zeroed() };
        // An IoSlice is an iovec (std promises it), which the kernel only reads here.
        header.msg_hdr.msg_iov = own.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_iovlen = own.len();
        message.write(header);
        len += 1;
    }
    // SAFETY: the first `len` messages were written above; each refers to slices that outlive the call.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
