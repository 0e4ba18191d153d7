//! Functions that receive, those of programs built with `_FORTIFY_SOURCE` too.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::slice;

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::memory::{put_address, scatter, vectors};
use super::{errno, fail, sealed};
use crate::calls::{self, Outcome, Received};
use crate::hidden::Left;
use crate::{route_sockets, table};

/// The loop of every receive call: tries, and waits while there is nothing. Evaluates to `None` if
/// the descriptor is foreign, to `Some(Err(()))` after an error, with errno set.
macro_rules! receive_loop {
    ($fd:expr, $buffers:expr, $count:expr, $flags:expr) => {
        loop {
            // SAFETY: the caller's buffers, as many as the caller says.
            match unsafe { receive($fd, $buffers, $count, $flags) } {
                Outcome::Foreign => break None,
                Outcome::Done(Ok(taken)) => break Some(Ok(taken)),
                Outcome::Done(Err(errno)) => {
                    fail(errno);
                    break Some(Err(()));
                }
                Outcome::Wait => {
                    if !wait($fd) {
                        break Some(Err(()));
                    }
                }
            }
        }
    };
}

/// Receives by the C library's function on a socket of Linux's: on rtnetlink without culvert's own
/// routes and rules. Where a part of a dump holds nothing else, the next part is received.
macro_rules! of_linux {
    ($fd:expr, $flags:expr, $buffer:expr, $len:expr, $call:expr) => {
        loop {
            let n = $call;
            if n <= 0 || !route_sockets::is_likely($fd) {
                break n;
            }
            // SAFETY: the caller's buffer, of the length the caller says.
            if let Some(left) = unsafe { without_hidden($fd, $flags, $buffer, $len, n) } {
                break left;
            }
        }
    };
}

/// `recv(2)`: a socket of ours gives datagrams of the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer, iov_len: len };
        if let Some(taken) = receive_loop!(fd, &raw const one, 1, flags) {
            return received_len(taken, flags);
        }
    }
    of_linux!(
        fd,
        flags,
        buffer,
        len,
        libc_call!(c"recv": fn(fd => c_int, buffer => *mut c_void, len => size_t, flags => c_int) -> ssize_t)
    )
}

/// `recvfrom(2)`: a socket of ours gives datagrams of the server, from the kernel's address.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer, iov_len: len };
        if let Some(taken) = receive_loop!(fd, &raw const one, 1, flags) {
            if let Ok(t) = taken {
                // SAFETY: the caller's address, with the room the caller says.
                unsafe { put_address(0, t.received.groups, address.cast(), address_len) };
            }
            return received_len(taken, flags);
        }
    }
    of_linux!(
        fd,
        flags,
        buffer,
        len,
        libc_call!(c"recvfrom": fn(fd => c_int, buffer => *mut c_void, len => size_t, flags => c_int, address => *mut sockaddr, address_len => *mut socklen_t) -> ssize_t)
    )
}

/// `recvmsg(2)`; there is never ancillary data.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if table::is_socket(fd) && !message.is_null() {
        // SAFETY: the caller's message.
        let mut m = unsafe { message.read() };
        if let Some(taken) = receive_loop!(fd, m.msg_iov, m.msg_iovlen, flags) {
            if let Ok(t) = taken {
                let room = if m.msg_name.is_null() { null_mut() } else { &raw mut m.msg_namelen };
                // SAFETY: the caller's address, with the room the caller says.
                unsafe { put_address(0, t.received.groups, m.msg_name, room) };
                m.msg_controllen = 0;
                m.msg_flags = if t.received.len > t.copied { libc::MSG_TRUNC } else { 0 };
                // SAFETY: the caller's message.
                unsafe { message.write(m) };
            }
            return received_len(taken, flags);
        }
    }
    if message.is_null() || !route_sockets::is_likely(fd) {
        return libc_call!(c"recvmsg": fn(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t);
    }
    // SAFETY: the caller's message. The kernel changes lengths in it.
    let before = unsafe { message.read() };
    // SAFETY: the caller's buffers, as many as the caller says.
    let buffers = unsafe { vectors(before.msg_iov, before.msg_iovlen) };
    let Some(first) = buffers.first() else {
        return libc_call!(c"recvmsg": fn(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t);
    };
    let (buffer, len) = (first.iov_base, first.iov_len);
    of_linux!(fd, flags, buffer, len, {
        // SAFETY: the caller's message.
        unsafe { message.write(before) };
        libc_call!(c"recvmsg": fn(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t)
    })
}

/// `read(2)`: a socket of ours gives datagrams of the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer, iov_len: len };
        if let Some(taken) = receive_loop!(fd, &raw const one, 1, 0) {
            return received_len(taken, 0);
        }
    }
    of_linux!(
        fd,
        0,
        buffer,
        len,
        libc_call!(c"read": fn(fd => c_int, buffer => *mut c_void, len => size_t) -> ssize_t)
    )
}

/// `readv(2)`: a socket of ours gives datagrams of the server.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn readv(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    if table::is_socket(fd)
        && count >= 0
        && let Some(taken) = receive_loop!(fd, buffers, count as size_t, 0)
    {
        return received_len(taken, 0);
    }
    libc_call!(c"readv": fn(fd => c_int, buffers => *const iovec, count => c_int) -> ssize_t)
}

/// `read` of programs built with `_FORTIFY_SOURCE`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    if table::is_socket(fd) && len <= room {
        // SAFETY: the caller's buffer, of the length the caller says.
        return unsafe { read(fd, buffer, len) };
    }
    of_linux!(
        fd,
        0,
        buffer,
        len,
        libc_call!(c"__read_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t) -> ssize_t)
    )
}

/// `recv` of programs built with `_FORTIFY_SOURCE`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if table::is_socket(fd) && len <= room {
        // SAFETY: the caller's buffer, of the length the caller says.
        return unsafe { recv(fd, buffer, len, flags) };
    }
    of_linux!(
        fd,
        flags,
        buffer,
        len,
        libc_call!(c"__recv_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t, flags => c_int) -> ssize_t)
    )
}

/// `recvfrom` of programs built with `_FORTIFY_SOURCE`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    if table::is_socket(fd) && len <= room {
        // SAFETY: the caller's buffer and address, of the lengths the caller says.
        return unsafe { recvfrom(fd, buffer, len, flags, address, address_len) };
    }
    of_linux!(
        fd,
        flags,
        buffer,
        len,
        libc_call!(c"__recvfrom_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t, flags => c_int, address => *mut sockaddr, address_len => *mut socklen_t) -> ssize_t)
    )
}

/// Hides what a program is not to see in the `n` bytes received; `None` if nothing is left.
///
/// A datagram that is longer than the buffer, spread over several, or only looked at (MSG_PEEK)
/// stays as it is.
///
/// # Safety
///
/// `buffer` is null or has `len` bytes that are writable.
unsafe fn without_hidden(
    fd: c_int,
    flags: c_int,
    buffer: *mut c_void,
    len: size_t,
    n: ssize_t,
) -> Option<ssize_t> {
    let whole = usize::try_from(n).ok().filter(|n| *n <= len && flags & libc::MSG_PEEK == 0);
    let Some(whole) = whole.filter(|_| !buffer.is_null()) else { return Some(n) };
    // SAFETY: as the caller vouches for; the kernel has just filled so many bytes in.
    let datagram = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), whole) };
    match sealed(|| route_sockets::hide(fd, datagram)) {
        Left::All => Some(n),
        Left::Bytes(left) => Some(left as ssize_t),
        Left::Nothing => None,
    }
}

/// Return value of a receive call: MSG_TRUNC asks for the full length.
fn received_len(taken: Result<Taken, ()>, flags: c_int) -> ssize_t {
    match taken {
        Ok(t) if flags & libc::MSG_TRUNC != 0 => t.received.len as ssize_t,
        Ok(t) => t.copied as ssize_t,
        Err(()) => -1,
    }
}

/// Result of a receive call.
#[derive(Clone, Copy)]
struct Taken {
    copied: usize,
    received: Received,
}

/// Receives on one of our sockets.
///
/// # Safety
///
/// `buffers` points at `count` buffers that are writable.
unsafe fn receive(fd: c_int, buffers: *const iovec, count: size_t, flags: c_int) -> Outcome<Taken> {
    if flags & libc::MSG_OOB != 0 {
        return Outcome::Done(Err(libc::EOPNOTSUPP));
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Outcome::Done(Err(libc::EAGAIN));
    }
    sealed(|| {
        let mut copied = 0;
        let (peek, dont_wait) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_DONTWAIT != 0);
        // SAFETY: as the caller vouches for.
        let buffers = unsafe { vectors(buffers, count) };
        let outcome = calls::receive(fd, peek, dont_wait, &mut |bytes| {
            // SAFETY: as the caller vouches for.
            copied = unsafe { scatter(bytes, buffers) };
        });
        match outcome {
            Outcome::Done(r) => Outcome::Done(r.map(|received| Taken { copied, received })),
            Outcome::Wait => Outcome::Wait,
            Outcome::Foreign => Outcome::Foreign,
        }
    })
}

/// Waits for anything on one of our sockets, as a receive call of the program would: a signal, a
/// time-out (SO_RCVTIMEO) and a cancellation end it. False if it failed; errno says why.
fn wait(fd: c_int) -> bool {
    let mut byte = 0u8;
    let to = (&raw mut byte).cast::<c_void>();
    let n = libc_call!(c"recv": fn(fd => c_int, to => *mut c_void, 1 => size_t, libc::MSG_PEEK => c_int) -> ssize_t);
    // A reset connection is for the next attempt to deal with.
    n >= 0 || !matches!(errno(), libc::EINTR | libc::EAGAIN | libc::EBADF)
}
