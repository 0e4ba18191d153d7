//! UDP sockets whose ESP goes to a culvert that has no port of its own.
//!
//! By `UDP_ENCAP` an IKE daemon asks the kernel to take ESP out of what comes to its socket. Where culvert has no
//! interface (`culvert run --unprivileged`) it does that: a second socket, bound to the same address and port, is
//! made here and handed to it (rule 6 of `shim_protocol`). The kernel gives each datagram to one of both: those
//! that begin with the non-ESP marker (RFC 3948 §2.2) to the program's own, all others to culvert's. So the program
//! goes on with its socket as it is: addresses, packet information and options are the kernel's.
//!
//! The connection that the socket was handed over by stands for it. When it breaks, culvert's socket is gone, and
//! the thread that reconnects makes another. When the program closes its own, the connection is closed.

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::given::Given;
use crate::link;
use crate::shim_protocol::{self, Record};
use crate::socket::control;
use crate::state::{self, State};
use crate::sys::{self, Errno};
use crate::table::{self, Owner};

/// How long culvert's answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two looks for it, and that between two attempts to connect.
const LOOK_MS: u32 = 50;
const PAUSE_MS: u32 = 20;

/// Result of an offer.
enum Offered {
    Taken,
    Refused(Errno),
    /// This culvert has ports, and takes ESP there.
    Unwanted,
    /// Nobody has said whether it is wanted: culvert is beginning, or ending.
    Unanswered,
}

/// Offers a socket to culvert; `None` if that does not want it.
pub(crate) fn offer(fd: i32, config: &'static Config) -> Option<Result<(), Errno>> {
    if !state::is_own_process() || !is_udp(fd) {
        return None;
    }
    let deadline = Instant::now() + config.wait;
    loop {
        let offered = match link::connect(config) {
            Ok(link) => hand_over(fd, link),
            Err(libc::ENOENT | libc::ECONNREFUSED | libc::EAGAIN) => Offered::Unanswered,
            Err(_) => return None,
        };
        match offered {
            Offered::Taken => return Some(Ok(())),
            Offered::Refused(errno) => return Some(Err(errno)),
            Offered::Unanswered if Instant::now() < deadline => sys::pause(PAUSE_MS),
            Offered::Unwanted | Offered::Unanswered => return None,
        }
    }
}

/// Hands those over again whose connection is lost.
pub(crate) fn renew(config: &Config) {
    let lost: Vec<i32> = {
        let state = state::lock();
        state.given.iter().filter(|given| given.is_down()).map(|given| given.fd).collect()
    };
    for fd in lost {
        let Ok(link) = link::connect(config) else { return };
        match hand_over(fd, link) {
            // A refused socket is offered again: the one before may not be gone yet. So is one without an answer: a
            // busy machine's culvert may take longer to begin than is waited for.
            Offered::Taken | Offered::Refused(_) | Offered::Unanswered => {}
            Offered::Unwanted => state::lock().forget(fd),
        }
    }
}

/// True if the thread that reconnects has something to do here.
pub(crate) fn is_any_down(state: &State) -> bool {
    state.given.iter().any(Given::is_down)
}

/// Hands a socket over by a new connection, if culvert wants any.
fn hand_over(fd: i32, link: i32) -> Offered {
    // With the lock held, as the program closes descriptors by it.
    let link = {
        let _state = state::lock();
        link::internal(link)
    };
    let given = match ask(link) {
        Some(true) => give(fd, link).map_err(Offered::Refused),
        Some(false) => Err(Offered::Unwanted),
        None => Err(Offered::Unanswered),
    };
    let mut state = state::lock();
    match given {
        Ok(inode) => {
            state.forget(fd);
            table::set(fd, Owner::Given);
            state.given.push(Given { fd, inode, link });
            Offered::Taken
        }
        Err(offered) => {
            link::close_internal(link);
            offered
        }
    }
}

/// Asks culvert if it wants sockets. One that knows nothing of them answers by the last record alone. `None`: there was
/// no answer.
fn ask(link: i32) -> Option<bool> {
    let port_id = std::process::id().max(1);
    let question =
        [Record::Hello { port_id }, Record::Sockets { wanted: 0 }, Record::Sync { value: 1 }];
    sys::send(link, &control(&question)).ok()?;
    hear(link, |record| match record {
        Record::Sockets { wanted } => Some(wanted != 0),
        Record::Sync { .. } => Some(false),
        _ => None,
    })
}

/// Makes a second socket and hands it over; returns the first one's inode.
fn give(fd: i32, link: i32) -> Result<u64, Errno> {
    let inode = sys::inode(fd).ok_or(libc::EBADF)?;
    let twin = twin_of(fd)?;
    let sent = sys::send_with(link, &control(&[Record::Socket { errno: 0 }]), twin);
    sys::close(twin);
    sent?;
    let answer = hear(link, |record| match record {
        Record::Socket { errno } => Some(errno),
        _ => None,
    });
    match answer {
        Some(0) => Ok(inode),
        Some(errno) => Err(errno as Errno),
        None => Err(libc::ETIMEDOUT),
    }
}

/// Waits for a record that `found` takes.
fn hear<T>(link: i32, found: impl Fn(Record) -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [0; 256];
    while Instant::now() < deadline {
        match sys::receive(link, &mut buffer, false) {
            Ok(0) => return None,
            Ok(len) => {
                let datagram = &buffer[..len.min(buffer.len())];
                let answer = shim_protocol::records(datagram)?.find_map(&found);
                if answer.is_some() {
                    return answer;
                }
            }
            Err(libc::EAGAIN | libc::EINTR) => {
                let _ = sys::wait_readable(link, LOOK_MS);
            }
            Err(_) => return None,
        }
    }
    None
}

/// A socket bound where this one is, with a program that chooses between both.
fn twin_of(fd: i32) -> Result<i32, Errno> {
    let domain = sys::int_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).ok_or(libc::ENOTSOCK)?;
    let twin = sys::datagram_socket(domain)?;
    let bound = || {
        sys::copy_option(fd, twin, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, false);
        sys::copy_option(fd, twin, libc::SOL_SOCKET, libc::SO_REUSEADDR, false);
        sys::copy_option(fd, twin, libc::SOL_SOCKET, libc::SO_MARK, false);
        for socket in [fd, twin] {
            sys::set_int_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        sys::bind_as(twin, fd)?;
        sys::choose_by(twin, &mut chooser())
    };
    bound().inspect_err(|_| sys::close(twin)).map(|()| twin)
}

fn is_udp(fd: i32) -> bool {
    let option = |option| sys::int_option(fd, libc::SOL_SOCKET, option);
    option(libc::SO_PROTOCOL) == Some(libc::IPPROTO_UDP)
        && matches!(option(libc::SO_DOMAIN), Some(libc::AF_INET | libc::AF_INET6))
}

/// Chooses the program's socket, which was there first, for what begins with four zero bytes, and culvert's for all
/// else, keepalives among it. It is given the payload.
fn chooser() -> [libc::sock_filter; 6] {
    const LOAD_LEN: u16 = 0x80;
    const LOAD_WORD: u16 = 0x20;
    const IF_AT_LEAST: u16 = 0x35;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        step(LOAD_LEN, 0, 0, 0),
        step(IF_AT_LEAST, 0, 2, 4),
        step(LOAD_WORD, 0, 0, 0),
        step(IF_EQUAL, 1, 0, 0),
        step(RETURN, 0, 0, CULVERTS),
        step(RETURN, 0, 0, PROGRAMS),
    ]
}

/// Places in the group, in the order of binding.
const PROGRAMS: u32 = 0;
const CULVERTS: u32 = 1;
