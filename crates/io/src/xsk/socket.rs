//! The system calls of an AF_XDP socket, one safe function each.

#![allow(unsafe_code, reason = "system calls that libc declares; everything exported is safe")]

use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::umem::Umem;

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): packets that one wake-up may send in copy mode.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;

/// Opens an unbound AF_XDP socket.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set_option<T>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            core::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is integers only, so that any bytes are valid.
fn option<T: Copy>(socket: BorrowedFd<'_>, level: c_int, option: c_int) -> io::Result<T> {
    // Zeroed, because older kernels fill in less than the whole structure.
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which the kernel fills at most to len.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then written by the kernel; the callers below use structures of integers.
    Ok(unsafe { value.assume_init() })
}

/// Registers a region with the kernel by this socket.
pub(super) fn register(socket: BorrowedFd<'_>, umem: &Umem) -> io::Result<()> {
    let (addr, len) = umem.span();
    let registration =
        libc::xdp_umem_reg_v1 { addr, len, chunk_size: umem.chunk_len() as u32, headroom: 0 };
    set_option(socket, libc::XDP_UMEM_REG, &registration)
}

/// Sets a ring's size, in slots, which makes the ring.
pub(super) fn set_ring(socket: BorrowedFd<'_>, ring: c_int, size: u32) -> io::Result<()> {
    set_option(socket, ring, &size)
}

/// Lets one wake-up send more packets, on kernels that can. Failure only costs speed.
pub(super) fn raise_tx_budget(socket: BorrowedFd<'_>) {
    let _older_kernel = set_option(socket, XDP_MAX_TX_SKB_BUDGET, &256_u32);
}

/// Where the parts of the rings lie.
pub(super) fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    option(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
}

/// The kernel's counters of the socket.
pub(super) fn statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    option(socket, libc::SOL_XDP, libc::XDP_STATISTICS)
}

/// True if the socket works without copies.
pub(super) fn is_zero_copy(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let options: libc::xdp_options = option(socket, libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Takes the socket's pending error, as `SO_ERROR` reports it.
pub(super) fn pending_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    match option::<c_int>(socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Binds the socket to a queue. With `donor`, its region is shared, and `flags` must be 0.
pub(super) fn bind(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: u16,
    donor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if donor.is_some() { libc::XDP_SHARED_UMEM } else { flags },
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: donor.map_or(0, |donor| donor.as_raw_fd() as u32),
    };
    // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            core::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel look at the transmit ring.
pub(super) fn wake_tx(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no data: a null pointer with length 0.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            core::ptr::null(),
            0,
            libc::MSG_DONTWAIT,
            core::ptr::null(),
            0,
        )
    };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the driver look at the fill ring.
pub(super) fn wake_rx(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no data: a null pointer with length 0.
    let result = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            core::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        )
    };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An interface's name, for messages; its number when it has none.
pub(super) fn interface_name(ifindex: u32) -> String {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the IF_NAMESIZE bytes that the call may write.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    if found.is_null() {
        return format!("interface {ifindex}");
    }
    // SAFETY: the call succeeded, so the buffer holds a terminated string.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    name.to_string_lossy().into_owned()
}
