//! The ioctls that make and set up a TUN interface, one safe function each.

#![allow(unsafe_code, reason = "ioctls on structures that libc declares; the exports are safe")]

use core::ffi::{c_int, c_short, c_uint};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Opens the device from which interfaces are made.
pub(super) fn open() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
}

/// An `ifreq` with a name and all else zero. The name is cut to what fits with its terminator.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays and a union of such (and pointers): zero is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IF_NAMESIZE - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Makes the interface, or takes a queue of it. It lives as long as `tun` is open.
pub(super) fn set_interface(tun: &File, name: &str, flags: c_int) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = flags as c_short;
    // SAFETY: TUNSETIFF takes a pointer to an ifreq, which it reads and writes.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    done(result)
}

/// Fails (`EBADFD`) once the interface is deleted, in whatever network namespace it was.
pub(super) fn attached(tun: &File) -> io::Result<()> {
    let mut request = request("");
    // SAFETY: TUNGETIFF takes a pointer to an ifreq, which it writes.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
    done(result)
}

/// Makes the interface outlive its descriptors, or not.
pub(super) fn set_persistent(tun: &File, lasts: bool) -> io::Result<()> {
    let lasts = libc::c_ulong::from(lasts);
    // SAFETY: TUNSETPERSIST takes its argument by value.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETPERSIST, lasts) };
    done(result)
}

/// Sets the length of the header in front of each packet.
pub(super) fn set_vnet_header_len(tun: &File, len: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ takes a pointer to an int, which it reads.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len) };
    done(result)
}

/// Tells the kernel which super-packets this side takes.
pub(super) fn set_offloads(tun: &File, offloads: c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    let result =
        unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
    done(result)
}

/// Has a BPF program choose the queue of what the kernel sends; none: the kernel chooses.
pub(super) fn set_steering(tun: &File, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let fd: c_int = program.map_or(-1, |program| program.as_raw_fd());
    // SAFETY: TUNSETSTEERINGEBPF takes a pointer to an int, which it reads.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETSTEERINGEBPF, &raw const fd) };
    done(result)
}

/// A socket to ask about interfaces with.
fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an interface's MTU, in bytes.
pub(super) fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu as c_int;
    let socket = control_socket()?;
    // SAFETY: SIOCSIFMTU takes a pointer to an ifreq, which it reads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFMTU, &raw mut request) };
    done(result)
}

/// Sets an Ethernet interface's address.
pub(super) fn set_mac(name: &str, mac: [u8; 6]) -> io::Result<()> {
    let mut request = request(name);
    let mut addr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
    for (to, from) in addr.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = addr;
    let socket = control_socket()?;
    // SAFETY: SIOCSIFHWADDR takes a pointer to an ifreq, which it reads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFHWADDR, &raw mut request) };
    done(result)
}

/// Sets an interface up.
pub(super) fn set_up(name: &str) -> io::Result<()> {
    let mut request = request(name);
    let socket = control_socket()?;
    // SAFETY: SIOCGIFFLAGS takes a pointer to an ifreq, whose flags it writes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    done(result)?;
    // SAFETY: the call above has written the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    // SAFETY: SIOCSIFFLAGS takes a pointer to an ifreq, which it reads.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) };
    done(result)
}

/// An interface's number.
pub(super) fn ifindex(name: &str) -> io::Result<u32> {
    let mut request = request(name);
    let socket = control_socket()?;
    // SAFETY: SIOCGIFINDEX takes a pointer to an ifreq, whose number it writes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) };
    done(result)?;
    // SAFETY: the call above has written the number.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    Ok(index as u32)
}

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
