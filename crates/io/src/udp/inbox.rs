//! Bytes that a UDP socket has received, until they are cut into frames.

use core::net::SocketAddr;
use core::ops::Range;
use std::io;
use std::os::fd::BorrowedFd;

use super::socket::{CONTROL_LEN, NAME_LEN, Told, address, told};
use crate::messages::Messages;

/// One datagram, or several that the kernel has joined.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: SocketAddr,
    pub(super) told: Told,
    /// Where it lies, to be given to [`Inbox::bytes`].
    pub(super) place: Range<usize>,
}

/// Datagrams with their peers, and what the kernel tells of each.
pub(super) struct Inbox(Messages<NAME_LEN, CONTROL_LEN>);

impl Inbox {
    pub(super) fn new() -> Self {
        Self(Messages::new())
    }

    /// Receives what is there; false if that is nothing. Only for an inbox that was taken all out of.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        self.0.receive(socket).or_else(|error| match error.raw_os_error() {
            // An error of a router or the peer about a datagram sent before.
            Some(
                libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EMSGSIZE
                | libc::EPROTO
                | libc::EACCES,
            ) => Ok(false),
            _ => Err(error),
        })
    }

    /// The next message. `Some(None)` for one that is of no use.
    pub(super) fn next(&mut self) -> Option<Option<Message>> {
        let received = self.0.next()?;
        let is_whole = received.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
        let from = address(received.name).filter(|_| is_whole);
        let (told, place) = (told(received.control), received.place);
        Some(from.map(|from| Message { from, told, place }))
    }

    /// A message's bytes.
    pub(super) fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.0.bytes(place)
    }
}
