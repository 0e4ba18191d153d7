//! The far side of a socket's descriptors: a connection, or a placeholder while there is none.
//!
//! All of it runs with the state's lock held and never waits.

use std::time::Instant;

use crate::config::Config;
use crate::shim_protocol::Record;
use crate::socket::{Link, Socket, control};
use crate::sys::{self, Errno};
use crate::table::{self, Owner};

/// Internal descriptors get numbers from here on, out of the way of programs that expect low ones.
const FIRST_INTERNAL: i32 = 512;

/// A new connection to the server, as a descriptor that does not block and closes on exec.
pub(crate) fn connect(config: &Config) -> Result<i32, Errno> {
    let fd = sys::unix_socket(libc::SOCK_NONBLOCK)?;
    sys::connect(fd, &config.path).inspect_err(|_| sys::close(fd))?;
    Ok(fd)
}

/// The connection is lost: puts a placeholder behind the descriptors, on which a program that
/// polls sleeps.
///
/// # Errors
///
/// If no more descriptors can be had; the next call tries again.
pub(crate) fn park(
    number: u32,
    socket: &mut Socket,
    config: &Config,
    now: Instant,
) -> Result<(), Errno> {
    let [placeholder, waker] = sys::socket_pair()?;
    let waker = internal(waker);
    swap(number, socket, placeholder);
    sys::close(placeholder);
    let since = match socket.link {
        Link::Parked { since, .. } => since,
        Link::Up => now,
    };
    discard(socket);
    socket.link = Link::Parked { waker, fresh: None, since };
    let port_id = socket.port_id.unwrap_or(0);
    let mut ends = socket.flight.interrupt(port_id);
    ends.extend(socket.flight.give_up_older(now, config.wait, libc::ECONNREFUSED, port_id));
    if !ends.is_empty() {
        socket.made_up.extend(ends);
        wake(socket);
    }
    Ok(())
}

/// Moves a descriptor out of the program's way and notes that it is the library's.
pub(crate) fn internal(fd: i32) -> i32 {
    let high = sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_INTERNAL);
    let high = high.inspect(|_| sys::close(fd)).unwrap_or(fd);
    table::set(high, Owner::Internal);
    high
}

/// Tries to put a new connection in the placeholder's place; true if the socket is up afterwards.
///
/// This takes two calls: one that connects and introduces the socket, and one that finds the
/// server's answer there. Only a connection that can be read from may take the placeholder's
/// place, since `poll` and `select`, once woken, look at what is behind the descriptor *now*: if
/// they found nothing there, they would sleep on, registered at the placeholder alone.
pub(crate) fn revive(
    number: u32,
    socket: &mut Socket,
    config: &Config,
    sync: u32,
    now: Instant,
) -> bool {
    let Link::Parked { fresh: known, .. } = socket.link else { return true };
    let fd = match known {
        Some(fd) => fd,
        None if !socket.may_retry(now) => return false,
        None => match introduce(socket, config, sync) {
            Some(fd) => fd,
            None => return false,
        },
    };
    if let Link::Parked { fresh, .. } = &mut socket.link {
        *fresh = Some(fd);
    }
    if socket.port_id.is_some() {
        match sys::receive(fd, &mut [0; 8], true) {
            Ok(len) if len > 0 => {}
            Err(libc::EAGAIN) => return false,
            _ => {
                drop_fresh(socket);
                return false;
            }
        }
    }
    wake(socket);
    swap(number, socket, fd);
    discard(socket);
    socket.link = Link::Up;
    if socket.groups != 0 {
        socket.note_overrun();
    }
    true
}

/// A new connection, on which the socket was introduced and its unanswered requests sent again.
fn introduce(socket: &Socket, config: &Config, sync: u32) -> Option<i32> {
    let fd = internal(connect(config).ok()?);
    let introduction = socket.introduction(sync);
    let said = introduction
        .iter()
        .map(Vec::as_slice)
        .chain(socket.flight.unanswered())
        .try_for_each(|datagram| sys::send(fd, datagram).map(|_| ()));
    if said.is_err() {
        close_internal(fd);
        return None;
    }
    Some(fd)
}

/// Gives up a connection that did not come to be used: it broke, or belongs to the process that
/// this one was forked from.
pub(crate) fn drop_fresh(socket: &mut Socket) {
    if let Link::Parked { fresh, .. } = &mut socket.link
        && let Some(fd) = fresh.take()
    {
        close_internal(fd);
    }
}

/// Closes a descriptor of the library's own.
pub(crate) fn close_internal(fd: i32) {
    // Program code can have closed it behind our back, with a raw system call.
    if table::owner(fd) == Owner::Internal {
        table::set(fd, Owner::Foreign);
        sys::close(fd);
    }
}

/// The server has been away for longer than a request waits: answers them all with an error.
pub(crate) fn give_up_if_late(socket: &mut Socket, config: &Config, now: Instant) {
    let Link::Parked { since, .. } = socket.link else { return };
    if socket.flight.is_empty() || now.saturating_duration_since(since) < config.wait {
        return;
    }
    let port_id = socket.port_id.unwrap_or(0);
    socket.made_up.extend(socket.flight.give_up(libc::ECONNREFUSED, port_id));
    wake(socket);
}

/// Makes a parked socket readable.
fn wake(socket: &Socket) {
    if let Link::Parked { waker, .. } = socket.link {
        // A full queue is readable already.
        let _ = sys::send(waker, &control(&[Record::Sync { value: 0 }]));
    }
}

/// Closes the library's descriptors of a parked socket.
pub(crate) fn discard(socket: &Socket) {
    if let Link::Parked { waker, fresh, .. } = socket.link {
        close_internal(waker);
        fresh.into_iter().for_each(close_internal);
    }
}

/// Puts what is behind `new` behind all of the socket's descriptors, with the old one's options,
/// flags and epoll registrations. `new` stays open too.
fn swap(number: u32, socket: &mut Socket, new: i32) {
    let Some(inode) = sys::inode(new) else { return };
    let mut first = true;
    for fd in table::descriptors(number) {
        if sys::inode(fd) != Some(socket.inode) {
            table::set(fd, Owner::Foreign);
            continue;
        }
        if std::mem::take(&mut first) {
            copy_options(fd, new);
        }
        let here = || socket.registrations.iter().filter(|r| r.fd == fd);
        // Before the descriptor changes: a process forked off may keep the old connection alive,
        // and then epoll would go on reporting its end.
        for r in here() {
            let _ = sys::epoll_control(r.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        }
        let flags = sys::fcntl(fd, libc::F_GETFD, 0).unwrap_or(libc::FD_CLOEXEC);
        if sys::replace(new, fd, flags & libc::FD_CLOEXEC != 0).is_err() {
            continue;
        }
        for r in here() {
            let _ = sys::epoll_control(r.epoll, libc::EPOLL_CTL_ADD, fd, r.events, r.data);
        }
    }
    socket.inode = inode;
}

fn copy_options(from: i32, to: i32) {
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        sys::copy_option(from, to, libc::SOL_SOCKET, option, false);
    }
    for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
        sys::copy_option(from, to, libc::SOL_SOCKET, option, true);
    }
    let flags = sys::fcntl(from, libc::F_GETFL, 0).unwrap_or(0);
    let _ = sys::fcntl(to, libc::F_SETFL, flags & libc::O_NONBLOCK);
}
