//! `ioctl`, by which IKE daemons ask an interface for `esp-hw-offload` (`ethtool`).

use std::ffi::{c_int, c_ulong, c_void};

use super::{errno, sealed, set_errno};
use crate::ethtool::{self, Block, GFEATURES, NAME_LEN};
use crate::state;

/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: c_ulong = 0x8946;

/// `struct ifreq`, as far as `SIOCETHTOOL` goes.
#[repr(C)]
struct Request {
    name: [u8; NAME_LEN],
    /// A `struct ethtool_gfeatures`, if it begins with [`GFEATURES`]: that, a number of blocks, and the blocks.
    command: *mut u32,
}

/// `ioctl(2)`: what the kernel says of features, and `esp-hw-offload` where culvert has a device.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let asked = match request {
        // SAFETY: the argument of this request is a `struct ifreq`.
        SIOCETHTOOL => unsafe { features_of(argument.cast()) },
        _ => None,
    };
    let r =
        libc_call!(c"ioctl": fn(fd => c_int, request => c_ulong, argument => *mut c_void) -> c_int);
    if r == 0
        && let Some((name, blocks, count)) = asked
        && let Some(config) = sealed(state::config)
    {
        // SAFETY: the program has room for as many blocks as it said, and the kernel has filled them in.
        let features = unsafe { std::slice::from_raw_parts_mut(blocks, count) };
        let before = errno();
        sealed(|| ethtool::answer(config, fd, &name, features));
        set_errno(before);
    }
    r
}

/// If features are asked for: of which interface, where they go, and how many blocks there is room for. The kernel
/// overwrites that number by its own.
///
/// # Safety
///
/// `request` is null or leads to a `struct ifreq`, and that to null or an ethtool command.
unsafe fn features_of(request: *const Request) -> Option<([u8; NAME_LEN], *mut Block, usize)> {
    // SAFETY: null or valid, as the caller vouches for.
    let request = unsafe { request.as_ref() }?;
    let words = request.command;
    if words.is_null() {
        return None;
    }
    // SAFETY: each ethtool command begins with its number.
    let command = unsafe { words.read_unaligned() };
    if command != GFEATURES {
        return None;
    }
    let count = words.wrapping_add(1);
    // SAFETY: the number of blocks stands behind that of this command.
    let count = unsafe { count.read_unaligned() };
    let blocks: *mut Block = words.wrapping_add(2).cast();
    blocks.is_aligned().then_some((request.name, blocks, count as usize))
}
