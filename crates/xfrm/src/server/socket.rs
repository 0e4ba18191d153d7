//! The system calls of the server: `SOCK_SEQPACKET` over `AF_UNIX`, and epoll.
//!
//! The only file of the crate with unsafe code. Each function is safe to call with any arguments.

#![expect(unsafe_code, reason = "the standard library has neither SOCK_SEQPACKET nor epoll")]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::ptr::null_mut;

/// Listens at the path, which only its owner may use. A socket that nobody serves any more is
/// replaced.
///
/// # Errors
/// The path is too long or not writable, somebody serves it, or it is no socket.
pub(super) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let address = address(path)?;
    if let Err(error) = connect(path) {
        match error.kind() {
            ErrorKind::ConnectionRefused => remove_socket(path)?,
            ErrorKind::NotFound => {}
            _ => return Err(error),
        }
    } else {
        return Err(ErrorKind::AddrInUse.into());
    }
    let fd = socket()?;
    // SAFETY: the address is a valid sockaddr_un that lives through the call, of the length given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), address_len()) })?;
    // Before listen: nobody can connect while the mode is still the umask's.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}

/// Connects to the path, as the preload library does.
///
/// # Errors
/// Nobody listens there, or the path is too long.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let address = address(path)?;
    let fd = socket()?;
    // SAFETY: the address is a valid sockaddr_un that lives through the call, of the length given.
    checked(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), address_len()) })?;
    Ok(fd)
}

/// Takes one waiting connection, `None` if there is none.
///
/// # Errors
/// Out of descriptors or memory.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null pointers ask for no address.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), null_mut(), null_mut(), flags) };
    match checked(fd) {
        // SAFETY: the call just returned this descriptor, so nobody else owns it.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// The user id of the process at the other end, when it connected. It may be in another PID namespace, as a container's
/// is: then its process id is 0 here, for which rustix has no type.
///
/// # Errors
/// Not a Unix socket.
pub fn peer_uid(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size::<libc::ucred>();
    // SAFETY: both pointers are to live variables, and the length is that of the first.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    checked(result)?;
    Ok(credentials.uid)
}

/// Receives one datagram without waiting, and the descriptor that comes with it; there is room for one, and the
/// kernel closes others. The length is the datagram's own and may be above that of the buffer; 0 is the end.
///
/// # Errors
/// `WouldBlock` when there is none; a broken connection.
pub(super) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_CMSG_CLOEXEC;
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Rights::default();
    // SAFETY: integers and pointers: zero is valid.
    let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = RIGHTS_LEN;
    // SAFETY: the header refers to buffers that live through the call, each of the length that is said.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let came = header.msg_controllen >= RIGHTS_LEN
        && control.len == RIGHTS_LEN
        && (control.level, control.kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // SAFETY: the kernel has just made this descriptor for this process, and nobody else owns it.
    let with = came.then(|| unsafe { OwnedFd::from_raw_fd(control.fd) });
    Ok((len, with))
}

/// Room for a control message with one descriptor: `struct cmsghdr`, and what is behind it.
#[derive(Default)]
#[repr(C)]
struct Rights {
    len: usize,
    level: i32,
    kind: i32,
    fd: i32,
}

/// Length of the record without padding, so that there is room for no second descriptor.
const RIGHTS_LEN: usize = 20;

const _: () = assert!(core::mem::offset_of!(Rights, fd) == size_of::<libc::cmsghdr>());
const _: () = assert!(core::mem::offset_of!(Rights, fd) + 4 == RIGHTS_LEN);

/// Sends one datagram without waiting.
///
/// # Errors
/// `WouldBlock` when the other end's queue is full; a broken connection.
pub(super) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are valid for reads of their length.
    let n = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Readiness that a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub read: bool,
    pub write: bool,
}

/// A set of descriptors, each with a number.
#[derive(Debug)]
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers are involved.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the call just returned this descriptor, so nobody else owns it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    fn control(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let bit = |on: bool, bit: i32| if on { bit.cast_unsigned() } else { 0 };
        let events = bit(interest.read, libc::EPOLLIN) | bit(interest.write, libc::EPOLLOUT);
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event lives through the call, and both descriptors are open.
        checked(unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event)
        })?;
        Ok(())
    }

    /// The numbers of what is ready now, without waiting, at most 64 of them.
    pub fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; READY];
        let max = i32::try_from(READY).unwrap_or(i32::MAX);
        // SAFETY: the array is valid for writes of `max` events.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), max, 0) };
        match usize::try_from(n) {
            Ok(n) => Ok(events.iter().take(n).map(|e| e.u64).collect()),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == ErrorKind::Interrupted => Ok(Vec::new()),
                e => Err(e),
            },
        }
    }
}

/// Removes a socket that nobody serves, and nothing else.
fn remove_socket(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    fs::remove_file(path)
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are involved.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the call just returned this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    let bytes = path.as_os_str().as_bytes();
    let mut address = libc::sockaddr_un {
        sun_family: u16::try_from(libc::AF_UNIX).unwrap_or(0),
        sun_path: [0; 108],
    };
    // One byte stays for the terminating zero.
    if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Ok(address)
}

const fn address_len() -> libc::socklen_t {
    size::<libc::sockaddr_un>()
}

#[expect(clippy::cast_possible_truncation, reason = "sizes of small C structs")]
const fn size<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

const BACKLOG: i32 = 64;
const READY: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn listens_privately_and_replaces_what_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        let listener = listen(&path).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_file_in_the_way_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        fs::write(&path, "precious").unwrap();
        // Linux refuses to connect to it just as it does to a dead socket.
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some("precious"));
    }

    #[test]
    fn datagrams_keep_their_bounds_and_tell_their_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = listen(&path).unwrap();
        let client = connect(&path).unwrap();
        let server = accept(listener.as_fd()).unwrap().unwrap();
        send(client.as_fd(), &[1; 10]).unwrap();
        send(client.as_fd(), &[2; 3]).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap().0, 10);
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap().0, 3);
        let empty = receive(server.as_fd(), &mut buffer).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::WouldBlock);
        drop(client);
        assert_eq!(receive(server.as_fd(), &mut buffer).unwrap().0, 0);
    }

    #[test]
    fn a_path_too_long_is_an_error() {
        assert_eq!(
            listen(Path::new(&"x".repeat(108))).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}
