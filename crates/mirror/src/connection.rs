//! A netlink socket for requests and their answers.

use std::io;

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::attribute::Request;
use crate::decode::{Incoming, Message, decode};
use crate::error::Error;
use crate::uapi::{NLM_F_ACK, NLM_F_DUMP};

/// Requests to rtnetlink, one at a time.
pub(crate) struct Connection {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) fn new() -> Result<Connection, Error> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        // Connected to the kernel: nobody else's messages are received.
        socket.connect(&SocketAddr::new(0, 0))?;
        // Errors with an explanation, and without the request repeated.
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        Ok(Connection { socket, sequence: 0, buffer: Vec::with_capacity(BUFFER_LEN) })
    }

    /// Sends a request and waits for its acknowledgement; `what` names it in errors.
    pub(crate) fn command(
        &mut self,
        what: &str,
        kind: u16,
        flags: u16,
        build: impl FnOnce(u16, u16) -> Request,
    ) -> Result<(), Error> {
        self.send(build(kind, flags | NLM_F_ACK))?;
        loop {
            for incoming in self.receive()? {
                if let Message::Error(errno, text) = incoming.message {
                    return outcome(what, errno, text);
                }
            }
        }
    }

    /// Asks for all of something and returns what came, and whether changes got in between, so
    /// that it may be inconsistent.
    pub(crate) fn dump(
        &mut self,
        what: &str,
        kind: u16,
        header: &[u8],
    ) -> Result<(Vec<Message>, bool), Error> {
        self.send(Request::new(kind, NLM_F_DUMP, header))?;
        let mut messages = Vec::new();
        let mut interrupted = false;
        loop {
            for incoming in self.receive()? {
                interrupted |= incoming.interrupted;
                match incoming.message {
                    Message::Done(errno) => {
                        outcome(what, errno, None)?;
                        return Ok((messages, interrupted));
                    }
                    Message::Error(errno, text) => {
                        outcome(what, errno, text)?;
                        return Ok((messages, interrupted));
                    }
                    Message::Overrun => interrupted = true,
                    message => messages.push(message),
                }
            }
        }
    }

    fn send(&mut self, request: Request) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        self.socket.send(&bytes, 0)?;
        Ok(())
    }

    /// The next datagram's messages that answer the request under way.
    fn receive(&mut self) -> Result<Vec<Incoming>, Error> {
        loop {
            match receive_datagram(&self.socket, &mut self.buffer, 0) {
                Ok(()) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        let sequence = self.sequence;
        Ok(decode(&self.buffer).filter(|incoming| incoming.sequence == sequence).collect())
    }
}

fn outcome(what: &str, errno: i32, explanation: Option<String>) -> Result<(), Error> {
    match errno {
        0 => Ok(()),
        _ => Err(Error::Refused {
            what: what.to_owned(),
            source: io::Error::from_raw_os_error(errno),
            explanation,
        }),
    }
}

/// Receives one datagram from the kernel into the buffer; what others send is dropped.
///
/// # Errors
/// As `recvmsg(2)`: `WouldBlock` when there is none, `ENOBUFS` after an overrun, and `ENOBUFS` for
/// a datagram that does not fit, since it is lost as well.
pub(crate) fn receive_datagram(
    socket: &Socket,
    buffer: &mut Vec<u8>,
    flags: i32,
) -> io::Result<()> {
    loop {
        buffer.clear();
        let (len, from) = socket.recv_from(buffer, flags | libc::MSG_TRUNC)?;
        if from.port_number() != 0 {
            continue;
        }
        if len > buffer.len() {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        return Ok(());
    }
}

/// Linux fills datagrams of a dump to at most 32 KiB.
pub(crate) const BUFFER_LEN: usize = 64 * 1024;
