//! A server that answers just enough to tell whether the library keeps its promises, and that can
//! be killed and started again under the same path.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../../../xfrm/src/shim_protocol.rs"]
#[allow(dead_code, reason = "the tests speak a part of it")]
mod shim_protocol;

pub use shim_protocol::Record;
use shim_protocol::records;

// linux/netlink.h and linux/xfrm.h.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const F_MULTI: u16 = 2;
const F_ACK: u16 = 4;
const F_DUMP: u16 = 0x300;
const NEWSA: u16 = 0x10;
const GETSA: u16 = 0x12;
const NEWSPDINFO: u16 = 0x24;
const GETSPDINFO: u16 = 0x25;

/// Messages to the server, by connection in the order of their making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A control record.
    Control(Record),
    /// A netlink message: type and sequence number.
    Netlink(u16, u32),
}

#[derive(Default)]
struct Shared {
    connections: Mutex<Vec<Connection>>,
    heard: Mutex<Vec<(usize, Heard)>>,
    /// Requests are taken and not answered.
    silent: AtomicBool,
    /// Dumps stop after their first part.
    half_dumps: AtomicBool,
    /// Every connection is ended as soon as it is made.
    hangs_up: AtomicBool,
    /// UDP sockets are taken; a silent server says nothing of them.
    takes_sockets: AtomicBool,
    dead: AtomicBool,
}

struct Connection {
    fd: Arc<OwnedFd>,
    port_id: u32,
    groups: u32,
}

/// A running server; dropped, it is gone at once, as if killed.
pub struct Server {
    path: PathBuf,
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts to listen.
    pub fn start(path: &Path) -> Server {
        Server::with(path, Shared::default())
    }

    /// Starts to listen, takes UDP sockets, and answers nothing yet.
    pub fn begin(path: &Path) -> Server {
        let (silent, takes_sockets) = (AtomicBool::new(true), AtomicBool::new(true));
        Server::with(path, Shared { silent, takes_sockets, ..Shared::default() })
    }

    fn with(path: &Path, shared: Shared) -> Server {
        let _ = std::fs::remove_file(path);
        // SAFETY: passes integers only.
        let fd =
            unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        let listener = Arc::new(own(fd).expect("a socket"));
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.to_str().expect("text").as_bytes();
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is as long as said.
        let r = unsafe { libc::bind(listener.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(r, 0, "bind: {}", io::Error::last_os_error());
        // SAFETY: passes integers only.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 64) }, 0);
        let server = Server { path: path.to_owned(), listener, shared: Arc::new(shared) };
        let (listener, shared) = (Arc::clone(&server.listener), Arc::clone(&server.shared));
        thread::spawn(move || accept(&listener, &shared));
        server
    }

    /// From now on requests are not answered.
    pub fn fall_silent(&self) {
        self.shared.silent.store(true, SeqCst);
    }

    /// From now on requests are answered again.
    pub fn speak(&self) {
        self.shared.silent.store(false, SeqCst);
    }

    /// From now on UDP sockets are taken.
    pub fn take_sockets(&self) {
        self.shared.takes_sockets.store(true, SeqCst);
    }

    /// From now on dumps stop after their first part.
    pub fn halve_dumps(&self) {
        self.shared.half_dumps.store(true, SeqCst);
    }

    /// From now on every connection is ended as soon as it is made.
    pub fn hang_up_on_everyone(&self) {
        self.shared.hangs_up.store(true, SeqCst);
    }

    /// Sends an event to all members of its group.
    pub fn event(&self, kind: u16, group: u32) {
        let connections = self.shared.connections.lock().expect("no panic");
        for c in connections.iter().filter(|c| c.groups & (1 << (group - 1)) != 0) {
            send(&c.fd, &message(kind, 0, 0, 0, &sample_sa()));
        }
    }

    /// Tells all connections that messages were lost.
    pub fn overrun(&self) {
        for c in self.shared.connections.lock().expect("no panic").iter() {
            send(&c.fd, &Record::Overrun { lost: 1 }.datagram());
        }
    }

    /// Everything heard so far.
    pub fn heard(&self) -> Vec<(usize, Heard)> {
        self.shared.heard.lock().expect("no panic").clone()
    }

    /// Waits until something was heard.
    pub fn wait_for(&self, what: impl Fn(&Heard) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.heard().iter().any(|(_, h)| what(h)) {
            assert!(Instant::now() < deadline, "not heard; but {:?}", self.heard());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.dead.store(true, SeqCst);
        let _ = std::fs::remove_file(&self.path);
        // The threads hold the descriptors; this is what ends them.
        hang_up(&self.listener);
        for c in self.shared.connections.lock().expect("no panic").drain(..) {
            hang_up(&c.fd);
        }
    }
}

fn hang_up(fd: &OwnedFd) {
    // SAFETY: passes integers; the descriptor is open.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

fn own(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: a system call just made it for this caller alone.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn accept(listener: &OwnedFd, shared: &Arc<Shared>) {
    for number in 0.. {
        // SAFETY: no address is asked for.
        let fd = unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        let Some(fd) = own(fd).map(Arc::new) else { return };
        if shared.hangs_up.load(SeqCst) {
            continue;
        }
        let entry = Connection { fd: Arc::clone(&fd), port_id: 0, groups: 0 };
        let mut connections = shared.connections.lock().expect("no panic");
        // Asked under the lock, under which the dying server hangs up on all connections.
        if shared.dead.load(SeqCst) {
            return;
        }
        connections.push(entry);
        drop(connections);
        let shared = Arc::clone(shared);
        thread::spawn(move || serve(number, &fd, &shared));
    }
}

fn serve(number: usize, fd: &Arc<OwnedFd>, shared: &Shared) {
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        // SAFETY: the buffer is as long as said.
        let n = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        if n <= 0 {
            shared.connections.lock().expect("no panic").retain(|c| !Arc::ptr_eq(&c.fd, fd));
            return;
        }
        let datagram = &buffer[..n as usize];
        let note = |h| shared.heard.lock().expect("no panic").push((number, h));
        if let Some(records) = records(datagram) {
            for r in records {
                control(fd, shared, r);
                note(Heard::Control(r));
            }
            continue;
        }
        let mut rest = datagram;
        while rest.len() >= 16 {
            let len = u32::from_ne_bytes(rest[..4].try_into().expect("4")) as usize;
            let (m, after) = rest.split_at(len.next_multiple_of(4).min(rest.len()));
            let half = |at: usize| u16::from_ne_bytes(m[at..at + 2].try_into().expect("2"));
            let seq = u32::from_ne_bytes(m[8..12].try_into().expect("4"));
            note(Heard::Netlink(half(4), seq));
            answer(fd, shared, half(4), half(6), seq);
            rest = after;
        }
    }
}

fn control(fd: &Arc<OwnedFd>, shared: &Shared, record: Record) {
    let mut connections = shared.connections.lock().expect("no panic");
    let Some(c) = connections.iter_mut().find(|c| Arc::ptr_eq(&c.fd, fd)) else { return };
    match record {
        Record::Hello { port_id } => c.port_id = port_id,
        Record::Groups { mask } => c.groups = mask,
        Record::Subscribe { group } => c.groups |= 1 << (group - 1),
        Record::Unsubscribe { group } => c.groups &= !(1 << (group - 1)),
        Record::Sockets { .. } | Record::Socket { .. } | Record::Sync { .. }
            if shared.silent.load(SeqCst) && shared.takes_sockets.load(SeqCst) => {}
        Record::Sockets { .. } if shared.takes_sockets.load(SeqCst) => {
            send(fd, &Record::Sockets { wanted: 1 }.datagram());
        }
        Record::Socket { .. } => send(fd, &Record::Socket { errno: 0 }.datagram()),
        Record::Sync { value } => send(fd, &Record::Sync { value }.datagram()),
        _ => {}
    }
}

fn answer(fd: &Arc<OwnedFd>, shared: &Shared, kind: u16, flags: u16, seq: u32) {
    if shared.silent.load(SeqCst) {
        return;
    }
    let connections = shared.connections.lock().expect("no panic");
    let Some(own) = connections.iter().find(|c| Arc::ptr_eq(&c.fd, fd)) else { return };
    let port_id = own.port_id;
    assert_ne!(port_id, 0, "netlink before the hello");
    if kind == GETSA && flags & F_DUMP == F_DUMP {
        send(fd, &message(NEWSA, F_MULTI, seq, port_id, &sample_sa()));
        if !shared.half_dumps.load(SeqCst) {
            send(fd, &message(DONE, F_MULTI, seq, port_id, &[0; 4]));
        }
    } else if kind == GETSPDINFO {
        send(fd, &message(NEWSPDINFO, 0, seq, port_id, &[0; 4]));
    } else if kind == NEWSA {
        let event = message(NEWSA, 0, seq, port_id, &sample_sa());
        connections.iter().filter(|c| c.groups & 4 != 0).for_each(|c| send(&c.fd, &event));
    }
    if flags & F_ACK != 0 && kind != GETSA {
        let mut body = vec![0; 4];
        body.extend(message(kind, flags, seq, 0, &[]));
        send(fd, &message(ERROR, 0, seq, port_id, &body));
    }
}

fn message(kind: u16, flags: u16, seq: u32, port_id: u32, body: &[u8]) -> Vec<u8> {
    let mut m = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    m.extend(kind.to_ne_bytes());
    m.extend(flags.to_ne_bytes());
    m.extend(seq.to_ne_bytes());
    m.extend(port_id.to_ne_bytes());
    m.extend(body);
    m
}

fn send(fd: &OwnedFd, bytes: &[u8]) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the bytes are as many as said.
    unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
}

/// An `xfrm_usersa_info` that `ip` prints: ESP over IPv4, in transport mode.
fn sample_sa() -> [u8; 224] {
    let mut sa = [0; 224];
    sa[56..60].copy_from_slice(&[192, 0, 2, 2]);
    sa[76] = 50;
    sa[80..84].copy_from_slice(&[192, 0, 2, 1]);
    sa[212] = libc::AF_INET as u8;
    sa
}
