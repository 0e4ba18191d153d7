//! The ioctls that tell about an interface, one safe function each.

#![allow(unsafe_code, reason = "ioctls on structures that live here; the exports are safe")]

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bits of `ETHTOOL_GFLAGS`.
pub(super) const ETH_FLAG_TXVLAN: u32 = 1 << 7;
pub(super) const ETH_FLAG_RXVLAN: u32 = 1 << 8;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A structure of `<linux/ethtool.h>`: integers and byte arrays that begin with a command.
///
/// # Safety
///
/// Any bytes must be valid, and the size must be that of the kernel's structure for each command
/// that the type is used with.
unsafe trait Ethtool {}

#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

#[repr(C)]
struct Value {
    cmd: u32,
    data: u32,
}

#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

// SAFETY: 196 bytes, as struct ethtool_drvinfo (4 + 5 * 32 + 12 + 5 * 4); integers only.
unsafe impl Ethtool for DriverInfo {}
// SAFETY: struct ethtool_value; integers only.
unsafe impl Ethtool for Value {}
// SAFETY: struct ethtool_channels: a command and eight numbers; integers only.
unsafe impl Ethtool for Channels {}

const _: () = assert!(size_of::<DriverInfo>() == 196);
const _: () = assert!(size_of::<Channels>() == 36);

/// A socket for these ioctls.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An `ifreq` with a name and all else zero. A name that is too long finds no interface.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays and a union of such (and pointers): zero is valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IF_NAMESIZE - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn call(socket: &OwnedFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: each `what` used here takes a pointer to an ifreq; a data pointer in it is valid
    // for the call (see ethtool()).
    let result: c_int =
        unsafe { libc::ioctl(socket.as_raw_fd(), what as _, core::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn ethtool<T: Ethtool>(socket: &OwnedFd, name: &str, value: &mut T) -> io::Result<()> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = core::ptr::from_mut(value).cast();
    call(socket, SIOCETHTOOL, &mut request)
}

/// An interface's index.
pub(super) fn ifindex(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut request = request(name);
    call(socket, libc::SIOCGIFINDEX as libc::c_ulong, &mut request)?;
    // SAFETY: the call has written this member.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

/// An interface's MTU in bytes.
pub(super) fn mtu(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut request = request(name);
    call(socket, libc::SIOCGIFMTU as libc::c_ulong, &mut request)?;
    // SAFETY: the call has written this member.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// The driver's name.
pub(super) fn driver(socket: &OwnedFd, name: &str) -> io::Result<String> {
    let mut info = DriverInfo { cmd: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    ethtool(socket, name, &mut info)?;
    let text = info.driver.split(|&byte| byte == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The VLAN offloads, as bits.
pub(super) fn flags(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut value = Value { cmd: ETHTOOL_GFLAGS, data: 0 };
    ethtool(socket, name, &mut value)?;
    Ok(value.data)
}

/// The numbers of receive and transmit queues in use.
pub(super) fn channels(socket: &OwnedFd, name: &str) -> io::Result<(u32, u32)> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    ethtool(socket, name, &mut channels)?;
    Ok((
        channels.rx.saturating_add(channels.combined),
        channels.tx.saturating_add(channels.combined),
    ))
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
