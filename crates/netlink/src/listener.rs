//! Notifications of the kernel.

use std::io;
use std::os::fd::BorrowedFd;

use crate::fault::Fault;
use crate::field::Field as _;
#[cfg(any(test, feature = "memory"))]
use crate::memory::{InMemory, Inbox, Line};
use crate::message::{Header, Messages};
use crate::socket::{KernelSocket, Protocol};

/// A socket that never waits: for multicast groups, or for answers that come in their time.
pub struct Listener {
    socket: KernelSocket,
}

/// Messages or losses that were heard.
#[derive(Clone, Debug)]
pub enum Heard<'a> {
    /// A message: its header, and what follows it.
    Message(Header, &'a [u8]),
    /// Messages were lost here: what they told has to be asked for.
    Lost,
}

impl Listener {
    /// Subscribes to multicast groups (up to 32), with room for so many bytes of messages that wait;
    /// by default that of the system.
    ///
    /// # Errors
    /// The kernel does not have the family, or does not let this process hear the groups.
    pub fn subscribe(
        protocol: Protocol,
        groups: &[u32],
        room: Option<usize>,
    ) -> io::Result<Listener> {
        Ok(Listener { socket: KernelSocket::subscribe(protocol, groups, room)? })
    }

    /// Hears answers to what it [sends](Listener::send), and nothing else.
    ///
    /// # Errors
    /// The kernel does not have the family, or does not let this process ask.
    pub fn open(protocol: Protocol) -> io::Result<Listener> {
        Self::of(KernelSocket::open(protocol)?)
    }

    /// Hears what is put into `inbox`, and what a kernel in memory answers.
    ///
    /// # Errors
    /// The process has no descriptor left.
    #[cfg(any(test, feature = "memory"))]
    pub fn in_memory(inbox: Inbox, kernel: Box<dyn InMemory>) -> io::Result<Listener> {
        Ok(Listener { socket: KernelSocket::in_memory(Line::new(inbox, kernel)?) })
    }

    pub(crate) fn of(socket: KernelSocket) -> io::Result<Listener> {
        socket.set_non_blocking()?;
        Ok(Listener { socket })
    }

    /// Readable when there is something to hear.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// Subscribes to a multicast group more, such as one that was numbered at run time.
    ///
    /// # Errors
    /// There is no such group, or this process may not hear it.
    pub fn join(&self, group: u32) -> io::Result<()> {
        self.socket.join(group)
    }

    /// Sends messages.
    ///
    /// # Errors
    /// The socket's.
    pub fn send(&self, messages: &[u8]) -> io::Result<()> {
        self.socket.send(messages)
    }

    /// Hands what is there to `each`, in order, at most `most` datagrams of it.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn hear(&mut self, most: usize, mut each: impl FnMut(Heard<'_>)) -> io::Result<()> {
        for _ in 0..most {
            let result = self.socket.receive(|datagram| {
                for (header, message) in Messages::new(datagram) {
                    each(Heard::Message(header, message.get(Header::LEN..).unwrap_or_default()));
                }
            });
            match result {
                Err(Fault::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(Fault::Lost) => each(Heard::Lost),
                result => result?,
            }
        }
        Ok(())
    }

    /// Takes all that is there without looking at it: the kernel discards what it says. Returns
    /// whether there was something.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn drain(&mut self) -> io::Result<bool> {
        let mut has_heard = false;
        loop {
            match self.socket.discard() {
                Err(Fault::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(()) | Err(Fault::Lost) => has_heard = true,
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(has_heard)
    }
}
