//! Functions that make, copy, close or watch a descriptor.

use std::ffi::{c_int, c_uint};

use libc::{epoll_event, ssize_t};

use super::{fail, returned, sealed};
use crate::calls::{self, Outcome};
use crate::socket::Registration;
use crate::{route_sockets, state, table};

/// `socket(2)`: NETLINK_XFRM sockets become connections to culvert.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK
        && protocol == libc::NETLINK_XFRM
        && let Some(config) = sealed(state::config)
    {
        return match sealed(|| calls::socket(kind, config)) {
            Ok(fd) => fd,
            Err(errno) => fail(errno),
        };
    }
    let fd = libc_call!(c"socket": fn(domain => c_int, kind => c_int, protocol => c_int) -> c_int);
    if domain == libc::AF_NETLINK && fd >= 0 {
        let is_served = sealed(state::config).is_some();
        route_sockets::set(fd, is_served && protocol == libc::NETLINK_ROUTE);
    }
    fd
}

/// `close(2)`: a socket of ours is ended.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if !table::is_foreign(fd)
        && let Outcome::Done(result) = sealed(|| calls::close(fd))
    {
        return returned(result, |()| 0) as c_int;
    }
    libc_call!(c"close": fn(fd => c_int) -> c_int)
}

/// `close_range(2)`: our sockets in the range are forgotten, unless they are to be closed on exec.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    /// Flag of linux/close_range.h: nothing is closed now.
    const ON_EXEC: c_int = 4;
    if flags & ON_EXEC == 0 {
        sealed(|| calls::forget_range(first, last));
    }
    libc_call!(c"close_range": fn(first => c_uint, last => c_uint, flags => c_int) -> c_int)
}

/// `closefrom(3)`: our sockets from there on are forgotten.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    sealed(|| calls::forget_range(first.max(0) as c_uint, c_uint::MAX));
    libc_call!(c"closefrom": fn(first => c_int) -> c_int);
}

/// `dup(2)`: a copy of our socket is ours too.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup(old: c_int) -> c_int {
    let new = libc_call!(c"dup": fn(old => c_int) -> c_int);
    if new >= 0 && table::is_socket(old) {
        sealed(|| calls::duplicated(old, new));
    }
    if new >= 0 {
        route_sockets::set(new, route_sockets::is_likely(old));
    }
    new
}

/// `dup2(2)`: a copy of our socket is ours too, and one that it replaces is ended.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if (table::is_socket(old) || !table::is_foreign(new))
        && let Outcome::Done(result) = sealed(|| calls::replace(old, new, false))
    {
        return returned(result, |fd| fd as ssize_t) as c_int;
    }
    let fd = libc_call!(c"dup2": fn(old => c_int, new => c_int) -> c_int);
    if fd >= 0 {
        route_sockets::set(fd, route_sockets::is_likely(old));
    }
    fd
}

/// `dup3(2)`: a copy of our socket is ours too, and one that it replaces is ended.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if (table::is_socket(old) || !table::is_foreign(new))
        && flags & !libc::O_CLOEXEC == 0
        && let Outcome::Done(result) = sealed(|| calls::replace(old, new, flags != 0))
    {
        return returned(result, |fd| fd as ssize_t) as c_int;
    }
    let fd = libc_call!(c"dup3": fn(old => c_int, new => c_int, flags => c_int) -> c_int);
    if fd >= 0 {
        route_sockets::set(fd, route_sockets::is_likely(old));
    }
    fd
}

/// `fcntl(2)`, of which F_DUPFD is followed.
///
/// The C function takes a variable argument list. On the platforms that this library supports, a
/// third argument passed that way lies where a fixed third argument of pointer size does.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    let r = libc_call!(c"fcntl": fn(fd => c_int, command => c_int, argument => usize) -> c_int);
    follow_fcntl(fd, command, r);
    r
}

/// `fcntl(2)` of programs built with 64-bit file offsets.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    let r = libc_call!(c"fcntl64": fn(fd => c_int, command => c_int, argument => usize) -> c_int);
    follow_fcntl(fd, command, r);
    r
}

fn follow_fcntl(fd: c_int, command: c_int, new: c_int) {
    let duplicates = command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC;
    if duplicates && new >= 0 && table::is_socket(fd) {
        sealed(|| calls::duplicated(fd, new));
    }
    if duplicates && new >= 0 {
        route_sockets::set(new, route_sockets::is_likely(fd));
    }
}

/// `epoll_ctl(2)`: registrations of our sockets are remembered, to be made again when the
/// connection changes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if table::is_socket(fd) && (operation == libc::EPOLL_CTL_DEL || !event.is_null()) {
        let (events, data) = if event.is_null() {
            (0, 0)
        } else {
            // SAFETY: the caller's event.
            let e = unsafe { event.read() };
            (e.events, e.u64)
        };
        let new = Registration { epoll, fd, events, data };
        if let Outcome::Done(result) = sealed(|| calls::epoll_control(operation, new)) {
            return returned(result, |()| 0) as c_int;
        }
    }
    libc_call!(c"epoll_ctl": fn(epoll => c_int, operation => c_int, fd => c_int, event => *mut epoll_event) -> c_int)
}
