//! Functions that bind, connect and shut down a socket, and that tell its addresses.

use std::ffi::c_int;

use libc::{sockaddr, socklen_t};

use super::memory::{put_address, take_address};
use super::{fail, returned, sealed};
use crate::calls::{self, Outcome};
use crate::table;

/// `bind(2)`: a netlink socket of ours gets its port id and groups.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if table::is_socket(fd) {
        // SAFETY: the caller's address, of the length the caller says.
        let outcome = match unsafe { take_address(address, len) } {
            Ok((port_id, groups)) => sealed(|| calls::bind(fd, port_id, groups)),
            Err(errno) => Outcome::Done(Err(errno)),
        };
        if let Outcome::Done(result) = outcome {
            return returned(result, |()| 0) as c_int;
        }
    }
    libc_call!(c"bind": fn(fd => c_int, address => *const sockaddr, len => socklen_t) -> c_int)
}

/// `connect(2)`: all that an XFRM socket can be connected to is the kernel.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    if table::is_socket(fd) {
        // SAFETY: the caller's address, of the length the caller says.
        let outcome = match unsafe { take_address(address, len) } {
            Ok((0, 0)) => sealed(|| calls::connect(fd)),
            Ok(_) => Outcome::Done(Err(libc::EPERM)),
            Err(errno) => Outcome::Done(Err(errno)),
        };
        if let Outcome::Done(result) = outcome {
            return returned(result, |()| 0) as c_int;
        }
    }
    libc_call!(c"connect": fn(fd => c_int, address => *const sockaddr, len => socklen_t) -> c_int)
}

/// `shutdown(2)`, which netlink does not have.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if table::is_socket(fd) && sealed(|| calls::describe(fd)).is_some() {
        return fail(libc::EOPNOTSUPP);
    }
    libc_call!(c"shutdown": fn(fd => c_int, how => c_int) -> c_int)
}

/// `getsockname(2)`: a socket of ours answers as netlink.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    if table::is_socket(fd)
        && let Some(d) = sealed(|| calls::describe(fd))
    {
        // SAFETY: the caller's address, with the room the caller says.
        unsafe { put_address(d.port_id, d.groups, address.cast(), len) };
        return 0;
    }
    libc_call!(c"getsockname": fn(fd => c_int, address => *mut sockaddr, len => *mut socklen_t) -> c_int)
}

/// `getpeername(2)`: the kernel.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    if table::is_socket(fd) && sealed(|| calls::describe(fd)).is_some() {
        // SAFETY: the caller's address, with the room the caller says.
        unsafe { put_address(0, 0, address.cast(), len) };
        return 0;
    }
    libc_call!(c"getpeername": fn(fd => c_int, address => *mut sockaddr, len => *mut socklen_t) -> c_int)
}
