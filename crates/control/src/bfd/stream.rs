//! The connection to `bfdd`: bytes to and fro, without waiting for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bfd::dplane::{Message, Wrong, parse};
use config::DataPlane;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    getpeername, ipproto, recv, send, socket_with, sockopt,
};
use thiserror::Error;

/// Bytes that are read in a round at most, so that everything else has its turn.
const MOST_READ: usize = 64 << 10;

/// Bytes that may wait to be sent: `bfdd` does not read if there are more.
const MOST_UNSENT: usize = 1 << 20;

/// Reason that a connection has ended.
#[derive(Debug, Error)]
pub enum Lost {
    /// The socket failed.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// The other end has closed it.
    #[error("bfdd has closed the connection")]
    Closed,
    /// It has sent what is no message.
    #[error("{0}")]
    Wrong(Wrong),
    /// It does not read what is sent to it.
    #[error("bfdd does not read")]
    Deaf,
}

impl From<Errno> for Lost {
    fn from(errno: Errno) -> Lost {
        Lost::Failed(errno.into())
    }
}

/// A connection, or an attempt at one.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    is_connected: bool,
    heard: Vec<u8>,
    unsent: Vec<u8>,
}

impl Stream {
    /// Begins to connect.
    ///
    /// # Errors
    /// Nobody listens there, or may be asked.
    pub fn connect(to: &DataPlane) -> io::Result<Stream> {
        let family = match to {
            DataPlane::Unix(_) => AddressFamily::UNIX,
            DataPlane::Tcp(addr) if addr.is_ipv4() => AddressFamily::INET,
            DataPlane::Tcp(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let protocol = matches!(to, DataPlane::Tcp(_)).then_some(ipproto::TCP);
        let socket = socket_with(family, SocketType::STREAM, flags, protocol)?;
        let begun = match to {
            DataPlane::Unix(path) => connect(&socket, &SocketAddrUnix::new(path)?),
            DataPlane::Tcp(addr) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                connect(&socket, addr)
            }
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Stream { socket, is_connected: false, heard: Vec::new(), unsent: Vec::new() })
    }

    /// True once the other end has accepted.
    pub fn is_connected(&mut self) -> bool {
        self.is_connected = self.is_connected || getpeername(&self.socket).is_ok();
        self.is_connected
    }

    /// True if bytes wait until the socket has room.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn read(&mut self) -> Result<(), Lost> {
        let mut bytes = [0; 4096];
        let mut left = MOST_READ;
        while left > 0 {
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Lost::Closed),
                Ok((len, _)) => {
                    self.heard.extend_from_slice(bytes.get(..len).unwrap_or_default());
                    left = left.saturating_sub(len);
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Takes the messages that have come as a whole, in their order. What was no message ends them.
    pub fn messages(&mut self) -> (Vec<Message>, Result<(), Lost>) {
        let (mut messages, mut at) = (Vec::new(), 0);
        let end = loop {
            match parse(self.heard.get(at..).unwrap_or_default()) {
                Ok(Some((message, len))) => {
                    messages.push(message);
                    at += len;
                }
                Ok(None) => break Ok(()),
                Err(wrong) => break Err(Lost::Wrong(wrong)),
            }
        };
        self.heard.drain(..at);
        (messages, end)
    }

    /// Sends a message, now or when there is room.
    pub fn say(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// The connection has ended, or nobody reads.
    pub fn flush(&mut self) -> Result<(), Lost> {
        let mut at = 0;
        while let Some(bytes) = self.unsent.get(at..).filter(|bytes| !bytes.is_empty()) {
            match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(len) => at += len,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.unsent.drain(..at);
        if self.unsent.len() > MOST_UNSENT { Err(Lost::Deaf) } else { Ok(()) }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
