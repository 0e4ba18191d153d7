//! A netlink socket for requests and their answers.

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_XFRM};
use zeroize::Zeroize;

use crate::codec::{Field, Header, Message, Messages, kind};

/// Requests to the kernel's XFRM, one at a time.
pub(super) struct Connection {
    socket: Socket,
    sequence: u32,
    /// It may hold keys, and is all zeros between datagrams.
    buffer: Message,
}

impl Connection {
    pub(super) fn open() -> io::Result<Connection> {
        let mut socket = Socket::new(NETLINK_XFRM)?;
        socket.bind_auto()?;
        // Connected to the kernel: nobody else's messages are received.
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_cap_ack(true)?;
        Ok(Connection { socket, sequence: 0, buffer: Message::new(vec![0; BUFFER_LEN]) })
    }

    /// Sends a request and waits for its acknowledgement; `false` where what it names is not there.
    pub(super) fn command(&mut self, build: impl FnOnce(u32) -> Message) -> io::Result<bool> {
        self.send(build)?;
        loop {
            for (header, message) in self.receive()? {
                if header.kind == kind::ERROR {
                    return found(&message);
                }
            }
        }
    }

    /// Sends a request and waits for its answer; `None` where what it names is not there.
    pub(super) fn ask(
        &mut self,
        build: impl FnOnce(u32) -> Message,
    ) -> io::Result<Option<Message>> {
        self.send(build)?;
        loop {
            if let Some((header, message)) = self.receive()?.into_iter().next() {
                return match header.kind {
                    kind::ERROR => found(&message).map(|_| None),
                    _ => Ok(Some(message)),
                };
            }
        }
    }

    /// Asks for all of something. Returns what came, and whether changes got in between, so that it may
    /// be inconsistent.
    pub(super) fn dump(
        &mut self,
        build: impl FnOnce(u32) -> Message,
    ) -> io::Result<(Vec<Message>, bool)> {
        self.send(build)?;
        let (mut messages, mut is_stale) = (Vec::new(), false);
        loop {
            for (header, message) in self.receive()? {
                is_stale |= header.flags & DUMP_INTERRUPTED != 0;
                match header.kind {
                    kind::ERROR => return found(&message).map(|_| (messages, is_stale)),
                    kind::DONE => return Ok((messages, is_stale)),
                    _ => messages.push(message),
                }
            }
        }
    }

    fn send(&mut self, build: impl FnOnce(u32) -> Message) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&build(self.sequence), 0).map(drop)
    }

    /// The next datagram's messages that answer the request under way.
    fn receive(&mut self) -> io::Result<Vec<(Header, Message)>> {
        let len = loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        let datagram = self.buffer.get(..len).unwrap_or_default();
        let answers = Messages::new(datagram).filter(|(header, _)| header.seq == self.sequence);
        let answers = answers.map(|(header, whole)| (header, Message::new(whole.to_vec())));
        let answers = answers.collect();
        self.buffer[..len.min(BUFFER_LEN)].zeroize();
        Ok(answers)
    }
}

/// What an acknowledgement says: done, or not there.
fn found(message: &Message) -> io::Result<bool> {
    let body = message.get(Header::LEN..).unwrap_or_default();
    match body.first_chunk::<4>().map_or(0, |b| -i32::from_ne_bytes(*b)) {
        0 => Ok(true),
        libc::ESRCH | libc::ENOENT => Ok(false),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Linux fills datagrams of a dump to at most 32 KiB.
const BUFFER_LEN: usize = 64 * 1024;

/// `NLM_F_DUMP_INTR`.
const DUMP_INTERRUPTED: u16 = 0x10;
