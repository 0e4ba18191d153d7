//! The interposed functions: each takes the C library's place in the program that loads this.
//!
//! Each function first asks the table of descriptors, without lock or memory management, and hands
//! foreign descriptors straight to the next definition of its name (`dlsym(RTLD_NEXT)`, looked up
//! on first use, so before any constructor has run as well).
//!
//! The functions are `extern "C-unwind"` and keep nothing that needs to be dropped across a call
//! of the C library's function: a thread that is cancelled inside unwinds through them. What works
//! on sockets of ours runs behind `sealed`, which a panic does not leave.
//!
//! # Safety
//!
//! For all of them: pointers are what the C library's function of that name asks for.
#![allow(
    clippy::missing_safety_doc,
    reason = "each has the contract of the C function it stands for, as said above"
)]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr::{self, null_mut};
use std::slice;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use libc::{epoll_event, iovec, msghdr, size_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use crate::calls::{self, Outcome, Received, option};
use crate::socket::Registration;
use crate::state;
use crate::table;

/// The next definition of a function, looked up once.
fn next(name: &CStr, cache: &AtomicPtr<c_void>) -> *mut c_void {
    let known = cache.load(Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    cache.store(found, Release);
    found
}

/// Calls the C library's function, or fails with ENOSYS where it has none of this name.
macro_rules! libc_call {
    ($name:literal: fn($($arg:expr => $ty:ty),*) -> $ret:ty) => {{
        static CACHE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        let pointer = next($name, &CACHE);
        // SAFETY: the C library's function of this name has this type, and an absent one is null,
        // which is `None`.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($ty),*) -> $ret>>(
                pointer,
            )
        };
        match function {
            // SAFETY: the arguments are the caller's, who keeps the function's contract.
            Some(function) => unsafe { function($($arg),*) },
            None => fail(libc::ENOSYS) as $ret,
        }
    }};
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: returns the address of this thread's errno, which always exists.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid for the life of the thread.
    unsafe { *location = errno };
    -1
}

/// Runs what must not unwind into the program.
#[inline(never)]
fn sealed<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| process::abort())
}

/// The result as C has it.
fn returned<T>(result: Result<T, c_int>, value: impl FnOnce(T) -> ssize_t) -> ssize_t {
    match result {
        Ok(v) => value(v),
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// The program's buffers as a slice of `iovec`.
///
/// # Safety
///
/// `buffers` points at `count` of them, or `count` is 0.
unsafe fn vectors<'a>(buffers: *const iovec, count: size_t) -> &'a [iovec] {
    if buffers.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for the count.
    unsafe { slice::from_raw_parts(buffers, count) }
}

/// What the program sends, in one piece.
///
/// # Safety
///
/// Each buffer is readable at its length.
unsafe fn gather(buffers: &[iovec]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(buffers.iter().map(|b| b.iov_len).sum());
    for b in buffers.iter().filter(|b| b.iov_len > 0) {
        // SAFETY: as the caller vouches for.
        bytes.extend_from_slice(unsafe { slice::from_raw_parts(b.iov_base.cast(), b.iov_len) });
    }
    bytes
}

/// Fills the program's buffers one after the other; returns how many bytes had room.
///
/// # Safety
///
/// Each buffer is writable at its length.
unsafe fn scatter(mut bytes: &[u8], buffers: &[iovec]) -> usize {
    let len = bytes.len();
    for b in buffers {
        let (now, rest) = bytes.split_at(bytes.len().min(b.iov_len));
        if !now.is_empty() {
            // SAFETY: as the caller vouches for; the program's memory is not the library's.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), b.iov_base.cast(), now.len()) };
        }
        bytes = rest;
    }
    len - bytes.len()
}

/// Writes a netlink address as the kernel does: cut to the room there is, with its full length.
///
/// # Safety
///
/// `len` is null or valid, and `address` is null or has room for `*len` bytes.
unsafe fn put_address(port_id: u32, groups: u32, address: *mut c_void, len: *mut socklen_t) {
    if address.is_null() || len.is_null() {
        return;
    }
    // SAFETY: all zeros is a valid netlink address.
    let mut own: sockaddr_nl = unsafe { std::mem::zeroed() };
    own.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    own.nl_pid = port_id;
    own.nl_groups = groups;
    // SAFETY: not null, so valid.
    let room = unsafe { *len } as usize;
    let full = size_of::<sockaddr_nl>();
    // SAFETY: copies no more than both sides have.
    unsafe {
        ptr::copy_nonoverlapping((&raw const own).cast::<u8>(), address.cast(), room.min(full));
    }
    // SAFETY: as above.
    unsafe { *len = full as socklen_t };
}

/// Reads a netlink address: port id and groups.
///
/// # Safety
///
/// `address` is null or has `len` readable bytes.
unsafe fn take_address(address: *const sockaddr, len: socklen_t) -> Result<(u32, u32), c_int> {
    if address.is_null() || (len as usize) < size_of::<sockaddr_nl>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: there are enough bytes, and any bytes are a valid netlink address.
    let own = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    if i32::from(own.nl_family) != libc::AF_NETLINK {
        return Err(libc::EINVAL);
    }
    Ok((own.nl_pid, own.nl_groups))
}

/// What a receive call got.
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

fn errno() -> c_int {
    // SAFETY: returns the address of this thread's errno, which always exists.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid for the life of the thread.
    unsafe { *location }
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
        crate::flight::wipe(&mut bytes);
        outcome
    })
}

/// Whether an address that is sent to is the kernel's: port id 0, no group.
///
/// # Safety
///
/// `address` is null or has `len` readable bytes.
unsafe fn check_destination(address: *const sockaddr, len: socklen_t) -> Result<(), c_int> {
    if address.is_null() || len == 0 {
        return Ok(());
    }
    // SAFETY: as the caller vouches for.
    match unsafe { take_address(address, len) }? {
        (0, 0) => Ok(()),
        // Nobody listens there.
        _ => Err(libc::ECONNREFUSED),
    }
}

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
    libc_call!(c"socket": fn(domain => c_int, kind => c_int, protocol => c_int) -> c_int)
}

/// `close(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if !table::is_foreign(fd)
        && let Outcome::Done(result) = sealed(|| calls::close(fd))
    {
        return returned(result, |()| 0) as c_int;
    }
    libc_call!(c"close": fn(fd => c_int) -> c_int)
}

/// `close_range(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    /// Of linux/close_range.h: nothing is closed now.
    const ON_EXEC: c_int = 4;
    if flags & ON_EXEC == 0 {
        sealed(|| calls::forget_range(first, last));
    }
    libc_call!(c"close_range": fn(first => c_uint, last => c_uint, flags => c_int) -> c_int)
}

/// `closefrom(3)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    sealed(|| calls::forget_range(first.max(0) as c_uint, c_uint::MAX));
    libc_call!(c"closefrom": fn(first => c_int) -> c_int);
}

/// `dup(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup(old: c_int) -> c_int {
    let new = libc_call!(c"dup": fn(old => c_int) -> c_int);
    if new >= 0 && table::is_socket(old) {
        sealed(|| calls::duplicated(old, new));
    }
    new
}

/// `dup2(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup2(old: c_int, new: c_int) -> c_int {
    if (table::is_socket(old) || !table::is_foreign(new))
        && let Outcome::Done(result) = sealed(|| calls::replace(old, new, false))
    {
        return returned(result, |fd| fd as ssize_t) as c_int;
    }
    libc_call!(c"dup2": fn(old => c_int, new => c_int) -> c_int)
}

/// `dup3(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if (table::is_socket(old) || !table::is_foreign(new))
        && flags & !libc::O_CLOEXEC == 0
        && let Outcome::Done(result) = sealed(|| calls::replace(old, new, flags != 0))
    {
        return returned(result, |fd| fd as ssize_t) as c_int;
    }
    libc_call!(c"dup3": fn(old => c_int, new => c_int, flags => c_int) -> c_int)
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
}

/// `bind(2)`.
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

/// `getsockname(2)`.
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

/// `setsockopt(2)`.
///
/// On foreign sockets, the options by which IKE daemons exempt themselves from IPsec and take in
/// UDP-encapsulated ESP succeed also on a kernel that knows none of it: culvert's data path does
/// without them.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if table::is_socket(fd) {
        // SAFETY: the caller's value, of the length the caller says.
        let number = unsafe { int_value(value, len) };
        if let Some(r) = set_own_option(fd, level, name, number) {
            return r;
        }
    }
    let r = libc_call!(c"setsockopt": fn(fd => c_int, level => c_int, name => c_int, value => *const c_void, len => socklen_t) -> c_int);
    let missing = [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::ENOSYS, libc::EPROTONOSUPPORT];
    if r != 0
        && is_ike_option(level, name)
        && missing.contains(&errno())
        && sealed(state::config).is_some()
    {
        return 0;
    }
    r
}

/// The first four bytes of an option's value; 0 if there are fewer.
///
/// # Safety
///
/// `value` is null or has `len` readable bytes.
unsafe fn int_value(value: *const c_void, len: socklen_t) -> Option<c_int> {
    if value.is_null() || (len as usize) < size_of::<c_int>() {
        return None;
    }
    // SAFETY: there are enough bytes.
    Some(unsafe { value.cast::<c_int>().read_unaligned() })
}

/// Whether IKE daemons set this on their UDP sockets.
fn is_ike_option(level: c_int, name: c_int) -> bool {
    /// `IP_XFRM_POLICY` and `IPV6_XFRM_POLICY` of linux/in.h and linux/in6.h.
    const POLICY: [(c_int, c_int); 2] = [(libc::IPPROTO_IP, 17), (libc::IPPROTO_IPV6, 35)];
    /// `UDP_ENCAP` of linux/udp.h.
    const ENCAP: (c_int, c_int) = (libc::IPPROTO_UDP, 100);
    POLICY.contains(&(level, name)) || ENCAP == (level, name)
}

/// `setsockopt` on one of our sockets; `None` if the connection's own option is meant.
fn set_own_option(fd: c_int, level: c_int, name: c_int, value: Option<c_int>) -> Option<c_int> {
    let outcome = match (level, name) {
        (libc::SOL_NETLINK, _) => match value {
            None => Outcome::Done(Err(libc::EINVAL)),
            Some(v) => set_netlink_option(fd, name, v),
        },
        // Larger than the limit only for the privileged; then as large as it may be.
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => {
            return force_buffer(fd, libc::SO_RCVBUF, value);
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => {
            return force_buffer(fd, libc::SO_SNDBUF, value);
        }
        // A filter would see the control datagrams. It only spares the program messages.
        (
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER | libc::SO_DETACH_FILTER | libc::SO_LOCK_FILTER,
        ) => Outcome::Done(Ok(())),
        _ => return None,
    };
    match outcome {
        Outcome::Done(result) => Some(returned(result, |()| 0) as c_int),
        _ => None,
    }
}

fn set_netlink_option(fd: c_int, name: c_int, value: c_int) -> Outcome<()> {
    match name {
        option::ADD_MEMBERSHIP | option::DROP_MEMBERSHIP => {
            let joins = name == option::ADD_MEMBERSHIP;
            sealed(|| calls::set_membership(fd, value as u32, joins))
        }
        n if option::SWITCHES.contains(&n) => {
            sealed(|| calls::set_switch(fd, n as u32, value != 0))
        }
        _ => Outcome::Done(Err(libc::ENOPROTOOPT)),
    }
}

fn force_buffer(fd: c_int, name: c_int, value: Option<c_int>) -> Option<c_int> {
    let value = value?;
    let len = size_of::<c_int>() as socklen_t;
    let pointer = (&raw const value).cast::<c_void>();
    Some(
        libc_call!(c"setsockopt": fn(fd => c_int, libc::SOL_SOCKET => c_int, name => c_int, pointer => *const c_void, len => socklen_t) -> c_int),
    )
}

/// `getsockopt(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if table::is_socket(fd)
        && let Some(answer) = own_option(fd, level, name)
    {
        return match answer {
            // SAFETY: the caller's value, with the room the caller says.
            Ok(number) => unsafe { put_int(number, value, len) },
            Err(errno) => fail(errno),
        };
    }
    libc_call!(c"getsockopt": fn(fd => c_int, level => c_int, name => c_int, value => *mut c_void, len => *mut socklen_t) -> c_int)
}

/// What a netlink socket would answer; `None` where the connection's own answer is right.
fn own_option(fd: c_int, level: c_int, name: c_int) -> Option<Result<c_int, c_int>> {
    let d = sealed(|| calls::describe(fd))?;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(Ok(libc::AF_NETLINK)),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(Ok(d.kind)),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(Ok(libc::NETLINK_XFRM)),
        (libc::SOL_SOCKET, libc::SO_ERROR) => sealed(|| calls::take_error(fd)).map(Ok),
        (libc::SOL_NETLINK, option::LIST_MEMBERSHIPS) => Some(Ok(d.groups as c_int)),
        (libc::SOL_NETLINK, n) if option::SWITCHES.contains(&n) => {
            Some(Ok((d.options >> n & 1) as c_int))
        }
        (libc::SOL_NETLINK, _) => Some(Err(libc::ENOPROTOOPT)),
        _ => None,
    }
}

/// # Safety
///
/// `len` is null or valid, and `value` is null or has room for `*len` bytes.
unsafe fn put_int(number: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    if value.is_null() || len.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: not null, so valid.
    let room = (unsafe { *len }) as usize;
    if room < size_of::<c_int>() {
        return fail(libc::EINVAL);
    }
    // SAFETY: there is room for it.
    unsafe { value.cast::<c_int>().write_unaligned(number) };
    // SAFETY: as above.
    unsafe { *len = size_of::<c_int>() as socklen_t };
    0
}

/// `send(2)`.
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

/// `sendto(2)`.
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

/// `write(2)`.
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

/// `writev(2)`.
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

/// What a receive call returns: MSG_TRUNC asks for the full length.
fn received_len(taken: Result<Taken, ()>, flags: c_int) -> ssize_t {
    match taken {
        Ok(t) if flags & libc::MSG_TRUNC != 0 => t.received.len as ssize_t,
        Ok(t) => t.copied as ssize_t,
        Err(()) => -1,
    }
}

/// `recv(2)`.
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
    libc_call!(c"recv": fn(fd => c_int, buffer => *mut c_void, len => size_t, flags => c_int) -> ssize_t)
}

/// `recvfrom(2)`.
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
    libc_call!(c"recvfrom": fn(fd => c_int, buffer => *mut c_void, len => size_t, flags => c_int, address => *mut sockaddr, address_len => *mut socklen_t) -> ssize_t)
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
    libc_call!(c"recvmsg": fn(fd => c_int, message => *mut msghdr, flags => c_int) -> ssize_t)
}

/// `read(2)`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    if table::is_socket(fd) {
        let one = iovec { iov_base: buffer, iov_len: len };
        if let Some(taken) = receive_loop!(fd, &raw const one, 1, 0) {
            return received_len(taken, 0);
        }
    }
    libc_call!(c"read": fn(fd => c_int, buffer => *mut c_void, len => size_t) -> ssize_t)
}

/// `readv(2)`.
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
    libc_call!(c"__read_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t) -> ssize_t)
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
    libc_call!(c"__recv_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t, flags => c_int) -> ssize_t)
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
    libc_call!(c"__recvfrom_chk": fn(fd => c_int, buffer => *mut c_void, len => size_t, room => size_t, flags => c_int, address => *mut sockaddr, address_len => *mut socklen_t) -> ssize_t)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_gathered_and_scattered_across_buffers() {
        let (mut a, mut b, mut c) = ([0u8; 3], [0u8; 0], [0u8; 4]);
        let vector = |s: &mut [u8]| iovec { iov_base: s.as_mut_ptr().cast(), iov_len: s.len() };
        let buffers = [vector(&mut a), vector(&mut b), vector(&mut c)];
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { scatter(b"12345", &buffers) }, 5);
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { scatter(b"123456789", &buffers) }, 7);
        // SAFETY: the buffers are the arrays above.
        assert_eq!(unsafe { gather(&buffers) }, b"1234567");
        // SAFETY: the count is 0.
        assert!(unsafe { vectors(ptr::null(), 0) }.is_empty());
    }

    #[test]
    fn addresses_are_cut_to_the_room_there_is() {
        let mut room = [0xffu8; 16];
        let mut len = 6;
        // SAFETY: the array has more room than the length says.
        unsafe { put_address(0x0403_0201, 7, room.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!((len, room[6]), (12, 0xff));
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { take_address(room.as_ptr().cast(), 11) }, Err(libc::EINVAL));
        let mut len = 16;
        // SAFETY: the array is as long as said.
        unsafe { put_address(4711, 7, room.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!(len, 12);
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { take_address(room.as_ptr().cast(), 12) }, Ok((4711, 7)));
        // SAFETY: the array is as long as said.
        assert_eq!(unsafe { check_destination(room.as_ptr().cast(), 12) }, Err(libc::ECONNREFUSED));
    }

    #[test]
    fn only_the_options_of_ike_daemons_are_forgiven() {
        assert!(is_ike_option(libc::IPPROTO_IP, 17));
        assert!(is_ike_option(libc::IPPROTO_IPV6, 35));
        assert!(is_ike_option(libc::IPPROTO_UDP, 100));
        assert!(!is_ike_option(libc::IPPROTO_TCP, 17));
        assert!(!is_ike_option(libc::IPPROTO_IP, 35));
    }
}
