//! Functions that send.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::memory::{check_destination, gather, vectors};
use super::{fail, returned, sealed};
use crate::calls::{self, Outcome};
use crate::{flight, table};

/// `send(2)`: a socket of ours sends to the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer.cast_mut(), iov_len: len };
        // SAFETY: the caller's buffer, of the length the caller says.
        if let Outcome::Done(result) = unsafe { send_vectors(fd, &raw const one, 1, flags) } {
            return returned(result, |n| n as ssize_t);
        }
    }
    libc_call!(c"send": fn(fd => c_int, buffer => *const c_void, len => size_t, flags => c_int) -> ssize_t)
}

/// `sendto(2)`: a socket of ours sends to the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    if table::is_socket(fd) {
        // SAFETY: the caller's address, of the length the caller says.
        if let Err(errno) = unsafe { check_destination(address, address_len) } {
            return fail(errno) as ssize_t;
        }
        let one = iovec { iov_base: buffer.cast_mut(), iov_len: len };
        // SAFETY: the caller's buffer, of the length the caller says.
        if let Outcome::Done(result) = unsafe { send_vectors(fd, &raw const one, 1, flags) } {
            return returned(result, |n| n as ssize_t);
        }
    }
    libc_call!(c"sendto": fn(fd => c_int, buffer => *const c_void, len => size_t, flags => c_int, address => *const sockaddr, address_len => socklen_t) -> ssize_t)
}

/// `sendmsg(2)`; ancillary data is ignored.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    if table::is_socket(fd) && !message.is_null() {
        // SAFETY: the caller's message.
        let m = unsafe { message.read() };
        // SAFETY: the caller's address, of the length the caller says.
        if let Err(errno) = unsafe { check_destination(m.msg_name.cast(), m.msg_namelen) } {
            return fail(errno) as ssize_t;
        }
        // SAFETY: the caller's buffers, as many as the caller says.
        if let Outcome::Done(result) = unsafe { send_vectors(fd, m.msg_iov, m.msg_iovlen, flags) } {
            return returned(result, |n| n as ssize_t);
        }
    }
    libc_call!(c"sendmsg": fn(fd => c_int, message => *const msghdr, flags => c_int) -> ssize_t)
}

/// `write(2)`: a socket of ours sends to the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer.cast_mut(), iov_len: len };
        // SAFETY: the caller's buffer, of the length the caller says.
        if let Outcome::Done(result) = unsafe { send_vectors(fd, &raw const one, 1, 0) } {
            return returned(result, |n| n as ssize_t);
        }
    }
    libc_call!(c"write": fn(fd => c_int, buffer => *const c_void, len => size_t) -> ssize_t)
}

/// `writev(2)`: a socket of ours sends to the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    if table::is_socket(fd) && count >= 0 {
        // SAFETY: the caller's buffers, as many as the caller says.
        if let Outcome::Done(result) = unsafe { send_vectors(fd, buffers, count as size_t, 0) } {
            return returned(result, |n| n as ssize_t);
        }
    }
    libc_call!(c"writev": fn(fd => c_int, buffers => *const iovec, count => c_int) -> ssize_t)
}

/// Sends on one of our sockets.
///
/// # Safety
///
/// `buffers` points at `count` buffers that are readable.
unsafe fn send_vectors(
    fd: c_int,
    buffers: *const iovec,
    count: size_t,
    flags: c_int,
) -> Outcome<usize> {
    if flags & libc::MSG_OOB != 0 {
        return Outcome::Done(Err(libc::EOPNOTSUPP));
    }
    sealed(|| {
        // SAFETY: as the caller vouches for.
        let buffers = unsafe { vectors(buffers, count) };
        // SAFETY: as the caller vouches for.
        let mut bytes = unsafe { gather(buffers) };
        let outcome = calls::send(fd, &bytes, flags & libc::MSG_DONTWAIT != 0);
        // It may hold keys.
        flight::wipe(&mut bytes);
        outcome
    })
}
