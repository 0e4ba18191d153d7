//! Support that the network tests share: a namespace of their own, and a raw socket as the outside.

#![allow(dead_code, reason = "this crate and culvert-steer use parts of it")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs `test` in a thread with a network namespace of its own, which goes with the thread. Skips,
/// saying so, when not root.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // SAFETY: takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: network namespaces need root");
        return;
    }
    let body = move || {
        // SAFETY: takes no pointers; affects this thread only.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "unshare: {}", io::Error::last_os_error());
        ip("link set lo up");
        test();
    };
    let thread = std::thread::Builder::new().spawn(body).expect("thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs `ip` with these arguments, in the calling thread's namespace.
pub fn ip(arguments: &str) {
    run("ip", arguments);
}

/// Runs a program; it must succeed.
pub fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {text}");
}

/// Makes a veth pair, up, without IPv6 chatter.
pub fn veth(inside: &str, outside: &str, queues: u32) {
    ip(&format!(
        "link add {inside} numrxqueues {queues} numtxqueues {queues} type veth \
         peer name {outside} numrxqueues {queues} numtxqueues {queues}"
    ));
    for name in [inside, outside] {
        ip(&format!("link set {name} addrgenmode none"));
        ip(&format!("link set {name} up"));
    }
}

/// An interface's number.
pub fn ifindex(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).expect("a name");
    // SAFETY: the name is a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "no interface {name:?}");
    index
}

/// A raw packet socket on one interface.
pub struct Raw(OwnedFd);

impl Raw {
    pub fn open(name: &str) -> Self {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, libc::c_int::from(protocol)) };
        assert!(fd >= 0, "packet socket: {}", io::Error::last_os_error());
        // SAFETY: the descriptor is new.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: integers and arrays: zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = ifindex(name) as i32;
        // SAFETY: the pointer and the length describe the address.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                core::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "bind: {}", io::Error::last_os_error());
        Self(socket)
    }

    pub fn send(&self, frame: &[u8]) {
        // SAFETY: the pointer and the length describe the frame.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "send: {}", io::Error::last_os_error());
    }

    /// The next frame that came in or went out here, if there is one.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 65536];
        // SAFETY: the pointer and the length describe the buffer.
        let len =
            unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        buffer.truncate(usize::try_from(len).ok()?);
        Some(buffer)
    }

    /// Waits for a frame that fits.
    pub fn expect(&self, what: &str, fits: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        wait_for(what, || self.receive().filter(|frame| fits(frame)))
    }
}

/// Tries until there is a result, for as long as a busy machine may take.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(Instant::now() < deadline, "no {what} in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Tries again to take something that was given back a moment ago. Another test's thread may be between fork and exec:
/// its child then holds the old descriptors for a moment more, and with them what they stand for.
pub fn again<T, E: core::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(error) => assert!(Instant::now() < deadline, "not free again: {error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// True if nothing comes for a while.
pub fn nothing_comes<T>(mut attempt: impl FnMut() -> Option<T>) -> bool {
    let deadline = Instant::now() + Duration::from_millis(50);
    while Instant::now() < deadline {
        if attempt().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
