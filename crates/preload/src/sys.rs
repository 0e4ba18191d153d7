//! System calls and fork handlers, as safe functions.
//!
//! The calls are made by number, not through the C library: its functions are the ones that this
//! library interposes, and some are cancellation points, where a thread could end while it holds
//! the lock. What they return is a count or an `errno`.

use std::ffi::CStr;
use std::mem::{self, MaybeUninit};
use std::ptr;

/// Error number of a system call, positive.
pub(crate) type Errno = i32;

fn result(returned: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(returned)
        .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// `socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)`.
pub(crate) fn unix_socket(flags: i32) -> Result<i32, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: passes integers only.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    result(fd).map(|fd| fd as i32)
}

/// A connected pair of SEQPACKET sockets, close-on-exec.
pub(crate) fn socket_pair() -> Result<[i32; 2], Errno> {
    let mut pair = [-1i32; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for the two descriptors.
    let r =
        unsafe { libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) };
    result(r).map(|_| pair)
}

/// Connects to a path; at once or not at all if the socket does not block.
pub(crate) fn connect(fd: i32, path: &[u8]) -> Result<(), Errno> {
    // SAFETY: all zeros is a valid address without a family.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // One byte stays zero, as the end.
    if path.len() >= address.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sockaddr_un>();
    // SAFETY: the address lives through the call and is as long as said.
    result(unsafe { libc::syscall(libc::SYS_connect, fd, &raw const address, len) }).map(|_| ())
}

/// Sends one datagram; never raises SIGPIPE, never waits.
pub(crate) fn send(fd: i32, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let no_address = ptr::null::<u8>();
    // SAFETY: the bytes live through the call and are as many as said.
    result(unsafe {
        libc::syscall(libc::SYS_sendto, fd, bytes.as_ptr(), bytes.len(), flags, no_address, 0)
    })
}

/// Receives one datagram without waiting; returns its full length, which may be above the
/// buffer's.
pub(crate) fn receive(fd: i32, buffer: &mut [u8], peek: bool) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | if peek { libc::MSG_PEEK } else { 0 };
    let no_address = ptr::null_mut::<u8>();
    // SAFETY: the buffer is exclusively borrowed and as long as said; no address is asked for.
    result(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd,
            buffer.as_mut_ptr(),
            buffer.len(),
            flags,
            no_address,
            no_address,
        )
    })
}

/// Waits until `fd` is readable, at most `timeout_ms`; interrupted by signals.
pub(crate) fn wait_readable(fd: i32, timeout_ms: u32) -> Result<bool, Errno> {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: (timeout_ms / 1000).into(),
        tv_nsec: (timeout_ms % 1000 * 1_000_000).into(),
    };
    let no_mask = ptr::null::<u8>();
    // SAFETY: one entry and the time live through the call; there is no signal mask.
    let r = unsafe {
        libc::syscall(libc::SYS_ppoll, &raw mut entry, 1, &raw const timeout, no_mask, 8)
    };
    result(r).map(|ready| ready > 0)
}

/// Sleeps, at most; a signal ends it.
pub(crate) fn pause(ms: u32) {
    // Negative descriptors are skipped.
    let _ = wait_readable(-1, ms);
}

/// Reads the beginning of a file; for between `fork` and `exec` too.
pub(crate) fn read_file(path: &CStr, buffer: &mut [u8]) -> Result<usize, Errno> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero and lives through the call.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags) };
    let fd = result(fd)? as i32;
    // SAFETY: the buffer is exclusively borrowed and as long as said.
    let len = unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) };
    let len = result(len);
    close(fd);
    len
}

/// Closes a descriptor.
pub(crate) fn close(fd: i32) {
    // SAFETY: passes an integer; the caller owns the descriptor.
    let _ = unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Puts what is behind `from` behind `to` as well; `close_on_exec` is for `to`.
pub(crate) fn replace(from: i32, to: i32, close_on_exec: bool) -> Result<(), Errno> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: passes integers only; the caller owns `to`.
    result(unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) }).map(|_| ())
}

/// `fcntl` with an integer argument.
pub(crate) fn fcntl(fd: i32, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: the commands that this library uses take an integer.
    result(unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) }).map(|r| r as i32)
}

/// The inode behind a descriptor; each socket has one of its own.
pub(crate) fn inode(fd: i32) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded and so filled it in.
    Some(unsafe { stat.assume_init() }.st_ino)
}

/// A socket option that is an integer.
pub(crate) fn int_option(fd: i32, level: i32, option: i32) -> Option<i32> {
    let mut value = -1i32;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let (out, room) = (&raw mut value, &raw mut len);
    // SAFETY: `value` has room for `len` bytes, and both live through the call.
    let r = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, out, room) };
    (r == 0).then_some(value)
}

/// Sets a socket option that is an integer.
pub(crate) fn set_int_option(fd: i32, level: i32, option: i32, value: i32) -> Result<(), Errno> {
    set_option(fd, level, option, &value)
}

fn set_option<T>(fd: i32, level: i32, option: i32, value: &T) -> Result<(), Errno> {
    let (from, len) = (ptr::from_ref(value), size_of::<T>());
    // SAFETY: `value` is as long as said and lives through the call, which only reads it.
    result(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, option, from, len) }).map(|_| ())
}

/// Has a classic BPF program choose among the sockets of a group that are bound to one address and port.
pub(crate) fn choose_by(fd: i32, program: &mut [libc::sock_filter]) -> Result<(), Errno> {
    let len = program.len() as libc::c_ushort;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// `socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0)`.
pub(crate) fn datagram_socket(domain: i32) -> Result<i32, Errno> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: passes integers only.
    result(unsafe { libc::syscall(libc::SYS_socket, domain, kind, 0) }).map(|fd| fd as i32)
}

/// Binds a socket to the address that another one has.
pub(crate) fn bind_as(fd: i32, other: i32) -> Result<(), Errno> {
    let mut address = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of_val(&address) as libc::socklen_t;
    let out = address.as_mut_ptr();
    // SAFETY: the address has room for `len` bytes, and both live through the call.
    result(unsafe { libc::syscall(libc::SYS_getsockname, other, out, &raw mut len) })?;
    // SAFETY: the address is as long as the call before said, and lives through this one.
    result(unsafe { libc::syscall(libc::SYS_bind, fd, address.as_ptr(), len) }).map(|_| ())
}

/// Sends one datagram with a descriptor; never raises SIGPIPE, never waits.
pub(crate) fn send_with(fd: i32, bytes: &[u8], descriptor: i32) -> Result<usize, Errno> {
    /// `struct cmsghdr`, and what is behind it.
    #[repr(C)]
    struct Rights {
        header: libc::cmsghdr,
        fd: i32,
    }
    const LEN: usize = size_of::<libc::cmsghdr>() + 4;
    // SAFETY: integers: zero is valid.
    let mut rights: Rights = unsafe { mem::zeroed() };
    rights.header.cmsg_len = LEN;
    rights.header.cmsg_level = libc::SOL_SOCKET;
    rights.header.cmsg_type = libc::SCM_RIGHTS;
    rights.fd = descriptor;
    let base = bytes.as_ptr().cast_mut().cast();
    let mut part = libc::iovec { iov_base: base, iov_len: bytes.len() };
    // SAFETY: integers and pointers: zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut rights).cast();
    message.msg_controllen = LEN;
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message refers to buffers that live through the call, which only reads them.
    result(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
}

/// True if the kernel has a netlink socket of the family of routes behind a descriptor.
pub(crate) fn is_rtnetlink(fd: i32) -> bool {
    let option = |option: i32| int_option(fd, libc::SOL_SOCKET, option);
    option(libc::SO_DOMAIN) == Some(libc::AF_NETLINK)
        && option(libc::SO_PROTOCOL) == Some(libc::NETLINK_ROUTE)
}

/// The port id of a netlink socket.
pub(crate) fn netlink_port_id(fd: i32) -> Option<u32> {
    // SAFETY: all zeros is a valid netlink address.
    let mut own: libc::sockaddr_nl = unsafe { mem::zeroed() };
    let mut len = size_of_val(&own) as libc::socklen_t;
    // SAFETY: `own` has room for `len` bytes, and both live through the call.
    let r = unsafe { libc::syscall(libc::SYS_getsockname, fd, &raw mut own, &raw mut len) };
    (r == 0 && i32::from(own.nl_family) == libc::AF_NETLINK).then_some(own.nl_pid)
}

/// Copies a socket option of up to 16 bytes; one that either side lacks stays as it is.
pub(crate) fn copy_option(from: i32, to: i32, level: i32, option: i32, halve: bool) {
    let mut value = [0u32; 4];
    let mut len = size_of_val(&value) as libc::socklen_t;
    let out = value.as_mut_ptr();
    // SAFETY: `value` has room for `len` bytes, and both live through the call.
    let r = unsafe { libc::syscall(libc::SYS_getsockopt, from, level, option, out, &raw mut len) };
    if r != 0 {
        return;
    }
    if halve {
        // The kernel doubles buffer sizes when they are set.
        value[0] /= 2;
    }
    // SAFETY: `value` holds `len` bytes and lives through the call.
    let _ = unsafe { libc::syscall(libc::SYS_setsockopt, to, level, option, value.as_ptr(), len) };
}

/// `epoll_ctl`; `DEL` ignores `events` and `data`.
pub(crate) fn epoll_control(
    epoll: i32,
    operation: i32,
    fd: i32,
    events: u32,
    data: u64,
) -> Result<(), Errno> {
    let event = libc::epoll_event { events, u64: data };
    // SAFETY: the event lives through the call.
    let r = unsafe { libc::syscall(libc::SYS_epoll_ctl, epoll, operation, fd, &raw const event) };
    result(r).map(|_| ())
}

/// `ioctl(SIOCETHTOOL)`: an ethtool command about an interface, whose name ends with a zero byte. The command has
/// room for its answer.
pub(crate) fn ethtool(fd: i32, name: &[u8; 16], command: &mut [u32]) -> Result<(), Errno> {
    /// `struct ifreq`, as long as the kernel reads it.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        command: *mut u32,
        rest: [u64; 2],
    }
    const SIOCETHTOOL: libc::c_long = 0x8946;
    let mut request = Request { name: *name, command: command.as_mut_ptr(), rest: [0; 2] };
    // SAFETY: the request lives through the call, and the command has room for the answer.
    let r = unsafe { libc::syscall(libc::SYS_ioctl, fd, SIOCETHTOOL, &raw mut request) };
    result(r).map(|_| ())
}

/// A variable of the environment; `name` ends with a zero byte.
pub(crate) fn environment(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: the name ends with a zero. As ever with the environment, another thread must not
    // change it meanwhile; this is called once, before or at the first socket.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a string that ends with a zero and lives at least until the
    // environment is changed.
    let value = unsafe { CStr::from_ptr(value) };
    Some(value.to_bytes().to_vec())
}

/// Runs `start` with all signals blocked, so that a thread it starts gets none.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: there is room for a set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled in just now, and `before` has room for a set.
    let r = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let value = start();
    if r == 0 {
        // SAFETY: the first call succeeded and so filled `before` in.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    value
}

/// Has the C library call these before a fork, and after it in the parent and in the child.
pub(crate) fn at_fork(
    prepare: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // SAFETY: the three are functions of this library, which is never unloaded.
    let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}
