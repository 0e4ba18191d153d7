//! The work of each call on a socket of ours.
//!
//! Every function takes the lock by itself. Those that may have to wait do not wait: they return
//! [`Outcome::Wait`], and the interposed function waits where no lock is held and the thread may be
//! cancelled.

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::flight::wipe;
use crate::link;
use crate::netlink::{self, xfrm};
use crate::rescue;
use crate::shim_protocol::{self, MAX_DATAGRAM_LEN, Record};
use crate::socket::{Link, MAX_GROUP, Registration, Socket, choose_port_id, control};
use crate::state::{self, State};
use crate::sys::{self, Errno};
use crate::table::{self, Owner};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    /// The descriptor is not ours: the C library's function is to be called.
    Foreign,
    /// The call would block, and the caller is willing to wait.
    Wait,
    /// The result of the call.
    Done(Result<T, Errno>),
}

use Outcome::{Done, Foreign, Wait};

/// Linux's `NETLINK_*` socket options.
pub(crate) mod option {
    pub(crate) const ADD_MEMBERSHIP: i32 = 1;
    pub(crate) const DROP_MEMBERSHIP: i32 = 2;
    pub(crate) const LIST_MEMBERSHIPS: i32 = 9;
    /// Options that are switches: PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, LISTEN_ALL_NSID, CAP_ACK,
    /// EXT_ACK, GET_STRICT_CHK.
    pub(crate) const SWITCHES: [i32; 7] = [3, 4, 5, 8, 10, 11, 12];
}

/// How long `bind` and joining a group wait for the server's confirmation.
const SYNC_PATIENCE: Duration = Duration::from_secs(2);

/// The pause between two attempts of a call that waits for the server.
const PAUSE_MS: u32 = 20;

/// `socket`: waits for the server if it is away.
pub(crate) fn socket(kind: i32, config: &'static Config) -> Result<i32, Errno> {
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let kind = kind & !flags;
    if kind != libc::SOCK_RAW && kind != libc::SOCK_DGRAM {
        return Err(libc::ESOCKTNOSUPPORT);
    }
    let deadline = Instant::now() + config.wait;
    let fd = loop {
        match link::connect(config) {
            Ok(fd) => break fd,
            Err(libc::ENOENT | libc::ECONNREFUSED | libc::EAGAIN) if Instant::now() < deadline => {
                sys::pause(PAUSE_MS);
            }
            Err(libc::ENOENT | libc::EAGAIN) => return Err(libc::ECONNREFUSED),
            Err(e) => return Err(e),
        }
    };
    if flags & libc::SOCK_CLOEXEC == 0 {
        let _ = sys::fcntl(fd, libc::F_SETFD, 0);
    }
    if flags & libc::SOCK_NONBLOCK == 0 {
        let _ = sys::fcntl(fd, libc::F_SETFL, 0);
    }
    let inode = sys::inode(fd).unwrap_or(0);
    if state::lock().insert(fd, Socket::new(kind, inode)).is_none() {
        sys::close(fd);
        return Err(libc::EMFILE);
    }
    Ok(fd)
}

/// Sends one datagram, which the server has to take whole.
pub(crate) fn send(fd: i32, bytes: &[u8], dont_wait: bool) -> Outcome<usize> {
    let Some(config) = state::config() else { return Foreign };
    if bytes.len() > MAX_DATAGRAM_LEN {
        return if table::is_socket(fd) { Done(Err(libc::EMSGSIZE)) } else { Foreign };
    }
    let deadline = Instant::now() + config.wait;
    loop {
        match try_send(fd, bytes, dont_wait, config) {
            // The server is away or its queue full; both end soon or not at all.
            Wait if Instant::now() < deadline => sys::pause(PAUSE_MS),
            Wait => return Done(Err(libc::ECONNREFUSED)),
            outcome => return outcome,
        }
    }
}

fn try_send(fd: i32, bytes: &[u8], dont_wait: bool, config: &'static Config) -> Outcome<usize> {
    let mut state = state::lock();
    if state.socket(fd).is_none() {
        return Foreign;
    }
    // A connection may turn out to be lost; then there is one attempt with a new one.
    for _ in 0..2 {
        if let Err(e) = ensure_bound(&mut state, fd, config) {
            return Done(Err(e));
        }
        if !ensure_up(&mut state, fd, config) {
            break;
        }
        let Some((number, socket)) = state.socket(fd) else { return Foreign };
        socket.flight.sent(bytes, Instant::now());
        match sys::send(fd, bytes) {
            Ok(len) => return Done(Ok(len)),
            Err(e) => {
                socket.flight.take_back(bytes);
                match e {
                    libc::EAGAIN if blocks(fd, dont_wait) => return Wait,
                    e if is_loss(e) => {
                        if let Err(e) = link::park(number, socket, config, Instant::now()) {
                            return Done(Err(e));
                        }
                    }
                    e => return Done(Err(e)),
                }
            }
        }
    }
    if blocks(fd, dont_wait) { Wait } else { Done(Err(libc::ECONNREFUSED)) }
}

/// Length and groups of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Length of the datagram in bytes, also where the program has less room for it.
    pub(crate) len: usize,
    /// `nl_groups` of its sender's address: not 0 for a multicast event.
    pub(crate) groups: u32,
}

/// Receives one datagram and hands it to `deliver`.
pub(crate) fn receive(
    fd: i32,
    peek: bool,
    dont_wait: bool,
    deliver: &mut dyn FnMut(&[u8]),
) -> Outcome<Received> {
    let Some(config) = state::config() else { return Foreign };
    let mut state = state::lock();
    let mut buffer = state.take_buffer();
    let outcome = receive_locked(&mut state, fd, peek, dont_wait, deliver, &mut buffer, config);
    state.buffer = buffer;
    outcome
}

fn receive_locked(
    state: &mut State,
    fd: i32,
    peek: bool,
    dont_wait: bool,
    deliver: &mut dyn FnMut(&[u8]),
    buffer: &mut [u8],
    config: &'static Config,
) -> Outcome<Received> {
    loop {
        let Some((_, socket)) = state.socket(fd) else { return Foreign };
        // 1. What the library itself has to deliver.
        if std::mem::take(&mut socket.overrun) {
            return Done(Err(libc::ENOBUFS));
        }
        if let Some(bytes) = socket.made_up.front() {
            let received = Received { len: bytes.len(), groups: 0 };
            deliver(bytes);
            if !peek {
                socket.made_up.pop_front();
            }
            return Done(Ok(received));
        }
        // 2. A connection, if there can be one.
        let up = ensure_up(state, fd, config);
        let Some((number, socket)) = state.socket(fd) else { return Foreign };
        if socket.overrun {
            continue;
        }
        // 3. What the server sent.
        let len = match sys::receive(fd, buffer, peek) {
            Ok(0) => {
                if let Err(e) = link::park(number, socket, config, Instant::now()) {
                    return Done(Err(e));
                }
                continue;
            }
            Ok(len) => len,
            Err(libc::EAGAIN) if blocks(fd, dont_wait) => return Wait,
            Err(e) if is_loss(e) => {
                if let Err(e) = link::park(number, socket, config, Instant::now()) {
                    return Done(Err(e));
                }
                continue;
            }
            Err(e) => return Done(Err(e)),
        };
        let datagram = &buffer[..len.min(buffer.len())];
        if let Some(records) = shim_protocol::records(datagram) {
            records.for_each(|r| note_control(socket, r));
            if up {
                socket.server_spoke();
            }
            if peek {
                // It is not for the program: discarded.
                let _ = sys::receive(fd, &mut [0; 8], false);
            }
            continue;
        }
        socket.server_spoke();
        let port_id = socket.port_id.unwrap_or(0);
        let answers = match peek {
            true => socket.flight.would_answer(datagram, port_id),
            false => socket.flight.received(datagram, port_id),
        };
        let event = netlink::headers(datagram).next().map_or(0, |h| xfrm::event_group(h.kind));
        let groups = if answers { 0 } else { event & socket.groups };
        deliver(datagram);
        let used = len.min(buffer.len());
        wipe(&mut buffer[..used]);
        return Done(Ok(Received { len, groups }));
    }
}

fn note_control(socket: &mut Socket, record: Record) {
    match record {
        Record::Overrun { .. } => socket.note_overrun(),
        Record::Sync { value } => socket.synchronised = value,
        _ => {}
    }
}

/// `bind`: port id 0 lets the library choose.
pub(crate) fn bind(fd: i32, port_id: u32, groups: u32) -> Outcome<()> {
    let Some(config) = state::config() else { return Foreign };
    let mut state = state::lock();
    let Some((_, socket)) = state.socket(fd) else { return Foreign };
    let bound = socket.port_id;
    match bound {
        Some(own) if port_id != 0 && port_id != own => return Done(Err(libc::EINVAL)),
        None if port_id != 0 && state.has_port_id(port_id) => return Done(Err(libc::EADDRINUSE)),
        _ => {}
    }
    let taken = |id| state.has_port_id(id);
    let choice = if port_id == 0 { choose_port_id(std::process::id(), taken) } else { port_id };
    let Some((_, socket)) = state.socket(fd) else { return Foreign };
    socket.groups = groups;
    socket.port_id.get_or_insert(choice);
    let sync = state.sync_number();
    let Some((_, socket)) = state.socket(fd) else { return Foreign };
    let introduction = socket.introduction(sync).unwrap_or_default();
    let said = say(&mut state, fd, &introduction, config);
    drop(state);
    Done(said.map(|()| await_sync(fd, sync, config)))
}

/// `NETLINK_ADD_MEMBERSHIP` and `NETLINK_DROP_MEMBERSHIP`.
pub(crate) fn set_membership(fd: i32, group: u32, member: bool) -> Outcome<()> {
    let Some(config) = state::config() else { return Foreign };
    if group == 0 || group > MAX_GROUP {
        return Done(Err(libc::EINVAL));
    }
    let mut state = state::lock();
    if state.socket(fd).is_none() {
        return Foreign;
    }
    if let Err(e) = ensure_bound(&mut state, fd, config) {
        return Done(Err(e));
    }
    let sync = state.sync_number();
    let Some((_, socket)) = state.socket(fd) else { return Foreign };
    let bit = 1 << (group - 1);
    let record = if member {
        socket.groups |= bit;
        Record::Subscribe { group }
    } else {
        socket.groups &= !bit;
        Record::Unsubscribe { group }
    };
    let said = say(&mut state, fd, &control(&[record, Record::Sync { value: sync }]), config);
    drop(state);
    Done(said.map(|()| await_sync(fd, sync, config)))
}

/// A `SOL_NETLINK` option that is a switch.
pub(crate) fn set_switch(fd: i32, option: u32, on: bool) -> Outcome<()> {
    let Some(config) = state::config() else { return Foreign };
    let mut state = state::lock();
    let Some((_, socket)) = state.socket(fd) else { return Foreign };
    socket.set_option(option, on);
    if socket.port_id.is_none() {
        return Done(Ok(()));
    }
    let record = if on { Record::OptionOn { option } } else { Record::OptionOff { option } };
    Done(say(&mut state, fd, &control(&[record]), config))
}

/// A socket as `getsockname` and `getsockopt` describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// SOCK_RAW or SOCK_DGRAM.
    pub(crate) kind: i32,
    /// `nl_pid`, 0 while not bound.
    pub(crate) port_id: u32,
    /// Groups that it listens to (`nl_groups`).
    pub(crate) groups: u32,
    /// The switches that are on, by bit.
    pub(crate) options: u32,
}

/// Describes the socket; `None` if it is not ours.
pub(crate) fn describe(fd: i32) -> Option<Description> {
    let mut state = state::lock();
    let (_, s) = state.socket(fd)?;
    let port_id = s.port_id.unwrap_or(0);
    Some(Description { kind: s.kind, port_id, groups: s.groups, options: s.options })
}

/// `SO_ERROR`: tells of an overrun once, as the kernel does.
pub(crate) fn take_error(fd: i32) -> Option<Errno> {
    let mut state = state::lock();
    let (_, s) = state.socket(fd)?;
    Some(if std::mem::take(&mut s.overrun) { libc::ENOBUFS } else { 0 })
}

/// Binds the socket if it is not bound, as the kernel does on first use.
pub(crate) fn connect(fd: i32) -> Outcome<()> {
    let Some(config) = state::config() else { return Foreign };
    let mut state = state::lock();
    match state.socket(fd) {
        Some(_) => Done(ensure_bound(&mut state, fd, config)),
        None => Foreign,
    }
}

/// The body of `close`, for our sockets.
pub(crate) fn close(fd: i32) -> Outcome<()> {
    if !state::is_own_process() {
        return Foreign;
    }
    let mut state = state::lock();
    if table::owner(fd) == Owner::Internal {
        // The program believes that nobody has this number.
        return Done(Err(libc::EBADF));
    }
    state.forget(fd);
    // With the lock held, lest another thread is given the number before it is foreign.
    sys::close(fd);
    Done(Ok(()))
}

/// `close_range` and `closefrom`: forgets what is about to be closed. Internal descriptors in the
/// range are lost too; their sockets notice that as a lost connection.
pub(crate) fn forget_range(first: u32, last: u32) {
    if !state::is_own_process() || first > last {
        return;
    }
    let mut state = state::lock();
    for (fd, _) in table::ours(first..=last) {
        state.forget(fd);
    }
}

/// `dup` and `fcntl(F_DUPFD)`: `new` is a copy of `old`.
pub(crate) fn duplicated(old: i32, new: i32) {
    if !state::is_own_process() {
        return;
    }
    let mut state = state::lock();
    if let Some((number, _)) = state.socket(old)
        && !table::set(new, Owner::Socket(number))
    {
        state.forget(new);
    }
}

/// `dup2` and `dup3`, of which one side or both are ours.
pub(crate) fn replace(old: i32, new: i32, close_on_exec: bool) -> Outcome<i32> {
    if !state::is_own_process() || old == new {
        return Foreign;
    }
    let mut state = state::lock();
    if table::owner(new) == Owner::Internal {
        // The program does not know of it; a socket that loses it is parked again.
        table::set(new, Owner::Foreign);
    }
    if let Err(e) = sys::replace(old, new, close_on_exec) {
        return Done(Err(e));
    }
    state.forget(new);
    if let Some((number, _)) = state.socket(old) {
        table::set(new, Owner::Socket(number));
    }
    Done(Ok(new))
}

/// `epoll_ctl` on one of our sockets.
pub(crate) fn epoll_control(operation: i32, new: Registration) -> Outcome<()> {
    let mut state = state::lock();
    let Some((_, socket)) = state.socket(new.fd) else { return Foreign };
    let Registration { epoll, fd, events, data } = new;
    let result = sys::epoll_control(epoll, operation, fd, events, data);
    if result.is_ok() {
        socket.registrations.retain(|r| (r.epoll, r.fd) != (epoll, fd));
        if operation != libc::EPOLL_CTL_DEL {
            socket.registrations.push(new);
            table::set(epoll, Owner::Epoll);
        }
    }
    Done(result)
}

/// Makes the socket known to the server if it is not.
fn ensure_bound(state: &mut State, fd: i32, config: &'static Config) -> Result<(), Errno> {
    let choice = choose_port_id(std::process::id(), |id| state.has_port_id(id));
    let sync = state.sync_number();
    let Some((_, socket)) = state.socket(fd) else { return Err(libc::EBADF) };
    if socket.port_id.is_some() {
        return Ok(());
    }
    socket.port_id = Some(choice);
    let introduction = socket.introduction(sync).unwrap_or_default();
    say(state, fd, &introduction, config)
}

/// Sends a control datagram. A server that is away is no error: a new connection is introduced.
fn say(state: &mut State, fd: i32, bytes: &[u8], config: &'static Config) -> Result<(), Errno> {
    let Some((number, socket)) = state.socket(fd) else { return Err(libc::EBADF) };
    if socket.link != Link::Up {
        ensure_up(state, fd, config);
        return Ok(());
    }
    match sys::send(fd, bytes) {
        Ok(_) => Ok(()),
        // With a full queue, a new connection makes sure that the server is told.
        Err(e) if is_loss(e) || e == libc::EAGAIN => {
            link::park(number, socket, config, Instant::now())?;
            ensure_up(state, fd, config);
            Ok(())
        }
        Err(e) => Err(e),
    }
}

/// Tries to reconnect if the socket is parked, and sees to it that somebody goes on trying.
fn ensure_up(state: &mut State, fd: i32, config: &'static Config) -> bool {
    let sync = state.sync_number();
    let Some((number, socket)) = state.socket(fd) else { return false };
    let up = link::revive(number, socket, config, sync, Instant::now());
    if !up {
        rescue::ensure_running(state, config);
    }
    up
}

/// Waits up to [`SYNC_PATIENCE`] until the server has handled everything sent to it.
fn await_sync(fd: i32, sync: u32, config: &'static Config) {
    let deadline = Instant::now() + SYNC_PATIENCE;
    while Instant::now() < deadline {
        {
            let mut state = state::lock();
            let mut first = [0; 64];
            // The next call deals with a broken connection: a new one is introduced anew.
            let Some((_, socket)) = state.socket(fd).filter(|(_, s)| s.link == Link::Up) else {
                return;
            };
            if socket.synchronised == sync {
                return;
            }
            match sys::receive(fd, &mut first, true) {
                Err(libc::EAGAIN) => {}
                Ok(len) if len > 0 => {
                    let Some(records) = shim_protocol::records(&first[..len.min(64)]) else {
                        // Netlink, so what was to take effect has had time to.
                        return;
                    };
                    records.for_each(|r| note_control(socket, r));
                    socket.server_spoke();
                    let _ = sys::receive(fd, &mut first, false);
                    continue;
                }
                _ => {
                    if let Some((number, socket)) = state.socket(fd) {
                        let _ = link::park(number, socket, config, Instant::now());
                        ensure_up(&mut state, fd, config);
                    }
                    return;
                }
            }
        }
        let _ = sys::wait_readable(fd, PAUSE_MS);
    }
}

/// True if the errno says that the connection is gone.
fn is_loss(errno: Errno) -> bool {
    matches!(errno, libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::ECONNREFUSED)
}

/// True if the caller is willing to wait.
fn blocks(fd: i32, dont_wait: bool) -> bool {
    !dont_wait && sys::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|f| f & libc::O_NONBLOCK == 0)
}
